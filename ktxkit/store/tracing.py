"""A job's trace as a value to hand around: events go to `ingest-traces/JOB/trace.jsonl` as they happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ktxkit.base.clock import Clock, timestamp
from ktxkit.store.journal import Journal
from ktxkit.store.rules.trace import DEFAULT_LEVEL, TraceContext, event, wanted

if TYPE_CHECKING:
    from ktxkit.store.store import Store

CONTRACT = "trace-event"


class Tracer(NamedTuple):
    """Writes events of one job. Thread-safe: each append is one locked write."""

    journal: Journal
    context: TraceContext
    clock: Clock
    threshold: str = DEFAULT_LEVEL
    extra: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def of_job(
        cls, store: Store, clock: Clock, job: Mapping[str, Any], env: Mapping[str, str], trace: Path | None = None
    ) -> Tracer:
        """The tracer of a job document. `trace` overrides the file."""
        from ktxkit.store.rules import names

        context = TraceContext(job["jobId"], job["connectionId"], job["sourceKey"], sync_id=job.get("syncId", ""))
        path = trace or store.path(names.trace_file(job["jobId"]))
        return cls(Journal(path, CONTRACT, clock), context, clock, env.get("KTX_TRACE_LEVEL", DEFAULT_LEVEL))

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
        level: str = "debug",
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
    def timed(self, phase: str, name: str, data: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """`name_started`, then `name_finished` with its duration, or `name_failed` with the error, which goes on.

        What the block puts into the yielded dict is in the data of the last event.
        """
        self.emit(phase, f"{name}_started", data)
        began = self.clock.monotonic()
        more: dict[str, Any] = {}
        try:
            yield more
        except BaseException as error:
            spent = (self.clock.monotonic() - began) * 1000
            self.emit(phase, f"{name}_failed", {**(data or {}), **more}, level="error", duration_ms=spent, error=error)
            raise
        spent = (self.clock.monotonic() - began) * 1000
        self.emit(phase, f"{name}_finished", {**(data or {}), **more}, duration_ms=spent)
