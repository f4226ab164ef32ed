"""Provenance: which raw file an artifact came from. Paths are compared as bytes, in their normal form only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Set
from typing import Any

from ktxkit.gates.rules.model import Layer

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
