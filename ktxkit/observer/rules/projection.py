"""What a look at the worktree means for the attempt: which record is written, and whether it defers anything.

The attempt's tracked set: sorted paths, as they were when the observer attached. `git add` does not change it.

The state of an attempt, folded from its records: the same records give the same state, after any crash.

The records of `activity.jsonl`: what each says, how they are linked, what is wrong with a chain.

A record carries the whole tuple, so that it means something by itself. `hash` is the digest of the record without it;
`prev` is the hash of the record before. The head is anchored in the lease document: a chain that is shorter than its
anchor was cut, one that has another record there was rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base.rules.digests import digest, digest_of
from ktxkit.base.rules.manifest import ManifestChange
from ktxkit.base.rules.text import path_fields
from ktxkit.observer.rules.clocks import (
    ClockReading,
    Deadlines,
    Observation,
    Settings,
    Timeline,
    Window,
    deadlines,
    observe,
    was_watched,
)
from ktxkit.observer.rules.status import LeaseValidity

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease, LeaseObserver, ObserverStatusAuthority


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
        return ClockRuling(STALE, validity.value, state.window)
    if state.authority != "current":
        kind = LATE_AFTER_REAP if state.authority == "reaped" else LATE_MUTATION
        return ClockRuling(LATE, state.revoked_because, state.window, kind)
    if validity is LeaseValidity.REVOKED:
        return ClockRuling(LATE, validity.value, state.window, LATE_MUTATION)
    if state.holds or not sighting.trusted:
        return ClockRuling(ACTIVITY, "held", state.window)
    observation = Observation(
        at=sighting.line_at,
        proof_seq=sighting.proof_seq,
        watched=was_watched(sighting.last_look, sighting.line_at, state.settings),
        recurring=sighting.manifest in state.manifests,
    )
    window, reason = observe(state.window, observation, state.settings)
    return ClockRuling(ACTIVITY, reason, window)


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
    manifests: set[str] = field(default_factory=set)
    receipts: set[str] = field(default_factory=set)

    @property
    def quarantined(self) -> bool:
        """Late bytes that nobody has kept yet: sealing and cleanup hold."""
        return self.late_count > 0 and (self.preserved is None or self.preserved["after"] != self.manifest)

    @property
    def late_after_reap(self) -> bool:
        return any(record["lateKind"] == LATE_AFTER_REAP for record in self.late)

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
        self.manifests = {record["after"]}
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
        self.manifests.add(record["after"])
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


CHANGES_KEPT = 64

BASELINE, ATTACH, ACTIVITY, PROOF, FENCE, REAP = "baseline", "attach", "activity", "proof", "fence", "reap"
LATE, STALE, HOLD, SUSPECT, PRESERVED = "late", "stale", "hold", "suspect", "preserved"
LATE_MUTATION, LATE_AFTER_REAP = "late-worktree-mutation-observed", "late-write-after-reap"


def rfc3339(nanoseconds: int) -> str:
    """A point of a time line as UTC with milliseconds."""
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1_000_000 % 1000:03d}Z"


def linked(body: Mapping[str, Any], seq: int, prev: str, segment: int) -> ActivityRecord:
    """The record, in its place of the chain."""
    made: dict[str, Any] = {"schemaVersion": 1, "kind": "observation", "segment": segment, "seq": seq}
    if prev:
        made["prev"] = prev
    made |= body
    return cast("ActivityRecord", {**made, "hash": digest_of(made)})  # who appends it judges it


def link_problem(record: ActivityRecord, seq: int, prev: str) -> str:
    """Why a record cannot stand at this place; `""` where it can."""
    body = {key: value for key, value in record.items() if key != "hash"}
    if record["seq"] != seq:
        return f"sequence {record['seq']} where {seq} belongs"
    if record.get("prev", "") != prev:
        return "it does not follow the record before it"
    if digest_of(body) != record["hash"]:
        return "its content is not what its hash says"
    return ""


@dataclass(frozen=True)
class Anchor:
    """The head of a chain as the lease document has it."""

    segment: int = 1
    seq: int = 0
    head: str = ""
    epoch: int = 0

    @classmethod
    def of(cls, lease: Lease | None) -> Anchor:
        found = lease.get("observer") if lease is not None else None
        return cls(found["segment"], found["seq"], found["head"], found["epoch"]) if found else cls()

    def document(self) -> LeaseObserver:
        return {"segment": self.segment, "seq": self.seq, "head": self.head, "epoch": self.epoch}


def anchor_problem(records: Sequence[ActivityRecord], anchor: Anchor) -> str:
    """`rollback` or `fork` where a whole chain is not the one that was anchored, else `""`."""
    if len(records) < anchor.seq:
        return "rollback" if records else "missing"
    if anchor.seq and records[anchor.seq - 1]["hash"] != anchor.head:
        return "fork"
    return ""


@dataclass(frozen=True)
class When:
    """Where a record stands in time, and what was looked at for it."""

    line: Timeline
    source: str  # event, periodic, startup, before-decision, overflow, manual
    level: str = ""

    def document(self) -> dict[str, Any]:
        reading = self.line.reading
        clock = {"boot": reading.boot, "bootNs": reading.boot_ns, "wallNs": reading.wall_ns}
        made = {"at": rfc3339(reading.wall_ns), "timelineNs": self.line.at, "clock": clock, "source": self.source}
        if self.line.jumped:
            made["clockDiscontinuity"] = True
        return {**made, "level": self.level} if self.level else made


def deadline_document(window: Window, settings: Settings) -> dict[str, Any]:
    """The window and its deadlines, as they are persisted. Empty where nothing is known of proofs."""
    if not window.known:
        return {}
    made: Deadlines = deadlines(window, settings)
    document = {
        "lastProvenNs": window.proven_at,
        "proofSeq": window.proof_seq,
        "proofDeadlineNs": made.proof,
        "suspectAtNs": made.suspect_at,
        "capConsumedNs": made.consumed,
    }
    if window.observed_at is not None:
        document |= {"lastObservedNs": window.observed_at, "observedUnder": window.observed_under}
    return document


@dataclass(frozen=True)
class Delta:
    """What changed between two manifests, bounded for a record."""

    before: str
    after: str
    changes: Sequence[ManifestChange] = ()
    exact: bool = True  # False: the stored entries were not the manifest before, so the paths are of an older one

    def document(self) -> dict[str, Any]:
        shown = [item for change in self.changes for item in self._change(change)][:CHANGES_KEPT]
        made: dict[str, Any] = {"before": self.before, "after": self.after, "changedCount": len(self.changes)}
        if shown:
            made["changes"] = shown
        made["byteDelta"] = sum(change.byte_delta for change in self.changes)
        return made if self.exact else {**made, "pathsApproximate": True}

    def _change(self, change: ManifestChange) -> list[dict[str, Any]]:
        common: dict[str, Any] = {**path_fields(change.path), "class": change.path_class}
        if change.flags:
            common["flags"] = list(change.flags)
        return [
            {**common, "operation": operation, **_sides(change, operation), "byteDelta": change.byte_delta}
            for operation in change.operations
        ]


def _sides(change: ManifestChange, operation: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if change.before is not None and operation != "create":
        made |= {"before": "b3:" + change.before.blake3.hex(), "beforeMode": f"{change.before.mode:06o}"}
    if change.after is not None and operation != "delete":
        made |= {"after": "b3:" + change.after.blake3.hex(), "afterMode": f"{change.after.mode:06o}"}
    return made
