"""Telling somebody: a command of the user's is run when a job has ended, with what happened as JSON on its stdin.

It is a courtesy: whatever becomes of it changes no outcome. KTX_NOTIFY names it, else `notify` in `.ktx-config.yaml`.

The end of a job: final gates, landing, report. The target moves here, once, or not at all.

A whole job, from its file to its report. Whatever ends it, a report names the phase and a trace explains it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import contracts, files, kinds, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Conflict, KtxError, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.process import stopping
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.base.unit_process import end_strays
from ktxkit.gates import judging
from ktxkit.git import neutral
from ktxkit.store import config, jobs, leases
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.store.store import ensure_ignored
from ktxkit.store.tracing import RUN_VARIABLE
from ktxkit.store.world import World
from ktxkit.work import recover, report
from ktxkit.work.fingerprint import Fingerprinter
from ktxkit.work.job import containment, prepare
from ktxkit.work.job.guard import Guard, Watch
from ktxkit.work.job.loop import JobLoop, Reuse
from ktxkit.work.job.state import EVERYTHING, Hooks, JobRun, Notify, UnitSelection, silent
from ktxkit.work.job.unit import last_work
from ktxkit.work.land import land, landed_before
from ktxkit.work.next_step import with_next
from ktxkit.work.recover import catch_up, landed_up_to
from ktxkit.work.rules.job_file import PROJECT, JobPlan, plan_of
from ktxkit.work.rules.schedule import LANDED, job_outcome
from ktxkit.work.verification import Passes

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFailure, JobFile, JobState, Notice, NoticeEvent, Report
    from ktxkit.store.jobs import JobFacts


CONTRACT = "notice"
VARIABLE = "KTX_NOTIFY"
TIME_LIMIT = 30.0  # seconds for one notice
SUSPECTS_SHOWN = 20  # of one job; the report has all


def of_job(world: World, report: Report) -> list[str]:
    """Tell of a job that has ended, of its suspects and of what is blocked. Returns what went wrong in telling."""
    try:
        command = world.env.get(VARIABLE) or config.load(world).get("notify", "")
    except KtxError as error:
        return [error.message]
    if not command:
        return []
    told = [_tell(world, command, notice) for notice in notices(report, timestamp(world.clock.now()))]
    return [problem for problem in told if problem]


def notices(report: Report, at: str) -> Iterator[Notice]:
    """What there is to tell of a report: the end of the job first."""
    about: Notice = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "notice",
        "at": at,
        "jobId": report["jobId"],
        "event": "job_ended",
        "trace": report["tracePath"],
    }
    about |= {"report": report["reportPath"]} if "reportPath" in report else {}
    failure = report.get("failure")
    message = f"{failure['phase']}: {failure['message']}"[:4000] if failure else ""
    ended: Notice = {**about, "outcomes": report["isolatedDiff"]["outcomes"]}
    ended |= {"outcome": report["outcome"]} if "outcome" in report else {}
    ended |= {"commit": report["commitSha"]} if "commitSha" in report else {}
    ended |= {"message": message} if message else {}
    yield ended
    if failure and failure.get("details", {}).get("outcome") == "blocked":
        yield {**about, "event": "blocked", "message": message}
    events: dict[str, NoticeEvent] = {"suspect_revert": "suspect", "blocked": "blocked"}
    found = [unit for unit in report["failedWorkUnits"] if unit["outcome"] in events]
    for unit in found[:SUSPECTS_SHOWN]:
        event = events[unit["outcome"]]
        yield {**about, "event": event, "unitKey": unit["key"], "message": unit["reason"] or event}


def _tell(world: World, command: str, notice: Notice) -> str:
    mine = {key: value for key, value in world.env.items() if not key.startswith(("GIT_", "KTX_"))}
    try:
        done = process.run(
            process.Command(
                ["/bin/sh", "-c", command],
                world.repository.directory,
                {**mine, "KTX_EVENT": notice["event"], "KTX_JOB": notice["jobId"]},
                TIME_LIMIT,
            ),
            stdin=contracts.line(kinds.NOTICE, notice),
        )
    except (KtxError, OSError) as error:
        return f"the notify command was not told of {notice['event']}: {error}"
    if done.timed_out:
        return f"the notify command did not end within {TIME_LIMIT:.0f} seconds"
    if done.status != 0:
        said = done.err.decode("utf-8", "replace").strip()[-500:]
        return f"the notify command {process.ending(done.status)}{f': {said}' if said else ''}"
    return ""


SUBJECT_KEYS = 50  # unit keys in the landing commit's message


def final_gates(run: JobRun) -> None:
    """Every gate over the integrated tree, judged against the tree the target had before the job (so that what a
    projection broke is charged). Raises Conflict (`semantic_conflict`) where findings of level error are new, and
    `onConflict: prune` does not mend them all.
    """
    since = landed_up_to(run.job).commit
    if _judge_whole(run, since, may_cut=True):
        _judge_whole(run, since, may_cut=False)


def _judge_whole(run: JobRun, since: str, *, may_cut: bool) -> bool:
    """Whether something was cut, so that the tree is another one than was judged."""
    tree, start = run.tree_of(run.head()), run.tree_of(since)
    with run.tracer.timed("gates", "final_artifact_gates", {"tree": tree, "baseTree": start}) as facts:
        verdict = judging.check_tree(run.world, tree, base_tree=start, everything=True, options=run.plan.gates)
        run.world.writable_store.write("verdict", f"{names.job_dir(run.job.id)}/verdict.json", verdict)
        new = [f for f in verdict["findings"] if f["level"] == "error" and not f.get("inherited")]
        facts |= {"looked": verdict["looked"], "errors": len(new), "inherited": len(verdict["findings"]) - len(new)}
        if new and may_cut and cut_at_the_end(run, since):
            return True
        if new:
            where = f" in {new[0]['path']}" if new[0]["path"] else ""
            first = f"{new[0]['rule']}{where}: {new[0]['message']}"
            raise Conflict(
                f"the final gates found {plural(len(new), 'new error')}: {first}",
                outcome="semantic_conflict",
                hint=f"the findings are in {run.world.store.path(names.job_dir(run.job.id))}/verdict.json",
            )
    return False


def cut_at_the_end(run: JobRun, since: str) -> bool:
    """Whether a commit on the job's own branch takes out what dangles there, if the job prunes and that mends all."""
    with recover.integrating(run.job) as branch:
        head = branch.head
        made = prepare.pruned(run, head, since=since)
        if made != head:
            branch.move(made)
            branch.lock.settle(made)
        return made != head


