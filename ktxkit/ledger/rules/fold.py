"""One execution of one test, as the fold sees it.

How a run ended, and what that allows to be said of it. No exit status turns an unfinished run into a pass.

From the events of a run to its record: pure, replayable, the same from any prefix.

A prefix whose process is gone is the record of a killed run: it names the tests in flight and those that never ran.
Nothing here knows a clock or a file; whether the process lives is told to `Fold.result`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ktxkit.ledger.rules.rows import BAD

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import (
        RunEvent,
        RunEventCollected,
        RunEventCollectReport,
        RunEventDuplicate,
        RunEventFixtures,
        RunEventFixturesRow,
        RunEventInternalError,
        RunEventInterrupted,
        RunEventPhase,
        RunEventRunFinished,
        RunEventRunnerEnded,
        RunEventRunStarted,
        RunEventSubtestResult,
        RunEventTestResult,
        RunEventTestStarted,
        RunEventTimer,
        RunEventWarning,
        RunEventWorker,
        RunRecord,
        RunRecordCollectError,
        RunRecordCounts,
        RunRecordDuplicate,
        RunRecordFailure,
        RunRecordInFlight,
        RunRecordLost,
        RunRecordReported,
        RunRecordState,
        RunRecordVerdict,
    )

    class Mark(TypedDict):
        """What pytest said of an early end."""

        what: Literal["interrupted", "internal_error"]
        message: str
        by: NotRequired[str]

    Marked = Literal["internal_error", "collection_error", "stopped_early", "exited", "interrupted"]


RANK = ("crashed", "error", "failed", "interrupted", "unknown", "xpassed", "passed", "xfailed", "skipped")


class TestAttempt:
    """One execution of a test. Durations are seconds, None where there was no such phase; `t` from the run's start.

    No dataclass: a question is answered before `dataclasses` would be imported.
    """

    __test__ = False  # to pytest: no class of tests
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


def worst(outcome: str, other: str) -> str:
    """The worse of two outcomes."""
    return min(outcome, other, key=lambda word: RANK.index(word) if word in RANK else len(RANK))


RUNNING: Final = "running"
FINISHED: Final = "finished"
IMPORTED: Final = "imported"  # the trigger of a run that nobody here saw
LOST: Final = "lost"  # the trigger of the entry that stands in the order for lines that are lost
NO_TESTS, USAGE, INTERNAL, INTERRUPTED = 5, 4, 3, 2  # pytest's exit statuses
OUTCOME_COUNTS = (
    *("selected", "passed", "failed", "errors", "crashed"),
    *("skipped", "xfailed", "xpassed", "unknown", "interrupted"),
)


def state_of(
    start: Mapping[str, Any],
    end: Mapping[str, Any],
    marks: Sequence[Mark],
    counts: RunRecordCounts,
    life: str,
    collect_errors: bool,
) -> RunRecordState:
    """One word. `life` is what is known of the process: alive, dead or unknown."""
    if not end:
        return RUNNING if life == "alive" else "killed" if life == "dead" else "unknown"
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
    foreign = start.get("trigger") == IMPORTED and "format" in start.get("tools", {})  # other formats do not say all
    if status == NO_TESTS or (foreign and status == 0 and not any(counts.get(word) for word in OUTCOME_COUNTS)):
        return "no_tests"
    unsaid = "selected" not in counts and not foreign
    if counts.get("notRun") or counts.get("interrupted") or unsaid:
        return "collection_error" if collect_errors else "incomplete"
    return FINISHED


def _marked(marks: Sequence[Mark]) -> Marked | None:
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
    return None


def verdict_of(state: RunRecordState, counts: RunRecordCounts, end: Mapping[str, Any]) -> RunRecordVerdict:
    """`failed` as soon as one test is known to fail; `passed` only of a finished run in which each test is known."""
    if any(counts.get(word) for word in ("failed", "errors", "crashed", "collectionErrors")):
        return "failed"
    if state == FINISHED and end["exitStatus"] == 0:
        return "incomplete" if counts.get("unknown") else "passed"
    if state == FINISHED:
        return "failed"
    match state:
        case "planned" | "no_tests" | "running":
            return state
    return "incomplete"


Life = Literal["alive", "dead", "unknown"]
LIST_SHOWN = 1000  # names in a list of a record; the count beside it is whole
COUNTED = {"error": "errors"}  # the word of a count, where it is not the outcome itself


class Fold:
    """Takes events one by one; `result` may be asked at any time and changes nothing."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        self.runner: dict[str, Any] = {}
        self.attempts: dict[tuple[str, int, int], TestAttempt] = {}
        self.last: dict[tuple[str, int], TestAttempt] = {}
        self.running: dict[tuple[str, int, int], TestAttempt] = {}
        self.plain: dict[bytes, tuple[bytes, bytes, bytes]] = {}  # what `scan.feed` put aside: it simply passed
        self.subtests: dict[str, Counter[str]] = {}  # of each test's last attempt
        self.collected: dict[str, Any] = {}
        self.collect_errors: list[RunEventCollectReport] = []
        self.collect_skips = 0
        self.workers: dict[str, dict[str, Any]] = {}
        self.marks: list[Mark] = []
        self.phases: dict[str, list[float]] = {}
        self.duplicates: list[RunRecordDuplicate] = []
        self.fixtures: list[RunEventFixturesRow] = []
        self.timers: list[tuple[float, float, str]] = []
        self.warnings = 0
        self.torn = 0
        self.damaged = 0
        self.damage = ""
        self.events = 0
        self.t = 0.0

    def spoil(self, why: str) -> None:
        """The events are not all that was recorded, or hold what is no event; `why` is kept of the first."""
        self.damaged += 1
        self.damage = self.damage or why[:500]

    def feed(self, events: Iterable[RunEvent | None]) -> Fold:
        """Take events in order; None is a torn line."""
        for event in events:
            self.add(event)
        return self

    def add(self, event: RunEvent | None) -> None:
        """Take the next event."""
        if event is None:
            self.torn += 1
            return
        self.events += 1
        self.t = max(self.t, event.get("t", 0.0))
        HANDLERS[event["event"]](self, event)

    def _on_run_started(self, event: RunEventRunStarted) -> None:
        self.start = dict(event)

    def _on_phase(self, event: RunEventPhase) -> None:
        spans = self.phases.setdefault(event["phase"], [])
        if (event["edge"] == "start") == (len(spans) % 2 == 0):
            spans.append(event["t"])

    def _on_collected(self, event: RunEventCollected) -> None:
        self.collected = dict(event)

    def _on_collect_report(self, event: RunEventCollectReport) -> None:
        if event["outcome"] == "error":
            self.collect_errors.append(event.copy())
        else:
            self.collect_skips += 1

    def _on_duplicate(self, event: RunEventDuplicate) -> None:
        self.duplicates.append({"path": event["path"], "name": event["name"], "line": event["line"]})

    def _on_timer(self, event: RunEventTimer) -> None:
        self.timers.append((event["t"], event["seconds"], event["method"]))

    def _on_warning(self, event: RunEventWarning) -> None:
        self.warnings += 1

    def _on_worker(self, event: RunEventWorker) -> None:
        facts = {key: found for key, found in event.items() if key not in ("event", "worker", "what", "t")}
        self.workers.setdefault(event["worker"], {}).update({event["what"]: event["t"], **facts})

    def _on_test_started(self, event: RunEventTestStarted) -> None:
        key = (event["test"], event.get("occurrence", 1), event.get("attempt", 1))
        made = TestAttempt(*key, started=event["t"], escaped=event.get("escaped", False))
        self.attempts[key] = self.running[key] = self.last[key[:2]] = made

    def _on_test_result(self, event: RunEventTestResult) -> None:
        get: Callable[..., Any] = event.get
        key = (event["test"], get("occurrence", 1), get("attempt", 1))
        found = self.running.pop(key, None)
        if found is None:  # its beginning was dropped or torn
            found = self.attempts[key] = self.last[key[:2]] = TestAttempt(
                *key, started=None, escaped=get("escaped", False)
            )
        found.t, found.outcome = event["t"], event["outcome"]
        found.setup, found.call, found.teardown = get("setup"), get("call"), get("teardown")
        found.worker = get("worker", "")
        if found.outcome != "passed" or len(event) > 7:
            if get("retried"):
                self.subtests.pop(found.test, None)
            found.retried, found.cause = get("retried", False), get("cause", "")
            found.teardown_failed = get("teardownFailed", False)
            found.message = (get("error") or get("teardownError") or {}).get("message", "") or get("reason", "")

    def _on_subtest_result(self, event: RunEventSubtestResult) -> None:
        self.subtests.setdefault(event["test"], Counter())[event["outcome"]] += 1

    def _on_fixtures(self, event: RunEventFixtures) -> None:
        self.fixtures = list(event["rows"])

    def _on_internal_error(self, event: RunEventInternalError) -> None:
        self.marks.append({"what": "internal_error", "message": event["text"]["head"][-500:]})

    def _on_interrupted(self, event: RunEventInterrupted) -> None:
        self.marks.append({"what": "interrupted", "by": event["by"], "message": event.get("message", "")})

    def _on_run_finished(self, event: RunEventRunFinished) -> None:
        self.end = dict(event)

    def _on_runner_ended(self, event: RunEventRunnerEnded) -> None:
        self.runner = dict(event)

    def untangle(self) -> None:
        """Of what was put aside, that which other events speak of too goes to the rest."""
        more = {test for test, _ in self.last} | set(self.subtests)
        if not more:
            return
        for text in [text for text in self.plain if text.decode("ascii") in more]:
            test = text.decode("ascii")
            made = TestAttempt(test, 1, 1)
            made.outcome = "passed"
            made.setup, made.call, made.teardown = map(float, self.plain.pop(text))
            self.attempts.setdefault((test, 1, 1), made)
            self.last.setdefault((test, 1), made)

    # -- what it comes to

    def verdict(self, attempt: TestAttempt) -> str:
        """The worst of a test, its teardown and its subtests."""
        own = "error" if attempt.teardown_failed and attempt.outcome not in BAD else attempt.outcome
        below = self.subtests.get(attempt.test)
        return worst(own, "failed") if below and below["failed"] else own

    def counts(self, ended: bool) -> RunRecordCounts:
        """Tests by their verdict; they sum to `selected` once the run has ended."""
        words = Counter(COUNTED.get(word, word) for word in self._verdicts())
        in_flight = words.pop("running", 0)
        words["passed"] += len(self.plain)
        if in_flight:
            words["interrupted" if ended else "running"] += in_flight
        found = {
            "collected": self.collected.get("collected", self._of_workers("collected")),
            "selected": self.collected.get("selected"),
            "deselected": self.collected.get("deselected", self._of_workers("deselected")),
            "removed": self.collected.get("removed", self._of_workers("removed")),
            "deselectedByConfiguration": self.collected.get(
                "deselectedByConfiguration", self._of_workers("deselectedByConfiguration")
            ),
            **{word: count for word, count in sorted(words.items()) if count},
            "collectionErrors": len(self.collect_errors) or None,
            "collectionSkips": self.collect_skips or None,
            "subtests": sum(found.total() for found in self.subtests.values()) or None,
            "subtestsFailed": self._failed_subtests() or None,
            "passedOnRetry": sum(one.attempt > 1 and one.outcome == "passed" for one in self.last.values()) or None,
            "retries": sum(one.retried for one in self.attempts.values()) or None,
        }
        if ended and "selected" in self.collected:
            found["notRun"] = max(0, self.collected["selected"] - self._begun()) or None
        return cast("RunRecordCounts", {key: value for key, value in found.items() if value is not None})

    def _verdicts(self) -> Iterable[str]:
        """The verdict of each test; where each worker runs each test (`--dist each`) the worst of its executions."""
        if self.start.get("scheduling") != "each":
            return map(self.verdict, self.last.values())
        found: dict[str, str] = {}
        for one in self.last.values():
            word = self.verdict(one)
            found[one.test] = worst(word, found.get(one.test, word))
        return found.values()

    def _begun(self) -> int:
        """How many tests have begun."""
        each = self.start.get("scheduling") == "each"
        return (len({test for test, _ in self.last}) if each else len(self.last)) + len(self.plain)

    def _of_workers(self, key: str) -> int | None:
        """A number that only workers know: None until one of them has said it, and where they disagree."""
        said = {facts[key] for facts in self.workers.values() if key in facts and "down" in facts}
        return said.pop() if len(said) == 1 else None

    def _failed_subtests(self) -> int:
        return sum(found["failed"] for found in self.subtests.values())

    def reported(self) -> RunRecordReported:
        """In the words of pytest's own summary: it counts reports, so that one test can be passed and an error."""
        words: Counter[str] = Counter()
        for one in self.attempts.values():
            if one.retried:
                words["rerun"] += 1
                continue
            word = {"error": "errors", "crashed": "failed"}.get(one.outcome, one.outcome)
            if word not in ("running", "unknown", "interrupted"):
                words[word] += 1
            words["errors"] += one.teardown_failed
        words["passed"] += len(self.plain)
        words["failed"] += self._failed_subtests()
        words["errors"] += len(self.collect_errors)
        words["skipped"] += self.collect_skips
        return cast("RunRecordReported", {key: value for key, value in sorted(words.items()) if value})

    def not_run(self, ids: Sequence[str]) -> list[str]:
        """The selected tests that never started; `ids` may name one several times."""
        begun = [test for test, _ in self.last] + [text.decode("ascii") for text in self.plain]
        if sorted(begun) == ids:
            return []  # as most runs end
        return sorted((Counter(ids) - Counter(begun)).elements())

    def flying(self) -> list[TestAttempt]:
        """The tests that have begun and not ended, in the order in which they began."""
        return list(self.running.values())

    def result(self, life: Life, ids: Sequence[str] | None = None) -> RunRecord:
        """The record, to which `ktxkit.ledger.rules.scope` derives scope and authority, and the caller adds the run."""
        self.untangle()
        ended = bool(self.end) or life == "dead"
        counts = self.counts(ended)
        state: RunRecordState = "damaged"
        if not self.damage:
            state = state_of(self.start, self.end, self.marks, counts, life, bool(self.collect_errors))
        missing = self.not_run(ids) if ids is not None and ended else []
        bad = [one for one in self.last.values() if self.verdict(one) in BAD]
        made: dict[str, Any] = {
            **{key: self.start[key] for key in COPIED if key in self.start},
            "startedAt": self.start.get("at"),
            "finishedAt": self.end.get("at"),
            "wallSeconds": self._wall(),
            "phases": self._phase_seconds(),
            "state": state,
            "verdict": verdict_of(state, counts, self.end),
            "exitStatus": self.runner.get("exitStatus", self.end.get("exitStatus")),
            "signal": self.runner.get("signal"),
            "peakRssBytes": self.runner.get("peakRssBytes"),
            "stop": self._stop(),
            "counts": counts,
            "reported": self.reported(),
            "ids": self.collected.get("ids"),
            "orderDigest": self.collected.get("orderDigest"),
            "inFlight": [self._flight(one) for one in self.flying()[:LIST_SHOWN]],
            "notRun": missing[:LIST_SHOWN],
            "failures": [self._failure(one) for one in bad[:LIST_SHOWN]],
            "collectErrors": [_collect_error(one) for one in self.collect_errors[:LIST_SHOWN]],
            "crashedWorkers": sorted(name for name, facts in self.workers.items() if "crashed" in facts),
            "duplicates": self.duplicates[:LIST_SHOWN],
            "warnings": self.end.get("warnings", self.warnings),
            "treeAfter": self.end.get("treeAfter"),
            "unversioned": self.end.get("unversioned"),
            "lost": self._lost(),
            "transportDegraded": self.end.get("transportDegraded"),
        }
        known = {key: value for key, value in made.items() if key == "counts" or value not in (None, [], {})}
        return cast("RunRecord", known)

    def _wall(self) -> float | None:
        if not self.start:
            return None
        return round(self.end["t"], 6) if self.end else round(self.t, 6)

    def _phase_seconds(self) -> dict[str, float]:
        found = {}
        for name, edges in self.phases.items():
            edges = edges if len(edges) % 2 == 0 else [*edges, self.t]
            found[name] = round(sum(b - a for a, b in zip(edges[::2], edges[1::2], strict=True)), 6)
        return found

    def _stop(self) -> str | None:
        marks = [f"{mark.get('by', mark['what'])}: {mark['message']}" for mark in self.marks]
        said: str = self.end.get("stop") or (marks or [""])[0]
        return said.strip()[:500] or None

    def _lost(self) -> RunRecordLost:
        """What the record lacks: torn lines, dropped events, faults of the recording."""
        lost: RunRecordLost = {}
        for key in ("dropped", "faults", "fault", "unkept", "forks"):
            if key in self.end:
                lost[key] = self.end[key]
        if self.torn:
            lost["torn"] = self.torn
        if self.damage:
            lost |= {"damaged": self.damaged, "fault": self.damage}
        return lost

    def _flight(self, one: TestAttempt) -> RunRecordInFlight:
        made: RunRecordInFlight = {"test": one.test, "since": one.started if one.started is not None else 0.0}
        cause = self._timed_out(one)
        if cause:
            made["cause"] = cause
        if one.attempt > 1:
            made["attempt"] = one.attempt
        return made

    def _timed_out(self, one: TestAttempt) -> str:
        """The thread method of pytest-timeout ends the process: seen from the runner's end and the timer set."""
        timer = next((found for found in reversed(self.timers) if found[0] >= (one.started or 0.0) - 1e-3), None)
        timer = timer or (self.timers[-1] if self.timers else None)
        if timer is None or not self.runner or one.started is None or self.end:
            return ""
        lasted = self.runner["t"] - one.started
        return "timeout" if timer[2] == "thread" and lasted >= timer[1] and self.runner.get("exitStatus") == 1 else ""

    def _failure(self, one: TestAttempt) -> RunRecordFailure:
        made: RunRecordFailure = {"test": one.test, "outcome": self.verdict(one)}
        made |= {"message": one.message[:500]} if one.message else {}
        made |= {"cause": one.cause} if one.cause else {}
        made |= {"worker": one.worker} if one.worker else {}
        return made


HANDLERS = {name.removeprefix("_on_"): take for name, take in vars(Fold).items() if name.startswith("_on_")}
COPIED = (
    *("run", "project", "parent", "trigger", "managed", "mode", "argv", "directory", "selection", "tree"),
    *("environment", "workers", "scheduling", "order", "owner", "load", "tools", "declared", "preconditions", "runner"),
)


def _collect_error(event: RunEventCollectReport) -> RunRecordCollectError:
    message = event.get("error", {}).get("message", "")
    return {"node": event["node"], "message": message} if message else {"node": event["node"]}
