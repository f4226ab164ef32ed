"""The hooks directory of a repository: what stands there, put and taken back in steps that a kill cannot spoil."""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import CannotRun
from ktxkit.gates.rules.hooks import CHAINED
from ktxkit.git.git import Git
from ktxkit.git.repository import Repository

MODE = 0o755


def body(name: str) -> bytes:
    """One of our hooks as it is shipped."""
    module = importlib.import_module("ktxkit.hooks")
    assert module.__file__ is not None
    return (Path(module.__file__).parent / name).read_bytes()


def settings(git: Git) -> tuple[str, str]:
    """Where `core.hooksPath` comes from (`local`, `worktree`, `global`, `system`) and what it says; empty: unset.

    `git` must not have pinned it.
    """
    answer = git.run("config", "--show-scope", "-z", "--get", "core.hooksPath", ok=(0, 1))
    scope, _, value = answer.out.removesuffix(b"\0").partition(b"\0")
    return os.fsdecode(scope), os.fsdecode(value)


def directory(git: Git) -> Path:
    """Where git looks for hooks, resolved."""
    answer = git.run("rev-parse", "--path-format=absolute", "--git-path", "hooks")
    return Path(os.path.realpath(answer.text))


def inside(path: Path, repository: Repository) -> bool:
    """Whether a resolved path is this repository's own: in its checkout or its common directory."""
    homes = [repository.common_dir, *([repository.top] if repository.top else [])]
    return any(path.is_relative_to(home) for home in homes)


def content(path: Path) -> bytes | None:
    """The hook that stands there; None where nothing does. A link is a hook with no content of ours."""
    try:
        return b"" if path.is_symlink() else path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise CannotRun("a directory stands where a hook is expected", where=str(path), hint="move it away") from error


def chained(path: Path) -> Path:
    """Where the hook is kept that was there before."""
    return path.with_name(path.name + CHAINED)


def same(path: Path) -> bool:
    """Whether the hook kept beside is the very file that still stands in its place."""
    beside = chained(path)
    return os.path.lexists(path) and os.path.lexists(beside) and os.path.samestat(path.lstat(), beside.lstat())


def keep(path: Path) -> None:
    """Give the hook that is there its second name. Until ours is put, git still runs it."""
    try:
        os.link(path, chained(path), follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(path, chained(path))  # noqa: PTH104 - a file system without hard links
    files.sync_dir(path.parent)


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """The hooks directory for ourselves: one install at a time, and what a killed one left half written is removed."""
    if not place.is_dir():
        files.make_dirs(place, 0o777)  # as git makes it; the umask decides
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        files.sweep_asides(place)
        yield
    finally:
        os.close(fd)


def put(path: Path, data: bytes) -> None:
    """Put one of our hooks, executable, as a whole or not at all."""
    files.write_atomic(path, data, mode=MODE)


def remove(path: Path) -> None:
    files.remove(path)
    files.sync_dir(path.parent)


def restore(path: Path) -> None:
    """Give the hook that was there before its name back: its bytes, its mode, its link."""
    if same(path):
        files.remove(chained(path))  # renaming a file to another name of itself does nothing (rename(2))
    else:
        os.replace(chained(path), path)  # noqa: PTH105
    files.sync_dir(path.parent)
