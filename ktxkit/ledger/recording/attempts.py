"""Tests that can never run: a second definition of the same name in one scope hides the first, and pytest sees one.

What fixtures cost: seconds of setup for each, summed over the run. pytest sets a fixture up after those it asks for,
so each time is the fixture's own.

From pytest's reports to one line for each attempt of a test. The path of a passing test is the hot one.

A test's reports are setup, call and teardown; reruns, crashes, subtests and plugins with a protocol of their own make
others. What pytest itself counts is kept: a passed call with a failed teardown is both.
"""

from __future__ import annotations

import ast
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger.rules import payload
from ktxkit.ledger.rules.payload import clean

_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)
SOURCE_LIMIT = 2 * 1024 * 1024  # bytes of a file that is looked at
SHOWN = 1000


def shadowed(items: Iterable[Any], root: Path) -> list[dict[str, Any]]:
    """Each hidden test function: `path`, `name`, `line` of the hidden one. Only files with a surplus are parsed."""
    functions: dict[tuple[Path, str], set[str]] = defaultdict(set)
    parent: Any = None  # module or class: what is asked for each test is not asked of it each time
    names: set[str] = set()
    for item in items:
        function = getattr(item, "originalname", None)
        if function:
            if item.parent is not parent:
                parent = item.parent
                names = functions[getattr(parent, "path", None) or Path(), getattr(parent, "nodeid", "")]
            names.add(function)
    seen: Counter[Path] = Counter()
    for (path, _), names in functions.items():
        seen[path] += len(names)
    found: list[dict[str, Any]] = []
    for path, collected in sorted(seen.items(), key=lambda pair: str(pair[0])):
        if path.suffix == ".py" and len(found) < SHOWN:
            found += _of_file(path, collected, root)
    return found[:SHOWN]


