"""A test ends, and with it what it started: a pytest plugin that `tests/conftest.py` registers.

The process that runs tests adopts their orphans (PR_SET_CHILD_SUBREAPER), so that a daemon that left its parent, group
and session is still a child of it. After a test no child may be left but those of fixtures that live longer; what is
left is killed and fails the test.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
GRACE = 2.0  # seconds in which a process that is about to exit does so by itself
FULL_LIMIT = 3600.0  # seconds for a test of `make test-full`
KEPT: dict[int, set[Process]] = {}  # by fixture: what lives as long as it
STDERR: list[int] = []  # the descriptor that is not captured, for the last resort


@dataclass(frozen=True)
class Process:
    """A process by its id and its start (clock ticks since boot), which together never come again."""

    pid: int
    start: int


def pytest_configure(config: pytest.Config) -> None:
    STDERR[:] = [os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)]
    adopt()
    if hasattr(config, "workerinput") or getattr(config.option, "dist", "no") == "no":
        hear_signals()


def adopt() -> None:
    """Makes this process the parent of every orphan among its descendants."""
    if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def hear_signals() -> None:
    """Gives tests the signals that were ignored when they started: `nohup` ignores hang-ups, a shell's `&` Ctrl-C.

    What is ignored stays so in every process that a test starts, and whoever waits for the end by it waits for ever. A
    handler is not inherited: the children have the default, while this process survives the hang-up as before.
    """
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# -- every test has a limit


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("KTX_TEST_FULL") == "1":
        for item in items:
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(FULL_LIMIT))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """pytest-timeout fails the test once. One that then waits in its clean-up ends the whole process, with a dump."""
    faulthandler.dump_traceback_later(2 * limit(item), exit=True, file=STDERR[0])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_enter_pdb() -> None:
    """Whoever debugs takes as long as he likes."""
    faulthandler.cancel_dump_traceback_later()


def limit(item: pytest.Item) -> float:
    """The limit of a test in seconds."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))


# -- nothing that a test started outlives it


def keep(pid: int) -> None:
    """A process that all tests of this worker share: it may live until the run ends."""
    KEPT.setdefault(0, set()).update(process for process in children() if process.pid == pid)


@cache
def server(_pid: int, *argv: str, cwd: str | None = None, own_session: bool = False) -> subprocess.Popen[str]:
    """A server of this process, spoken to by lines on its stdin and stdout; it ends when its stdin is closed."""
    made = subprocess.Popen(
        argv, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=own_session
    )
    keep(made.pid)
    atexit.register(_stop, made)
    return made


def _stop(made: subprocess.Popen[str]) -> None:
    for stream in (made.stdin, made.stdout):
        if stream is not None:
            stream.close()
    made.wait()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """What a fixture of a wider scope starts may live until it is torn down."""
    if fixturedef.scope == "function":
        return (yield)
    before = children()
    try:
        return (yield)
    finally:
        KEPT.setdefault(id(fixturedef), set()).update(children() - before)


@pytest.hookimpl(trylast=True)
def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    KEPT.pop(id(fixturedef), None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    try:
        outcome = yield
    except BaseException:
        end_leftovers(0)
        raise
    left = end_leftovers(GRACE)
    if left:
        pytest.fail("the test left processes behind (they are killed now):\n" + "\n".join(left), pytrace=False)
    return outcome


def pytest_unconfigure() -> None:
    """With the run ends what a worker that was killed has left."""
    KEPT.clear()
    end_leftovers(0)


def end_leftovers(grace: float) -> list[str]:
    """Kills what nobody keeps and reaps it; returns one line for each process that did not end in `grace` seconds."""
    deadline = time.monotonic() + grace
    left = running_leftovers()
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = running_leftovers()
    lines: dict[Process, str] = {}
    while left:
        for process in left:
            lines.setdefault(process, described(process.pid))
            send_kill(process.pid)
        time.sleep(0.01)
        left = running_leftovers()
    return [*lines.values()]


def running_leftovers() -> list[Process]:
    """The descendants that no fixture keeps and that have not ended; the dead ones among the children are reaped."""
    kept = set().union(*KEPT.values())
    running = []
    for process in children() - kept:
        if ended(process.pid):
            reap(process.pid)
        else:
            running.append(process)
    return [found for process in running for found in (process, *descendants(process.pid))]


def children(pid: int | None = None) -> set[Process]:
    """The direct children of a process (of this one by default)."""
    found = set()
    for task in Path(f"/proc/{pid or 'self'}/task").glob("*/children"):
        for child in read(task).split():
            fields = stat_fields(int(child))
            if fields:
                found.add(Process(int(child), int(fields[19])))
    return found


def descendants(pid: int) -> list[Process]:
    return [found for child in children(pid) for found in (child, *descendants(child.pid))]


def ended(pid: int) -> bool:
    return stat_fields(pid)[:1] in ([], ["Z"], ["X"])


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none where the process is gone."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # the process ended while we looked


def described(pid: int) -> str:
    argv = read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
    return f"  {pid}: {argv or '(ended meanwhile)'}"


def send_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # gate-ok: it ended by itself


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # gate-ok: whoever started it has reaped it
