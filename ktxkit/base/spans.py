"""A span of bytes that is read piece by piece: in memory, or in a file that is only ever replaced as a whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

PIECE = 1 << 20  # bytes


class _Open:
    """A descriptor that lives as long as somebody reads by it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Span:
    """Bytes. Of a file it keeps the descriptor: what is renamed into its place later is another file."""

    def __init__(self, data: bytes = b"", file: _Open | None = None, begin: int = 0, end: int = 0) -> None:
        self._data, self._file, self._begin = data, file, begin
        self._size = end - begin if file is not None else len(data)

    @classmethod
    def of_file(cls, path: Path) -> Span:
        """The whole of a regular file, never through a link. Raises OSError."""
        file = _Open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
        return cls(file=file, end=os.fstat(file.fd).st_size)

    def __len__(self) -> int:
        return self._size

    def read(self, begin: int, count: int) -> bytes:
        """At most `count` bytes from a place; less only at the end. Raises OSError where the file was cut meanwhile."""
        count = min(count, self._size - begin)
        if self._file is None:
            return self._data[begin : begin + count]
        found = b""
        while len(found) < count:
            more = os.pread(self._file.fd, count - len(found), self._begin + begin + len(found))
            if not more:
                raise OSError(errno.EIO, "a file of the observer was cut while it was read")
            found += more
        return found

    def pieces(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes between two places, in order."""
        end = self._size if end is None else end
        while begin < end:
            piece = self.read(begin, min(PIECE, end - begin))
            yield piece
            begin += len(piece)

    def part(self, begin: int, end: int) -> Span:
        """A span of this one."""
        if self._file is None:
            return Span(self._data[begin:end])
        return Span(file=self._file, begin=self._begin + begin, end=self._begin + end)
