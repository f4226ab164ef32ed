"""The records of `activity.jsonl`: what each says, how they are linked, what is wrong with a chain.

A record carries the whole tuple, so that it means something by itself. `hash` is the digest of the record without it;
`prev` is the hash of the record before. The head is anchored in the lease document: a chain that is shorter than its
anchor was cut, one that has another record there was rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.manifest import ManifestChange
from ktxkit.base.rules.text import path_fields
from ktxkit.observer.rules.clocks import Deadlines, Settings, Timeline, Window, deadlines

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease, LeaseObserver

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
