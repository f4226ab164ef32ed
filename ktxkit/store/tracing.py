"""Append-only JSON Lines (design, section 4, journal rule).

One append is one write of whole records to an O_APPEND descriptor, under flock. Before it the last byte is looked at: a
tail without its newline is a torn write of a killed process; it is moved to a side file and counted, so that it cannot
swallow the next record. A journal is cut back only under flock.

A job's trace as a value to hand around: events go to `ingest-traces/JOB/trace.jsonl` as they happen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import Clock, timestamp
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.kinds import D
from ktxkit.base.lock import flocked
from ktxkit.store.rules.trace import DEFAULT_LEVEL, TraceContext, event, wanted

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, TraceEvent, TraceEventLevel
    from ktxkit.base.kinds import Kind
    from ktxkit.store.store import Store


RUN_VARIABLE = "KTX_RUN"  # names the execution of a job, in its environment and in that of its units
RUN_LENGTH = 256  # characters that the contract takes
CHUNK = 64 * 1024  # bytes read at once when looking for the last newline
RECORD_LIMIT = 8 * 1024 * 1024  # bytes of one record
TRIES = 3  # of an append whose file is replaced by something else meanwhile


class Journal(NamedTuple, Generic[D]):
    """One journal: where it is and what its records are."""

    path: Path
    contract: Kind[D]
    clock: Clock
    ready: Callable[[], object] = lambda: None  # called before each append

    def append(self, records: Sequence[D], *, durable: bool = False, validated: bool = False) -> int:
        """Append all records or none; returns the number of torn tails set aside (0 or 1).

        Every record is validated before the first byte is written; `validated`: the caller has just done so. Raises
        BrokenContract, OSError.
        """
        line = contracts.compact if validated else partial(contracts.line, self.contract, location=str(self.path))
        lines = [line(record) for record in records]
        longest = max(map(len, lines), default=0)
        if longest > RECORD_LIMIT:
            raise BrokenContract(
                f"{self.contract}: a record of {longest} bytes is too long",
                location=str(self.path),
                hint="shorten its data, or put it into a file and name that",
            )
        block = b"".join(lines)
        for left in reversed(range(TRIES)):
            self.ready()
            try:
                return self._write(block, durable=durable)
            except (BrokenContract, CannotRun):
                if not left:
                    raise  # else somebody put another thing there meanwhile: what is ready takes it away
        raise AssertionError("the last try returns or raises")

    def _write(self, block: bytes, *, durable: bool) -> int:
        self._require_file()
        with flocked(self.path.with_name(self.path.name + ".lock"), clock=self.clock):
            fresh = not self.path.exists()
            fd = files.open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                torn = self._set_torn_aside(fd)
                files.write_record(fd, block)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            if durable and fresh:
                files.sync_dir(self.path.parent)
        return torn

    def _require_file(self) -> bool:
        """Whether it is there. Raises CannotRun for anything but a regular file: a device could be read for ever."""
        if not self.path.exists():
            return False
        if not self.path.is_file():
            raise CannotRun(
                "a journal must be a regular file", location=str(self.path), hint="name a file, or a new one"
            )
        return True

    def _set_torn_aside(self, fd: int) -> int:
        size = os.fstat(fd).st_size
        if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
            return 0
        whole = _last_newline(fd, size)
        side = self.path.with_name(f"{self.path.name}.torn-{os.urandom(4).hex()}")
        files.write_atomic(side, os.pread(fd, size - whole, whole))
        os.ftruncate(fd, whole)
        os.fsync(fd)
        return 1

    def records(self) -> Iterator[D]:
        """Every whole record, validated, in order. A torn tail is passed over; a bad line before it is status 5."""
        for number, line, ended in self._lines():
            if not ended:
                return
            if len(line) > RECORD_LIMIT:
                raise BrokenContract(
                    "a record is too long",
                    location=f"{self.path}:{number}",
                    hint="the file may be foreign: move it away, and a new one is begun",
                )
            yield contracts.loads(self.contract, line, f"{self.path}:{number}")

    def _lines(self) -> Iterator[tuple[int, bytes, bool]]:
        if not self._require_file():
            return
        with files.reading(self.path) as stream:
            for number, line in enumerate(stream, start=1):
                yield number, line.removesuffix(b"\n"), line.endswith(b"\n")

    def last(self) -> D | None:
        """The last whole record, validated; None in an empty journal. Reads only the end of the file."""
        if not self._require_file():
            return None
        fd = files.open_regular(self.path)
        try:
            end = _last_newline(fd, os.fstat(fd).st_size)
            start = _last_newline(fd, max(0, end - 1))
            line = os.pread(fd, end - start, start)
        finally:
            os.close(fd)
        return contracts.loads(self.contract, line, f"{self.path}: last record") if line else None

    def torn(self) -> list[Path]:
        """The side files that hold torn tails."""
        return sorted(self.path.parent.glob(f"{self.path.name}.torn-*"))


def _last_newline(fd: int, size: int) -> int:
    """The length of the file up to and with its last newline; 0 where it has none."""
    end = size
    while end > 0:
        begin = max(0, end - CHUNK)
        found = os.pread(fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


CONTRACT = "trace-event"


class Tracer(NamedTuple):
    """Writes events of one job. Thread-safe: each append is one locked write."""

    journal: Journal[TraceEvent]
    context: TraceContext
    clock: Clock
    threshold: str = DEFAULT_LEVEL
    extra: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def of_job(cls, store: Store, clock: Clock, job: Job, env: Mapping[str, str], trace: Path | None = None) -> Tracer:
        """The tracer of a job document. `trace` overrides the file."""
        from ktxkit.store.rules import names

        run = env.get(RUN_VARIABLE, "")[:RUN_LENGTH]
        context = TraceContext(job["jobId"], job["connectionId"], job["sourceKey"], run, job.get("syncId", ""))
        level = env.get("KTX_TRACE_LEVEL", DEFAULT_LEVEL)
        if trace is not None:
            return cls(Journal(trace, kinds.TRACE_EVENT, clock), context, clock, level)
        ready = partial(store.regular, names.trace_file(job["jobId"]))
        return cls(Journal(ready(), kinds.TRACE_EVENT, clock, ready), context, clock, level)

    @property
    def path(self) -> Path:
        return self.journal.path

    def bound(self, **extra: Any) -> Tracer:
        """The same tracer, whose every event carries more data (`unitKey`)."""
        return self._replace(extra={**self.extra, **extra})

    def emit(
        self,
        phase: str,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        level: TraceEventLevel = "debug",
        duration_ms: float | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Append one event, unless its level is above the threshold. Keys with the value None are left out."""
        if not wanted(level, self.threshold):
            return
        full = {**self.extra, **(data or {})}
        now = timestamp(self.clock.now())
        self.journal.append([event(self.context, now, level, phase, name, full, duration_ms=duration_ms, error=error)])

    @contextmanager
    def timed(
        self, phase: str, name: str, data: Mapping[str, Any] | None = None, *, level: TraceEventLevel = "debug"
    ) -> Iterator[dict[str, Any]]:
        """`name_started`, then `name_finished` with its duration, or `name_failed` with the error, which goes on.

        What the block puts into the yielded dict is in the data of the last event. `level`: of the first two.
        """
        self.emit(phase, f"{name}_started", data, level=level)
        began = self.clock.monotonic()
        more: dict[str, Any] = {}
        try:
            yield more
        except BaseException as error:
            spent = (self.clock.monotonic() - began) * 1000
            self.emit(phase, f"{name}_failed", {**(data or {}), **more}, level="error", duration_ms=spent, error=error)
            raise
        spent = (self.clock.monotonic() - began) * 1000
        self.emit(phase, f"{name}_finished", {**(data or {}), **more}, level=level, duration_ms=spent)
