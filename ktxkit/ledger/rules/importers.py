"""A run of ours as a CTRF report (ctrf-io/ctrf, working draft 0.0.0), for tools that read it.

Other runners' results as events of ours: pytest-reportlog, JUnit XML, CTRF. What they do not say stays unsaid, so
that an imported run is never full: nobody knows what it left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from ktxkit.ledger.rules import payload

if TYPE_CHECKING:
    from ktxkit.base.documents import RunRecord

STATUS = {
    "passed": "passed", "xpassed": "passed", "failed": "failed", "error": "failed", "crashed": "failed",
    "skipped": "skipped", "xfailed": "skipped", "interrupted": "other", "unknown": "other",
}  # fmt: skip


def report(record: RunRecord, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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


def _tests(record: RunRecord, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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


Event = dict[str, Any]
Keep = Callable[[bytes], str]
REPORTLOG_WORDS = frozenset({"passed", "failed", "skipped", "rerun"})
CTRF_WORDS = {"passed": "passed", "failed": "failed", "skipped": "skipped", "pending": "skipped", "other": "unknown"}


class Importer:
    """Numbers occurrences and makes result lines. `keep` stores long texts."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.t = 0.0
        self._seen: Counter[str] = Counter()
        self.bad = 0

    def result(self, test: str, outcome: str, spans: Mapping[str, float], **more: Any) -> Event:
        """A test's line; a second result of the same id is another occurrence."""
        plain, escaped = payload.clean(test)
        self._seen[plain] += 1
        return self.line(plain, escaped, self._seen[plain], 1, outcome, spans, **more)

    def line(
        self,
        test: str,
        escaped: bool,
        occurrence: int,
        attempt: int,
        outcome: str,
        spans: Mapping[str, float],
        **more: Any,
    ) -> Event:
        if not all(map(isfinite, spans.values())):
            raise ValueError(f"a duration of {test} is not finite")
        spans = {key: max(0.0, seconds) for key, seconds in spans.items()}  # a clock that was set back
        self.t += sum(spans.values())
        if not isfinite(self.t):
            raise ValueError(f"the durations up to {test} are not finite together")
        self.bad += outcome in ("failed", "error", "crashed")
        made: Event = {"event": "test_result", "test": test, "t": round(self.t, 6), "outcome": outcome}
        if escaped:
            made["escaped"] = True
        for key, number in (("occurrence", occurrence), ("attempt", attempt)):
            if number > 1:
                made[key] = number
        made |= {key: round(seconds, 6) for key, seconds in spans.items()}
        return made | {key: value for key, value in more.items() if value not in (None, "", {}, [])}

    def error(self, message: str, text: str) -> Event:
        """What a failure says."""
        made: Event = {}
        if message:
            made["message"] = payload.head(payload.clean(message)[0], 500)
        if text:
            made["text"] = payload.describe(text, self.keep)
        return made


def from_reportlog(records: Iterable[Mapping[str, Any]], keep: Keep) -> Iterator[Event]:
    """Events of a pytest-reportlog file; where it has no SessionFinish, there is no end either: the run was cut off."""
    importer = Importer(keep)
    open_tests: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        kind = record.get("$report_type")
        if kind == "TestReport":
            yield from _test_report(importer, open_tests, record)
        elif kind in ("SubTestReport", "SubtestReport"):
            yield _subtest(importer, record)
        elif kind == "CollectReport" and record.get("outcome") != "passed":
            outcome = "error" if record.get("outcome") == "failed" else "skipped"
            plain, escaped = payload.clean(str(record.get("nodeid", "")))
            event: Event = {"event": "collect_report", "t": round(importer.t, 6), "node": plain, "outcome": outcome}
            if escaped:
                event["escaped"] = True
            if outcome == "error":
                event["error"] = importer.error("", _longrepr(record))
            yield event
        elif kind == "WarningMessage":
            text = payload.head(payload.clean(str(record.get("message", "")))[0], 1000)
            category = str(record.get("category", "Warning"))[:200]
            yield {"event": "warning", "t": round(importer.t, 6), "category": category, "message": text}
        elif kind is None and "exitstatus" in record:
            yield _finished(importer, int(record["exitstatus"]))
    for nodeid in open_tests:
        plain, escaped = payload.clean(nodeid)
        event = {"event": "test_started", "test": plain, "t": round(importer.t, 6)}
        yield event | ({"escaped": True} if escaped else {})


def _finished(importer: Importer, status: int) -> Event:
    return {"event": "run_finished", "t": round(importer.t, 6), "exitStatus": status}


def _test_report(
    importer: Importer, open_tests: dict[str, list[Mapping[str, Any]]], record: Mapping[str, Any]
) -> Iterator[Event]:
    nodeid = str(record["nodeid"])
    reports = open_tests.setdefault(nodeid, [])
    reports.append(record)
    if record["when"] == "teardown" or record["when"] not in ("setup", "call") or record["outcome"] == "rerun":
        del open_tests[nodeid]
        yield _of_reports(importer, nodeid, reports)


