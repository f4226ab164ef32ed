"""Files that a checkout lacks but work needs (`.env`, caches) come along: cloned where the file system can."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import printable
from ktxkit.git.git import Git

FICLONE = 0x40049409  # ioctl_ficlonerange(2)
# "This file system, or this pair of files, cannot": copy the bytes then.
CANNOT_CLONE = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.EPERM, errno.ENOSYS}
BLOCK = 1 << 20


@dataclass(frozen=True)
class Copied:
    """What came along: paths, how many of them were cloned, and patterns that matched nothing."""

    paths: tuple[bytes, ...]
    cloned: int
    unmatched: tuple[str, ...]


def wanted(git: Git, patterns: Sequence[str]) -> tuple[list[bytes], list[str]]:
    """Ignored files of the checkout at `git` that the patterns (as in .gitignore) name; patterns that name none."""
    ignored = set(git.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard").nul)
    found: set[bytes] = set()
    unmatched = []
    for pattern in patterns:
        named = set(git.run("ls-files", "-z", "--others", "--ignored", f"--exclude={pattern}").nul) & ignored
        here = {path for path in named if not path.startswith(b".ktx/") and not path.endswith(b"/")}
        found |= here
        unmatched += [] if here else [pattern]
    return sorted(found), unmatched


def copy_into(git: Git, target: Path, patterns: Sequence[str]) -> Copied:
    """Copy from the checkout at the top of which `git` stands. What is there already stays.

    Raises CannotRun for a file that git would not ignore in the target: it would become part of the unit's change.
    """
    found, unmatched = wanted(git, patterns)
    there = git.at(target)
    paths = [path for path in found if _has_room(target, path)]
    if paths:
        listed = b"".join(path + b"\0" for path in paths)
        free = {"GIT_LITERAL_PATHSPECS": "0"}
        ignored = set(there.run("check-ignore", "-z", "--stdin", "--no-index", stdin=listed, ok=(0, 1), env=free).nul)
        bare = [path for path in paths if path not in ignored]
        if bare:
            raise CannotRun(
                f"{printable(bare[0])} is not ignored at the base: a copy would become part of the change",
                hint="add a rule to .gitignore or info/exclude, or leave it out of --copy",
            )
    done, cloned = [], 0
    for path in paths:
        source, goal = _at(git.cwd, path), _at(target, path)
        files.make_dirs(goal.parent, 0o755)
        cloned += _copy(source, goal)
        done.append(path)
    return Copied(tuple(done), cloned, tuple(unmatched))


def _at(top: Path, path: bytes) -> Path:
    return Path(os.fsdecode(bytes(top) + b"/" + path))


def _has_room(target: Path, path: bytes) -> bool:
    """Nothing is there yet, and no file or link on the way (a link could lead out of the worktree)."""
    goal = _at(target, path)
    parents = [parent for parent in goal.parents if target in parent.parents]
    blocked = any(os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()) for parent in parents)
    return not blocked and not os.path.lexists(goal)


def _copy(source: Path, goal: Path) -> bool:
    """Copy a file with its mode and times, or a link as a link. True where the bytes were cloned, not copied."""
    info = os.stat(source, follow_symlinks=False)  # noqa: PTH116
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(source), goal)  # noqa: PTH115, PTH211
        return False
    if not stat.S_ISREG(info.st_mode):
        return False
    with open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as reader:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(goal, flags, stat.S_IMODE(info.st_mode) | 0o200)
        try:
            cloned = _clone(reader.fileno(), fd)
            while not cloned and (block := reader.read(BLOCK)):
                files.write_all(fd, block)
            os.fchmod(fd, stat.S_IMODE(info.st_mode))
            os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(fd)
    return cloned


def _clone(source: int, goal: int) -> bool:
    try:
        fcntl.ioctl(goal, FICLONE, source)
    except OSError as error:
        if error.errno in CANNOT_CLONE:
            return False
        raise
    return True
