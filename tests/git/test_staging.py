"""Nothing is looked for, or removed, through a link: what lies there is elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.git import checkout, snapshot
from ktxkit.git.merging import changes
from ktxkit.git.neutral import open_neutral
from ktxkit.git.staging import stage
from tests.support.integration import world_at
from tests.support.repos import Repo


def linked(repo: Repo) -> None:
    """A committed directory becomes a link to one that has the same names."""
    shutil.rmtree(repo.path / "d")
    (repo.path / "d").symlink_to("other")


def linked_below(repo: Repo) -> None:
    shutil.rmtree(repo.path / "d/e")
    (repo.path / "d/e").symlink_to("../other/e")


def a_file(repo: Repo) -> None:
    shutil.rmtree(repo.path / "d")
    repo.write("d", "a file\n")


def a_directory(repo: Repo) -> None:
    (repo.path / "README").unlink()
    repo.write("README/in/it", "x\n")


def a_repository(repo: Repo) -> None:
    (repo.path / "README").unlink()
    Repo.init(repo.path / "README").git("commit", "-q", "--allow-empty", "-m", "inside")


@pytest.fixture
def tree(repo: Repo) -> Repo:
    repo.write("d/e/a", "a\n")
    repo.write("d/b", "b\n")
    repo.write("other/e/a", "not a\n")
    repo.write("other/b", "not b\n")
    repo.commit()
    return repo


@pytest.mark.parametrize("edit", [linked, linked_below, a_file, a_directory, a_repository])
def test_what_is_staged_is_what_git_add_would(tree: Repo, edit: Callable[[Repo], None], tmp_path: Path) -> None:
    edit(tree)
    state = tree.git_bytes("status", "--porcelain=v1", "-z", "-uall", "--no-renames").split(b"\0")[:-1]
    private = world_at(tree.path).git.having(GIT_INDEX_FILE=str(tmp_path / "index"))
    private.run("read-tree", "HEAD")
    stage(private, [line[3:] for line in state])
    told = snapshot.take(world_at(tree.path).git, world_at(tree.path).repository)
    tree.git("add", "-A")
    assert private.text("write-tree") == told.tree == tree.git("write-tree")


def test_a_way_back_removes_nothing_through_a_link(tree: Repo, tmp_path: Path) -> None:
    """A landing that was to replace a link by a directory is cut off before it did."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("somebody's\n")
    (tree.path / "link").symlink_to(outside)
    old = tree.commit()
    (tree.path / "link").unlink()
    tree.write("link/mine", "ours\n")
    new = tree.commit()
    tree.git("reset", "-q", "--hard", old)
    world = world_at(tree.path)
    with open_neutral(world) as neutral:
        entries = changes(neutral, old, new)
    assert checkout.restore(world.git, entries, tmp_path / "quarantine") == []
    assert (outside / "mine").read_text() == "somebody's\n"
    assert (tree.path / "link").is_symlink() and tree.git("status", "--porcelain") == ""
