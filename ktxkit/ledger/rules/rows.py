"""Runs as rows of answers and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktxkit.ledger.rules.answers import Row, Verdict

WORDS = (
    ("passed", "passed"), ("failed", "failed"), ("errors", "errors"), ("crashed", "crashed"), ("skipped", "skipped"),
    ("xfailed", "xfailed"), ("xpassed", "xpassed"), ("interrupted", "interrupted"), ("running", "running"),
    ("notRun", "never ran"), ("collectionErrors", "not collected"),
)  # fmt: skip


def run_row(record: Mapping[str, Any], source: str, what: str = "") -> Row:
    """A run in one row. `wall` is seconds."""
    tree = record.get("tree", {})
    return {
        "what": what or None,
        "run": record["run"],
        "started": record.get("startedAt"),
        "finished": record.get("finishedAt"),
        "scope": record["scope"]["kind"],
        "paths": record["scope"].get("paths"),
        "why": record["scope"].get("why"),
        "state": record["state"],
        "verdict": record["verdict"],
        "tests": tally(record["counts"]),
        "counts": record["counts"],
        "wall": record.get("wallSeconds"),
        "trigger": record.get("trigger"),
        "authoritative": record.get("authoritative"),
        "against": record.get("against"),
        "commit": tree.get("commit"),
        "tree": tree.get("tree"),
        "dirty": tree.get("dirty"),
        "exitStatus": record.get("exitStatus"),
        "signal": record.get("signal"),
        "source": source,
    }


def tally(counts: Mapping[str, int]) -> str:
    """`118 passed, 2 failed of 120`."""
    parts = [f"{counts[key]} {word}" for key, word in WORDS if counts.get(key)]
    of = f" of {counts['selected']}" if "selected" in counts else ""
    return (", ".join(parts) or "none ran") + of


def passed(record: Mapping[str, Any] | None) -> Verdict:
    """Whether a run passed: only a finished run with status 0 did; one that is known to have failures did not."""
    if record is None:
        return "unknown"
    words: dict[str, Verdict] = {"passed": "true", "failed": "false"}
    return words.get(record["verdict"], "unknown")


def not_comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Row]:
    """What two runs differ in that makes comparing them meaningless: scope, environment, workers and scheduling."""
    pairs: Sequence[tuple[str, Any, Any]] = [
        ("scope", _scope(one), _scope(other)),
        *((f"environment.{key}", a, b) for key, a, b in _environments(one, other)),
        ("workers", one.get("workers"), other.get("workers")),
        ("scheduling", one.get("scheduling"), other.get("scheduling")),
    ]
    return [{"differs": key, "first": _plain(a), "second": _plain(b)} for key, a, b in pairs if a != b]


def _scope(record: Mapping[str, Any]) -> str:
    scope = record["scope"]
    return " ".join([scope["kind"], *scope.get("paths", []), *scope.get("why", [])])


def _environments(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    first, second = one.get("environment", {}), other.get("environment", {})
    keys = sorted((set(first) | set(second)) - {"digest"})
    found = [(key, first.get(key), second.get(key)) for key in keys]
    if all(a == b for _, a, b in found) and first.get("digest") != second.get("digest"):
        found.append(("digest", first.get("digest"), second.get("digest")))
    return found


def _plain(value: Any) -> Any:
    return "(not recorded)" if value is None else value
