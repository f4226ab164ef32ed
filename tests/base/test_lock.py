"""Who waits for a lock says for whom: a holder that was stopped, or that left the lock to a child, is named too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktxkit.base import lock
from ktxkit.base.clock import SystemClock
from ktxkit.base.errors import Refused
from tests.support.commands import script

HOLDS = """
import fcntl, subprocess, sys
taken = open(sys.argv[1], "a")
fcntl.flock(taken, fcntl.LOCK_EX)
if "leave" in sys.argv:
    child = subprocess.Popen(["sleep", "60"], pass_fds=[taken.fileno()], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that holds the lock, and what it said."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDS, path, *words], stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None and child.stdin is not None
        try:
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.mark.parametrize("wait", [None, 60.0])
def test_a_stopped_holder_is_named(
    tmp_path: Path, wait: float | None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    said = ""
    with held(tmp_path / "a.lock") as (holder, _):
        os.kill(holder.pid, signal.SIGSTOP)

        class Clock(SystemClock):
            def sleep(self, seconds: float) -> None:
                nonlocal said
                said += capfd.readouterr().err
                if said:
                    holder.kill()
                super().sleep(seconds)

        later = f"sleep 1; kill -KILL {holder.pid}" if wait is None else ":"  # in the kernel nobody else wakes us
        wanted = lock.flocked(tmp_path / "a.lock", clock=Clock(), wait=wait, what="the journal")
        with subprocess.Popen(["sh", "-c", later]), wanted:
            said += capfd.readouterr().err
    assert f"waiting for the journal: held by process {holder.pid} ({sys.executable}" in said
    assert "which runs since" in said and "and is stopped" in said
    assert said.count("waiting for") == 1


def test_a_thread_that_waits_for_another_of_its_process_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With many units at once on a busy machine it went on about itself."""
    place = tmp_path / "a.lock"
    with lock.flocked(place, clock=SystemClock(), wait=0), place.open("rb") as waiting:
        lock._say(waiting.fileno(), place, "the list of worktrees")
    with held(place) as (holder, _), place.open("rb") as waiting:
        lock._say(waiting.fileno(), place, "the list of worktrees")
    assert re.findall("held by process ([0-9]+)", capfd.readouterr().err) == [str(holder.pid)]


def test_who_inherited_the_lock_is_named(tmp_path: Path) -> None:
    with held(tmp_path / "a.lock", "leave") as (parent, child):
        parent.wait()
        wanted = lock.flocked(tmp_path / "a.lock", clock=SystemClock(), wait=0)
        with pytest.raises(Refused) as refused, wanted:
            pass
        assert f"held by process {child} (sleep 60)" in refused.value.hint
        os.kill(int(child), signal.SIGKILL)


def test_a_command_that_waits_says_for_whom(tmp_path: Path) -> None:
    journal = tmp_path / "t"
    with held(tmp_path / "t.lock") as (holder, _):
        words = [script("trace-append"), "--trace", str(journal), "--phase", "x", "--event", "y"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as append:
            assert append.stderr is not None
            first = append.stderr.readline()
            holder.kill()
    assert append.returncode == 0
    assert f"process {holder.pid} (" in first
    assert journal.read_text().count("\n") == 1
