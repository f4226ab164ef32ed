"""A disk that is full, read-only or broken: nothing is lost, what failed is said, and the next command finishes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_faults_integration import checking, collected
from tests.faults.test_job_run_faults import DOCUMENT, scenario
from tests.support.commands import BIN, Ran, call
from tests.support.faults import FAILURES, FULL, Killed, run_failing, run_killed
from tests.support.integration import script
from tests.support.recovering import Scenario, endure, said_so, template_of
from tests.support.repos import Repo
from tests.work.test_worktree_faults import CLOSE, UNIT, plain, with_work

Made = Callable[[Path], Scenario]


def applying(tmp_path: Path) -> Scenario:
    job = collected(tmp_path)
    return Scenario("patch-apply", ["--job", "j1", "--unit", "a"], job.repo, template_of(job.repo, tmp_path / "aside"))


def verifying(tmp_path: Path) -> Scenario:
    job = collected(tmp_path)
    return Scenario("patch-apply", checking(job), job.repo, template_of(job.repo, tmp_path / "aside"))


def job_verifying(tmp_path: Path) -> Scenario:
    job = collected(tmp_path)
    job.apply("a")
    args = ["--job", "j1", "--", script(job.repo.path.parent / "check", "grep -q seven text")]
    return Scenario("job-verify", args, job.repo, template_of(job.repo, tmp_path / "aside"))


def landing(tmp_path: Path) -> Scenario:
    job = collected(tmp_path)
    job.apply("a")
    return Scenario("job-land", ["--job", "j1"], job.repo, template_of(job.repo, tmp_path / "aside"))


def opening(tmp_path: Path) -> Scenario:
    repo = plain(tmp_path / "place" / "repo")
    return Scenario("worktree-open", UNIT, repo, template_of(repo, tmp_path / "aside"))


def closing(tmp_path: Path) -> Scenario:
    repo = with_work(tmp_path / "place" / "repo")
    return Scenario("worktree-close", CLOSE, repo, template_of(repo, tmp_path / "aside"))


def running(tmp_path: Path) -> Scenario:
    return scenario(tmp_path, DOCUMENT)


COMMANDS: list[Made] = [applying, verifying, job_verifying, landing, opening, closing, running]


@pytest.mark.parametrize("error", FAILURES)
@pytest.mark.parametrize("make", COMMANDS)
def test_an_injected_error(
    make: Made, error: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if make is running and error in ("ENOSPC", "EROFS") and not FULL:
        pytest.skip("a whole job with every error: the long form (KTX_TEST_FULL=1)")
    told = endure(make(tmp_path), 2, [error])
    record_property("errors", f"{make.__name__} {error}: {len(told)}")
    assert len(told) >= 2


def landed(repo: Repo) -> Any:
    return json.loads((repo.path / ".ktx/jobs/j1/landing.json").read_text())


def test_a_landing_whose_receipt_cannot_be_written_says_that_it_landed(tmp_path: Path) -> None:
    it = landing(tmp_path)
    effects = it.effects()
    moved = next(n for n, effect in enumerate(effects) if effect.startswith("exit git merge "))
    after = [n for n in range(moved + 1, len(effects)) if effects[n].startswith(("os.write", "os.fsync", "os.replace"))]
    for n in after if FULL else after[:: max(1, len(after) // 4)]:
        it.reset()
        ran = run_failing("job-land", it.args, it.repo.path, n, "ENOSPC")
        commit = it.repo.git("rev-parse", "main")
        assert it.repo.git("rev-list", "--count", "main") == "2", "it has moved"
        if ran.status != 0:  # what cannot be written at the very end is no failure of the landing
            assert ran.status == 2, ran
            assert f"job j1 has landed as {commit} on refs/heads/main, but" in ran.err, (effects[n], ran)
            assert "then job-land --job j1: it completes the record and moves nothing" in ran.err
        told = call("job-report", "--job", "j1", "--json", cwd=it.repo.path).document
        assert told["commitSha"] == commit, "the report does not say that nothing landed"
        again = it.run()
        assert again.status == 0 and commit in again.out
        assert (landed(it.repo)["commit"], it.repo.git("rev-parse", "main")) == (commit, commit)


def test_a_landing_that_was_killed_after_the_move_is_reported_as_landed(tmp_path: Path) -> None:
    it = landing(tmp_path)
    moved = next(n for n, effect in enumerate(it.effects()) if effect.startswith("exit git merge "))
    it.reset()
    assert isinstance(run_killed("job-land", it.args, it.repo.path, moved, "after"), Killed)
    commit = it.repo.git("rev-parse", "main")
    assert not (it.repo.path / ".ktx/jobs/j1/landing.json").exists()
    assert call("job-report", "--job", "j1", "--json", cwd=it.repo.path).document["commitSha"] == commit
    for lock in (it.repo.path / ".ktx/locks").glob("branch-*.json"):
        lock.unlink()  # as a blocked one tells a person to
    assert call("job-land", "--job", "j1", cwd=it.repo.path).status == 0
    assert (landed(it.repo)["commit"], it.repo.git("rev-list", "--count", "main")) == (commit, "2")


def test_an_answer_that_cannot_be_written_does_not_hide_the_landing(tmp_path: Path) -> None:
    it = landing(tmp_path)
    for more in ([], ["--json"]):
        it.reset()
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [BIN / "job-land", "-C", it.repo.path, *map(str, it.args), *more],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        said = done.stderr.decode()
        commit = it.repo.git("rev-parse", "main")
        assert done.returncode == 2 and "the disk is full" in said
        assert f"it is done, but its answer could not be written (No space left on device): done: {commit}" in said


def limited(it: Scenario, limit: int) -> Ran:
    """The command, which (like its children) may write no file above `limit` bytes."""
    done = subprocess.run(
        [BIN / it.command, "-C", it.repo.path, *map(str, it.args)],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        check=False,
    )
    return Ran(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))


@pytest.mark.parametrize("limit", [1, 400, 4000])
@pytest.mark.parametrize("make", [applying, landing])
def test_files_may_not_grow(make: Made, limit: int, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: git's own writes fail too."""
    it = make(tmp_path)
    it.effects()
    wanted = it.state()
    it.reset()
    ran = limited(it, limit)
    said_so(f"limit {limit}", ran, it.status)
    it.must_end_well(f"limit {limit}, which said {ran}", wanted)


