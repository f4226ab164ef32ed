"""A job that has landed takes nothing more, and what was collected beside it is never cleared away."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base.clock import Limits, SystemClock
from ktxkit.base.errors import Refused
from ktxkit.base.lock import flocked
from ktxkit.store.active import ActiveJob
from ktxkit.store.leases import LeaseLocation
from ktxkit.store.rules.names import branch_lock
from ktxkit.store.world import World
from ktxkit.work.recover import integrating
from tests.support.commands import call
from tests.support.elsewhere import begin_here
from tests.support.repos import Repo
from tests.support.wrapped_git import WrappedGit


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo")
    made.write("base", "base\n")
    made.commit()
    unit(made, "a", "x")
    assert call("patch-apply", "--job", "j", "--unit", "a", cwd=made.path).status == 0
    return made


IMPATIENT = Limits(obstacle_wait=0.3)


def unit(repo: Repo, key: str, name: str) -> Path:
    """A unit that adds a file, collected."""
    opened = call("worktree-open", "--job", "j", "--unit", key, "--target", "main", cwd=repo.path)
    assert opened.status == 0, opened.err
    child = Path(opened.out.strip())
    (child / name).write_text(f"{name}\n")
    assert call("patch-collect", "--job", "j", "--unit", key, cwd=repo.path).status == 0
    return child


def land(repo: Repo) -> None:
    done = call("job-land", "--job", "j", cwd=repo.path)
    assert done.status == 0, done.err


def test_a_new_unit_is_refused(repo: Repo) -> None:
    land(repo)
    refused = call("worktree-open", "--job", "j", "--unit", "late", cwd=repo.path)
    assert refused.status == 1 and "has landed already" in refused.err and "a job of its own" in refused.err
    assert "late" not in (repo.path / ".ktx/jobs/j/job.json").read_text()


def test_what_is_added_since_lands_behind(repo: Repo) -> None:
    unit(repo, "b", "y")
    landed = call("job-land", "--job", "j", cwd=repo.path)
    assert landed.status == 0 and "1 unit of the job not in it: b" in landed.out + landed.err
    first = repo.git("rev-parse", "main")
    assert call("git-ktx", "clean", "--yes", "--records", cwd=repo.path).status == 0
    assert repo.show("refs/ktx/units/j/0002-b", "y") == b"y\n", "kept: it has not landed"
    assert call("patch-apply", "--job", "j", "--unit", "b", cwd=repo.path).status == 0
    status = call("git-ktx", "status", "--json", cwd=repo.path).document
    assert status["jobs"][0]["next"] == "job-land --job j"
    done = call("job-land", "--job", "j", "--json", cwd=repo.path)
    assert done.status == 0 and done.document["before"] == first, done.out
    assert repo.git("rev-parse", "main^") == first and (repo.path / "y").read_text() == "y\n"
    assert [path["path"] for path in done.document["paths"]] == ["y"]
    again = call("job-land", "--job", "j", "--json", cwd=repo.path).document
    assert (
        again == done.document and "next" not in call("git-ktx", "status", "--json", cwd=repo.path).document["jobs"][0]
    )
    earlier = json.loads((repo.path / ".ktx/jobs/j/landing-1.json").read_text())
    assert earlier["after"] == first, "the first landing stays on record"
    assert repo.git("log", "-2", "--format=%s", "main").splitlines() == ["Job j: 1 unit", "Job j: 1 unit"]
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    assert repo.git("for-each-ref", "refs/ktx") == "", "all is in"


@pytest.mark.parametrize("first", ["as it was", "replayed"])
def test_what_is_added_since_lands_on_a_target_that_moved(repo: Repo, first: str) -> None:
    unit(repo, "b", "y")
    if first == "replayed":
        repo.write("before", "before\n")
        repo.commit("before")
    assert call("job-land", "--job", "j", "--rebase", cwd=repo.path).status == 0
    assert call("patch-apply", "--job", "j", "--unit", "b", cwd=repo.path).status == 0
    repo.write("meanwhile", "meanwhile\n")
    moved = repo.commit("meanwhile")
    refused = call("job-land", "--job", "j", cwd=repo.path)
    assert refused.status == 1 and "since what it landed before" in refused.err
    assert call("job-land", "--job", "j", "--rebase", cwd=repo.path).status == 0
    assert repo.git("rev-parse", "main^") == moved and (repo.path / "y").read_text() == "y\n"
    assert (repo.path / "x").read_text() == "x\n" and (repo.path / "before").exists() == (first == "replayed")


def test_what_is_added_to_a_replayed_landing_needs_no_rebase(repo: Repo) -> None:
    """The job's own branch never had what the target had meanwhile: its tree is not what lands."""
    unit(repo, "b", "y")
    repo.write("before", "before\n")
    repo.commit("before")
    assert call("job-land", "--job", "j", "--rebase", cwd=repo.path).status == 0
    assert call("patch-apply", "--job", "j", "--unit", "b", cwd=repo.path).status == 0
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0
    assert (repo.path / "before").exists() and (repo.path / "y").exists()


