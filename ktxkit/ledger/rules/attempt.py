"""One execution of one test, as the fold sees it."""

from __future__ import annotations

BAD = ("failed", "error", "crashed")
RANK = ("crashed", "error", "failed", "interrupted", "unknown", "xpassed", "passed", "xfailed", "skipped")


class Attempt:
    """One execution of a test. Durations are seconds, None where there was no such phase; `t` from the run's start.

    No dataclass: a question is answered before `dataclasses` would be imported.
    """

    __slots__ = (
        *("test", "occurrence", "attempt", "started", "t", "outcome", "setup", "call", "teardown"),
        *("worker", "retried", "teardown_failed", "cause", "message", "escaped"),
    )

    def __init__(
        self, test: str, occurrence: int, attempt: int, started: float | None = None, escaped: bool = False
    ) -> None:
        self.test, self.occurrence, self.attempt, self.started, self.escaped = (
            test, occurrence, attempt, started, escaped,
        )  # fmt: skip
        self.t: float | None = None
        self.outcome = "running"
        self.setup: float | None = None
        self.call: float | None = None
        self.teardown: float | None = None
        self.worker = self.cause = self.message = ""
        self.retried = self.teardown_failed = False


def worst(one: str, other: str) -> str:
    """The worse of two outcomes."""
    return min(one, other, key=lambda word: RANK.index(word) if word in RANK else len(RANK))
