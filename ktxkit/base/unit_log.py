"""What a unit prints, kept in files of bounded size: its beginning and its end, and how much was left out between.

The child writes into a pipe that whoever waits for it reads: neither disk nor memory grows with what it prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from ktxkit.base import files

HEAD = 15 * 1024 * 1024  # bytes of the beginning that are kept
TAIL = 1024 * 1024  # bytes of the end that are kept
CHUNK = 256 * 1024
PIPE = 1024 * 1024  # bytes that a pipe may hold; source: pipe(7), pipe-max-size


class UnitLog:
    """One stream of a unit. `total` and `cut` are bytes; `problem` says why the file could not be written."""

    def __init__(self, path: Path) -> None:
        files.make_dirs(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, files.PRIVATE_FILE)
        self._stream: IO[bytes] | None = None
        self._tail = bytearray()
        self._kept = 0
        self.total = 0
        self.problem = ""

    def read_from(self, stream: IO[bytes] | None) -> None:
        """The end of the pipe that the child writes into. It is closed with the log."""
        assert stream is not None, "the child's stream is a pipe"
        self._stream = stream
        os.set_blocking(stream.fileno(), False)

    @property
    def descriptor(self) -> int:
        assert self._stream is not None, "the child was started"
        return self._stream.fileno()

    @property
    def cut(self) -> int:
        """Bytes between beginning and end that were left out."""
        return max(0, self.total - self._kept - min(len(self._tail), TAIL))

    def take(self) -> bool:
        """Take what can be had at once, a chunk at most. False at the end of the stream; True where more may come."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return True
        self.total += len(data)
        head = data[: max(0, HEAD - self._kept)] if self.total - len(data) == self._kept else b""
        if head:
            self._write(head)
            self._kept += len(head)
        self._tail += data[len(head) :]
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        return bool(data)

    def drain(self) -> None:
        """Take what is in the pipe now, and no more than a pipe holds: something that hid may go on writing."""
        start = before = self.total
        while self._stream is not None and self.take() and before < self.total < start + PIPE:
            before = self.total

    def close(self) -> None:
        """Write the end behind the beginning and let go of the stream."""
        cut = self.cut
        if cut:
            self._write(f"\n[{cut} bytes were left out here]\n".encode())
        self._write(bytes(self._tail[-TAIL:]))
        os.close(self._file)
        if self._stream is not None:
            self._stream.close()

    def _write(self, data: bytes) -> None:
        """A full disk is the unit's misfortune, not the job's end: it is said in the unit's result."""
        view = memoryview(data)
        try:
            while view and not self.problem:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.problem = error.strerror or type(error).__name__
