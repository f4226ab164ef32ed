"""The observer as others use it: watch once, watch on, observe a unit from a thread, and ask whether sealing must hold.

It is a producer of evidence. It never marks anything done or failed, and never renews, merges, retries or deletes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktxkit.base.errors import Refused
from ktxkit.observer import attempt as observer_records
from ktxkit.observer import status as observer_status
from ktxkit.observer.attach import Attached, attach, trusted_baseline
from ktxkit.observer.attempt import ObserverAttempt, record_proof
from ktxkit.observer.reconcile import Reconciler, Reconciliation
from ktxkit.observer.rules.clocks import Settings
from ktxkit.observer.scanned import Level
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, path_of

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease, ObserverStatus
    from ktxkit.observer.loop import ObserverLoop

__all__ = ["UnitObserver", "once", "preserve", "record_proof", "sealing_hold", "status", "watch"]

STEP = 1.0  # seconds that one step of a watch may wait


def status(location: LeaseLocation, lease: Lease) -> ObserverStatus:
    """The attempt's status document; nothing is changed."""
    attempt = ObserverAttempt.of(location, lease)
    trusted_baseline(attempt)
    return observer_status.of(attempt, attempt.because)


def _told(attached: Attached) -> ObserverStatus:
    """The status at the end of a look; damage that it found is marked, though a new segment has begun."""
    made = observer_status.of(attached.attempt)
    if attached.damage and "lost" in made["journal"]:
        made["journal"]["lost"]["foundNow"] = True
    return made


def once(
    location: LeaseLocation, lease: Lease, level: Level, settings: Settings | None = None
) -> tuple[ObserverStatus, Reconciliation]:
    """Reconcile once: attach where nobody has, look, and return the status with what was seen."""
    attached = attach(location, lease, settings, bump=False)
    seen = Reconciler(attached).begin("manual", level)
    return _told(attached), seen


def watch(
    location: LeaseLocation,
    lease: Lease,
    stop: threading.Event,
    tell: Callable[[ActivityRecord], None],
    *,
    settings: Settings | None = None,
    native: bool = True,
    seconds: float | None = None,
) -> ObserverStatus:
    """Watch until `stop`, the attempt is over, another observer takes over, or `seconds` have passed.

    `tell` gets each record that was appended. Returns the status at the end.
    """
    from ktxkit.observer.loop import ObserverLoop

    loop = ObserverLoop(attach(location, lease, settings, bump=True), wanted=native)
    clock = location.world.clock
    began = clock.monotonic()
    try:
        seen: Reconciliation | None = loop.first()
        while True:
            for record in seen.appended if seen is not None else ():
                tell(record)
            left = STEP if seconds is None else seconds - (clock.monotonic() - began)
            if stop.is_set() or loop.over or left <= 0:
                return _told(loop.attached)
            seen = loop.step(min(STEP, left))
    finally:
        loop.close()


@dataclass
class UnitObserver:
    """Observes one unit of a job while its command runs. Made by `start`, used by one thread at a time.

    Between `start` (which returns when the baseline is on the disk: only then may the command begin) and `stop`, call
    `poll` again and again.
    """

    loop: ObserverLoop
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(
        cls,
        job: ActiveJob,
        unit: Unit,
        lease: Lease,
        *,
        settings: Settings | None = None,
        native: bool = True,
    ) -> UnitObserver:
        """Attach, with a whole baseline. Raises Refused, Blocked, OSError: then nothing is observed yet."""
        from ktxkit.observer.loop import ObserverLoop

        loop = ObserverLoop(attach(LeaseLocation.of_unit(job, unit), lease, settings, bump=True), wanted=native)
        try:
            loop.first()
        except BaseException:
            loop.close()
            raise
        return cls(loop)

    def poll(self, longest: float = STEP) -> str:
        """Wait for at most `longest` seconds and do what is due. Returns `working`, `suspect` or `unknown`."""
        with self._lock:
            if not self.loop.over:
                self.loop.step(longest)
            attempt = self.loop.attempt
            return observer_status.verdict(attempt, self.loop.now)

    def status(self) -> ObserverStatus:
        """The status document."""
        with self._lock:
            return observer_status.of(self.loop.attempt)

    def stop(self, *, reaped: bool = True, reason: str = "command_ended") -> ObserverStatus:
        """Read everything a last time, end the attempt's authority, and let go; returns the status.

        `reaped`: every process of the command is proven to have ended. What changes after this is late.
        """
        with self._lock:
            try:
                if not self.loop.over:
                    self.loop.reconciler.reconcile("before-decision", Level.CONTENT)
                    observer_records.fence(self.loop.attempt, reason)
                    if reaped:
                        observer_records.record_reaped(self.loop.attempt)
                return observer_status.of(self.loop.attempt)
            finally:
                self.loop.close()


def sealing_hold(location: LeaseLocation, lease: Lease) -> str:
    """Why the attempt must not be sealed or cleaned up now; `""` where nothing speaks against it, or nobody watched.

    Everything is read: what was written after the fence is found here at the latest. The caller holds the place's lock.
    """
    attempt = ObserverAttempt.of(location, lease)
    if not attempt.state.seq and not attempt.chain.problem:
        return ""
    if attempt.chain.problem:
        return f"the observer's journal cannot be trusted ({attempt.chain.problem})"
    if attempt.state.authority != "current":
        attached = attach(location, lease, bump=False, lock_held=True)
        Reconciler(attached).reconcile("before-decision", Level.CONTENT)
        made = observer_status.of(attached.attempt)
        if made["lateWrites"]["quarantined"]:
            return f"{made['lateWrites']['count']} late write(s) after its end are quarantined"
    return ""


def preserve(location: LeaseLocation, lease: Lease) -> tuple[ObserverStatus, str]:
    """Keep what is in the worktree at an attic ref, so that late writes may be let go; returns the status and the ref.

    Raises Refused where something in it cannot be kept. Nothing is credited to anybody by this.
    """
    from ktxkit.work.attic import to_attic

    with location.locked():
        attached = attach(location, lease, bump=False, lock_held=True)
        reconciler = Reconciler(attached)
        before = reconciler.reconcile("before-decision", Level.CONTENT)
        ref = to_attic(location, lease, path_of(lease), why="preserved by worktree-watch --preserve")
        after = reconciler.reconcile("before-decision", Level.CONTENT)
        if not _at_rest(before, after):
            where = str(path_of(lease))
            raise Refused(
                "the worktree is not at rest, or not the leased one", where=where, hint="end what writes there"
            )
        observer_records.preserved(attached.attempt, ref)
    return _told(attached), ref


def _at_rest(before: Reconciliation, after: Reconciliation) -> bool:
    """Two looks at everything found the same, and nothing in motion."""
    if before.scan is None or after.scan is None or before.scan.partial or after.scan.partial:
        return False
    return before.scan.stored.digest == after.scan.stored.digest
