"""What killed ingestions of a source left: the next one ends what still runs, and writes the report that is missing.

The lock of the source is held: none of them can be alive. Their worktrees and patches stay; `--resume` can still go on.

The end of an ingestion: provenance validated before the landing, written after it; what the report carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.base.rules.text import plural
from ktxkit.git.objects import Objects
from ktxkit.ingest import account, staging
from ktxkit.ingest.account import Account, Baseline, pending, pending_document
from ktxkit.ingest.planning import IngestRequest
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.artifacts import problems_of
from ktxkit.ingest.rules.planning import EVICTIONS, Difference, Evictions
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work import report
from ktxkit.work.job.run import end_left
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules.job_file import RECONCILE
from ktxkit.work.rules.schedule import LANDED

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, JobFailure


MESSAGE = "it was killed; a later ingestion of the same source found it"


def settle_unfinished(world: World, connection: str, source: str) -> list[str]:
    """Ids of the jobs that were cut off before their report."""
    jobs.sweep_unbegun(world)
    found = []
    for job in _cut_off(world, connection, source):
        job_id = job.id
        end_left(job)
        landed = job.state == "landed"
        at, phase = timestamp(world.clock.now()), "" if landed else _phase(job)
        ended = jobs.change(world, job_id, partial(_end, landed=landed, at=at, phase=phase))
        if not landed:
            account.drop(world, ended.document)  # what it would have accounted for did not land
        outcome = {"schemaVersion": SCHEMA_VERSION, "kind": CONTRACT, "jobId": job_id, "syncId": job.document["syncId"]}
        if not world.store.exists(places.outcome_doc(job_id)):
            world.writable_store.write(CONTRACT, places.outcome_doc(job_id), outcome)
        world.writable_store.write(report.CONTRACT, names.report_doc(job_id), report.build(ended))
        found.append(job_id)
    return found


def _end(job: Job, *, landed: bool, at: str, phase: str) -> None:
    job["outcome"] = "done" if landed else "interrupted"
    job["state"] = "landed" if landed else "aborted"
    if not landed:
        job["failure"] = {"phase": phase, "message": MESSAGE, "outcome": "interrupted"}
    job["finishedAt"] = at


def _cut_off(world: World, connection: str, source: str) -> Iterator[ActiveJob]:
    """Ingestions of the source that have begun and not ended. A damaged one is none of them."""
    for job in list(jobs.readable(world)):
        name = job.id
        if "finishedAt" in job.document or (job.connection, job.source) != (connection, source):
            continue
        # Killed before that document was written: its sync id, which ends with the job's own, says what it was.
        if world.store.exists(places.ingest_doc(name)) or str(job.document.get("syncId", "")).endswith(f"-{name}"):
            yield job


def _phase(job: ActiveJob) -> str:
    """The phase of the last event that its trace has."""
    last = "snapshot"
    try:
        for event in Journal(
            job.world.store.path(names.trace_file(job.id)), kinds.TRACE_EVENT, job.world.clock
        ).records():
            last = event["phase"]
    except BrokenContract:
        return last
    return last


CONTRACT = "ingest-outcome"
SHOWN = 20  # rows in a message or the trace; all of them are in its data
KEPT = 10_000


@dataclass
class ReportNotes:
    """What was noticed on the way, for the report."""

    difference: Difference | None = None
    evictions: Evictions = field(default_factory=Evictions)
    warnings: list[str] = field(default_factory=list)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    near: list[Document] = field(default_factory=list)
    resolutions: list[Document] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    unmapped: Sequence[Mapping[str, Any]] = ()
    conflicts: Sequence[Mapping[str, Any]] = ()

    def document(self) -> Document:
        """What of it is known before units run, for the report of a job that is resumed."""
        return {
            "warnings": [one[:60_000] for one in self.warnings][:KEPT],
            "evictions": list(self.evictions.paths),
            "evictionsKept": list(self.evictions.kept),
            "snapshotsRemoved": self.snapshots,
        }

    @classmethod
    def of(cls, snapshot: Document) -> ReportNotes:
        """From the snapshot's document of a job that has its base."""
        told = snapshot["told"]
        return cls(
            Difference(**{key: tuple(paths) for key, paths in snapshot["difference"].items()}),
            Evictions(tuple(told["evictions"]), tuple(told["evictionsKept"])),
            list(told["warnings"]),
            snapshots=list(told["snapshotsRemoved"]),
        )


def account_for(
    run: JobRun, snapshot: Document, known: Baseline, outcomes: Mapping[str, str], notes: ReportNotes
) -> None:
    """Make the provenance, validate it, and write it down to wait for the landing. Raises Refused naming the rows that
    cannot land; nothing has landed then."""
    assert notes.difference is not None, "a job that lands was planned"
    tree = run.git.text("rev-parse", "--verify", f"{run.head()}^{{tree}}")
    projected = run.world.store.read("projected", places.projected_doc(run.job.id))
    with (
        run.tracer.timed("provenance", "provenance_rows_validation", {"tree": tree}) as facts,
        Objects(run.git) as objects,
    ):
        files = {e.path.decode("utf-8", "surrogateescape"): e.oid for e in objects.tree(tree)}
        made = Account(run.job, snapshot, notes.difference, known, projected, outcomes, files)
        rows = made.rows(objects)
        paths = [one["rawPath"] for one in snapshot["files"]]
        problems = problems_of(rows, paths, notes.difference.deleted, files)
        facts |= {"rows": len(rows), "problems": [one.message for one in problems[:SHOWN]]}
        notes.outcomes, notes.rows = outcomes, len(rows)
        notes.near, notes.resolutions = made.near_duplicates()[:KEPT], made.resolutions
        notes.warnings += made.warnings()
        notes.unmapped, notes.conflicts = (
            made.statements("unmapped")[:KEPT],
            made.statements("conflictsResolved")[:KEPT],
        )
        if problems:
            first = problems[0]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise Refused(
                f"{first.message}{more}",
                hint=first.hint or "nothing landed; correct the unit that names it",
                data={"rows": [dict(one.row) for one in problems[:1000]], "rule": first.rule},
            )
        document = pending(run.job, tree, rows, made.states())
    run.world.writable_store.write(account.PENDING, pending_document(run.job), document)


