"""Whether processes of a unit are alive, and what they have used. A third signal: it is neither progress nor activity.

A process belongs to a unit by the lease's nonce in its environment or by its working directory. Source: proc(5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base.identity import processes_inside
from ktxkit.base.unit_process import MARK


@dataclass(frozen=True)
class Liveness:
    """Processes of the unit, and the CPU time they and their waited-for children have used, in milliseconds."""

    count: int
    cpu_ms: int

    @property
    def alive(self) -> bool:
        return self.count > 0

    def document(self) -> dict[str, int | bool]:
        return {"alive": self.alive, "count": self.count, "cpuMs": self.cpu_ms}


def look(nonce: str, root: Path) -> Liveness:
    """The processes of a unit at this moment, this process left out."""
    found = set(processes_inside(root)) | set(_marked(f"{MARK}={nonce}".encode()))
    ticks = sum(_ticks(pid) for pid in found)
    return Liveness(len(found), ticks * 1000 // os.sysconf("SC_CLK_TCK"))


def _marked(mark: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue  # gate-ok: it ended, or is another user's
        if mark in environment.split(b"\0"):
            found.append(int(name))
    return found


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime: fields 14 to 17 of /proc/PID/stat."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return sum(map(int, stat[stat.rindex(b")") + 2 :].split()[11:15]))
