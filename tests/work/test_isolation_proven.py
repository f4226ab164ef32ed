"""Isolation is proven when a worktree is opened: nothing is written to a place that is another checkout's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktxkit.base.removal import Mount, below_by_mount
from tests.support.commands import call
from tests.support.repos import Repo

Bind = Callable[[Path, Path], None]


@pytest.fixture
def bind() -> Iterator[Bind]:
    """Show a directory at another path too."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    done: list[Path] = []

    def mount(source: Path, at: Path) -> None:
        at.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["mount", "--bind", source, at], capture_output=True, check=False).returncode:
            pytest.skip("mounting is not allowed here")
        done.append(at)

    yield mount
    for place in reversed(done):
        subprocess.run(["umount", place], check=True)


def refused(repo: Repo, *words: str | Path) -> str:
    before = looked(repo)
    done = call("worktree-open", *words, cwd=repo.path)
    assert done.status == 1 and done.out == "", done
    assert looked(repo) == before
    return done.err


def looked(repo: Repo) -> tuple[list[str], str]:
    status = repo.git("status", "--porcelain", "-uall", "--ignored").splitlines()
    return [line for line in status if ".ktx" not in line], repo.git("worktree", "list")


def test_a_mount_of_the_checkout(repo: Repo, tmp_path: Path, bind: Bind) -> None:
    repo.write("src/file", "mine\n")
    repo.commit()
    (repo.path / "src/place").mkdir()
    bind(repo.path / "src", tmp_path / "alias")
    assert "a mount makes of that" in refused(repo, "work", "--path", tmp_path / "alias/place")


def test_a_mount_in_the_place_of_worktrees(repo: Repo, bind: Bind) -> None:
    """Also where the store's own directory of worktrees is another name of the checkout's."""
    repo.write("src/file", "mine\n")
    repo.commit()
    assert call("worktree-open", "first", cwd=repo.path).status == 0
    bind(repo.path / "src", repo.path / ".ktx/worktrees/adhoc")
    assert "a mount makes of that" in refused(repo, "work")
    assert sorted(path.name for path in (repo.path / "src").iterdir()) == ["file"]


def test_a_mount_of_another_worktree(repo: Repo, tmp_path: Path, bind: Bind) -> None:
    repo.git("worktree", "add", "-q", "-b", "other", tmp_path / "other")
    (tmp_path / "other/place").mkdir()
    bind(tmp_path / "other", tmp_path / "alias")
    assert "a mount makes of that" in refused(repo, "work", "--path", tmp_path / "alias/place")


def test_a_place_inside_another_worktree(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "other", tmp_path / "other")
    assert "lies in another worktree" in refused(repo, "work", "--path", tmp_path / "other/deep/place")


def test_a_mount_that_is_nobodys_serves(repo: Repo, tmp_path: Path, bind: Bind) -> None:
    (tmp_path / "disk").mkdir()
    bind(tmp_path / "disk", tmp_path / "mounted")
    assert call("worktree-open", "work", "--path", tmp_path / "mounted/place", cwd=repo.path).status == 0
    assert (tmp_path / "disk/place/README").exists()


@pytest.mark.parametrize("where", ["shared", "worktree"])
def test_a_core_worktree(repo: Repo, where: str) -> None:
    """In the configuration that all share it is refused; in that of the main checkout alone it concerns nobody."""
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree" if where == "worktree" else "--local", "core.worktree", str(repo.path))
    done = call("worktree-open", "work", cwd=repo.path)
    top = Repo(Path(done.out.strip())).git("rev-parse", "--show-toplevel") if done.status == 0 else ""
    assert top == (str(repo.path / ".ktx/worktrees/adhoc/work") if done.status == 0 else "")
    assert done.status == 0 or "nothing in it would be isolated" in done.err
    assert repo.git("status", "--porcelain") == ""


MOUNTS = [Mount(b"/", "ext4", b"8:1"), Mount(b"/alias", "ext4", b"8:1", b"/repo/src"), Mount(b"/data", "xfs", b"8:2")]
PLACES = {
    ("/repo/.ktx/w", "/repo"): False,
    ("/alias/w", "/repo"): True,
    ("/alias", "/repo/src"): True,
    ("/repo", "/repo"): False,
    ("/repo2/w", "/repo"): False,
    ("/data/repo/src", "/repo"): False,
    ("/repo/src/w", "/alias"): True,
    ("/alias/w", "/alias"): False,
}


@pytest.mark.parametrize(("path", "top"), PLACES)
def test_the_same_directory_by_another_name(path: str, top: str) -> None:
    assert below_by_mount(Path(path), Path(top), MOUNTS) is PLACES[path, top]
