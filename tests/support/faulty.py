"""Runs commands whose process dies, or whose disk fails, at the n-th effect. Started by `tests.support.faults`.

An effect is a call that changes the disk, or the start or the end of a child process. Every one is counted, so that a
run that is not stopped tells how many there are.

It is a server: everything is imported once, and each command runs in a fork of its own (an import is no effect, and a
third of the time of a short command).
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import pkgutil
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

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


# What a disk refuses: with these errors from the n-th effect on (a full disk frees space and renames all the same), or
# once, at the n-th.
REFUSES = {
    "ENOSPC": ("os.write", "os.open", "os.mkdir", "os.symlink", "os.link", "os.sendfile"),
    "EROFS": ("os.",),
    "EIO": ("os.fsync", "os.write", "os.replace"),
    "EMFILE": ("os.open", "spawn"),
    "ENOMEM": ("os.mkdir", "os.write", "spawn"),
}
ONCE = ("EIO", "EMFILE", "ENOMEM")


class Fault:
    """Counts effects and ends the process at the n-th: before it, after it, or in its middle (`torn`); or an error."""

    def __init__(self, n: int, when: str, log: int) -> None:
        self.n, self.when, self.log, self.seen = n, when, log, 0
        self.lock = threading.Lock()

    def around(self, label: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        with self.lock:
            number = self.seen
            self.seen += 1
            REAL["write"](self.log, (json.dumps(label) + "\n").encode())
        if self.when in REFUSES:
            self._refuse(number, label)
            return act()
        if number != self.n:
            return act()
        if self.when == "torn" and half is not None:
            half()
        elif self.when == "after":
            act()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def _refuse(self, number: int, label: str) -> None:
        due = number == self.n if self.when in ONCE else number >= self.n >= 0
        if due and label.startswith(REFUSES[self.when]):
            code = getattr(errno, self.when)
            raise OSError(code, os.strerror(code), label.partition(" ")[2] or None)


def short(value: Any) -> str:
    return os.fsdecode(value).rpartition("/")[2] if isinstance(value, str | bytes | os.PathLike) else str(value)


def _flushed(fd: int) -> str:
    """What a descriptor is of: `dir NAME`, or `file NAME`."""
    kind = "dir" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
    return f"{kind} {short(Path(f'/proc/self/fd/{fd}').readlink())}"


def patch_os(fault: Fault) -> None:
    def patched(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            def half() -> Any:
                return REAL["write"](args[0], bytes(args[1])[: len(args[1]) // 2])

            names = [short(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike) and name != "write"]
            if name == "fsync":
                names = [_flushed(args[0])]
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


def imported() -> None:
    """Everything of ours is imported now: in a fork an import would cost time, and write byte code."""
    import ktxkit

    for found in pkgutil.walk_packages(ktxkit.__path__, "ktxkit."):
        if not found.name.startswith(("ktxkit.ledger.pytest", "ktxkit.ingest.workers")):
            importlib.import_module(found.name)
    for path in sorted((Path(__file__).resolve().parents[2] / "commands").glob("ktx_*.py")):
        importlib.import_module(path.stem)
    for heavy in ("jsonschema_rs", "blake3", "ruamel.yaml"):
        importlib.import_module(heavy)


def main() -> int:
    """For each line of stdin a run; its wait status on stdout."""
    imported()
    for line in sys.stdin:
        ask = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(ask)
        print(os.waitpid(pid, 0)[1], flush=True)
    return 0


def run(ask: dict[str, Any]) -> NoReturn:
    """The command in this fork, as in a process of its own."""
    for number, path in enumerate((os.devnull, ask["out"], ask["err"])):
        fd = REAL["open"](path, os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(ask["env"])
    os.chdir(ask["cwd"])
    fault = Fault(ask["n"], ask["when"], REAL["open"](ask["log"], os.O_WRONLY | os.O_APPEND))
    module = importlib.import_module("ktx_" + ask["name"].replace("-", "_"))
    patch_os(fault)
    Popen.fault = fault
    setattr(subprocess, "Popen", Popen)  # noqa: B010 - an assignment to a type
    status = 70  # of a traceback, as sysexits(3) has it
    try:
        status = module.main(ask["argv"])
    except BaseException:  # noqa: BLE001 - it must not go on as the server
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    raise SystemExit(main())
