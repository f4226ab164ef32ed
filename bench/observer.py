"""Rows of the observer."""

from __future__ import annotations

import os
from pathlib import Path

from harness import Row, Work, ours, repository, run

FILES = 100_000


def _watched(place: Path) -> tuple[Path, Path]:
    repo = repository(place, FILES)
    run(ours("worktree-open"), "--job", "j", "--unit", "u", cwd=repo)
    return repo, repo / ".ktx/worktrees/j/0001-u"


def unchanged(place: Path) -> tuple[Work, Work]:
    """Nothing changed since the look before; the whole process."""
    repo, child = _watched(place)
    run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo)
    run("git", "status", "--porcelain", cwd=child)
    return (
        lambda: run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo) and None,
        lambda: run("git", "status", "--porcelain", cwd=child) and None,
    )


def everything(place: Path) -> tuple[Work, Work]:
    """Everything is read: the attach of an observer beside `git add -A` into an empty index."""
    repo, child = _watched(place)
    index = place / "index"

    def peer() -> None:
        run("env", f"GIT_INDEX_FILE={index}", "git", "add", "-A", cwd=child)

    os.sync()
    return lambda: run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", cwd=repo) and None, peer


ROWS = [
    Row("worktree-watch --once again, 100,000 files", "git status", 2.5, unchanged, rounds=1),
    Row("worktree-watch --once, all of 100,000 files read", "git add -A, empty index", 0.5, everything, rounds=1),
]
