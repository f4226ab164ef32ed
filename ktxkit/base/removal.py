"""Removing a checkout's files: never through a mount, and what would not go is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ktxkit.base import mounts
from ktxkit.base.errors import Refused
from ktxkit.base.rules.text import printable


def nothing_mounted(path: Path) -> None:
    """Raises Refused where something is mounted inside."""
    inside = sorted(mounts.below(path.resolve(), mounts.mounts()))
    if inside:
        shown = ", ".join(printable(point) for point in inside[:3]) + (", ..." if len(inside) > 3 else "")
        raise Refused(f"something is mounted inside it: {shown}", where=str(path), hint="unmount it, then close again")


def delete(trash: Path | None) -> bool:
    """Delete what `let_go` left. False where something would not go (a process still writes there, a mount)."""
    if trash is None:
        return True
    if mounts.below(trash.resolve(), mounts.mounts()):
        return False
    shutil.rmtree(trash, onerror=_unlock_and_retry)
    return not os.path.lexists(trash)


def _unlock_and_retry(function: object, name: str, _: object) -> None:
    """A directory without write permission (a module cache) is opened up once; what stays is the caller's to report."""
    for place in (os.path.dirname(name), name):  # noqa: PTH120
        try:
            if not os.path.islink(place):  # noqa: PTH114
                os.chmod(place, 0o700)  # noqa: PTH101
        except OSError:
            return  # gate-ok: what stays is the caller's to report
    shutil.rmtree(name, ignore_errors=True)
    try:
        os.unlink(name)  # noqa: PTH108
    except OSError:
        return  # gate-ok: what stays is the caller's to report
