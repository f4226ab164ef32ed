"""The status of an attempt, read from what is on the disk and from the clocks. Nothing is changed by looking.

What the observer's two commands share: settings from options, a result from a status, a line for a record.

A trace event as a receipt of progress: what `trace-append --proof` tells the observer of the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from ktxkit.base import owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import truncated
from ktxkit.observer import attach
from ktxkit.observer.attempt import ObserverAttempt
from ktxkit.observer.rules import projection
from ktxkit.observer.rules import status as told
from ktxkit.observer.rules.clocks import Settings, deadlines
from ktxkit.observer.rules.projection import ObserverProjection, rfc3339
from ktxkit.observer.rules.status import lease_validity, lines, record_line
from ktxkit.store.active import ActiveJob
from ktxkit.store.leases import LeaseLocation, path_of, unit_options

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        ActivityRecord,
        BaselineTime,
        LateWrite,
        Lease,
        ObserverState,
        ObserverStatus,
        ObserverStatusActivity,
        ObserverStatusDeadlines,
        ObserverStatusJournal,
        ObserverStatusLateWrites,
        ObserverStatusObserver,
        ObserverStatusObserverMode,
        ObserverStatusProven,
        ObserverStatusVerdict,
        TraceEvent,
    )
    from ktxkit.observer.rules.status import ObserverClocks
    from ktxkit.store.world import World  # an event without a proof pays for nothing of the observer


CONTRACT = "observer-status"
MILLISECOND = 1_000_000


def of(attempt: ObserverAttempt, damage: str = "") -> ObserverStatus:
    """The status document. A chain with a problem is told; its last trusted state is not taken for the present.

    `damage`: what is wrong beside the chain, as with the baseline's own files.
    """
    state, now = attempt.state, attempt.line_now().at
    seen = attempt.read_state()
    made: ObserverStatus = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "observer-status",
        "at": timestamp(attempt.world.clock.now()),
        "verdict": "unknown" if damage else verdict(attempt, now),
        "authority": state.authority,
        "standing": lease_validity(attempt.domain, attempt.lease_now()).value,
        "domain": attempt.domain,
        "activity": _activity(state, now),
        "proven": _proven(state, now),
        "deadlines": deadline_facts(state, now),
        "observer": _observer(attempt, seen, now),
        "lateWrites": _late(state),
        "journal": _journal(attempt, damage),
        "process": attach.look(attempt.lease["nonce"], path_of(attempt.lease)).document(),
        "next": {"action": ""},  # it follows from the rest
    }
    if state.holds:
        made["attemptHolds"] = list(state.holds)
    if state.seq:
        known: BaselineTime = "known" if state.baseline_known else "unknown"
        made |= {"manifest": state.manifest, "baseline": {"baselineTime": known, "at": rfc3339(state.baseline_at)}}
    if "pathPolicyDigest" in attempt.lease:
        made["pathPolicyDigest"] = attempt.lease["pathPolicyDigest"]
    made["next"] = told.next_action(made, unit_options(attempt.lease))
    return made


def clocks(attempt: ObserverAttempt) -> ObserverClocks:
    """Both clocks as they stood at the last record, with what moved them: for a report of what is over."""
    state, now = attempt.state, attempt.line_now().at
    made: ObserverClocks = {
        "authority": state.authority,
        "activity": _activity(state, now),
        "proven": _proven(state, now),
        "observer": _observer(attempt, attempt.read_state(), now),
        "lateWrites": _late(state),
    }
    if state.suspect_since is not None:
        made["suspectSince"] = rfc3339(state.suspect_since)
    if attempt.chain.problem:
        made["problem"] = attempt.chain.problem
    return made


def verdict(attempt: ObserverAttempt, now: int) -> ObserverStatusVerdict:
    """`suspect` only where it was judged after everything was read; `unknown` where there is nothing to judge by."""
    state = attempt.state
    if attempt.chain.problem or not state.seq or not state.window.known:
        return "unknown"
    due = deadlines(state.window, state.settings).suspect_at
    if now < due:
        return "working"
    return "suspect" if state.suspect_since == due else "unknown"


def _activity(state: ObserverProjection, now: int) -> ObserverStatusActivity:
    made: ObserverStatusActivity = {"contentSeq": state.content_seq, "label": "observed/unproven"}
    record = state.last_activity
    if record is None:
        return made
    for key in ("changedCount", "changes", "byteDelta", "counted", "reason", "source"):
        if key in record:
            made[key] = record[key]
    made |= {"at": rfc3339(record["timelineNs"]), "agoMs": _ago(record, now)}
    return made


def _ago(record: ActivityRecord, now: int) -> int:
    return max(0, now - record["timelineNs"]) // MILLISECOND


def _proven(state: ObserverProjection, now: int) -> ObserverStatusProven:
    made: ObserverStatusProven = {"proofSeq": state.window.proof_seq if state.window.known else 0, "label": "proven"}
    record = state.last_proof
    if record is None:
        return made
    receipt = record["receipt"]
    made["receipt"] = receipt["id"]
    if "what" in receipt:
        made["what"] = receipt["what"]
    made |= {"at": rfc3339(record["timelineNs"]), "agoMs": _ago(record, now)}
    return made


def deadline_facts(state: ObserverProjection, now: int) -> ObserverStatusDeadlines:
    """Settings, and where the window stands."""
    settings: Settings = state.settings
    made: ObserverStatusDeadlines = {
        "silenceMs": settings.silence_ms,
        "graceMs": settings.grace_ms,
        "capMs": settings.cap_ms,
    }
    if not state.window.known:
        return made
    found = deadlines(state.window, settings)
    made |= {
        "proofDeadline": rfc3339(found.proof),
        "suspectAt": rfc3339(found.suspect_at),
        "proofInMs": _milliseconds(found.proof - now),
        "suspectInMs": _milliseconds(found.suspect_at - now),
        "capConsumedMs": found.consumed // MILLISECOND,
    }
    if state.suspect_since is not None:
        made["suspectSince"] = rfc3339(state.suspect_since)
    return made


def _milliseconds(nanoseconds: int) -> int:
    """Rounded towards zero."""
    return nanoseconds // MILLISECOND if nanoseconds >= 0 else -(-nanoseconds // MILLISECOND)


def _observer(attempt: ObserverAttempt, seen: ObserverState | None, now: int) -> ObserverStatusObserver:
    if seen is None:
        return {"health": "unwatched", "mode": "poll-only", "reason": "no observer has looked yet"}
    made = _health(attempt, seen, now)
    for key in ("lastLevel", "overflows", "unstable", "holds", "excluded", "drift", "entries"):
        if key in seen:
            made[key] = seen[key]
    made["epoch"] = attempt.state.epoch
    if "lastReconcileNs" in seen:
        made["lastReconcileAt"] = rfc3339(seen["lastReconcileNs"])
        made["lastReconcileAgoMs"] = max(0, now - seen["lastReconcileNs"]) // MILLISECOND
    return made


def _health(attempt: ObserverAttempt, seen: ObserverState, now: int) -> ObserverStatusObserver:
    """A watcher is healthy while its process is alive and its last look is near. A dead one never looks healthy."""
    owner = seen.get("owner")
    if owner is None:
        return {"health": "unwatched", "mode": "poll-only", "reason": "only single looks so far"}
    if owners.is_dead(owners.Owner.of(owner), attempt.world.store.root):
        return {"health": "unwatched", "mode": "poll-only", "reason": "the watcher is dead"}
    mode: ObserverStatusObserverMode = "poll-only" if seen["mode"] == "poll-only" else "event+reconcile"
    made: ObserverStatusObserver = {"health": "healthy", "mode": mode, "pid": owner["pid"]}
    if "churn" in seen:
        made["churn"] = seen["churn"]
    late = now - seen.get("lastReconcileNs", 0) > 3 * attempt.state.settings.interval
    if late:
        made |= {"health": "degraded", "reason": "the watcher is alive, and has not looked for long"}
    elif mode == "poll-only":
        made |= {"health": "degraded", "reason": seen.get("modeReason", "no native watching")}
    return made


def _late(state: ObserverProjection) -> ObserverStatusLateWrites:
    made: ObserverStatusLateWrites = {"quarantined": state.quarantined, "count": state.late_count}
    if state.late:
        made["late"] = [_late_write(record) for record in state.late]
    if state.preserved is not None and "atticRef" in state.preserved:
        made["preservedRef"] = state.preserved["atticRef"]
    return made


def _late_write(record: ActivityRecord) -> LateWrite:
    made: LateWrite = {
        "lateKind": record["lateKind"],
        "at": rfc3339(record["timelineNs"]),
        "notBefore": rfc3339(record["notBeforeNs"]),
        "seq": record["seq"],
    }
    for key in ("changedCount", "changes"):
        if key in record:
            made[key] = record[key]
    return made


def _journal(attempt: ObserverAttempt, damage: str) -> ObserverStatusJournal:
    chain = attempt.chain
    made: ObserverStatusJournal = {"segment": chain.segment, "seq": len(chain.records), "attempt": attempt.name}
    if chain.head:
        made["head"] = chain.head
    lost = attempt.state.lost
    if lost:
        made["lost"] = {"segment": max(1, chain.segment - 1), "why": lost, "at": rfc3339(attempt.state.baseline_at)}
    problem = chain.problem or damage
    if problem:
        made["problem"] = problem
    return made


BLOCKING = ("root_", "control_")


def lease_of(location: LeaseLocation) -> Lease:
    """Raises CannotRun where there is none."""
    lease = location.lease()
    if lease is None:
        raise CannotRun(f"{location.name} has no worktree", hint="open it with worktree-open")
    return lease


def settings(seconds: Mapping[str, float | None]) -> Settings | None:
    """From options in seconds, defaults for the others; None where none is given. Raises CannotRun out of range."""
    given = {name: round(value * 1000) for name, value in seconds.items() if value is not None}
    return Settings(**given) if given else None


def outcome(status: ObserverStatus) -> str:
    """The outcome word of a status: what cannot be trusted or is quarantined is for a person to look at."""
    journal = status["journal"]
    if journal.get("problem") or journal.get("lost", {}).get("foundNow"):
        return "broken_contract"
    foreign = any(hold.startswith(BLOCKING) for hold in status.get("attemptHolds", ()))
    return "blocked" if foreign or status["lateWrites"]["quarantined"] else "done"


def facts(status: ObserverStatus, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a command's result."""
    return {
        "outcome": outcome(status),
        "document": status,
        "contract": CONTRACT,
        "lines": lines(status),
        "notes": list(notes),
    }


