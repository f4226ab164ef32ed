"""How a job that did not land is continued, and whether it still can be."""

from __future__ import annotations

from ktxkit.base.contracts import Document
from ktxkit.ingest.rules import places
from ktxkit.store.rules import names
from ktxkit.store.world import World


def command(world: World, job: Document) -> str:
    """The command that continues a job; empty where none does: it landed, was made by hand, or a later one took it up.

    Raises BrokenContract for a damaged document.
    """
    job_id, store = str(job["jobId"]), world.store
    if job["state"] not in ("open", "failed", "aborted") or superseded_by(world, job_id):
        return ""
    known = store.exists(places.ingest_doc(job_id)) or store.exists(names.job_part(job_id, "job-file"))
    return how(world, job_id) if known else ""


def how(world: World, job_id: str) -> str:
    """How a job is resumed: an ingestion by the command that made it."""
    command = "ingest-run" if world.store.exists(places.ingest_doc(job_id)) else "job-run"
    return f"{command} --resume {job_id}"


def superseded_by(world: World, job_id: str) -> str:
    """The later ingestion that took up what this one left; empty for none."""
    outcome = world.store.read_optional("ingest-outcome", places.outcome_doc(job_id)) or {}
    return str(outcome.get("supersededBy", ""))
