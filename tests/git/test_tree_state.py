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
    repo.write("sub/__pycache__/a.cpython-312.pyc", "made by a run")
    repo.write("sub/.pytest_cache/x", "too")
    assert take(repo).tree == repo.tree and not take(repo).dirty, "what runs leave is no change of a submodule"
    repo.write("sub/new", "x")
    assert take(repo).tree is None
    (repo.path / "sub/new").unlink()
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


@pytest.mark.parametrize("below", ["", "deep/er/"])
def test_a_cache_that_ignores_itself_is_no_input(repo: Repo, below: str) -> None:
    """`.pytest_cache/.gitignore` has `*`: git lists what is in it one by one."""
    repo.write(f"{below}.pytest_cache/.gitignore", "*\n")
    repo.write(f"{below}.pytest_cache/README.md", "pytest's")
    before = take(repo)
    repo.write(f"{below}.pytest_cache/v/cache/nodeids", "[1]")
    repo.write(f"{below}.pytest_cache/README.md", "another size")
    assert take(repo).generated == before.generated == take(repo).generated
    repo.write(".gitignore", "a.out\n")
    repo.write("a.out", "1")
    assert take(repo).generated != before.generated


def test_too_much_to_read_is_not_known(repo: Repo) -> None:
    repo.write("big", "x" * 100)
    state = take(repo, changed_bytes=10)
    assert state.tree is None and "too many" in state.why


HIDE = {
    "assume-unchanged": ("update-index", "--assume-unchanged", "f"),
    "skip-worktree": ("update-index", "--skip-worktree", "f"),
}


@pytest.mark.parametrize("how", HIDE)
def test_what_git_was_told_not_to_look_at_is_seen(repo: Repo, how: str) -> None:
    repo.write("f", "before")
    repo.commit()
    repo.git(*HIDE[how])
    repo.write("f", "after!")
    index = (repo.path / ".git/index").read_bytes()
    found = take(repo)
    assert found.dirty and found.changed == ("f",)
    assert (repo.path / ".git/index").read_bytes() == index, "the user's own index is as it was"
    repo.git("update-index", f"--no-{how}", "f")
    repo.commit()
    assert found.tree == repo.tree and not take(repo).dirty


def test_a_sparse_checkout_hides_nothing(repo: Repo) -> None:
    repo.write("in/f", "1")
    repo.write("out/g", "1")
    repo.commit()
    repo.git("sparse-checkout", "set", "--cone", "in")
    assert not (repo.path / "out").exists()
    found = take(repo)
    assert not found.dirty and found.tree == repo.tree


def test_an_edit_that_keeps_size_and_time_is_seen_whatever_is_configured(repo: Repo) -> None:
    path = repo.write("f", "one")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    repo.commit()
    for key, value in (("core.trustctime", "false"), ("core.checkStat", "minimal"), ("core.ignoreStat", "true")):
        repo.git("config", key, value)
    os.utime(repo.path / ".git/index")
    first = int(path.stat().st_ctime)
    while int(path.stat().st_ctime) == first:  # git compares whole seconds
        path.write_text("two")
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert take(repo).changed == ("f",)


def test_a_submodule_that_is_configured_away_is_seen(repo: Repo, tmp_path: Path) -> None:
    inner = Repo.init(tmp_path / "inner")
    inner.write("g", "1")
    inner.commit()
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
    repo.commit()
    repo.git("config", "submodule.sub.ignore", "all")
    repo.git("config", "diff.ignoreSubmodules", "all")
    (repo.path / "sub/g").write_text("2")
    found = take(repo)
    assert found.dirty and found.tree is None and "submodule" in found.why


LEFT = [
    *["__pycache__/calc.cpython-312.pyc", "a/__pycache__/t.cpython-313-pytest-9.0.2.pyc"],
    *["p/x.pypy310.pyc", "a/__pycache__/t.cpython-312.opt-1.pyc", "__pycache__/f.f-3.py312.cpython-312.1.nbc"],
    *[
        ".pytest_cache/v/cache/lastfailed",
        "a/.hypothesis/examples/x",
        ".coverage",
        ".coverage.host.1.x",
        ".testmondata",
    ],
]
NOT_LEFT = ["__pycache__/conftest.py", "calc.pyc", "x.coverage", "coverage.py", "a/cpython-312.py", ".coveragerc"]


@pytest.mark.parametrize("path", LEFT)
def test_what_runs_of_tests_leave_is_no_content(repo: Repo, path: str) -> None:
    before = take(repo)
    repo.write(path, "made by a run")
    found = take(repo)
    assert (found.tree, found.dirty, found.changed) == (before.tree, before.dirty, before.changed)


@pytest.mark.parametrize("path", NOT_LEFT)
def test_what_only_looks_like_it_is_content(repo: Repo, path: str) -> None:
    repo.write(path, "by hand")
    assert path in take(repo).changed


def test_bytecode_that_is_tracked_and_made_anew_is_no_edit(repo: Repo) -> None:
    repo.write("__pycache__/m.cpython-312.pyc", "1")
    repo.commit()
    repo.write("__pycache__/m.cpython-312.pyc", "2")
    found = take(repo)
    assert not found.dirty and found.tree == repo.tree
