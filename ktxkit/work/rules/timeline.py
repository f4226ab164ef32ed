"""What a trace says of time: spans of timed steps, and phases from their first event to their last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

SPANS_KEPT = 50_000  # spans of one job; the rest is counted
ENDINGS = ("_finished", "_failed")
Event = Mapping[str, Any]


def milliseconds(at: str) -> float:
    """A timestamp (UTC RFC 3339 with milliseconds) as milliseconds since the epoch. Raises ValueError."""
    return datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp() * 1000


def between(start: str, end: str) -> float:
    """Milliseconds from one timestamp to a later one; never negative, since clocks are set back."""
    return max(0.0, round(milliseconds(end) - milliseconds(start), 3))


def stem(name: str) -> str:
    """The step that an event ends: `apply_patch` of `apply_patch_finished`."""
    for ending in ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def spans(events: Iterable[Event], origin: str) -> list[dict[str, Any]]:
    """Every event that says how long it took, as a span. `startMs` counts from `origin`, a timestamp."""
    zero = milliseconds(origin)
    found = []
    for event in events:
        if "durationMs" not in event:
            continue
        end = milliseconds(event["at"]) - zero
        unit = event.get("data", {}).get("unitKey")
        found.append(
            {
                "phase": event["phase"],
                "name": stem(event["event"]),
                **({"unitKey": unit} if isinstance(unit, str) and unit else {}),
                "startMs": round(max(0.0, end - event["durationMs"]), 3),
                "durationMs": event["durationMs"],
                "ok": event["level"] != "error",
            }
        )
    return sorted(found, key=lambda span: (span["startMs"], -span["durationMs"]))


def phases(events: Iterable[Event], origin: str) -> list[dict[str, Any]]:
    """Each phase in the order of its first event: from when to when (milliseconds from `origin`), events, errors."""
    zero = milliseconds(origin)
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        at = max(0.0, milliseconds(event["at"]) - zero)
        begin = max(0.0, at - event.get("durationMs", 0))
        new = {"phase": event["phase"], "startMs": begin, "endMs": at, "events": 0, "errors": 0}
        phase = found.setdefault(event["phase"], new)
        phase["startMs"] = round(min(phase["startMs"], begin), 3)
        phase["endMs"] = round(max(phase["endMs"], at), 3)
        phase["events"] += 1
        phase["errors"] += event["level"] == "error"
    return list(found.values())
