"""Children that wait to open a pipe which nobody else opens are ended: they would wait for ever, and we for them.

Whoever can write where a child reads (a unit, the repository's configuration) can put a FIFO there. Source: fifo(7);
proc(5), /proc/PID/wchan and /proc/PID/syscall.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Protocol

LOOK = 0.5  # seconds between looks
PATIENCE = 2.0  # seconds that the other end has to be opened
WAITING = "wait_for_partner"  # the kernel's function in which open(2) of a FIFO sleeps
NAMES = {2: 1, 257: 2, 56: 2}  # open(2), openat(2) of x86-64, openat of arm64: which field of `syscall` is the name
NAME_LIMIT = 4096  # bytes


class Child(Protocol):
    """A process that was started as the leader of its own process group; `returncode` is None while it runs."""

    pid: int
    returncode: int | None


class PipeWatch:
    """Looks at the children that it was told of, in a thread of its own. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._children: dict[int, Child] = {}
        self._since: dict[int, float] = {}  # when a process was first seen waiting
        self._ended: dict[int, str] = {}  # child and the pipe that it, or a child of its own, waited for
        self._thread: threading.Thread | None = None

    def watch(self, child: Child) -> None:
        """Look at a child until it has ended."""
        with self._lock:
            self._children[child.pid] = child
            if self._thread is None:
                self._thread = threading.Thread(target=self._looking, name="pipe-watch", daemon=True)
                self._thread.start()
        self._some.set()

    def pipe_of(self, pid: int) -> str:
        """The pipe for which a child was ended, asked once after its end; empty where it was not."""
        with self._lock:
            self._children.pop(pid, None)
            return self._ended.pop(pid, "") if self._ended else ""

    def _looking(self) -> None:
        while True:
            self._some.wait()
            time.sleep(LOOK)
            with self._lock:
                alive = {pid: child for pid, child in self._children.items() if child.returncode is None}
                self._children = dict(alive)  # `pipe_of` takes out of it while this thread looks
                if not alive:
                    self._some.clear()
                    self._since.clear()
            waiting = {pid: (root, place) for root in alive for pid, place in waits(root)}
            now = time.monotonic()
            self._since = {pid: self._since.get(pid, now) for pid in waiting}
            for pid, (root, place) in waiting.items():
                if now - self._since[pid] >= PATIENCE:
                    self._end(alive[root], place)

    def _end(self, child: Child, place: str) -> None:
        with self._lock:
            self._ended[child.pid] = place
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # gate-ok: it ended by itself meanwhile


def waits(root: int) -> list[tuple[int, str]]:
    """The process or descendants of it that wait to open a pipe, with its name as they gave it (`?`: not known)."""
    found, pending = [], [root]
    while pending:
        pid = pending.pop()
        place = Path(f"/proc/{pid}")
        try:
            if (place / "wchan").read_text("ascii") == WAITING:
                found.append((pid, _name(place)))
            pending += map(int, (place / f"task/{pid}/children").read_text("ascii").split())
        except (OSError, ValueError):
            continue  # gate-ok: it has ended, or the kernel does not say
    return found


def _name(place: Path) -> str:
    try:
        fields = (place / "syscall").read_text("ascii").split()
        with open(place / "mem", "rb", buffering=0) as memory:
            memory.seek(int(fields[NAMES[int(fields[0])]], 16))
            return os.fsdecode(memory.read(NAME_LIMIT).partition(b"\0")[0])
    except (OSError, ValueError, LookupError):
        return "?"  # it is only not named


_watch = PipeWatch()


def watch(child: Child) -> None:
    """End a child that waits to open a pipe for longer than `PATIENCE`."""
    _watch.watch(child)


def pipe_of(pid: int) -> str:
    """As `PipeWatch.pipe_of`, of this process's one watch."""
    return _watch.pipe_of(pid)


def _anew() -> None:
    global _watch
    _watch = PipeWatch()


os.register_at_fork(after_in_child=_anew)
