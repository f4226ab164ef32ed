"""A run of ours as a CTRF report (ctrf-io/ctrf, working draft 0.0.0), for tools that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

STATUS = {
    "passed": "passed", "xpassed": "passed", "failed": "failed", "error": "failed", "crashed": "failed",
    "skipped": "skipped", "xfailed": "skipped", "interrupted": "other", "unknown": "other",
}  # fmt: skip


def report(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document. `rows` are the attempts of the run in order, with the verdict beside each last one.

    Scope, authority and what never ran have no place in CTRF's core: they are in `extra`.
    """
    tests = _tests(record, rows)
    start = _ms(record.get("startedAt"))
    words = [test["status"] for test in tests]
    tree = record.get("tree", {})
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "runId": record["run"],
        "generatedBy": "ktxkit",
        "results": {
            "tool": {"name": "pytest", "version": record.get("tools", {}).get("pytest", "unknown")},
            "summary": {
                "tests": len(tests),
                **{word: words.count(word) for word in ("passed", "failed", "skipped", "pending", "other")},
                "start": start,
                "stop": start + round(record.get("wallSeconds", 0) * 1000),
            },
            "tests": tests,
            "environment": {"commit": tree["commit"]} if "commit" in tree else {},
            "extra": {
                key: record[key] for key in ("scope", "state", "verdict", "authoritative", "project") if key in record
            },
        },
    }


def _tests(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each test once, its earlier attempts inside; then those that never ran."""
    tests: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    for row in rows:
        if row["verdict"] is None:
            before.append(_attempt(row))
            continue
        made = _test(row)
        if before:
            made |= {"retries": len(before), "retryAttempts": before, "flaky": made["status"] == "passed"}
            before = []
        tests.append(made)
    tests += [
        {"name": test, "status": "pending", "duration": 0, "rawStatus": "never ran"}
        for test in record.get("notRun", ())
    ]
    return tests


def _test(row: Mapping[str, Any]) -> dict[str, Any]:
    made = {
        "name": row["test"],
        "status": STATUS[row["verdict"]],
        "duration": round(row["total"] / 1000),
        "rawStatus": row["verdict"],
    }
    if row["message"] and made["status"] == "failed":
        made["message"] = row["message"]
    return made | ({"threadId": row["worker"]} if row["worker"] else {})


def _attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    made = {"attempt": row["attempt"], "status": STATUS[row["outcome"]], "duration": round(row["total"] / 1000)}
    return made | ({"message": row["message"]} if row["message"] else {})


def _ms(at: str | None) -> int:
    return 0 if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)
