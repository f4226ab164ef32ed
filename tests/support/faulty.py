"""Runs a command whose process dies at its n-th effect. Started by `tests.support.faults`, never imported by a test.

An effect is a call that changes the disk, or the start or the end of a child process. Every one is counted, so that a
run that is not stopped tells how many there are.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

assert shutil.rmtree.avoids_symlink_attacks, "decided when shutil is imported: it must see the real os functions"

CALLS = (
    "chmod",
    "fsync",
    "ftruncate",
    "link",
    "mkdir",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "sendfile",
    "symlink",
    "unlink",
    "utime",
    "write",
)
REAL: dict[str, Any] = {name: getattr(os, name) for name in (*CALLS, "open")}


class Fault:
    """Counts effects and ends the process at the n-th: before it, after it, or in its middle (`torn`)."""

    def __init__(self, n: int, when: str, log: int) -> None:
        self.n, self.when, self.log, self.seen = n, when, log, 0
        self.lock = threading.Lock()

    def around(self, label: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        with self.lock:
            number = self.seen
            self.seen += 1
            REAL["write"](self.log, (json.dumps(label) + "\n").encode())
        if number != self.n:
            return act()
        if self.when == "torn" and half is not None:
            half()
        elif self.when == "after":
            act()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def short(value: Any) -> str:
    return os.fsdecode(value).rpartition("/")[2] if isinstance(value, str | bytes | os.PathLike) else str(value)


def patch_os(fault: Fault) -> None:
    def patched(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            def half() -> Any:
                return REAL["write"](args[0], bytes(args[1])[: len(args[1]) // 2])

            names = [short(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike) and name != "write"]
            label = " ".join([f"os.{name}", *names])
            return fault.around(label, lambda: REAL[name](*args, **kwargs), half if name == "write" else None)

        return call

    for name in CALLS:
        setattr(os, name, patched(name))

    def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        if not flags & (os.O_CREAT | os.O_TRUNC):
            return REAL["open"](path, flags, *args, **kwargs)
        return fault.around(f"os.open {short(path)}", lambda: REAL["open"](path, flags, *args, **kwargs))

    os.open = opening


class Popen(subprocess.Popen[bytes]):
    """A child whose start and end are effects."""

    fault: ClassVar[Fault]

    def __init__(self, argv: Any, *args: Any, **kwargs: Any) -> None:
        self.label = " ".join(short(word) for word in argv)[:120]
        self.told = False

        def spawn() -> None:
            super(Popen, self).__init__(argv, *args, **kwargs)

        def spawn_and_kill() -> None:
            spawn()
            time.sleep(float(os.environ["KTX_FAULT_DELAY"]))
            os.killpg(self.pid, signal.SIGKILL)  # the machine went down, not only we

        self.fault.around(f"spawn {self.label}", spawn, spawn_and_kill)

    def wait(self, timeout: float | None = None) -> int:
        ended: int = self._ended(lambda: super(Popen, self).wait(timeout))
        return ended

    def communicate(self, *args: Any, **kwargs: Any) -> Any:
        return self._ended(lambda: super(Popen, self).communicate(*args, **kwargs))

    def _ended(self, act: Callable[[], Any]) -> Any:
        if self.told:
            return act()
        self.told = True
        return self.fault.around(f"exit {self.label}", act)


def main() -> int:
    name, n, when, log, *argv = sys.argv[1:]
    fault = Fault(int(n), when, REAL["open"](log, os.O_WRONLY | os.O_APPEND))
    module = importlib.import_module("ktx_" + name.replace("-", "_"))
    for late in ("ktxkit.world", "ktxkit.effects.store", "ktxkit.effects.git"):
        importlib.import_module(late)  # byte code that an import writes is no effect of the command
    patch_os(fault)
    Popen.fault = fault
    setattr(subprocess, "Popen", Popen)  # noqa: B010 - an assignment to a type
    status: int = module.main(argv)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
