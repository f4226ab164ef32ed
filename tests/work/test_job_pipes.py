"""A pipe that a unit leaves where a git of ours reads: the unit's outcome, or put back; nobody waits for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo


def job(repo: Repo, evil: str, **more: Any) -> Path:
    repo.write("README", "a repository\n")
    repo.commit()
    units = [unit("evil", evil), unit("good", "echo good > good")]
    return job_file(repo, {"maxParallel": 2, "units": units, **more})


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "sub/.gitignore"])
def test_a_pipe_that_git_reads_in_the_worktree_is_that_units_outcome(repo: Repo, name: str) -> None:
    file = job(repo, f"mkdir -p sub; echo x > sub/x; mkfifo {name}")
    ran = call("job-run", "--job", "j1", file, cwd=repo.path)
    assert (ran.status, outcomes(repo)) == (3, {"evil": "failed", "good": "accepted"}), ran
    (entry,) = [one for one in report(repo)["failedWorkUnits"] if one["key"] == "evil"]
    assert name in json.dumps(entry), "the pipe is named"


def test_a_pipe_in_the_place_of_the_shared_configuration_is_put_back(repo: Repo) -> None:
    place = repo.path / ".git/config"
    before = place.read_bytes()
    file = job(repo, f"for i in 1 2 3 4; do rm -f {place}; mkfifo {place}; sleep 0.1; done; echo e > e")
    ran = call("job-run", "--job", "j1", file, cwd=repo.path)
    assert (ran.status, outcomes(repo)) == (0, {"evil": "accepted", "good": "accepted"}), ran
    assert place.read_bytes() == before
