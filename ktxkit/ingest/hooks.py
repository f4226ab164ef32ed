"""An ingestion around a job: makes its snapshot and plan, tells units what they are for, accounts for what landed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, Conflict
from ktxkit.base.rules.digests import digest_of
from ktxkit.ingest import cache, edits, ending, knowledge, planning, projecting, staging, trees
from ktxkit.ingest.asked import Asked
from ktxkit.ingest.baseline import Baseline
from ktxkit.ingest.connectors.find import connector
from ktxkit.ingest.connectors.interface import Origin, Reading
from ktxkit.ingest.knowledge import Knowledge
from ktxkit.ingest.planning import Planned
from ktxkit.ingest.rules import places, retention
from ktxkit.ingest.rules.difference import Difference
from ktxkit.ingest.rules.planning import EVICTIONS
from ktxkit.store import config
from ktxkit.store.rules import names
from ktxkit.work.job.hooks import Hooks
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules.job_file import RECONCILE, UnitPlan, plan_of
from ktxkit.work.rules.schedule import LANDED

RESULT_LIMIT = 64 * 1024 * 1024  # bytes of $KTX_RESULT


@dataclass
class Ingestion(Hooks):
    """One ingestion. `override`: the job whose unfinished work this one takes up."""

    asked: Asked
    baseline: Baseline
    override: str = ""
    snapshot: Document = field(default_factory=dict)
    planned: Planned | None = None
    known: Knowledge | None = None
    digests: dict[str, str] = field(default_factory=dict)
    told: ending.Told = field(default_factory=ending.Told)

    def prepare(self, run: JobRun) -> bool:
        """Snapshot, difference, plan. A resumed job does what is not on record only."""
        store = run.world.store
        run.phase = "snapshot"
        self.snapshot = store.read_optional("raw-snapshot", places.snapshot_doc(run.job_id)) or self._take(run)
        self.digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}
        if "base" in run.job:
            self.told = ending.Told.of(self.snapshot)
        elif not self._plan(run):
            return False
        document = store.read("job-file", places.job_file(run.job_id))
        run.plan = plan_of(document)
        return True

    def _take(self, run: JobRun) -> Document:
        """Stage the source. The document is written last: without it staging begins anew."""
        with run.tracer.timed("snapshot", "stage_raw_files", {"connector": self.asked.connector}) as facts:
            sink = staging.fresh(run.world, run.job_id)
            place = Path(self.asked.place) if self.asked.place else None
            origin = Origin(place, self.asked.url, run.world.env, self.asked.options, run.world.clock)
            said = connector(self.asked.connector).stage(origin, sink)
            ids = staging.blobs(run.world, sink.top, list(sink.files))
            notes = {"notRead": said.not_read, "warnings": said.warnings}
            kept: Document = {key: value[: staging.NOTES_KEPT] for key, value in notes.items() if value}
            whole = {"scope": said.scope, "unfetched": said.unfetched}
            kept |= {key: value for key, value in whole.items() if value}
            document = staging.document(run.world, run.job, self.asked.connector, sink.files, ids, kept)
            facts |= {"rawFiles": len(sink.files), "bytes": sum(one.size for one in sink.files.values())}
            facts |= {"unfetched": len(said.unfetched), "notRead": said.not_read[:20]}
        run.world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job_id), document)
        return document

    def _plan(self, run: JobRun) -> bool:
        """The difference and the plan; False where there is nothing to do."""
        world, asked = run.world, self.asked
        tree = run.git.text("rev-parse", "--verify", f"{run.job['targetAtStart']}^{{tree}}")
        with run.tracer.timed("snapshot", "compute_diff_set") as facts:
            self.known = knowledge.of_tree(world, tree)
            reading, found = self._differ(run, self.known)
            facts |= {"diffSummary": found.summary(), "warnings": list(reading.warnings)[:100]}
            facts |= {"carried": list(self.snapshot.get("carried", ()))[:100]}
        run.phase = "plan"
        planned = planning.plan(world, asked, self.snapshot, reading, self.baseline, self.known, found)
        self.planned, self.told.difference = planned, found
        self.told.warnings = [*self.snapshot.get("warnings", ()), *reading.warnings]
        self.told.evictions = planned.evictions
        self.snapshot |= {"difference": found.document()}
        world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job_id), self.snapshot)
        if planned.nothing:
            run.tracer.emit("plan", "nothing_to_do", {"diffSummary": found.summary()}, level="info")
            return False
        if not world.store.exists(places.job_file(run.job_id)):
            self._write_plan(run, planned)
        return True

    def _differ(self, run: JobRun, known: Knowledge) -> tuple[Reading, Difference]:
        """The snapshot as it is read, and what changed. What was not looked at is taken from the snapshots before."""
        world, asked = run.world, self.asked
        top = world.store.path(places.raw_dir(run.job_id))
        while True:
            reading = planning.read_snapshot(asked, staging.Staged(top, list(self.digests)), known)
            found = planning.differ(world, asked, self.snapshot, reading, self.baseline, known)
            missing = planning.not_looked_at(asked, self.snapshot, found, self.baseline, known)
            if not missing:
                return reading, found
            self.snapshot = staging.carry(world, top, self.snapshot, missing)
            self.digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}

    def _write_plan(self, run: JobRun, planned: Planned) -> None:
        document = planning.job_file(self.asked, run.job, planned)
        run.update(units=planning.units_of(document), jobFileDigest=digest_of(document))
        assert self.known is not None, "a plan is made of what the tree knows"
        planning.write_units(run.world, self.asked, run.job, planned, self.baseline, self.known)
        run.world.writable_store.write("job-file", places.job_file(run.job_id), document)
        facts = {"units": len(document["units"]), "evictions": list(planned.evictions.paths)[:100]}
        reasons = {one.proposal.key: list(one.reasons[:3]) for one in planned.selected[:100]}
        run.tracer.emit("plan", "work_units_planned", {**facts, "reasons": reasons}, level="info")

    def base(self, run: JobRun, start: str) -> str | None:
        """The snapshot's commit, the projection's on it, and what units start from."""
        assert self.planned is not None and self.known is not None, "a job without a base was planned just now"
        raw: dict[str, str | None] = dict.fromkeys(self._outdated(run))
        raw |= {f"{self.snapshot['root']}/{one['rawPath']}": one["blob"] for one in self.snapshot["files"]}
        snapshot = trees.commit(run.world, start, raw, f"Snapshot {self.snapshot['syncId']}\n")
        run.phase = "projection"
        due = planning.due(self.planned, self.baseline)
        base = projecting.project(run, self.asked, self.planned, self.known, snapshot, due)
        if self.planned.applied.changes and not due:  # else what units make of it is what can be verified
            projecting.verified(run, start, base)
        tree = run.git.text("rev-parse", "--verify", f"{base}^{{tree}}")
        index = knowledge.index(run.world, run.job_id, tree)
        run.world.writable_store.write("knowledge-index", places.index_doc(run.job_id), index, durable=False)
        edited = edits.of_pages(run.git, self.asked, self.planned, self.baseline, self.known)
        self.told.warnings += [edits.said(path, blob) for path, blob in edited.items()]
        run.update(unitBase=trees.for_units(run.world, run.job_id, base, edited))
        self.snapshot |= {"told": self.told.document()}
        run.world.writable_store.write("raw-snapshot", places.snapshot_doc(run.job_id), self.snapshot)
        return base

    def _outdated(self, run: JobRun) -> list[str]:
        """Paths of snapshots that are not kept any more once this one lands."""
        assert self.known is not None, "a job without a base was planned just now"
        keep = config.load(run.world).get("ingest", {}).get("keepSnapshots")
        if keep is None:
            return []
        gone = retention.to_remove(self.known.files, self.asked.connection, self.asked.source, keep)
        self.told.snapshots = list(gone)
        if gone:
            facts = {"snapshots": list(gone)[:1000], "keepSnapshots": keep}
            run.tracer.emit("snapshot", "old_snapshots_removed", facts, level="info")
        return [path for paths in gone.values() for path in paths]

    def unit_base(self, run: JobRun) -> str | None:
        return str(run.job["unitBase"])

    def environment(self, run: JobRun, plan: UnitPlan) -> Mapping[str, str]:
        store = run.world.writable_store
        result = store.path(self._place(run, plan, "actions"))
        files.remove(result)
        return {
            "KTX_UNIT_FILE": str(store.path(self._place(run, plan, "work-unit"))),
            "KTX_RAW_ROOT": str(store.path(places.raw_dir(run.job_id))),
            "KTX_INDEX": str(store.path(places.index_doc(run.job_id))),
            "KTX_RESULT": str(result),
        }

    def _place(self, run: JobRun, plan: UnitPlan, name: str) -> str:
        unit = run.unit(plan)
        return names.unit_doc(run.job_id, unit.position, unit.key, name)

    def judge(self, run: JobRun, plan: UnitPlan) -> str:
        """A worker's account must be one: else nobody knows what its work comes from."""
        try:
            run.world.store.read_optional("unit-actions", self._place(run, plan, "actions"))
        except BrokenContract as error:
            return f"its $KTX_RESULT is not valid: {error.message}"
        return ""

    def _cached_key(self, run: JobRun, plan: UnitPlan) -> str:
        """The content key of a unit; empty where it is never kept."""
        if not self.asked.cache or plan.key in (RECONCILE, EVICTIONS):
            return ""
        told = run.world.store.read("work-unit", self._place(run, plan, "work-unit"))
        return cache.key_of(plan, told, self.digests)

    def replay(self, run: JobRun, plan: UnitPlan, place: Path) -> str:
        key = self._cached_key(run, plan)
        entry = cache.load(run.world, key) if key else None
        if entry is None:
            return ""
        if not cache.replay(entry, place, self.snapshot["root"]):
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
        patch = run.world.store.read("patch", self._place(run, plan, "patch"))
        cache.store(run.world, key, told, patch, actions)

    def units_done(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        """A reconciliation that failed, or units that all did, end the job before anything lands."""
        for raw in staging.changed(run.world.store.path(places.raw_dir(run.job_id)), self.snapshot)[:100]:
            self.told.warnings.append(f"{raw} was changed while units ran; what lands is what was staged")
        word = outcomes.get(RECONCILE, "noop")
        others = [outcome for key, outcome in outcomes.items() if key != RECONCILE]
        if others and all(outcome not in LANDED for outcome in others) and not self._projected(run):
            run.phase = "units"
            raise Conflict("no unit made it; nothing landed", outcome="failed", hint=f"job-report --job {run.job_id}")
        if word not in LANDED:
            run.phase = "reconcile"
            raise Conflict(
                f"reconciliation ended as {word}; nothing landed",
                outcome="failed" if word == "skipped" else word,
                hint=f"see job-report --job {run.job_id}; ingest-run --resume {run.job_id} tries again",
            )

    def _projected(self, run: JobRun) -> bool:
        document = run.world.store.read("projected", places.projected_doc(run.job_id))
        return bool(document["changes"] or document.get("removed"))

    def before_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        run.phase = "provenance"
        ending.account(run, self.snapshot, self.baseline, outcomes, self.told)

    def after_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        run.phase = "provenance"
        ending.write(run)

    def closing(self, run: JobRun, outcome: str, failure: Document | None) -> None:
        ending.close(run, self.asked, self.override, self.told, failure)
        if failure is None:
            staging.remove(run.world, run.job_id)
