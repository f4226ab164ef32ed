"""Other runners' results as events of ours: pytest-reportlog, JUnit XML, CTRF. What they do not say stays unsaid, so
that an imported run is never full: nobody knows what it left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol

from ktxkit.ledger.rules import payload
from ktxkit.ledger.rules.rows import BAD

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
        self._attempt: dict[str, int] = {}  # of tests whose last attempt so far is retried
        self.bad = 0

    def result(self, test: str, outcome: str, spans: Mapping[str, float], **more: Any) -> Event:
        """A test's line; a second result of the same id is another occurrence, unless the first was retried."""
        plain, escaped = payload.clean(test)
        attempt = self._attempt.pop(plain, 0) + 1
        if attempt == 1:
            self._seen[plain] += 1
        if more.get("retried"):
            self._attempt[plain] = attempt
        made = self._line(plain, outcome, spans, bool(more.get("retried"))) | ({"escaped": True} if escaped else {})
        made |= {key: n for key, n in (("occurrence", self._seen[plain]), ("attempt", attempt)) if n > 1}
        return made | {key: value for key, value in more.items() if value not in (None, "", {}, [])}

    def attempts(
        self,
        test: str,
        before: Sequence[tuple[str, Event]],
        outcome: str,
        spans: Mapping[str, float],
        spans_before: Sequence[Mapping[str, float]] = (),
        **more: Any,
    ) -> Iterator[Event]:
        """The lines of a test that was retried: outcome and error of each attempt before the last one."""
        for number, (word, error) in enumerate(before):
            took = spans_before[number] if spans_before else {}
            yield self.result(test, word, took, retried=True, error=error)
        yield self.result(test, outcome, spans, **more)

    def _line(self, test: str, outcome: str, spans: Mapping[str, float], retried: bool) -> Event:
        if not all(map(isfinite, spans.values())):
            raise ValueError(f"a duration of {test} is not finite")
        spans = {key: max(0.0, seconds) for key, seconds in spans.items()}  # a clock that was set back
        self.t += sum(spans.values())
        if not isfinite(self.t):
            raise ValueError(f"the durations up to {test} are not finite together")
        self.bad += outcome in BAD and not retried
        made: Event = {"event": "test_result", "test": test, "t": round(self.t, 6), "outcome": outcome}
        return made | {key: round(seconds, 6) for key, seconds in spans.items()}

    def error(self, message: str, text: str) -> Event:
        """What a failure says."""
        made: Event = {}
        if message:
            made["message"] = payload.head(payload.clean(message)[0], 500)
        if text:
            made["text"] = payload.describe(text, self.keep)
        return made


def from_reportlog(records: Iterable[Mapping[str, Any]], importer: Importer) -> Iterator[Event]:
    """Events of a pytest-reportlog file; where it has no SessionFinish, there is no end either: the run was cut off."""
    open_tests: OpenTests = {}
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
            yield event | ({"error": importer.error("", _longrepr(record))} if outcome == "error" else _reason(record))
        elif kind == "WarningMessage":
            text = payload.head(payload.clean(str(record.get("message", "")))[0], 1000)
            category = str(record.get("category", "Warning"))[:200]
            yield {"event": "warning", "t": round(importer.t, 6), "category": category, "message": text}
        elif kind in (None, "SessionFinish") and "exitstatus" in record:
            yield _finished(importer, int(record["exitstatus"]))
    for (nodeid, _), reports in open_tests.items():
        if _is_told(reports):
            yield _of_reports(importer, nodeid, reports)
            continue
        plain, escaped = payload.clean(nodeid)
        event = {"event": "test_started", "test": plain, "t": round(importer.t, 6)}
        yield event | ({"escaped": True} if escaped else {})


def joined(parts: Sequence[Sequence[Event]]) -> list[Event]:
    """The events of the reports of one run: one end, as bad as the worst, or none where one has none."""
    if len(parts) == 1:
        return list(parts[0])
    found = [event for events in parts for event in events if event["event"] not in ("collected", "run_finished")]
    totals = [next((one["selected"] for one in events if one["event"] == "collected"), None) for events in parts]
    ends = [one for events in parts for one in events if one["event"] == "run_finished"]
    t = max((event["t"] for events in parts for event in events), default=0)
    if any(total is not None for total in totals):
        listed = [len({(one["test"], one.get("occurrence", 1)) for one in part if "test" in one}) for part in parts]
        selected = sum(n if total is None else total for total, n in zip(totals, listed, strict=True))
        found.append({"event": "collected", "t": t, "selected": selected})
    if len(ends) == len(parts):
        found.append({"event": "run_finished", "t": t, "exitStatus": max(end["exitStatus"] for end in ends)})
    return found