def write(run: JobRun) -> None:
    """Put the provenance into the journals: what it tells of has landed, or needed no landing."""
    document = run.world.store.read(kinds.PROVENANCE, pending_document(run.job))
    account.append(run.world, document)
    facts = {"rows": len(document["rows"]), "states": len(document["states"])}
    run.tracer.emit("provenance", "provenance_rows_inserted", facts, level="info")


def close(run: JobRun, request: IngestRequest, override: str, notes: ReportNotes, failure: JobFailure | None) -> None:
    """Write what the report carries beside the units; a job that made it supersedes those that it took up again."""
    document = _document(run, request, override, notes)
    run.world.writable_store.write(CONTRACT, places.outcome_doc(run.job.id), document)
    if failure is None:
        for job_id in unfinished(run.world, request.connection, request.source):
            if job_id != run.job.id:
                _supersede(run.world, job_id, run.job.id)


def _document(run: JobRun, request: IngestRequest, override: str, notes: ReportNotes) -> Document:
    evicted = list(notes.evictions.paths) if notes.outcomes.get(EVICTIONS) in LANDED else []
    projected = run.world.store.read_optional("projected", places.projected_doc(run.job.id)) or {}
    evicted += projected.get("removed", ()) if notes.rows is not None else ()
    deleted = list(notes.difference.deleted) if notes.difference else []
    facts = {
        "diffSummary": notes.difference.summary() if notes.difference else None,
        "evictionsApplied": evicted,
        "evictionInputs": deleted,
        "evictionsKept": list(notes.evictions.kept),
        "nearDuplicates": notes.near,
        "snapshotsRemoved": notes.snapshots,
        "artifactResolutions": notes.resolutions[:100_000],
        "warnings": [one[:60_000] for one in notes.warnings][:KEPT],
        "overrideOf": override,
        "unmapped": [*notes.unmapped],
        "conflictsResolved": [*notes.conflicts],
        "unresolved": [{"rawPath": raw, "reason": why} for raw, why in projected.get("unresolved", {}).items()],
    }
    reconciled = notes.outcomes.get(RECONCILE)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": CONTRACT,
        "jobId": run.job.id,
        "syncId": run.job.document["syncId"],
        **{key: value for key, value in facts.items() if value},
        **({"provenanceRows": notes.rows} if notes.rows is not None else {}),
        **({"reconciliation": {"outcome": reconciled, **_removed(notes)}} if reconciled else {}),
        **({} if reconciled else {"reconciliationSkipped": _why_skipped(run, request)}),
        **_projected(projected),
    }


def _removed(notes: ReportNotes) -> Document:
    found = sorted({one["path"] for one in notes.resolutions if one["resolution"] == "subsumed"})
    return {"removed": found} if found else {}


def _why_skipped(run: JobRun, request: IngestRequest) -> str:
    if not request.reconciles:
        return "it was not wanted"
    return "the job ended before it" if run.plan.units else "no unit ran"


def _projected(document: Mapping[str, Any]) -> Document:
    """What the projection has to say in the report; nothing of a job that ended before it."""
    if not document:
        return {}
    keys = {"warnings": "warnings", "kept": "kept", "unresolved": "unresolved"}
    found = {new: document[old] for new, old in keys.items() if document.get(old)}
    keyed = sorted({(one["targetConnectionId"], one["artifactKey"]) for one in document["changes"]})
    touched = [{"connectionId": home, "sourceName": key.removeprefix(f"{home}/")} for home, key in keyed]
    return {"projectionResult": {**found, **({"touchedSources": touched} if touched else {})}}


def unfinished(world: World, connection: str, source: str) -> list[str]:
    """Jobs of this connection and source that ended without all of their units and that no later one took up; oldest
    first. A damaged job is none of them."""
    found = []
    for job in jobs.readable(world):
        of_it = (job.connection, job.source) == (connection, source)
        if not of_it or "finishedAt" not in job.document or job.document.get("outcome") in ("done", "noop"):
            continue
        try:
            outcome = world.store.read_optional(CONTRACT, places.outcome_doc(job.id))
        except BrokenContract:
            continue  # gate-ok: a damaged one counts for nothing
        if outcome is not None and "supersededBy" not in outcome:
            found.append((str(job.document["createdAt"]), job.id))
    return [job_id for _, job_id in sorted(found)]


def _supersede(world: World, job_id: str, by: str) -> None:
    """Name the later job in an earlier one's report. It is never resumed again: what it staged goes."""
    outcome = world.store.read(CONTRACT, places.outcome_doc(job_id)) | {"supersededBy": by}
    world.writable_store.write(CONTRACT, places.outcome_doc(job_id), outcome)
    job = ActiveJob.load(world, job_id)
    made = report.build(job)
    world.writable_store.write(report.CONTRACT, names.report_doc(job_id), made)
    staging.remove(job)


def row_count(count: int) -> str:
    return plural(count, "provenance row")
