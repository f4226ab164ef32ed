"""A unit under the observer while its command runs: reported when it is suspect, stopped only if the job file says so.

The observer is evidence. What it says is in the trace and never decides a unit's outcome; `onSuspect: stop` is the
job file's decision, and the unit's work is kept.

One unit from lease to collected patch: what a worker thread of a job does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import kinds, unit_process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CommandFailed, Conflict, KtxError, Refused, of_machinery
from ktxkit.base.owners import NONCE
from ktxkit.base.process import Command
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable
from ktxkit.base.unit_process import Stop
from ktxkit.git import merging
from ktxkit.git.git import OutOfTime, for_others
from ktxkit.git.neutral import open_neutral
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, path_of, presence, worktrees
from ktxkit.store.rules import names
from ktxkit.store.tracing import RUN_VARIABLE, Tracer
from ktxkit.work import attic, closing, collect
from ktxkit.work.job import containment
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules.job_file import UnitPlan
from ktxkit.work.rules.reasons import UnitDocs, UnitOutput, reason_of
from ktxkit.work.verification import end_of

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, LeaseOutcome, Patch, Receipt, UnitResult
    from ktxkit.base.sandbox import Usage
    from ktxkit.observer.observe import UnitObserver


TICK = 0.5  # seconds that one look may wait
COLLECTING = 15.0  # seconds that collecting may take however late the command ended


class Watched:
    """A stop flag of one unit: the job's, or its own where it was suspect and the job file says to stop it."""

    def __init__(self, run: JobRun) -> None:
        self.run = run
        self.suspect = threading.Event()
        self.ended = threading.Event()

    def is_set(self) -> bool:
        return self.run.stop.is_set() or self.suspect.is_set()


@contextmanager
def observed(run: JobRun, plan: UnitPlan, unit: Unit, lease: Lease) -> Iterator[Stop]:
    """The unit's stop flag for the block; with `observe` in the job file, the unit is observed meanwhile.

    The baseline is on the disk before the block begins. An observer that cannot attach is an error in the trace: the
    unit runs unobserved, and nothing claims otherwise.
    """
    settings = run.plan.observe
    if settings is None:
        yield run.stop
        return
    from ktxkit.observer.observe import UnitObserver
    from ktxkit.observer.rules.clocks import Settings

    tracer = run.tracer.bound(unitKey=plan.key)
    flag = Watched(run)
    try:
        observer = UnitObserver.start(run.job, unit, lease, settings=Settings(**settings))
    except KtxError as error:
        tracer.emit("observer", "work_unit_unobserved", {"reason": error.message}, level="error", error=error)
        yield flag
        return
    looker = threading.Thread(target=_look, args=(run, plan, observer, flag), name=f"observer-{unit.position}")
    looker.start()
    try:
        yield flag
    finally:
        flag.ended.set()
        looker.join()
        _end(tracer, observer)


def _end(tracer: Tracer, observer: UnitObserver) -> None:
    """The last look. Evidence that cannot be written is told, and is no reason for the unit to fail."""
    try:
        tracer.emit("observer", "work_unit_observed", {"status": observer.stop()})
    except (KtxError, OSError) as error:
        tracer.emit("observer", "work_unit_observer_failed", {"reason": str(error)}, level="error", error=error)


def _look(run: JobRun, plan: UnitPlan, observer: UnitObserver, flag: Watched) -> None:
    """Poll until the command has ended; tell once for each time the unit becomes suspect."""
    tracer = run.tracer.bound(unitKey=plan.key)
    last = "working"
    while not flag.ended.is_set():
        try:
            word = observer.poll(TICK)
        except (KtxError, OSError) as error:
            tracer.emit("observer", "work_unit_observer_failed", {"reason": str(error)}, level="error", error=error)
            return
        if word == "suspect" and last != "suspect":
            told = {"status": observer.status(), "action": run.plan.on_suspect}
            tracer.emit("observer", "work_unit_suspect", told, level="info")
            run.notify("unit_suspect", {"unit": plan.key})
            if run.plan.on_suspect == "stop":
                flag.suspect.set()
        last = word


RESULT = "unit-result"
COMMAND = "work_unit_command"


class UnitEnd(NamedTuple):
    """How a unit's own work ended, before integration. `problem` is the word for why nothing can be integrated."""

    key: str
    problem: str = ""
    message: str = ""
    patch: Patch | None = None
    receipt: Receipt | None = None  # of an earlier execution: there is nothing left to do
    replayed: bool = False  # an earlier result of the same work was written, the command did not run
    started: bool = True  # in this execution of the job
    failure: CommandFailed | None = None  # where the unit's own command is the problem


