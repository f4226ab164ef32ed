"""What a path leads to. Entries of a store are reached through descriptors, and no link is followed on the way.

What is mounted where: proc(5), /proc/PID/mountinfo.

Removing a checkout's files: never through a mount, and what would not go is told.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import Any, ClassVar

from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable

# Their events do not say what other machines do, and their inode numbers or times need not be stable.
REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "ceph", "glusterfs", "lustre", "afs", "coda"}
    | {"ncpfs", "beegfs", "orangefs", "davfs"}
)
DEEP = 20  # directories in each other that are open at a time
_OCTAL = re.compile(rb"\\([0-7]{3})")


_TO_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class StorePath(PosixPath):
    """A path of a store. Below `top` no directory on it may be a link: `entry` opens one in the other, so that nobody
    can put one there after a look. What is made of it (`parent`, `/`, `with_name`) is of its class."""

    top: ClassVar[str] = ""

    @classmethod
    def below(cls, top: Path) -> type[StorePath]:
        """The class of paths of the store at `top`."""
        return type(cls.__name__, (cls,), {"top": os.fspath(top)})


@contextmanager
def entry(path: Path) -> Iterator[tuple[str, int]]:
    """The name of an entry and a descriptor of its directory, for calls of `os` with `dir_fd`; errors name the path.

    Raises BrokenContract where something else stands in place of a directory of a store, OSError.
    """
    fd = _parent_of(path)
    try:
        yield path.name, fd
    except OSError as error:
        if error.filename in (path.name, "."):
            error.filename = os.fspath(path)
        raise
    finally:
        os.close(fd)


def _parent_of(path: Path) -> int:
    top, where = path.top if isinstance(path, StorePath) else "", os.fspath(path.parent)
    inside = bool(top) and f"{where}/".startswith(f"{top}/")
    try:
        if not inside:
            return os.open(where, _TO_DIRECTORY)
        fd = os.open(top, _TO_DIRECTORY | os.O_NOFOLLOW)
        for part in where[len(top) :].split("/")[1:]:
            try:
                below_it = os.open(part, _TO_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below_it
    except FileNotFoundError as error:
        error.filename = os.fspath(path)
        raise
    except NotADirectoryError as error:
        if not inside:
            raise
        raise in_the_way(path.parent, "directory") from error
    return fd


def in_the_way(path: Path, wanted: str) -> BrokenContract:
    """Something else stands where a directory or file of a store is expected."""
    return BrokenContract(
        f"something else stands where a {wanted} of the store is expected: a link would lead out of it",
        location=str(path),
        hint="look at what it is, and move it away; nothing was written or removed through it",
    )


def move(source: Path, goal: Path) -> None:
    """Rename an entry to another one. Raises as `entry` does."""
    with entry(source) as (name, fd), entry(goal) as (new, goal_fd):
        os.rename(name, new, src_dir_fd=fd, dst_dir_fd=goal_fd)


def make_private(path: Path) -> None:
    """Open a directory to its owner, and to nobody else. Raises as `entry` does."""
    with entry(path) as (name, at):
        fd = os.open(name, _TO_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)  # noqa: PTH101 - by its name it could be a link meanwhile
        finally:
            os.close(fd)


class Mount(NamedTuple):
    """A mount point and the type of what is mounted there. `device` and `root`: of the directory that is seen there, in
    its own file system."""

    point: bytes
    kind: str
    device: bytes = b""
    root: bytes = b"/"

    @property
    def remote(self) -> bool:
        """On a network, or served by a process (FUSE): only reading tells what is there."""
        return self.kind in REMOTE or self.kind.startswith("fuse")


def mounts(source: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """Every mount of this process's namespace, in order. Empty where /proc is not there."""
    try:
        lines = source.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        if len(fields) > 4 and right:
            kind = right.split(b" ")[0].decode("ascii", "replace")
            found.append(Mount(_plain(fields[4]), kind, fields[2], _plain(fields[3])))
    return found


def _plain(field: bytes) -> bytes:
    return _OCTAL.sub(lambda octal: bytes([int(octal.group(1), 8)]), field)


def below_by_mount(path: Path, top: Path, known: list[Mount]) -> bool:
    """Whether a mount makes of `path` a place in `top`, or `top` itself, which its name does not say. Real paths both.

    Each is looked up in the file system that its mount shows: a bind mount is another name of the same directory.
    """
    places = [_underlying(one, known) for one in (path, top)]
    if places[0] is None or places[1] is None or places[0][0] != places[1][0]:
        return False
    inner, outer = places[0][1], places[1][1]
    inside = inner == outer or inner.startswith(outer.rstrip(b"/") + b"/")
    named = os.fsencode(path) == os.fsencode(top) or os.fsencode(path).startswith(os.fsencode(top) + b"/")
    same = named and os.fsencode(path)[len(os.fsencode(top)) :] == inner[len(outer.rstrip(b"/")) :]
    return inside and not same


