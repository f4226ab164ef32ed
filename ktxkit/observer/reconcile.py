"""Reconciling: scan, prove that it was the leased root, rule, append, anchor, project. In this order, whatever dies.

The scan runs without a lock. Under the journal's lock the chain is read again: what another observer has appended
meanwhile makes the scan void, and it is done anew. The record is flushed before manifest, anchor and state say
anything of it, so that a crash between them repeats neither its sequence nor its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.text import path_fields
from ktxkit.observer import attach, scan
from ktxkit.observer.attach import Attached
from ktxkit.observer.attempt import ObserverAttempt
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.rules import projection
from ktxkit.observer.rules.clocks import Timeline, deadlines, is_suspect
from ktxkit.observer.rules.projection import Anchor, ClockRuling, Delta, Sighting, When, rule
from ktxkit.observer.rules.status import LeaseValidity, lease_validity
from ktxkit.observer.scan import Hints, Level, OnDirectory, OnPruned, Scan
from ktxkit.store.leases import excluded_here

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import (
        ActivityRecord,
        ChurnCount,
        HeldPaths,
        ObserverState,
        ObserverStateMode,
        OwnerProcess,
        UnstablePaths,
    )

    class ObserverOfState(TypedDict):
        """The part of a state that tells of the observer itself."""

        mode: ObserverStateMode
        modeReason: NotRequired[str]
        owner: NotRequired[OwnerProcess]
        overflows: NotRequired[int]
        churn: NotRequired[dict[str, ChurnCount]]

    class ScanFacts(TypedDict):
        """The part of a state that tells what a scan found."""

        entries: int
        holds: HeldPaths
        excluded: dict[str, int]
        unstable: NotRequired[UnstablePaths]


ROUNDS = 4  # scans that another observer may make void, one after the other


@dataclass
class Reconciliation:
    """One reconciliation. `problem`: the root is not the leased one, and nothing was scanned."""

    validity: LeaseValidity
    ruling: ClockRuling | None = None
    scan: Scan | None = None
    problem: str = ""
    appended: list[ActivityRecord] = field(default_factory=list)


@dataclass
class Reconciler:
    """Reconciles one attempt. `describe` gives what the caller's observer says of itself for the state document."""

    attached: Attached
    describe: Callable[[], ObserverOfState] = lambda: {"mode": "once"}
    on_directory: OnDirectory | None = None
    on_pruned: OnPruned | None = None
    last_look: int | None = None
    since_content: int = 0
    scans: int = 0
    _stored: Stored | None = None

    def __post_init__(self) -> None:
        state = self.attempt.read_state()
        if state is not None:
            self.last_look = state.get("lastReconcileNs")
            self.since_content, self.scans = state.get("sinceContent", 0), state["scans"]
        if self.attached.fresh:
            self.last_look = self.attempt.state.line.at

    @property
    def attempt(self) -> ObserverAttempt:
        return self.attached.attempt

    def begin(self, source: str, level: Level) -> Reconciliation:
        """The first look. Where the baseline was taken just now, and nothing moved in it, its scan is the look."""
        found = self.attached.scan
        if found is None:
            return self.reconcile(source, level)
        self._stored = found.stored
        return self._reconcile(source, Level.CONTENT, None, found)

    def reconcile(self, source: str, level: Level, hints: Hints | None = None) -> Reconciliation:
        """One reconciliation, with everything it writes. Raises BrokenContract, Blocked, OSError: then nothing counts.

        Where other observers make every scan void, theirs are the records, and this look is none.
        """
        return self._reconcile(source, self._level(level, hints), hints)

    def _reconcile(self, source: str, level: Level, hints: Hints | None, found: Scan | None = None) -> Reconciliation:
        for _ in range(ROUNDS):
            before = self.attempt.state.manifest
            seen = self._look(level, hints if level is Level.HINT else None, found)
            found = None
            with self.attempt.chain.locked(self._anchor()):
                self.attempt.fold()
                self._must_be_whole()
                if self.attempt.state.manifest == before or seen.scan is None:
                    self._record(seen, source, level)
                    break
        else:
            seen.scan = None
        self._project(seen, level)
        return seen

    def _must_be_whole(self) -> None:
        chain = self.attempt.chain
        if chain.problem:
            hint = "attach again: a new segment begins, and nothing is claimed of the time before"
            raise BrokenContract(f"the journal is damaged: {chain.problem}", location=chain.problem_path, hint=hint)

    def _level(self, wanted: Level, hints: Hints | None) -> Level:
        """What is read at least: everything where keys mean nothing, and at each so many periodic scans."""
        taken = self.attached.basis
        due = self.since_content + 1 >= taken.settings.content_every
        if not taken.reliable or (wanted is Level.STAT and due):
            return Level.CONTENT
        lost = self._manifest().digest != self.attempt.state.manifest
        return Level.STAT if wanted is Level.HINT and (lost or hints is None) else wanted

    def _anchor(self) -> Anchor:
        return Anchor.of(self.attempt.lease_now())

    def _look(self, level: Level, hints: Hints | None, found: Scan | None) -> Reconciliation:
        """Scan, where `found` is no scan that was made already."""
        attempt = self.attempt
        with attach.opened(attempt.lease) as root:
            problem = root if isinstance(root, str) else ""
            untrusted = "" if isinstance(root, str) else root.untrusted
            if not isinstance(root, str) and found is None:
                subject = attach.subject(attempt, root, self.attached.basis)
                found = scan.scan(
                    subject,
                    self._manifest(),
                    level,
                    hints=hints,
                    on_directory=self.on_directory,
                    on_pruned=self.on_pruned,
                )
        problem = problem or attach.wrong(attempt.lease)  # it was exchanged while we looked
        seen = Reconciliation(self._standing(), problem=problem or "", scan=None if problem else found)
        if untrusted and not problem:
            seen.problem = untrusted
        return seen

    def _manifest(self) -> Stored:
        """The stored manifest; another observer may have replaced it."""
        digest_ = self.attempt.policy.digest
        if self._stored is None or self._stored.digest != self.attempt.state.manifest:
            self._stored = self.attempt.stored(digest_)
        return self._stored

    def _standing(self) -> LeaseValidity:
        attempt = self.attempt
        found = lease_validity(attempt.domain, attempt.lease_now())
        if found is LeaseValidity.CURRENT and attempt.state.epoch > attempt.epoch:
            return LeaseValidity.STALE_OBSERVER
        return found

    def _record(self, seen: Reconciliation, source: str, level: Level) -> None:
        """Rule and append; the chain's lock is held, its state is the last word."""
        attempt, state = self.attempt, self.attempt.state
        seen.validity = self._standing()
        when = When(attempt.line_now(), source, level.value)
        made: list[ActivityRecord] = []
        if seen.validity is LeaseValidity.REVOKED and state.authority == "current":
            made.append(attempt.record(projection.FENCE, When(when.line, "lifecycle"), {"reason": seen.validity.value}))
        made += self._holds(seen, when, made)
        if seen.scan is not None:
            made += self._change(seen, when, made)
        made += self._suspect(seen, when, made)
        if made:
            attempt.append(made)
        seen.appended = made

    def _holds(self, seen: Reconciliation, when: When, before: list[ActivityRecord]) -> list[ActivityRecord]:
        """That the attempt as a whole cannot be judged, or can be again; journal problems stay."""
        state = self.attempt.state
        kept = [hold for hold in state.holds if hold.startswith(("journal_", "baseline_"))]
        gone = seen.problem == attach.MISSING and (state.authority != "current" or bool(before))
        now = [*kept, *([seen.problem] if seen.problem and not gone else [])]
        if tuple(now) == state.holds or seen.validity is LeaseValidity.SUPERSEDED:
            return []
        return [self.attempt.record(projection.HOLD, when, {"holds": now}, before[-1] if before else None)]

    def _change(self, seen: Reconciliation, when: When, before: list[ActivityRecord]) -> list[ActivityRecord]:
        attempt, state, found = self.attempt, self.attempt.state, seen.scan
        assert found is not None
        sighting = Sighting(
            manifest=found.stored.digest,
            line_at=when.line.at,
            last_look=self.last_look,
            proof_seq=state.window.proof_seq,
            trusted=not seen.problem,
        )
        seen.ruling = ruling = rule(state, sighting, seen.validity)
        if not ruling.event:
            return []
        body = self._delta(found).document()
        body |= {"counted": ruling.reason == "counted", "reason": ruling.reason}
        if found.partial:
            body["partial"] = True
        if ruling.event == projection.ACTIVITY:
            body["contentSeq"] = state.content_seq + 1
            body["deadline"] = projection.deadline_document(ruling.window, state.settings)
        if ruling.event == projection.LATE:
            body["lateKind"] = ruling.late_kind
            body["notBeforeNs"] = min(self.last_look or state.baseline_at, when.line.at)
        full = {key: value for key, value in body.items() if value != {}}
        return [attempt.record(ruling.event, when, full, before[-1] if before else None)]

    def _delta(self, scan: Scan) -> Delta:
        stored = self._manifest()
        exact = stored.digest == self.attempt.state.manifest
        changes = scan.changes if exact or len(stored) else []  # against nothing, everything would be new
        return Delta(self.attempt.state.manifest, scan.stored.digest, changes, exact)

    def _suspect(self, seen: Reconciliation, when: When, before: list[ActivityRecord]) -> list[ActivityRecord]:
        """That the deadline has come: once for each deadline, and only after everything was read."""
        state = self.attempt.state
        window = seen.ruling.window if seen.ruling else state.window
        decided = when.level == Level.CONTENT.value and seen.scan is not None and seen.validity is LeaseValidity.CURRENT
        if not decided or state.authority != "current" or not is_suspect(window, when.line.at, state.settings):
            return []
        if state.suspect_since == deadlines(window, state.settings).suspect_at:
            return []
        body = {"deadline": projection.deadline_document(window, state.settings), "reason": "deadline_passed"}
        return [self.attempt.record(projection.SUSPECT, when, body, before[-1] if before else None)]

    def _project(self, seen: Reconciliation, level: Level) -> None:
        """What follows from a record that is on the disk: manifest, anchor, state."""
        attempt = self.attempt
        line = attempt.line_now()
        if seen.scan is not None:
            stale = seen.ruling is not None and seen.ruling.event == projection.STALE
            if seen.scan.changed_keys and not stale:
                seen.scan.stored.save(attempt.path("manifest.bin"))
            self._stored = None if stale else seen.scan.stored
            self.last_look, self.scans = line.at, self.scans + 1
            self.since_content = 0 if level is Level.CONTENT else self.since_content + 1
        attempt.anchor_if_free()
        attempt.write_state(self._state(seen, line, level))

    def _state(self, seen: Reconciliation, line: Timeline, level: Level) -> ObserverState:
        attempt, reading = self.attempt, line.reading
        old = attempt.read_state()
        own = self._described(old)
        made: ObserverState = {
            "schemaVersion": SCHEMA_VERSION,
            "kind": "observer-state",
            "segment": attempt.chain.segment,
            "seq": len(attempt.chain.records),
            "head": attempt.chain.head,
            "manifest": attempt.state.manifest,
            "observerEpoch": attempt.epoch or attempt.state.epoch,
            "timelineNs": line.at,
            "clock": {"boot": reading.boot, "bootNs": reading.boot_ns, "wallNs": reading.wall_ns},
            "scans": self.scans,
            "sinceContent": self.since_content,
            "lastLevel": level.value,
            "drift": self._drift(),
            "mode": own["mode"],
        }
        for key in ("modeReason", "owner", "overflows", "churn"):
            if key in own:
                made[key] = own[key]
        if self.last_look is not None:
            made["lastReconcileNs"] = self.last_look
        if seen.scan is not None:
            found = _found_document(seen.scan, old, line.at)
            for part in ("entries", "holds", "unstable", "excluded"):
                if part in found:
                    made[part] = found[part]
        elif old is not None:
            for before in ("entries", "holds", "unstable", "excluded"):
                if before in old:
                    made[before] = old[before]
        return made

    def _described(self, old: ObserverState | None) -> ObserverOfState:
        """What the observer says of itself. One look does not take a watcher's place."""
        own = self.describe().copy()
        if own["mode"] == "once" and old is not None:
            for key in ("mode", "modeReason", "owner", "overflows", "churn"):
                if key in old:
                    own[key] = old[key]
        return own

    def _drift(self) -> list[str]:
        """Rules that were edited since the snapshot: without effect on this attempt, and said."""
        policy = self.attempt.policy
        then = next((text for place, text in policy.ignore.sources if not place), b"")
        now = excluded_here(self.attempt.world)
        had = any(not place and text == now for place, text in policy.ignore.sources)
        return [] if had or (not now and not then) else ["info_exclude_changed"]


def _found_document(scan: Scan, old: ObserverState | None, now: int) -> ScanFacts:
    held: list[Any] = [{**path_fields(hold.path), "reason": hold.reason} for hold in scan.holds]
    made: ScanFacts = {
        "entries": len(scan.stored),
        "holds": {"count": scan.held, "paths": held},
        "excluded": dict(sorted(scan.excluded.items())),
    }
    if scan.level is Level.HINT and old is not None:
        for key in ("holds", "excluded"):
            if key in old:
                made[key] = old[key]
    if scan.partial:
        before = old.get("unstable") if old is not None else None
        unstable: list[Any] = [path_fields(path) for path in scan.unstable]
        made["unstable"] = {
            "count": scan.unstable_count,
            "paths": unstable,
            "sinceNs": before["sinceNs"] if before is not None else now,
            "scans": before["scans"] + 1 if before is not None else 1,
        }
    return made
