"""The suite itself: a test ends, and what it started ends with it. By real runs of pytest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import endings
from tests.support.install import ROOT

# A daemon as daemons are made: a fork whose parent exits, a session of its own, no parent any more.
DAEMON = """
import os, subprocess, sys, time

def daemon(mark):
    code = "import os, sys, time; os.setsid(); os.fork() and os._exit(0); "
    code += "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    subprocess.run([sys.executable, "-c", code, mark], check=True)
    while not (os.path.exists(mark) and open(mark).read()):
        time.sleep(0.01)
"""


@pytest.fixture
def inner(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A pytest of its own over one test file, with the plugin on. `before` runs in it before pytest does."""

    def run(text: str, *args: str, before: Callable[[], object] | None = None) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 60\n")
        (tmp_path / "test_inner.py").write_text(DAEMON + text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.endings", "-p", "no:ktxkit", "-p", "no:asyncio",
             *args, "test_inner.py"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, preexec_fn=before,
        )  # fmt: skip

    return run


def alive(mark: Path) -> bool:
    return not endings.ended(int(mark.read_text()))


def test_a_daemon_that_a_test_leaves_fails_it_and_is_killed(
    inner: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = inner("def test_a(): daemon('mark')\ndef test_b(): pass\n")
    assert "2 passed, 1 error" in done.stdout, done
    assert "the test left processes behind" in done.stdout and "time.sleep(600)" in done.stdout
    assert "ERROR test_inner.py::test_a" in done.stdout and done.returncode == 1
    assert not alive(tmp_path / "mark")


def test_what_ends_by_itself_at_once_is_no_fault(inner: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = inner("def test_a(): subprocess.Popen(['sh', '-c', 'sleep 0.3 & sleep 0.3'])\n", "-W", "ignore")
    assert "1 passed" in done.stdout and done.returncode == 0, done


SHARED = """
import pytest

@pytest.fixture(scope="module")
def server():
    started = subprocess.Popen(["sleep", "600"])
    yield started
    {end}

def test_a(server): assert server.poll() is None
def test_b(server): assert server.poll() is None
"""


def test_what_a_wider_fixture_started_lives_until_that_is_torn_down(
    inner: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = inner(SHARED.format(end="started.kill(); started.wait()"))
    assert "2 passed in" in done.stdout and done.returncode == 0, done
    done = inner(SHARED.format(end="pass"), "-W", "ignore")
    assert "2 passed, 1 error" in done.stdout and "ERROR test_inner.py::test_b" in done.stdout, done
    assert ": sleep 600" in done.stdout


def test_a_test_that_waits_for_ever_fails_with_its_stack(
    inner: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    text = "def test_a():\n    daemon('mark')\n    time.sleep(600)  # here\ndef test_b(): pass\n"
    done = inner(text, "-o", "timeout=3")
    assert "1 failed, 1 passed, 1 error" in done.stdout, done
    assert "time.sleep(600)  # here" in done.stdout and "Timeout (>3.0s)" in done.stdout
    assert not alive(tmp_path / "mark")


STUCK = """
def test_a():
    try:
        time.sleep(600)
    finally:
        daemon('mark')
        time.sleep(600)  # in the clean-up
def test_b(): pass
"""


def test_one_that_waits_on_in_its_clean_up_ends_the_worker_and_not_the_run(
    inner: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = inner(STUCK, "-o", "timeout=2", "-n", "1")
    assert "crashed while running" in done.stdout and "1 failed, 1 passed" in done.stdout, done
    assert 'test_inner.py", line ' in done.stderr, done.stderr
    assert not alive(tmp_path / "mark")


HUNG_UP = """
import signal
def test_a():
    child = subprocess.Popen(["sleep", "600"])
    child.send_signal(signal.SIGHUP)
    assert child.wait(60) == -signal.SIGHUP
    os.kill(os.getpid(), signal.SIGHUP)
"""


@pytest.mark.parametrize("args", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_under_nohup_a_test_hears_hang_ups_and_the_run_goes_on(
    inner: Callable[..., subprocess.CompletedProcess[str]], args: list[str]
) -> None:
    done = inner(HUNG_UP, *args, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert "1 passed" in done.stdout and done.returncode == 0, done
