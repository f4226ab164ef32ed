"""A whole job, from its file to its report. Whatever ends it, a report names the phase and a trace explains it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base import files, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, Conflict, KtxError, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.signals import stopping
from ktxkit.base.unit_process import end_strays
from ktxkit.git import neutral
from ktxkit.store import jobs, leases, resuming
from ktxkit.store.rules import names
from ktxkit.store.store import ensure_ignored
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World
from ktxkit.work import recover
from ktxkit.work.fingerprint import Fingerprinter
from ktxkit.work.job import finish, isolation, prepare, strays
from ktxkit.work.job.guard import Guard
from ktxkit.work.job.hooks import Hooks
from ktxkit.work.job.loop import Loop
from ktxkit.work.job.reuse import Reuse
from ktxkit.work.job.state import JobRun, Notify, silent
from ktxkit.work.job.watch import Watch
from ktxkit.work.rules.job_file import PROJECT, JobPlan, plan_of

FILE = "job-file"


@dataclass(frozen=True)
class How:
    """How to run: who listens, and what the command line says instead of the job file."""

    notify: Notify = silent
    max_parallel: int | None = None
    rebase: bool = False
    hooks: Hooks = field(default_factory=Hooks)

    def __post_init__(self) -> None:
        if self.max_parallel is not None and self.max_parallel < 1:
            raise CannotRun("--max-parallel must be 1 or more", hint="leave it out for the job file's own number")


@dataclass(frozen=True)
class Ended:
    """How a job ended: its outcome word, its report, and what ended it early, if anything did."""

    job_id: str
    outcome: str
    report: Document
    error: Exception | None = None
    outcomes: Mapping[str, str] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether the report says it all; False where the error itself must be shown."""
        return self.error is None or isinstance(self.error, KtxError)

    @property
    def notes(self) -> list[str]:
        """What job-run says of an early end, or of a job without units, beside the report."""
        return self.told("job-run", "the job has no units: nothing was done")

    def told(self, command: str, nothing: str) -> list[str]:
        """What a command says of an early end, beside the report; `nothing`, where there was nothing to do."""
        if self.error is None and not self.report["workUnits"] and "commitSha" not in self.report:
            return [f"{command}: {nothing}"]
        if not isinstance(self.error, KtxError):
            return []
        hint = [f"  hint: {self.error.hint}"] if self.error.hint else []
        place = f"{self.error.where}: " if self.error.where else ""
        return [f"{command}: {place}{self.error.message}", *hint]


def new_job_id(world: World, stem: str) -> str:
    """`STEM-YYYYMMDD-HHMMSS-xxxx`."""
    clean = names.slug(stem).strip(".-") or "job"
    return names.check_job(f"{clean[:60]}-{world.clock.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")


def start(world: World, document: Document, name: str, how: How) -> Ended:
    """Run a new job from its (valid) job-file document; `name` is the file's. Raises KtxError where nothing started."""
    isolation.check(world, plan_of(document).isolate)  # names and circles too are refused before anything is made
    job_id = str(document.get("job") or new_job_id(world, Path(name).stem))
    target = jobs.target_ref(world, document.get("target", ""))
    whole, plan = prepare.with_planned(world, document, job_id)
    if world.store.exists(names.job_doc(job_id)):
        raise Refused(
            f"job {job_id} exists already",
            hint=f"job-run --resume {job_id} continues it; another `job` makes a new one",
        )
    units = [jobs.Unit(number, key, after) for number, (key, after) in enumerate(_listed(plan), start=1)]
    facts = {"syncId": plan.sync_id} if plan.sync_id else {}
    # The file before the job: a job without it could neither be resumed nor begun again.
    world.writable_store.write(FILE, names.job_part(job_id, "job-file"), whole)
    job = jobs.create(
        world,
        job_id,
        target=target,
        connection=plan.connection,
        source=plan.source,
        units=units,
        jobFileDigest=plan.digest,
        **facts,
    )
    return execute(world, plan, job, how, resumed=False)


def resume(world: World, job_id: str, how: How) -> Ended:
    """Continue a job: what is on record stays, patches with unchanged inputs are reused. Raises Refused if landed."""
    job = jobs.load(world, job_id)
    if job["state"] == "landed" and "finishedAt" in job and world.store.exists(names.report_doc(job_id)):
        raise Refused(f"job {job_id} has landed already", where=job["target"], hint=f"job-report --job {job_id}")
    if world.store.exists(names.job_part(job_id, "ingest")):
        raise Refused(f"job {job_id} is an ingestion", hint=f"ingest-run --resume {job_id} continues it")
    document = world.store.read(FILE, names.job_part(job_id, "job-file"))
    return execute(world, plan_of(document), job, how, resumed=True)


