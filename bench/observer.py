"""Rows of the observer."""

from __future__ import annotations

import os
from pathlib import Path

from harness import Row, Works, ours, repository, run, shared

SIZE = 4096  # bytes of a file: 400 MB in 100,000


def _watched(files: int) -> tuple[Path, Path]:
    def build(place: Path) -> None:
        repo = repository(place, files, SIZE)
        run(ours("worktree-open"), "--job", "j", "--unit", "u", cwd=repo)
        run("git", "status", "--porcelain", cwd=repo / ".ktx/worktrees/j/0001-u")

    repo = shared(f"watched-{files}", build) / "repo"
    return repo, repo / ".ktx/worktrees/j/0001-u"


def everything(place: Path, n: int) -> Works:
    """Everything is read: the attach of an observer beside `git add -A` into an empty index."""
    repo, child = _watched(n)
    objects = place / "objects"
    objects.mkdir()
    env = (f"GIT_INDEX_FILE={place / 'index'}", f"GIT_OBJECT_DIRECTORY={objects}",
           f"GIT_ALTERNATE_OBJECT_DIRECTORIES={repo / '.git/objects'}")  # fmt: skip
    os.sync()
    return (
        lambda: run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo),
        lambda: run("env", *env, "git", "add", "-A", cwd=child),
    )


def unchanged(_: Path, n: int) -> Works:
    """Nothing changed since the look before; the whole process."""
    repo, child = _watched(n)
    run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo)
    return (
        lambda: run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo),
        lambda: run("git", "status", "--porcelain", cwd=child),
    )


ROWS = [
    Row("worktree-watch --once, all is read", 100_000, "files", "git add -A, empty index", 0.5, everything,
        rounds=1, growth=(1_000, 10_000), seconds=180),
    Row("worktree-watch --once, nothing changed", 100_000, "files", "git status", 2.5, unchanged,
        rounds=5, growth=(1_000, 10_000), rss=40),
]  # fmt: skip
