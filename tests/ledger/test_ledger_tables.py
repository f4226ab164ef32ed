"""Every question's text form on a screen of 80 columns, with node ids, unit keys and reasons that are far longer."""

from __future__ import annotations

import os

import pytest

from ktxkit.ledger.rules.rows import table
from ktxkit.store import jobs
from ktxkit.store.active import Unit
from ktxkit.store.world import World
from tests.support.commands import call
from tests.support.ledgers import PROJECT, Past
from tests.support.repos import Repo

LONG = "tests/deep/" + "very_" * 18 + "long.py::TestOfSomething::test_[two words]"
KEY = "pages/" + "customer-and-" * 12 + "orders"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Runs of a test with a long id, one of which goes on, and a job of a unit with a long key."""
    made = Past(Repo.init(tmp_path_factory.mktemp("past") / "r").path)
    repo = Repo(made.root)
    repo.write("a", "a\n")
    repo.commit("first")
    tests = {LONG: "passed", "t.py::b": "passed"}
    made.run(tests, seconds=0.5)
    made.run({**tests, LONG: "failed"}, seconds=0.7)
    made.run({**tests, LONG: "failed>passed"})
    made.run({**tests, LONG: "running"}, finish=False)
    world = World(made.root, os.environ)
    job = jobs.create(world, "j1", target="refs/heads/main", base=repo.head, units=[Unit(1, KEY)])
    data = {"unitKey": KEY, "paths": [f"wiki/{KEY}.md"] * 3}
    job.tracer.emit("units", "work_unit_failed", data, level="error", error=ValueError("why " * 60))
    return made


RUNS = ["20260102T030100Z-00000001", "20260102T030200Z-00000002"]
QUESTIONS = [
    *(["last"], ["last-full"], ["last-scoped"], ["run", RUNS[1]], ["runs"], ["report"], ["slowest"], ["fixtures"]),
    *(["compare", *RUNS], ["history", LONG], ["flaky"], ["flaky", LONG], ["explain", f"flaky({LONG})"]),
    *(["explain", f"authoritative({RUNS[1]})"], ["live"], ["provenance", RUNS[0]], ["banner"], ["rules"]),
    *(["jobs"], ["job", "j1"], ["trace", "j1"]),
]


OF_NO_PROJECT = ("banner", "rules", "jobs", "job", "trace")  # they refuse to be asked for one


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: " ".join(words)[:30])
def test_every_answer_fits(past: Past, words: list[str]) -> None:
    project = [] if words[0] in OF_NO_PROJECT else ["--project", PROJECT]
    done = call("ledger-query", *project, *words, cwd=past.root)
    assert (done.status, done.err) == (0, "") and done.out
    for line in done.out.splitlines():
        assert len(line) <= 80 or LONG in line or KEY in line, line
        assert LONG[:40] not in line or LONG in line, "an id is never broken"


def test_columns_that_do_not_fit_are_said_below() -> None:
    rows = [{"run": "r1", "why": "word " * 30, "tests": 3}, {"run": "r2", "tests": 4}]
    said = table(rows, ["run", "why", "tests", "absent"], 40)
    assert said[0].split() == ["run", "tests"] and said[1].split() == ["r1", "3"] and said[-1].split() == ["r2", "4"]
    assert said[2].startswith("    why: word word") and all(len(line) <= 40 for line in said)
    assert table(rows[1:], ["run", "why", "tests"], 40) == ["run  tests", "r2   4"]
