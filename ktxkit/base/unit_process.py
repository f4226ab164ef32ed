"""A unit's command: its own process group, its output in bounded files, a deadline, and nothing of it left behind.

What a command leaves running is ended with its group. What left the group (setsid, a daemon) is found by the lease's
nonce in its environment, ended, and named: it could still write into the worktree.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ktxkit.base import process
from ktxkit.base.clock import Clock
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import printable
from ktxkit.base.unit_log import UnitLog

POLL = 0.2  # seconds between looks at the stop flag and the deadline; the end of a child wakes at once
MARK = "KTX_LEASE_NONCE"


class Stop(Protocol):
    """A flag that says to stop; a threading.Event is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Ended:
    """How a unit's command ended. `reason` is finished, failed, timed_out, not_started or interrupted.

    `printed` and `cut`: bytes of stdout and stderr, and how many of them are not in their files.
    """

    reason: str
    status: int
    message: str = ""
    strays: tuple[str, ...] = ()
    printed: tuple[int, int] = (0, 0)
    cut: tuple[int, int] = (0, 0)


def run_unit(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    out: Path,
    err: Path,
    clock: Clock,
    limit: float | None,
    stop: Stop,
) -> Ended:
    """Run to the end, the time limit in seconds, or until `stop` is set."""
    logs = (UnitLog(out), UnitLog(err))
    try:
        child = process.start(argv, cwd=cwd, env=env)
        try:
            reason, strays = _watched(child, logs, clock, limit, stop, env.get(MARK, ""))
        except BaseException:
            process.end_group(child)
            raise
    except CannotRun as error:
        return Ended("not_started", process.NOT_STARTED, error.message)
    finally:
        for log in logs:
            log.drain()
            log.close()
    told = _told(reason, child.returncode, limit)
    lost = "; ".join(f"its output could not be kept: {log.problem}" for log in logs if log.problem)
    message = "; ".join(text for text in (told.message, lost) if text)
    printed, cut = (logs[0].total, logs[1].total), (logs[0].cut, logs[1].cut)
    return replace(told, message=message, strays=strays, printed=printed, cut=cut)


def _told(reason: str, status: int, limit: float | None) -> Ended:
    if reason == "timed_out":
        return Ended(reason, status, f"it did not end within {limit:g} seconds")
    if reason:
        return Ended(reason, status, "it was stopped with the job")
    return Ended("failed", status, f"it {process.ending(status)}") if status != 0 else Ended("finished", 0)


def _watched(
    child: process.Child, logs: Sequence[UnitLog], clock: Clock, limit: float | None, stop: Stop, nonce: str
) -> tuple[str, tuple[str, ...]]:
    """Why it had to be ended (`_wait`), and what it had left running."""
    for log, stream in zip(logs, (child.stdout, child.stderr), strict=True):
        log.read_from(stream)
    reason = _wait(child, logs, clock, limit, stop)
    if reason:
        process.end_group(child)
    else:
        process.signal_group(child.pid, signal.SIGKILL)
    return reason, end_strays(nonce) if nonce else ()


def _wait(child: process.Child, logs: Sequence[UnitLog], clock: Clock, limit: float | None, stop: Stop) -> str:
    """ "" where it ended by itself, else why it must be ended. Takes what it prints meanwhile."""
    began = clock.monotonic()
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
            if stop.is_set():
                return "interrupted"
            if limit is not None and clock.monotonic() - began > limit:
                return "timed_out"
    finally:
        os.close(ended)
    child.wait()
    return ""


def end_strays(nonce: str) -> tuple[str, ...]:
    """End every process that carries the nonce in its environment; names them (`pid command`)."""
    found = []
    wanted = f"{MARK}={nonce}".encode()
    for pid in _pids():
        if pid == os.getpid():
            continue
        if wanted in _proc(pid, "environ").split(b"\0"):
            found.append(f"{pid} {printable(_proc(pid, 'cmdline').replace(bytes(1), b' ').strip())[:200]}")
            _kill(pid)
    return tuple(found)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _proc(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty where the process is gone or is another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # gate-ok: it ended by itself meanwhile, which is what was wanted
