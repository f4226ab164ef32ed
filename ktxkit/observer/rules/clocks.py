"""The intervals of an attempt: checked, snapshotted when its observer first attaches, never adapted.

Two clocks and one deadline. Proven progress comes from receipts; observed activity from content, and defers only.

    proof     = last proven + silence
    observed  = min(last observed + grace, proof + cap)     only for an observation under the current proof
    suspectAt = max(proof, observed)

Where nobody was watching, an observation defers only if it was made by the deadline in force plus one reconcile
interval: a deadline that passed unseen is not healed by what comes later. All times are nanoseconds on the attempt's
own time line, which starts at its baseline and never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
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


WALL_JUMP = 5 * SECOND  # wall clock and boot clock disagree by more: said, and without effect


@dataclass(frozen=True)
class ClockReading:
    """What the machine's clocks say. `boot` names the boot and the time namespace; `boot_ns` counts suspend."""

    boot: str
    boot_ns: int
    wall_ns: int


@dataclass(frozen=True)
class Timeline:
    """A point of the attempt's time line and what the clocks said there."""

    at: int
    reading: ClockReading
    jumped: bool = False  # the clocks disagreed on the way here

    @classmethod
    def start(cls, reading: ClockReading) -> Timeline:
        """It begins at the wall clock's time, so that its points can be printed as times."""
        return cls(reading.wall_ns, reading)

    def advanced(self, reading: ClockReading) -> Timeline:
        """The point that is now. In one boot by the boot clock; across boots by the wall clock, never back."""
        old = self.reading
        wall = reading.wall_ns - old.wall_ns
        if reading.boot == old.boot and reading.boot_ns >= old.boot_ns:
            passed = reading.boot_ns - old.boot_ns
            jumped = abs(wall - passed) > WALL_JUMP
        else:
            passed = max(0, wall)
            jumped = wall < 0
        return Timeline(self.at + passed, reading, jumped)


@dataclass(frozen=True)
class Window:
    """Since the last proof: when it was and its number, and the last observation that counts (with its proof)."""

    proven_at: int
    proof_seq: int = 0
    observed_at: int | None = None
    observed_under: int = 0  # number of the proof that was current when it was observed
    known: bool = True  # False: the record of proofs was lost; there is no deadline until a new one


@dataclass(frozen=True)
class Deadlines:
    """Where the window ends. `consumed`: how much of the cap the observations have used, in nanoseconds."""

    proof: int
    observed: int | None
    suspect_at: int
    consumed: int


def deadlines(window: Window, settings: Settings) -> Deadlines:
    """The formula above."""
    proof = window.proven_at + settings.silence
    if window.observed_at is None or window.observed_under != window.proof_seq:
        return Deadlines(proof, None, proof, 0)
    observed = min(window.observed_at + settings.grace, proof + settings.cap)
    suspect_at = max(proof, observed)
    return Deadlines(proof, observed, suspect_at, suspect_at - proof)


@dataclass(frozen=True)
class Observation:
    """A change of content: when it was seen, under which proof, and whether somebody had been watching until then."""

    at: int
    proof_seq: int
    watched: bool
    recurring: bool = False  # the manifest was there before in this attempt (A, B, A)


def observe(window: Window, observation: Observation, settings: Settings) -> tuple[Window, str]:
    """The window with the observation in it, and `counted`, or why it defers nothing."""
    if not window.known:
        return window, "no_known_proof"
    if observation.recurring:
        return window, "manifest_seen_before"
    if observation.proof_seq != window.proof_seq:
        return window, "older_proof"
    if not observation.watched and observation.at > deadlines(window, settings).suspect_at + settings.interval:
        return window, "observed_after_deadline"
    latest = observation.at if window.observed_at is None else max(window.observed_at, observation.at)
    return replace(window, observed_at=latest, observed_under=window.proof_seq), "counted"


def prove(window: Window, at: int) -> Window:
    """A new window: the receipt is the authority. The last observation stays shown, and defers nothing any more."""
    proven_at = max(at, window.proven_at) if window.known else at
    return replace(window, proven_at=proven_at, proof_seq=window.proof_seq + 1, known=True)


def is_suspect(window: Window, now: int, settings: Settings) -> bool | None:
    """Whether the deadline has come; None where there is none to speak of."""
    return now >= deadlines(window, settings).suspect_at if window.known else None


def was_watched(last_look: int | None, now: int, settings: Settings) -> bool:
    """Whether the last reconciliation is so near that a deadline in between would have been seen."""
    return last_look is not None and now - last_look <= 2 * settings.interval
