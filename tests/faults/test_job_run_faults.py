"""A job killed at any of its effects is finished by the next one: the same tree, receipts once, nothing stray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, spawn
from tests.support.faults import Killed, count_effects, run_killed, spread
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

DOCUMENT: dict[str, Any] = {
    "maxParallel": 1,
    "project": "echo base > projected.txt",
    "units": [
        unit("one", "cat projected.txt > one.txt; git add -A; git commit -qm one"),
        unit("clash", "echo x > one.txt"),
        unit("two", "echo 2 > two.txt", after=["one"]),
    ],
}
WANTED = {"project": "accepted", "one": "accepted", "clash": "textual_conflict", "two": "accepted"}
MOST = 6  # kills of each kind in the short form


def made(path: Path) -> tuple[Repo, Path]:
    repo = Repo.init(path)
    repo.write("README", "a repository\n")
    repo.commit("first")
    return repo, job_file(repo, DOCUMENT)


def finish(repo: Repo, path: Path) -> None:
    """What a person does after a kill: resume, or start where nothing had begun."""
    ran = spawn("job-run", "--resume", "j1", cwd=repo.path)
    if ran.status == 2 and "no job" in ran.err:
        ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path)
    already = ran.status == 1 and "has landed already" in ran.err
    assert ran.status == 3 or already, (ran.status, ran.err, ran.out)


def check(repo: Repo) -> None:
    assert outcomes(repo) == WANTED
    assert repo.git("rev-list", "--count", "main") == "2", "one landing commit"
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "one.txt", "projected.txt", "two.txt"]
    assert repo.show("main", "one.txt") == b"base\n"
    assert repo.git("status", "--porcelain") == "", "the checkout followed"
    assert repo.git("fsck", "--strict", "--no-dangling") == ""
    store = repo.path / ".ktx"
    for lease in store.glob("jobs/j1/units/*/lease.json"):
        assert json.loads(lease.read_text())["state"] == "closed", lease
    worktrees = [path.name for path in (store / "worktrees/j1").iterdir()]
    assert worktrees == ["0003-clash"], "only the evidence of the conflict is left"
    listed = repo.git("worktree", "list", "--porcelain").count("worktree ")
    assert listed == 2, repo.git("worktree", "list")
    assert not [path for path in (store / "tmp").glob("*") if path.name != "trash"], "no temporary file of ours is left"
    assert not list(store.rglob(".*.tmp")), "no half-written file is left"
    commits = repo.git("rev-list", "refs/ktx/jobs/j1/integration", "--not", "main^").split()
    assert len(commits) == 3, "projection, one, two: each once"


def test_undisturbed(tmp_path: Path) -> None:
    repo, path = made(tmp_path / "repo")
    assert spawn("job-run", str(path), "--job", "j1", cwd=repo.path).status == 3
    check(repo)


@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_killed_at_any_effect(tmp_path: Path, when: str) -> None:
    repo, path = made(tmp_path / "count" / "repo")
    effects = count_effects("job-run", ["--job", "j1", str(path)], repo.path, status=3)
    for n in spread(effects, MOST):
        place = tmp_path / f"{when}-{n}"
        repo, path = made(place / "repo")
        ran = run_killed("job-run", ["--job", "j1", str(path)], repo.path, n, when)
        if isinstance(ran, Ran):
            continue
        finish(repo, path)
        check(repo)
        shutil.rmtree(place)


@pytest.mark.parametrize("when", ["torn"])
def test_killed_while_finishing_what_was_killed(tmp_path: Path, when: str) -> None:
    repo, path = made(tmp_path / "count" / "repo")
    effects = count_effects("job-run", ["--job", "j1", str(path)], repo.path, status=3)
    for n in spread(effects, 3):
        for m in spread(effects, 2):
            place = tmp_path / f"{when}-{n}-{m}"
            repo, path = made(place / "repo")
            first = run_killed("job-run", ["--job", "j1", str(path)], repo.path, n, when)
            assert isinstance(first, Killed | Ran)
            run_killed("job-run", ["--resume", "j1"], repo.path, m, when)
            finish(repo, path)
            check(repo)
            shutil.rmtree(place)
