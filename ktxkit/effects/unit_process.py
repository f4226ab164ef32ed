"""A unit's command: its own process group, its output in files, a deadline, and nothing of it left behind.

What a command leaves running is ended with its group. What left the group (setsid, a daemon) is found by the lease's
nonce in its environment, ended, and named: it could still write into the worktree.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from ktxkit.core.text import printable
from ktxkit.effects import files, process
from ktxkit.effects.clock import Clock
from ktxkit.errors import CannotRun

POLL = 0.2  # seconds between looks at the stop flag and the deadline; the end of a child wakes at once
MARK = "KTX_LEASE_NONCE"


class Stop(Protocol):
    """A flag that says to stop; a threading.Event is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Ended:
    """How a unit's command ended. `reason` is finished, failed, timed_out, not_started or interrupted."""

    reason: str
    status: int
    message: str = ""
    strays: tuple[str, ...] = ()


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
    with _log(out) as out_fd, _log(err) as err_fd:
        try:
            child = process.start(argv, cwd=cwd, env=env, stdout=out_fd.fileno(), stderr=err_fd.fileno())
        except CannotRun as error:
            return Ended("not_started", process.NOT_STARTED, error.message)
        reason = _wait(child, clock, limit, stop)
        if reason:
            process.end_group(child)
        else:
            process.signal_group(child.pid, signal.SIGKILL)
    strays = end_strays(env[MARK]) if MARK in env else ()
    status = child.returncode
    if reason == "timed_out":
        return Ended(reason, status, f"it did not end within {limit:g} seconds", strays)
    if reason:
        return Ended(reason, status, "it was stopped with the job", strays)
    if status != 0:
        return Ended("failed", status, _said(status), strays)
    return Ended("finished", 0, "", strays)


def _log(path: Path) -> IO[bytes]:
    files.make_dirs(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, files.PRIVATE_FILE), "wb", buffering=0)


def _wait(child: process.Child, clock: Clock, limit: float | None, stop: Stop) -> str:
    """ "" where it ended by itself, else why it must be ended."""
    began = clock.monotonic()
    watch = select.poll()
    ended = os.pidfd_open(child.pid)
    try:
        watch.register(ended, select.POLLIN)
        while not watch.poll(POLL * 1000):
            if stop.is_set():
                return "interrupted"
            if limit is not None and clock.monotonic() - began > limit:
                return "timed_out"
    finally:
        os.close(ended)
    child.wait()
    return ""


def _said(status: int) -> str:
    if status < 0:
        return f"it was ended by signal {signal.Signals(-status).name}"
    return f"it ended with status {status}"


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
        return  # it ended by itself meanwhile, which is what was wanted
