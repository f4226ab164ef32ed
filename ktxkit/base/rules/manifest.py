"""A manifest: what every candidate path is, byte for byte. Its digest says nothing of times, owners, inodes or classes.

An entry is path bytes, git mode, BLAKE3 of the content (of a link's text, of a submodule's commit id) and size. Packed
entries lie one after the other in the order of their paths, so that runs of unchanged ones are copied and hashed whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

REGULAR, EXECUTABLE, SYMLINK, GITLINK = 0o100644, 0o100755, 0o120000, 0o160000
PACKED = struct.Struct("<HIQ32s")  # length of the path, git mode, size, BLAKE3; the path follows
PATH_LIMIT = 65_535  # bytes
_TAG = b"ktx-manifest-1\0"

CREATE, DELETE, CONTENT, MODE = "create", "delete", "content-change", "mode-change"
TARGET, GITLINK_CHANGE, REPLACED = "symlink-target-change", "gitlink-change", "atomic-replacement"


class Entry(NamedTuple):
    """One candidate. `mode` is git's, `blake3` 32 bytes, `size` bytes of content."""

    path: bytes
    mode: int
    blake3: bytes
    size: int

    def packed(self) -> bytes:
        return PACKED.pack(len(self.path), self.mode, self.size, self.blake3) + self.path


def unpack(data: bytes, at: int = 0) -> tuple[Entry, int]:
    """The entry at an offset, and the offset behind it."""
    length, mode, size, blake3 = PACKED.unpack_from(data, at)
    begin = at + PACKED.size
    return Entry(data[begin : begin + length], mode, blake3, size), begin + length


def entries(data: bytes) -> Iterator[Entry]:
    """Every entry of packed ones."""
    at = 0
    while at < len(data):
        entry, at = unpack(data, at)
        yield entry


def digest(parts: Iterable[bytes], policy_digest: str) -> str:
    """Digest of a manifest from its packed entries (in runs of any length) and the policy that chose them."""
    from blake3 import blake3

    hasher = blake3(_TAG + policy_digest.encode("ascii") + b"\0")
    for part in parts:
        hasher.update(part)
    return "b3:" + hasher.hexdigest()


@dataclass(frozen=True)
class Change:
    """One path between two manifests. `replaced`: the content came by another file of that name (an atomic rename)."""

    path: bytes
    before: Entry | None
    after: Entry | None
    replaced: bool = False
    flags: tuple[str, ...] = ()
    path_class: str = "tracked"

    @property
    def operations(self) -> tuple[str, ...]:
        """What happened; a change of kind is a delete and a create."""
        if self.before is None:
            return (CREATE,)
        if self.after is None:
            return (DELETE,)
        if _kind(self.before.mode) != _kind(self.after.mode):
            return (DELETE, CREATE)
        if self.before.blake3 == self.after.blake3:
            return (MODE,)
        if self.after.mode == SYMLINK:
            return (TARGET,)
        if self.after.mode == GITLINK:
            return (GITLINK_CHANGE,)
        return (REPLACED,) if self.replaced else (CONTENT,)

    @property
    def byte_delta(self) -> int:
        return (self.after.size if self.after else 0) - (self.before.size if self.before else 0)


def _kind(mode: int) -> int:
    return mode & 0o170000


def differences(old: Iterable[Entry], new: Iterable[Entry]) -> list[Change]:
    """What changed between two manifests, in the order of their paths. Both are sorted by `order`."""
    before = {entry.path: entry for entry in old}
    after = {entry.path: entry for entry in new}
    found = [
        Change(path, before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    ]
    return sorted(found, key=lambda change: change.path)
