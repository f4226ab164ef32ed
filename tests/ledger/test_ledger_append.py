"""`ledger-append`: runs of others, taken in once, never promoted; and what we hand to others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger import chain
from ktxkit.store.world import World
from tests.support.commands import Ran, call
from tests.support.suites import Suite

MIXED = """
import pytest
def test_ok(): pass
def test_bad(): assert 1 == 2
@pytest.fixture
def boom(): raise ValueError("no")
def test_err(boom): pass
@pytest.mark.skip(reason="later")
def test_skip(): pass
@pytest.mark.xfail
def test_xf(): assert 0
@pytest.mark.xfail
def test_xp(): pass
@pytest.fixture
def late():
    yield
    raise ValueError("late")
def test_td(late): pass
def test_sub(subtests):
    with subtests.test("one"): assert 0
@pytest.mark.parametrize("x", ["a b", "nan", "q'"])
def test_p(x): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": MIXED})


def append(suite: Suite, kind: str, path: Path) -> Ran:
    return call("ledger-append", "--from", kind, str(path), "--json", cwd=suite.repo.path)


def imported(suite: Suite) -> dict[str, Any]:
    (found,) = [record for record in suite.records if record["trigger"] == "imported"]
    return found


def test_a_reportlog_gives_the_counts_that_the_plugin_gives(suite: Suite, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    ended = suite.run("--report-log", str(log), plugins=("reportlog",))
    own = suite.record
    assert append(suite, "reportlog", log).status == 0
    found = imported(suite)
    assert found["reported"] == own["reported"] == {k: v for k, v in ended.summary.items() if "subtests" not in k}
    for key in ("passed", "failed", "errors", "skipped", "xfailed", "xpassed"):
        assert found["counts"].get(key) == own["counts"].get(key), key
    assert found["scope"]["kind"] == "partial" and not found["authoritative"]


def test_a_cut_off_reportlog_is_a_killed_run(suite: Suite, tmp_path: Path) -> None:
    suite.repo.write("test_m.py", "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\n")
    log = tmp_path / "log.jsonl"
    suite.run("--report-log", str(log), plugins=("reportlog",), KTX_LEDGER="off")
    log.write_bytes(log.read_bytes() + b'{"nodeid": "torn')
    append(suite, "reportlog", log)
    found = imported(suite)
    assert found["state"] == "killed" and found["verdict"] == "incomplete" and found["counts"]["passed"] == 1
    assert [one["test"] for one in found["inFlight"]] == ["test_m.py::test_b"]


def test_junit(suite: Suite, tmp_path: Path) -> None:
    xml = tmp_path / "j.xml"
    suite.run("--junitxml", str(xml), KTX_LEDGER="off")
    assert append(suite, "junit", xml).status == 0
    found = imported(suite)
    counts = found["counts"]
    assert counts["failed"] >= 2 and counts["errors"] >= 2 and counts["passed"] >= 4 and counts["skipped"] >= 1
    assert found["verdict"] == "failed"


def test_ctrf_there_and_back(suite: Suite, tmp_path: Path) -> None:
    suite.run()
    own = suite.record
    report = tmp_path / "ctrf.json"
    made = call("ledger-query", "run", "last", "--format", "ctrf", cwd=suite.repo.path)
    report.write_text(made.out)
    document = json.loads(made.out)
    summary = document["results"]["summary"]
    assert summary["tests"] == own["counts"]["selected"] == len(document["results"]["tests"])
    assert summary["failed"] == own["counts"]["failed"] + own["counts"]["errors"]
    assert append(suite, "ctrf", report).status == 0
    assert imported(suite)["counts"]["failed"] == summary["failed"]


def test_ctrf_retries_are_attempts(suite: Suite, tmp_path: Path) -> None:
    attempt = {"attempt": 1, "status": "failed", "duration": 3, "message": "first"}
    test = {"name": "t", "status": "passed", "duration": 5, "retries": 1, "flaky": True, "retryAttempts": [attempt]}
    report = tmp_path / "c.json"
    report.write_text(json.dumps({"reportFormat": "CTRF", "results": {"tool": {"name": "x"}, "tests": [test]}}))
    append(suite, "ctrf", report)
    found = imported(suite)
    assert found["counts"]["passed"] == 1 and found["counts"]["passedOnRetry"] == 1 and found["verdict"] == "passed"
    said = call("ledger-query", "flaky", "t", "--json", cwd=suite.repo.path).document
    assert said["verdict"] == "unknown" and said["facts"]["word"] == "passed_on_retry"


def test_a_run_recorded_elsewhere_is_taken_in(suite: Suite, tmp_path: Path) -> None:
    suite.run(KTX_LEDGER=str(tmp_path / "elsewhere"))
    (path,) = (tmp_path / "elsewhere/ledger/events").glob("*.ndjson")
    append(suite, "events", path)
    record = suite.record
    assert record["counts"]["selected"] == 11 and record["run"] == path.stem
    assert record["scope"]["kind"] == "partial" and not record["authoritative"]


def test_twice_is_once(suite: Suite, tmp_path: Path) -> None:
    xml = tmp_path / "j.xml"
    xml.write_text('<testsuite><testcase classname="a.b" name="t" time="0.5"/></testsuite>')
    assert append(suite, "junit", xml).json["outcome"] == "done"
    shutil.copy(xml, tmp_path / "again.xml")
    assert append(suite, "junit", tmp_path / "again.xml").json["outcome"] == "noop"
    assert len(suite.lines) == 2


def reportlog(outcome: str = "passed", duration: object = 0.5, kind: str = "TestReport", when: str = "call") -> bytes:
    """One test whose `when` phase is so."""
    report = {"$report_type": kind, "nodeid": "t.py::t", "when": when, "outcome": outcome, "duration": duration}
    last = {"$report_type": "TestReport", "nodeid": "t.py::t", "when": "teardown", "outcome": "passed", "duration": 0}
    lines = [json.dumps(one).replace('"1e999"', "1e999") for one in (report, last, {"exitstatus": 0})]
    return "\n".join(lines).encode() + b"\n"


def junit(time: str) -> bytes:
    return f'<testsuite><testcase name="t" time="{time}"/></testsuite>'.encode()


def test_a_clock_that_was_set_back_is_no_time(suite: Suite, tmp_path: Path) -> None:
    for kind, data in (("reportlog", reportlog(duration=-5)), ("junit", junit("-5"))):
        path = tmp_path / kind
        path.write_bytes(data)
        assert append(suite, kind, path).status == 0
    assert [record["wallSeconds"] for record in suite.records] == [0, 0]


def test_an_outcome_that_nobody_knows_is_no_pass(suite: Suite, tmp_path: Path) -> None:
    tests = [{"name": "t", "status": "other", "duration": 1}, {"name": "u", "status": "passed", "duration": 1}]
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"reportFormat": "CTRF", "results": {"tool": {"name": "x"}, "tests": tests}}))
    assert append(suite, "ctrf", path).status == 0
    assert imported(suite)["counts"]["unknown"] == 1 and imported(suite)["verdict"] == "incomplete"


