"""Killed before, after or within any effect: the next command finishes or forgets, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import spawn
from tests.support.integration import Job, script
from tests.support.recovering import Scenario, survive, template_of
from tests.support.repos import Repo


def begin(tmp_path: Path) -> Job:
    repo = Repo.init(tmp_path / "place" / "repo")
    repo.write("text", "".join(f"line {n}\n" for n in range(1, 21)))
    repo.write("dir/one", "one\n")
    repo.write("gone", "x\n")
    repo.commit("base")
    return Job.begin(repo)


def collected(tmp_path: Path) -> Job:
    job = begin(tmp_path)
    work = job.open("a")
    work.write("new/file", "n\n")
    work.write("text", (work.path / "text").read_text().replace("line 7", "seven"))
    (work.path / "gone").unlink()
    job.collect("a")
    return job


def applying(job: Job, tmp_path: Path) -> list[str | Path]:
    return ["--job", "j1", "--unit", "a"]


def verifying(job: Job, tmp_path: Path) -> list[str | Path]:
    check = script(job.repo.path.parent / "check", "grep -q seven text")
    return ["--job", "j1", "--unit", "a", "--verify", "--", check]


def conflicting(job: Job, tmp_path: Path) -> list[str | Path]:
    job.unit("b", lambda w: w.write("text", "all else\n"))
    return ["--job", "j1", "--unit", "a"]


def survived(job: Job, tmp_path: Path, name: str, args: list[str | Path], most: int, twice: int = 0) -> None:
    scenario = Scenario(name, args, job.repo, template_of(job.repo, tmp_path / "aside"))
    assert survive(scenario, most, twice) >= most


@pytest.mark.parametrize("prepare", [applying, verifying])
def test_patch_apply(tmp_path: Path, prepare: Callable[[Job, Path], list[str | Path]]) -> None:
    job = collected(tmp_path)
    survived(job, tmp_path, "patch-apply", prepare(job, tmp_path), 5, 1)


def test_patch_collect(tmp_path: Path) -> None:
    job = begin(tmp_path)
    work = job.open("a")
    work.write("new/file", "n\n")
    work.commit()
    work.write("text", "other\n")
    survived(job, tmp_path, "patch-collect", ["--job", "j1", "--unit", "a"], 4)


def test_job_land(tmp_path: Path) -> None:
    job = collected(tmp_path)
    job.apply("a")
    job.repo.write("dir/one", "a person's\n")
    survived(job, tmp_path, "job-land", ["--job", "j1"], 5, 1)
    assert (job.repo.path / "dir/one").read_text() == "a person's\n"


def test_patch_apply_of_a_file(tmp_path: Path) -> None:
    job = collected(tmp_path)
    work = job.world.store.path("worktrees/j1/0001-a")
    file = tmp_path / "place" / "file.patch"
    taken = spawn("patch-collect", "-C", work, "--base", job.document["base"], "-o", file, cwd=work)
    assert taken.status == 0, taken
    survived(job, tmp_path, "patch-apply", [file], 5, 1)
