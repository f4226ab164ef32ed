"""`ledger-query jobs`, `job` and `trace` on documents of real stores."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktxkit.store import jobs
from ktxkit.store.active import Unit
from ktxkit.store.world import World
from tests.support.commands import Ran, call, spawn
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import JobState


def ask(repo: Repo, *words: str) -> Ran:
    return call("ledger-query", *words, cwd=repo.path)


@pytest.fixture
def job(repo: Repo) -> Repo:
    """A job of two units; the first has a patch and a trace of three events."""
    world = World(repo.path, os.environ)
    units = [Unit(1, "a"), Unit(2, "b/c")]
    made = jobs.create(world, "j1", target="refs/heads/main", base=repo.head, units=units)
    patch = {
        "schemaVersion": 1,
        "kind": "patch",
        "outcome": "noop",
        "objectFormat": "sha1",
        "base": repo.head,
        "baseTree": repo.tree,
        "tree": repo.tree,
        "transport": "none",
        "paths": [],
        "collectedAt": "2026-01-02T03:04:05.678Z",
    }
    world.writable_store.write("patch", "jobs/j1/units/0001-a/patch.json", patch)
    tracer = made.tracer
    tracer.emit("setup", "ingest_started", level="info")
    tracer.emit("units", "work_unit_patch_collected", {"unitKey": "a", "paths": 0}, duration_ms=1.5)
    tracer.emit("units", "work_unit_failed", {"unitKey": "b/c"}, level="error", error=ValueError("no\nway"))
    return repo


def test_no_job_is_an_answer(repo: Repo) -> None:
    asked = ask(repo, "jobs", "--json")
    assert (asked.status, asked.document["rows"], asked.document["facts"]) == (0, [], {"jobs": 0})
    assert not (repo.path / ".ktx").exists(), "asking creates nothing"


def test_jobs(job: Repo) -> None:
    (row,) = ask(job, "jobs", "--json").document["rows"]
    assert (row["job"], row["state"], row["units"], row["outcomes"]) == ("j1", "open", 2, {"pending": 2})
    assert row["source"] == "jobs/j1/job.json"
    assert "j1" in ask(job, "jobs").out


def test_a_unit_whose_command_failed_is_not_pending(repo: Repo) -> None:
    ran = call("git-ktx", "run", "exit 3", "echo x > x", cwd=repo.path)
    assert ran.status == 3, ran.err
    (row,) = ask(repo, "jobs", "--json").document["rows"]
    assert row["outcomes"] == {"accepted": 1, "failed": 1}
    failed = ask(repo, "job", row["job"], "--json").document["rows"][0]
    assert failed["outcome"] == "failed" and failed["source"].endswith("/result.json")


def test_a_job_unit_by_unit(job: Repo) -> None:
    document = ask(job, "job", "j1", "--json").document
    assert document["verdict"] == "unknown" and "open" in document["reason"]
    first, second = document["rows"]
    assert (first["unit"], first["patch"], first["paths"]) == ("a", "noop", 0)
    assert first["source"] == "jobs/j1/units/0001-a/patch.json"
    assert (second["unit"], second["source"]) == ("b/c", "jobs/j1/job.json")
    assert "outcome" not in first, "without a receipt there is no outcome"


@pytest.mark.parametrize(("state", "verdict"), [("landed", "true"), ("failed", "false"), ("aborted", "false")])
def test_has_it_landed(job: Repo, state: JobState, verdict: str) -> None:
    jobs.change(World(job.path, os.environ), "j1", lambda document: document.update({"state": state}))
    assert ask(job, "job", "j1", "--json").document["verdict"] == verdict


def test_trace(job: Repo) -> None:
    rows = ask(job, "trace", "j1", "--json").document["rows"]
    assert [row["event"] for row in rows] == ["ingest_started", "work_unit_patch_collected", "work_unit_failed"]
    assert rows[2]["source"] == "ingest-traces/j1/trace.jsonl:3"
    assert rows[2]["error"] == "ValueError: no\nway"
    text = ask(job, "trace", "j1").out
    assert "no\\nway" in text and "no\nway" not in text, "foreign control characters never reach a terminal"


@pytest.mark.parametrize(
    ("narrow", "events"),
    [
        (["--event", "ingest_started"], ["ingest_started"]),
        (["--unit", "a"], ["work_unit_patch_collected"]),
        (["--level", "error"], ["work_unit_failed"]),
        (["--unit", "nobody"], []),
    ],
)
def test_a_narrowed_trace_says_how_much_it_left_out(job: Repo, narrow: list[str], events: list[str]) -> None:
    document = ask(job, "trace", "j1", "--json", *narrow).document
    assert [row["event"] for row in document["rows"]] == events
    assert document["facts"]["events"] == 3 and document["facts"]["shown"] == len(events)


@pytest.mark.parametrize("damage", ["gone", "garbage", "unit"])
def test_one_damaged_job_does_not_hide_the_others(job: Repo, damage: str) -> None:
    root = job.path / ".ktx/jobs/x1"
    shutil.copytree(job.path / ".ktx/jobs/j1", root)
    victim = root / ("units/0001-a/patch.json" if damage == "unit" else "job.json")
    victim.write_bytes(b"garbage")
    document = json.loads((job.path / ".ktx/jobs/j1/job.json").read_bytes())
    if damage == "gone":
        victim.unlink()
    if damage == "unit":
        (root / "job.json").write_text(json.dumps({**document, "jobId": "x1"}))
    asked = ask(job, "jobs", "--json")
    assert (asked.status, [row["job"] for row in asked.document["rows"]]) == (5, ["j1"])
    (told,) = asked.document["facts"]["damaged"]
    assert (told["job"], told["where"]) == ("x1", str(victim))
    text = ask(job, "jobs")
    assert text.status == 5 and "x1" in text.out and "j1" in text.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["live", "nosuch"], "no run begins with 'nosuch'"),
        (["runs", "--format", "ctrf"], "--format ctrf is of `run` and `last`"),
        (["last-full", "--format", "ctrf"], "--format ctrf is of `run` and `last`"),
        (["runs", "--limit", "-1"], "no whole number from 0 to"),
    ],
)
def test_what_a_question_has_not_is_refused(job: Repo, words: list[str], said: str) -> None:
    asked = ask(job, *words)
    assert (asked.status, said in asked.err) == (2, True)


def test_a_limit_of_nothing_is_the_usual_number(job: Repo) -> None:
    assert (ask(job, "runs", "--limit", "0").status, ask(job, "live").status) == (0, 0)


def test_a_command_must_follow_its_dashes(job: Repo) -> None:
    made = call("trace-append", "--job", "j1", "--phase", "p", "--event", "e", "--", cwd=job.path)
    assert (made.status, "no command follows --" in made.err) == (2, True)
    assert len(ask(job, "trace", "j1", "--json").document["rows"]) == 3


def test_the_same_store_gives_the_same_bytes(job: Repo) -> None:
    for question in (["jobs"], ["job", "j1"], ["trace", "j1"]):
        assert ask(job, *question, "--json").out == ask(job, *question, "--json").out


@pytest.mark.parametrize(
    ("words", "status"),
    [(["job", "nope"], 2), (["trace", "j2"], 2), (["job"], 2), (["jobs", "j1"], 2), (["why"], 2), (["job", "../x"], 2)],
)
def test_refusals(job: Repo, words: list[str], status: int) -> None:
    assert ask(job, *words).status == status


def test_a_near_name_is_offered(job: Repo) -> None:
    assert "j1" in ask(job, "job", "j11").err


STORED = ["jobs/j1/job.json", "jobs/j1/units/0001-a/patch.json", "ingest-traces/j1/trace.jsonl"]


@pytest.mark.parametrize("name", STORED)
def test_damage_is_status_5_and_names_the_file(job: Repo, name: str) -> None:
    path = job.path / ".ktx" / name
    path.write_bytes(path.read_bytes().replace(b'"schemaVersion"', b'"schemaVersiom"', 1))
    question = "trace" if "traces" in name else "job"
    asked = ask(job, question, "j1")
    assert asked.status == 5 and name in asked.err


def test_a_torn_tail_of_the_trace_is_passed_over(job: Repo) -> None:
    path = job.path / ".ktx/ingest-traces/j1/trace.jsonl"
    path.write_bytes(path.read_bytes() + b'{"schemaVersion":1,"at"')
    assert len(ask(job, "trace", "j1", "--json").document["rows"]) == 3


def test_it_runs_as_installed(job: Repo, tmp_path: Path) -> None:
    ran = spawn("ledger-query", "-C", str(job.path), "job", "j1", cwd=tmp_path)
    assert ran.status == 0 and "unknown" in ran.out
