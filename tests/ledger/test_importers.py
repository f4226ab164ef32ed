"""Reports as the real tools write them: what they count, retry, date and leave out is what the ledger says of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.test_ledger_append import append, imported
from tests.support.commands import call
from tests.support.suites import Suite

RETRIED = """
import pathlib
def test_second():
    here = pathlib.Path("ran")
    first = not here.exists()
    here.write_text("x")
    assert not first
def test_never(): assert 0
def test_plain(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"})


def junit(suite: Suite, text: str) -> dict[str, Any]:
    path = suite.repo.path.parent / "report.xml"
    path.write_text(text)
    assert append(suite, "junit", path).status == 0
    return suite.records[-1]


def test_a_reportlog_with_its_end_is_a_finished_run_of_its_own_time(suite: Suite, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    before = datetime.now(UTC).replace(microsecond=0)
    suite.run("--report-log", str(log), plugins=("reportlog",), KTX_LEDGER="off")
    after = datetime.now(UTC)
    append(suite, "reportlog", log)
    found = imported(suite)
    assert (found["state"], found["verdict"], found["counts"]) == ("finished", "passed", {"passed": 2})
    assert before <= datetime.fromisoformat(found["startedAt"]) <= after


def test_reruns_of_a_reportlog_are_attempts_of_one_test(suite: Suite, tmp_path: Path) -> None:
    suite.repo.write("test_m.py", RETRIED)
    log = tmp_path / "log.jsonl"
    plugins = ("reportlog", "rerunfailures")
    suite.run("--report-log", str(log), "--reruns", "2", plugins=plugins, KTX_LEDGER="off")
    (suite.repo.path / "ran").unlink()
    suite.run("--reruns", "2", plugins=plugins)
    append(suite, "reportlog", log)
    own, found = suite.records
    assert found["counts"] == {"passed": 2, "failed": 1, "passedOnRetry": 1, "retries": 3}
    assert {word: own["counts"][word] for word in found["counts"]} == found["counts"]
    assert found["reported"] == own["reported"] and found["verdict"] == "failed"


def test_a_reportlog_that_only_collected_is_no_pass(suite: Suite, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    suite.run("--collect-only", "--report-log", str(log), plugins=("reportlog",), KTX_LEDGER="off")
    append(suite, "reportlog", log)
    assert imported(suite)["verdict"] == "no_tests"


def test_a_junit_report_of_pytest_is_dated_by_itself(suite: Suite, tmp_path: Path) -> None:
    xml = tmp_path / "j.xml"
    suite.run("--junitxml", str(xml), KTX_LEDGER="off")
    stamp = xml.read_text().split('timestamp="')[1].split('"')[0]
    xml.touch()
    append(suite, "junit", xml)
    found = imported(suite)
    assert (found["state"], found["verdict"], found["counts"]) == ("finished", "passed", {"passed": 2})
    said, known = datetime.fromisoformat(stamp), datetime.fromisoformat(found["startedAt"])
    assert abs((said if said.tzinfo else said.replace(tzinfo=UTC)) - known).total_seconds() < 0.001


CASE = '<testcase classname="c" name="a"/>'
UNLISTED = {
    "tests that are not listed": (f'<testsuite tests="5" failures="2" errors="1">{CASE}</testsuite>', "incomplete"),
    "failures that are not listed": (f'<testsuite tests="1" failures="1">{CASE}</testsuite>', "failed"),
    "no case": ('<testsuites><testsuite tests="0" failures="0"/></testsuites>', "no_tests"),
    "nothing at all": ("<testsuites/>", "no_tests"),
    "a header above": (f'<testsuites tests="2" failures="1"><testsuite tests="1">{CASE}</testsuite></testsuites>', ""),
    "one suite of two": (f'<testsuites><testsuite tests="1">{CASE}</testsuite><testsuite tests="1"/></testsuites>', ""),
    "a suite that broke": (f'<testsuite tests="1">{CASE}<error message="setup of the suite"/></testsuite>', "failed"),
    "skipped tests that are not listed": (f'<testsuite tests="1" skipped="1">{CASE}</testsuite>', "incomplete"),
    "disabled tests that are not listed": (f'<testsuite tests="2" disabled="1">{CASE}<testcase/></testsuite>', ""),
    "thousands of tests": (f'<testsuite tests="1,234">{CASE}</testsuite>', "incomplete"),
    "a case that was cancelled by its time": ('<testsuite><testcase name="a" status="timeout"/></testsuite>', "failed"),
    "a case of no success": ('<testsuite><testcase name="a" success="False"/></testsuite>', "failed"),
    "a word that nobody knows": ('<testsuite><testcase name="a" status="odd"/></testsuite>', "incomplete"),
    "a case that says failed": ('<testsuite><testcase name="a" status="failed"/></testsuite>', "failed"),
    "an element in capitals": (
        '<testsuite><testcase name="a"><Failure message="no"/></testcase></testsuite>',
        "failed",
    ),
    "an element in a namespace": (
        '<testsuite xmlns:x="urn:x"><testcase name="a"><x:error message="no"/></testcase></testsuite>',
        "failed",
    ),
    "everything in capitals": ('<TestSuite Tests="1"><TestCase Name="a"><FAILURE/></TestCase></TestSuite>', "failed"),
    "an element of its own time": ('<testsuite><testcase name="a"><timeout/></testcase></testsuite>', "failed"),
    "a crash": ('<testsuite tests="1"><testcase name="a"><crash/></testcase></testsuite>', "failed"),
    "an end by a signal, beside one that was skipped": (
        '<testsuite><testcase name="a"><skipped/><processKilled signal="9"/></testcase></testsuite>',
        "failed",
    ),
    "a suite that was aborted": (f'<testsuite tests="1">{CASE}<abort message="no"/></testsuite>', "failed"),
    "a case that says that it crashed": ('<testsuite><testcase name="a" crash="true"/></testsuite>', "failed"),
    "a header of what failed": (f'<testsuite tests="1" failed="1">{CASE}</testsuite>', "failed"),
    "a header of what took too long": (f'<testsuite tests="1" timedOut="1">{CASE}</testsuite>', "failed"),
    "a header of what was ignored": (f'<testsuite tests="1" ignored="1">{CASE}</testsuite>', "incomplete"),
    "a case whose time was up": ('<testsuite><testcase name="a" status="timedOut"/></testsuite>', "failed"),
    "a case that says that its time was up": ('<testsuite><testcase name="a" timedOut="true"/></testsuite>', "failed"),
    "a case that says that it failed": ('<testsuite><testcase name="a" failed="True"/></testsuite>', "failed"),
    "a rerun that failed, and no pass": (
        '<testsuite><testcase name="a"><rerunFailure/></testcase></testsuite>',
        "failed",
    ),
    "a rerun that broke, and no pass": ('<testsuite><testcase name="a"><rerunError/></testcase></testsuite>', "failed"),
    "a rerun that failed before one that is called flaky": (
        '<testsuite><testcase name="a"><flakyFailure/><rerunFailure/></testcase></testsuite>',
        "failed",
    ),
    "a case that was skipped after a failure": (
        '<testsuite><testcase name="a"><skipped/><Failure/></testcase></testsuite>',
        "failed",
    ),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_what_a_junit_header_counts_and_no_case_shows_is_no_pass(suite: Suite, name: str) -> None:
    text, verdict = UNLISTED[name]
    assert junit(suite, text)["verdict"] == (verdict or "incomplete")


def test_junit_headers_that_count_what_is_listed_are_a_pass(suite: Suite) -> None:
    inner = f'<testsuite name="s" tests="1" failures="0" errors="0">{CASE}</testsuite>'
    assert junit(suite, f'<testsuites tests="1" failures="0">{inner}</testsuites>')["verdict"] == "passed"


def test_other_elements_of_a_case_say_nothing_of_its_outcome(suite: Suite) -> None:
    within = "<system-err>error</system-err><properties/><attachments/><knownFailure/><steps/>"
    text = f'<testsuite tests="1"><testcase name="a">{within}</testcase></testsuite>'
    assert junit(suite, text)["verdict"] == "passed"


@pytest.mark.parametrize(
    "summary", [{"tests": -1}, {"failed": -2}, {"tests": 1, "skipped": -1}, {"retries": -1}], ids=str
)
def test_a_ctrf_count_below_zero_is_told(suite: Suite, tmp_path: Path, summary: dict[str, int]) -> None:
    path = tmp_path / "c.json"
    listed = {"name": "a", "status": "passed", "duration": 1, "retries": summary.pop("retries", 0)}
    path.write_text(json.dumps({"results": {"tool": {"name": "x"}, "summary": summary, "tests": [listed]}}))
    ran = append(suite, "ctrf", path)
    assert ran.status == 5 and suite.records == [], ran.err
    path.write_text(f'<testsuite name="s" failed="-1">{CASE}</testsuite>')
    assert append(suite, "junit", path).status == 5


def test_a_junit_header_that_is_no_number_is_told(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(f'<testsuite name="s" tests="many">{CASE}</testsuite>')
    ran = append(suite, "junit", path)
    assert ran.status == 5 and "tests='many' of s is no number" in ran.out + ran.err


@pytest.mark.parametrize(
    "said",
    [*(f'status="{word}"' for word in ("notrun", "disabled", "suppressed", "skipped", "cancelled"))]
    + ['status="run" result="suppressed"', 'executed="False"'],
)
def test_a_case_that_was_not_run_is_skipped(suite: Suite, said: str) -> None:
    found = junit(suite, f'<testsuite><testcase name="a" {said}/><testcase name="b" status="run"/></testsuite>')
    assert found["counts"] == {"passed": 1, "skipped": 1}


TIMES = {
    "a decimal comma": (("0,160",), 0.16),
    "a decimal comma behind more than a second": (("1,234", "0,5"), 1.734),
    "points for thousands": (("1.234,5",), 1234.5),
    "commas for thousands": (("1,234.5",), 1234.5),
    "commas for thousands beside points": (("1,234", "0.5"), 1234.5),
    "spaces for thousands": (("1\N{NO-BREAK SPACE}234,5",), 1234.5),
    "plain spaces for thousands": (("1 234,5",), 1234.5),
    "apostrophes for thousands": (("1'234.5", "0.5"), 1235.0),
    "points": (("0.25", "1.5"), 1.75),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_junit_report_has_the_numbers_of_one_locale(suite: Suite, name: str) -> None:
    times, seconds = TIMES[name]
    cases = "".join(f'<testcase name="t{at}" time="{text}"/>' for at, text in enumerate(times))
    assert junit(suite, f"<testsuite>{cases}</testsuite>")["wallSeconds"] == pytest.approx(seconds)


def test_cases_without_a_name_have_one(suite: Suite) -> None:
    junit(suite, '<testsuite tests="3"><testcase/><testcase name=""/><testcase classname="c" name=""/></testsuite>')
    rows = call("ledger-query", "slowest", "last", "--json", cwd=suite.repo.path).document["rows"]
    assert sorted(row["test"] for row in rows) == ["(unnamed)", "(unnamed)", "c"]


BOMB = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x [<!ENTITY a "aa">]><testsuite><testcase/></testsuite>'


def test_a_document_type_is_refused_in_any_encoding(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(BOMB, encoding="utf-16")
    ran = append(suite, "junit", path)
    assert ran.status == 5 and "document type declaration" in ran.out and suite.lines == []


@pytest.mark.parametrize("text", ["[1]", "null", '{"results": []}', '{"results": {"tests": [1]}}'])
def test_a_ctrf_report_that_is_none_is_told_in_words(suite: Suite, tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    ran = append(suite, "ctrf", path)
    assert ran.status == 5 and "object has no attribute" not in ran.out and "subscriptable" not in ran.out


def test_retries_without_number_fill_no_ledger(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    test = {"name": "a", "status": "passed", "duration": 1, "retries": 10**9}
    path.write_text(json.dumps({"results": {"tool": {"name": "x"}, "summary": {"tests": 1}, "tests": [test]}}))
    ran = append(suite, "ctrf", path)
    assert ran.status == 5 and "1000000000 retries of a" in ran.out


def test_the_earliest_stamp_of_a_junit_report_counts(suite: Suite) -> None:
    one = f'<testsuite timestamp="2026-01-01T12:00:00">{CASE}</testsuite>'
    other = '<testsuite timestamp="2026-01-01T12:30:00+02:00"><testcase name="b"/></testsuite>'
    assert junit(suite, f"<testsuites>{one}{other}</testsuites>")["startedAt"] == "2026-01-01T10:30:00.000Z"


def test_flaky_and_rerun_of_surefire_and_nextest_are_attempts(suite: Suite) -> None:
    flaky = '<testcase name="j"><flakyFailure message="one"/><flakyError message="two"/></testcase>'
    bad = '<testcase name="k"><failure message="one"/><rerunFailure message="two"/></testcase>'
    found = junit(suite, f'<testsuite tests="2" failures="1">{flaky}{bad}</testsuite>')
    assert found["counts"] == {"passed": 1, "failed": 1, "passedOnRetry": 1, "retries": 3}
    assert [one["message"] for one in found["failures"]] == ["two"]
    said = call("ledger-query", "flaky", "j", "--json", cwd=suite.repo.path).document
    assert said["facts"]["word"] == "passed_on_retry"


def test_a_lone_rerun_is_an_attempt_that_failed(suite: Suite) -> None:
    """Surefire and nextest have it of a test that failed each time, beside the first failure: a pass has none."""
    case = '<testcase name="k"><rerunFailure message="two"/><rerunFailure message="three"/></testcase>'
    found = junit(suite, f"<testsuite>{case}</testsuite>")
    assert found["counts"] == {"failed": 1, "retries": 1}
    assert [one["message"] for one in found["failures"]] == ["three"]


@pytest.mark.parametrize("said", ['status="notrun"', 'status="disabled"', 'executed="false"', 'ignored="true"', ""])
def test_a_report_in_which_nothing_ran_shows_nothing(suite: Suite, said: str) -> None:
    inside = "" if said else "<skipped/>"
    junit(suite, f'<testsuite tests="1"><testcase name="a" {said}>{inside}</testcase></testsuite>')
    for words in (["last"], ["run", "last"], ["last-scoped"]):
        told = call("ledger-query", *words, "--json", cwd=suite.repo.path).document
        assert (told["verdict"], told["reason"]) == ("unknown", "no test ran: each was skipped"), words
    told = call("ledger-query", "explain", "passed(last)", "--json", cwd=suite.repo.path).document
    assert told["verdict"] == "unknown"


BROKEN_LOGS = {
    "a failure without a teardown": (["setup passed", "call failed"], "failed"),
    "a setup that failed without a teardown": (["setup failed"], "error"),
    "a failure and a second run of the test": (
        ["setup passed", "call failed", "setup passed", "call passed", "teardown passed"],
        "failed",
    ),
}


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("name", BROKEN_LOGS)
def test_a_reportlog_with_a_failure_is_no_pass_and_not_unknown(suite: Suite, name: str, ended: bool) -> None:
    phases, outcome = BROKEN_LOGS[name]
    rows: list[dict[str, Any]] = [{"pytest_version": "8", "$report_type": "SessionStart"}]
    for phase in phases:
        when, word = phase.split()
        rows.append({"$report_type": "TestReport", "nodeid": "a", "when": when, "outcome": word, "duration": 0.1})
    rows += [{"$report_type": "SessionFinish", "exitstatus": 0}] if ended else []
    path = suite.repo.path.parent / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert append(suite, "reportlog", path).status == 0
    (record,) = suite.records
    assert record["verdict"] == "failed" and [one["outcome"] for one in record["failures"]] == [outcome]
    assert call("ledger-query", "last", "--json", cwd=suite.repo.path).document["verdict"] == "false"


def ctrf(suite: Suite, listed: list[dict[str, Any]], tool: str = "x", **summary: int) -> dict[str, Any]:
    path = suite.repo.path.parent / "c.json"
    path.write_text(json.dumps({"results": {"tool": {"name": tool}, "summary": summary, "tests": listed}}))
    assert append(suite, "ctrf", path).status == 0
    return suite.records[-1]


def test_what_a_ctrf_summary_counts_and_no_test_shows_is_no_pass(suite: Suite) -> None:
    good = {"name": "a", "status": "passed", "duration": 1}
    assert ctrf(suite, [], tests=10, passed=7, failed=3)["verdict"] == "incomplete"
    assert ctrf(suite, [])["verdict"] == "no_tests"
    assert ctrf(suite, [good], tests=2, passed=2, failed=0)["verdict"] == "incomplete"
    assert ctrf(suite, [good], tests=1, passed=0, failed=1)["verdict"] == "failed"
    whole = ctrf(suite, [good], tests=1, passed=1, failed=0, start=1767225600000)
    assert (whole["verdict"], whole["startedAt"]) == ("passed", "2026-01-01T00:00:00.000Z")


BAD_STEPS = [{"name": "s", "status": "failed"}]
DOUBTED: dict[str, tuple[dict[str, Any], str]] = {
    "its tool's own word": ({"rawStatus": "failed"}, "unknown"),
    "its tool's own word of time": ({"rawStatus": "timedOut"}, "unknown"),
    "its tool's own word of an interruption": ({"rawStatus": "interrupted"}, "unknown"),
    "a step": ({"steps": BAD_STEPS}, "unknown"),
    "a step in another": ({"steps": [{"name": "a", "status": "passed", "steps": BAD_STEPS}]}, "unknown"),
    "its tool's word that it did not run": ({"rawStatus": "pending"}, "skipped"),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_a_ctrf_test_that_says_two_things_is_no_pass(suite: Suite, name: str) -> None:
    more, word = DOUBTED[name]
    found = ctrf(suite, [{"name": "a", "status": "passed", "duration": 1, **more}], tests=1, passed=1, failed=0)
    assert found["counts"] == {word: 1}
    said = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert said["verdict"] == "unknown"


def test_words_that_tools_have_for_a_pass_are_one(suite: Suite) -> None:
    words = ("passed", "expected", "PASSED", "fixed", "Success", "focused", "")
    tests = [{"name": f"t{at}", "status": "passed", "duration": 1, "rawStatus": word} for at, word in enumerate(words)]
    assert ctrf(suite, tests, tests=7, passed=7, failed=0)["verdict"] == "passed"


def test_a_failure_that_playwright_expects_is_expected(suite: Suite) -> None:
    """Its reporter writes `passed` where the result is the expected one, and the result itself as rawStatus."""
    test = {"name": "a", "status": "passed", "duration": 1, "rawStatus": "failed", "steps": BAD_STEPS}
    found = ctrf(suite, [test], tool="playwright", tests=1, passed=1, failed=0)
    assert found["counts"] == {"xfailed": 1} and found["verdict"] == "passed"


def test_errors_of_the_whole_run_in_a_ctrf_report_are_a_failure(suite: Suite) -> None:
    """Playwright's reporter has what failed outside of the tests (a global setup) in `results.extra.errors`."""
    path = suite.repo.path.parent / "c.json"
    test = {"name": "a", "status": "passed", "duration": 1}
    results = {"tool": {"name": "playwright"}, "summary": {"tests": 1, "passed": 1}, "tests": [test]}
    path.write_text(json.dumps({"results": results | {"extra": {"errors": [{"message": "no server"}]}}}))
    assert append(suite, "ctrf", path).status == 0
    record = suite.record
    assert record["verdict"] == "failed" and record["collectErrors"][0]["message"] == "no server"


def test_a_ctrf_report_of_ours_keeps_its_time(suite: Suite, tmp_path: Path) -> None:
    suite.run()
    own = suite.record
    path = tmp_path / "c.json"
    path.write_text(call("ledger-query", "run", "last", "--format", "ctrf", cwd=suite.repo.path).out)
    append(suite, "ctrf", path)
    assert imported(suite)["startedAt"] == own["startedAt"] and imported(suite)["verdict"] == "passed"


def test_events_that_come_in_are_imported_whatever_they_say(suite: Suite, tmp_path: Path) -> None:
    """A file that was edited, with a second beginning that would make it managed again."""
    ran = call("test-run", "--scope", "full", "--", "-q", cwd=suite.repo.path)
    assert ran.status == 0 and suite.record["authoritative"]
    (path,) = (suite.repo.path / ".ktx/ledger/events").glob("*.ndjson")
    start = next(line for line in path.read_bytes().splitlines() if line)
    forged = tmp_path / "forged.ndjson"
    forged.write_bytes(path.read_bytes() + b"\n" + start + b"\n")
    for name in ("ledger/test-runs.ndjson", "ledger/head.json", f"ledger/events/{path.name}"):
        (suite.repo.path / ".ktx" / name).unlink()
    for mark in suite.world.store.ledger_marks():
        mark.unlink()
    assert append(suite, "events", forged).status == 0
    record = suite.record
    assert record["trigger"] == "imported" and record["scope"]["kind"] == "partial" and not record["authoritative"]
    assert any("imported" in why for why in record["against"])
    said = call("ledger-query", "explain", f"full({record['run']})", cwd=suite.repo.path)
    assert "it was recorded here, not imported" in said.out


def test_events_that_are_none_of_ours_are_told_and_not_taken_in(suite: Suite, tmp_path: Path) -> None:
    suite.run(KTX_LEDGER=str(tmp_path / "elsewhere"))
    (path,) = (tmp_path / "elsewhere/ledger/events").glob("*.ndjson")
    path.write_bytes(path.read_bytes() + b'{"event":"nothing of ours","t":0}\n')
    ran = append(suite, "events", path)
    assert ran.status == 5 and suite.lines == []
