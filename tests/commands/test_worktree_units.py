"""Worktrees of units: opened, leased, closed; nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call
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
    inside = Repo(Path(opened(repo).document["path"]))
    second = call(
        "worktree-open",
        "--job",
        "j1",
        "--unit",
        "u2",
        "--json",
        cwd=inside.path,
    )
    assert second.status == 2 or second.document["path"] == str(repo.path / ".ktx/worktrees/j1/0002-u2")


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