def work(run: JobRun, plan: UnitPlan, base: str, digest: str) -> UnitEnd:
    """Open, run, collect. Every failure of the unit is an answer, kept with its evidence; none ends the job."""
    unit = run.unit(plan)
    tracer = run.tracer.bound(unitKey=plan.key)
    began = time.monotonic()
    try:
        lease = closing.open_unit(
            run.job, unit, base=base, policy=plan.policy, copy=run.plan.copy, sparse=run.plan.sparse
        )
        tracer.emit("work_unit", "work_unit_child_created", {"path": lease["path"], "base": base})
        if plan.key in run.work:
            bring_work(run, lease, *run.work[plan.key])
        replayed = run.hooks.replay(run, plan, path_of(lease))
        if replayed:
            tracer.emit("work_unit", "work_unit_cache_patch_materialized", {"from": replayed}, level="info")
            _replayed(run, plan, unit, lease, digest, replayed)
            ended = UnitEnd(plan.key)
        else:
            ended = execute(run, plan, unit, lease, digest)
        if ended.problem:
            facts = {"reason": ended.problem, "message": ended.message}
            tracer.emit("work_unit", "work_unit_failed", facts, level="error", error=ended.failure)
            return ended
        patch = _collected(run, unit, _until(plan, began))
    except (KtxError, OSError) as error:
        return _failed(plan, tracer, error)
    return UnitEnd(plan.key, patch=patch, replayed=bool(replayed))


def _failed(plan: UnitPlan, tracer: Tracer, error: KtxError | OSError) -> UnitEnd:
    """What stopped a unit, as its outcome. Raises it where our own machinery failed: then the job is resumed."""
    if of_machinery(error):
        raise error
    word, problem = "failed", "failed"
    if isinstance(error, OutOfTime):
        word = "timed_out"
        said = f"what it left could not be collected within its {plan.step.time_limit:g} seconds; its worktree is kept"
    elif isinstance(error, OSError):
        said = f"what it left cannot be read: {printable(os.fsdecode(error.filename or ''))}: {error.strerror or error}"
    else:
        word, said = error.outcome, error.message
        problem = "failed" if word in ("cannot_run", "refused") else word
    tracer.emit("work_unit", "work_unit_failed", {"reason": word}, level="error", error=error)
    return UnitEnd(plan.key, problem, said)


def _until(plan: UnitPlan, began: float) -> float | None:
    """When the unit's work must be collected: a file of many gigabytes counts against its own time. A unit that used up
    its time still has what any change takes."""
    limit = plan.step.time_limit
    return None if limit is None else max(began + limit, time.monotonic() + COLLECTING)


def _collected(run: JobRun, unit: Unit, until: float | None) -> Patch:
    """Collect the unit's change. Its documents of an earlier attempt are written anew: that is no change of others."""
    with run.watch.holding(unit) if run.watch else nullcontext():
        return collect.collect_unit(run.job, unit, include_uncommitted=True, until=until)


def last_work(job: ActiveJob, unit: Unit) -> tuple[str, str]:
    """The base and the tree of what a unit's last attempt has: in its worktree, else as it was collected.

    Raises Refused where there is neither.
    """
    lease = job.read(kinds.LEASE, "lease", unit)
    place = LeaseLocation.of_unit(job, unit)
    if lease is not None and presence(job.world, lease, path_of(lease)).same:
        return lease["base"], attic.tree_of(place, lease)
    patch = job.read(kinds.PATCH, "patch", unit)
    if patch is None or job.git.resolve(patch["tree"], "tree") is None:
        hint = "leave --with-work out; `git ktx attic list` shows what was put away"
        raise Refused(f"nothing of the last attempt of unit {unit.key} is there", hint=hint)
    return patch["base"], patch["tree"]


def bring_work(run: JobRun, lease: Lease, base: str, tree: str) -> None:
    """Merge the last attempt's work into the files of a new worktree. Raises Conflict where that is not possible."""
    with open_neutral(run.world) as neutral:
        start = neutral.need_tree(lease["base"])
        made = merging.merge(neutral, neutral.need_tree(base), start, tree)
        if not made.clean:
            clashes = ", ".join(printable(path) for path in sorted(made.stages)[:10])
            said = f"the work of the last attempt conflicts with where this one starts: {clashes}"
            raise Conflict(said, outcome="textual_conflict", hint="try again without --with-work")
        entries = merging.changes(neutral, start, made.tree)
    merging.write_files(worktrees(run.world).at(path_of(lease)), made.tree, entries)


