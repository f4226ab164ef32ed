"""The file that one traced process writes: JSON lines, appended; each process and each fork has its own.

A process whose contexts pytest drives writes when a context ends; every other at once, so that `os._exit`, `exec` and a
kill lose nothing.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Writer:
    """Appends lines. It never raises: what could not be written is counted."""

    def __init__(self, directory: str) -> None:
        self._write, self._open, self._fstat, self._close = os.write, os.open, os.fstat, os.close
        self.getpid = os.getpid
        self.directory = directory
        self.driven = False
        self.faults, self.fault = 0, ""
        self.begin_file()

    def begin_file(self) -> None:
        """A process that has written nothing yet."""
        self.pid = self.getpid()
        self.fd, self.file = -1, (0, 0)
        self.lines: list[str] = []

    def forget_file(self) -> None:
        """In a forked child: the descriptor is the parent's."""
        fd = self.fd
        self.begin_file()
        if fd >= 0:
            self._close(fd)

    def fail(self, error: Exception) -> None:
        """Something is not recorded; the first reason is kept."""
        self.faults += 1
        self.fault = self.fault or f"{type(error).__name__}: {error}"[:300]

    def put(self, *parts: Any) -> None:
        self.lines.append(json.dumps(parts, separators=(",", ":")))
        if not self.driven:
            self.flush()

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        if not lines:
            return
        data = ("\n" + "\n".join(lines) + "\n").encode("ascii")
        try:
            self._ready()
            while data:
                data = data[self._write(self.fd, data) :]
        except OSError as error:
            self.fail(error)

    def _ready(self) -> None:
        """A descriptor that is ours: a suite may have closed it and have another file under its number by now."""
        try:
            info = self._fstat(self.fd) if self.fd >= 0 else None
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            info = None
        if info is None or (info.st_dev, info.st_ino) != self.file:
            self.fd = self._open(f"{self.directory}/{self.pid}-{start_time()}.ndjson", FLAGS, 0o600)
            info = self._fstat(self.fd)
            self.file = (info.st_dev, info.st_ino)


def plain(text: str) -> str:
    """Text that JSON in ASCII carries to any reader: a lone surrogate is written as its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def start_time() -> int:
    """Clock ticks since boot at which this process began (proc(5), field 22): a pid alone is reused."""
    try:
        with open("/proc/self/stat", "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