def _finished(importer: Importer, status: int) -> Event:
    return {"event": "run_finished", "t": round(importer.t, 6), "exitStatus": status}


OpenTests = dict[tuple[str, str], list[Mapping[str, Any]]]  # by node id and worker: workers may run the same test


def _test_report(importer: Importer, open_tests: OpenTests, record: Mapping[str, Any]) -> Iterator[Event]:
    nodeid = str(record["nodeid"])
    key = nodeid, str(record.get("worker_id", ""))
    if record["when"] == "setup" and _is_told(before := open_tests.pop(key, ())):
        yield _of_reports(importer, nodeid, before)
    reports = open_tests.setdefault(key, [])
    reports.append(record)
    if record["when"] == "teardown" or record["when"] not in ("setup", "call"):
        del open_tests[key]
        yield _of_reports(importer, nodeid, reports)


def _is_told(reports: Iterable[Mapping[str, Any]]) -> bool:
    """Whether what a test came to is known without its teardown: it failed, or is to be run again."""
    return any(report["outcome"] in ("failed", "rerun") for report in reports)


def _retried(reports: Iterable[Mapping[str, Any]]) -> bool:
    return any(report["outcome"] == "rerun" for report in reports)


def _of_reports(importer: Importer, nodeid: str, reports: Sequence[Mapping[str, Any]]) -> Event:
    spans = {str(r["when"]): float(r["duration"]) for r in reports if r["when"] in ("setup", "call", "teardown")}
    outcome = "passed"
    more: Event = {"retried": True} if _retried(reports) else {}
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
            more |= _reason(report)
        if word in ("failed", "rerun"):
            more["teardownError" if when == "teardown" else "error"] = importer.error(_crash(report), _longrepr(report))
    return importer.result(nodeid, outcome, spans, worker=reports[0].get("worker_id", ""), **more)


def _word(nodeid: str, record: Mapping[str, Any]) -> str:
    """The outcome of a report. Raises ValueError for a word that pytest does not have: it may mean anything."""
    word = str(record["outcome"])
    if word not in REPORTLOG_WORDS:
        raise ValueError(f"{payload.head(payload.clean(word)[0], 80)!r} is no outcome of {nodeid}")
    return word


def _reason(record: Mapping[str, Any]) -> Event:
    """Why something was skipped: path, line and reason are what pytest has of it."""
    found = record.get("longrepr")
    return (
        {"reason": payload.head(payload.clean(str(found[2]))[0], 500)} if isinstance(found, list) and found[2:] else {}
    )


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