def message_of(run: JobRun, outcomes: Mapping[str, str]) -> str:
    """The landing commit's message: the job file's, or one that names the units that are in it."""
    if run.plan.message:
        return run.plan.message
    before = landed_before(run.job)
    landed = [key for key, word in outcomes.items() if word == "accepted" and key not in before]
    listed = "\n".join(f"- {key}" for key in landed[:SUBJECT_KEYS])
    more = f"\n- and {len(landed) - SUBJECT_KEYS} more" if len(landed) > SUBJECT_KEYS else ""
    return f"Job {run.job.id}: {plural(len(landed), 'unit')} of {len(outcomes)}\n\n{listed}{more}\n"


def land_job(run: JobRun, outcomes: Mapping[str, str], *, rebase: bool = False) -> str:
    """Squash what was accepted onto the target. Returns the job's outcome word."""
    start = run.job.document["targetAtStart"]
    changed = run.tree_of(start) != run.tree_of(run.head())
    accepted = [word for word in outcomes.values() if word in LANDED and word != "noop"]
    landed = bool(changed and (accepted or "projection" in run.job.document))
    if landed:
        land(run.job, message=message_of(run, outcomes), rebase=rebase)
        run.job.reload()
    return job_outcome(outcomes.values(), changed=changed, landed=landed)


