"""Where a branch lives: with every state that git has for it, in every worktree that is registered."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base.errors import CannotRun, Refused
from ktxkit.git import checkout
from ktxkit.work import target
from tests.support.commands import call, spawn
from tests.support.integration import Job, world_at
from tests.support.repos import Repo

REF = "refs/heads/topic"


@pytest.fixture
def tree(repo: Repo) -> Repo:
    """A linked worktree on `topic`, which has a commit that conflicts with one of `main`, and one before it."""
    repo.write("f", "0\n")
    repo.commit()
    repo.git("worktree", "add", "-q", "-b", "topic", str(repo.path.parent / "tree"))
    tree = repo.at(repo.path.parent / "tree")
    for text in ("topic\n", "more\n"):
        tree.write("f", text)
        tree.commit()
    repo.write("f", "main\n")
    repo.commit()
    return tree


def started(tree: Repo, *args: str) -> None:
    assert subprocess.run(["git", *args], cwd=tree.path, capture_output=True, check=False).returncode != 0


def below(tree: Repo) -> None:
    """`topic` is moved by the rebase of a branch on top of it."""
    tree.git("switch", "-q", "-c", "above")
    tree.write("g", "g\n")
    tree.commit()
    started(tree, "rebase", "--update-refs", "main")


def bisected(tree: Repo) -> None:
    tree.git("bisect", "start")
    tree.git("bisect", "bad", "HEAD")
    tree.git("bisect", "good", "HEAD~2")


STATES: dict[str, Callable[[Repo], object]] = {
    "being rebased": lambda tree: started(tree, "rebase", "main"),
    "being rebased ": lambda tree: started(tree, "rebase", "--apply", "main"),
    "being bisected": bisected,
    "to be moved by a rebase (--update-refs)": below,
}


@pytest.mark.parametrize("how", STATES)
def test_a_branch_that_git_is_at_work_on_is_not_landed_on(repo: Repo, tree: Repo, how: str) -> None:
    STATES[how](tree)
    world = world_at(repo.path)
    homes = checkout.homes(world.git, world.repository.common_dir, REF)
    assert (how.strip(), tree.path) in [(home.operation, home.path) for home in homes]
    with pytest.raises(Refused, match=how.strip().split("(")[0]) as caught:
        target.checked_out_at(world, REF)
    assert caught.value.outcome == "dirty_target" and str(tree.path) in caught.value.location
    refused = call("worktree-open", "--ref", "topic", cwd=repo.path)
    assert refused.status == 1 and how.strip() in refused.err


def test_nothing_lands_on_it(repo: Repo, tree: Repo) -> None:
    before = repo.git("rev-parse", "topic")
    job = Job.begin(repo, target=REF)
    started(tree, "rebase", "main")
    job.unit("u", lambda unit: unit.write("n", "landed\n"))
    with pytest.raises(Refused, match="being rebased"):
        job.land()
    assert repo.git("rev-parse", "topic") == before
    tree.git("rebase", "--abort")
    job.land()
    assert repo.show("topic", "n") == b"landed\n" and (tree.path / "n").read_text() == "landed\n"


def test_the_main_checkout_counts_too(repo: Repo, tree: Repo) -> None:
    started(repo, "rebase", "topic")
    with pytest.raises(Refused, match="refs/heads/main is being rebased") as caught:
        target.checked_out_at(world_at(repo.path), "refs/heads/main")
    assert caught.value.location == str(repo.path)


def test_a_locked_worktree_that_is_away_keeps_its_branch(repo: Repo, tree: Repo) -> None:
    repo.git("worktree", "lock", str(tree.path))
    tree.path.rename(tree.path.with_name("away"))
    with pytest.raises(Refused, match="locked worktree that is not there"):
        target.checked_out_at(world_at(repo.path), REF)
    repo.git("worktree", "unlock", str(tree.path))
    assert target.checked_out_at(world_at(repo.path), REF) is None, "one that is merely gone has nothing to follow"


@pytest.mark.parametrize("present", [True, False])
def test_what_git_is_told_to_leave_alone_is_left_alone(repo: Repo, present: bool) -> None:
    path = Path(call("worktree-open", "-q", "--detach", "det", cwd=repo.path).out.strip())
    Repo(path).write("w", "w\n")
    repo.git("worktree", "lock", str(path))
    away = path.with_name("away")
    if not present:
        path.rename(away)
    for words in (("worktree-open", "--prune"), ("git-ktx", "clean", "--yes")):
        assert call(*words, cwd=repo.path).status == 0
    if present:
        refused = call("worktree-close", "det", "--outcome", "success", "--discard", cwd=repo.path)
        assert refused.status == 1 and "locked" in refused.err
    else:
        away.rename(path)
    assert Repo(path).git("status", "--porcelain") == "?? w"


@pytest.mark.parametrize(("there", "asked"), [("zeta", "zeta/sub"), ("zeta/sub/deep", "zeta/sub"), ("z", "z/a/b")])
def test_the_branch_in_the_way_of_a_name_is_named(repo: Repo, there: str, asked: str) -> None:
    repo.git("branch", there)
    refused = call("worktree-open", asked, cwd=repo.path)
    assert refused.status == 2
    assert f"beside branch {there}" in refused.err and "fsck" not in refused.err


def test_names_beside_each_other_are_free(repo: Repo) -> None:
    repo.git("branch", "zeta")
    assert call("worktree-open", "zeta-sub", cwd=repo.path).status == 0


def test_a_worktree_that_is_none_of_its_own_is_not_worked_in(tmp_path: Path) -> None:
    """core.worktree for all worktrees: git in a linked one works on the user's checkout."""
    repo = Repo.init(tmp_path / "r")
    repo.write("f", "0\n")
    repo.commit()
    repo.git("config", "core.worktree", str(repo.path))
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.write("f", "an unfinished edit\n")
    job = Job.begin(repo)
    with pytest.raises(CannotRun, match="isolated"):
        job.open("u")
    assert (repo.path / "f").read_text() == "an unfinished edit\n"
    assert not (repo.path / ".ktx/worktrees/j1/0001-u").exists()


@pytest.mark.parametrize("inside", [True, False])
def test_a_process_that_stands_in_a_worktree_keeps_it(repo: Repo, inside: bool) -> None:
    path = Path(call("worktree-open", "-q", "topic", cwd=repo.path).out.strip())
    process = subprocess.Popen(["sleep", "60"], cwd=path if inside else repo.path)
    try:
        ended = spawn("worktree-close", "topic", "--outcome", "success", cwd=repo.path)
    finally:
        process.kill()
        process.wait()
    assert ended.status == (1 if inside else 0)
    assert (str(process.pid) in ended.err) == inside == path.is_dir()


def test_whoever_stands_in_a_worktree_can_close_it(repo: Repo) -> None:
    path = Path(call("worktree-open", "-q", "topic", cwd=repo.path).out.strip())
    ended = call("worktree-close", "topic", "--outcome", "success", cwd=path)
    assert ended.status == 0, ended.err
    assert not path.exists()