def test_what_is_collected_again_after_its_integration_is_not_cleared(repo: Repo) -> None:
    child = repo.path / ".ktx/worktrees/j/0001-a"
    (child / "more").write_text("more\n")
    assert call("patch-collect", "--job", "j", "--unit", "a", cwd=repo.path).status == 0
    land(repo)
    assert call("worktree-close", "--job", "j", "--unit", "a", "--outcome", "success", cwd=repo.path).status == 0
    cleared = call("git-ktx", "clean", "--yes", "--json", cwd=repo.path)
    assert cleared.status == 0, cleared.err
    items = json.loads(cleared.out)["document"]["items"]
    assert [item["why"] for item in items if item["what"] == "refs"] == ["collected work that has not landed: a"]
    assert repo.show("refs/ktx/units/j/0001-a", "more") == b"more\n"


def test_where_all_is_in_the_refs_go(repo: Repo) -> None:
    land(repo)
    assert call("worktree-close", "--job", "j", "--unit", "a", "--outcome", "success", cwd=repo.path).status == 0
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    assert repo.git("for-each-ref", "refs/ktx") == ""


def cleared(repo: Repo) -> None:
    land(repo)
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    assert repo.git("for-each-ref", "refs/ktx") == ""


@pytest.mark.parametrize("collected", [False, True], ids=["commits are there", "commits are collected"])
def test_a_job_whose_refs_were_cleared_has_landed(repo: Repo, collected: bool) -> None:
    """It is no job whose branch somebody deleted: that stopped everybody on the target."""
    cleared(repo)
    if collected:
        repo.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
    landed = repo.git("rev-parse", "main")
    again = call("job-land", "--job", "j", "--json", cwd=repo.path)
    assert again.status == 0 and again.document["after"] == landed == repo.git("rev-parse", "main"), again
    assert repo.git("for-each-ref", "refs/ktx") == "", "there was nothing to make again"
    verified = call("job-verify", "--job", "j", "--", "true", cwd=repo.path)
    assert verified.status == (1 if collected else 0), verified
    assert not collected or "has landed, and its own branch was cleared" in verified.err
    changing_base(repo)
    assert call("job-land", "--job", "k", cwd=repo.path).status == 0
    assert call("git-ktx", "doctor", cwd=repo.path).status == 0


def test_a_job_whose_refs_were_cleared_lands_again_where_its_commits_are(repo: Repo) -> None:
    cleared(repo)
    repo.git("reset", "-q", "--hard", "main^")
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0
    assert repo.show("main", "x") == b"x\n"


def test_a_unit_of_a_cleared_job_goes_on(repo: Repo) -> None:
    cleared(repo)
    unit(repo, "a", "more")
    assert call("patch-apply", "--job", "j", "--unit", "a", cwd=repo.path).status == 1, "it is in already"
    assert call("git-ktx", "clean", "--yes", "--records", cwd=repo.path).status == 0
    assert repo.show("refs/ktx/units/j/0001-a", "more") == b"more\n"


def test_a_branch_that_is_not_ours_stops_its_job_alone(repo: Repo) -> None:
    repo.git("update-ref", "refs/ktx/jobs/j/integration", repo.git("commit-tree", "-m", "theirs", "main^{tree}"))
    assert call("job-land", "--job", "j", cwd=repo.path).status == 4
    changing_base(repo)
    assert call("job-land", "--job", "k", cwd=repo.path).status == 0


