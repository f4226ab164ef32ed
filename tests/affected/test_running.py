"""`test-run --scope affected`: what is meant is run, and the run says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, spawn
from tests.support.suites import OFF, Suite

QUICK = ["-q", *(word for name in OFF for word in ("-p", f"no:{name}"))]
FILES = {
    "m.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n",
    "tests/test_f.py": "from m import f\n\n\ndef test_f():\n    assert f() == 1\n\n\ndef test_other():\n    pass\n",
    "tests/test_g.py": "from m import g\n\n\ndef test_g():\n    assert g() == 1\n",
    "conftest.py": "",
}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", FILES)


def go(suite: Suite, *args: str, cwd: Path | None = None, pytest_args: tuple[str, ...] = ()) -> Ran:
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    argv = ("--scope", "affected", *args, "--", *QUICK, *pytest_args)
    return spawn("test-run", *argv, cwd=cwd or suite.repo.path, env=env)


def test_what_is_affected_is_run_and_recorded_as_that(suite: Suite) -> None:
    suite.repo.write("m.py", FILES["m.py"].replace("return 1", "return 2", 1))
    ran = go(suite, cwd=suite.repo.path / "tests")
    record = suite.record
    assert ran.status == 1, ran.out + ran.err
    assert record["counts"]["failed"] == 1 and record["counts"]["selected"] == 1
    assert record["scope"] == {"kind": "affected"} and not record["authoritative"]
    assert record["runner"]["affected"] == {
        "base": suite.repo.tree,
        "verdict": "selected",
        "selected": 1,
        "total": 3,
    }
    assert "1 of 3 tests selected" in ran.err and "scope affected; not authoritative" in ran.err


def test_where_none_is_affected_nothing_is_run(suite: Suite) -> None:
    suite.repo.write("m.py", FILES["m.py"] + "\n\n# a remark\n")
    ran = go(suite)
    assert ran.status == 0 and "nothing is run" in ran.err and suite.records == []


def test_what_cannot_be_bounded_runs_everything(suite: Suite) -> None:
    suite.repo.write("pytest.ini", "[pytest]\naddopts = -q\n")
    ran = go(suite)
    assert ran.status == 0 and suite.record["counts"]["passed"] == 3
    assert suite.record["scope"]["kind"] == "affected" and suite.record["runner"]["affected"]["verdict"] == "unknown"
    assert "unknown: pytest.ini: configuration" in ran.err


def test_an_option_that_narrows_makes_it_partial(suite: Suite) -> None:
    suite.repo.write("m.py", FILES["m.py"].replace("return 1", "return 2"))
    go(suite, pytest_args=("-k", "test_g"))
    assert suite.record["scope"]["kind"] == "partial"
