"""Where Markdown's own links and images lead: a file of the tree, and a heading of it.

A path is looked for from the page's directory, or with a `/` before it from the top of the repository; `page` finds
`page.md` too, as site generators have it. Addresses of a site whose pages the tree holds are paths where the
configuration says so (`siteUrls`); all other addresses are nobody's business here. Headings have GitHub's anchors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from ktxkit.gates.rules.model import GateOptions
from ktxkit.gates.rules.provenance import RawFacts

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
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
    if target.startswith("//") or not target.strip():
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

    def _missing(self, target: str, path: str, page: bytes) -> Broken:
        candidates = self._candidates(path, page)
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
