"""How a git ended that gave no answer: killed, out of a resource of the machine, or held up by another git's lock.

The one place that tells these from an answer. What git says is matched in the C locale, in which every git of ours
runs. Source: strerror(3), usage.c, wrapper.c, lockfile.c, read-cache.c and csum-file.c in git.
"""

from __future__ import annotations

import re

KILLED_BY = (4, 6, 7, 8, 9, 11, 15, 24, 25, 31)  # signals; 128 and one of these: a shell's or git's child was killed
# What the kernel refuses a process for want of something that no unit owns.
REFUSALS = (
    "No space left on device", "Disk quota exceeded", "Too many open files", "Too many open files in system",
    "Cannot allocate memory", "Resource temporarily unavailable", "Input/output error", "Read-only file system",
    "No such device", "No such device or address", "File too large", "Stale file handle", "Too many users",
)  # fmt: skip
_REFUSED = re.compile(rb": (?:" + b"|".join(map(re.escape, (text.encode() for text in REFUSALS))) + rb")\s*$", re.M)
_UNWRITTEN = re.compile(
    rb"^(?:fatal|error|warning): (?:(?:unable to|could not|failed to) write|write error|.* write error. Out of disk)"
    rb"|error while loading shared libraries: .*: Error 24$"
    rb"|^(?:fatal: )?[Oo]ut of memory|^fatal: .*: unable to create thread",
    re.M,
)
LOCKED = re.compile(rb"Unable to create '(/[^\n']+\.lock)': File exists")
OF_A_WORKTREE = re.compile(rb"/worktrees/[^/]+/[^/]+\.lock\Z")  # only who works in that checkout can hold it


def killed(status: int) -> bool:
    """Whether a signal ended it, or a child of its own. `status` is negative for a signal, as subprocess has it."""
    return status < 0 or status - 128 in KILLED_BY


def exhausted(err: bytes) -> bool:
    """Whether git says that the machine refused it space, descriptors, memory or a device."""
    return _REFUSED.search(err) is not None or _UNWRITTEN.search(err) is not None


def lock_in_the_way(err: bytes) -> str:
    """The lock that git says another one holds, as a path with surrogates; empty where it says nothing of one."""
    found = LOCKED.search(err)
    return found[1].decode("utf-8", "surrogateescape") if found else ""


def no_answer(status: int, err: bytes) -> bool:
    """Whether it says nothing of what was asked: our own machinery failed, and nobody may be judged by it.

    A lock in the git directory of one worktree is of whoever works there: that is said of the worktree.
    """
    if status == 0:
        return False
    lock = LOCKED.search(err)
    if lock is not None:
        return OF_A_WORKTREE.search(lock[1]) is None
    return killed(status) or exhausted(err)