@pytest.mark.parametrize("lock", ["run-j", "integration", "unit"])
def test_a_job_that_somebody_works_on_is_not_cleared(repo: Repo, lock: str) -> None:
    land(repo)
    before = repo.git("for-each-ref", "refs/ktx")
    files = {
        "run-j": repo.path / ".ktx/locks/run-j.lock",
        "integration": repo.path / f".ktx/locks/{branch_lock('refs/ktx/jobs/j/integration')}.lock",
        "unit": repo.path / ".ktx/jobs/j/units/0001-a/.lock",
    }
    with flocked(files[lock], clock=SystemClock()):
        done = call("git-ktx", "clean", "--yes", "--records", cwd=repo.path)
    assert done.status == 0 and "is being worked on by another process" in done.out, done.out
    assert repo.git("for-each-ref", "refs/ktx") == before and (repo.path / ".ktx/jobs/j/job.json").exists()


def test_a_step_that_waited_while_its_job_was_cleared_leaves_nothing(repo: Repo) -> None:
    """It knows the job already: what it wrote then was a job without its own document, which stops every command."""
    land(repo)
    job = ActiveJob.load(World(repo.path, os.environ), "j")
    assert call("worktree-close", "--job", "j", "--unit", "a", "--outcome", "success", cwd=repo.path).status == 0
    assert call("git-ktx", "clean", "--yes", "--records", cwd=repo.path).status == 0
    for begin in (integrating(job), LeaseLocation.of_unit(job, job.unit("a")).locked()):
        with pytest.raises(Refused, match="was cleared meanwhile"), begin:
            pass
        assert not (repo.path / ".ktx/jobs/j").exists()
    assert call("git-ktx", "doctor", cwd=repo.path).status == 0


def meanwhile(git: WrappedGit, repo: Repo, words: tuple[str, ...], change: Callable[[], object]) -> str:
    """What a command says whose git is about to delete refs when something changes; it must not fail."""
    git.prepare_pause(0, "update-ref --stdin")
    with begin_here(words, repo.path, git.env) as held:
        try:
            while not git.waits:
                assert held.poll() is None, held.communicate()
                time.sleep(0.02)
            change()
        finally:
            git.go_on()
        said = held.communicate()[0].decode()
    assert held.returncode == 0, said
    return said


def test_refs_stay_where_the_target_loses_the_landing_meanwhile(repo: Repo, tmp_path: Path) -> None:
    """Whether all is in was asked before: the deletion rests on the target as it was then."""
    land(repo)
    before, words = repo.git("for-each-ref", "refs/ktx"), ("git-ktx", "clean", "--yes")
    said = meanwhile(
        WrappedGit(tmp_path / "git"), repo, words, lambda: repo.git("update-ref", "refs/heads/main", "main^")
    )
    assert "moved meanwhile" in said and repo.git("for-each-ref", "refs/ktx") == before
    repo.git("reset", "-q", "--hard")
    land(repo)
    assert repo.show("main", "x") == b"x\n"


@pytest.mark.parametrize("words", [(), ("--discard",)])
def test_a_branch_stays_whose_commits_go_elsewhere_meanwhile(
    repo: Repo, tmp_path: Path, words: tuple[str, ...]
) -> None:
    opened = Repo(Path(call("worktree-open", "topic", cwd=repo.path).out.strip()))
    opened.write("work", "work\n")
    opened.git("branch", "other", opened.commit())
    close = ("worktree-close", "topic", *words)
    said = meanwhile(WrappedGit(tmp_path / "git"), repo, close, lambda: repo.git("branch", "-D", "other"))
    assert "branch topic stays" in said and repo.show("topic", "work") == b"work\n"


def test_a_branch_that_was_left_for_another_stays(repo: Repo) -> None:
    """--discard keeps what the worktree stands on in the attic: what only its own branch had was lost."""
    opened = Repo(Path(call("worktree-open", "topic", cwd=repo.path).out.strip()))
    opened.write("work", "work\n")
    opened.commit()
    opened.git("checkout", "-q", "--detach", "main")
    assert call("worktree-close", "topic", "--discard", cwd=repo.path).status == 0
    assert repo.show("topic", "work") == b"work\n"


def test_what_failed_its_verification_does_not_land(repo: Repo) -> None:
    assert call("job-verify", "--job", "j", "--", "false", cwd=repo.path).status == 3
    refused = call("job-land", "--job", "j", cwd=repo.path)
    assert refused.status == 3 and "job-verify failed" in refused.err
    assert repo.git("rev-list", "--count", "main") == "1"
    assert call("job-verify", "--job", "j", "--", "true", cwd=repo.path).status == 0
    land(repo)
    assert repo.git("rev-list", "--count", "main") == "2"


