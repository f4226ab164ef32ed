"""Job files for tests, and what a job left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.repos import Repo


def unit(key: str, run: str | list[str], **more: Any) -> dict[str, Any]:
    return {"key": key, "run": run, **more}


def job_file(repo: Repo, document: dict[str, Any]) -> Path:
    """The document beside the repository, with what every job file needs."""
    path = repo.path.parent / "job.yaml"
    path.write_text(json.dumps({"schemaVersion": 1, "connectionId": "c", "sourceKey": "s", **document}))
    return path


def report(repo: Repo, job: str = "j1") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((repo.path / f".ktx/jobs/{job}/report.json").read_text())
    return loaded


def outcomes(repo: Repo, job: str = "j1") -> dict[str, str]:
    """Outcome of every unit, by the job's report."""
    return {entry["key"]: entry["outcome"] for entry in report(repo, job)["workUnits"]}


def trace(repo: Repo, job: str = "j1") -> list[dict[str, Any]]:
    path = repo.path / f".ktx/ingest-traces/{job}/trace.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]
