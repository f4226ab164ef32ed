"""When a stat key may vouch for content that was hashed before. It is a cache, never evidence.

A key is device, inode, size, mtime and ctime in nanoseconds, mode. It does not vouch for a file whose times are not
safely older than the scan that hashed it (git's racy-timestamp rule, Documentation/technical/racy-git), nor for one
with several names, which may be written where nobody looks. How coarse a file system's times are is read off each
ctime, which nobody can set: whole seconds mean that a second (FAT: two) may hide a rewrite.

A manifest: what every candidate path is, byte for byte. Its digest says nothing of times, owners, inodes or classes.

An entry is path bytes, git mode, BLAKE3 of the content (of a link's text, of a submodule's commit id) and size. Packed
entries lie one after the other in the order of their paths, so that runs of unchanged ones are copied and hashed whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ktxkit.base.rules.named import NamedTuple

SECOND = 1_000_000_000  # nanoseconds
KEY = struct.Struct("<QQQqqI")  # device, inode, size, mtime_ns, ctime_ns, mode
FINE_WINDOW = 20_000_000  # twice the longest tick of a kernel clock (10 ms at 100 Hz)
COARSE_WINDOW = 4 * SECOND
RACY = 1  # flag: hashed while its times were too new to vouch for it
SHARED = 2  # flag: it has several names


def window(ctime_ns: int) -> int:
    """How much older than a scan a time must be to be safe, in nanoseconds."""
    return COARSE_WINDOW if ctime_ns % SECOND == 0 else FINE_WINDOW


def is_racy(mtime_ns: int, ctime_ns: int, scan_started_ns: int) -> bool:
    """Whether a write after the hashing could leave the same times. `scan_started_ns` is the wall clock's."""
    return max(mtime_ns, ctime_ns) >= scan_started_ns - window(ctime_ns)


def flags(mtime_ns: int, ctime_ns: int, links: int, scan_started_ns: int) -> int:
    """What is noted beside a key."""
    shared = SHARED if links > 1 else 0
    safe = scan_started_ns - COARSE_WINDOW  # older than this is safe everywhere: most files are
    if mtime_ns < safe and ctime_ns < safe:
        return shared
    return shared | RACY if is_racy(mtime_ns, ctime_ns, scan_started_ns) else shared


REGULAR, EXECUTABLE, SYMLINK, GITLINK = 0o100644, 0o100755, 0o120000, 0o160000
PACKED = struct.Struct("<HIQ32s")  # length of the path, git mode, size, BLAKE3; the path follows
PATH_LIMIT = 65_535  # bytes
_TAG = b"ktx-manifest-1\0"

CREATE, DELETE, CONTENT, MODE = "create", "delete", "content-change", "mode-change"
TARGET, GITLINK_CHANGE, REPLACED = "symlink-target-change", "gitlink-change", "atomic-replacement"


class ManifestEntry(NamedTuple):
    """One candidate. `mode` is git's, `blake3` 32 bytes, `size` bytes of content."""

    path: bytes
    mode: int
    blake3: bytes
    size: int

    def packed(self) -> bytes:
        return PACKED.pack(len(self.path), self.mode, self.size, self.blake3) + self.path


def unpack(data: bytes, at: int = 0) -> tuple[ManifestEntry, int]:
    """The entry at an offset, and the offset behind it."""
    length, mode, size, blake3 = PACKED.unpack_from(data, at)
    begin = at + PACKED.size
    return ManifestEntry(data[begin : begin + length], mode, blake3, size), begin + length


def entries(data: bytes) -> Iterator[ManifestEntry]:
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


class ManifestChange(NamedTuple):
    """One path between two manifests. `replaced`: the content came by another file of that name (an atomic rename)."""

    path: bytes
    before: ManifestEntry | None
    after: ManifestEntry | None
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


def differences(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> list[ManifestChange]:
    """What changed between two manifests, in the order of their paths. Both are sorted by `order`."""
    before = {entry.path: entry for entry in old}
    after = {entry.path: entry for entry in new}
    found = [
        ManifestChange(path, before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    ]
    return sorted(found, key=lambda change: change.path)