@pytest.mark.parametrize("committed", [True, False])
def test_a_repository_in_a_tracked_files_place_is_not_thrown_away(repo: Repo, committed: bool) -> None:
    child = repo.path / ".ktx/worktrees/j/0001-a"
    (child / "base").unlink()
    inner = Repo.init(child / "base")
    inner.write("precious", "precious\n")
    if committed:
        inner.commit()
    for words in ((), ("--discard",)):
        closed = call("worktree-close", "--job", "j", "--unit", "a", "--outcome", "success", *words, cwd=repo.path)
        assert closed.status == 1 and "repository inside it" in closed.err, closed.err
        assert (child / "base/precious").read_text() == "precious\n"


def changing_base(repo: Repo) -> None:
    opened = call("worktree-open", "--job", "k", "--unit", "a", "--target", "main", cwd=repo.path)
    (Path(opened.out.strip()) / "base").write_text("changed\n")
    for command in ("patch-collect", "patch-apply"):
        assert call(command, "--job", "k", "--unit", "a", cwd=repo.path).status == 0


def test_modes_that_the_users_git_overlooks_are_not_in_the_way(repo: Repo) -> None:
    """A disk that gives every file the executable bit: nothing was ever landed there, and git showed no change."""
    changing_base(repo)
    repo.git("config", "core.fileMode", "false")
    (repo.path / "base").chmod(0o755)
    done = call("job-land", "--job", "k", cwd=repo.path)
    assert done.status == 0, done.err
    assert (repo.path / "base").read_text() == "changed\n" and repo.git("status", "--porcelain", "-uno") == ""


def test_a_mode_that_the_users_git_shows_is_in_the_way(repo: Repo) -> None:
    changing_base(repo)
    (repo.path / "base").chmod(0o755)
    refused = call("job-land", "--job", "k", cwd=repo.path)
    assert refused.status == 1 and "in the way: base" in refused.err
    assert (repo.path / "base").stat().st_mode & 0o777 == 0o755


def test_the_lock_of_another_git_is_left_where_it_is(repo: Repo) -> None:
    """A commit whose editor is open holds the index, and nobody has its lock open. It was taken away."""
    lock = repo.path / ".git/index.lock"
    changing_base(repo)
    repo.write("other", "other\n")
    repo.git("add", "other")
    gate = repo.path.parent / "gate"
    os.mkfifo(gate)
    env = {**os.environ, "GIT_EDITOR": f"sh -c 'cat {gate} >/dev/null; echo message >$1' editor"}
    writer = subprocess.Popen(["git", "commit", "-q", "-a"], cwd=repo.path, env=env)
    try:
        while not lock.exists() and writer.poll() is None:
            time.sleep(0.01)
        time.sleep(1.1)  # old enough to be taken for one that was left behind
        refused = call("job-land", "--job", "k", cwd=repo.path, limits=IMPATIENT)
        assert refused.status == 1 and f"is locked by another git: process {writer.pid} (git commit" in refused.err
        assert lock.exists()
    finally:
        gate.write_text("go\n")
        assert writer.wait(30) == 0
    assert repo.git("status", "--porcelain", "-uno") == "" and repo.show("HEAD", "other") == b"other\n"


def test_a_lock_that_a_person_or_tool_made_is_left_where_it_is(repo: Repo) -> None:
    lock = repo.path / ".git/index.lock"
    changing_base(repo)
    lock.touch()
    os.utime(lock, (1, 1))
    time.sleep(1.1)
    refused = call("job-land", "--job", "k", cwd=repo.path, limits=IMPATIENT)
    assert refused.status == 1 and "is locked by another git, which cannot be seen" in refused.err, refused.err
    assert lock.exists()
    lock.unlink()
    assert call("job-land", "--job", "k", cwd=repo.path).status == 0


@pytest.mark.parametrize("name", ["index.lock", "refs/heads/main.lock", "HEAD.lock"])
def test_a_lock_that_is_let_go_in_time_is_waited_for(repo: Repo, name: str) -> None:
    changing_base(repo)
    hold = f"exec 9> .git/{name}; touch held; sleep 1; rm .git/{name}"
    with subprocess.Popen(["sh", "-c", hold], cwd=repo.path):
        while not (repo.path / "held").exists():
            time.sleep(0.01)
        landed = call("job-land", "--job", "k", cwd=repo.path)
    assert landed.status == 0, landed
    assert (repo.path / "base").read_text() == "changed\n" and repo.git("status", "--porcelain", "-uno") == ""