def unreported(run: JobRun, error: OSError, ended: str = "") -> CannotRun:
    """The end of a job could not be written. Says what ended it, and what has landed all the same."""
    landed = run.job.document.get("landed", {}).get("commit")
    resume = run.job.resume_command()
    so_far = ended or (f"it has landed as {landed} on {run.job.target}" if landed else "nothing was to land")
    return CannotRun(
        f"the end of job {run.job.id} could not be recorded ({error.strerror or error}): {so_far}",
        location=os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "",
        hint=f"put that right, then {resume}",
        data={"landed": {"commit": landed}} if landed else {},
    )


def close(run: JobRun, outcome: str, failure: JobFailure | None = None) -> Report:
    """Write the job's end and its report, and say so in the trace. Returns the report."""
    state: JobState = "failed" if failure else "landed" if run.job.state == "landed" else "closed"
    if failure and failure.get("outcome") == "interrupted":
        state = "aborted"
    run.update(outcome=outcome, state=state, finishedAt=timestamp(run.world.clock.now()), failure=failure)
    run.hooks.closing(run, outcome, failure)
    made = report.build(run.job)
    run.world.writable_store.write(kinds.REPORT, names.report_doc(run.job.id), made)
    facts = {"outcome": outcome, "state": state, "report": str(run.world.store.path(names.report_doc(run.job.id)))}
    if failure:
        run.tracer.emit("run", "ingest_failed", {**facts, **failure}, level="error")
    else:
        run.tracer.emit(
            "run",
            "ingest_finished",
            {**facts, "commitSha": run.job.document.get("landed", {}).get("commit")},
            level="info",
        )
    for problem in of_job(run.world, made):
        run.tracer.emit("run", "notify_failed", {"message": problem}, level="info")
    return with_next(run.job, made, running=False)


FILE = "job-file"


class RunOptions:
    """How to run: who listens, and what the command line says instead of the job file."""

    def __init__(
        self,
        notify: Notify = silent,
        max_parallel: int | None = None,
        rebase: bool = False,
        hooks: Hooks | None = None,
        selection: UnitSelection | None = None,
    ) -> None:
        self.notify = notify
        self.max_parallel = max_parallel
        self.rebase = rebase
        self.hooks: Hooks = Hooks() if hooks is None else hooks
        self.selection = selection or EVERYTHING
        if self.max_parallel is not None and self.max_parallel < 1:
            raise CannotRun("--max-parallel must be 1 or more", hint="leave it out for the job file's own number")

    def with_hooks(self, hooks: Hooks) -> RunOptions:
        return RunOptions(self.notify, self.max_parallel, self.rebase, hooks, self.selection)

    def with_selection(self, selection: UnitSelection) -> RunOptions:
        return RunOptions(self.notify, self.max_parallel, self.rebase, self.hooks, selection)

    def with_edited(self, edited: frozenset[str]) -> RunOptions:
        return self.with_selection(self.selection._replace(edited=edited))


class JobEnd(NamedTuple):
    """How a job ended: its outcome word, its report, and what ended it early, if anything did."""

    job_id: str
    outcome: str
    report: Report
    error: Exception | None = None
    outcomes: Mapping[str, str] = {}

    @property
    def settled(self) -> bool:
        """Whether the report says it all; False where the error itself must be shown."""
        return self.error is None or isinstance(self.error, KtxError)

    def remarks(self, command: str, nothing: str) -> list[str]:
        """What a command says of an early end, beside the report; `nothing`, where there was nothing to do."""
        if self.error is None and not self.report["workUnits"] and "commitSha" not in self.report:
            return [f"{command}: {nothing}"]
        if not isinstance(self.error, KtxError):
            return []
        hint = [f"  hint: {self.error.hint}"] if self.error.hint else []
        place = f"{self.error.location}: " if self.error.location else ""
        return [f"{command}: {place}{self.error.message}", *hint]


def new_job_id(world: World, stem: str) -> str:
    """`STEM-YYYYMMDD-HHMMSS-xxxx`."""
    clean = names.slug(stem).strip(".-") or "job"
    return names.check_job(f"{clean[:60]}-{world.clock.now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}")


