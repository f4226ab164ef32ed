"""What a look at the worktree means for the attempt: which record is written, and whether it defers anything.

The attempt's tracked set: sorted paths, as they were when the observer attached. `git add` does not change it.

The state of an attempt, folded from its records: the same records give the same state, after any crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ktxkit.base.rules.digests import digest
from ktxkit.observer.rules import records
from ktxkit.observer.rules.clocks import ClockReading, Observation, Settings, Timeline, Window, observe, was_watched
from ktxkit.observer.rules.status import LeaseValidity

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, ObserverStatusAuthority


@dataclass(frozen=True)
class Sighting:
    """A finished scan. `line_at` is the time line's now; `last_look` when the last reconciliation ended, if known."""

    manifest: str
    line_at: int
    last_look: int | None
    proof_seq: int  # the number of the proof that was current when the scan began
    trusted: bool = True  # False: the root's control files do not fit the lease; what is seen defers nothing


@dataclass(frozen=True)
class ClockRuling:
    """The event to record (`""`: none), why it counts or does not, and the window after it."""

    event: str
    reason: str
    window: Window
    late_kind: str = ""


def rule(state: ObserverProjection, sighting: Sighting, validity: LeaseValidity) -> ClockRuling:
    """One ruling for one sighting. The state is the chain's, read under its lock."""
    if sighting.manifest == state.manifest:
        return ClockRuling("", "unchanged", state.window)
    if validity in (LeaseValidity.SUPERSEDED, LeaseValidity.STALE_OBSERVER):
        return ClockRuling(records.STALE, validity.value, state.window)
    if state.authority != "current":
        kind = records.LATE_AFTER_REAP if state.authority == "reaped" else records.LATE_MUTATION
        return ClockRuling(records.LATE, state.revoked_because, state.window, kind)
    if validity is LeaseValidity.REVOKED:
        return ClockRuling(records.LATE, validity.value, state.window, records.LATE_MUTATION)
    if state.holds or not sighting.trusted:
        return ClockRuling(records.ACTIVITY, "held", state.window)
    observation = Observation(
        at=sighting.line_at,
        proof_seq=sighting.proof_seq,
        watched=was_watched(sighting.last_look, sighting.line_at, state.settings),
        recurring=sighting.manifest in state.seen,
    )
    window, reason = observe(state.window, observation, state.settings)
    return ClockRuling(records.ACTIVITY, reason, window)


