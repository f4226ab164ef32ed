"""Where paths lead that a page or a row names: raw files of provenance, and the targets of Markdown's own links.

A raw path says which raw file an artifact came from. Raw paths are compared as bytes, in their normal form only.

A target is a file of the tree, or a heading of it. It is looked for from the page's directory, or with a `/` before it
from the top of the repository; `page` finds `page.md` too, as site generators have it. Addresses of a site whose pages
the tree holds are paths where the configuration says so (`siteUrls`); all other addresses are nobody's business here.
Headings have GitHub's anchors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, NamedTuple
from urllib.parse import unquote

from ktxkit.gates.rules.model import GateOptions, Layer

RAW = "raw-sources/"
_SYNC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-")


class RawFacts:
    """What a tree, and where a job says so its snapshot, has. `current` None: what the tree keeps is the snapshot."""

    __slots__ = ("_directories", "current", "deleted", "files", "layer", "pages", "root")

    def __init__(
        self,
        files: Collection[bytes],
        pages: Set[str],
        layer: Layer,
        root: bytes = b"",
        current: Collection[str] | None = None,
        deleted: Collection[str] = frozenset(),
    ) -> None:
        self.files = files
        self.pages = pages
        self.layer = layer
        self.root = root
        self.current = current
        self.deleted = deleted
        self._directories: set[bytes] = set()

    def has_directory(self, path: bytes) -> bool:
        """Whether a file lies below a directory, which ends in `/`."""
        if not self._directories:
            self._directories.add(b"")
            for name in self.files:
                end = name.rfind(b"/") + 1
                while end and name[:end] not in self._directories:
                    self._directories.add(name[:end])
                    end = name.rfind(b"/", 0, end - 1) + 1
        return path in self._directories


def not_normal(path: str) -> str:
    """Why a path is not in its normal form, or nothing. One path has one form: `a/b`, composed (NFC), relative."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path:
        return "it is not relative, or empty"
    if any(part in ("", ".", "..") for part in parts):
        return "it has an empty, `.` or `..` part"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "it holds a control character"
    if unicodedata.normalize("NFC", path) != path:
        return "it is not composed (Unicode NFC)"
    return ""


def raw_path(path: str, known: RawFacts) -> tuple[str, str] | None:
    """(rule, message) where a raw path is refused; None where it is in the snapshot, or was deleted from it."""
    reason = not_normal(path)
    if reason:
        return "path-not-normal", f"{path}: {reason}"
    if path in known.deleted:
        return None
    if known.current is not None:
        if path in known.current:
            return None
        return "unknown-raw-path", f"{path} is neither in this snapshot nor among the paths deleted from it"
    whole = known.root + path.encode("utf-8", "surrogateescape")
    if whole in known.files:
        return None
    snapshot = _snapshot(path)
    if snapshot and known.has_directory(known.root + snapshot.encode("utf-8", "surrogateescape")):
        return "unknown-raw-path", f"{path} is not there, although its snapshot is"
    return "absent-snapshot", f"{path} lies in a snapshot that this tree does not keep"


def _snapshot(path: str) -> str:
    """What is kept or dropped as a whole: `raw-sources/CONNECTION/SOURCE/SYNC/`, or the first directory below."""
    parts = path.split("/")
    sync = next(
        (n for n, part in enumerate(parts) if part[:4].isdigit() and part[4:5] == "-" and part[7:8] == "-"), None
    )
    depth = sync + 1 if sync is not None else 2
    return "/".join(parts[:depth]) + "/" if len(parts) > depth else ""


def raw_path_of(row: Mapping[str, Any]) -> str | None:
    """The raw path of a row; a `sourcePath` that is none names something else (a warehouse table)."""
    path = row.get("rawPath", row.get("sourcePath"))
    if not isinstance(path, str):
        return None
    return path if "rawPath" in row or path.startswith(RAW) or ("/" in path and not_normal(path)) else None


