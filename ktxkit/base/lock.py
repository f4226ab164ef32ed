"""Locks: flock on a file that is never unlinked, and a document beside it that says who holds it and how far they are.

flock is the exclusion; the kernel lets it go when the holder dies. The document is the evidence: a holder that died
leaves it, with the phase it was in, for the next one to finish or forget.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.clock import Clock
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.removal import entry

POLL = 0.05  # seconds between tries
PATIENCE = 5.0  # seconds without a word; then the holder is named


@contextmanager
def flocked(
    path: Path, *, clock: Clock, wait: float | None = None, shared: bool = False, what: str = ""
) -> Iterator[int]:
    """Hold flock on `path` (made if missing, never unlinked) for the block.

    `wait` seconds are waited for a holder (None: for ever, 0: not at all); one that lasts longer than `PATIENCE` is
    named on stderr. Raises Refused where it is still held.
    """
    fd = _locked(path, clock, wait, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, what)
    try:
        yield fd
    finally:
        os.close(fd)  # closing lets flock go


@contextmanager
def flocked_directory(path: Path) -> Iterator[None]:
    """Hold flock on a directory itself, for a short change of a file in it: where a lock file of ours has no place."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _try(fd, fcntl.LOCK_EX):
            _wait(fd, path, fcntl.LOCK_EX, "")
        yield
    finally:
        os.close(fd)


def _locked(path: Path, clock: Clock, wait: float | None, kind: int, what: str) -> int:
    files.make_dirs(path.parent)
    began = clock.monotonic()
    said = False
    while True:
        with entry(path) as (name, at):
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, files.PRIVATE_FILE, dir_fd=at)
        try:
            if not (got := _try(fd, kind)) and wait is None:
                _wait(fd, path, kind, what)
                got = True
            if got and _same(fd, path):
                return fd
            waited = clock.monotonic() - began
            if not got and wait is not None and waited >= wait:
                raise Refused(
                    f"{what or path.name} is being worked on by another process",
                    location=str(path),
                    hint=f"{_holder(fd)}: wait for it to end, or look at the document beside the lock",
                )
            if not got and not said and waited >= PATIENCE:
                said = True
                _say(fd, path, what)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        clock.sleep(POLL)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        message = f"this file system cannot lock: {error.strerror}"
        raise CannotRun(message, hint="set KTX_DIR to a local disk") from error
    return True


def _wait(fd: int, path: Path, kind: int, what: str) -> None:
    """Wait for the holder, for ever, but not in silence."""
    teller = threading.Timer(PATIENCE, _say, (fd, path, what))
    teller.daemon = True
    teller.start()
    try:
        fcntl.flock(fd, kind)
    finally:
        teller.cancel()
        teller.join()


def _say(fd: int, path: Path, what: str) -> None:
    """Somebody who waits is told for whom, but not for another thread of this process. It goes to stderr at once: the
    command may wait for long."""
    holder = _holder(fd)
    if holder.startswith(f"held by process {os.getpid()} "):
        return
    try:
        sys.stderr.write(f"waiting for {what or path}: {holder}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # gate-ok: nobody reads what this command says; it waits all the same


def _holder(fd: int) -> str:
    from ktxkit.base.process import holders  # what most holders of a lock never need

    return "held by " + (" and ".join(holders(fd)) or "a process that cannot be seen from here")


def _same(fd: int, path: Path) -> bool:
    """The file that is locked is the file of that name (nobody put another in its place meanwhile)."""
    held = os.fstat(fd)
    try:
        named = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def nonce() -> str:
    """Names one holding of a lock, so that a later holder cannot be taken for it."""
    return os.urandom(16).hex()
