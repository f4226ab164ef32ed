"""Locks of refs that a killed git leaves: ours are cleared where it is proven, somebody else's is named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ktxkit.base.clock import Limits
from tests.faults.test_faults_integration import collected
from tests.support.commands import call
from tests.support.faults import Killed, count_effects, run_killed
from tests.support.integration import Job
from tests.support.recovering import put
from tests.support.repos import Repo

QUICK = Limits(lock_age=0.3, obstacle_wait=1.5)


def killed_at(job: Job, tmp_path: Path, name: str, args: list[str], effect: str) -> None:
    """Kill the command as it is about to move the ref."""
    place = job.repo.path.parent
    put(place, tmp_path / "aside", place)
    effects = count_effects(name, args, job.repo.path)
    put(tmp_path / "aside", place, place)
    at = max(n for n, found in enumerate(effects) if found.startswith(effect))
    assert isinstance(run_killed(name, args, job.repo.path, at, "before"), Killed)


def lock(repo: Repo, name: str) -> Path:
    """What a killed git leaves: a lock that nobody holds."""
    path = repo.path / ".git" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_of_the_integration_branch(tmp_path: Path) -> None:
    job = collected(tmp_path)
    killed_at(job, tmp_path, "patch-apply", ["--job", "j1", "--unit", "a"], "spawn git update-ref")
    left = lock(job.repo, "refs/ktx/jobs/j1/integration")
    ran = call("patch-apply", "--job", "j1", "--unit", "a", cwd=job.repo.path, limits=QUICK)
    assert ran.status == 0 and "accepted" in ran.out, ran
    assert not left.exists()


@pytest.mark.parametrize("names", [["refs/heads/main"], ["refs/heads/main", "HEAD", "ORIG_HEAD"], ["index"]])
def test_of_the_target_that_a_killed_landing_was_moving(tmp_path: Path, names: list[str]) -> None:
    job = collected(tmp_path)
    job.apply("a")
    killed_at(job, tmp_path, "job-land", ["--job", "j1"], "spawn git merge")
    left = [lock(job.repo, name) for name in names]
    ran = call("job-land", "--job", "j1", cwd=job.repo.path, limits=QUICK)
    assert ran.status == 0, ran
    assert not any(path.exists() for path in left)
    assert job.repo.git("rev-list", "--count", "main") == "2"


@pytest.mark.parametrize("checked_out", [True, False])
def test_somebody_elses_is_named_and_stays(tmp_path: Path, checked_out: bool) -> None:
    job = collected(tmp_path)
    job.apply("a")
    if not checked_out:
        job.repo.git("switch", "-q", "-c", "elsewhere")
    left = lock(job.repo, "refs/heads/main")
    before = job.repo.git("rev-parse", "main")
    ran = call("job-land", "--job", "j1", cwd=job.repo.path, limits=QUICK)
    assert ran.status == 1 and f"{left}: refs/heads/main is locked by another git" in ran.err, ran
    assert left.exists() and job.repo.git("rev-parse", "main") == before
    left.unlink()
    assert call("job-land", "--job", "j1", cwd=job.repo.path, limits=QUICK).status == 0


def test_a_lock_that_a_living_git_may_hold_is_waited_for_and_stays(tmp_path: Path) -> None:
    job = collected(tmp_path)
    left = lock(job.repo, "refs/ktx/jobs/j1/integration")
    living = subprocess.Popen(["git", "30"], executable="/bin/sleep", cwd=job.repo.path)
    try:
        os.utime(left)  # made after it began
        ran = call("patch-apply", "--job", "j1", "--unit", "a", cwd=job.repo.path, limits=QUICK)
    finally:
        living.kill()
        living.wait()
    assert ran.status in (1, 2) and str(left) in ran.err, ran
    assert left.exists()
