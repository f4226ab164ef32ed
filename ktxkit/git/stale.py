"""What a git that was killed leaves behind: locks, and half of a worktree's registration. Cleared only when proven.

Proven means: no process lives that could be at work on it, that is, no git of this repository that writes and started
before the thing was made.
Age alone proves nothing. Looking and removing is one step for all of ours (a flock on the git directory): where two
looked at one lock, the second took away the next one, which a git had made meanwhile.
An empty `commondir` of one half-made worktree ends `git worktree list` for the whole repository, and a lock of one of
our refs ends every later update of it: both happen when the power goes (measured).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ktxkit.base import files, owners, process
from ktxkit.base.clock import LIMITS
from ktxkit.base.lock import flocked_directory
from ktxkit.base.removal import delete_own
from ktxkit.git.git import lock_in_the_way
from ktxkit.git.repository import SMALL, registrations

MARGIN = 0.2  # seconds: a process start is known to a clock tick only
TICK = 0.01  # seconds: how coarse the times of files are
READERS = (b"cat-file", b"daemon", b"fsmonitor--daemon", b"credential-cache--daemon")  # live long, write nothing here
ESSENTIAL = ("gitdir", "commondir", "HEAD")  # files of a registration, each written whole by git, none atomically


def started(pid: int) -> float | None:
    """When a process started, in seconds since the epoch; None where it is gone."""
    ticks = owners.start_time(pid)
    if ticks is None:
        return None
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def writers(common_dir: Path, *words: bytes) -> list[int]:
    """Live git processes that may write to this repository; with `words`, only those with all of them as arguments.

    One belongs to it by its working directory, or where its arguments or environment name the git directory; one that
    may not be asked counts. Source: proc(5).
    """
    roots = _roots(common_dir)
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            argv = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # gate-ok: it ended meanwhile
        is_git = os.path.basename(argv[0]).startswith(b"git")  # noqa: PTH119
        writes = is_git and all(word in argv for word in words) and not any(word in argv for word in READERS)
        if writes and _concerns(name, argv, roots):
            found.append(int(name))
    return found


def at_work_on(path: Path) -> list[int]:
    """Live git processes that stand in a worktree, or whose arguments name it: a killed opening's children live on."""
    root = os.fsencode(os.path.realpath(path))
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            argv = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0") if name.isdigit() else []
            cwd = os.readlink(f"/proc/{name}/cwd".encode()) if argv else b""  # noqa: PTH115
        except OSError:
            continue  # gate-ok: it ended meanwhile, or is not ours
        inside = cwd == root or cwd.startswith(root + b"/")
        if argv and os.path.basename(argv[0]).startswith(b"git") and (inside or root in argv):  # noqa: PTH119
            found.append(int(name))
    return found


def _roots(common_dir: Path) -> list[bytes]:
    """The git directory and every checkout that is registered in it, read from its files: git may be stuck."""
    roots = [os.fsencode(common_dir)]
    if common_dir.name == ".git":
        roots.append(os.fsencode(common_dir.parent))
    for named in (admin / "gitdir" for admin in registrations(common_dir)):
        if named.exists():
            roots.append(files.read(named, SMALL).strip().removesuffix(b"/.git"))
    return [root for root in roots if root]


def _concerns(pid: str, argv: list[bytes], roots: list[bytes]) -> bool:
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())  # noqa: PTH115
        said = [*argv, *Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(cwd == root or cwd.startswith(root + b"/") for root in roots) or any(roots[0] in word for word in said)


def is_stale(path: Path, common_dir: Path, *words: bytes, age: float = LIMITS.lock_age) -> bool:
    """Whether nobody can be at work on it any more: it is old enough to ask (`age`: seconds), and no git lives that is
    older."""
    try:
        made = os.stat(path, follow_symlinks=False).st_ctime  # noqa: PTH116
    except FileNotFoundError:
        return False
    if time.time() - made < age:
        return False
    starts = [started(pid) for pid in writers(common_dir, *words)]
    return not any(start is not None and start <= made + MARGIN for start in starts)


def clear_lock(message: bytes, inside: Path, age: float = LIMITS.lock_age) -> bool:
    """Remove the lock that git complained of, where it lies inside `inside` and is stale. True where it is gone."""
    named = lock_in_the_way(message)
    if not named:
        return False
    path = Path(os.path.realpath(named))
    if inside not in path.parents:
        return False
    with flocked_directory(inside):
        return not os.path.lexists(path) or (is_stale(path, inside, age=age) and files.remove(path))


def clear_ref_locks(
    git_dir: Path, common_dir: Path, ref: str, since: float, age: float = LIMITS.lock_age
) -> list[Path]:
    """Remove the stale locks of a ref, and of its checkout's HEADs, that were made after `since`; those removed.

    `since`, in seconds since the epoch: when the process of ours began that died in moving that ref. A lock that is
    older, or that some process has open, is somebody else's.
    """
    locks = (common_dir / f"{ref}.lock", git_dir / "HEAD.lock", git_dir / "ORIG_HEAD.lock")
    return [path for path in locks if clear_left_behind(path, common_dir, since, age, files.remove)]


def clear_left_behind(
    path: Path, common_dir: Path, since: float, age: float, clear: Callable[[Path], object] = files.remove
) -> bool:
    """Take a lock away, by `clear`, where it was left behind (`left_behind`). Raises what that raises."""
    if not os.path.lexists(path):
        return False
    with flocked_directory(common_dir):
        return left_behind(path, common_dir, since, age) and clear(path) is not False


def holders(path: Path, common_dir: Path) -> list[int]:
    """Who may hold a lock: the processes that have it open, else the gits of the repository that write and are older.

    git closes the lock of an index while an editor is open.
    """
    opened = process.opened_by(path)
    if opened or not os.path.lexists(path):
        return opened
    made = os.lstat(path).st_ctime
    return [pid for pid in writers(common_dir) if (start := started(pid)) is not None and start <= made + MARGIN]


def left_behind(path: Path, common_dir: Path, since: float, age: float = LIMITS.lock_age) -> bool:
    """Whether a lock is there that was made after `since` (seconds since the epoch), that no process has open, and
    that no git lives for. git closes the lock of an index while an editor is open: that nobody has it open proves
    nothing alone."""
    try:
        made = os.stat(path, follow_symlinks=False).st_ctime  # noqa: PTH116
    except FileNotFoundError:
        return False
    if made + TICK < since or process.has_open(path):
        return False
    wait = made + age - time.time()
    if 0 < wait <= age:
        time.sleep(wait)
    return is_stale(path, common_dir, age=age)


def clear_registrations(common_dir: Path, age: float = LIMITS.lock_age) -> list[str]:
    """Remove half-made registrations of worktrees; returns their names. No `worktree add` of ours may run meanwhile."""
    cleared = []
    for admin in registrations(common_dir):
        if _is_whole(admin) or not is_stale(admin, common_dir, b"worktree", b"add", age=age):
            continue
        if _is_whole(admin):  # the git that made it ended well while we looked for it
            continue
        delete_own(admin)
        cleared.append(admin.name)
    return cleared


def half_registered(common_dir: Path) -> bool:
    """Whether any registration is not whole: one is being made, or was cut short."""
    return not all(map(_is_whole, registrations(common_dir)))


def _is_whole(admin: Path) -> bool:
    return all((admin / name).is_file() and (admin / name).stat().st_size > 0 for name in ESSENTIAL)