def _of_file(path: Path, collected: int, root: Path) -> Iterator[dict[str, Any]]:
    try:
        source = path.read_bytes()
        if len(source) > SOURCE_LIMIT or len(_DEF.findall(source)) <= collected:
            return
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # gate-ok: what cannot be read here was collected some other way
    name = clean(str(path.relative_to(root) if path.is_relative_to(root) else path))[0]
    classes: list[ast.Module | ast.ClassDef] = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for scope in [*classes, tree]:
        plain = [node for node in scope.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        counts = Counter(node.name for node in plain if node.name.startswith("test") and not node.decorator_list)
        for node in plain:
            if counts[node.name] > 1 and not node.decorator_list:
                counts[node.name] -= 1
                yield {"path": name, "name": node.name[:500], "line": node.lineno}


ROWS_SHOWN = 1000


class FixtureCosts:
    """Sums by (where it is defined, name, scope)."""

    def __init__(self) -> None:
        self._now = time.perf_counter
        self._sums: dict[tuple[str, str, str], list[float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        began = self._now()
        try:
            return (yield)
        finally:
            spent = self._now() - began
            self._count((fixturedef.baseid or "", fixturedef.argname, str(fixturedef.scope)), 1, spent, spent)

    def _count(self, key: tuple[str, str, str], count: int, total: float, longest: float) -> None:
        found = self._sums.get(key)
        if found is None:
            self._sums[key] = [count, total, longest]
        else:
            found[0] += count
            found[1] += total
            found[2] = max(found[2], longest)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """What a worker measured."""
        for row in rows:
            self._count((row["base"], row["fixture"], row["scope"]), row["count"], row["total"], row["longest"])

    def rows(self) -> list[dict[str, Any]]:
        """The costliest first, in seconds."""
        ranked = sorted(self._sums.items(), key=lambda item: (-item[1][1], item[0]))
        return [
            {
                "base": payload.clean(base)[0][:1000],
                "fixture": payload.clean(name)[0][:500],
                "scope": scope[:50],
                "count": int(count),
                "total": round(total, 6),
                "longest": round(longest, 6),
            }
            for (base, name, scope), (count, total, longest) in ranked[:ROWS_SHOWN]
        ]


SECTIONS_SHOWN = 8
PROPERTIES_SHOWN = 100
MESSAGE_SHOWN = 500  # characters

TestReport = pytest.TestReport
STARTED = '{"event":"test_started",%s"t":%.6f}'
PASSED = '{"event":"test_result",%s"t":%.6f,"outcome":"passed","setup":%.6f,"call":%.6f,"teardown":%.6f}'


class TestExecution:
    """One execution of one test, while it runs. What most have is of the class: nothing is set for them."""

    occurrence = attempt = 1
    outcome = ""
    retried = False
    setup = call = teardown = -1.0  # seconds; negative: no such phase
    more: dict[str, Any] | None = None

    def __init__(self, lead: str) -> None:
        self.lead = lead  # `"test":"...",` with occurrence and attempt where they are not 1


class Attempts:
    """All attempts of a run. `put` writes a record, `keep` stores a body."""

    def __init__(self, put: Callable[[str], None], encode: Callable[[dict[str, Any]], str], keep: payload.Keep) -> None:
        self._put, self._encode, self._keep = put, encode, keep
        self._now = time.perf_counter
        self._start = 0.0
        self.each = False  # xdist --dist each: every worker runs every test
        self.running: dict[Any, TestExecution] = {}
        self._seen: dict[str, int] = {}
        self._again: dict[Any, tuple[int, int]] = {}  # what is retried: the occurrence and the attempt that comes

    def begin(self, start: float) -> None:
        """`start` is the moment that `t` counts from, of the performance counter."""
        self._start = start

    @property
    def elapsed(self) -> float:
        return self._now() - self._start

    def started(self, nodeid: str, worker: str = "") -> TestExecution:
        """A test begins: again after an attempt that is retried; else a second beginning is another occurrence."""
        if nodeid not in self._seen and not self.each and nodeid.isascii():  # as nearly all do
            self._seen[nodeid] = 1
            made = self.running[nodeid] = TestExecution(f'"test":{quoted(nodeid)},')
            self._put(STARTED % (made.lead, self._now() - self._start))
            return made
        key = (nodeid, worker) if self.each else nodeid
        if key in self.running:  # a protocol that sends no teardown for an attempt that is retried
            self._end(key, worker)
        if self._again and (again := self._again.pop(key, None)) is not None:
            return self._open(nodeid, worker, *again)
        count = self._seen.get(nodeid, 0) + 1
        self._seen[nodeid] = count
        return self._open(nodeid, worker, count, 1)

    def _open(self, nodeid: str, worker: str, occurrence: int, attempt: int) -> TestExecution:
        lead = f'"test":{quoted(nodeid)},'
        if not nodeid.isascii():
            plain, escaped = payload.clean(nodeid)
            lead = '"test":' + quoted(plain) + (',"escaped":true,' if escaped else ",")
        made = TestExecution(lead)
        if occurrence > 1 or attempt > 1:
            made.occurrence, made.attempt = occurrence, attempt
            made.lead = lead = "".join(
                [
                    lead,
                    f'"occurrence":{occurrence},' if occurrence > 1 else "",
                    f'"attempt":{attempt},' if attempt > 1 else "",
                ]
            )
        self.running[(nodeid, worker) if self.each else nodeid] = made
        self._put(STARTED % (lead, self._now() - self._start))
        return made

    def report(self, report: Any) -> None:
        """One report of pytest's. What nine in ten are comes first: a phase of a running test that passed."""
        known = self.running.get(report.nodeid)
        if (
            known is None
            or report.outcome != "passed"
            or type(report) is not TestReport
            or known.retried
            or "wasxfail" in report.__dict__
        ):
            self._report(report)
            return
        when: str = report.when
        if when == "setup":
            known.setup = report.duration
        elif when == "call":
            known.call = report.duration
            known.outcome = known.outcome or "passed"
        elif when == "teardown":
            known.teardown = report.duration
            del self.running[report.nodeid]
            self._line(known, report.__dict__.get("worker_id", ""), report.user_properties)
        else:
            self._report(report)

    def _report(self, report: Any) -> None:
        worker = getattr(report, "worker_id", "") or _crashed_worker(report)
        nodeid = report.nodeid
        kind = type(report)
        if kind is not pytest.TestReport and hasattr(report, "context"):
            self._subtest(report)
            return
        key = (nodeid, worker) if self.each else nodeid
        running = self.running.get(key)
        if running is None:
            running = self.started(nodeid, worker)
        when = report.when
        if running.retried and when == "setup":
            running = self.started(nodeid, worker)
        if when == "setup":
            running.setup = report.duration
        elif when == "call":
            running.call = report.duration
        elif when == "teardown":
            running.teardown = report.duration
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self._unusual(running, report, worker)
        elif when == "call":
            running.outcome = running.outcome or "passed"
        if when == "setup" or when == "call":
            return
        self._end(key, worker, report.user_properties)

    def finished(self, nodeid: str) -> None:
        """pytest is done with a test; where a protocol of its own sent no teardown report, its line is written now."""
        if not self.each and nodeid in self.running:
            self._end(nodeid, "")

    def _end(self, key: Any, worker: str, properties: Any = None) -> None:
        """Write the line of an attempt."""
        running = self.running.pop(key)
        if running.retried:
            self._again[key] = (running.occurrence, running.attempt + 1)
        self._line(running, worker, properties)

    def _line(self, running: TestExecution, worker: str, properties: Any) -> None:
        a, b, c = running.setup, running.call, running.teardown
        if running.outcome == "passed" and not (worker or properties or running.more) and a >= 0 <= b and c >= 0:
            self._put(PASSED % (running.lead, self._now() - self._start, a, b, c))
        else:
            self._full_line(running, worker, properties)

    def _full_line(self, running: TestExecution, worker: str, properties: Any) -> None:
        parts = [f'{{"event":"test_result",{running.lead}"t":{self._now() - self._start:.6f}']
        parts.append(f',"outcome":"{running.outcome or "unknown"}"')
        if running.setup >= 0:
            parts.append(f',"setup":{running.setup:.6f}')
        if running.call >= 0:
            parts.append(f',"call":{running.call:.6f}')
        if running.teardown >= 0:
            parts.append(f',"teardown":{running.teardown:.6f}')
        if worker:
            parts.append(f',"worker":{quoted(worker)}')
        if properties:
            running.more = {**(running.more or {}), "properties": _properties(properties)}
        if running.more:
            parts.append("," + self._encode(running.more)[1:-1])
        self._put("".join(parts) + "}")

    def _unusual(self, running: TestExecution, report: Any, worker: str) -> None:
        """Anything but passed: what it is called, and why."""
        more = running.more = running.more or {}
        outcome, when = report.outcome, report.when
        xfail = hasattr(report, "wasxfail")
        if outcome == "rerun":
            more["retried"] = running.retried = True
            running.outcome = "crashed" if when not in ("setup", "call", "teardown") else _failed(when)
        elif when not in ("setup", "call", "teardown"):
            running.outcome = "crashed"
            more["cause"] = "crash"
        elif outcome == "passed":
            running.outcome = "xpassed"
        elif outcome == "skipped":
            running.outcome = "xfailed" if xfail else "skipped"
            more["reason"] = payload.head(payload.clean(_skip_reason(report))[0], MESSAGE_SHOWN)
        elif when == "teardown":
            running.outcome = running.outcome or "passed"
            more["teardownFailed"] = True
        else:
            running.outcome = _failed(when)
        if outcome in ("failed", "rerun"):
            name = "teardownError" if when == "teardown" else "error"
            more[name] = self.error(report)
            if "Timeout" in more[name].get("message", "") and "pytest-timeout" in more[name]["message"]:
                more["cause"] = "timeout"

    def error(self, report: Any) -> dict[str, Any]:
        """What a failed report says: the crash line, the traceback and the captured output."""
        crash = getattr(report.longrepr, "reprcrash", None)
        made: dict[str, Any] = {}
        if crash is not None:
            made["message"] = payload.head(payload.clean(str(crash.message))[0], MESSAGE_SHOWN)
            made["path"] = payload.clean(str(crash.path))[0][-1000:]
            made["line"] = max(0, int(crash.lineno))
        elif report.longrepr:
            made["message"] = payload.head(payload.clean(str(report.longrepr).strip())[0], MESSAGE_SHOWN)
        text = report.longreprtext
        if text:
            made["text"] = payload.describe(text, self._keep)
        sections = [
            {"name": payload.clean(name)[0][:100], "text": payload.describe(content, self._keep)}
            for name, content in report.sections[:SECTIONS_SHOWN]
            if content
        ]
        return made | ({"sections": sections} if sections else {})

    def _subtest(self, report: Any) -> None:
        """A subtest of either kind (pytest's own since 9, or pytest-subtests)."""
        context = report.context
        label = str(context.msg) if context.msg is not None else ""
        if context.kwargs:
            label += "(" + ", ".join(f"{key}={value}" for key, value in context.kwargs.items()) + ")"
        plain, escaped = payload.clean(report.nodeid)
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xpassed" if outcome == "passed" else "xfailed"
        made: dict[str, Any] = {
            "event": "subtest_result",
            "test": plain,
            "t": round(self.elapsed, 6),
            "label": payload.head(payload.clean(label)[0], MESSAGE_SHOWN),
            "outcome": outcome,
            "call": round(report.duration, 6),
        }
        if escaped:
            made["escaped"] = True
        if getattr(report, "worker_id", ""):
            made["worker"] = report.worker_id
        if outcome == "failed":
            made["error"] = self.error(report)
        self._put(self._encode(made))


def _crashed_worker(report: Any) -> str:
    """xdist names the worker of a crash by its node alone."""
    node = getattr(report, "node", None)
    return str(node.gateway.id) if node is not None else ""


def _failed(when: str) -> str:
    return "failed" if when == "call" else "error"


def _skip_reason(report: Any) -> str:
    reason = getattr(report, "wasxfail", None)
    if reason is None:
        found = report.longrepr
        reason = found[2] if isinstance(found, tuple) and len(found) == 3 else str(found or "")
    return str(reason).removeprefix("Skipped: ")


def _properties(found: Any) -> list[dict[str, Any]]:
    return [
        {"name": payload.clean(str(name))[0][:200], "value": payload.value(value)}
        for name, value in list(found)[:PROPERTIES_SHOWN]
    ]
