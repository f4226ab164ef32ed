"""What the documents and the trace of jobs say: the questions `jobs`, `job` and `trace` of `ledger-query`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.errors import BrokenContract
from ktxkit.ledger.asking import LedgerQuery
from ktxkit.ledger.rules.rows import Row, Verdict, answer
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import LEVELS
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work.report import no_longer_in

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, Receipt


LANDED: dict[str, Verdict] = {"landed": "true", "open": "unknown"}
REASON_SHOWN = 400  # characters of a reason


def all_jobs(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Every job of the store, oldest first; those with a document that cannot be read are `damaged`, by its name."""
    found, damaged = [], []
    for name in jobs.begun(world):
        try:
            job = ActiveJob(world, world.store.read(kinds.JOB, names.job_doc(name)))
            found.append((job.document["createdAt"], name, _job_row(job)))
        except BrokenContract as error:
            damaged.append({"job": name, "where": error.where, "message": error.message})
    rows = [row for _, _, row in sorted(found, key=lambda one: one[:2])]
    return answer("jobs", rows, facts={"jobs": len(rows), "damaged": damaged or None})


def _job_row(job: ActiveJob) -> Row:
    words = Counter(_unit_row(job, unit)["outcome"] or "pending" for unit in job.units)
    return {
        "job": job.id,
        "state": job.state,
        "target": job.target,
        "created": job.document["createdAt"],
        "units": len(job.document["units"]),
        "outcomes": dict(sorted(words.items())) or None,
        "source": names.job_doc(job.id),
    }


def job_by_id(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """A job with its units in unit order. The verdict says whether it has landed; an open job's is unknown."""
    (job_id,) = ask.subject
    job = ActiveJob.load(world, job_id)
    facts = {key: job.document.get(key) for key in ("state", "target", "targetAtStart", "base", "landed")}
    facts["trace"] = names.trace_file(job_id) if world.store.exists(names.trace_file(job_id)) else None
    rows = [_unit_row(job, unit) for unit in job.units]
    gone = no_longer_in(job)
    verdict = "false" if gone else LANDED.get(job.state, "false")
    reason = "" if verdict != "unknown" else "the job is open: whether it lands is not decided"
    reason = f"it {gone}: job-land --job {job_id} lands it again" if gone else reason
    return answer("job", rows, subject=[job_id], verdict=verdict, reason=reason, facts=facts)


def _unit_row(job: ActiveJob, unit: Unit) -> Row:
    """What lease, patch and receipt of a unit say; a unit without a receipt has no outcome."""
    lease = job.read(kinds.LEASE, "lease", unit)
    patch = job.read(kinds.PATCH, "patch", unit)
    receipt = job.read(kinds.RECEIPT, "receipt", unit)
    last = "receipt" if receipt else "patch" if patch else "lease" if lease else ""
    return {
        "position": unit.position,
        "unit": unit.key,
        "outcome": receipt["outcome"] if receipt else None,
        "patch": patch["outcome"] if patch else None,
        "paths": len(patch["paths"]) if patch else None,
        "lease": lease["state"] if lease else None,
        "reason": _reason(receipt) if receipt else None,
        "commit": receipt.get("commit") if receipt else None,
        "source": job.unit_doc(unit, last) if last else names.job_doc(job.id),
    }


def _reason(receipt: Receipt) -> str | None:
    """The first thing that a receipt holds against its unit."""
    if receipt.get("message"):
        return str(receipt["message"])[:REASON_SHOWN]
    for conflict in receipt.get("conflicts", ()):
        return f"{conflict.get('path', '')}: {conflict.get('reason', '')}"[:REASON_SHOWN]
    for finding in receipt.get("findings", ()):
        place = f"{finding.get('path', '')}:{finding.get('line', '')}"
        return f"{place} {finding.get('rule', '')} {finding.get('message', '')}"[:REASON_SHOWN]
    return None


def trace(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The events of a job's trace, in the order of the file; `event`, `unit` and `level` narrow it."""
    (job_id,) = ask.subject
    path = names.trace_file(names.check_job(job_id))
    if not world.store.exists(path):
        ActiveJob.load(world, job_id)  # an unknown job is an error; a job without a trace is an answer
    journal = Journal(world.store.path(path), kinds.TRACE_EVENT, world.clock)
    rows, total, torn = [], 0, len(journal.torn())
    for number, record in enumerate(journal.records(), start=1):
        total += 1
        data = record.get("data", {})
        wanted = ask.event in ("", record["event"]) and ask.unit in ("", data.get("unitKey"))
        if wanted and LEVELS[record["level"]] <= LEVELS[ask.level]:
            rows.append(_event_row(record, f"{path}:{number}"))
    facts = {"trace": path, "events": total, "shown": len(rows), "torn": torn or None}
    reason = "" if total else "no event was written: nothing of this job can be told from a trace"
    return answer("trace", rows, subject=[job_id], reason=reason, facts=facts)


def _event_row(record: Mapping[str, Any], source: str) -> Row:
    data = {key: value for key, value in record.get("data", {}).items() if key != "unitKey"}
    error = record.get("error")
    return {
        "at": record["at"],
        "level": record["level"],
        "phase": record["phase"],
        "event": record["event"],
        "unit": record.get("data", {}).get("unitKey"),
        "ms": record.get("durationMs"),
        "error": f"{error['name']}: {error['message']}" if error else None,
        "data": data or None,
        "source": source,
    }
