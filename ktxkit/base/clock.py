"""Time, injected. Wall times are UTC RFC 3339 with milliseconds; spans are seconds of the monotonic clock.

Limits that nobody configures; a test of what lies beyond one gives its world others.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from ktxkit.base.rules.named import NamedTuple


class Clock(Protocol):
    """What a command may know of time."""

    def now(self) -> datetime:
        """Aware, UTC."""

    def monotonic(self) -> float:
        """Seconds; only differences mean something."""

    def boot(self) -> tuple[str, int]:
        """Names the boot (and time namespace), and nanoseconds since it, time spent suspended included."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def boot(self) -> tuple[str, int]:
        return _boot_name(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def since_process_start() -> float:
    """Seconds since this process was started, the interpreter's own start included; 0 where /proc does not say."""
    try:
        with open("/proc/self/stat", "rb") as stream:
            ticks = int(stream.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


class FixedClock:
    """A clock for tests: starts at `start`, each reading of it may advance it by `step` seconds."""

    def __init__(self, start: datetime, step: float = 0.0) -> None:
        self._epoch = start.timestamp()
        self._passed = 0.0
        self.step = step

    def now(self) -> datetime:
        self._passed += self.step
        return datetime.fromtimestamp(self._epoch + self._passed, UTC)

    def monotonic(self) -> float:
        self._passed += self.step
        return self._passed

    def boot(self) -> tuple[str, int]:
        self._passed += self.step
        return "fixed", round(self._passed * 1_000_000_000)

    def sleep(self, seconds: float) -> None:
        self._passed += seconds


@cache
def _boot_name() -> str:
    """proc(5): a clock of another boot, or of another time namespace, cannot be compared with this one."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"  # noqa: PTH115
    except OSError:
        return boot  # a kernel before 5.6 has no time namespaces


def timestamp(moment: datetime) -> str:
    """`2026-05-17T12:00:00.000Z`: UTC RFC 3339 with milliseconds, cut (not rounded) as clocks are read."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


class Limits(NamedTuple):
    """Sizes and times of a world. The defaults hold for every command."""

    patch_bytes: int = 1023 * 1024 * 1024 - 1  # git apply refuses more (MAX_APPLY_SIZE in its apply.c)
    lock_age: float = 1.0  # seconds: a younger lock may belong to a program that is no git
    obstacle_wait: float = 5.0  # seconds until an obstacle's owner is done, or is proven dead
    cached_artifacts: int = 200  # of a tree, from which their facts are kept: fewer are read in no time
    cache_wait: float = 2.0  # seconds for another process that writes the same cache


LIMITS = Limits()
