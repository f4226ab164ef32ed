"""The files that all worktrees of a repository share and that say what git does: its configuration, attributes, hooks.

Read and written as bytes. The configuration is written under git's own lock, only where it is what was seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract

CONFIGS = ("config", "config.worktree")
ATTRIBUTES = "info/attributes"
HOOKS = "hooks"
SIZE_LIMIT = 16 * 1024 * 1024  # bytes


NO_FILE = b"\0neither a file nor absent\0"  # stands for the bytes of a link, a directory, a device


@dataclass(frozen=True)
class Seen:
    """A file as it was: its bytes, and its permissions."""

    data: bytes
    mode: int


def watched(common_dir: Path) -> Iterator[str]:
    """Names below the common directory, those that may be absent included."""
    yield from (*CONFIGS, ATTRIBUTES)
    try:
        hooks = sorted(os.listdir(common_dir / HOOKS))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return  # gate-ok: no hooks at all: none to watch
    yield from (f"{HOOKS}/{name}" for name in hooks if not name.endswith(".sample"))


def signs(common_dir: Path) -> dict[str, str]:
    """The signature of each file that is there."""
    found = {name: _sign(common_dir / name) for name in watched(common_dir)}
    return {name: sign for name, sign in found.items() if sign}


def see(path: Path) -> Seen | None:
    """A file now; None where there is none."""
    data = current(path)
    if data is None:
        return None
    try:
        return Seen(data, stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode))  # noqa: PTH116
    except FileNotFoundError:
        return None


def _sign(path: Path) -> str:
    try:
        info = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{info.st_ino}:{info.st_mode:o}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def replace_config(path: Path, seen: bytes | None, wanted: Seen | None) -> bool:
    """Put `wanted` where `seen` is. False where git's lock is held, or the file is another one meanwhile."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        with open(descriptor, "wb", buffering=0) as stream:
            if current(path) != seen:
                return False
            if wanted is None:
                return files.remove(path)
            os.fchmod(stream.fileno(), wanted.mode)
            files.write_all(stream.fileno(), wanted.data)
            os.fsync(stream.fileno())
        os.replace(lock, path)  # noqa: PTH105
        return True
    finally:
        files.remove(lock)


def current(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none, NO_FILE where something else stands there."""
    try:
        return files.read(path, SIZE_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (BrokenContract, PermissionError):
        return NO_FILE