def teller(stream: IO[str] | None) -> Callable[[ActivityRecord], None]:
    """Writes one line for each record that a person would want to see, at once."""

    def tell(record: ActivityRecord) -> None:
        if stream is not None and record["event"] not in (projection.BASELINE, projection.ATTACH):
            stream.write(f"{record['at']} {record_line(record)}\n")
            stream.flush()

    return tell


class ProgressProof(NamedTuple):  # no dataclass: an event must not pay for importing it
    """Whose progress is proven (None: the unit that the caller stands in), and by what. `receipt` may be empty."""

    job: str | None
    unit: str | None
    receipt: str
    phase: str
    event: str


def prove(world: World, job: str | None, unit: str | None, receipt: str, event: Mapping[str, Any]) -> str:
    """Record the event as proven progress of its unit; returns what a person should know, `""` where it counted.

    `receipt` names it (empty: its digest): the same one counts once. Raises Refused where the caller is not the attempt
    that has the lease, or that is over; CannotRun where no unit is meant.
    """
    from ktxkit.observer.attempt import record_proof

    job, unit = job or event["jobId"], unit or event.get("data", {}).get("unitKey")
    if not unit:
        raise CannotRun("whose progress is proven?", hint="--unit KEY, or KTX_UNIT, or run inside a unit's worktree")
    active = ActiveJob.load(world, job)
    found = active.unit(unit)
    name = receipt or digest_of(event)
    record = record_proof(active, found, receipt=name, what=event["event"], phase=event["phase"])
    if record is None:
        return "no new proof: nobody observes the unit, or the receipt is known"
    return ""


def of_words(world: World, job: str | None, unit: str | None, receipt: str, phase: str, name: str) -> str:
    """The same where there is no event at hand: its name and the moment are the receipt, where none is given."""
    from ktxkit.store import jobs

    job = job or jobs.need_job(world, None).id
    now = world.clock.now().timestamp()
    event = {"jobId": job, "phase": phase, "event": truncated(name, 120), "at": now}
    return prove(world, job, unit or jobs.current_unit(world, job, None)[1], receipt, event)


def notes(world: World, request: ProgressProof, events: Sequence[TraceEvent]) -> list[str]:
    """Record the proof of the event that was appended (none if its level is not written); what a person should know."""
    whose = (request.job, request.unit, request.receipt)
    said = prove(world, *whose, events[0]) if events else of_words(world, *whose, request.phase, request.event)
    return [said] if said else []


def notes_of_command(world: World, request: ProgressProof, status: int) -> list[str]:
    """The same for a command that has run: its status is the answer, whatever becomes of the proof."""
    if status != 0:
        return []
    try:
        said = of_words(world, request.job, request.unit, request.receipt, request.phase, f"{request.event}_finished")
    except KtxError as error:
        said = f"no proof: {error.message}"
    return [said] if said else []
