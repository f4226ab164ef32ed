"""Killed before, after or within any effect: the next command finishes or forgets, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import spawn
from tests.support.faults import FULL
from tests.support.integration import Job, script
from tests.support.recovering import Scenario, survive, template_of
from tests.support.repos import Repo

Args = list[str | Path]
Counted = Callable[[str, object], None]  # record_property: the figures of a long run
UNIT: Args = ["--job", "j1", "--unit", "a"]


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


def checking(job: Job, body: str = "grep -q seven text") -> Args:
    return [*UNIT, "--verify", "--", script(job.repo.path.parent / "check", body)]


def conflicting(job: Job) -> Args:
    job.unit("b", lambda w: w.write("text", "all else\n"))
    return UNIT


APPLICATIONS: dict[str, tuple[int, Callable[[Job], Args]]] = {
    "accepted": (0, lambda job: UNIT),
    "verified": (0, lambda job: checking(job)),
    "not verified": (3, lambda job: checking(job, "! grep -q seven text")),
    "conflict": (3, conflicting),
}


def survived(job: Job, tmp_path: Path, name: str, args: Args, counted: Counted, status: int = 0) -> None:
    varies = frozenset({"attempt", "message"} if status else ())  # what was rejected may be tried again
    scenario = Scenario(name, args, job.repo, template_of(job.repo, tmp_path / "aside"), status=status, varies=varies)
    count = survive(scenario, 3, 1)
    assert count.first >= 5
    assert count.second >= (1 if not FULL else count.first // 3)
    counted("kills", f"{name} {status}: {count.first}, then {count.second}")


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_patch_apply(tmp_path: Path, kind: str, record_property: Counted) -> None:
    job = collected(tmp_path)
    status, prepare = APPLICATIONS[kind]
    survived(job, tmp_path, "patch-apply", prepare(job), record_property, status)


def test_patch_collect(tmp_path: Path, record_property: Counted) -> None:
    job = begin(tmp_path)
    work = job.open("a")
    work.write("new/file", "n\n")
    work.commit()
    work.write("text", "other\n")
    survived(job, tmp_path, "patch-collect", UNIT, record_property)


def test_job_land(tmp_path: Path, record_property: Counted) -> None:
    job = collected(tmp_path)
    job.apply("a")
    job.repo.write("dir/one", "a person's\n")
    survived(job, tmp_path, "job-land", ["--job", "j1"], record_property)
    assert (job.repo.path / "dir/one").read_text() == "a person's\n"


def test_job_land_on_a_branch_that_is_not_checked_out_and_has_moved(tmp_path: Path, record_property: Counted) -> None:
    job = collected(tmp_path)
    job.apply("a")
    job.repo.write("other", "came meanwhile\n")
    job.repo.commit("meanwhile")
    job.repo.git("switch", "-q", "-c", "elsewhere", "HEAD^")
    survived(job, tmp_path, "job-land", ["--job", "j1", "--rebase"], record_property)
    assert job.repo.show("main", "other") == b"came meanwhile\n"


def test_job_verify(tmp_path: Path, record_property: Counted) -> None:
    job = collected(tmp_path)
    job.apply("a")
    check = script(job.repo.path.parent / "check", "grep -q seven text")
    survived(job, tmp_path, "job-verify", ["--job", "j1", "--", check], record_property)


def test_patch_apply_of_a_file(tmp_path: Path, record_property: Counted) -> None:
    job = collected(tmp_path)
    work = job.world.store.path("worktrees/j1/0001-a")
    file = tmp_path / "place" / "file.patch"
    taken = spawn("patch-collect", "-C", work, "--base", job.document["base"], "-o", file, cwd=work)
    assert taken.status == 0, taken
    survived(job, tmp_path, "patch-apply", [file], record_property)