BAD: dict[str, tuple[str, bytes]] = {
    "reportlog: an outcome that is none": ("reportlog", reportlog("exploded")),
    "reportlog: an outcome of a teardown that is none": ("reportlog", reportlog("exploded", when="teardown")),
    "reportlog: an outcome of a subtest that is none": ("reportlog", reportlog("exploded", kind="SubTestReport")),
    "reportlog: a duration beyond all numbers": ("reportlog", reportlog(duration="1e999")),
    "reportlog: a duration that is not a number": ("reportlog", reportlog(duration=float("nan"))),
    "reportlog: durations beyond all numbers": ("reportlog", reportlog(duration=1.7e308) * 2),
    "junit: a time beyond all numbers": ("junit", junit("1e999")),
    "junit: a time below all numbers": ("junit", junit("-1e999")),
    "junit: a time that is not a number": ("junit", junit("nan")),
    "junit: a bomb": ("junit", b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>'),
    "junit: no XML": ("junit", b"<testsuite>"),
    "junit: another root": ("junit", b"<html/>"),
    "junit: a time that is none": ("junit", b'<testsuite><testcase name="t" time="soon"/></testsuite>'),
    "ctrf: no JSON": ("ctrf", b"{"),
    "ctrf: no tests": ("ctrf", b'{"results": {}}'),
    "ctrf: a status that is none": ("ctrf", b'{"results": {"tests": [{"name": "t", "status": "ok", "duration": 1}]}}'),
    "reportlog: a bad line": ("reportlog", b"{}\nnot json\n{}\n"),
    "reportlog: no object": ("reportlog", b"[]\n{}\n"),
    "events: empty": ("events", b"\n\n"),
    "events: not ours": ("events", b'\n{"a": 1}\n'),
    "events: begins in the middle": ("events", b'\n{"event":"test_started","test":"t","t":0}\n'),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_of_its_kind_is_status_5_and_writes_nothing(suite: Suite, tmp_path: Path, name: str) -> None:
    kind, data = BAD[name]
    path = tmp_path / "bad"
    path.write_bytes(data)
    assert append(suite, kind, path).status == 5
    assert suite.lines == [] and not list((suite.repo.path / ".ktx").glob("ledger/events/*"))


def test_no_such_file(suite: Suite, tmp_path: Path) -> None:
    assert append(suite, "junit", tmp_path / "none").status == 2


def test_the_graph_is_idempotent_and_qualified(suite: Suite) -> None:
    suite.run()
    suite.run()
    first = call("ledger-query", "graph", cwd=suite.repo.path)
    elements = [json.loads(line) for line in first.out.splitlines()]
    assert len({element["id"] for element in elements}) == len(elements)
    project = suite.record_project
    assert all(project in element["id"] for element in elements)
    known = {element["id"] for element in elements if element["element"] == "node"}
    assert all(
        element["from"] in known and element["to"] in known for element in elements if element["element"] == "edge"
    )
    assert call("ledger-query", "graph", cwd=suite.repo.path).out == first.out


def test_provenance(suite: Suite) -> None:
    suite.run()
    found = call("ledger-query", "provenance", "HEAD", "--json", cwd=suite.repo.path).document
    assert [row["kind"] for row in found["rows"]] == ["run"] and "commit" in found["rows"][0]["how"]
    run = suite.record["run"]
    assert call("ledger-query", "provenance", run, "--json", cwd=suite.repo.path).document["rows"][0]["how"] == "is"
    assert call("ledger-query", "provenance", "0" * 40, "--json", cwd=suite.repo.path).document["rows"] == []


def test_banner(suite: Suite) -> None:
    from ktxkit.app import banner
    from ktxkit.ledger.asking import LedgerQuery

    suite.run()
    world = World(suite.repo.path, os.environ)
    told = banner.lines(banner.banner(world, LedgerQuery(), budget=20.0))
    assert "last run" in told[0] and "scope full" in told[0]
    suite.repo.write("test_m.py", "def test_x(): pass\n")
    told = banner.lines(banner.banner(World(suite.repo.path, os.environ), LedgerQuery(), budget=20.0))
    assert "changed since" in told[-1]


def test_banner_does_not_wait(suite: Suite) -> None:
    from ktxkit.app import banner
    from ktxkit.ledger.asking import LedgerQuery

    suite.run()
    world = World(suite.repo.path, os.environ)
    with chain.locked(world):
        told = banner.banner(world, LedgerQuery(), budget=0.0)
    assert told["verdict"] in ("unknown", "true", "false") and banner.lines(told)


def test_banner_tells_the_last_line_when_the_time_is_up(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktxkit.app import banner
    from ktxkit.ledger.asking import LedgerQuery

    suite.run()
    world = World(suite.repo.path, os.environ)
    monkeypatch.setattr(banner, "_collect", lambda *_: None)  # it did not come to an end
    told = banner.banner(world, LedgerQuery(), budget=0.0)
    first, second = banner.lines(told)
    assert told["verdict"] == "unknown" and "latest run" in first and "scope full" in first
    assert "the time was up" in second
    path = suite.repo.path / ".ktx/ledger/test-runs.ndjson"
    path.write_bytes(path.read_bytes() + b"\0\n" * 1000)
    assert "latest run" in banner.lines(banner.banner(world, LedgerQuery(), budget=0.0))[0]
    path.write_bytes(b"garbage\n")
    assert banner.lines(banner.banner(world, LedgerQuery(), budget=0.0)) == ["ledger: run state unknown"]


def test_banner_loads_and_starts_little(suite: Suite) -> None:
    """What makes it quick, told without a clock: no schema engine, no fold, one status of a clean tree."""
    suite.run()
    call("ledger-query", "last", cwd=suite.repo.path)  # the index is there now
    place = suite.repo.path.parent / "shim"
    place.mkdir()
    real = shutil.which("git")
    (place / "git").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {place}/calls\nexec {real} "$@"\n')
    (place / "git").chmod(0o755)
    code = (
        "import os, sys, ktx_ledger_query\nfrom pathlib import Path\n"
        "from ktxkit.ledger import asking\nfrom ktxkit.app import banner\n"
        "from ktxkit.store.world import World\n"
        "print(banner.banner(World(Path.cwd(), os.environ), asking.LedgerQuery(), budget=60.0)['facts'])\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=suite.repo.path,
        env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{'sameTree': True}\n"
    heavy = {"jsonschema_rs", "ktxkit.ledger.ledger", "ktxkit.ledger.rules.fold", "rich"}
    assert not heavy & set(done.stderr.split())
    calls = (place / "calls").read_text().splitlines()
    assert len(calls) <= 7 and len([argv for argv in calls if "status" in argv]) <= 1, calls


def test_a_fresh_store_has_no_note(suite: Suite) -> None:
    assert "note" not in call("ledger-query", "last", "--json", cwd=suite.repo.path).document.get("facts", {})


def test_banner_outside_a_repository(tmp_path: Path) -> None:
    ran = call("ledger-query", "banner", cwd=tmp_path)
    assert ran.status == 0 and "run state unknown" in ran.out


REPORT = '{"$report_type":"TestReport","nodeid":"t.py::a","when":"teardown","outcome":"passed","duration":%s}'
NO_REPORTS = {
    "reportlog": [
        '\n{"$report_type":"TestReport"}\n',
        "\n" + REPORT % "NaN",
        "\n" + REPORT % "null",
        '\n{"exitstatus":"x"}\n',
    ],
    "ctrf": ["{}", "[]", '{"results":{}}', '{"results":{"tests":[{"name":"a","status":"odd","duration":1}]}}'],
    "junit": ['<testsuite><testcase name="a" time="inf"/></testsuite>'],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in NO_REPORTS.items() for text in texts])
def test_what_is_no_report_is_said_with_its_place(suite: Suite, tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / "report"
    path.write_text(text)
    ran = append(suite, kind, path)
    place = f"{path}:2" if kind == "reportlog" else str(path)
    assert ran.status == 5 and place in ran.out + ran.err, (ran.out, ran.err)
    assert "Error" not in ran.out + ran.err and "not a " in ran.out + ran.err
    assert suite.records == []
