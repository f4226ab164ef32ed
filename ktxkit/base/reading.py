"""Reading one entry of a tree that others are writing: through its directory's descriptor, never through a link.

Never by mapping (a truncation meanwhile kills the process with SIGBUS), never a name twice. A read counts only where
the descriptor before it and the name after it have the same key.
"""

from __future__ import annotations

import os
import stat

from blake3 import blake3

from ktxkit.base.rules import manifest
from ktxkit.base.rules.manifest import EXECUTABLE, KEY, PACKED, REGULAR, SYMLINK

OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20  # bytes
SMALL = 1 << 14  # bytes; what is smaller is read whole, by one call
SPARSE_FROM = 16 * 1024 * 1024  # bytes; below it holes are as cheap to read as data
SPARSE_RATIO = 8

FLAG_BYTES = tuple(bytes((flags,)) for flags in range(4))

UNSTABLE = "scan_unstable"
ABSENT = "absent"
UNREADABLE, TOO_LARGE, SPARSE, SPECIAL = "unreadable", "too_large", "sparse_file", "special_entry"


PackedEntry = tuple[
    bytes, bytes, int
]  # the packed entry, the stat key that vouches for it with its flags, number of names


def key_of(info: os.stat_result) -> bytes:
    """The packed stat key."""
    return KEY.pack(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)


class EntryReader:
    """Reads entries with one buffer. `limit`: larger files are not read; `started`: the scan's begin, wall nanoseconds.

    This runs once for each entry of a tree. A name's look after the reading is one at the descriptor's inode as well,
    where it is the same inode: a third look would prove nothing more.
    """

    def __init__(self, limit: int, started: int) -> None:
        self.limit, self.started = limit, started
        self.files = 0
        self.bytes = 0
        self._buffer = bytearray(CHUNK)
        self._view = memoryview(self._buffer)

    def link(self, directory: int, name: bytes, path: bytes, info: os.stat_result) -> tuple[PackedEntry, bytes] | str:
        """A symbolic link and its text, or UNSTABLE. `info` is what its name was before."""
        try:
            target = os.readlink(name, dir_fd=directory)
            after = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return UNSTABLE
        key = key_of(info)
        if key_of(after) != key:
            return UNSTABLE
        racy = manifest.flags(info.st_mtime_ns, info.st_ctime_ns, 1, self.started)
        packed = PACKED.pack(len(path), SYMLINK, len(target), blake3(target).digest()) + path
        return (packed, key + FLAG_BYTES[racy], info.st_nlink), target

    def file(self, directory: int, name: bytes, path: bytes) -> PackedEntry | str:
        """A file, or why there is none: UNSTABLE, ABSENT, UNREADABLE, TOO_LARGE or SPARSE."""
        try:
            fd = os.open(name, OPEN_FILE, dir_fd=directory)
        except FileNotFoundError:
            return _gone(directory, name)
        except PermissionError:
            return UNREADABLE
        except OSError:  # a link now, or a socket: what it is will be seen at the next scan
            return UNSTABLE
        try:
            return self._content(fd, directory, name, path)
        except OSError:
            return UNREADABLE
        finally:
            os.close(fd)

    def _content(self, fd: int, directory: int, name: bytes, path: bytes) -> PackedEntry | str:
        before = os.fstat(fd)
        mode, size = before.st_mode, before.st_size
        if not stat.S_ISREG(mode):
            return UNSTABLE
        if size > SPARSE_FROM or size > self.limit:
            if size > self.limit:
                return TOO_LARGE
            if before.st_blocks * 512 * SPARSE_RATIO < size:
                return SPARSE
        self.files += 1
        if size < SMALL:
            data = os.read(fd, size + 1)
            self.bytes += len(data)
            digest = blake3(data).digest() if len(data) == size else None
        else:
            digest = self._large(fd, size)
        try:
            named = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return UNSTABLE
        modified, changed = named.st_mtime_ns, named.st_ctime_ns
        key = KEY.pack(named.st_dev, named.st_ino, named.st_size, modified, changed, named.st_mode)
        if digest is None or key_of(before) != key:
            return UNSTABLE
        flags = manifest.flags(modified, changed, named.st_nlink, self.started)
        kind = EXECUTABLE if mode & stat.S_IXUSR else REGULAR
        return PACKED.pack(len(path), kind, size, digest) + path, key + FLAG_BYTES[flags], named.st_nlink

    def _large(self, fd: int, size: int) -> bytes | None:
        """BLAKE3 of the content; None where there is another number of bytes than the size says."""
        hasher, total = blake3(), 0
        while count := os.readv(fd, [self._buffer]):
            hasher.update(self._view[:count])
            total += count
            if total > size:
                break
        self.bytes += total
        return hasher.digest() if total == size else None


def _gone(directory: int, name: bytes) -> str:
    """A second look: gone, or back already."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return UNSTABLE
    return UNSTABLE


def small_file(directory: int, name: bytes, limit: int = 65_536) -> bytes | None:
    """A small regular file, never through a link; None where there is none."""
    try:
        fd = os.open(name, OPEN_FILE, dir_fd=directory)
    except OSError:
        return None
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
