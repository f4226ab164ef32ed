"""The intervals of an attempt: checked, snapshotted when its observer first attaches, never adapted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ktxkit.base.errors import CannotRun

SECOND = 1_000_000_000  # nanoseconds

# Lowest and highest value of each setting; outside it is refused, never clamped.
RANGES: dict[str, tuple[int, int]] = {
    "silence_ms": (1_000, 86_400_000),
    "grace_ms": (0, 3_600_000),
    "cap_ms": (0, 86_400_000),
    "interval_ms": (200, 300_000),
    "debounce_ms": (1, 5_000),
    "content_every": (1, 1_000),
    "max_file_bytes": (1, 1 << 40),
}
_KEYS = {
    "silence_ms": "silenceMs",
    "grace_ms": "graceMs",
    "cap_ms": "capMs",
    "interval_ms": "intervalMs",
    "debounce_ms": "debounceMs",
    "content_every": "contentEvery",
    "max_file_bytes": "maxFileBytes",
}


@dataclass(frozen=True)
class Settings:
    """Milliseconds, but for the last two: every N-th periodic scan reads content; larger files are held, not hashed."""

    silence_ms: int = 300_000  # meaningful silence: without proven progress for so long, a unit is suspect
    grace_ms: int = 120_000  # what one observed change may defer
    cap_ms: int = 600_000  # what all observed changes together may defer, for one proof
    interval_ms: int = 15_000  # between full reconciliations
    debounce_ms: int = 100  # events are gathered for so long
    content_every: int = 20
    max_file_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise CannotRun(
                    f"observer setting {_KEYS[name]} is {value}; it must be {low} to {high}",
                    hint="leave it out for the default; a value out of range is never adapted",
                )

    @property
    def silence(self) -> int:
        """Nanoseconds."""
        return self.silence_ms * 1_000_000

    @property
    def grace(self) -> int:
        """Nanoseconds."""
        return self.grace_ms * 1_000_000

    @property
    def cap(self) -> int:
        """Nanoseconds."""
        return self.cap_ms * 1_000_000

    @property
    def interval(self) -> int:
        """Nanoseconds."""
        return self.interval_ms * 1_000_000

    def document(self) -> dict[str, int]:
        return {_KEYS[key]: value for key, value in asdict(self).items()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Settings:
        """From a document that `document` made. Raises CannotRun for a value out of range."""
        return cls(**{field.name: document[_KEYS[field.name]] for field in fields(cls)})