class Element(Protocol):
    """What of an element of xml.etree is read here."""

    @property
    def tag(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    def get(self, key: str, /) -> str | None: ...
    def findtext(self, path: str, /) -> str | None: ...
    def iter(self, tag: str | None = None, /) -> Iterator[Element]: ...
    def __iter__(self) -> Iterator[Element]: ...


def from_junit(root: Element, importer: Importer) -> Iterator[Event]:
    """Events of a JUnit XML file. Raises ValueError for a number that is none.

    A header that counts more than the cases show makes the run one that is not whole, or that failed.
    """
    cases = list(root.iter("testcase"))
    comma = _decimal_comma([one.get("time") or "" for one in root.iter() if one.tag not in SUITES])
    for suite in root.iter():
        problem = next((child for child in suite if _word_of(child.tag) in BAD), None)
        if suite.tag in SUITES and problem is not None:
            importer.bad += 1
            plain, escaped = payload.clean(suite.get("name") or suite.tag)
            made: Event = {"event": "collect_report", "t": 0, "node": plain, "outcome": "error"}
            made |= {"error": importer.error(problem.get("message") or "", problem.text or "")}
            yield made | ({"escaped": True} if escaped else {})
    again = _run_again(root)
    for case in cases:
        yield from _junit_case(importer, case, comma, retried=id(case) in again)
    missing, failures = _unlisted(root)
    if missing:
        yield {"event": "collected", "t": round(importer.t, 6), "selected": len(cases) + missing}
    yield _finished(importer, 1 if importer.bad or failures else 0)


def _run_again(root: Element) -> set[int]:
    """Cases of Go that gotestsum ran again: there a name is one test, elsewhere it may be one of its parameters."""
    found: set[int] = set()
    for suite in root.iter():
        if suite.tag in SUITES and any(one.get("name") == "go.version" for one in suite.iter("property")):
            last = {(case.get("classname"), case.get("name")): id(case) for case in suite if case.tag == "testcase"}
            found |= {id(case) for case in suite if case.tag == "testcase"} - set(last.values())
    return found


def _expected(problems: Mapping[str, Element]) -> str:
    """The outcome of a case that failed and was to fail: pytest's xfail, unittest's, TAP's todo; else nothing."""
    skipped = problems.get("skipped")
    kind = "" if skipped is None else (skipped.get("type") or "").lower()
    return "xfailed" if kind.endswith("xfail") or (kind == "todo" and "failure" in problems) else ""


def _junit_case(importer: Importer, case: Element, comma: bool, *, retried: bool = False) -> Iterator[Event]:
    """One line for each attempt of a case: what Surefire and nextest call flaky or rerun are attempts of one test."""
    problems = {child.tag: child for child in list(case)[::-1] if _word_of(child.tag)}
    worst = sorted(problems, key=lambda tag: OUTCOMES_WORST_FIRST.index(_word_of(tag)))
    expected = _expected(problems)
    outcome = expected or next(map(_word_of, worst), "") or _said_outcome(case)
    first = next((problems[tag] for tag in worst), None)
    name = "::".join(part for part in (case.get("file") or case.get("classname"), case.get("name")) if part) or UNNAMED
    again = [child for child in case if child.tag in FLAKY or child.tag in RERUN]
    last: Event = {"retried": True} if retried else {}
    if first is not None and outcome in ("skipped", "xfailed"):
        last["reason"] = payload.head(payload.clean(first.get("message") or "")[0], 500)
    elif first is not None:
        last["error"] = importer.error(first.get("message") or "", _text(first))
    errors = [importer.error(child.get("message") or "", _text(child)) for child in again]
    spans = [{"call": _seconds(one.get("time") or "", comma)} if one.get("time") else {} for one in [*again, case]]
    words = [FLAKY.get(child.tag) or RERUN[child.tag] for child in again]
    if again and again[0].tag in RERUN and "error" in last:  # there the case's own failure was the first attempt's
        errors, last["error"] = [last["error"], *errors[:-1]], errors[-1]
        spans.insert(0, spans.pop())
    elif outcome not in BAD and any(child.tag in RERUN for child in again):  # only what never passed has one
        outcome, last = words.pop(), {"error": errors.pop()}
        spans[-2:] = spans[-2:-1]
    yield from importer.attempts(name, list(zip(words, errors, strict=True)), outcome, spans[-1], spans[:-1], **last)


def _word_of(tag: str) -> str:
    """The outcome that an element of a case tells, empty for one that tells none."""
    return JUNIT_WORDS.get(tag) or ("error" if BAD_ELEMENT.match(tag) else "")


def _said_outcome(case: Element) -> str:
    """The outcome of a case without an element for one: any of its attributes may say that it did not pass."""
    said = [(case.get(name) or "").strip().lower() for name in ("status", "result")]
    said += [word for name, (flag, word) in FLAGS.items() if (case.get(name) or "").strip().lower() == flag]
    found = ["passed" if word in JUNIT_GOOD else JUNIT_STATUS.get(word, "unknown") for word in said]
    return min(found, key=OUTCOMES_WORST_FIRST.index)


def _text(problem: Element) -> str:
    """What a failure says; Surefire has it of attempts in an element of its own."""
    return problem.findtext("stacktrace") or problem.text or ""


def _unlisted(suite: Element) -> tuple[int, int]:
    """How many tests, and how many failures, the headers count and no case shows."""
    below = [_unlisted(child) for child in suite if child.tag in SUITES]
    cases = list(suite.iter("testcase"))
    shown = [child for one in suite.iter() for child in one if _word_of(child.tag) in BAD]
    missing = _count(suite, "tests") - len(cases)
    said = Counter(_said_outcome(case) for case in cases if not any(_word_of(child.tag) for child in case))
    skipped = sum(any(_word_of(child.tag) == "skipped" for child in case) for case in cases) + said["skipped"]
    left_out = max(_count(suite, "skipped") + _count(suite, "disabled"), *(_other(suite, name) for name in SKIP_COUNTS))
    if left_out > skipped:  # then some that seem to have passed did not
        missing = max(missing, said["passed"] + left_out - len(cases))
    failures = _count(suite, "failures") + _count(suite, "errors")
    failures = max(failures, *(_other(suite, name) for name in BAD_COUNTS)) - len(shown)
    return max(missing, sum(one for one, _ in below), 0), max(failures, sum(one for _, one in below), 0)


def _count(suite: Element, name: str) -> int:
    text = THOUSANDS.sub("", (suite.get(name) or "0").strip())
    if not text.isdecimal():
        raise ValueError(f"{name}={text[:80]!r} of {suite.get('name') or suite.tag} is no number")
    return int(text)


def _other(suite: Element, name: str) -> int:
    """A count that some writers have beside, or instead of, the usual ones."""
    text = THOUSANDS.sub("", (suite.get(name) or "").strip().lower())
    if text.startswith("-"):
        raise ValueError(f"{name}={text[:80]!r} of {suite.get('name') or suite.tag} is no number")
    return int(text) if text.isdecimal() else int(text == "true")


SPACES = re.compile(r"(?<=\d)[\s\u00a0\u202f\u2009'\u2019](?=\d{3})")  # between thousands
THOUSANDS = re.compile(r"(?<=\d)[\s\u00a0\u202f\u2009'\u2019.,](?=\d{3}(?:\D|$))")


def _decimal_comma(times: Sequence[str]) -> bool:
    """Whether a report writes decimals with a comma, as in 0,160 or 1.234,5: one report has one locale."""
    mixed = [text for text in times if "," in text and "." in text]
    if mixed:
        return all(text.rindex(",") > text.rindex(".") for text in mixed)
    return not any("." in text for text in times) and all(text.count(",") < 2 for text in times)


def _seconds(text: str, comma: bool) -> float:
    plain = SPACES.sub("", text.strip())
    plain = plain.replace(".", "").replace(",", ".") if comma and "," in plain else plain.replace(",", "")
    try:
        return float(plain or "0")
    except ValueError as error:
        raise ValueError(f"{text[:80]!r} is no time in seconds, as in 0.25") from error


RETRIES = 1000  # of one test; more would only fill the ledger
UNNAMED = "(unnamed)"
SUITES = ("testsuites", "testsuite")
JUNIT_WORDS = {  # elements of a case, the worst first
    **dict.fromkeys(("error", "timeout", "timedout", "aborted", "crashed"), "error"),
    **dict.fromkeys(("failure", "failed"), "failed"),
    **dict.fromkeys(("skipped", "ignored", "disabled", "notrun"), "skipped"),
}
BAD_ELEMENT = re.compile(  # of writers that nobody has heard of: `<crash/>`, `<panic>`; not `<knownfailure>`
    r"(?!expected|known|x|flaky|rerun|system)\w*?(?:crash|abort|kill|panic|fatal|time-?d?-?out|error|fail|brok|interrupt"
    r"|exception|terminat|segfault|coredump|hang|hung)"
)
FLAGS = {  # attributes of a case, the value that tells, and the word for it
    **dict.fromkeys(("success", "passed"), ("false", "failed")),
    **dict.fromkeys(("failed", "failure"), ("true", "failed")),
    **dict.fromkeys(("error", "timedout", "timeout", "aborted", "crashed", "crash", "abort"), ("true", "error")),
    **dict.fromkeys(("skipped", "ignored", "disabled", "notrun"), ("true", "notrun")),
    "executed": ("false", "notrun"),
}
BAD_COUNTS = ("failed", "timedout", "timeouts", "aborted", "crashed", "broken")
SKIP_COUNTS = ("ignored", "skips", "skip", "notrun", "not-run")
JUNIT_STATUS = {  # what writers say of a case that has no element for it
    **dict.fromkeys(("notrun", "disabled", "suppressed", "skipped", "ignored", "untested", "pending"), "skipped"),
    **dict.fromkeys(("failed", "failure"), "failed"),
    **dict.fromkeys(("error", "undefined", "timeout", "timedout", "timed out", "interrupted", "unexpected"), "error"),
    **dict.fromkeys(("aborted", "crashed", "broken", "killed"), "error"),
    **dict.fromkeys(("canceled", "cancelled", "disabled", "not_run", "not run", "excluded"), "skipped"),
}
JUNIT_GOOD = frozenset(
    ("", "run", "ran", "passed", "pass", "passing", "success", "successful", "succeeded", "ok", "fixed")
    + ("completed", "complete")
)
OUTCOMES_WORST_FIRST = ("error", "failed", "unknown", "skipped", "passed")
FLAKY = {"flakyfailure": "failed", "flakyerror": "error"}  # attempts before one that passed
# Attempts after a first that failed; Surefire and nextest write them of a test that never passed.
RERUN = {"rerunfailure": "failed", "rerunerror": "error"}


def from_ctrf(document: Mapping[str, Any], importer: Importer) -> Iterator[Event]:
    """Events of a CTRF report. Its `flaky` is passed on retry; here its attempts say so."""
    results, before = document["results"], importer.bad
    tool = str((results.get("tool") or {}).get("name", "")).lower()
    for problem in (results.get("extra") or {}).get("errors") or ():  # of the run: Playwright's, outside of its tests
        importer.bad += 1
        said = importer.error(str(problem.get("message", "")), str(problem.get("stack", "")))
        yield {"event": "collect_report", "t": 0, "node": tool or UNNAMED, "outcome": "error", "error": said}
    for test in results["tests"]:
        yield from _ctrf_test(importer, test, tool)
    summary = {
        name: _ctrf_count(results, name) for name in ("tests", "failed", "passed", "skipped", "pending", "other")
    }
    if summary["tests"] > len(results["tests"]):
        yield {"event": "collected", "t": round(importer.t, 6), "selected": summary["tests"]}
    bad = importer.bad - before
    yield _finished(importer, 1 if bad or summary["failed"] > bad else 0)


def _ctrf_count(results: Mapping[str, Any], name: str) -> int:
    """A count of the summary. Raises ValueError for one that cannot be one: it may mean anything."""
    said = (results.get("summary") or {}).get(name, 0)
    found = int(said)
    if found < 0:
        raise ValueError(f"{name}={said!r} of the summary is no number of tests")
    return found


def _ctrf_word(test: Mapping[str, Any], tool: str) -> str:
    """The outcome of a test; what says `passed` of itself and otherwise by its tool's own word or steps, is no pass.

    Playwright's reporter has `passed` for the expected result: with another rawStatus that is an expected failure.
    """
    word = CTRF_WORDS[str(test["status"])]
    if word != "passed":
        return word
    raw = JUNIT_STATUS.get(str(test.get("rawStatus") or "").strip().lower(), "passed")
    if raw in BAD:
        return "xfailed" if tool == "playwright" else "unknown"
    return "unknown" if raw == "passed" and _failed_step(test) else raw


def _failed_step(test: Mapping[str, Any]) -> bool:
    steps = list(test.get("steps") or ())
    for step in steps:  # grows by what is within
        steps += step.get("steps") or ()
    return any(step.get("status") == "failed" for step in steps)


def _ctrf_test(importer: Importer, test: Mapping[str, Any], tool: str) -> Iterator[Event]:
    suite = test.get("suite") or ()
    parts = [test.get("filePath"), *(suite if isinstance(suite, list) else [suite]), test["name"]]
    name = "::".join(str(part) for part in parts if part) or UNNAMED
    before = test.get("retryAttempts") or ()
    words = [CTRF_WORDS[str(attempt["status"])] for attempt in before]
    errors = [importer.error(str(one.get("message", "")), str(one.get("trace", ""))) for one in before]
    spans = [{"call": float(one.get("duration", 0)) / 1000} for one in before]
    if int(test.get("retries") or 0) < 0:
        raise ValueError(f"{test['retries']} retries of {name[:200]} are none that were made")
    unlisted = max(int(test.get("retries") or 0), int(test.get("flaky") is True)) - len(before)
    if unlisted > RETRIES:
        raise ValueError(f"{unlisted} retries of {name[:200]} are none that were made")
    words, errors, spans = words + ["failed"] * unlisted, errors + [{}] * unlisted, spans + [{}] * unlisted
    word = _ctrf_word(test, tool)
    said = importer.error(str(test.get("message", "")), str(test.get("trace", "")))
    more = {"error": said} if word == "failed" else {"reason": said.get("message")} if word == "skipped" else {}
    took = {"call": float(test["duration"]) / 1000}
    yield from importer.attempts(name, list(zip(words, errors, strict=True)), word, took, spans, **more)
