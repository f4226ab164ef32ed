"""A job with `verify.batch`: the same outcomes and landed tree as one by one, with one verification where it passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.integration import script
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo


def run_job(tmp_path: Path, name: str, body: str, *, batch: bool) -> tuple[int, dict[str, str], str, int]:
    repo = Repo.init(tmp_path / name / "repo")
    repo.write("README", "x\n")
    repo.commit("base")
    log = tmp_path / name / "asked"
    check = script(tmp_path / name / "check", f"echo x >> {log}\n{body}")
    units = [unit(key, f"echo {key} > {key}") for key in "abcd"]
    units += [unit("late", "cat a > late", after=["a"]), unit("broken", "exit 3"), unit("last", "echo z > z")]
    job = {"job": "j1", "units": units, "verify": {"run": check, "batch": batch}}
    done = call("job-run", job_file(repo, job), cwd=repo.path)
    return done.status, outcomes(repo), repo.tree, log.read_text().count("x")


@pytest.mark.parametrize("body", ["true", "test ! -e c", "test ! -e b || test ! -e d"])
def test_the_same_as_one_by_one(tmp_path: Path, body: str) -> None:
    together = run_job(tmp_path, "batch", body, batch=True)
    single = run_job(tmp_path, "single", body, batch=False)
    assert together[:3] == single[:3]
    if body == "true":
        assert together[3] < single[3]
