"""One execution of one test, as the fold sees it."""

from __future__ import annotations

from dataclasses import dataclass

BAD = ("failed", "error", "crashed")
RANK = ("crashed", "error", "failed", "interrupted", "unknown", "xpassed", "passed", "xfailed", "skipped")


@dataclass(slots=True)
class Attempt:
    """One execution of a test. Durations are seconds, None where there was no such phase; `t` from the run's start."""

    test: str
    occurrence: int
    attempt: int
    started: float | None
    t: float | None = None
    outcome: str = "running"
    setup: float | None = None
    call: float | None = None
    teardown: float | None = None
    worker: str = ""
    retried: bool = False
    teardown_failed: bool = False
    cause: str = ""
    message: str = ""
    escaped: bool = False


def worst(one: str, other: str) -> str:
    """The worse of two outcomes."""
    return min(one, other, key=lambda word: RANK.index(word) if word in RANK else len(RANK))