def _listed(plan: JobPlan) -> list[tuple[str, tuple[str, ...]]]:
    """Units in order; the projection, where there is one, is the first."""
    first = [(PROJECT, ())] if plan.project else []
    return [*first, *((unit.key, unit.after) for unit in plan.units)]


def execute(world: World, plan: JobPlan, job: Document, how: How, *, resumed: bool) -> Ended:
    """Run a job that has its documents to its end and report. Raises Refused where another process runs it."""
    ensure_ignored(world.writable_store, world.repository, world.git)  # a unit could stage a worktree of another
    limit = how.max_parallel or plan.max_parallel or process.cpu_count()
    printer = Fingerprinter(world.git.at(world.repository.place), world.repository, world.writable_store, job["jobId"])
    watch = Watch(printer, Guard(world, job["jobId"]))
    run = JobRun(world, plan, job, jobs.tracer(world, job), limit, how.notify, watch, hooks=how.hooks)
    isolation.check(world, plan.isolate)
    lock = world.writable_store.path(f"locks/run-{run.job_id}.lock")
    with flocked(lock, clock=world.clock, wait=0, what=f"job {run.job_id}"), stopping(run.stop), watch.guarding():
        facts = {"resumed": resumed, "units": len(plan.units), "target": job["target"], "maxParallel": limit}
        run.tracer.emit("run", "ingest_started", facts, level="info")
        state = "landed" if job["state"] == "landed" else "open"  # landed, but killed before its report was written
        run.update(startedAt=timestamp(world.clock.now()), state=state, failure=None, finishedAt=None)
        return _ended(run, resumed=resumed, rebase=how.rebase)


def _ended(run: JobRun, *, resumed: bool, rebase: bool) -> Ended:
    outcomes: dict[str, str] = {}
    try:
        with neutral.pooled(run.world):  # ends before the job does: a kill here is a job that is resumed
            outcome = _phases(run, outcomes, resumed=resumed, rebase=rebase)
    except BaseException as error:
        word, message = prepare.failure_of(error)
        try:
            report = finish.close(run, word, {"phase": run.phase, "message": message[:60000], "outcome": word})
        except OSError as second:
            raise finish.unreported(run, second, message) from error
        if not isinstance(error, Exception):
            raise
        return Ended(run.job_id, word, report, error, outcomes)
    try:
        return Ended(run.job_id, outcome, finish.close(run, outcome), None, outcomes)
    except OSError as error:
        raise finish.unreported(run, error) from error


def _phases(run: JobRun, outcomes: dict[str, str], *, resumed: bool, rebase: bool) -> str:
    """Every phase in order; returns the job's outcome. `run.phase` names the one that raised."""
    run.phase = "recovery"
    if resumed:
        end_left(run.world, run.job, run.tracer)
    recover.recover(run.world, run.job)
    run.phase = "snapshot"
    if not run.hooks.prepare(run):
        return "noop"
    run.notify("job_started", {"job": run.job_id, "units": len(run.plan.units)})
    run.phase = "projection" if run.plan.project else "snapshot"
    prepare.fix_base(run)
    run.phase = "units"
    outcomes |= Loop(run, Reuse(run, resumed))()
    strays.note(run)
    _refuse_stopped(run)
    run.hooks.units_done(run, outcomes)
    run.phase = "gates"
    finish.final_gates(run)
    run.hooks.before_landing(run, outcomes)
    run.phase = "landing"
    outcome = finish.land_job(run, outcomes, rebase=rebase)
    run.hooks.after_landing(run, outcomes)
    return outcome


def end_left(world: World, job: Document, tracer: Tracer) -> None:
    """End the units' processes that outlived an earlier execution (nobody would collect what they write), and remove
    half-written files, private directories and let-go worktrees of processes that are proven dead."""
    job_id, store = str(job["jobId"]), world.writable_store
    for unit in jobs.units(job):
        lease = store.read_optional("lease", names.unit_doc(job_id, unit.position, unit.key, "lease"))
        if lease is not None and lease["state"] == "open":
            ended = end_strays(lease["nonce"])
            if ended:
                facts = {"unitKey": unit.key, "processes": list(ended)}
                tracer.emit("recovery", "work_unit_strays_ended", facts, level="info")
    for place in (names.job_dir(job_id), f"ingest-patches/{job_id}", f"ingest-traces/{job_id}", "attempts", "locks"):
        files.sweep_asides(store.path(place))
    neutral.sweep(store.path("tmp"))
    leases.worktrees(world).empty_trash()


def _refuse_stopped(run: JobRun) -> None:
    resume = resuming.how(run.world, run.job_id)
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
            hint=f"job-report {run.job_id} shows it; put it right, then {resume}",
        )
