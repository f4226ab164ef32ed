"""The reader that a run keeps answers as a git of its own would: refs as they are now, and after a death too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.git.git import Git
from ktxkit.git.neutral import reading
from ktxkit.git.objects import Objects
from tests.support.integration import world_at
from tests.support.repos import Repo


def children() -> set[int]:
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def moved(repo: Repo, ref: str) -> str:
    commit = repo.git("commit-tree", repo.tree, "-p", repo.head, "-m", "another")
    repo.git("update-ref", ref, commit)
    return commit


def test_a_ref_is_looked_up_anew_each_time(repo: Repo) -> None:
    world, others = world_at(repo.path), children()
    with reading(world):
        assert world.git.resolve("refs/heads/x") is None
        changes: list[Callable[[], str]] = [
            lambda: moved(repo, "refs/heads/x"),
            lambda: repo.git("pack-refs", "--all"),
            lambda: moved(repo, "refs/heads/x"),
            lambda: repo.git("gc", "-q", "--prune=now"),
            lambda: repo.git("tag", "-a", "-m", "t", "-f", "x", "refs/heads/x"),
        ]
        for change in changes:
            change()
            assert world.git.resolve("refs/heads/x") == repo.git("rev-parse", "refs/heads/x")
        assert world.git.resolve("refs/tags/x") == repo.git("rev-parse", "refs/heads/x")
        assert world.git.resolve("refs/tags/x", "tree") == repo.tree
        repo.git("update-ref", "-d", "refs/heads/x")
        assert world.git.resolve("refs/heads/x") is None
        assert len(children() - others) == 1


def test_only_where_it_sees_the_same(repo: Repo, tmp_path: Path) -> None:
    """Another repository's refs, a revision that is no plain name, and HEAD are asked of a git there."""
    other = Repo.init(tmp_path / "other")
    other.write("a", "a")
    other.commit()
    world, others = world_at(repo.path), children()
    with reading(world):
        assert world.git.at(other.path).resolve("refs/heads/main") == other.head
        assert world.git.resolve("HEAD~0") == repo.head
        assert world.git.resolve("HEAD", "tree") == repo.tree
        assert children() == others, "nothing was asked of the reader"


def test_a_broken_ref_asked_a_thousand_times(repo: Repo) -> None:
    """git has a line for it on stderr each time; a pipe holds 64 KiB of them."""
    repo.write(".git/refs/heads/broken", "nonsense\n")
    world = world_at(repo.path)
    with reading(world):
        assert {world.git.resolve("refs/heads/broken") for _ in range(2000)} == {None}
        assert world.git.resolve("refs/heads/main") == repo.head


def test_a_killed_reader_is_replaced(repo: Repo) -> None:
    others = children()
    with Objects(Git.scrub(repo.path, dict(os.environ))) as objects:
        (pid,) = children() - others
        assert objects.find("HEAD") == (repo.head, "commit", len(repo.git_bytes("cat-file", "commit", "HEAD")))
        questions: list[Callable[[], object]] = [
            lambda: objects.find("HEAD"),
            lambda: objects.read(repo.tree),
            lambda: list(objects.each([repo.head, repo.tree])),
            lambda: objects.content(repo.tree),
        ]
        for question in questions:
            before = question()
            os.kill(pid, signal.SIGKILL)
            assert question() == before
            (pid,) = children() - others


def test_an_answer_that_was_cut_off_is_not_taken_for_the_next(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a read: what is left in the pipe belongs to a question that nobody asks any more."""
    with Objects(Git.scrub(repo.path, dict(os.environ))) as objects:
        whole = Objects._answer

        def interrupted(self: Objects) -> tuple[str, str, int] | None:
            whole(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(Objects, "_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            objects.read(repo.head)
        monkeypatch.undo()
        assert objects.read(repo.tree) == repo.git_bytes("cat-file", "tree", repo.tree)


def test_one_that_cannot_read_says_why(repo: Repo) -> None:
    repo.write(".git/config", "[core\n")
    with Objects(Git.scrub(repo.path, dict(os.environ))) as objects, pytest.raises(CannotRun, match="bad config line"):
        objects.find("HEAD")
