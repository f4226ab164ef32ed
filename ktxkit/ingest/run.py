"""An ingestion around a job: makes its snapshot and plan, tells units what they are for, accounts for what landed.

A whole ingestion: a job of its own, one at a time for a connection and source; what waited is settled first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files, kinds
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, CannotRun, Conflict, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import digest_of
from ktxkit.ingest import account, cache, ending, knowledge, planning, projecting, staging
from ktxkit.ingest.account import Baseline
from ktxkit.ingest.connectors.interface import Origin, Reading, connector, installed_connectors
from ktxkit.ingest.knowledge import Knowledge
from ktxkit.ingest.planning import CONTRACT, IngestRequest, Planned
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.places import sync_id
from ktxkit.ingest.rules.planning import EVICTIONS, Difference
from ktxkit.store import config, jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.job import containment
from ktxkit.work.job import run as job_run
from ktxkit.work.job.run import JobEnd, RunOptions
from ktxkit.work.job.state import Hooks, JobRun
from ktxkit.work.rules.job_file import RECONCILE, UnitPlan, plan_of
from ktxkit.work.rules.schedule import LANDED

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFailure, JobFile


RESULT_LIMIT = 64 * 1024 * 1024  # bytes of $KTX_RESULT


@dataclass
class Ingestion(Hooks):
    """One ingestion. `override`: the job whose unfinished work this one takes up."""

    request: IngestRequest
    baseline: Baseline
    override: str = ""
    snapshot: Document = field(default_factory=dict)
    planned: Planned | None = None
    known: Knowledge | None = None
    digests: dict[str, str] = field(default_factory=dict)
    notes: ending.ReportNotes = field(default_factory=ending.ReportNotes)
    programs: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def prepare(self, run: JobRun) -> bool:
        """Snapshot, difference, plan. A resumed job does what is not on record only."""
        store = run.world.store
        run.phase = "snapshot"
        self.snapshot = store.read_optional("raw-snapshot", places.snapshot_doc(run.job.id)) or self._take(run)
        self.digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}
        if "base" in run.job.document:
            self.notes = ending.ReportNotes.of(self.snapshot)
        elif not self._plan(run):
            return False
        document = run.job.file()
        assert document is not None, "it was planned just now, or on record"
        run.plan = plan_of(document)
        return True

    def _take(self, run: JobRun) -> Document:
        """Stage the source. The document is written last: without it staging begins anew."""
        with run.tracer.timed("snapshot", "stage_raw_files", {"connector": self.request.connector}) as facts:
            sink = staging.fresh(run.job)
            place = Path(self.request.path) if self.request.path else None
            origin = Origin(place, self.request.url, run.world.env, self.request.options, run.world.clock)
            said = connector(self.request.connector).stage(origin, sink)
            ids = staging.blobs(run.world, sink.top, list(sink.files))
            notes = {"notRead": said.not_read, "warnings": said.warnings}
            kept: Document = {key: value[: staging.NOTES_KEPT] for key, value in notes.items() if value}
            whole = {"scope": said.scope, "unfetched": said.unfetched}
            kept |= {key: value for key, value in whole.items() if value}
            document = staging.document(run.job, self.request.connector, sink.files, ids, kept)
            facts |= {"rawFiles": len(sink.files), "bytes": sum(one.size for one in sink.files.values())}
            facts |= {"unfetched": len(said.unfetched), "notRead": said.not_read[:20]}
        run.world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job.id), document)
        return document

    def _plan(self, run: JobRun) -> bool:
        """The difference and the plan; False where there is nothing to do."""
        world, asked = run.world, self.request
        tree = run.git.text("rev-parse", "--verify", f"{run.job.document['targetAtStart']}^{{tree}}")
        with run.tracer.timed("snapshot", "compute_diff_set") as facts:
            self.known = knowledge.of_tree(world, tree)
            reading, found = self._differ(run, self.known)
            facts |= {"diffSummary": found.summary(), "warnings": list(reading.warnings)[:100]}
            facts |= {"carried": list(self.snapshot.get("carried", ()))[:100]}
        run.phase = "plan"
        planned = planning.plan(world, asked, self.snapshot, reading, self.baseline, self.known, found)
        self.planned, self.notes.difference = planned, found
        self.notes.warnings = [*self.snapshot.get("warnings", ()), *reading.warnings]
        self.notes.evictions = planned.evictions
        self.snapshot |= {"difference": found.document()}
        world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job.id), self.snapshot)
        if planned.nothing:
            run.tracer.emit("plan", "nothing_to_do", {"diffSummary": found.summary()}, level="info")
            return False
        if "jobFileDigest" not in run.job.document:
            self._write_plan(run, planned)
        return True

    def _differ(self, run: JobRun, known: Knowledge) -> tuple[Reading, Difference]:
        """The snapshot as it is read, and what changed. What was not looked at is taken from the snapshots before."""
        world, asked = run.world, self.request
        top = world.store.path(places.raw_dir(run.job.id))
        while True:
            reading = planning.read_snapshot(asked, staging.StagedFiles(top, list(self.digests)), known)
            found = planning.differ(world, asked, self.snapshot, reading, self.baseline, known)
            missing = planning.not_looked_at(asked, self.snapshot, found, self.baseline, known)
            if not missing:
                return reading, found
            self.snapshot = staging.carry(world, top, self.snapshot, missing)
            self.digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}

    def _write_plan(self, run: JobRun, planned: Planned) -> None:
        document = planning.job_file(self.request, run.job, planned)
        run.update(units=planning.units_of(document))
        assert self.known is not None, "a plan is made of what the tree knows"
        planning.write_units(self.request, run.job, planned, self.baseline, self.known)
        run.world.writable_store.write("job-file", places.job_file(run.job.id), document)
        run.update(jobFileDigest=digest_of(document))  # last: a job that names a file has one
        facts = {"units": len(document["units"]), "evictions": list(planned.evictions.paths)[:100]}
        reasons = {one.proposal.key: list(one.reasons[:3]) for one in planned.selected[:100]}
        run.tracer.emit("plan", "work_units_planned", {**facts, "reasons": reasons}, level="info")

    def base(self, run: JobRun, start: str) -> str | None:
        """The snapshot's commit, the projection's on it, and what units start from."""
        assert self.planned is not None and self.known is not None, "a job without a base was planned just now"
        raw: dict[str, str | None] = dict.fromkeys(self._outdated(run))
        raw |= {f"{self.snapshot['root']}/{one['rawPath']}": one["blob"] for one in self.snapshot["files"]}
        snapshot = staging.commit(run.world, start, raw, f"Snapshot {self.snapshot['syncId']}\n")
        run.phase = "projection"
        due = planning.due(self.planned, self.baseline)
        base = projecting.project(run, self.request, self.planned, self.known, snapshot, due)
        if self.planned.applied.changes and not due:  # else what units make of it is what can be verified
            projecting.verified(run, start, base)
        tree = run.git.text("rev-parse", "--verify", f"{base}^{{tree}}")
        index = knowledge.index(run.job, tree)
        run.world.writable_store.write("knowledge-index", places.index_doc(run.job.id), index, durable=False)
        edited = projecting.of_pages(run.git, self.request, self.planned, self.baseline, self.known)
        self.notes.warnings += [projecting.edit_note(path, blob) for path, blob in edited.items()]
        run.update(unitBase=staging.for_units(run.job, base, edited))
        self.snapshot |= {"told": self.notes.document()}
        run.world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job.id), self.snapshot)
        return base

    def _outdated(self, run: JobRun) -> list[str]:
        """Paths of snapshots that are not kept any more once this one lands."""
        assert self.known is not None, "a job without a base was planned just now"
        keep = config.load(run.world).get("ingest", {}).get("keepSnapshots")
        if keep is None:
            return []
        gone = places.to_remove(self.known.files, self.request.connection, self.request.source, keep)
        self.notes.snapshots = list(gone)
        if gone:
            facts = {"snapshots": list(gone)[:1000], "keepSnapshots": keep}
            run.tracer.emit("snapshot", "old_snapshots_removed", facts, level="info")
        return [path for paths in gone.values() for path in paths]

    def unit_base(self, run: JobRun) -> str | None:
        return str(run.job.document["unitBase"])

    def environment(self, run: JobRun, plan: UnitPlan) -> Mapping[str, str]:
        store = run.world.writable_store
        result = store.path(self._place(run, plan, "actions"))
        files.remove(result)
        return {
            "KTX_UNIT_FILE": str(store.path(self._place(run, plan, "work-unit"))),
            "KTX_RAW_ROOT": str(store.path(places.raw_dir(run.job.id))),
            "KTX_INDEX": str(store.path(places.index_doc(run.job.id))),
            "KTX_RESULT": str(result),
        }

    def _place(self, run: JobRun, plan: UnitPlan, name: str) -> str:
        unit = run.unit(plan)
        return run.job.unit_doc(unit, name)

    def judge(self, run: JobRun, plan: UnitPlan) -> str:
        """A worker's account must be one: else nobody knows what its work comes from."""
        try:
            run.world.store.read_optional("unit-actions", self._place(run, plan, "actions"))
        except BrokenContract as error:
            return f"its $KTX_RESULT is not valid: {error.message}"
        return ""

    def _cached_key(self, run: JobRun, plan: UnitPlan) -> str:
        """The content key of a unit; empty where it is never kept."""
        if not self.request.cache or plan.key in (RECONCILE, EVICTIONS):
            return ""
        told = run.world.store.read("work-unit", self._place(run, plan, "work-unit"))
        return cache.key_of(plan, told, self.digests, self._programs(run, plan.step.argv))

    def _programs(self, run: JobRun, argv: Sequence[str]) -> list[str]:
        """What stands in each file that a command names: a worker that was edited is another one."""
        found = self.programs.get(tuple(argv))
        if found is None:
            found = cache.programs(run.git, str(run.job.document["unitBase"]), argv)
            self.programs[tuple(argv)] = found
        return found

    def replay(self, run: JobRun, plan: UnitPlan, directory: Path) -> str:
        key = self._cached_key(run, plan)
        entry = cache.load(run.world, key) if key else None
        if entry is None:
            return ""
        if not cache.replay(entry, directory, self.snapshot["root"]):
            cache.forget(run.world, key)
            return ""
        actions = cache.actions_of(entry)
        result = self._place(run, plan, "actions")
        run.world.writable_store.remove(result)
        if actions is not None:
            run.world.writable_store.write("unit-actions", result, dict(actions))
        return str(entry["jobId"])

    def forget(self, run: JobRun, plan: UnitPlan) -> None:
        key = self._cached_key(run, plan)
        if key:
            cache.forget(run.world, key)

    def settled(self, run: JobRun, plan: UnitPlan, outcome: str, *, replayed: bool) -> None:
        """Keep what was accepted; work with gaps is never kept as whole."""
        key = "" if replayed or outcome != "accepted" else self._cached_key(run, plan)
        if not key:
            return
        actions = run.world.store.read_optional("unit-actions", self._place(run, plan, "actions"))
        if actions is not None and actions.get("unfinished"):
            return
        told = run.world.store.read("work-unit", self._place(run, plan, "work-unit"))
        patch = run.world.store.read(kinds.PATCH, self._place(run, plan, "patch"))
        cache.store(run.world, key, told, patch, actions)

    def units_done(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        """A reconciliation that failed, or units that all did, end the job before anything lands."""
        for raw in staging.changed_raw(run.world.store.path(places.raw_dir(run.job.id)), self.snapshot)[:100]:
            self.notes.warnings.append(f"{raw} was changed while units ran; what lands is what was staged")
        word = outcomes.get(RECONCILE, "noop")
        others = [outcome for key, outcome in outcomes.items() if key != RECONCILE]
        if others and all(outcome not in LANDED for outcome in others) and not self._projected(run):
            run.phase = "units"
            raise Conflict("no unit made it; nothing landed", outcome="failed", hint=f"job-report --job {run.job.id}")
        if word not in LANDED:
            run.phase = "reconcile"
            raise Conflict(
                f"reconciliation ended as {word}; nothing landed",
                outcome="failed" if word == "skipped" else word,
                hint=f"see job-report --job {run.job.id}; ingest-run --resume {run.job.id} tries again",
            )

    def _projected(self, run: JobRun) -> bool:
        document = run.world.store.read("projected", places.projected_doc(run.job.id))
        return bool(document["changes"] or document.get("removed"))

    def before_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        run.phase = "provenance"
        ending.account_for(run, self.snapshot, self.baseline, outcomes, self.notes)

    def after_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        run.phase = "provenance"
        ending.write(run)

    def closing(self, run: JobRun, outcome: str, failure: JobFailure | None) -> None:
        ending.close(run, self.request, self.override, self.notes, failure)
        if failure is None:
            staging.remove(run.job)


WAIT = 5.0  # seconds to wait for another ingestion of the same connection and source, unless asked otherwise


def start(
    world: World, request: IngestRequest, options: RunOptions, *, job: str = "", target: str = "", wait: float = WAIT
) -> JobEnd:
    """Run a new ingestion. Raises KtxError where nothing started; whatever goes wrong later is in its report."""
    request.check()
    containment.check(world, request.isolate)
    _detected(request)
    job_id = names.check_job(job) if job else job_run.new_job_id(world, request.source)
    full = _target(world, target)
    lock = world.writable_store.path(places.lock(request.connection, request.source))
    with flocked(lock, clock=world.clock, wait=wait, what=f"the ingestion of {request.owner}"):
        if world.store.exists(names.job_doc(job_id)):
            raise Refused(f"job {job_id} exists already", hint=f"ingest-run --resume {job_id} continues it")
        account.settle_provenance(world, request.connection, request.source)
        ending.settle_unfinished(world, request.connection, request.source)
        earlier = ending.unfinished(world, request.connection, request.source)
        made = jobs.create(
            world,
            job_id,
            target=full,
            connection=request.connection,
            source=request.source,
            syncId=sync_id(world.clock.now(), job_id),
        )
        override = earlier[-1] if earlier else ""
        world.writable_store.write(CONTRACT, places.ingest_doc(job_id), request.document(job_id, override))
        return _run(request, made, override, options, resumed=False)


def resume(world: World, job_id: str, options: RunOptions, *, wait: float = WAIT) -> JobEnd:
    """Continue an ingestion: snapshot, plan, patches and receipts that are on record stay. Raises Refused if landed."""
    job = ActiveJob.load(world, job_id)
    document = world.store.read_optional(kinds.INGEST, places.ingest_doc(job_id))
    if document is None:
        raise CannotRun(f"job {job_id} is no ingestion", hint=f"job-run --resume {job_id}")
    if job.state == "landed" and "finishedAt" in job.document:
        raise Refused(f"job {job_id} has landed already", location=job.target, hint=f"job-report --job {job_id}")
    if job.state == "closed":
        raise Refused(f"job {job_id} has ended: nothing was to land", hint="a new ingest-run tries what failed in it")
    later = job.superseded_by()
    if later:
        raise Refused(f"job {later} took up what {job_id} left", hint=f"job-report --job {later}")
    asked = IngestRequest.of(document)
    lock = world.writable_store.path(places.lock(asked.connection, asked.source))
    with flocked(lock, clock=world.clock, wait=wait, what=f"the ingestion of {asked.owner}"):
        return _run(asked, job, document.get("overrideOf", ""), options, resumed=True)


def _run(request: IngestRequest, job: ActiveJob, override: str, options: RunOptions, *, resumed: bool) -> JobEnd:
    known = account.load(job.world, request.connection, request.source, job.document["targetAtStart"])
    hooks = Ingestion(request, known, override)
    empty: JobFile = {
        "schemaVersion": SCHEMA_VERSION,
        "connectionId": request.connection,
        "sourceKey": request.source,
        "units": [],
    }
    planned = job.file() or empty
    return job_run.execute(plan_of(planned), job, options.with_hooks(hooks), resumed=resumed)


def _detected(request: IngestRequest) -> None:
    """A directory that is plainly another connector's is refused with its name."""
    chosen = connector(request.connector)
    if request.url:
        return
    place = Path(request.path)
    if not place.exists():
        raise CannotRun("no such source", location=request.path, hint="name the directory of a staged bundle, or --url")
    if not chosen.detect(place) and not request.allow_empty:
        others = [
            name
            for name in sorted(installed_connectors())
            if name != request.connector and connector(name).detect(place)
        ]
        hint = f"it looks like one for {others[0]}" if others else "is it the bundle's own directory?"
        raise CannotRun(f"this is no source for {request.connector}", location=request.path, hint=hint)


def _target(world: World, name: str) -> str:
    """The target's full ref. A repository without any commit gets an empty first one: there is nothing else to start
    from, and nothing to lose."""
    git = world.git
    head = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
    wanted = (name if name.startswith("refs/") else f"refs/heads/{name}") if name else head
    unborn = wanted == head and head and git.resolve(head) is None
    if unborn and not git.text("for-each-ref", "--count=1", "refs/heads/"):
        staging.first_commit(world, head)
    return jobs.target_ref(world, name)