def start(world: World, document: JobFile, name: str, options: RunOptions) -> JobEnd:
    """Run a new job from its (valid) job-file document; `name` is the file's. Raises KtxError where nothing started."""
    with neutral.reading(world):
        return _started(world, document, name, options)


def _started(world: World, document: JobFile, name: str, options: RunOptions) -> JobEnd:
    containment.check(world, plan_of(document).isolate)  # names and circles too are refused before anything is made
    job_id = str(document.get("job") or new_job_id(world, Path(name).stem))
    try:
        target = jobs.target_ref(world, document.get("target", ""))
    except CannotRun as error:
        raise prepare.at_key(world, name, "target", error) from error
    whole, plan = prepare.with_planned(world, document, job_id)
    if world.store.exists(names.job_doc(job_id)):
        raise Refused(
            f"job {job_id} exists already",
            hint=f"job-run --resume {job_id} continues it; another `job` makes a new one",
        )
    units = [Unit(number, key, after) for number, (key, after) in enumerate(_listed(plan), start=1)]
    facts: JobFacts = {"jobFileDigest": plan.digest}
    facts |= {"syncId": plan.sync_id} if plan.sync_id else {}
    facts |= {"jobFileSource": source} if (source := prepare.source_of(world, name)) else {}
    # The file before the job: a job without it could neither be resumed nor begun again.
    world.writable_store.write(kinds.JOB_FILE, names.job_part(job_id, "job-file"), whole)
    job = jobs.create(
        world,
        job_id,
        target=target,
        connection=plan.connection,
        source=plan.source,
        units=units,
        **facts,
    )
    return execute(plan, job, options, resumed=False)


def _listed(plan: JobPlan) -> list[tuple[str, tuple[str, ...]]]:
    """Units in order; the projection, where there is one, is the first."""
    first = [(PROJECT, ())] if plan.project else []
    return [*first, *((unit.key, unit.after) for unit in plan.units)]


def execute(plan: JobPlan, job: ActiveJob, options: RunOptions, *, resumed: bool) -> JobEnd:
    """Run a job that has its documents to its end and report. Raises Refused where another process runs it."""
    with neutral.reading(job.world):
        return _executed(plan, job, options, resumed=resumed)


def _executed(plan: JobPlan, job: ActiveJob, options: RunOptions, *, resumed: bool) -> JobEnd:
    world = job.world
    ensure_ignored(world.writable_store, world.repository, world.git)  # a unit could stage a worktree of another
    limit = options.max_parallel or plan.max_parallel or process.cpu_count()
    printer = Fingerprinter(job.git, world.repository, world.writable_store, job.id)
    watch = Watch(printer, Guard(job))
    run = JobRun(job, plan, limit, options.notify, watch, hooks=options.hooks, selection=options.selection)
    containment.check(world, plan.isolate)
    job.file()  # held from here on, whatever units do to it
    world.shared(Passes).hold(world, job.id)
    world.env[RUN_VARIABLE] = (
        f"run-{world.clock.now():%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"  # in each event from here on
    )
    lock = world.writable_store.path(f"locks/run-{run.job.id}.lock")
    with flocked(lock, clock=world.clock, wait=0, what=f"job {run.job.id}"), stopping(run.stop), watch.guarding():
        facts = {"resumed": resumed, "units": len(plan.units), "target": job.target, "maxParallel": limit}
        run.tracer.emit("run", "ingest_started", facts, level="info")
        # One that has landed was killed before its report was written.
        state: JobState = "landed" if job.state == "landed" else "open"
        run.update(startedAt=timestamp(world.clock.now()), state=state, failure=None, finishedAt=None)
        _say_what_is_kept(run)
        return _ended(run, resumed=resumed, rebase=options.rebase)


def _say_what_is_kept(run: JobRun) -> None:
    """A verification that is not in a clean checkout is told in the report."""
    if run.plan.verify is not None and run.plan.verify.keep:
        said = f"verifications keep what earlier candidates left at {', '.join(map(printable, run.plan.verify.keep))}"
        known = run.job.document.get("warnings", [])
        run.update(warnings=known if said in known else [*known, said][:10_000])


