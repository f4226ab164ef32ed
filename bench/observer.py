"""Rows of the observer."""

from __future__ import annotations

import os
from pathlib import Path

from harness import Row, Work, Works, history, ours, run, shared

SIZE = 4096  # bytes of a file: 400 MB in 100,000


def _watched(files: int) -> tuple[Path, Path]:
    """A bare repository and the one checkout of it: what is watched is the worktree, and a second one takes as long."""

    def build(place: Path) -> None:
        repo = place / "repo"
        run("git", "init", "-q", "--bare", "-b", "main", repo, cwd=place)
        quick = ("-c", "core.compression=1", "fast-import", "--quiet", "--depth=0")
        run("git", *quick, cwd=repo, stdin=history(files, SIZE))
        run(ours("worktree-open"), "--job", "j", "--unit", "u", cwd=repo)
        run("git", "status", "--porcelain", cwd=repo / "ktx/worktrees/j/0001-u")
        os.sync()

    repo = shared(f"watched-{files}", build) / "repo"
    return repo, repo / "ktx/worktrees/j/0001-u"


def _look(repo: Path, *more: str) -> bytes:
    return run(ours("worktree-watch"), "--once", "--job", "j", "--unit", "u", *more, cwd=repo)


def _add(repo: Path, child: Path, place: Path) -> Work:
    """`git add -A` into an empty index; it finds that the objects are there, and writes none."""
    (place / "objects").mkdir()
    index = place / "index"
    env = (f"GIT_INDEX_FILE={index}", f"GIT_OBJECT_DIRECTORY={place / 'objects'}",
           f"GIT_ALTERNATE_OBJECT_DIRECTORIES={repo / 'objects'}")  # fmt: skip

    def work() -> None:
        index.unlink(missing_ok=True)
        run("env", *env, "git", "add", "-A", cwd=child)

    return work


def attach(place: Path, n: int) -> Works:
    """The attach of an observer; once, for it is attached then."""
    repo, child = _watched(n)
    return lambda: _look(repo), _add(repo, child, place)


def everything(place: Path, n: int) -> Works:
    """Everything is read, as it is before every verdict."""
    repo, child = _watched(n)
    _look(repo)
    return lambda: _look(repo, "--level", "content"), _add(repo, child, place)


def unchanged(_: Path, n: int) -> Works:
    """Nothing changed since the look before; the whole process."""
    repo, child = _watched(n)
    _look(repo)
    return lambda: _look(repo), lambda: run("git", "status", "--porcelain", cwd=child)


ROWS = [
    Row("worktree-watch --once, the attach", 100_000, "files", "git add -A, empty index", 0.5, attach,
        rounds=1, growth=(1_000, 10_000), seconds=180),
    Row("worktree-watch --once, all is read", 100_000, "files", "git add -A, empty index", 0.5, everything,
        rounds=3, growth=(1_000, 10_000), rss=40),
    Row("worktree-watch --once, nothing changed", 100_000, "files", "git status", 2.5, unchanged,
        rounds=5, growth=(1_000, 10_000), rss=40),
]  # fmt: skip
