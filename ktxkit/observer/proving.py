"""A trace event as a receipt of progress: what `trace-append --proof` tells the observer of the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.text import truncated
from ktxkit.store.active import ActiveJob

if TYPE_CHECKING:
    from ktxkit.base.documents import TraceEvent
    from ktxkit.store.world import World  # an event without a proof pays for nothing of the observer


class ProofRequest(NamedTuple):  # no dataclass: an event must not pay for importing it
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


def notes(world: World, request: ProofRequest, events: Sequence[TraceEvent]) -> list[str]:
    """Record the proof of the event that was appended (none if its level is not written); what a person should know."""
    whose = (request.job, request.unit, request.receipt)
    said = prove(world, *whose, events[0]) if events else of_words(world, *whose, request.phase, request.event)
    return [said] if said else []


def notes_of_command(world: World, request: ProofRequest, status: int) -> list[str]:
    """The same for a command that has run: its status is the answer, whatever becomes of the proof."""
    if status != 0:
        return []
    try:
        said = of_words(world, request.job, request.unit, request.receipt, request.phase, f"{request.event}_finished")
    except KtxError as error:
        said = f"no proof: {error.message}"
    return [said] if said else []
