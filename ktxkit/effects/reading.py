"""Reading one entry of a tree that others are writing: through its directory's descriptor, never through a link.

Never by mapping (a truncation meanwhile kills the process with SIGBUS), never a name twice. A read counts only where
descriptor and name had the same key before and after it.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from blake3 import blake3

from ktxkit.core.observer.manifest import EXECUTABLE, REGULAR, SYMLINK
from ktxkit.core.observer.stat_key import KEY

OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20  # bytes
SPARSE_FROM = 16 * 1024 * 1024  # bytes; below it holes are as cheap to read as data
SPARSE_RATIO = 8

UNSTABLE = "scan_unstable"
ABSENT = "absent"
UNREADABLE, TOO_LARGE, SPARSE, SPECIAL = "unreadable", "too_large", "sparse_file", "special_entry"


class Read(NamedTuple):
    """What was read: git mode, BLAKE3, size, the stat that vouches for it, and a link's text."""

    mode: int
    blake3: bytes
    size: int
    info: os.stat_result
    target: bytes | None = None


def key_of(info: os.stat_result) -> bytes:
    """The packed stat key."""
    return KEY.pack(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)


class Reader:
    """Reads entries with one buffer. `limit`: larger files are not read, in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.files = 0
        self.bytes = 0
        self._buffer = bytearray(CHUNK)
        self._view = memoryview(self._buffer)

    def read(self, directory: int, name: bytes, info: os.stat_result) -> Read | str:
        """The entry, or why there is none: UNSTABLE, ABSENT, UNREADABLE, TOO_LARGE, SPARSE or SPECIAL."""
        if stat.S_ISREG(info.st_mode):
            return self._file(directory, name)
        if stat.S_ISLNK(info.st_mode):
            return self._link(directory, name, info)
        return UNSTABLE if stat.S_ISDIR(info.st_mode) else SPECIAL

    def _link(self, directory: int, name: bytes, info: os.stat_result) -> Read | str:
        try:
            target = os.readlink(name, dir_fd=directory)
            after = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return UNSTABLE
        if key_of(after) != key_of(info):
            return UNSTABLE
        return Read(SYMLINK, blake3(target).digest(), len(target), info, target)

    def _file(self, directory: int, name: bytes) -> Read | str:
        try:
            fd = os.open(name, OPEN_FILE, dir_fd=directory)
        except FileNotFoundError:
            return _gone(directory, name)
        except PermissionError:
            return UNREADABLE
        except OSError:  # a link now, or a socket: what it is will be seen at the next scan
            return UNSTABLE
        try:
            return self._content(fd, directory, name)
        except OSError:
            return UNREADABLE
        finally:
            os.close(fd)

    def _content(self, fd: int, directory: int, name: bytes) -> Read | str:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            return UNSTABLE
        if before.st_size > self.limit:
            return TOO_LARGE
        if before.st_size > SPARSE_FROM and before.st_blocks * 512 * SPARSE_RATIO < before.st_size:
            return SPARSE
        hashed = self._hash(fd, before.st_size)
        try:
            named = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return UNSTABLE
        key = key_of(before)
        if hashed is None or key_of(os.fstat(fd)) != key or key_of(named) != key:
            return UNSTABLE
        mode = EXECUTABLE if before.st_mode & stat.S_IXUSR else REGULAR
        return Read(mode, hashed, before.st_size, named)

    def _hash(self, fd: int, size: int) -> bytes | None:
        """BLAKE3 of the content; None where there is another number of bytes than the size says."""
        self.files += 1
        count = os.readv(fd, [self._buffer])
        if count == size:
            self.bytes += count
            return blake3(self._view[:count]).digest()
        hasher, total = blake3(), 0
        while count:
            hasher.update(self._view[:count])
            total += count
            if total > size:
                break
            count = os.readv(fd, [self._buffer])
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
