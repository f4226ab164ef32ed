"""What a unit prints, kept in files of bounded size: its beginning and its end, and how much was left out between.

The child writes into a pipe that whoever waits for it reads: neither disk nor memory grows with what it prints.

A unit's command: its own process group, its output in bounded files, a deadline, and nothing of it left behind.

What a command leaves running is ended with its group. What left the group (setsid, a daemon, with an environment of
its own) is found by the lease's nonce (`owners.marked`), ended, and named: it could still write into the worktree.

A command that verifies a candidate: the same, with both streams in one log.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from ktxkit.base import files, owners, process
from ktxkit.base.clock import Clock
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable

if TYPE_CHECKING:
    from ktxkit.base.documents import UnitResultOutcome
    from ktxkit.base.sandbox import Usage


HEAD = 15 * 1024 * 1024  # bytes of the beginning that are kept
TAIL = 1024 * 1024  # bytes of the end that are kept
CHUNK = 256 * 1024
PIPE = 1024 * 1024  # bytes that a pipe may hold; source: pipe(7), pipe-max-size


class UnitLog:
    """One stream of a unit. `total` and `cut` are bytes; `problem` says why the file could not be written."""

    def __init__(self, path: Path) -> None:
        files.make_dirs(path.parent)
        files.make_room(path)
        self._file = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._stream: IO[bytes] | None = None
        self._tail = bytearray()
        self._kept = 0
        self.total = 0
        self.problem = ""

    def read_from(self, stream: IO[bytes] | None) -> None:
        """The end of the pipe that the child writes into. It is closed with the log."""
        assert stream is not None, "the child's stream is a pipe"
        self._stream = stream
        os.set_blocking(stream.fileno(), False)

    @property
    def descriptor(self) -> int:
        assert self._stream is not None, "the child was started"
        return self._stream.fileno()

    @property
    def cut(self) -> int:
        """Bytes between beginning and end that were left out."""
        return max(0, self.total - self._kept - min(len(self._tail), TAIL))

    def take(self) -> bool:
        """Take what can be had at once, a chunk at most. False at the end of the stream; True where more may come."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return True
        self.total += len(data)
        head = data[: max(0, HEAD - self._kept)] if self.total - len(data) == self._kept else b""
        if head:
            self._write(head)
            self._kept += len(head)
        self._tail += data[len(head) :]
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        return bool(data)

    def drain(self) -> None:
        """Take what is in the pipe now, and no more than a pipe holds: something that hid may go on writing."""
        start = before = self.total
        while self._stream is not None and self.take() and before < self.total < start + PIPE:
            before = self.total

    def close(self) -> None:
        """Write the end behind the beginning and let go of the stream."""
        cut = self.cut
        if cut:
            self._write(f"\n[{cut} bytes were left out here]\n".encode())
        self._write(bytes(self._tail[-TAIL:]))
        os.close(self._file)
        if self._stream is not None:
            self._stream.close()

    def _write(self, data: bytes) -> None:
        """A full disk is the unit's misfortune, not the job's end: it is said in the unit's result."""
        view = memoryview(data)
        try:
            while view and not self.problem:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.problem = error.strerror or type(error).__name__


POLL = 0.2  # seconds between looks at the stop flag and the deadline; the end of a child wakes at once
LOOKS_APART = 10  # times what a look at a command's usage took: in a large worktree a look is longer
ROUNDS = 100  # looks for processes that go on starting others


class Stop(Protocol):
    """A flag that says to stop; a threading.Event is one."""

    def is_set(self) -> bool: ...


class CommandEnd(NamedTuple):
    """How a unit's command ended. `reason` is finished, failed, timed_out, not_started or interrupted.

    `printed` and `cut`: bytes of stdout and stderr, and how many of them are not in their files.
    """

    reason: UnitResultOutcome
    status: int
    message: str = ""
    strays: tuple[str, ...] = ()
    printed: tuple[int, int] = (0, 0)
    cut: tuple[int, int] = (0, 0)


def run_unit(
    command: process.Command,
    *,
    out: Path,
    err: Path,
    clock: Clock,
    stop: Stop,
    usage: Usage | None = None,
) -> CommandEnd:
    """Run to the end, its limit, until it takes more than `usage` lets it, or until `stop` is set."""
    logs = (UnitLog(out), UnitLog(err))
    try:
        child = process.start(command)
        try:
            nonce = command.env.get(owners.NONCE, "")
            reason, strays = _watched(child, logs, _Ends(clock, command.limit, stop, usage, nonce))
        except BaseException:
            process.end_group(child)
            raise
    except CannotRun as error:
        if error.machinery:
            raise
        return CommandEnd("not_started", process.NOT_STARTED, error.message)
    finally:
        for log in logs:
            log.drain()
            log.close()
    told = _told(reason, child.returncode, command.limit)
    lost = "; ".join(f"its output could not be kept: {log.problem}" for log in logs if log.problem)
    message = "; ".join(text for text in (told.message, lost) if text)
    printed, cut = (logs[0].total, logs[1].total), (logs[0].cut, logs[1].cut)
    return told._replace(message=message, strays=strays, printed=printed, cut=cut)


