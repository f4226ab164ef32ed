"""Time, injected. Wall times are UTC RFC 3339 with milliseconds; spans are seconds of the monotonic clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a command may know of time."""

    def now(self) -> datetime:
        """Aware, UTC."""

    def monotonic(self) -> float:
        """Seconds; only differences mean something."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


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

    def sleep(self, seconds: float) -> None:
        self._passed += seconds


def timestamp(moment: datetime) -> str:
    """`2026-05-17T12:00:00.000Z`: UTC RFC 3339 with milliseconds, cut (not rounded) as clocks are read."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
