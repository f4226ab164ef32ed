"""The state of an attempt, folded from its records: the same records give the same state, after any crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.clocks import Reading, Timeline, Window
from ktxkit.observer.rules.settings import Settings

LATE_SHOWN = 20  # late writes that are kept one by one; all are counted


@dataclass
class Projection:
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
    line: Timeline = field(default_factory=lambda: Timeline(0, Reading("", 0, 0)))
    authority: str = "current"  # current, revoked, reaped
    revoked_because: str = ""
    observed_at: int | None = None  # the last change, whether it defers or not
    last_activity: Mapping[str, Any] | None = None
    last_proof: Mapping[str, Any] | None = None
    holds: tuple[str, ...] = ()  # reasons that keep the whole attempt from being judged
    late: list[Mapping[str, Any]] = field(default_factory=list)
    late_count: int = 0
    preserved: Mapping[str, Any] | None = None
    suspect_since: int | None = None
    seen: set[str] = field(default_factory=set)
    receipts: set[str] = field(default_factory=set)

    @property
    def quarantined(self) -> bool:
        """Late bytes that nobody has kept yet: sealing and cleanup hold."""
        return self.late_count > 0 and (self.preserved is None or self.preserved["after"] != self.manifest)

    @property
    def late_after_reap(self) -> bool:
        return any(record["lateKind"] == r.LATE_AFTER_REAP for record in self.late)

    def apply(self, record: Mapping[str, Any]) -> None:
        """Take one record. Records come in order; each has been checked."""
        self.segment, self.seq, self.head = record["segment"], record["seq"], record["hash"]
        clock = record["clock"]
        reading = Reading(clock["boot"], clock["bootNs"], clock["wallNs"])
        self.line = Timeline(max(self.line.at, record["timelineNs"]), reading)
        handler = getattr(self, f"_{record['event']}", None)
        if handler is not None:
            handler(record)

    def _baseline(self, record: Mapping[str, Any]) -> None:
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

    def _attach(self, record: Mapping[str, Any]) -> None:
        self.epoch = record["domain"]["observerEpoch"]

    def _activity(self, record: Mapping[str, Any]) -> None:
        self.content_seq = record["contentSeq"]
        self.manifest = record["after"]
        self.seen.add(record["after"])
        self.observed_at = record["timelineNs"]
        self.last_activity = record
        self._take_window(record)

    def _proof(self, record: Mapping[str, Any]) -> None:
        self.receipts.add(record["receipt"]["id"])
        self.last_proof = record
        self._take_window(record)

    def _take_window(self, record: Mapping[str, Any]) -> None:
        """The window as it was persisted: nothing is counted again."""
        found = record.get("deadline")
        if not found:
            return
        self.window = Window(
            found["lastProvenNs"], found["proofSeq"], found.get("lastObservedNs"), found.get("observedUnder", 0)
        )
        if record["timelineNs"] < found["suspectAtNs"]:
            self.suspect_since = None

    def _fence(self, record: Mapping[str, Any]) -> None:
        self.authority, self.revoked_because = "revoked", record["reason"]

    def _reap(self, _record: Mapping[str, Any]) -> None:
        self.authority = "reaped"

    def _late(self, record: Mapping[str, Any]) -> None:
        self.manifest = record["after"]
        self.late_count += 1
        self.late = [*self.late, record][-LATE_SHOWN:]

    def _preserved(self, record: Mapping[str, Any]) -> None:
        self.preserved = record

    def _hold(self, record: Mapping[str, Any]) -> None:
        self.holds = tuple(record.get("holds", ()))

    def _suspect(self, record: Mapping[str, Any]) -> None:
        self.suspect_since = record["deadline"]["suspectAtNs"]


def replay(chain: Iterable[Mapping[str, Any]]) -> Projection:
    """The state after every record of a chain."""
    made = Projection()
    for record in chain:
        made.apply(record)
    return made
