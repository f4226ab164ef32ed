"""Kill a command at any of its effects, as a power cut or `kill -9` would.

    effects = count_effects("worktree-open", ["--job", "j1", ...], cwd)
    for n in range(len(effects)):
        ran = run_killed("worktree-open", [...], fresh_cwd, n, "before")   # or "after", "torn"
        assert isinstance(ran, Killed)

`before` and `after` stop the process at the effect; children that it started go on to their end, as they do in life,
and are waited for. `torn` writes half of what a write would write, and kills a child just started along with us.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import endings
from tests.support.commands import Ran

CHILD = Path(__file__).with_name("faulty.py")
WHENS = ("before", "after", "torn")
FAILURES = ("ENOSPC", "EROFS", "EIO", "EMFILE", "ENOMEM")
FULL = os.environ.get("KTX_TEST_FULL") == "1"  # asked now: while a test runs no variable of ours is set
NEVER = -1
PATIENCE = 60.0  # seconds that orphans have to end


@dataclass(frozen=True)
class Killed:
    """The process was killed at this effect."""

    n: int
    when: str
    effect: str


def count_effects(
    name: str, args: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None, status: int = 0
) -> list[str]:
    """Run the command to its end; the effects it has, in order. It must end with `status`."""
    ran, effects = _run(name, args, cwd, NEVER, "before", env)
    assert ran.returncode == status, (name, args, ran.stdout, ran.stderr)
    return effects


def run_killed(
    name: str,
    args: Sequence[str | Path],
    cwd: Path,
    n: int,
    when: str,
    env: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Ran | Killed:
    """Run the command, to be killed at its n-th effect (from 0). `Ran` where it has fewer effects than that.

    `delay`: seconds that a child of a `torn` start is given before it is killed too.
    """
    assert when in WHENS
    ran, effects = _run(name, args, cwd, n, when, {**(env or {}), "KTX_FAULT_DELAY": str(delay)})
    if ran.returncode == -signal.SIGKILL:
        return Killed(n, when, effects[n])
    return _ran(ran)


def spread(effects: Sequence[object], most: int) -> list[int]:
    """Numbers of effects to try: all of them in the full suite, else at most `most`, evenly spread, ends included."""
    if FULL or len(effects) <= most:
        return list(range(len(effects)))
    return sorted({round(i * (len(effects) - 1) / (most - 1)) for i in range(most)})


def run_failing(
    name: str, args: Sequence[str | Path], cwd: Path, n: int, error: str, env: Mapping[str, str] | None = None
) -> Ran:
    """Run the command on a disk that answers `error` (of `FAILURES`) from its n-th effect on, or once there (`EIO`)."""
    assert error in FAILURES
    return _ran(_run(name, args, cwd, n, error, env)[0])


def _ran(done: subprocess.CompletedProcess[bytes]) -> Ran:
    return Ran(done.returncode, os.fsdecode(done.stdout), done.stderr.decode("utf-8", "replace"))


def _run(
    name: str,
    args: Sequence[str | Path],
    cwd: Path,
    n: int,
    when: str,
    env: Mapping[str, str] | None,
) -> tuple[subprocess.CompletedProcess[bytes], list[str]]:
    marker = f"KTX_FAULT_RUN={secrets.token_hex(12)}"
    key, _, value = marker.partition("=")
    with tempfile.TemporaryDirectory(prefix="ktx-effects-") as folder:
        places = {word: Path(folder, word) for word in ("log", "out", "err")}
        for place in places.values():
            place.touch()
        ask = {
            **{word: str(place) for word, place in places.items()},
            "name": name,
            "argv": ["-C", str(cwd), *map(str, args)],
            "n": n,
            "when": when,
            "cwd": os.getcwd(),  # noqa: PTH109
            "env": {**os.environ, **(env or {}), key: value, "PYTHONDONTWRITEBYTECODE": "1"},
        }
        status = os.waitstatus_to_exitcode(_ask(ask))
        wait_for_orphans(marker)
        done = subprocess.CompletedProcess([name], status, places["out"].read_bytes(), places["err"].read_bytes())
        effects = places["log"].read_text().splitlines()
    return done, [json.loads(line) for line in effects]


def _ask(ask: Mapping[str, object]) -> int:
    server = endings.server(os.getpid(), sys.executable, str(CHILD))
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(ask) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


def wait_for_orphans(marker: str) -> None:
    """Until no process has the marker in its environment."""
    deadline = time.monotonic() + PATIENCE
    while (alive := _with_marker(marker.encode())) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not alive, f"still running: {alive}"


def _with_marker(marker: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue  # gate-ok: it ended, or is not ours
    return found