def _of_reports(importer: Importer, nodeid: str, reports: list[Mapping[str, Any]]) -> Event:
    spans = {str(r["when"]): float(r["duration"]) for r in reports if r["when"] in ("setup", "call", "teardown")}
    outcome = "passed"
    more: Event = {}
    for report in reports:
        word, when = _word(nodeid, report), report["when"]
        if when not in ("setup", "call", "teardown"):
            outcome = "crashed"
        elif "wasxfail" in report:
            outcome = "xfailed" if word == "skipped" else "xpassed"
        elif word in ("failed", "rerun") and when == "teardown":
            more["teardownFailed"] = True
        elif word in ("failed", "rerun"):
            outcome = "failed" if when == "call" else "error"
        elif word == "skipped":
            outcome = "skipped"
        if word in ("failed", "rerun"):
            more["teardownError" if when == "teardown" else "error"] = importer.error(_crash(report), _longrepr(report))
    return importer.result(nodeid, outcome, spans, worker=reports[0].get("worker_id", ""), **more)


def _word(nodeid: str, record: Mapping[str, Any]) -> str:
    """The outcome of a report. Raises ValueError for a word that pytest does not have: it may mean anything."""
    word = str(record["outcome"])
    if word not in REPORTLOG_WORDS:
        raise ValueError(f"{payload.head(payload.clean(word)[0], 80)!r} is no outcome of {nodeid}")
    return word


def _crash(record: Mapping[str, Any]) -> str:
    found = record.get("longrepr")
    crash = found.get("reprcrash") if isinstance(found, Mapping) else None
    return str(crash.get("message", "")) if isinstance(crash, Mapping) else ""


def _longrepr(record: Mapping[str, Any]) -> str:
    """The text of a serialised traceback: the lines of its entries."""
    found = record.get("longrepr")
    if not isinstance(found, Mapping):
        return "" if found is None else str(found)
    lines: list[str] = []
    for entry in (found.get("reprtraceback") or {}).get("reprentries", ()):
        lines += (entry.get("data") or {}).get("lines") or ()
    return "\n".join(lines)


def _subtest(importer: Importer, record: Mapping[str, Any]) -> Event:
    context = record.get("_subtest.context") or record.get("context") or {}
    label = str(context.get("msg") or "")
    if context.get("kwargs"):
        label += "(" + ", ".join(f"{key}={value}" for key, value in context["kwargs"].items()) + ")"
    plain, escaped = payload.clean(str(record["nodeid"]))
    label = payload.head(payload.clean(label)[0], 500)
    made: Event = {"event": "subtest_result", "test": plain, "t": round(importer.t, 6), "label": label}
    made["outcome"] = _word(plain, record)
    return made | ({"escaped": True} if escaped else {})


def from_junit(suites: Iterable[Mapping[str, Any]], keep: Keep) -> Iterator[Event]:
    """Events of a JUnit XML file, whose test cases were read as `name`, `classname`, `file`, `time` and `problems`."""
    importer = Importer(keep)
    for case in suites:
        words = {problem["tag"] for problem in case["problems"]}
        outcome = next((word for tag, word in JUNIT_WORDS if tag in words), "passed")
        first = next((p for p in case["problems"] if p["tag"] in ("failure", "error", "skipped")), None)
        name = "::".join(part for part in (case.get("file") or case.get("classname"), case["name"]) if part)
        more: Event = {}
        if first is not None and outcome == "skipped":
            more["reason"] = payload.head(payload.clean(first["message"])[0], 500)
        elif first is not None:
            more["error"] = importer.error(first["message"], first["text"])
        yield importer.result(name, outcome, {"call": case["time"]}, **more)
    yield _finished(importer, 1 if importer.bad else 0)


JUNIT_WORDS = (("error", "error"), ("failure", "failed"), ("skipped", "skipped"))


def from_ctrf(document: Mapping[str, Any], keep: Keep) -> Iterator[Event]:
    """Events of a CTRF report. Its `flaky` is passed on retry; here its attempts say so."""
    importer = Importer(keep)
    for test in document["results"]["tests"]:
        yield from _ctrf_test(importer, test)
    yield _finished(importer, 1 if importer.bad else 0)


def _ctrf_test(importer: Importer, test: Mapping[str, Any]) -> Iterator[Event]:
    suite = test.get("suite") or ()
    parts = [test.get("filePath"), *(suite if isinstance(suite, list) else [suite]), test["name"]]
    name, escaped = payload.clean("::".join(str(part) for part in parts if part))
    number = 0
    for number, attempt in enumerate(test.get("retryAttempts") or (), start=1):
        spans = {"call": float(attempt.get("duration", 0)) / 1000}
        error = importer.error(str(attempt.get("message", "")), str(attempt.get("trace", "")))
        word = CTRF_WORDS[str(attempt["status"])]
        yield importer.line(name, escaped, 1, number, word, spans, retried=True, error=error)
        importer.bad -= word == "failed"
    word = CTRF_WORDS[str(test["status"])]
    spans = {"call": float(test["duration"]) / 1000}
    error = importer.error(str(test.get("message", "")), str(test.get("trace", ""))) if word == "failed" else {}
    yield importer.line(name, escaped, 1, number + 1, word, spans, error=error)
