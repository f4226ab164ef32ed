"""What a change touches, from `diff-tree --raw -z`; never from patch text.

`^diff --git (.+) (.+)$` gives a wrong set of paths in 18 of 139 hard cases; the NUL-delimited raw form in none.

The git id of a tree from its entries alone: nothing is written into any object store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_b64, path_bytes, path_text

if TYPE_CHECKING:
    from ktxkit.base.documents import FileMode, Patch, PatchPath, PathChange, PathKind


ABSENT: Final = "000000"
KINDS: dict[str, PathKind] = {
    "100644": "regular",
    "100755": "executable",
    "120000": "symlink",
    "160000": "gitlink",
    ABSENT: "absent",
}


class Side(NamedTuple):
    """What stands at a path in a tree: a mode of six octal digits and an object id."""

    mode: FileMode
    oid: str

    @property
    def kind(self) -> PathKind:
        return KINDS.get(self.mode, "regular")


class Entry(NamedTuple):
    """One path of a change, with both of its sides."""

    path: bytes
    old: Side
    new: Side

    @property
    def change(self) -> PathChange:
        """`added`, `deleted`, `typechange` or `modified` (a change of mode included)."""
        if self.old.mode == ABSENT:
            return "added"
        if self.new.mode == ABSENT:
            return "deleted"
        return "typechange" if self.old.mode[:3] != self.new.mode[:3] else "modified"


class Content(NamedTuple):
    """What was seen of a blob: bytes, whether it holds a NUL, the digest of its content, and whether it is no UTF-8."""

    size: int
    binary: bool
    digest: str
    foreign: bool = False


def parse_raw(data: bytes) -> list[Entry]:
    """The entries of `diff-tree -r -z --raw --no-renames --no-abbrev`. Raises ValueError for anything else."""
    fields = data.removesuffix(b"\0").split(b"\0") if data else []
    if len(fields) % 2:
        raise ValueError("a raw entry without its path")
    return [_entry(head, path) for head, path in zip(fields[::2], fields[1::2], strict=True)]


def _entry(head: bytes, path: bytes) -> Entry:
    words = head.decode("ascii").split(" ")
    if len(words) != 5 or not words[0].startswith(":") or not path:
        raise ValueError(f"not a raw entry: {head!r}")
    old, new = cast("FileMode", words[0][1:]), cast("FileMode", words[1])  # git has no others
    return Entry(path, Side(old, words[2]), Side(new, words[3]))


def blobs(entries: Iterable[Entry]) -> set[str]:
    """The ids of every blob on either side."""
    sides = (side for entry in entries for side in (entry.old, entry.new))
    return {side.oid for side in sides if side.kind not in ("absent", "gitlink")}


def index_info(entries: Iterable[Entry]) -> bytes:
    """The old sides as input of `update-index -z --index-info`."""
    present = (entry for entry in entries if entry.old.mode != ABSENT)
    return b"".join(b"%s %s\t%s\0" % (e.old.mode.encode(), e.old.oid.encode(), e.path) for e in present)


def staged(entries: Iterable[Entry]) -> set[tuple[str, str, bytes]]:
    """The new sides, as `ls-files -s -z` must list them after the patch was applied."""
    return {(entry.new.mode, entry.new.oid, entry.path) for entry in entries if entry.new.mode != ABSENT}


def parse_staged(data: bytes) -> set[tuple[str, str, bytes]]:
    """The output of `ls-files -s -z`. An unmerged entry shows its stage in the mode, so that it equals nothing."""
    found = set()
    for line in data.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            mode, oid, stage = head.decode("ascii").split(" ")
            found.add((mode if stage == "0" else f"{mode}.{stage}", oid, path))
    return found


def documents(entries: Iterable[Entry], old: Mapping[str, int], new: Mapping[str, Content]) -> list[PatchPath]:
    """The entries for `patch.json`; sizes and content by object id, absent where they were not measured."""
    return [_document(entry, old.get(entry.old.oid), new.get(entry.new.oid)) for entry in entries]


def _document(entry: Entry, old_size: int | None, content: Content | None) -> PatchPath:
    made: PatchPath = {
        "path": path_text(entry.path),
        "change": entry.change,
        "oldMode": entry.old.mode,
        "newMode": entry.new.mode,
        "oldId": entry.old.oid,
        "newId": entry.new.oid,
        "kind": entry.new.kind,
        "oldKind": entry.old.kind,
    }
    made |= {"pathB64": exact} if (exact := path_b64(entry.path)) else {}
    if old_size is not None:
        made["oldSize"] = old_size
    if content is not None:
        made |= {"binary": content.binary, "newSize": content.size, "digest": content.digest}
    return made


def entries_of(document: Patch) -> list[Entry]:
    """The entries that a patch document names. Raises ValueError where a path is damaged."""
    return [
        Entry(path_bytes(item), Side(item["oldMode"], item["oldId"]), Side(item["newMode"], item["newId"]))
        for item in document["paths"]
    ]


DIRECTORY = "40000"


def tree_id(files: Mapping[bytes, tuple[str, str]], object_format: str = "sha1") -> str:
    """The id of the tree that holds these files (path to mode and id). Source: gitformat-pack, tree objects."""
    folders: dict[bytes, dict[bytes, tuple[str, str]]] = {b"": {}}
    for path, entry in files.items():
        folder, _, name = path.rpartition(b"/")
        while folder not in folders:  # and those above it; trees may be deeper than any stack
            folders[folder], folder = {}, folder.rpartition(b"/")[0]
        folders[path.rpartition(b"/")[0]][name] = entry
    for folder in sorted(folders, key=lambda one: one.count(b"/") + bool(one), reverse=True):
        made = _tree_of(folders[folder], object_format)
        if not folder:
            return made
        above, _, name = folder.rpartition(b"/")
        folders[above][name] = (DIRECTORY, made)
    raise AssertionError("the top is the last")


def _tree_of(here: Mapping[bytes, tuple[str, str]], object_format: str) -> str:
    ordered = sorted(here.items(), key=lambda one: one[0] + (b"/" if one[1][0] == DIRECTORY else b""))
    body = b"".join(b"%b %b\0%b" % (mode.encode(), name, bytes.fromhex(oid)) for name, (mode, oid) in ordered)
    return hashlib.new(object_format, b"tree %d\0" % len(body) + body).hexdigest()