@contextmanager
def mounted(path: Path, *how: str) -> Iterator[None]:
    """Something mounted at a path for the block; skips where that is not permitted."""
    done = subprocess.run(["mount", *how, path], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this machine does not let us mount: {os.fsdecode(done.stderr).strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fill(path: Path, leave: int) -> None:
    """Use the file system up, but for `leave` bytes."""
    info = os.statvfs(path)
    with open(path / "filler", "wb") as stream:
        stream.write(b"x" * max(0, info.f_bavail * info.f_frsize - leave))


@pytest.mark.parametrize("make", COMMANDS)
def test_a_full_disk(make: Made, tmp_path: Path) -> None:
    """Everybody's writes fail: ours, git's, and those of a unit."""
    place = tmp_path / "place"
    place.mkdir()
    with mounted(place, "-t", "tmpfs", "-o", "size=4m", "none"):
        it = make(tmp_path)
        it.effects()
        wanted = it.state()
        for leave in (0, 4096, 20480, 65536, 131072) if FULL else (20480,):
            it.reset()
            fill(place, leave)
            ran = call(it.command, *it.args, cwd=it.repo.path)
            (place / "filler").unlink()
            said_so(f"{leave} bytes left", ran, it.status)
            it.must_end_well(f"{leave} bytes left, which said {ran}", wanted)


@pytest.mark.parametrize("make", COMMANDS)
def test_a_store_that_is_read_only(make: Made, tmp_path: Path) -> None:
    it = make(tmp_path)
    it.effects()
    wanted = it.state()
    it.reset()
    store = it.repo.path / ".ktx"
    store.mkdir(exist_ok=True)
    with mounted(store, "--bind", str(store)):
        subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
        ran = call(it.command, *it.args, cwd=it.repo.path)
    assert ran.status == 2 and "Read-only file system" in ran.err and "hint: " in ran.err, ran
    it.must_end_well(f"it said {ran}", wanted)
