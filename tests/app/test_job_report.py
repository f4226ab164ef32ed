"""job-report on real jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktxkit.base import contracts
from ktxkit.store import jobs
from ktxkit.store.active import Unit
from ktxkit.store.store import Store
from ktxkit.store.world import World
from tests.support.commands import call
from tests.support.repos import Repo


@pytest.fixture
def store(repo: Repo) -> Store:
    """The store of a job with two units, of which the second failed."""
    world = World(repo.path, os.environ)
    job = jobs.create(
        world, "j1", target="refs/heads/main", units=[Unit(1, "pages/one"), Unit(2, "two", ("pages/one",))]
    )
    tracer = job.tracer
    tracer.emit("run", "ingest_started", {"units": 2}, level="info")
    with tracer.bound(unitKey="pages/one").timed("work_unit", "open_worktree"):
        pass
    facts = {"unitKey": "two", "reason": "failed", "message": "its command ended with status 3"}
    tracer.emit("work_unit", "work_unit_not_integrated", facts, level="info")
    return world.writable_store


def test_text_and_json(repo: Repo, store: Store) -> None:
    done = call("job-report", "j1", cwd=repo.path)
    assert done.status == 0, done
    assert "    1  pages/one  pending  not started" in done.out.splitlines()
    assert "    2  two        failed   its command ended with status 3" in done.out.splitlines()
    assert f"Trace: {store.root}/ingest-traces/j1/trace.jsonl" in done.out.splitlines()
    found = call("job-report", "--job", "j1", "--json", cwd=repo.path)
    assert (found.status, found.json["contract"]) == (0, "report")
    document = found.document
    contracts.validate("report", document)
    assert document["traceEvents"] == 4 and document["isolatedDiff"]["failed"] == 1
    assert [unit["outcome"] for unit in document["workUnits"]] == ["pending", "failed"]
    assert list(document["workUnits"][0]["durations"]) == ["open_worktree"]
    assert {phase["phase"] for phase in document["phases"]} == {"run", "work_unit"}


def test_the_latest_is_the_default(repo: Repo, store: Store) -> None:
    assert call("job-report", cwd=repo.path).out.startswith("Job j1: open")
    jobs.create(World(repo.path, os.environ), "a-later-one", target="refs/heads/main")
    assert call("job-report", cwd=repo.path).out.startswith("Job a-later-one: open")


def test_no_job(repo: Repo) -> None:
    done = call("job-report", cwd=repo.path)
    assert done.status == 2 and "there is no job here yet" in done.err
    done = call("job-report", "nope", cwd=repo.path)
    assert done.status == 2 and "no job 'nope' here" in done.err
    assert call("job-report", "a", "--job", "b", cwd=repo.path).status == 2
    assert not (repo.path / ".ktx").exists()


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        ("jobs/j1/units/0001-pages-one/lease.json", b"{"),
        ("jobs/j1/units/0001-pages-one/patch.json", b"[]"),
        ("ingest-traces/j1/trace.jsonl", b'{"schemaVersion": 2}\n'),
    ],
)
def test_damage_is_named_and_the_rest_is_shown(repo: Repo, store: Store, place: str, damage: bytes) -> None:
    path: Path = store.path(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.read_bytes() + damage if path.exists() else damage)
    done = call("job-report", "j1", cwd=repo.path)
    assert done.status == 5 and str(path) in done.err and "Traceback" not in done.err
    assert "    2  two        " in done.out and "Damaged: 1 line" in done.out
    assert call("job-report", "j1", "--json", cwd=repo.path).document["problems"][0]["where"].startswith(str(path))


def test_a_damaged_job_is_status_5(repo: Repo, store: Store) -> None:
    store.path("jobs/j1/job.json").write_bytes(b'{"schemaVersion": 1}')
    done = call("job-report", "j1", cwd=repo.path)
    assert done.status == 5 and "job.json" in done.err
