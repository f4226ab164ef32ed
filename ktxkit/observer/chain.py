"""A linked journal: read and checked under its lock before anything is appended, flushed before anything is claimed.

Only a last record that nobody has acknowledged may count as torn; its bytes are kept beside. Everything else that is
wrong is said, and then nothing is ever appended there again. After a failed flush the kernel forgets what it could not
write and the next flush succeeds: the failure is marked, and what follows goes to a new segment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base import contracts, files
from ktxkit.base.clock import Clock
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, BrokenContract
from ktxkit.base.lock import flocked
from ktxkit.observer.rules.records import Anchor, anchor_problem, link_problem

CONTRACT = "observation"
FAILED = ".flush-failed"


@dataclass
class Chain:
    """One segment. `records` is what was read and checked; `problem` why nothing may follow it."""

    path: Path
    segment: int
    clock: Clock
    records: list[Document] = field(default_factory=list)
    problem: str = ""
    where: str = ""
    _offset: int = 0  # bytes that were read and checked
    _last: bytes = b""  # the last line of them

    @property
    def head(self) -> str:
        return str(self.records[-1]["hash"]) if self.records else ""

    @contextmanager
    def locked(self, anchor: Anchor) -> Iterator[None]:
        """Hold the journal's lock, with everything in it read and checked against the anchor."""
        with flocked(self.path.with_name(f"{self.path.name}.lock"), clock=self.clock):
            self.catch_up(anchor)
            yield

    def catch_up(self, anchor: Anchor) -> None:
        """Read what others appended. Sets `problem`; what is wrong once stays wrong."""
        if self.problem:
            return
        if os.path.lexists(self._mark):
            self._wrong("flush_failed", "")
            return
        lines = [line for line in re.split(rb"(?<=\n)", self._unread()) if line]
        for number, line in enumerate(lines, start=1):
            problem = self._take(line)
            if problem and number == len(lines) and len(self.records) >= anchor.seq:
                break  # the last one, which nobody has acknowledged: torn
            if problem:
                self._wrong("corrupt", f"{self.path}:{len(self.records) + 1}: {problem}")
                return
            self._offset, self._last = self._offset + len(line), line
        wrong = anchor_problem(self.records, anchor) if anchor.segment == self.segment else ""
        if wrong:
            self._wrong(wrong, f"{self.path}: {len(self.records)} records, {anchor.seq} were anchored")

    def _unread(self) -> bytes:
        """What lies behind the part that was read. A file whose read part is not there any more is read anew."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            self._forget()
            return b""
        try:
            begin = self._offset - len(self._last)
            data = _pread(fd, begin)
            if data.startswith(self._last):
                return data[len(self._last) :]
            self._forget()
            return _pread(fd, 0)
        finally:
            os.close(fd)

    def _forget(self) -> None:
        self.records, self._offset, self._last = [], 0, b""

    def _take(self, line: bytes) -> str:
        if not line.endswith(b"\n"):
            return "no end of line"
        try:
            record = contracts.loads(CONTRACT, line[:-1], f"{self.path}:{len(self.records) + 1}")
        except BrokenContract as error:
            return error.message
        problem = link_problem(record, len(self.records) + 1, self.head)
        if not problem and record["segment"] != self.segment:
            problem = f"segment {record['segment']} where {self.segment} belongs"
        if not problem:
            self.records.append(record)
        return problem

    def _wrong(self, problem: str, where: str) -> None:
        self.problem, self.where = problem, where

    def append(self, made: Sequence[Document]) -> None:
        """Append linked records and flush them. The lock is held and there is no problem.

        Raises OSError where nothing was written, Blocked where it cannot be known whether it is on the disk.
        """
        assert not self.problem, self.problem
        block = b"".join(contracts.line(CONTRACT, record, str(self.path)) for record in made)
        self._cut_torn()
        fresh = not self.path.exists()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, files.PRIVATE_FILE)
        try:
            size = os.fstat(fd).st_size
            try:
                files.write_all(fd, block)
            except OSError:
                os.ftruncate(fd, size)
                raise
            self._flush(fd)
        finally:
            os.close(fd)
        if fresh:
            files.sync_dir(self.path.parent)
        self.records += made
        self._offset, self._last = size + len(block), block[block[:-1].rfind(b"\n") + 1 :]

    def _flush(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError as error:
            self._wrong("flush_failed", str(self.path))
            files.write_atomic(self._mark, b"", durable=False)
            raise Blocked(
                f"the journal could not be flushed: {error.strerror}",
                where=str(self.path),
                hint="nothing is claimed about it; check the disk, then watch again (a new segment begins)",
            ) from error

    @property
    def _mark(self) -> Path:
        return self.path.with_name(self.path.name + FAILED)

    def _cut_torn(self) -> None:
        """Keep the bytes of a torn tail beside the journal, and cut them off."""
        try:
            size = os.stat(self.path).st_size  # noqa: PTH116
        except FileNotFoundError:
            return  # gate-ok: no journal yet: nothing of it is torn
        if size == self._offset:
            return
        tail = files.read(self.path)[self._offset :]
        files.write_atomic(self.path.with_name(f"{self.path.name}.torn-{self._offset}"), tail)
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.ftruncate(fd, self._offset)
            os.fsync(fd)
        finally:
            os.close(fd)


def _pread(fd: int, begin: int) -> bytes:
    """Everything from an offset on."""
    parts = []
    while block := os.pread(fd, 1 << 24, begin):
        parts.append(block)
        begin += len(block)
    return b"".join(parts)
