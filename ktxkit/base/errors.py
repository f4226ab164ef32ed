"""The kinds of failure and their exit status.

A failure carries what was wrong (`message`), where (`location`), and the next step (`hint`). `ktxkit.app.cli` alone
turns it into bytes and a status. Exceptions state what a person can cause; assertions state what is true if the code is
right.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, ClassVar

# What the kernel refuses for want of something that the machine has too little of, or that failed by itself.
SHORTAGES = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO, errno.EROFS,
        errno.ENODEV, errno.EFBIG, errno.ESTALE, errno.EUSERS,
    }
)  # fmt: skip


class KtxError(Exception):
    """Base of every failure that a user can cause. `status` is the process's exit status.

    `machinery`: our own machinery failed (a git of ours was killed, the disk is full, another git holds a lock). That
    is nobody's verdict: a job ends with it in a state that can be resumed.
    """

    status: ClassVar[int] = 2
    outcome_default: ClassVar[str] = "cannot_run"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        location: str = "",
        outcome: str = "",
        data: Mapping[str, Any] | None = None,
        machinery: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location
        self.outcome = outcome or self.outcome_default
        self.data: dict[str, Any] = dict(data or {})
        self.machinery = machinery


class Refused(KtxError):
    """The answer is no: findings, or a refused precondition. Nothing was changed. Status 1."""

    status = 1
    outcome_default = "refused"


class CannotRun(KtxError):
    """Usage, configuration, missing or too old git, no permission. Status 2."""

    status = 2
    outcome_default = "cannot_run"


class Conflict(KtxError):
    """What conflicted is back as it was, proven. Status 3."""

    status = 3
    outcome_default = "textual_conflict"


class CommandFailed(Conflict):
    """A command of a unit, or one that is timed, did not end well: its status and what it said last. Status 3."""

    outcome_default = "failed"


class Blocked(KtxError):
    """The state could not be proven; evidence and lock are kept, a person must look. Status 4."""

    status = 4
    outcome_default = "blocked"


class BrokenContract(KtxError):
    """A document is corrupt, tampered with, or of an unknown version. Status 5."""

    status = 5
    outcome_default = "broken_contract"


def of_machinery(error: BaseException) -> bool:
    """Whether a failure is of our own machinery, and so no verdict on whatever was at work."""
    if isinstance(error, KtxError):
        return error.machinery
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in SHORTAGES)