def _underlying(path: Path, known: list[Mount]) -> tuple[bytes, bytes] | None:
    """Device of a real path, and where it is in that file system; None where no mount is known."""
    mount = of(path, known)
    if mount is None:
        return None
    rest = os.fsencode(path)[len(mount.point.rstrip(b"/")) :]
    return mount.device, (mount.root.rstrip(b"/") + rest) or b"/"


def of(path: Path, known: list[Mount]) -> Mount | None:
    """The mount that a real path lies on: the longest point above it, the last one where two are the same."""
    place = os.fsencode(path)
    best: Mount | None = None
    for mount in known:
        inside = mount.point in (b"/", place) or place.startswith(mount.point + b"/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def below(path: Path, known: list[Mount]) -> frozenset[bytes]:
    """Mount points under a real path, relative to it."""
    prefix = os.fsencode(path).rstrip(b"/") + b"/"
    return frozenset(mount.point[len(prefix) :] for mount in known if mount.point.startswith(prefix))


def nothing_mounted(path: Path) -> None:
    """Raises Refused where something is mounted inside."""
    inside = sorted(below(path.resolve(), mounts()))
    if inside:
        shown = ", ".join(printable(point) for point in inside[:3]) + (", ..." if len(inside) > 3 else "")
        raise Refused(
            f"something is mounted inside it: {shown}", location=str(path), hint="unmount it, then close again"
        )


def delete(trash: Path | None) -> bool:
    """Delete what `let_go` left. False where something would not go (a process still writes there, a mount).

    Its directory is opened from the root on, and no link is followed on the way: behind one lies what is not ours.
    """
    if trash is None:
        return True
    if below(trash.resolve(), mounts()):
        return False
    try:
        parent = _opened(trash.parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _remove(parent, trash.name)
        return not _exists(parent, trash.name)
    finally:
        os.close(parent)


def delete_own(path: Path) -> None:
    """Delete a file or directory of ours, however deep. No link at it or in it is followed; what would not go stays."""
    try:
        with entry(path) as (name, parent):
            if _exists(parent, name):
                _remove(parent, name)
    except (OSError, BrokenContract):
        return  # gate-ok: its directory is gone, and it too


def _opened(directory: Path) -> int:
    """A descriptor of a directory, no component of whose absolute path is a link. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for part in directory.parts[1:]:
        try:
            below_it = os.open(part, flags, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below_it
    return fd


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _remove(parent: int, name: str) -> None:
    """Remove a tree however deep it is: what lies deeper than `DEEP` is moved up to the top, so that nothing does.

    No link is followed. What would not go stays.
    """
    fd = _listable(parent, name) if not _quietly(os.unlink, name, dir_fd=parent) else None
    if fd is None:
        return
    try:
        pending = os.listdir(fd)  # noqa: PTH208
        while pending:  # what somebody still writes there is not waited for
            pending += _taken_apart(fd, fd, pending.pop(), 1)
    finally:
        os.close(fd)
    _quietly(os.rmdir, name, dir_fd=parent)


def _taken_apart(top: int, parent: int, name: str, depth: int) -> list[str]:
    """Remove one entry; the names under which directories that lie too deep are at the top now."""
    try:
        os.unlink(name, dir_fd=parent)
        return []
    except OSError:
        if not _is_dir(parent, name):
            return []
    if depth > DEEP:
        there = f".up-{os.urandom(8).hex()}"
        return [there] if _quietly(os.rename, name, there, src_dir_fd=parent, dst_dir_fd=top) else []
    fd = _listable(parent, name)
    if fd is None:
        return []
    try:
        raised = [up for child in os.listdir(fd) for up in _taken_apart(top, fd, child, depth + 1)]  # noqa: PTH208
    finally:
        os.close(fd)
    _quietly(os.rmdir, name, dir_fd=parent)
    return raised


def _listable(parent: int, name: str) -> int | None:
    """A descriptor of a directory whose entries its owner may list and remove (a module cache is without that); None
    for anything else, a link too."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, os.O_PATH | flags, dir_fd=parent)
    except OSError:
        return None
    try:
        itself = f"/proc/self/fd/{fd}"  # by its name it could be a link meanwhile, and the modes those of its goal
        if os.fstat(fd).st_mode & 0o700 != 0o700:
            _quietly(os.chmod, itself, 0o700)
        return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(fd)


def _is_dir(fd: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _quietly(act: Callable[..., object], *words: Any, **more: Any) -> bool:
    try:
        act(*words, **more)
    except OSError:
        return False
    return True