class Tracked:
    """Paths, each ended by NUL, in byte order. They are never unpacked: there may be hundreds of thousands."""

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed
        self._behind = 0  # the path that was found last: a walk in order asks for the next one

    @classmethod
    def of(cls, paths: Iterable[bytes]) -> Tracked:
        return cls(b"".join(path + b"\0" for path in sorted(set(paths))))

    @cached_property
    def digest(self) -> str:
        return digest(self.packed)

    def __contains__(self, path: bytes) -> bool:
        whole = path + b"\0"
        if self.packed.startswith(whole, self._behind):  # a path begins there: behind a NUL, or at 0
            self._behind += len(whole)
            return True
        at = self._place(path)
        if not self.packed.startswith(whole, at):
            return False
        self._behind = at + len(whole)
        return True

    def any_below(self, directory: bytes) -> bool:
        """Whether a tracked path lies below a directory (named without its slash)."""
        prefix = directory + b"/"
        return self._from(prefix).startswith(prefix)

    def _from(self, path: bytes) -> bytes:
        at = self._place(path)
        return self.packed[at : at + len(path) + 1]

    def _place(self, path: bytes) -> int:
        """The begin of the first path that is not before `path`: a binary search in the packed text itself."""
        packed = self.packed
        low, high = 0, len(packed)  # begins of paths; the answer is at `low` or behind it, before or at `high`
        while low < high:
            middle = packed.rfind(b"\0", low, (low + high) // 2) + 1 or low
            end = packed.index(b"\0", middle)
            if packed[middle:end] < path:
                low = end + 1
            else:
                high = middle
        return low

    def __len__(self) -> int:
        return self.packed.count(b"\0")


LATE_SHOWN = 20  # late writes that are kept one by one; all are counted


@dataclass
class ObserverProjection:
    """What the chain says. Times are nanoseconds of the time line."""

    settings: Settings = field(default_factory=Settings)
    segment: int = 1
    seq: int = 0
    head: str = ""
    epoch: int = 0  # of the observer that attached last
    content_seq: int = 0
    manifest: str = ""
    baseline_at: int = 0
    baseline_known: bool = False
    lost: str = ""  # why the segment before this one was given up
    window: Window = field(default_factory=lambda: Window(0, known=False))
    line: Timeline = field(default_factory=lambda: Timeline(0, ClockReading("", 0, 0)))
    authority: ObserverStatusAuthority = "current"
    revoked_because: str = ""
    observed_at: int | None = None  # the last change, whether it defers or not
    last_activity: ActivityRecord | None = None
    last_proof: ActivityRecord | None = None
    holds: tuple[str, ...] = ()  # reasons that keep the whole attempt from being judged
    late: list[ActivityRecord] = field(default_factory=list)
    late_count: int = 0
    preserved: ActivityRecord | None = None
    suspect_since: int | None = None
    seen: set[str] = field(default_factory=set)
    receipts: set[str] = field(default_factory=set)

    @property
    def quarantined(self) -> bool:
        """Late bytes that nobody has kept yet: sealing and cleanup hold."""
        return self.late_count > 0 and (self.preserved is None or self.preserved["after"] != self.manifest)

    @property
    def late_after_reap(self) -> bool:
        return any(record["lateKind"] == records.LATE_AFTER_REAP for record in self.late)

    def apply(self, record: ActivityRecord) -> None:
        """Take one record. Records come in order; each has been checked."""
        self.segment, self.seq, self.head = record["segment"], record["seq"], record["hash"]
        clock = record["clock"]
        reading = ClockReading(clock["boot"], clock["bootNs"], clock["wallNs"])
        self.line = Timeline(max(self.line.at, record["timelineNs"]), reading)
        handler = getattr(self, f"_{record['event']}", None)
        if handler is not None:
            handler(record)

    def _baseline(self, record: ActivityRecord) -> None:
        self.settings = Settings.of(record["settings"])
        self.manifest = record["after"]
        self.seen = {record["after"]}
        self.epoch = record["domain"]["observerEpoch"]
        self.baseline_at = record["timelineNs"]
        self.baseline_known = record["baselineTime"] == "known"
        self.window = Window(record["timelineNs"], known=self.baseline_known)
        self.holds = tuple(record.get("holds", ()))
        given_up = (hold.removeprefix("journal_") for hold in self.holds if hold.startswith("journal_"))
        self.lost = next(given_up, "")

    def _attach(self, record: ActivityRecord) -> None:
        self.epoch = record["domain"]["observerEpoch"]

    def _activity(self, record: ActivityRecord) -> None:
        self.content_seq = record["contentSeq"]
        self.manifest = record["after"]
        self.seen.add(record["after"])
        self.observed_at = record["timelineNs"]
        self.last_activity = record
        self._take_window(record)

    def _proof(self, record: ActivityRecord) -> None:
        self.receipts.add(record["receipt"]["id"])
        self.last_proof = record
        self._take_window(record)

    def _take_window(self, record: ActivityRecord) -> None:
        """The window as it was persisted: nothing is counted again."""
        found = record.get("deadline")
        if not found:
            return
        self.window = Window(
            found["lastProvenNs"], found["proofSeq"], found.get("lastObservedNs"), found.get("observedUnder", 0)
        )
        if record["timelineNs"] < found["suspectAtNs"]:
            self.suspect_since = None

    def _fence(self, record: ActivityRecord) -> None:
        self.authority, self.revoked_because = "revoked", record["reason"]

    def _reap(self, _record: ActivityRecord) -> None:
        self.authority = "reaped"

    def _late(self, record: ActivityRecord) -> None:
        self.manifest = record["after"]
        self.late_count += 1
        self.late = [*self.late, record][-LATE_SHOWN:]

    def _preserved(self, record: ActivityRecord) -> None:
        self.preserved = record

    def _hold(self, record: ActivityRecord) -> None:
        self.holds = tuple(record.get("holds", ()))

    def _suspect(self, record: ActivityRecord) -> None:
        self.suspect_since = record["deadline"]["suspectAtNs"]


def replay(chain: Iterable[ActivityRecord]) -> ObserverProjection:
    """The state after every record of a chain."""
    made = ObserverProjection()
    for record in chain:
        made.apply(record)
    return made