def _replayed(run: JobRun, plan: UnitPlan, unit: Unit, lease: Lease, digest: str, source: str) -> None:
    """The result document of a unit whose command did not have to run."""
    now = timestamp(run.world.clock.now())
    ended = unit_process.CommandEnd("finished", 0, f"not run: the same work was done in {source}")
    document = _result(run, plan, unit, lease, ended, now)
    document["inputsDigest"] = digest
    run.world.writable_store.write(kinds.UNIT_RESULT, run.job.unit_doc(unit, "result"), document)


def execute(run: JobRun, plan: UnitPlan, unit: Unit, lease: Lease, digest: str) -> UnitEnd:
    """Run the command in its worktree; its result document is written when it has ended."""
    store = run.world.writable_store
    folder = store.path(run.job.unit_dir(unit))
    out, err = folder / "stdout.log", folder / "stderr.log"
    began, started = run.world.clock.monotonic(), timestamp(run.world.clock.now())
    run.leases[unit.key] = lease
    run.notify("unit_started", {"unit": plan.key})
    tracer = run.tracer.bound(unitKey=plan.key)
    since = run.watch.started(unit) if run.watch else 0
    started_with = {"argv": [_plain(word) for word in plan.step.argv], "earlierOutput": _put_by((out, err)) or None}
    tracer.emit("work_unit", f"{COMMAND}_started", started_with)
    with observed(run, plan, unit, lease) as stop, containment.behind(run, unit, lease) as walls:
        env = {**_environment(run, plan, unit, lease), **walls.env}
        before, usage = _limited(plan, [path_of(lease), *map(Path, {walls.env[key] for key in walls.env})])
        command = Command([*before, *walls.before, *plan.step.argv], path_of(lease), env, plan.step.time_limit)
        ended = unit_process.run_unit(command, out=out, err=err, clock=run.world.clock, stop=stop, usage=usage)
    altered = containment.put_right(run, unit)
    if ended.reason == "interrupted" and not run.stop.is_set():
        ended = ended._replace(message="it was suspect, without proven progress, and the job file says to stop it")
    place = path_of(lease)
    touched = run.watch.ended(unit, since, None if ended.reason == "finished" else place) if run.watch else []
    document = _result(run, plan, unit, lease, ended, started)
    document |= {
        "durationMs": round((run.world.clock.monotonic() - began) * 1000, 3),
        "inputsDigest": digest,
    }
    document |= {"touched": touched} if touched else {}
    _add_output(document, ended, out, err)
    failure = _failure(document, UnitOutput(end_of(out), end_of(err)))
    _tell_of_command(tracer, document, failure)
    store.write(kinds.UNIT_RESULT, run.job.unit_doc(unit, "result"), document)
    if altered:
        return UnitEnd(plan.key, "broken_contract", altered)
    return _not_taken(plan, walls.wrong[0]) if walls.wrong else _judged(run, plan, ended, failure)


def _limited(plan: UnitPlan, places: Sequence[Path]) -> tuple[Sequence[str], Usage | None]:
    """What a command with limits is started by, and what looks at what it takes; `places` is where it writes."""
    if not plan.limits:
        return (), None
    from ktxkit.base import sandbox

    words = [f"{name}={number}" for name, number in plan.limits.items()]
    return sandbox.starter("limit", *words), sandbox.Usage(plan.limits, places)


def _not_taken(plan: UnitPlan, error: KtxError) -> UnitEnd:
    return UnitEnd(plan.key, "failed" if error.outcome in ("cannot_run", "refused") else error.outcome, error.message)


def _put_by(logs: Sequence[Path]) -> list[str]:
    """Keep what the command of an earlier attempt printed, under a number of its own; returns where it is now."""
    there = [log for log in logs if os.path.lexists(log)]
    number = 1
    while any(os.path.lexists(log.with_name(f"{log.stem}-{number}.log")) for log in there):
        number += 1
    return [str(log.rename(log.with_name(f"{log.stem}-{number}.log"))) for log in there]


def _failure(document: UnitResult, printed: UnitOutput) -> CommandFailed | None:
    """How the command ended, if not well, with what it said last."""
    if document["outcome"] == "finished":
        return None
    docs = UnitDocs(document["position"], document["unitKey"], result=document, printed=printed)
    return CommandFailed(reason_of(docs, document["outcome"], {}))


