"""The observer as others use it: watch once, watch on, observe a unit from a thread, and ask whether sealing must hold.

It is a producer of evidence. It never marks anything done or failed, and never renews, merges, retries or deletes.

Watching: events wake, the interval reconciles, the deadline is judged after everything was read. Nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktxkit.base import owners
from ktxkit.base.errors import Refused
from ktxkit.observer import attempt as observer_records
from ktxkit.observer import status as observer_status
from ktxkit.observer.attach import MISSING, Attached, attach, opened, trusted_baseline
from ktxkit.observer.attempt import ObserverAttempt, record_proof
from ktxkit.observer.reconcile import Reconciler, Reconciliation
from ktxkit.observer.rules.clocks import Settings, deadlines
from ktxkit.observer.rules.status import LeaseValidity
from ktxkit.observer.scan import Level
from ktxkit.observer.watch import Churn, Watcher, WatchFailed
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, path_of

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, ChurnCount, Lease, ObserverStatus
    from ktxkit.observer.reconcile import ObserverOfState


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
                "the worktree is not at rest, or not the leased one", location=where, hint="end what writes there"
            )
        observer_records.preserved(attached.attempt, ref)
    return _told(attached), ref


def _at_rest(before: Reconciliation, after: Reconciliation) -> bool:
    """Two looks at everything found the same, and nothing in motion."""
    if before.scan is None or after.scan is None or before.scan.partial or after.scan.partial:
        return False
    return before.scan.stored.digest == after.scan.stored.digest


MILLISECOND = 1_000_000
EVENT_GAP = 500 * MILLISECOND  # between two looks that events ask for: a busy writer gets two records a second
REMEMBERED = 4_096  # paths whose class the event filter keeps


@dataclass
class ObserverLoop:
    """One observer of one attempt, for one thread. `step` until `over`."""

    attached: Attached
    wanted: bool = True  # native watching
    watcher: Watcher | None = None
    churn: Churn | None = None
    degraded: str = ""
    over: str = ""  # why there is nothing to watch any more
    latest: Reconciliation | None = None
    reconciler: Reconciler = field(init=False)
    _last_full: int = 0
    _last_event: int = 0
    _last_judged: int = 0
    _classes: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reconciler = Reconciler(self.attached, self.describe, self._on_directory, self._on_pruned)
        self._policy = self.attempt.policy
        self._owner: Any = owners.hold(self.attempt.world.writable_store.root).document()
        if not self.attached.basis.reliable:
            self.degraded = self.attached.basis.because
        elif not self.wanted:
            self.degraded = "native watching was switched off"
        else:
            self._begin_watching()

    @property
    def attempt(self) -> ObserverAttempt:
        return self.attached.attempt

    def _begin_watching(self) -> None:
        try:
            self.watcher = Watcher(self._churn_of)
            self.churn = Churn()
        except WatchFailed as error:
            self._degrade(str(error))

    def _degrade(self, why: str) -> None:
        """Poll from now on, and say so."""
        self.degraded = why
        for watching in (self.watcher, self.churn):
            if watching is not None:
                watching.close()
        self.watcher = self.churn = None

    def _on_directory(self, path: bytes, fd: int) -> None:
        if self.watcher is not None:
            try:
                self.watcher.on_directory(path, fd)
            except WatchFailed as error:
                self._degrade(str(error))

    def _on_pruned(self, path: bytes, parent: int, reason: str) -> None:
        if self.churn is not None:
            self.churn.on_pruned(path, parent, reason)

    def _churn_of(self, path: bytes, is_dir: bool) -> str:
        """Why an event at a path is none of ours."""
        key = path + b"/" if is_dir else path
        if key not in self._classes:
            if len(self._classes) >= REMEMBERED:
                self._classes.clear()
            self._classes[key] = self._reason(path, is_dir)
        return self._classes[key]

    def _reason(self, path: bytes, is_dir: bool) -> str:
        tracked = self.attached.basis.tracked
        if is_dir:
            why = self._policy.prunes(path)
            return why.reason if why is not None and not tracked.any_below(path) else ""
        found = self._policy.classify(path, tracked=path in tracked)
        return "" if found.candidate else found.reason

    def describe(self) -> ObserverOfState:
        """What the state document says of this observer."""
        made: ObserverOfState = {"owner": self._owner, "mode": "poll-only" if self.degraded else "event+reconcile"}
        if self.degraded:
            made["modeReason"] = self.degraded[:400]
        if self.watcher is not None and self.churn is not None:
            counts: dict[str, ChurnCount] = {reason: {"count": count} for reason, count in self.watcher.churn.items()}
            for reason, found in self.churn.counts.items():
                total = (counts[reason]["count"] if reason in counts else 0) + found.count
                counts[reason] = {"count": total, "atLeast": True} if found.at_least else {"count": total}
            made |= {"churn": counts, "overflows": self.watcher.overflows}
        return made

    # -- steps ------------------------------------------------------------------------------------------------------

    def first(self) -> Reconciliation:
        """The look at the start: everything is read, whatever a state on the disk says, where it was not just now."""
        seen = self._reconcile("startup", Level.CONTENT if self.attached.scan is None else Level.STAT)
        self._last_full = self.now
        return seen

    @property
    def now(self) -> int:
        return self.attempt.line_now().at

    def step(self, longest: float) -> Reconciliation | None:
        """Wait for at most `longest` seconds, and do what is due. None where nothing was."""
        settings = self.attempt.state.settings
        now = self.now
        due = min(self._last_full + settings.interval, self._judgement(now))
        self._wait(min(longest, max(0, due - now) / 1e9))
        now = self.now
        self._count_churn()
        if now >= self._judgement(now):
            self._last_judged = now
            return self._full("before-decision", Level.CONTENT)
        if self.watcher is not None and self.watcher.pending and now - self._last_event >= EVENT_GAP:
            return self._by_event()
        if now >= self._last_full + settings.interval:
            return self._full("periodic", Level.STAT)
        return None

    def _wait(self, seconds: float) -> None:
        """Until something is pending (and has been gathered for the debounce time), or the time is over."""
        clock = self.attempt.world.clock
        if self.watcher is None:
            clock.sleep(seconds)
            return
        if self.watcher.pending:
            clock.sleep(min(seconds, max(0, self._last_event + EVENT_GAP - self.now) / 1e9))
        elif self.watcher.wait(seconds):
            clock.sleep(self.attempt.state.settings.debounce_ms / 1000)

    def _judgement(self, now: int) -> int:
        """When the deadline is to be judged; never again for one that was."""
        state = self.attempt.state
        never = now + state.settings.interval
        if not state.window.known or state.authority != "current":
            return never
        at = deadlines(state.window, state.settings).suspect_at
        again = self._last_judged + state.settings.interval  # where nothing could be said: not before the next look
        return never if state.suspect_since == at else max(at, again)

    def _by_event(self) -> Reconciliation:
        assert self.watcher is not None
        wake = self.watcher.take()
        self._last_event = self.now
        hints = wake.hints()
        if wake.overflow:
            return self._full("overflow", Level.STAT)
        if hints is None:
            return self._full("event", Level.STAT)
        return self._reconcile("event", Level.HINT, hints)

    def _full(self, source: str, level: Level) -> Reconciliation:
        if self.watcher is not None:
            self.watcher.take()  # what it names is looked at now
        seen = self._reconcile(source, level)
        self._last_full = self.now
        return seen

    def _reconcile(self, source: str, level: Level, hints: Any = None) -> Reconciliation:
        self.latest = seen = self.reconciler.reconcile(source, level, hints)
        self.over = _over(seen)
        return seen

    def _count_churn(self) -> None:
        if self.churn is None:
            return
        with opened(self.attempt.lease) as root:
            if not isinstance(root, str):
                self.churn.look(root.fd)

    def close(self) -> None:
        for watching in (self.watcher, self.churn):
            if watching is not None:
                watching.close()


def _over(seen: Reconciliation) -> str:
    """Why an observer has nothing more to say."""
    if seen.validity in (LeaseValidity.SUPERSEDED, LeaseValidity.STALE_OBSERVER):
        return str(seen.validity.value)
    if seen.validity is LeaseValidity.REVOKED and seen.problem == MISSING:
        return "the lease is closed and its worktree is gone"
    return ""
