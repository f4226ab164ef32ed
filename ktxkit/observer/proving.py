"""A trace event as a receipt of progress: what `trace-append --proof` tells the observer of the unit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.text import truncated

if TYPE_CHECKING:
    from ktxkit.store.world import World  # an event without a proof pays for nothing of the observer


def prove(world: World, job: str | None, unit: str | None, receipt: str, event: Document) -> str:
    """Record the event as proven progress of its unit; returns what a person should know, `""` where it counted.

    `receipt` names it (empty: its digest): the same one counts once. Raises Refused where the caller is not the attempt
    that has the lease, or that is over; CannotRun where no unit is meant.
    """
    from ktxkit.observer.attempt import record_proof
    from ktxkit.store import jobs

    job, unit = job or event["jobId"], unit or event.get("data", {}).get("unitKey")
    if not unit:
        raise CannotRun("whose progress is proven?", hint="--unit KEY, or KTX_UNIT, or run inside a unit's worktree")
    document = jobs.load(world, job)
    found = jobs.unit_of(document, unit)
    name = receipt or digest_of(event)
    record = record_proof(world, document, found, receipt=name, what=event["event"], phase=event["phase"])
    if record is None:
        return "no new proof: nobody observes the unit, or the receipt is known"
    return ""


def of_words(world: World, job: str | None, unit: str | None, receipt: str, phase: str, name: str) -> str:
    """The same where there is no event at hand: its name and the moment are the receipt, where none is given."""
    from ktxkit.store import jobs

    job = job or jobs.need_job(world, None)["jobId"]
    now = world.clock.now().timestamp()
    event = {"jobId": job, "phase": phase, "event": truncated(name, 120), "at": now}
    return prove(world, job, unit or jobs.current_unit(world, job, None)[1], receipt, event)


def notes(args: argparse.Namespace, world: World, events: Sequence[Document]) -> list[str]:
    """Record the proof that the options ask for, of the event that they made (none where its level is not written)."""
    if args.proof is None:
        return []
    whose = (args.job, args.unit, args.proof)
    said = prove(world, *whose, events[0]) if events else of_words(world, *whose, args.phase, args.event)
    return [said] if said else []


def notes_of_command(args: argparse.Namespace, world: World, status: int) -> list[str]:
    """The same for a command that has run: its status is the answer, whatever becomes of the proof."""
    if args.proof is None or status != 0:
        return []
    try:
        said = of_words(world, args.job, args.unit, args.proof, args.phase, f"{args.event}_finished")
    except KtxError as error:
        said = f"no proof: {error.message}"
    return [said] if said else []


def check(args: argparse.Namespace) -> None:
    """Raises CannotRun for words of `trace-append` that do not go together."""
    if args.stdin and (args.phase or args.event or args.command or args.data or args.error or args.proof is not None):
        raise CannotRun(
            "--stdin takes whole events", hint="leave --phase, --event, --data, --error, --proof and -- CMD"
        )
    if not args.stdin and not (args.phase and args.event):
        raise CannotRun("an event needs --phase and --event", hint="or --stdin with one JSON object a line")
    if args.command and (args.error or args.duration_ms is not None):
        raise CannotRun("-- CMD is timed and judged by itself", hint="leave --error and --duration-ms out")
