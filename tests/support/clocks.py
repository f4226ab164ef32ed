"""A clock that a test turns: it never moves by itself, and wall clock, boot clock and boot can be told apart."""

from __future__ import annotations

from datetime import UTC, datetime

SECOND = 1_000_000_000


class TurnedClock:
    """Starts at `start` (seconds since the epoch). `sleep` moves it; nothing else does but the test."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.wall = start
        self.since_boot = 1_000.0
        self.boot_name = "boot-1"

    def advance(self, seconds: float) -> None:
        """Time passes for every clock."""
        self.wall += seconds
        self.since_boot += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall += seconds

    def reboot(self, seconds: float = 60.0) -> None:
        """The machine is off for so long."""
        self.wall += seconds
        self.since_boot = 5.0
        self.boot_name = f"boot-{int(self.boot_name.partition('-')[2]) + 1}"

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)

    def monotonic(self) -> float:
        return self.since_boot

    def boot(self) -> tuple[str, int]:
        return self.boot_name, round(self.since_boot * SECOND)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
