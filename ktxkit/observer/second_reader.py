"""A second process that reads files before the walk comes to them: most of reading small ones is an interpreter's work.

It is asked for runs of paths that are expected (stored, or tracked), in path order, with runs between them that the
walk reads itself; how many are left to the walk follows from who waits for whom. It reads by the same rules as the walk
does (`reading.Reader`, below the same root descriptor), and decides nothing: what it has no answer for is read by the
walk, also where it cannot be started or dies.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ktxkit.base import process
from ktxkit.base.errors import CannotRun
from ktxkit.base.reading import PackedEntry
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.rules.projection import Tracked
from ktxkit.observer.scanned import ScanSubject
from ktxkit.observer.second_reader_process import receive, send

WORTH = 5_000  # expected files from which a process more pays: its start is an interpreter's
RUN = 2_048  # bytes of paths in a run
LONGEST = 8_192  # bytes; with what is asked at once, less than a pipe holds: nobody waits in a write for the other
AHEAD = 4  # runs that are asked at once
HEAD_START = 40  # runs that the walk reads while the process starts
HERE = "PATH", "LD_LIBRARY_PATH"  # and Python's own: what our interpreter was started with
Runs = Iterator[bytes]


def worth_it(subject: ScanSubject, stored: Stored) -> bool:
    """Whether a second process would help: many files, an idle processor, nothing mounted inside that may hang it."""
    expected = len(stored) or len(subject.tracked)
    return expected >= WORTH and not subject.mounts and _idle_processor()


def _idle_processor() -> bool:
    """Whether another processor has nothing to run now. Source: proc(5), /proc/loadavg, runnable entities."""
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False  # it cannot be known: the walk does it alone
    return running < len(os.sched_getaffinity(0))


class SecondReader:
    """The walk's side. `found` is asked in path order. `files` were read by the other side."""

    def __init__(self, subject: ScanSubject, stored: Stored, started: int) -> None:
        self._runs = _stored_runs(stored) if len(stored) else _tracked_runs(subject.tracked)
        self._asked: deque[tuple[bytes, bytes]] = deque()  # first and last path of runs without an answer yet
        self._answer: dict[bytes, PackedEntry] = {}
        self._last = b""
        self._left, self._share = float(HEAD_START), 1.0  # runs that the walk reads before the next one, and after it
        self.files = 0
        self._child = _start(subject, started)
        self._ask()

    def found(self, path: bytes) -> PackedEntry | None:
        """What was read of a path, or None: then nobody has."""
        if path > self._last:
            while self._asked and path >= self._asked[0][0]:
                self._turn()
                if path <= self._last:
                    break
        return self._answer.get(path)

    def _turn(self) -> None:
        """Take the next answer, and ask for more. Whoever waited has too much to do."""
        if self._child is None or self._child.stdout is None:
            return
        out = self._child.stdout.fileno()
        ready, _, _ = select.select([out], [], [], 0)
        self._share = max(0.0, self._share - 0.05) if ready else self._share + 0.1
        answer = receive(out)
        if answer is None:
            self.close()
            return
        _, self._last = self._asked.popleft()
        self._answer = marshal.loads(answer)
        self.files += len(self._answer)
        self._ask()

    def _ask(self) -> None:
        while self._child is not None and len(self._asked) < AHEAD:
            while self._left >= 1 and next(self._runs, None) is not None:
                self._left -= 1
            run = next(self._runs, None)
            if run is None:
                return
            self._left += self._share
            if len(run) > LONGEST or self._child.stdin is None:
                continue
            try:
                send(self._child.stdin.fileno(), run)
            except OSError:
                self.close()
                return
            self._asked.append((run.partition(b"\0")[0], run.rpartition(b"\0")[2]))

    def close(self) -> None:
        """End the process; it holds nothing."""
        child, self._child = self._child, None
        self._asked.clear()
        self._answer = {}
        if child is not None:
            child.kill()
            process.end_reader(child)


def _start(subject: ScanSubject, started: int) -> process.Child | None:
    argv = [sys.executable, "-P", "-m", f"{__name__}_process", str(subject.root), str(subject.limit), str(started)]
    env = {key: value for key, value in os.environ.items() if key in HERE or key.startswith("PYTHON")}
    try:
        return process.start(
            argv,
            cwd=Path("/"),
            env=env,
            stdin=process.PIPE,
            stderr=process.NO_OUTPUT,
            pass_fds=(subject.root,),
        )
    except CannotRun:
        return None  # no process is to be had: the walk reads everything itself


def _tracked_runs(tracked: Tracked) -> Runs:
    packed, at = tracked.packed, 0
    while at < len(packed):
        end = packed.index(b"\0", min(at + RUN, len(packed) - 1))
        yield packed[at:end]
        at = end + 1


def _stored_runs(stored: Stored) -> Runs:
    run, size = [], 0
    for path in stored.paths():
        run.append(path)
        size += len(path)
        if size >= RUN:
            yield b"\0".join(run)
            run, size = [], 0
    if run:
        yield b"\0".join(run)
