"""The second reader's process: reads the files that it is asked for, over pipes. Started by `second_reader`.

A question is a length and paths below the root, joined by NUL, in path order. The answer is a length and a marshalled
dict of what was read (marshal: both are one version of one program, and nobody else has the pipe). What could not be
read is left out: whoever asks reads it again, and judges. It ends when its stdin does.

    python -m ktxkit.observer.second_reader_process ROOT_DESCRIPTOR LIMIT STARTED_NS
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from itertools import groupby

from ktxkit.base.reading import OPEN_DIRECTORY, EntryReader, PackedEntry

LENGTH = 4  # bytes, little-endian


def read_exactly(fd: int, count: int) -> bytes:
    """So many bytes; less only where the other side has ended."""
    found = b""
    while len(found) < count and (more := os.read(fd, count - len(found))):
        found += more
    return found


def receive(fd: int) -> bytes | None:
    """What stands behind the next length; None where the other side has ended."""
    count = int.from_bytes(read_exactly(fd, LENGTH), "little")
    data = read_exactly(fd, count)
    return data if count and len(data) == count else None


def send(fd: int, data: bytes) -> None:
    whole = memoryview(len(data).to_bytes(LENGTH, "little") + data)
    while whole:
        whole = whole[os.write(fd, whole) :]


class _Directories:
    """Descriptors of the directories on the way to the last path, opened one below the other, never through a link."""

    def __init__(self, root: int) -> None:
        self._names: list[bytes] = []
        self._open = [root]
        self._device = os.fstat(root).st_dev

    def at(self, directory: bytes) -> int | None:
        """An open descriptor; None where there is no such directory, or another file system."""
        names = directory.split(b"/") if directory else []
        same = next((n for n, (a, b) in enumerate(zip(names, self._names, strict=False)) if a != b), None)
        self._back_to(min(len(names), len(self._names)) if same is None else same)
        for name in names[len(self._names) :]:
            try:
                fd = os.open(name, OPEN_DIRECTORY, dir_fd=self._open[-1])
            except OSError:
                return None
            self._names.append(name)
            self._open.append(fd)
            if os.fstat(fd).st_dev != self._device:
                self._back_to(len(self._names) - 1)
                return None
        return self._open[-1]

    def _back_to(self, depth: int) -> None:
        del self._names[depth:]
        while len(self._open) > depth + 1:
            os.close(self._open.pop())


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def main(argv: Sequence[str]) -> int:
    root, limit, started = map(int, argv)
    reader, directories = EntryReader(limit, started), _Directories(root)
    while (asked := receive(0)) is not None:
        answer: dict[bytes, PackedEntry] = {}
        for directory, paths in groupby(asked.split(b"\0"), _parent):
            fd = directories.at(directory)
            if fd is None:
                continue
            for path in paths:
                found = reader.file(fd, path[len(directory) + bool(directory) :], path)
                if not isinstance(found, str):
                    answer[path] = found
        send(1, marshal.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
