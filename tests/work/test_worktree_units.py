"""Worktrees of units: opened, leased, closed; nothing is lost on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ktxkit.git import stale
from tests.support.commands import Ran, call, script
from tests.support.repos import Repo


def opened(repo: Repo, unit: str = "u1", *more: str) -> Ran:
    ran = call("worktree-open", "--job", "j1", "--unit", unit, "--json", *more, cwd=repo.path)
    assert ran.status == 0, ran.err + ran.out
    return ran


def close(repo: Repo, outcome: str, *more: str, unit: str = "u1") -> Ran:
    return call("worktree-close", "--job", "j1", "--unit", unit, "--outcome", outcome, *more, cwd=repo.path)


def state(repo: Repo) -> tuple[str, ...]:
    questions = (("worktree", "list"), ("for-each-ref",), ("status", "--porcelain", "--ignored=no"))
    return tuple(repo.git(*question) for question in questions)


def test_a_unit_is_opened_detached_at_the_base(repo: Repo) -> None:
    lease = opened(repo).document
    tree = Repo(Path(lease["path"]))
    info = tree.path.stat()
    assert tree.path == repo.path / ".ktx/worktrees/j1/0001-u1"
    assert (lease["device"], lease["inode"]) == (info.st_dev, info.st_ino)
    assert lease["base"] == tree.head == repo.head
    assert tree.git("status", "--porcelain") == ""
    assert tree.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    assert Path(lease["adminDir"]) == repo.path / ".git/worktrees/0001-u1"
    assert repo.git("status", "--porcelain") == ""


def test_opening_twice_hands_out_the_same_lease(repo: Repo) -> None:
    assert opened(repo).document == opened(repo).document


def test_a_unit_is_never_nested(repo: Repo) -> None:
    inside = Path(opened(repo).document["path"])
    second = call("worktree-open", "--job", "j1", "--unit", "u2", "--json", cwd=inside)
    assert second.document["path"] == str(repo.path / ".ktx/worktrees/j1/0002-u2")


def test_a_new_job_is_made_as_it_is_asked_for(repo: Repo) -> None:
    repo.git("branch", "release")
    first = repo.head
    repo.commit("second")
    opened(repo, "u1", "--target", "release", "--base", first, "--connection", "c1", "--source", "s1")
    job = json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())
    facts = {"target": "refs/heads/release", "base": first, "connectionId": "c1", "sourceKey": "s1", "state": "open"}
    assert {key: job[key] for key in facts} == facts
    assert repo.git("rev-parse", "refs/ktx/jobs/j1/base") == first


def test_units_of_a_job_start_at_its_base_however_the_target_moves(repo: Repo) -> None:
    first = repo.head
    opened(repo, "u1")
    repo.commit("the target moved")
    assert opened(repo, "u2").document["base"] == first
    assert opened(repo, "u3", "--base", "main", "--after", "u1").document["base"] == repo.head
    job = json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())
    assert job["base"] == first and job["units"][2] == {"position": 3, "key": "u3", "after": ["u1"]}


def test_the_policy_is_in_the_lease(repo: Repo) -> None:
    options = ("--allow", "wiki/**", "--allow", "docs/", "--deny", "*.bin", "--sl-disallowed")
    lease = opened(repo, "u1", *options).document
    assert lease["policy"] == {"allow": ["wiki/**", "docs/"], "deny": ["*.bin"], "slDisallowed": True}
    assert lease["policyDigest"].startswith("b3:")
    assert "policy" not in opened(repo, "u2").document


REFUSED = {
    "another base of an open unit": (("--unit", "u1", "--base", "HEAD~1"), 1, "is open at base"),
    "another target of a job": (("--unit", "u2", "--target", "other"), 2, "exists with target"),
    "no such target": (("--unit", "u2", "--target", "nothing"), 2, "no branch"),
    "no such base": (("--unit", "u2", "--base", "nothing"), 2, "no commit"),
    "after an unknown unit": (("--unit", "u2", "--after", "u9"), 2, "no unit"),
    "a job id that is none": (("--job", "../x", "--unit", "u"), 2, "cannot be used"),
    "a key that is none": (("--unit", "a\nb"), 2, "cannot be used"),
    "no fixed word for jobs": (("--job", "adhoc", "--unit", "u"), 2, "is taken"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(repo: Repo, name: str) -> None:
    args, status, message = REFUSED[name]
    repo.commit("second")
    repo.git("branch", "other")
    opened(repo)
    before = state(repo)
    ran = call("worktree-open", "--job", "j1", *args, cwd=repo.path)
    assert ran.status == status and message in ran.err
    assert state(repo) == before


def test_an_interrupted_opening_leaves_nothing(slow: Repo) -> None:
    before = state(slow)
    with subprocess.Popen([script("worktree-open"), "work"], cwd=slow.path, stderr=subprocess.DEVNULL) as child:
        until_populating(slow)
        child.send_signal(signal.SIGINT)
        assert child.wait() == 130
    assert state(slow) == before
    assert not list(slow.path.glob(".ktx/leases/*/*.json"))


def test_an_opening_after_a_kill_waits_for_what_it_left_running(slow: Repo) -> None:
    """The git that a killed opening started still writes files: taken away too early, it would write into the next."""
    with subprocess.Popen([script("worktree-open"), "--job", "j1", "--unit", "u1"], cwd=slow.path) as child:
        until_populating(slow)
        child.kill()
    assert stale.at_work_on(slow.path / ".ktx/worktrees/j1/0001-u1"), "its git lives on"
    tree = Repo(Path(opened(slow).document["path"]))
    assert tree.git("status", "--porcelain") == "" and (tree.path / "z.slow").read_text() == "x\n"
    assert len(slow.git("worktree", "list").splitlines()) == 2


@pytest.fixture
def slow(repo: Repo) -> Repo:
    """A repository whose files take seconds to be written."""
    repo.git("config", "filter.slow.smudge", "sleep 1.5; cat")
    repo.git("config", "filter.slow.clean", "cat")
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.write("z.slow", "x\n")
    repo.commit()
    return repo


def until_populating(repo: Repo) -> None:
    deadline = time.monotonic() + 30
    while not list(repo.path.glob(".git/worktrees/*/index.lock")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)


@pytest.mark.parametrize("outcome", ["success", "empty"])
def test_nothing_done_is_removed(repo: Repo, outcome: str) -> None:
    before = state(repo)
    path = Path(opened(repo).document["path"])
    assert close(repo, outcome).status == 0
    assert not path.exists()
    assert [line for line in state(repo)[1].splitlines() if "ktx/jobs" not in line] == before[1].splitlines()
    assert state(repo)[0] == before[0]


WORK = {
    "a commit": (("commit", "-q", "--allow-empty", "-m", "x"), False),
    "an untracked file": ((), True),
    "a staged file": (("add", "-A"), True),
    "a committed file": (("commit", "-q", "-a", "-m", "x"), True),
}


@pytest.mark.parametrize("name", [name for name in WORK if name != "a commit"])
def test_work_is_never_lost(repo: Repo, name: str) -> None:
    tree = Repo(Path(opened(repo).document["path"]))
    tree.write("new", "work\n")
    if name == "a committed file":
        tree.git("add", "-A")
    if WORK[name][0]:
        tree.git(*WORK[name][0])
    refused = close(repo, "success")
    assert refused.status == 1 and "lose" in refused.err and tree.path.exists()
    done = close(repo, "success", "--discard", "--json")
    assert done.status == 0
    assert not tree.path.exists()
    assert repo.show(done.document["atticRef"], "new") == b"work\n"


@pytest.mark.parametrize("outcome", ["conflict", "crash"])
def test_evidence_is_kept_with_a_sentinel(repo: Repo, outcome: str) -> None:
    lease = opened(repo).document
    tree = Repo(Path(lease["path"]))
    tree.write("half", "done\n")
    assert close(repo, outcome, "--reason", "it broke").status == 0
    assert (tree.path / "half").read_text() == "done\n"
    assert (repo.path / ".ktx/jobs/j1/units/0001-u1/sentinel.json").is_file()
    again = opened(repo).document
    assert again["attempt"] == 2 and again["path"].endswith("0001-u1.attempt-2")
    assert (tree.path / "half").read_text() == "done\n"
