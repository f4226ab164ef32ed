"""Questions over several runs: slower, failing-since, warnings, what-covers, slow; and the names that a run has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger.rules.rows import duration
from tests.ledger.test_ledger_answers import answer, ask, past
from tests.ledger.test_test_run import go
from tests.support.commands import call
from tests.support.ledgers import Past
from tests.support.suites import Suite

__all__ = ["past"]
AB = {"t.py::a": "passed", "t.py::b": "passed"}


def timed(past: Past, *seconds: float) -> list[str]:
    """Runs of a and b; b takes what is said, a always 10 ms longer."""
    return [past.run(AB, seconds=one) for one in seconds]


def test_slower_is_beyond_the_noise(past: Past) -> None:
    timed(past, 0.10, 0.11, 0.10, 0.12, 0.11)
    found = answer(past, "slower")
    assert (found["verdict"], found["rows"], found["facts"]["comparable"]) == ("false", [], 4)
    timed(past, 0.50)
    found = answer(past, "slower")
    assert found["verdict"] == "true" and [row["test"] for row in found["rows"]] == ["t.py::a", "t.py::b"]
    row = found["rows"][0]
    assert (row["was"], row["now"], row["delta"], row["runs"]) == (0.11, 0.5, 0.39, 5)
    text = ask(past, "slower").out
    assert "110 ms" in text and "500 ms" in text and "390 ms" in text


def test_slower_says_since_which_run(past: Past) -> None:
    """Asked when it has been slow for some runs: the slow ones are no part of what was usual."""
    timed(past, 0.10, 0.11, 0.10, 0.12)
    first, *_ = timed(past, 0.50, 0.52, 0.49)
    rows = answer(past, "slower")["rows"]
    assert [(row["test"], row["was"], row["runs"], row["since"]) for row in rows] == [
        ("t.py::a", 0.105, 4, first),
        ("t.py::b", 0.105, 4, first),
    ]
    timed(past, 0.11)
    assert answer(past, "slower")["verdict"] == "false", "it is as fast as it was"


def test_what_jumps_about_anyway_is_not_slower(past: Past) -> None:
    timed(past, 0.1, 0.9, 0.2, 0.8, 0.1, 0.9)
    assert answer(past, "slower")["verdict"] == "false"


def test_runs_that_are_not_comparable_say_nothing_of_time(past: Past) -> None:
    timed(past, 0.1, 0.1, 0.1)
    past.run(AB, seconds=5.0, workers=4, scheduling="load")
    found = answer(past, "slower")
    assert found["facts"]["comparable"] == 0 and "3 are needed" in found["reason"] and "verdict" not in found


def test_failing_since(past: Past) -> None:
    good = past.run(AB)
    first = past.run(AB | {"t.py::b": "failed"}, tree={"commit": "d" * 40})
    past.run(AB | {"t.py::b": "skipped"})
    past.run(AB | {"t.py::b": "error"})
    found = answer(past, "failing-since")
    (row,) = found["rows"]
    assert found["verdict"] == "true" and row["test"] == "t.py::b"
    assert (row["run"], row["commit"], row["failures"], row["passedLast"]) == (first, "d" * 40, 2, good)
    assert answer(past, "failing-since", "t.py::a")["verdict"] == "false"
    assert answer(past, "failing-since", "t.py::none")["verdict"] == "unknown"
    past.run(AB)
    assert answer(past, "failing-since")["verdict"] == "false"


def test_explain_slow(past: Past) -> None:
    past.run(AB, seconds=0.2)
    assert answer(past, "explain", "slow(t.py::a)")["verdict"] == "false"
    past.run(AB, seconds=1.5)
    found = answer(past, "explain", "slow(t.py::a)")
    assert found["verdict"] == "true" and found["rows"][0]["total"] == 1.5
    text = ask(past, "explain", "slow(t.py::a)").out
    assert "longer than 1 s" in text and "1.5 s" in text and "most of it is its call" in text
    assert answer(past, "explain", "slow(t.py::none)")["verdict"] == "unknown"


def test_runs_by_their_distance(past: Past) -> None:
    runs = timed(past, 0.1, 0.2, 0.3)
    for name, run in (("last", runs[2]), ("last~0", runs[2]), ("last~1", runs[1]), ("last-full~2", runs[0])):
        assert answer(past, "run", name)["subject"] == [run]
    for name in ("last~3", "last~x", "first~1"):
        assert ask(past, "run", name).status == 2


SUITE = {
    "lib.py": "def one(): return 1\n",
    "test_m.py": "import lib, warnings\ndef test_a(): assert lib.one() == 1\n"
    "def test_b():\n    warnings.warn('old thing', DeprecationWarning)\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", SUITE)


def asked(suite: Suite, *words: str) -> dict[str, Any]:
    ran = call("ledger-query", *words, "--json", cwd=suite.repo.path)
    assert ran.status == 0, ran.err
    document: dict[str, Any] = json.loads(ran.out)["document"]
    return document


def test_runs_by_branch_and_commit(suite: Suite) -> None:
    suite.run()
    first, begun = suite.repo.head, suite.records[-1]["run"]
    suite.repo.write("lib.py", "def one(): return 2\n")
    suite.repo.commit()
    suite.repo.git("branch", "side", first)
    suite.run()
    newest = suite.records[-1]["run"]
    branch = suite.repo.git("symbolic-ref", "--short", "HEAD").strip()
    for name, run in ((branch, newest), ("HEAD", newest), ("HEAD~1", begun), (first[:10], begun), ("side", begun)):
        assert asked(suite, "run", name)["subject"] == [run], name
    changes = [(row["test"], row["change"]) for row in asked(suite, "compare", "side", branch)["rows"]]
    assert ("test_m.py::test_a", "passed -> failed") in changes
    suite.repo.write("lib.py", "def one(): return 3\n")
    suite.repo.commit()
    ran = call("ledger-query", "run", "HEAD", cwd=suite.repo.path)
    assert ran.status == 2 and "no run of HEAD" in ran.err


def test_warnings(suite: Suite) -> None:
    suite.run()
    found = asked(suite, "warnings")
    (row,) = found["rows"]
    assert (row["category"], row["message"]) == ("DeprecationWarning", "old thing") and row["at"].endswith(
        "test_m.py:4"
    )
    assert found["facts"]["warnings"] == 1


def test_what_covers(suite: Suite) -> None:
    assert "--trace" in asked(suite, "what-covers", "lib.py")["reason"]
    assert "no file libb.py is known: did you mean lib.py?" in asked(suite, "what-covers", "libb.py")["reason"]
    go(suite, "--trace", "--scope", "full")
    found = asked(suite, "what-covers", "./lib.py")
    rows = {row["test"]: row for row in found["rows"]}
    assert found["verdict"] == "true" and "one" in rows["test_m.py::test_a"]["definitions"]
    assert rows["test_m.py::test_a"]["how"].startswith("ran") and "one" not in rows["test_m.py::test_b"].get(
        "definitions", ()
    )
    assert found["facts"]["changedSince"] is False
    suite.repo.write("lib.py", "def one(): return 1  # still\n")
    assert asked(suite, "what-covers", "lib.py")["facts"]["changedSince"] is True
    assert asked(suite, "what-covers", "nothing.py")["verdict"] == "unknown"
    assert asked(suite, "what-covers", "libb.py")["reason"] == "no file libb.py is known: did you mean lib.py?"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(0.0, "0 ms"), (0.00034, "340 us"), (0.012, "12 ms"), (1.5, "1.5 s"), (3.2149, "3.21 s"), (12.34, "12.3 s")],
        *[(125.0, "2 min 05 s"), (3720.0, "1 h 02 min"), (-0.5, "-500 ms"), (0.9999, "1 s"), (59.96, "60.0 s")],
    ],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds).replace("1e+03 ms", "1 s") == text


def test_a_test_is_known_by_its_name_where_it_is_one(past: Past) -> None:
    past.run({"t.py::a": "passed", "t.py::b": "failed", "u.py::a": "passed"})
    for question, word in (("history", "executions"), ("flaky", "word"), ("failing-since", "failing")):
        found = answer(past, question, "b")
        assert found["subject"] == ["t.py::b"] and found["facts"][word] in (1, "failing")
        assert "did you mean t.py::a or u.py::a?" in answer(past, question, "a")["reason"]
        assert "did you mean t.py::b" in answer(past, question, "t.py:b")["reason"]
    assert answer(past, "explain", "failing(b)")["subject"] == ["failing(t.py::b)"]


def test_a_misspelt_name_without_its_file_is_near_to_a_test(past: Past) -> None:
    past.run({"tests/unit/test_money.py::test_coin": "passed"})
    for question, name in (("history", "test_coinn"), ("failing-since", "tset_coin"), ("flaky", "test_coinn")):
        reason = answer(past, question, name)["reason"]
        assert "did you mean tests/unit/test_money.py::test_coin?" in reason, question


def test_options_stand_anywhere(past: Past) -> None:
    past.run(AB)
    for words in (("slowest", "--limit", "1", "last"), ("--json", "slowest", "last"), ("run", "--json", "last")):
        assert ask(past, *words).status == 0


def test_a_run_that_has_ended_is_not_waited_for(suite: Suite) -> None:
    suite.run()
    ran = call("ledger-query", "live", "--follow", "last", cwd=suite.repo.path)
    run = suite.record["run"]
    assert ran.status == 2 and f"run {run} has ended" in ran.err and f"ledger-query run {run}" in ran.err


SKIPPING = """
import pytest
@pytest.mark.skip(reason="no database here")
def test_a(): pass
def test_b(): pytest.skip("later")
def test_c(): pass
@pytest.mark.skip
def test_d(): pass
"""


def test_which_tests_were_skipped_is_told_with_the_reason(tmp_path: Path) -> None:
    module = 'import pytest\npytest.skip("not on this system", allow_module_level=True)\n'
    suite = Suite.make(tmp_path / "s", {"test_m.py": SKIPPING, "test_n.py": module})
    suite.run()
    found = call("ledger-query", "skipped", "--json", cwd=suite.repo.path).document
    told = {(row["test"], row["reason"].removeprefix("Skipped: ")) for row in found["rows"]}
    assert told == {
        ("test_m.py::test_a", "no database here"),
        ("test_m.py::test_b", "later"),
        ("test_m.py::test_d", "unconditional skip"),
        ("test_n.py", "not on this system"),
    }
    assert found["facts"]["skipped"] == 3 and found["facts"]["modules"] == 1
    assert all(row["source"].startswith("ledger/events/") for row in found["rows"])
    text = call("ledger-query", "skipped", "last", cwd=suite.repo.path).out
    assert "no database here" in text and "test_m.py::test_a" in text


REPORTS = {
    "junit": '<testsuite><testcase name="a"><skipped message="not here"/></testcase></testsuite>',
    "ctrf": '{"results": {"tool": {"name": "x"}, "summary": {"tests": 1},'
    ' "tests": [{"name": "a", "status": "skipped", "duration": 0, "message": "not here"}]}}',
    "reportlog": '{"$report_type": "TestReport", "nodeid": "a", "when": "setup", "outcome": "skipped",'
    ' "longrepr": ["m.py", 3, "Skipped: not here"], "duration": 0}\n'
    '{"$report_type": "TestReport", "nodeid": "a", "when": "teardown", "outcome": "passed", "duration": 0}\n'
    '{"$report_type": "SessionFinish", "exitstatus": 0}\n',
}


@pytest.mark.parametrize("kind", REPORTS)
def test_reasons_of_other_runners_are_kept(tmp_path: Path, kind: str) -> None:
    suite = Suite.make(tmp_path / "s", {})
    report = tmp_path / "report"
    report.write_text(REPORTS[kind])
    assert call("ledger-append", "--from", kind, str(report), cwd=suite.repo.path).status == 0
    (row,) = call("ledger-query", "skipped", "--json", cwd=suite.repo.path).document["rows"]
    assert row["test"] == "a" and row["reason"].endswith("not here")


GOALS = ("passed", "failing", "flaky", "slow", "passed_on_retry", "order_dependent")


@pytest.mark.parametrize("word", GOALS)
def test_of_a_test_that_never_ran_each_word_is_unknown_with_that_reason(tmp_path: Path, word: str) -> None:
    source = "import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass\n"
    suite = Suite.make(tmp_path / "s", {"test_m.py": source})
    suite.run()
    for test, reason in (
        ("test_m.py::test_gone", "no recorded run has executed a test"),
        ("test_m.py::test_a", "never ran"),
    ):
        found = call("ledger-query", "explain", f"{word}({test})", "--json", cwd=suite.repo.path).document
        assert found["verdict"] == "unknown" and reason in found["reason"], found


def test_whether_a_test_passed_is_what_its_newest_run_says(tmp_path: Path) -> None:
    suite = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"})
    suite.run()

    def asked(test: str) -> str:
        document = call("ledger-query", "explain", f"passed({test})", "--json", cwd=suite.repo.path).document
        return str(document["verdict"])

    assert asked("test_m.py::test_a") == asked("test_a") == asked("last") == "true"
    suite.repo.write("test_m.py", "def test_a(): assert 0\ndef test_b(): pass\n")
    suite.run()
    assert (asked("test_a"), asked("test_b"), asked("last")) == ("false", "true", "false")
