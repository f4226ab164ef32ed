"""Events from outside into a trace: which trace, what every event of it says, and what a line may leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract, CannotRun, CommandFailed, KtxError
from ktxkit.base.rules.named import NamedTuple
from ktxkit.store.rules.trace import (
    DEFAULT_CONNECTION,
    DEFAULT_LEVEL,
    DEFAULT_SOURCE,
    TraceContext,
    completed,
    event,
    plain,
    wanted,
)
from ktxkit.store.tracing import Journal, Tracer

if TYPE_CHECKING:
    from ktxkit.base.documents import TraceEvent, TraceEventLevel
    from ktxkit.store.world import World


LOOSE_JOB = "adhoc"  # the job id of a trace that belongs to no job


class TraceLocation(NamedTuple):
    """What the command line says of the trace; an empty string says nothing."""

    trace: str = ""
    job: str = ""
    unit: str = ""
    connection: str = ""
    source: str = ""


def tracer(world: World, location: TraceLocation) -> Tracer:
    """The trace to append to: the file named, the job named, KTX_TRACE, or the job of the worktree we stand in.

    A trace that has events says itself whose it is, so that neither git nor the job's document is asked. Raises
    CannotRun where no trace is known, or the one named belongs to another job.
    """
    path = location.trace or ("" if location.job else world.env.get("KTX_TRACE", ""))
    if not path:
        from ktxkit.store import jobs

        found = jobs.need_job(world, location.job or None).tracer
        return _bound(found, location.unit or jobs.current_unit(world, found.context.job_id, None)[1] or "")
    journal = Journal(world.cwd / Path(path), kinds.TRACE_EVENT, world.clock)
    context = _context(journal, location, world.env)
    threshold = world.env.get("KTX_TRACE_LEVEL", DEFAULT_LEVEL)
    return _bound(Tracer(journal, context, world.clock, threshold), location.unit or world.env.get("KTX_UNIT", ""))


def _bound(found: Tracer, unit: str) -> Tracer:
    return found.bound(unitKey=unit) if unit else found


def _context(journal: Journal[TraceEvent], location: TraceLocation, env: Mapping[str, str]) -> TraceContext:
    first = next(journal.records(), None)
    job = location.job or env.get("KTX_JOB", "")
    if first is None:
        return TraceContext(
            job or LOOSE_JOB, location.connection or DEFAULT_CONNECTION, location.source or DEFAULT_SOURCE
        )
    if location.job and location.job != first["jobId"]:
        raise CannotRun(
            f"this trace is of job {first['jobId']}, not of {location.job}",
            location=str(journal.path),
            hint="leave --job out, or name another file",
        )
    return TraceContext(
        first["jobId"],
        location.connection or first["connectionId"],
        location.source or first["sourceKey"],
        first.get("runId", ""),
        first.get("syncId", ""),
    )


def from_lines(to: Tracer, lines: Iterable[bytes], location: str = "stdin") -> list[TraceEvent]:
    """The events of JSON Lines, each whole and valid, those above the threshold left out; blank lines are passed over.

    Raises BrokenContract that names the first bad line, before anything is written.
    """
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{location}:{number}"
        raw = contracts.parse(line, place)
        at = "" if isinstance(raw, dict) and "at" in raw else timestamp(to.clock.now())
        made = contracts.validate(kinds.TRACE_EVENT, completed(raw, to.context, at, to.extra), place)
        if made["jobId"] != to.context.job_id:
            raise BrokenContract(
                f"{kinds.TRACE_EVENT}: jobId: {made['jobId']!r} is not the job of this trace, {to.context.job_id!r}",
                location=place,
                hint="leave jobId out of the line, or name that job's trace",
            )
        if wanted(made["level"], to.threshold):
            found.append(made)
    return found


def data_of(words: Iterable[str]) -> dict[str, Any]:
    """`KEY=TEXT` and `KEY:=JSON` as an object. Raises CannotRun for anything else, or a key that stands twice."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in ("", ":"):
            raise CannotRun(f"--data {word!r} has no key", hint="KEY=TEXT, or KEY:=JSON")
        value: Any = text
        if key.endswith(":"):
            key = key[:-1]
            try:
                value = contracts.parse(text.encode("utf-8", "surrogateescape"), f"--data {key}")
            except BrokenContract as error:
                raise CannotRun(
                    f"--data {key}: {error.message}", hint="KEY:=JSON takes JSON; KEY=TEXT any text"
                ) from error
        if key in found:
            raise CannotRun(f"--data {key} stands twice", hint="KEY:=JSON takes a list")
        found[key] = value
    return found


def from_options(
    to: Tracer,
    phase: str,
    name: str,
    level: TraceEventLevel,
    data: Mapping[str, Any],
    duration_ms: float | None,
    error: str | None,
) -> list[TraceEvent]:
    """One event from words; empty where its level is above the threshold. `error` is `NAME: MESSAGE`.

    Raises BrokenContract where the words make no valid event.
    """
    now = timestamp(to.clock.now())
    full = {**to.extra, **data}
    made = event(to.context, now, "error" if error else level, phase, name, full, duration_ms=duration_ms)
    if error:
        kind, colon, message = error.partition(": ")
        title, text = (kind, message) if colon else ("Error", error)
        made["error"] = {"name": plain(title), "message": plain(text)}
    contracts.validate(kinds.TRACE_EVENT, made, "command line")
    return [made] if wanted(made["level"], to.threshold) else []


class Timed(NamedTuple):
    """How a timed command ended. `unrecorded` says why its last event could not be written."""

    status: int
    unrecorded: str = ""


def timed_command(
    world: World,
    to: Tracer,
    phase: str,
    name: str,
    data: Mapping[str, Any],
    argv: Sequence[str],
    *,
    stdout: int | None = None,
) -> Timed:
    """Run a command between `name_started` and `name_finished` or `name_failed`; its status is the answer.

    127 where it cannot be started, 128 + N where signal N ended it, as the shell has it. The command does not run where
    the first event cannot be written.
    """
    from ktxkit.base import process

    facts = {**data, "argv": list(argv)}
    began = to.clock.monotonic()
    to.emit(phase, f"{name}_started", facts)
    problem: Exception | None = None
    try:
        ended = process.attached(argv, cwd=world.cwd, env=world.env, stdout=stdout)
        facts |= {"signal": -ended} if ended < 0 else {"exitStatus": ended}
        status = ended if ended >= 0 else 128 - ended
        if ended != 0:
            problem = CommandFailed(f"{argv[0]} {process.ending(ended)}")
    except CannotRun as error:
        status, problem = process.NOT_STARTED, error
    spent = (to.clock.monotonic() - began) * 1000
    end = "failed" if problem else "finished"
    try:
        level: TraceEventLevel = "error" if problem else "debug"
        to.emit(phase, f"{name}_{end}", facts, level=level, duration_ms=spent, error=problem)
    except (OSError, KtxError) as error:
        return Timed(status, f"the end of {argv[0]} is not in the trace: {error}")
    return Timed(status, problem.message if isinstance(problem, CannotRun) else "")
