"""How runs begin, end and follow each other, where that is not the usual way."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from ktxkit.ledger.rules.scope import separated
from tests.ledger.test_test_run import QUICK, go
from tests.support.commands import call, spawn
from tests.support.suites import Suite

EXIT = 'import pytest\ndef {}: pytest.exit("enough", returncode=7)\n'


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"})


def test_pytest_exit_before_the_session_is_an_exit(suite: Suite) -> None:
    suite.repo.write("conftest.py", EXIT.format("pytest_sessionstart(session)"))
    assert suite.run().status == 7
    suite.repo.write("conftest.py", EXIT.format("pytest_configure(config)"))
    assert suite.run().status == 7
    assert [(one["state"], one["verdict"], one["stop"]) for one in suite.records] == [
        ("exited", "incomplete", "Exit: enough")
    ] * 2
    assert all(one["wallSeconds"] < 3600 for one in suite.records), "from its start, not from the machine's"


def test_a_configure_that_raises_is_an_internal_error_that_is_closed(suite: Suite) -> None:
    suite.repo.write("conftest.py", "def pytest_configure(config): raise RuntimeError('no')\n")
    ended = suite.run()
    closed = [line for line in suite.lines if line["kind"] == "run-closed"]
    assert [line["record"]["state"] for line in closed] == ["internal_error"] and ended.status != 0
    assert "RuntimeError('no')" in closed[0]["record"]["stop"]


def test_a_run_that_is_killed_before_its_session_is_closed_by_who_looks_next(suite: Suite) -> None:
    suite.repo.write("conftest.py", "import os\ndef pytest_configure(config): os.kill(os.getpid(), 9)\n")
    assert suite.run().status == -signal.SIGKILL
    record = suite.record
    assert (record["state"], record["mode"], record["project"]) == ("killed", "run", suite.record_project)
    said = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert said["rows"][0]["run"] == record["run"] and said["verdict"] == "unknown"


def test_a_conftest_that_cannot_be_imported_is_a_run(suite: Suite) -> None:
    suite.repo.write("conftest.py", "import no_such_module\n")
    assert suite.run().status == 4
    ran = go(suite, "--scope", "full")
    assert ran.status == 4 and "NOT recorded" not in ran.err
    assert [(one["state"], one["managed"], one["exitStatus"]) for one in suite.records] == [
        ("usage_error", False, 4),
        ("usage_error", True, 4),
    ]
    assert all("no_such_module" in one["stop"] for one in suite.records)


def test_a_dropped_test_is_missed_where_another_is_doubled(suite: Suite) -> None:
    suite.repo.write("conftest.py", "def pytest_collection_modifyitems(items): items[1:] = [items[0]]\n")
    suite.run()
    suite.run("-n", "2", plugins=("xdist",))
    for record in suite.records:
        assert record["counts"]["removed"] == 1 and record["scope"]["kind"] == "partial", record["scope"]


def test_counts_are_of_tests_where_each_worker_runs_each(suite: Suite) -> None:
    odd = "import os\ndef test_c(): assert os.environ['PYTEST_XDIST_WORKER'] == 'gw0'\n"
    suite.repo.write("test_n.py", odd)
    suite.run("-n", "2", "--dist", "each", plugins=("xdist",))
    counts = suite.record["counts"]
    assert (counts["selected"], counts["passed"], counts["failed"]) == (3, 2, 1) and "notRun" not in counts
    assert suite.record["reported"] == {"passed": 5, "failed": 1}


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only", "--collect-only"])
def test_a_plan_is_no_execution(suite: Suite, option: str) -> None:
    suite.run()
    suite.run(option)
    facts = call("ledger-query", "flaky", "test_m.py::test_a", "--json", cwd=suite.repo.path).document["facts"]
    rows = call("ledger-query", "history", "test_m.py::test_a", "--json", cwd=suite.repo.path).document["rows"]
    assert facts["executions"] == 1 and len(rows) == 1


CLOCK = """
import datetime, os
step = datetime.timedelta(seconds=float(os.environ.get("STEP", "0")))
real = datetime.datetime
class Shifted(real):
    @classmethod
    def now(cls, tz=None): return real.now(tz) + step
