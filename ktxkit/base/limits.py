"""What a command may take of the machine, beside time: memory, processes, open files, disk.

Run as a program, it takes limits of the kernel upon itself and becomes a command: `python limits.py memory=N ... --
COMMAND ...`. Those hold for each process (getrlimit(2)); what all of a command's processes take together is looked at
while it runs (`Usage`). The kernel counts processes by user, and none of root's.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence

OF_ONE_PROCESS = {"memory": resource.RLIMIT_DATA, "files": resource.RLIMIT_NOFILE, "disk": resource.RLIMIT_FSIZE}
CANNOT = 126  # the status of a command that was not started, as the shell has it
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python, and so by what it becomes


class Usage:
    """What a command's processes take together. `limits`: by name, in bytes and numbers; `places`: where it writes."""

    def __init__(self, limits: Mapping[str, int], places: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.limits = limits
        self._places = places
        self._before = disk_usage(places) if "disk" in limits else 0

    def excess(self, pids: Sequence[int]) -> str:
        """What is more than it may be, for people; empty where nothing is. `pids`: the processes."""
        if len(pids) > self.limits.get("processes", len(pids)):
            return f"it had more than {self.limits['processes']} processes"
        if "memory" in self.limits and sum(map(memory_of, pids)) > self.limits["memory"]:
            return f"it took more than {self.limits['memory']} bytes of memory"
        if "disk" in self.limits and disk_usage(self._places) - self._before > self.limits["disk"]:
            return f"it wrote more than {self.limits['disk']} bytes"
        return ""


def memory_of(pid: int) -> int:
    """Bytes of memory that are a process's own, or shared without a file. Source: proc(5), /proc/PID/status."""
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            lines = [line.split() for line in stream if line.startswith((b"RssAnon:", b"RssShmem:"))]
    except OSError:
        return 0  # it has ended
    return sum(int(line[1]) * 1024 for line in lines)


def disk_usage(places: Iterable[str | os.PathLike[str]]) -> int:
    """Bytes on the disk below those places; no link is followed, and what goes away meanwhile is nothing."""
    total, pending = 0, [os.fspath(place) for place in places]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue  # gate-ok: it is gone, or may not be read: it is not counted
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gate-ok: it is gone
            total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                pending.append(entry.path)
    return total


def take_on(limits: Mapping[str, int]) -> None:
    """Take the limits upon this process and all that it starts. Raises OSError, ValueError."""
    for name, number in limits.items():
        kind = OF_ONE_PROCESS.get(name, resource.RLIMIT_NPROC)
        wanted = number if name in OF_ONE_PROCESS else number + _tasks(os.getuid())
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard),) * 2)


def _tasks(uid: int) -> int:
    """How many tasks a user has now: the limit is of all of them."""
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                found += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue  # gate-ok: it has ended
    return found


def main(argv: Sequence[str]) -> int:
    """Take the limits on, then become the command."""
    border = argv.index("--")
    limits = {name: int(number) for name, _, number in (word.partition("=") for word in argv[:border])}
    command = argv[border + 1 :]
    try:
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        take_on(limits)
        os.execvp(command[0], [*command])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot start {command[0]} within its limits: {error}\n")
    return CANNOT


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
