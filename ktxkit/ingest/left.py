"""What killed ingestions of a source left: the next one ends what still runs, and writes the report that is missing.

The lock of the source is held: none of them can be alive. Their worktrees and patches stay; `--resume` can still go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract
from ktxkit.ingest import baseline
from ktxkit.ingest.ending import CONTRACT
from ktxkit.ingest.rules import places
from ktxkit.store import jobs, tracing
from ktxkit.store.journal import Journal
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import report
from ktxkit.work.job.run import end_left

MESSAGE = "it was killed; a later ingestion of the same source found it"


def settle(world: World, connection: str, source: str) -> list[str]:
    """Ids of the jobs that were cut off before their report."""
    jobs.sweep_unbegun(world)
    found = []
    for job in _cut_off(world, connection, source):
        job_id = str(job["jobId"])
        end_left(world, job, jobs.tracer(world, job))
        landed = job["state"] == "landed"
        facts: Document = {"outcome": "done" if landed else "interrupted", "state": "landed" if landed else "aborted"}
        failure = (
            {} if landed else {"failure": {"phase": _phase(world, job), "message": MESSAGE, "outcome": "interrupted"}}
        )
        whole = {**facts, **failure, "finishedAt": timestamp(world.clock.now())}
        ended = jobs.change(world, job_id, lambda document, whole=whole: document.update(whole))  # type: ignore[misc]
        if not landed:
            baseline.drop(world, ended)  # what it would have accounted for did not land
        outcome = {"schemaVersion": SCHEMA_VERSION, "kind": CONTRACT, "jobId": job_id, "syncId": job["syncId"]}
        if not world.store.exists(places.outcome_doc(job_id)):
            world.writable_store.write(CONTRACT, places.outcome_doc(job_id), outcome)
        world.writable_store.write(report.CONTRACT, names.report_doc(job_id), report.build(world, ended))
        found.append(job_id)
    return found


def _cut_off(world: World, connection: str, source: str) -> Iterator[Document]:
    """Ingestions of the source that have begun and not ended. A damaged one is none of them."""
    for job in list(jobs.readable(world)):
        name = str(job["jobId"])
        if "finishedAt" in job or (job["connectionId"], job["sourceKey"]) != (connection, source):
            continue
        # Killed before that document was written: its sync id, which ends with the job's own, says what it was.
        if world.store.exists(places.ingest_doc(name)) or str(job.get("syncId", "")).endswith(f"-{name}"):
            yield job


def _phase(world: World, job: Document) -> str:
    """The phase of the last event that its trace has."""
    last = "snapshot"
    try:
        for event in Journal(world.store.path(names.trace_file(job["jobId"])), tracing.CONTRACT, world.clock).records():
            last = event["phase"]
    except BrokenContract:
        return last
    return last