datetime.datetime = Shifted
"""


def test_the_order_of_runs_is_that_of_the_ledger(suite: Suite, tmp_path: Path) -> None:
    suite.repo.write("test_m.py", "import os\ndef test_x(): assert 'FLIP' not in os.environ\n")
    suite.repo.commit()
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock/sitecustomize.py").write_text(CLOCK)
    suite.env = {"PYTHONPATH": str(tmp_path / "clock")}
    suite.run()
    suite.run(FLIP="1", STEP="-864000")
    one, other = suite.records
    assert one["startedAt"] > other["startedAt"], "the clock was set back"
    last = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert last["verdict"] == "false" and last["rows"][0]["run"] == other["run"]
    listed = call("ledger-query", "runs", "--json", cwd=suite.repo.path).document["rows"]
    assert [row["run"] for row in listed] == [other["run"], one["run"]]
    path = tmp_path / "message"
    path.write_text("Change\n\nAll tests pass.\n")
    assert call("gate-check", "--message", path, cwd=suite.repo.path).status == 1


def test_a_store_made_by_mkdir_is_ignored_before_it_is_used(tmp_path: Path) -> None:
    suite = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\n"}, store=False)
    (suite.repo.path / ".ktx").mkdir()
    assert go(suite, "--scope", "full").status == 0
    assert suite.record["authoritative"] and not suite.record["tree"]["dirty"]


def test_variables_of_the_configuration_are_of_the_environment_also_without_the_runner(suite: Suite) -> None:
    suite.repo.write(".ktx-config.yaml", "ledger:\n  environment: [MODE]\n")
    suite.repo.commit()
    suite.run(MODE="secret")
    suite.run(MODE="other")
    go(suite, MODE="other")
    one, other, managed = (record["environment"] for record in suite.records)
    assert one["digest"] != other["digest"] and "secret" not in json.dumps(one)
    assert other["variables"]["MODE"] == managed["variables"]["MODE"]


LIE = "import atexit, os\natexit.register(os._exit, 0)\ndef test_z(): assert 0\n"


def test_the_status_is_the_records_where_pytest_was_made_to_lie(suite: Suite) -> None:
    suite.repo.write("test_z.py", LIE)
    assert go(suite).status == 1
    assert go(suite, "--status", "child").status == 0
    assert [record["verdict"] for record in suite.records] == ["failed", "failed"]


@pytest.mark.parametrize(
    "words", [["pytest"], ["--", "pytest"], ["python", "-m", "pytest"], ["--scope", "full", "py.test"]]
)
def test_pytest_may_be_named(suite: Suite, words: list[str]) -> None:
    ran = spawn("test-run", *words, *QUICK, "-k", "test_a", cwd=suite.repo.path)
    assert ran.status == 0, ran.err
    assert suite.record["counts"]["passed"] == 1


def test_a_directory_called_pytest_is_what_is_run(suite: Suite) -> None:
    suite.repo.write("pytest/test_p.py", "def test_p(): pass\n")
    spawn("test-run", "--", "pytest", *QUICK, cwd=suite.repo.path)
    assert suite.record["counts"]["passed"] == 1 and suite.record["scope"]["paths"] == ["pytest"]


def test_values_of_options_name_no_command() -> None:
    valued = {"--python"}
    assert separated(["--python", "python", "-m", "pytest"], valued) == ["--python", "python", "-m", "pytest"]
    assert separated(["--json", "python3", "-m", "pytest", "-q"], valued) == [
        "--json",
        "--",
        "python3",
        "-m",
        "pytest",
        "-q",
    ]
    assert separated(["--", "-k", "pytest"], valued) == ["--", "-k", "pytest"]
    assert separated(["python", "tool.py"], valued) == ["python", "tool.py"]


def test_a_run_in_which_all_was_skipped_passed_and_shows_nothing(suite: Suite) -> None:
    suite.repo.write("test_m.py", "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n")
    suite.run()
    found = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert (found["rows"][0]["verdict"], found["reason"]) == ("passed: none ran", "no test ran: each was skipped")
    suite.repo.write("test_m.py", "import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\n")
    suite.run()
    found = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert found["rows"][0]["verdict"] == "passed" and "reason" not in found


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no", "false"])
def test_where_the_ledger_is_off_nothing_is_recorded_and_that_is_said(suite: Suite, word: str) -> None:
    before = sorted((suite.repo.path / ".ktx").rglob("*"))
    ran = spawn("test-run", "--", *QUICK, cwd=suite.repo.path, env={"KTX_LEDGER": word})
    assert ran.status == 0 and "NOT recorded" in ran.err and "KTX_LEDGER is off" in ran.err
    assert sorted((suite.repo.path / ".ktx").rglob("*")) == before
    told = spawn("test-run", "--json", "--", *QUICK, cwd=suite.repo.path, env={"KTX_LEDGER": word})
    assert told.json["data"] == {"recorded": False}
    suite.repo.write("test_m.py", "def test_a(): assert 0\n")
    assert spawn("test-run", "--", *QUICK, cwd=suite.repo.path, env={"KTX_LEDGER": word}).status == 1


@pytest.mark.parametrize("option", ["--trace", "--cprofile"])
def test_what_is_kept_in_the_store_needs_one(suite: Suite, option: str) -> None:
    ran = spawn("test-run", option, "--", *QUICK, cwd=suite.repo.path, env={"KTX_LEDGER": "off"})
    assert ran.status == 2 and "KTX_LEDGER is off" in ran.err


def test_a_store_that_is_named_is_the_one_that_is_written(suite: Suite, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    ran = spawn("test-run", "--", *QUICK, cwd=suite.repo.path, env={"KTX_LEDGER": str(place)})
    assert ran.status == 0 and (place / "ledger/test-runs.ndjson").exists() and suite.lines == []