def _told(reason: str, status: int, limit: float | None) -> CommandEnd:
    if reason == "timed_out":
        return CommandEnd("timed_out", status, f"it did not end within {limit:g} second{'' if limit == 1 else 's'}")
    if reason == "interrupted":
        return CommandEnd("interrupted", status, "it was stopped with the job")
    if reason:
        return CommandEnd("failed", status, reason)
    return CommandEnd("failed", status, f"it {process.ending(status)}") if status != 0 else CommandEnd("finished", 0)


class _Ends:
    """What ends a command before its own end."""

    def __init__(self, clock: Clock, limit: float | None, stop: Stop, usage: Usage | None, nonce: str) -> None:
        self.nonce = nonce
        self._clock, self._limit, self._stop, self._usage = clock, limit, stop, usage
        self._began = clock.monotonic()
        self._look_at = 0.0  # of the process's own clock, when what it takes is looked at next

    def reason(self) -> str:
        """`interrupted`, `timed_out`, or what it takes too much of; empty while it may go on."""
        if self._stop.is_set():
            return "interrupted"
        if self._limit is not None and self._clock.monotonic() - self._began > self._limit:
            return "timed_out"
        began = time.monotonic()
        if self._usage is None or began < self._look_at:
            return ""
        found = self._usage.excess(owners.marked(self.nonce))
        self._look_at = time.monotonic() + LOOKS_APART * (time.monotonic() - began)
        return found


def _watched(child: process.Child, logs: Sequence[UnitLog], ends: _Ends) -> tuple[str, tuple[str, ...]]:
    """Why it had to be ended (`_wait`), and what it had left running."""
    for log, stream in zip(logs, (child.stdout, child.stderr), strict=True):
        log.read_from(stream)
    reason = _wait(child, logs, ends)
    if reason:
        process.end_group(child)
    else:
        process.signal_group(child.pid, signal.SIGKILL)
    return reason, end_strays(ends.nonce) if ends.nonce else ()


def _wait(child: process.Child, logs: Sequence[UnitLog], ends: _Ends) -> str:
    """ "" where it ended by itself, else why it must be ended. Takes what it prints meanwhile."""
    watch = select.poll()
    ended = os.pidfd_open(child.pid)
    by_descriptor = {log.descriptor: log for log in logs}
    try:
        for descriptor in (ended, *by_descriptor):
            watch.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in watch.poll(POLL * 1000)]
            for descriptor in ready:
                if descriptor != ended and not by_descriptor[descriptor].take():
                    watch.unregister(descriptor)
            if ended in ready:
                break
            if reason := ends.reason():
                return reason
    finally:
        os.close(ended)
    child.wait()
    return ""


def end_strays(nonce: str) -> tuple[str, ...]:
    """End every process that was started by the command with this nonce (`owners.marked`); names them (`pid command`).

    What they start meanwhile is looked for again.
    """
    named: dict[int, str] = {}
    for _ in range(ROUNDS):
        found = [pid for pid in owners.marked(nonce) if pid not in named and owners.start_time(pid) is not None]
        for pid in found:
            named[pid] = f"{pid} {printable(' '.join(process.words_of(pid)))[:200]}"
            _kill(pid)
        if not found:
            break
    return tuple(named.values())


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # gate-ok: it ended by itself meanwhile, which is what was wanted


class LoggedEnd(NamedTuple):
    """How a command with one log ended. `status` is negative for a signal; 127 where it could not be started."""

    status: int
    timed_out: bool
    seconds: float
    strays: tuple[str, ...] = ()


def run_logged(
    command: process.Command,
    *,
    log: Path,
    nonce: str,
    clock: Callable[[], float],
    started: Callable[[int], None],
) -> LoggedEnd:
    """Run to its end or its limit, stdin closed, both streams in `log`; its group and strays are ended then.

    `started` is told the process group. The nonce in its environment lets recovery find what it left.
    """
    files.make_dirs(log.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(log, flags, files.PRIVATE_FILE), "wb", buffering=0) as stream:
        began = clock()
        try:
            child = process.start(
                command._replace(env={**command.env, owners.NONCE: nonce}), stdout=stream, stderr=stream
            )
        except CannotRun as error:
            if error.machinery:
                raise
            stream.write(f"{error.message}\n".encode("utf-8", "backslashreplace"))
            return LoggedEnd(process.NOT_STARTED, False, clock() - began)
        in_time = process.wait_or_end(child, command.limit, started)
    return LoggedEnd(child.returncode, not in_time, clock() - began, end_strays(nonce))


def end_recorded(pgid: int, started: int) -> None:
    """End the process group of a verification whose holder died; never another one that has its number now."""
    if owners.start_time(pgid) in (started, None):
        process.signal_group(pgid, signal.SIGKILL)
