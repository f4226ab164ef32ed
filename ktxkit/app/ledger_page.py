"""The ledger of test runs as one page: runs over time, what took longest, what changed, which words tests have earned.

The page holds answers as `ledger-query` gives them, so that it can say nothing that a question would not.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ktxkit import __version__
from ktxkit.app.report_page import asset
from ktxkit.app.rules.report_html import page
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.ledger import run_answers, test_answers, word_answers
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.lexicon import load
from ktxkit.ledger.picking import FULL, LAST, pick, record_of, running
from ktxkit.ledger.rules import derive
from ktxkit.ledger.rules.answers import answer
from ktxkit.ledger.rules.evidence import judge
from ktxkit.ledger.rules.rows import not_comparable
from ktxkit.store.world import World

RUNS_SHOWN = 500
TESTS_SHOWN = 50  # that took longest, or changed most
WORDS_SHOWN = 200  # tests with a word, with their executions
FAILURES_SHOWN = 20  # of one run
MESSAGE_SHOWN = 2000  # characters
TRIED = 50  # earlier runs that are tried for one that is comparable


def summary(world: World, ask: Ask) -> Document:
    """The runs, newest first, with counts over them: what the page's head says."""
    found = run_answers.runs(world, ask)
    rows = found["rows"]
    words = word_answers.flaky(world, ask)["facts"]["tests"]
    verdicts = Counter(row["verdict"] for row in rows if "verdict" in row)
    facts = found["facts"] | {
        "full": sum(row.get("scope") == "full" for row in rows),
        "authoritative": sum(bool(row.get("authoritative")) for row in rows),
        "verdicts": dict(sorted(verdicts.items())) or None,
        "words": words,
        "running": running(ensure(world), ask) or None,
    }
    return answer("report", rows, project=ask.project, facts=facts)


def render(world: World, ask: Ask) -> bytes:
    """The page. Raises BrokenContract where the ledger is damaged, as every question does."""
    index = ensure(world)
    flaky = word_answers.flaky(world, ask)
    flaky["rows"] = flaky["rows"][:WORDS_SHOWN]
    report = summary(world, ask._replace(limit=ask.limit or RUNS_SHOWN))
    some = ask._replace(limit=TESTS_SHOWN)
    data = {
        "version": __version__,
        "made": timestamp(world.clock.now()),
        "report": report,
        "failures": _failures(index, [row["run"] for row in report["rows"]]),
        "slowest": test_answers.slowest(world, some) if pick(index, ask, LAST) else answer("slowest", []),
        "movers": _movers(world, index, some),
        "flaky": flaky,
        "evidence": _evidence(world, index, ask, [row["test"] for row in flaky["rows"]]),
        "words": [{"word": one["word"], "means": one["means"]} for one in load()["words"]],
    }
    style, script = asset("report.css") + asset("ledger.css"), asset("common.js") + asset("ledger.js")
    return page(asset("ledger.html"), style, script, f"{ask.project}: test runs", data)


def _failures(index: Index, runs: list[str]) -> dict[str, list[Document]]:
    """The tests that did not pass, for each run that has any."""
    found = {}
    for row in index.rows("SELECT run, record FROM runs WHERE closed = 1"):
        failures = json.loads(row["record"]).get("failures", ())[:FAILURES_SHOWN] if row["run"] in runs else ()
        if failures:
            found[row["run"]] = [
                {"test": one["test"], "outcome": one["outcome"], "message": one.get("message", "")[:MESSAGE_SHOWN]}
                for one in failures
            ]
    return found


def _movers(world: World, index: Index, ask: Ask) -> Document:
    """The last full run (or the last) against the newest one before it that it may be compared with."""
    now = pick(index, ask, FULL) or pick(index, ask, LAST)
    if now is None:
        return answer("compare", [], verdict="unknown", reason="no run is recorded")
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND {LAST} AND ingested = 1 AND scope = ? AND seq < ?"
    earlier = index.rows(f"{sql} ORDER BY seq DESC LIMIT {TRIED}", *ask.projects, now["scope"], now["seq"])
    record = record_of(now) or {}
    for was in earlier:
        if not not_comparable(record_of(was) or {}, record):
            return test_answers.compare(world, ask._replace(subject=(was["run"], now["run"])))
    reason = f"no earlier run is comparable with {now['run']}: same scope, environment, workers and scheduling"
    return answer("compare", [], verdict="unknown", reason=reason)


def _evidence(world: World, index: Index, ask: Ask, tests: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The executions that each word rests on, with those parts of their identity in which they differ."""
    least = word_answers.repetitions(world)
    found = {}
    for test, ran in (word_answers.executions(index, ask.projects, tests) if tests else {}).items():
        said = judge(ran, least)
        found[test] = word_answers.leaves(derive.word(test, said.word, said))
    return found
