"""The report of a job, read from its documents and its trace. What cannot be read is named in it, never fatal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.store import jobs
from ktxkit.store.journal import Journal
from ktxkit.store.rules import names
from ktxkit.store.tracing import CONTRACT as TRACE
from ktxkit.store.world import World
from ktxkit.work.aftermath import landed_of
from ktxkit.work.rules.report import UnitDocs, assemble

CONTRACT = "report"
WARNINGS_KEPT = 10_000
UNIT_DOCS = {"lease": "lease", "patch": "patch", "receipt": "receipt", "sentinel": "sentinel", "result": "unit-result"}


def build(world: World, job: Document, more: Mapping[str, Any] | None = None) -> Document:
    """The report of a job as it stands; `more` are facts of whoever ran it (`provenanceRows` and the like).

    A damaged document or trace line is in `problems`, and its unit's outcome is `broken_contract`: a job that failed
    must still leave a report. Raises OSError.
    """
    problems: list[Document] = []
    landed = {} if "landed" in job else landed_of(world, job, problems)
    job = {**job, "landed": landed} if landed else job
    units = [_unit(world, str(job["jobId"]), unit, problems) for unit in jobs.units(job)]
    trace = Journal(world.store.path(names.trace_file(job["jobId"])), TRACE, world.clock)
    events = _events(trace, problems)
    facts: Document = {
        "generatedAt": timestamp(world.clock.now()),
        "tracePath": str(trace.path),
        "traceEvents": len(events),
        **_stored(world, job),
        **_summary(events),
        **_ingestion(world, job, problems),
        **(more or {}),
    }
    pruned = [one for unit in units if unit.receipt for one in unit.receipt.get("pruned", ())]
    if pruned:
        facts["prunedReferences"] = pruned
    if problems:
        facts["problems"] = problems
    if world.store.exists(names.integration_dir(job["jobId"])):
        facts["isolatedDiff"] = {"integrationWorktreePath": str(world.store.path(names.integration_dir(job["jobId"])))}
    return assemble(job, units, events, facts)


def _ingestion(world: World, job: Document, problems: list[Document]) -> Document:
    """What an ingestion wrote down beside its units; nothing for another job."""
    try:
        found = world.store.read_optional("ingest-outcome", names.job_part(job["jobId"], "ingest-outcome"))
    except BrokenContract as error:
        problems.append({"where": error.where, "message": error.message})
        return {}
    own = ("schemaVersion", "kind", "jobId", "syncId")
    told = {key: value for key, value in (found or {}).items() if key not in own}
    if told.get("warnings"):
        told["warnings"] = list(dict.fromkeys([*job.get("warnings", ()), *told["warnings"]]))[:WARNINGS_KEPT]
    return told


def _stored(world: World, job: Document) -> Document:
    place = names.report_doc(job["jobId"])
    return {"reportPath": str(world.store.path(place))} if world.store.exists(place) else {}


def latest(world: World) -> str | None:
    """The id of the job that was created last; damaged ones are passed over."""
    found = [(str(job["createdAt"]), str(job["jobId"])) for job in jobs.readable(world)]
    return max(found)[1] if found else None


def _unit(world: World, job: str, unit: jobs.Unit, problems: list[Document]) -> UnitDocs:
    read: dict[str, Document | None] = {}
    broken = ""
    for name, contract in UNIT_DOCS.items():
        if contract not in contracts.names():
            continue
        try:
            read[name] = world.store.read_optional(contract, names.unit_doc(job, unit.position, unit.key, name))
        except BrokenContract as error:
            broken = broken or f"{name}.json: {error.message}"
            problems.append({"where": error.where, "message": error.message, "unitKey": unit.key})
    return UnitDocs(unit.position, unit.key, unit.after, broken=broken, files=_files(world, job, unit), **read)


def _files(world: World, job: str, unit: jobs.Unit) -> dict[str, str]:
    places = {
        "patchPath": names.patch_file(job, unit.position, unit.key),
        "worktreePath": names.worktree_dir(job, unit.position, unit.key),
        "sentinelPath": names.unit_doc(job, unit.position, unit.key, "sentinel"),
    }
    return {key: str(world.store.path(place)) for key, place in places.items() if world.store.exists(place)}


def _events(trace: Journal, problems: list[Document]) -> list[Document]:
    events: list[Document] = []
    try:
        for event in trace.records():
            events.append(event)  # one by one: what stands before a damaged line is kept
    except BrokenContract as error:
        problems.append({"where": error.where, "message": error.message})
    return events


def _summary(events: list[Document]) -> Document:
    """What the snapshot said of its difference to the last one."""
    for event in events:
        found = event.get("data", {}).get("diffSummary")
        if event["event"] in ("input_snapshot", "compute_diff_set_finished") and isinstance(found, dict):
            return {"diffSummary": found}
    return {}
