"""The tree of a checkout is the tree that committing all of it gives, and computing it leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktxkit.git import snapshot
from ktxkit.git.snapshot import TreeState
from ktxkit.store.world import World
from tests.support.repos import Repo


def take(repo: Repo, changed_bytes: int = snapshot.CHANGED_BYTES) -> TreeState:
    world = World(repo.path, os.environ)
    return snapshot.take(world.git, world.repository, changed_bytes)


def edit(repo: Repo, how: str) -> None:
    if how == "same size, same second":
        repo.write("README", "A repository\n")
    elif how == "untracked":
        repo.write("new/file", "x")
    elif how == "deleted":
        (repo.path / "README").unlink()
    elif how == "staged and changed again":
        repo.write("README", "one\n")
        repo.git("add", "README")
        repo.write("README", "two\n")
    elif how == "mode":
        (repo.path / "README").chmod(0o755)
    elif how == "a link":
        (repo.path / "README").unlink()
        (repo.path / "README").symlink_to("nowhere")
    elif how == "a name that is not UTF-8":
        repo.write(b"\xff\xfe name", "x")
    elif how == "a file becomes a directory":
        (repo.path / "README").unlink()
        repo.write("README/inside", "x")
    elif how == "many":
        for number in range(300):
            repo.write(f"d{number % 7}/f{number}", str(number))


HOW = [
    "nothing", "same size, same second", "untracked", "deleted", "staged and changed again", "mode", "a link",
    "a name that is not UTF-8", "a file becomes a directory", "many",
]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_it_is_what_a_commit_of_everything_has(repo: Repo, how: str) -> None:
    edit(repo, how)
    before = sorted(repo.path.rglob("*"))
    index = (repo.path / ".git/index").read_bytes()
    state = take(repo)
    assert sorted(repo.path.rglob("*")) == before and (repo.path / ".git/index").read_bytes() == index
    assert state.dirty is (how != "nothing") and state.commit == repo.head
    repo.commit()
    assert state.tree == repo.tree, how
    assert take(repo).tree == repo.tree and not take(repo).dirty


def test_an_unborn_branch(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    assert take(repo).commit is None
    repo.write("a", "x")
    state = take(repo)
    repo.commit()
    assert state.tree == repo.tree and state.commit is None


def test_a_linked_worktree_and_a_submodule(repo: Repo, tmp_path: Path) -> None:
    other = Repo.init(tmp_path / "other")
    other.write("a", "x")
    other.commit()
    repo.git("submodule", "--quiet", "add", str(other.path), "sub")
    repo.commit()
    assert take(repo).tree == repo.tree
    repo.write("sub/a", "changed inside")
    assert take(repo).tree is None and "submodule" in take(repo).why
    repo.git("worktree", "add", "-q", tmp_path / "w")
    linked = repo.at(tmp_path / "w")
    linked.write("new", "x")
    state = take(linked)
    linked.commit()
    assert state.tree == linked.tree


def test_ignored_files_are_seen_but_in_no_tree(repo: Repo) -> None:
    repo.write(".gitignore", "*.out\nbuild/\n__pycache__/\n")
    repo.commit()
    first = take(repo)
    repo.write("a.out", "1")
    second = take(repo)
    assert first.tree == second.tree == repo.tree and first.generated != second.generated
    repo.write("build/deep/x", "1")
    third = take(repo)
    assert third.generated != second.generated
    repo.write("__pycache__/x.pyc", "1")
    assert take(repo).generated == third.generated, "a cache is no input"


def test_too_much_to_read_is_not_known(repo: Repo) -> None:
    repo.write("big", "x" * 100)
    state = take(repo, changed_bytes=10)
    assert state.tree is None and "too many" in state.why