def _tell_of_command(tracer: Tracer, document: UnitResult, failure: CommandFailed | None) -> None:
    """The trace says how the command ended: its status, how long it ran, where its output is, and what it said last."""
    well, took = failure is None, document.get("durationMs")
    facts = {key: document.get(key) for key in ("outcome", "exitStatus", "message", "stdout", "stderr", "strays")}
    name = f"{COMMAND}_{'finished' if well else 'failed'}"
    tracer.emit("work_unit", name, facts, level="debug" if well else "error", duration_ms=took, error=failure)


def _add_output(document: UnitResult, ended: unit_process.CommandEnd, out: Path, err: Path) -> None:
    """Where what the command printed is kept, and how much of it."""
    document |= {
        "stdout": str(out),
        "stderr": str(err),
        "stdoutBytes": ended.printed[0],
        "stderrBytes": ended.printed[1],
    }
    document |= {"stdoutCut": ended.cut[0]} if ended.cut[0] else {}
    document |= {"stderrCut": ended.cut[1]} if ended.cut[1] else {}


def _judged(run: JobRun, plan: UnitPlan, ended: unit_process.CommandEnd, failure: CommandFailed | None) -> UnitEnd:
    if ended.reason == "finished":
        problem = run.hooks.judge(run, plan)
        return UnitEnd(plan.key, "failed" if problem else "", problem)
    stopped = ended.reason == "interrupted" and run.stop.is_set()
    return UnitEnd(plan.key, "interrupted" if stopped else "failed", ended.message, failure=failure)


def _result(
    run: JobRun, plan: UnitPlan, unit: Unit, lease: Lease, ended: unit_process.CommandEnd, started: str
) -> UnitResult:
    result: UnitResult = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "unit-result",
        "jobId": run.job.id,
        "unitKey": unit.key,
        "position": unit.position,
        "attempt": lease["attempt"],
        "outcome": ended.reason,
        "exitStatus": ended.status,
        "argv": [_plain(word) for word in plan.step.argv],
        "startedAt": started,
        "endedAt": timestamp(run.world.clock.now()),
        "base": lease["base"],
    }
    result |= {"message": ended.message} if ended.message else {}
    result |= {"strays": [*ended.strays]} if ended.strays else {}
    return result


def _environment(run: JobRun, plan: UnitPlan, unit: Unit, lease: Lease) -> dict[str, str]:
    """The user's environment without git's variables (they would lead a commit astray), and what the unit is told."""
    store = run.world.store
    mine = {key: value for key, value in for_others(run.world.env).items() if not key.startswith("KTX_")}
    return {
        **mine,
        **plan.env,
        "KTX_DIR": str(store.root),
        "KTX_JOB": run.job.id,
        "KTX_UNIT": unit.key,
        RUN_VARIABLE: run.world.env[RUN_VARIABLE],
        "KTX_LEASE": str(store.path(run.job.unit_doc(unit, "lease"))),
        "KTX_TRACE": str(run.tracer.path),
        **run.hooks.environment(run, plan),
        NONCE: lease["nonce"],
    }


def _plain(word: str) -> str:
    return word.encode("utf-8", "backslashreplace").decode("utf-8")


def _why_kept(error: Refused) -> str:
    """Only what holds more than was collected was written to after that; all else is said as it is."""
    if error.message.startswith(closing.WOULD_LOSE):
        return "its worktree was written to after its work was collected"
    return f"its worktree cannot be removed: {error.message}"


def close_or_keep(run: JobRun, unit: Unit, outcome: LeaseOutcome) -> None:
    """Close a worktree whose change was collected; one that was written to after that is kept, and said."""
    containment.put_right(run, unit)  # a lease that was altered since would end the job, not the unit
    run.leases.pop(unit.key, None)
    try:
        lease = closing.close_unit(run.job, unit, outcome)
        if "leftOut" in lease:
            told = {"unitKey": unit.key, "leftOut": lease["leftOut"]}
            run.tracer.emit("work_unit", "work_unit_worktree_kept", told, level="info")
    except Refused as error:
        told = {"unitKey": unit.key, "reason": error.message}
        run.tracer.emit("work_unit", "work_unit_late_work_kept", told, level="error", error=error)
        place = names.worktree_dir(run.job.id, unit.position, unit.key)
        late = f"{unit.key}: {_why_kept(error)}; .ktx/{place} is kept"
        run.update(warnings=[*run.job.document.get("warnings", ()), late][:10_000])
        closing.close_unit(run.job, unit, "crash", reason=error.message)
