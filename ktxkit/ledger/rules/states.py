"""How a run ended, and what that allows to be said of it. No exit status turns an unfinished run into a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RUNNING, FINISHED = "running", "finished"
NO_TESTS, USAGE, INTERNAL = 5, 4, 3  # pytest's exit statuses


def state_of(
    start: Mapping[str, Any],
    end: Mapping[str, Any],
    marks: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    life: str,
    collect_errors: bool,
) -> str:
    """One word. `life` is what is known of the process: alive, dead or unknown."""
    if not end:
        return {"alive": RUNNING, "dead": "killed"}.get(life, "unknown")
    by_mark = _marked(marks)
    status = end["exitStatus"]
    if by_mark == "internal_error" or status == INTERNAL:
        return "internal_error"
    if start.get("mode", "run") != "run":
        return "planned"
    if by_mark:
        return by_mark
    if status == USAGE:
        return "usage_error"
    if end.get("stop"):
        return "stopped_early" if counts.get("notRun") or counts.get("interrupted") else FINISHED
    if status == NO_TESTS:
        return "no_tests"
    unsaid = "selected" not in counts and start.get("trigger") != "imported"  # other formats do not say
    if counts.get("notRun") or counts.get("interrupted") or unsaid:
        return "collection_error" if collect_errors else "incomplete"
    return FINISHED


def _marked(marks: Sequence[Mapping[str, Any]]) -> str:
    """What pytest itself said of an early end."""
    if any(mark["what"] == "internal_error" for mark in marks):
        return "internal_error"
    for mark in marks:
        message = mark["message"]
        if mark["by"] == "Interrupted" and "during collection" in message:
            return "collection_error"
        if mark["by"] == "Interrupted" and message.startswith("stopping after"):
            return "stopped_early"
        return "exited" if mark["by"] == "Exit" else "interrupted"
    return ""


def verdict_of(state: str, counts: Mapping[str, int], end: Mapping[str, Any]) -> str:
    """`failed` as soon as one test is known to fail; `passed` only of a finished run in which each test is known."""
    bad = sum(counts.get(word, 0) for word in ("failed", "errors", "crashed", "collectionErrors"))
    if bad:
        return "failed"
    if state == FINISHED and end["exitStatus"] == 0:
        return "incomplete" if counts.get("unknown") else "passed"
    if state == FINISHED:
        return "failed"
    return state if state in ("planned", "no_tests", RUNNING) else "incomplete"
