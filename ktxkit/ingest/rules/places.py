"""Where ingestion's documents lie under `.ktx/`; beside `ktxkit.store.rules.names`, which has those of every job."""

from __future__ import annotations

from ktxkit.ingest.rules.raw_paths import journal_name
from ktxkit.store.rules import names


def ingest_doc(job: str) -> str:
    return names.job_part(job, "ingest")


def snapshot_doc(job: str) -> str:
    return names.job_part(job, "raw-snapshot")


def raw_dir(job: str) -> str:
    """The staged raw files; they go when their snapshot has landed."""
    return f"{names.job_dir(job)}/raw"


def index_doc(job: str) -> str:
    return names.job_part(job, "knowledge-index")


def projected_doc(job: str) -> str:
    return names.job_part(job, "projected")


def outcome_doc(job: str) -> str:
    return names.job_part(job, "ingest-outcome")


def job_file(job: str) -> str:
    return names.job_part(job, "job-file")


def rows_journal(connection: str, source: str) -> str:
    return f"provenance/{journal_name(connection, source)}/rows.jsonl"


def states_journal(connection: str, source: str) -> str:
    return f"provenance/{journal_name(connection, source)}/raw.jsonl"


def pending_dir(connection: str, source: str) -> str:
    """Provenance that is written down before its job lands, and goes into the journals after it."""
    return f"provenance/{journal_name(connection, source)}/pending"


def pending_doc(connection: str, source: str, job: str) -> str:
    return f"{pending_dir(connection, source)}/{job}.json"


def lock(connection: str, source: str) -> str:
    """One ingestion of a connection and source at a time."""
    return f"locks/ingest-{journal_name(connection, source)}.lock"


def cache_doc(key: str) -> str:
    """A cached unit. `key`: its content digest."""
    return f"ingest-cache/{key[3:5]}/{key[3:]}.json"


def unit_base_ref(job: str) -> str:
    """Keeps the commit that units start from: the job's base without raw files."""
    return f"refs/ktx/jobs/{job}/unit-base"