def artifact(row: Mapping[str, Any], known: RawFacts) -> str | None:
    """The artifact key of a row that is not there, or None."""
    kind, key = row.get("artifactKind"), row.get("artifactKey")
    if not isinstance(key, str) or not key or kind not in ("wiki", "sl"):
        return None
    if kind == "wiki":
        page = key.removeprefix("wiki/global/").removesuffix(".md")
        whole = known.root + key.encode("utf-8", "surrogateescape")
        return None if whole in known.files or page in known.pages else key
    connection = row.get("targetConnectionId")
    head, slash, rest = key.partition("/")
    if slash:
        connection, key = head, rest
    source, dot, entity = key.partition(".")
    if dot and source in known.layer.connections and not connection:
        connection, source, entity = source, *entity.partition(".")[::2]
    found = [one for one in known.layer.find(source) if not connection or one.connection == connection]
    if any(not entity or one.has(entity) for one in found) or known.layer.is_unreadable(source, connection or ""):
        return None
    return str(row["artifactKey"])


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{")  # what a site generator puts in: nobody knows it here
_AREA = re.compile(  # what a code host has beside the files: `../../issues`, from a page at the top
    r"(?:\.\./)+(?:issues|pulls?|wiki|releases|actions|discussions|compare|commits?|tags|branches|labels|milestones|"
    r"projects|security|graphs|network|stargazers|blob|tree|raw|-)(?:/|\Z)"
)
_WEB = re.compile(r"https?://", re.IGNORECASE)
_TOP = ("", "top")
AnchorsOf = Callable[[bytes], Collection[str] | None]


class Broken(NamedTuple):
    """What is wrong with a target: rule, message, and names that are near to what is not there."""

    rule: str
    message: str
    near: tuple[str, ...] = ()


def is_kept(target: str) -> bool:
    """Whether a target may lead to a file of the tree: a path, an anchor, or an address of the web."""
    if target.startswith("//") or not target.strip() or _TEMPLATE.search(target):
        return False
    return not _SCHEME.match(target) or bool(_WEB.match(target))


def mentioned(target: str) -> str:
    """What a target is known by where a change of its file is asked about; empty for an address and an anchor."""
    path = unquote(_parts(target)[0]).rstrip("/")
    return "/" + path.rpartition("/")[2] if path and not _SCHEME.match(target) else ""


def names_of(path: bytes) -> Iterable[str]:
    """What targets that lead to a file are known by."""
    name = path.rpartition(b"/")[2].decode("utf-8", "surrogateescape")
    return ("/" + name, "/" + name.rpartition(".")[0])


def _parts(target: str) -> tuple[str, str]:
    path, _, anchor = target.partition("#")
    return path.partition("?")[0], unquote(anchor)


def _normal(path: str) -> str | None:
    """A path from the top in its normal form, empty for the top; None where it leads out."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


class Targets:
    """Judges the targets of one tree. `anchors_of`: the anchors of a page; None for what is none."""

    def __init__(self, known: RawFacts, options: GateOptions, anchors_of: AnchorsOf) -> None:
        self._known = known
        self._sites = options.sites
        self._anchors_of = anchors_of
        self._folders: dict[str, list[str]] = {}

    def broken(self, target: str, page: bytes, own: Collection[str]) -> Broken | None:
        """What is wrong with a target of a page whose own anchors are `own`."""
        path, anchor = _parts(target)
        if _WEB.match(target):
            inside = self._on_site(target)
            if inside is None:
                return None
            path, anchor = _parts(inside)
            path = "/" + path
        elif not path:
            return self._anchor(anchor, own, page)
        found = self._found(unquote(path), page)
        if found is None:
            return self._missing(target, unquote(path), page)
        anchors = own if found == page else (self._anchors_of(found) if anchor else None)
        return self._anchor(anchor, anchors, found) if anchors is not None else None

    def _on_site(self, target: str) -> str | None:
        for prefix, folder in self._sites:
            if target == prefix.rstrip("/") or target.startswith(prefix.rstrip("/") + "/"):
                inside = target[len(prefix.rstrip("/")) + 1 :]
                return f"{folder.strip('/')}/{inside}".strip("/") if folder.strip("/") else inside
        return None

    def _candidates(self, path: str, page: bytes) -> list[str]:
        """Where a path may lead, from the top; nothing where it leads out of the repository."""
        here = page.decode("utf-8", "surrogateescape")
        root = self._known.root.decode("utf-8", "surrogateescape")
        tops = ["", root] if path.startswith("/") else [here[: here.rfind("/") + 1]]
        whole = [_normal(top + path.lstrip("/")) for top in dict.fromkeys(tops)]
        return [one for one in whole if one is not None]

    def _found(self, path: str, page: bytes) -> bytes | None:
        """The file or directory that a path leads to; empty for the top."""
        for whole in self._candidates(path, page):
            if not whole:
                return b""
            plain = whole.encode("utf-8", "surrogateescape")
            for one in (plain, plain + b".md", plain + b"/index.md", plain + b"/README.md"):
                if one in self._known.files and not (one == plain and path.endswith("/")):
                    return one
            if self._known.has_directory(plain + b"/") or self._behind(plain):
                return plain
        return None

    def _behind(self, path: bytes) -> bool:
        """Whether a path leads through a link or a submodule: what is there is not in this tree."""
        parts = path.split(b"/")
        return any(b"/".join(parts[:n]) in self._known.files for n in range(1, len(parts)))

    def _missing(self, target: str, path: str, page: bytes) -> Broken | None:
        candidates = self._candidates(path, page)
        if not candidates and _AREA.match(path):
            return None
        if not candidates:
            return Broken("broken-link", f"{target} leads out of the repository")
        whole = candidates[0]
        folder, _, name = whole.rpartition("/")
        if folder not in self._folders:
            start = (folder + "/").encode("utf-8", "surrogateescape") if folder else b""
            inside = (one[len(start) :] for one in self._known.files if one.startswith(start))
            self._folders[folder] = [one.decode("utf-8", "surrogateescape") for one in inside if b"/" not in one]
        near = self._known.layer.near.names(name, ("folder", folder), lambda: self._folders[folder])
        return Broken("broken-link", f"{target}: there is no {whole} in the tree", tuple(near))

    def _anchor(self, anchor: str, anchors: Collection[str] | None, where: bytes) -> Broken | None:
        if anchors is None or anchor.casefold() in _TOP:
            return None
        known = {one.casefold() for one in anchors}
        if anchor.casefold().removeprefix("user-content-") in known:
            return None
        name = where.decode("utf-8", "replace")
        near = self._known.layer.near.names(anchor, ("anchors", name), lambda: anchors)
        return Broken("unknown-anchor", f"#{anchor}: {name} has no heading of that name", tuple(near))


def slugs(headings: Iterable[tuple[str, str]]) -> list[str]:
    """The anchors of headings (text, own name), in order: lower case, signs off, blanks as hyphens, a number behind
    one that stands twice (github.com's table of contents; cmark-gfm makes none). github.com knows no names of their own
    and has them in the anchor; site generators do, and leave them out."""
    found: list[str] = []
    counts: dict[str, int] = {}
    for text, own in headings:
        slug = slug_of(text)
        count = counts.get(slug, 0)
        counts[slug] = count + 1
        found += [f"{slug}-{count}" if count else slug, *([own, f"{slug}-{slug_of(own)}"] if own else [])]
    return found


def slug_of(text: str) -> str:
    return "".join(filter(_stays, text.lower())).replace(" ", "-")


def _stays(char: str) -> bool:
    """Whether an anchor keeps a character: what Ruby calls a word (letters, marks, digits, connectors), `-`, blanks."""
    if char.isascii():
        return char.isalnum() or char in "_- "
    kind = unicodedata.category(char)
    return kind[0] in "LM" or kind in ("Nd", "Pc")
