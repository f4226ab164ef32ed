"""A unit under the observer while its command runs: reported when it is suspect, stopped only if the job file says so.

The observer is evidence. What it says is in the trace and never decides a unit's outcome; `onSuspect: stop` is the
job file's decision, and the unit's work is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ktxkit.base.contracts import Document
from ktxkit.base.errors import KtxError
from ktxkit.base.unit_process import Stop
from ktxkit.observer.observe import UnitObserver
from ktxkit.observer.rules.settings import Settings
from ktxkit.store import jobs
from ktxkit.store.tracing import Tracer
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules.job_file import UnitPlan

TICK = 0.5  # seconds that one look may wait


@dataclass
class Watched:
    """A stop flag of one unit: the job's, or its own where it was suspect and the job file says to stop it."""

    run: JobRun
    suspect: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def is_set(self) -> bool:
        return self.run.stop.is_set() or self.suspect.is_set()


@contextmanager
def observed(run: JobRun, plan: UnitPlan, unit: jobs.Unit, lease: Document) -> Iterator[Stop]:
    """The unit's stop flag for the block; with `observe` in the job file, the unit is observed meanwhile.

    The baseline is on the disk before the block begins. An observer that cannot attach is an error in the trace: the
    unit runs unobserved, and nothing claims otherwise.
    """
    settings = run.plan.observe
    if settings is None:
        yield run.stop
        return
    tracer = run.tracer.bound(unitKey=plan.key)
    flag = Watched(run)
    try:
        observer = UnitObserver.start(run.world, run.job, unit, lease, settings=Settings(**settings))
    except KtxError as error:
        tracer.emit("observer", "work_unit_unobserved", {"reason": error.message}, level="error", error=error)
        yield flag
        return
    looker = threading.Thread(target=_look, args=(run, plan, observer, flag), name=f"observer-{unit.position}")
    looker.start()
    try:
        yield flag
    finally:
        flag.ended.set()
        looker.join()
        _end(tracer, observer)


def _end(tracer: Tracer, observer: UnitObserver) -> None:
    """The last look. Evidence that cannot be written is told, and is no reason for the unit to fail."""
    try:
        tracer.emit("observer", "work_unit_observed", {"status": observer.stop()})
    except (KtxError, OSError) as error:
        tracer.emit("observer", "work_unit_observer_failed", {"reason": str(error)}, level="error", error=error)


def _look(run: JobRun, plan: UnitPlan, observer: UnitObserver, flag: Watched) -> None:
    """Poll until the command has ended; tell once for each time the unit becomes suspect."""
    tracer = run.tracer.bound(unitKey=plan.key)
    last = "working"
    while not flag.ended.is_set():
        try:
            word = observer.poll(TICK)
        except (KtxError, OSError) as error:
            tracer.emit("observer", "work_unit_observer_failed", {"reason": str(error)}, level="error", error=error)
            return
        if word == "suspect" and last != "suspect":
            told = {"status": observer.status(), "action": run.plan.on_suspect}
            tracer.emit("observer", "work_unit_suspect", told, level="info")
            run.notify("unit_suspect", {"unit": plan.key})
            if run.plan.on_suspect == "stop":
                flag.suspect.set()
        last = word