def _ended(run: JobRun, *, resumed: bool, rebase: bool) -> JobEnd:
    outcomes: dict[str, str] = {}
    try:
        with neutral.pooled(run.world):  # ends before the job does: a kill here is a job that is resumed
            outcome = _phases(run, outcomes, resumed=resumed, rebase=rebase)
    except BaseException as error:
        word, message = prepare.failure_of(error)
        try:
            report = close(run, word, {"phase": run.phase, "message": message[:60000], "outcome": word})
        except OSError as second:
            raise unreported(run, second, message) from error
        if not isinstance(error, Exception):
            raise
        return JobEnd(run.job.id, word, report, error, outcomes)
    try:
        return JobEnd(run.job.id, outcome, close(run, outcome), None, outcomes)
    except OSError as error:
        raise unreported(run, error) from error


def _phases(run: JobRun, outcomes: dict[str, str], *, resumed: bool, rebase: bool) -> str:
    """Every phase in order; returns the job's outcome. `run.phase` names the one that raised."""
    run.phase = "recovery"
    if resumed:
        end_left(run.job)
    recover.recover(run.job)
    run.phase = "snapshot"
    if not run.hooks.prepare(run):
        return "noop"
    run.notify("job_started", {"job": run.job.id, "units": len(run.plan.units)})
    run.phase = "projection" if run.plan.project else "snapshot"
    prepare.fix_base(run)
    run.phase = "units"
    if run.selection.rerun:
        retrying(run)
    outcomes |= JobLoop(run, Reuse(run, resumed))()
    containment.note(run)
    _refuse_stopped(run)
    run.hooks.units_done(run, outcomes)
    run.phase = "gates"
    run.notify("gates_started", {})
    final_gates(run)
    run.hooks.before_landing(run, outcomes)
    run.phase = "landing"
    run.notify("landing_started", {})
    outcome = land_job(run, outcomes, rebase=rebase)
    run.hooks.after_landing(run, outcomes)
    return outcome


def retrying(run: JobRun) -> None:
    """Before units have another attempt: the job's own branch has what landed meanwhile, and their old work is read."""
    head = catch_up(run.job)
    facts = {"units": sorted(run.selection.rerun), "base": head, "argv": list(run.selection.command) or None}
    run.tracer.emit("recovery", "work_units_retried", facts, level="info")
    for key in sorted(run.selection.retry) if run.selection.with_work else ():
        run.work[key] = last_work(run.job, run.job.unit(key))


def end_left(job: ActiveJob) -> None:
    """End the units' processes that outlived an earlier execution (nobody would collect what they write), and remove
    half-written files, private directories and let-go worktrees of processes that are proven dead."""
    job_id, store = job.id, job.world.writable_store
    for unit in job.units:
        lease = store.read_optional(kinds.LEASE, names.unit_doc(job_id, unit.position, unit.key, "lease"))
        if lease is not None and lease["state"] == "open":
            ended = end_strays(lease["nonce"])
            if ended:
                facts = {"unitKey": unit.key, "processes": list(ended)}
                job.tracer.emit("recovery", "work_unit_strays_ended", facts, level="info")
    for place in (job.directory, f"ingest-patches/{job_id}", f"ingest-traces/{job_id}", "attempts", "locks"):
        files.sweep_asides(store.path(place), store.root)
    neutral.sweep(store.root)
    leases.worktrees(job.world).empty_trash()


def _refuse_stopped(run: JobRun) -> None:
    resume = run.job.resume_command()
    if run.aborting == "interrupted":
        raise Conflict(
            "the job was interrupted; finished units are kept",
            outcome="interrupted",
            hint=f"{resume} continues it",
        )
    if run.aborting:
        run.phase = "units" if run.aborting == "failure" else "integration"
        why = "a unit failed" if run.aborting == "failure" else "a unit conflicted"
        raise Conflict(
            f"{why} and the job file says to stop; nothing landed",
            outcome=run.stopped_by,
            hint=f"job-report {run.job.id} shows it; put it right, then {resume}",
        )
