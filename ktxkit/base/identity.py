"""Which directory it is, whatever stands at its path now: device, inode, birth time. And who works in it.

Where this ktxkit itself came from.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.reading import OPEN_DIRECTORY, small_file
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class IdentityFields(TypedDict):
        """What a lease says of the directory that is its worktree."""

        device: int
        inode: int
        birthTimeNs: NotRequired[int]


# statx(2), linux/stat.h: a structure of 256 bytes, the mask first, the birth time at byte 80.
PRIVATE = "private"  # in a worktree's git directory: the repository of a unit whose command runs (git/private.py)
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_BTIME_AT = 80


class Identity(NamedTuple):
    """A directory that can be told from another one put at the same path. `birth_ns` is nanoseconds since the epoch."""

    device: int
    inode: int
    birth_ns: int | None

    def document(self) -> IdentityFields:
        """Keys of a lease; a birth time that the file system does not know is absent."""
        made: IdentityFields = {"device": self.device, "inode": self.inode}
        made |= {} if self.birth_ns is None else {"birthTimeNs": self.birth_ns}
        return made

    def matches(self, document: IdentityFields) -> bool:
        """Whether a lease means this directory. Inodes are reused: where both know a birth time, it must agree."""
        born = document.get("birthTimeNs")
        same_birth = born is None or self.birth_ns is None or born == self.birth_ns
        return (self.device, self.inode) == (document["device"], document["inode"]) and same_birth


def identify(path: Path) -> Identity | None:
    """The identity of a real directory; None where there is none at this path (a link to one is none), or what it lies
    in is closed to us."""
    try:
        info = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a link's target is not the directory
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    if not stat.S_ISDIR(info.st_mode):
        return None
    return Identity(info.st_dev, info.st_ino, birth_time_ns(path))


def git_dir_of(path: Path) -> Path | None:
    """The git directory that a checkout's own `.git` names, resolved, there or not; None where `.git` names none.

    Where it names the private repository of a unit at work, the one that this lies in.
    """
    own = path / ".git"
    if identify(own) is not None:
        return Path(os.path.realpath(own))
    pointer = _small_file_in(path, b".git")
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return None
    named = Path(os.path.realpath(path / os.fsdecode(pointer[8:].rstrip(b"\n"))))
    return named.parent if is_private(named) else named


def is_private(git_dir: Path) -> bool:
    """Whether a git directory is the private repository of a unit at work."""
    return git_dir.name == PRIVATE and git_dir.parent.parent.name == "worktrees"


def is_apart(path: Path) -> bool:
    """Whether `.git` of a worktree names the private repository of a unit: none of our gits may run there."""
    pointer = _small_file_in(path, b".git")
    return pointer is not None and is_private(Path(os.fsdecode(pointer.removeprefix(b"gitdir: ").rstrip(b"\n"))))


def admin_names(admin: Path) -> Path | None:
    """The `.git` that a worktree's administrative directory names (gitrepository-layout(5), worktrees/<id>/gitdir)."""
    named = _small_file_in(admin, b"gitdir")
    return None if named is None else Path(os.fsdecode(named.rstrip(b"\n")))


def _small_file_in(directory: Path, name: bytes) -> bytes | None:
    try:
        fd = os.open(directory, OPEN_DIRECTORY)
    except OSError:
        return None
    try:
        return small_file(fd, name)
    finally:
        os.close(fd)


@cache
def _statx() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "statx", None)


def birth_time_ns(path: Path) -> int | None:
    """When the inode was made, in nanoseconds since the epoch; None where kernel or file system do not tell."""
    call = _statx()
    if call is None:
        return None
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if call(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", buffer, 0)
    if not mask & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_AT)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def processes_inside(path: Path) -> list[int]:
    """Process ids whose working directory is `path` or below it; this process may be one of them.

    Source: proc(5), /proc/PID/cwd. A process of another user cannot be asked; a store of mode 0700 keeps those out.
    """
    root = os.fsencode(os.path.realpath(path))
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            cwd = os.readlink(f"/proc/{name}/cwd".encode())  # noqa: PTH115 - bytes, exactly as the kernel has them
        except OSError:
            continue  # gate-ok: it ended meanwhile, or may not be asked
        if cwd == root or cwd.startswith(root + b"/"):
            found.append(int(name))
    return sorted(found)


def installed_from() -> tuple[str, str]:
    """Where this ktxkit was installed from, a URL or directory, and its commit; both empty where nothing says.

    Source: direct_url.json of the PyPA's specifications.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        said = json.loads(distribution("ktxkit").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return "", ""  # run from its sources, or installed by something that keeps no record
    url, vcs = said.get("url", ""), said.get("vcs_info", {})
    if "dir_info" in said and url.startswith("file:"):
        url = unquote(urlsplit(url).path)
    return url, vcs.get("commit_id", "")


def requirement() -> str:
    """What `pip install` takes to install this ktxkit into another environment."""
    source, commit = installed_from()
    return f"git+{source}@{commit}" if commit else source or "ktxkit"
