"""Reports tell what happened: of each unit, and of all of them together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ktxkit.work import closing, report
from ktxkit.work.rules.reasons import UnitDocs, reason_of
from ktxkit.work.rules.report import outcome_of
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.jobs import job_file, outcomes, unit
from tests.support.jobs import report as report_of
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, LeaseOutcome, ReportWorkUnit


def entry(job: Job) -> ReportWorkUnit:
    return report.build(job.active)["workUnits"][0]


@pytest.mark.parametrize("outcome", ["crash", "conflict"])
def test_a_closed_unit_is_told_as_closed(repo: Repo, outcome: LeaseOutcome) -> None:
    job = Job.begin(repo)
    job.open("u")
    assert entry(job)["outcome"] == "open"
    closing.close_unit(job.active, job.units["u"], outcome, reason="the disk was full")
    told = entry(job)
    assert (told["outcome"], told["reason"]) == (outcome, f"its worktree was closed as {outcome}: the disk was full")
    assert report.build(job.active)["isolatedDiff"]["waiting"] == 0


def test_one_that_was_closed_for_good_is_neither_open(repo: Repo) -> None:
    docs = UnitDocs(1, "u", lease=cast("Lease", {"state": "closed", "outcome": "empty"}))
    assert outcome_of(docs, {}) == "closed"
    assert reason_of(docs, "closed", {}) == "its worktree was closed as empty"


def test_the_paths_are_those_that_were_accepted(repo: Repo) -> None:
    repo.write("gone", "x\n")
    repo.commit()
    job = Job.begin(repo)
    tree = job.open("u")
    tree.write("one", "1\n")
    (tree.path / "gone").unlink()
    job.collect("u")
    job.apply("u")
    tree.write("two", "2\n")
    (tree.path / "one").unlink()
    job.collect("u")
    told = entry(job)
    assert told["outcome"] == "accepted" and told["pathCount"] == 2 and told["reason"] == "2 paths"
    assert told["paths"] == [{"path": "gone", "change": "deleted"}, {"path": "one", "change": "added"}]


def test_a_refused_path_is_named(repo: Repo) -> None:
    job = Job.begin(repo)
    job.unit("u", lambda tree: tree.write("some/other-file", "x\n"), policy={"allow": ["g"]})
    assert "some/other-file: only g may be touched" in entry(job)["reason"]


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


@pytest.fixture
def interrupted(repo: Repo) -> Repo:
    """A job of three, stopped when the first had ended and the second was at work."""
    again, began = repo.path.parent / "again", repo.path.parent / "began"
    slow = f"echo p > two; test -e {again} || {{ touch {began}; sleep 600; }}"
    units = [unit("ok", "echo 3 > three"), unit("slow", slow), unit("later", "echo l > l")]
    file = job_file(repo, {"maxParallel": 1, "units": units})
    command = [sys.executable, "-m", "commands.ktx_job_run", str(file), "--job", "j1", "-q"]
    root = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(command, cwd=repo.path, env={**os.environ, "PYTHONPATH": root})
    wait_for(began)
    process.send_signal(signal.SIGINT)
    process.wait()
    again.touch()
    return repo


def test_the_totals_make_up_the_number_of_units(interrupted: Repo) -> None:
    said = " ".join(call("job-report", "--job", "j1", cwd=interrupted.path).out.split())
    found = re.search(r"Isolated diff: (.*?) #", said)
    assert found is not None
    assert sum(int(number) for number in re.findall(r"(\d+) ", found[1])) == 3


def test_a_resumed_job_accuses_nobody_and_keeps_nothing(interrupted: Repo) -> None:
    ran = call("job-run", "--resume", "j1", cwd=interrupted.path)
    assert ran.status == 0, ran.err
    assert outcomes(interrupted) == dict.fromkeys(("ok", "slow", "later"), "accepted")
    assert "warnings" not in report_of(interrupted)
    kept = interrupted.path / ".ktx/worktrees/j1"
    assert not kept.exists() or not [*kept.iterdir()]
    assert interrupted.show("main", "two") == b"p\n"
