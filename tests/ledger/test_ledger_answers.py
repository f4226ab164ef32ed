"""`ledger-query` on constructed pasts: what may be said, and what may not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger import chain, ledger
from ktxkit.store.rules import names
from tests.support.commands import Ran, call
from tests.support.ledgers import PROJECT, Past
from tests.support.repos import Repo

ABC = {"t.py::a": "passed", "t.py::b": "passed", "t.py::c": "passed"}


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Past:
    monkeypatch.setenv("KTX_PROJECT", PROJECT)
    return Past(tmp_path)


def ask(past: Past, *words: str) -> Ran:
    return call("ledger-query", "--ktx-dir", str(past.root / ".ktx"), *words, cwd=past.root)


def answer(past: Past, *words: str) -> dict[str, Any]:
    asked = ask(past, *words, "--json")
    assert asked.status in (0, 1), asked.err + asked.out
    document: dict[str, Any] = asked.document
    return document


def test_nothing_recorded(past: Past) -> None:
    for question in ("last", "last-full", "last-scoped"):
        found = answer(past, question)
        assert found["verdict"] == "unknown" and found["rows"] == [] and "recorded" in found["reason"]
    assert answer(past, "runs")["rows"] == [] and answer(past, "live")["rows"] == []


def test_tell_me_about_the_last_test_run(past: Past) -> None:
    full = past.run(ABC)
    fragment = past.run(
        {"t.py::a": "passed"}, selection={"argsSource": "args", "args": ["t.py"], "paths": ["t.py"], "narrowing": []}
    )
    found = answer(past, "last")
    assert found["verdict"] == "true"
    rows = {row["what"]: row for row in found["rows"]}
    assert rows["last"]["run"] == fragment and rows["last"]["scope"] == "module"
    assert rows["last full"]["run"] == full and rows["last scoped"]["run"] == fragment
    for row in rows.values():
        assert {"started", "scope", "wall", "trigger", "tests", "source"} <= set(row)
    text = ask(past, "last").out
    assert "3 passed of 3" in text and "1 passed of 1" in text and "unmanaged" in text


def test_a_fragment_is_never_the_last_full_run(past: Past) -> None:
    seventeen = {f"t.py::t{n}": "passed" for n in range(17)}
    past.run(seventeen, selection={"argsSource": "args", "args": ["t.py"], "paths": ["t.py"], "narrowing": []})
    past.run(
        seventeen, selection={"argsSource": "testpaths", "args": ["."], "narrowing": [{"option": "-k", "value": "x"}]}
    )
    past.run(seventeen, selected=[*seventeen, "t.py::z"])
    past.run(seventeen, end={"stop": "stopping after 1 failures"}, selected=[*seventeen, "t.py::z"])
    past.run(seventeen, parent="outer")
    past.run({}, selected=list(seventeen), mode="collect")
    past.run(seventeen, selection=None)
    past.run(seventeen, end={"dropped": 3})
    found = answer(past, "last-full")
    assert found["verdict"] == "unknown" and found["reason"] == "no full run is recorded"


def test_a_full_run_says_what_it_lacks_against_the_one_before(past: Past) -> None:
    past.run(ABC)
    past.run({"t.py::a": "passed", "t.py::d": "passed"}, tree={"tree": "7" * 40})
    facts = answer(past, "last-full")["facts"]
    assert facts["lacks"] == ["t.py::b", "t.py::c"] and facts["lacksCount"] == 2


@pytest.mark.parametrize(
    ("outcomes", "more", "verdict"),
    [
        (ABC, {}, "true"),
        ({"a": "failed"}, {}, "false"),
        ({"a": "error"}, {}, "false"),
        ({"a": "passed"}, {"selected": ["a", "b"]}, "unknown"),
        ({"a": "passed"}, {"end": {"exitStatus": 1}}, "false"),
        ({"a": "failed"}, {"selected": ["a", "b"]}, "false"),
        ({}, {"end": {"exitStatus": 5}}, "unknown"),
    ],
)
def test_did_the_last_run_pass(past: Past, outcomes: dict[str, str], more: dict[str, Any], verdict: str) -> None:
    past.run(outcomes, **more)
    assert answer(past, "last")["verdict"] == verdict


def test_one_run_lists_what_did_not_pass(past: Past) -> None:
    run = past.run({"a": "passed", "b": "failed", "c": "error"}, selected=["a", "b", "c", "d"])
    found = answer(past, "run", run[:15])
    assert [(row["test"], row["what"]) for row in found["rows"]] == [
        ("b", "failed"),
        ("c", "error"),
        ("d", "never ran"),
    ]
    assert found["facts"]["state"] == "incomplete"


@pytest.mark.parametrize("name", ["20260102", "nope", "last-full"])
def test_an_ambiguous_or_unknown_run_is_an_error_with_a_hint(past: Past, name: str) -> None:
    past.run({"a": "failed"}, selection=None)
    past.run({"a": "failed"}, selection=None)
    asked = ask(past, "run", name)
    assert asked.status == 2 and "hint" in asked.err


def test_mid_run_is_neither_aborted_nor_complete(past: Past) -> None:
    from ktxkit.base import owners

    owner = owners.this_owner().document()
    run = past.run({"a": "passed", "b": "running"}, selected=["a", "b", "c"], finish=False, owner=owner)
    (row,) = answer(past, "live")["rows"]
    assert (row["run"], row["state"], row["done"], row["total"], row["busy"]) == (run, "running", 1, 3, 1)
    assert [one["test"] for one in row["inFlight"]] == ["b"] and row["asked"] == "full"
    last = answer(past, "last")
    assert last["rows"] == [] and last["facts"]["running"] == [run]
    assert answer(past, "run", run)["verdict"] == "unknown"
    words = ask(past, "live").out + ask(past, "last").out + ask(past, "run", run).out
    assert not {"killed", "aborted", "incomplete", "finished"} & set(words.replace("\n", " ").split())


def test_a_run_of_another_machine_is_not_declared_dead(past: Past) -> None:
    owner = {"bootId": "x", "pid": 1, "startTime": 1, "machine": "elsewhere"}
    run = past.run({"a": "running"}, finish=False, owner=owner)
    (row,) = answer(past, "live")["rows"]
    assert (row["run"], row["state"]) == (run, "unknown") and "another machine" in row["why"]
    assert answer(past, "last")["rows"] == []


def test_slowest_and_fixtures(past: Past) -> None:
    run = past.run({"a": "passed", "b": "failed"}, seconds=0.25)
    found = answer(past, "slowest", "--limit", "1")
    assert found["facts"]["run"] == run and len(found["rows"]) == 1 and found["rows"][0]["total"] == 0.25
    assert answer(past, "fixtures")["rows"] == []


def test_compare(past: Past) -> None:
    first = past.run({"a": "passed", "b": "passed", "gone": "passed"}, seconds=0.1)
    second = past.run({"a": "failed", "b": "passed", "new": "passed"}, seconds=0.3, tree={"tree": "7" * 40})
    found = answer(past, "compare", first, second)
    changes = {(row["test"], row["change"]) for row in found["rows"]}
    assert {("a", "passed -> failed"), ("gone", "gone"), ("new", "new"), ("b", "time")} <= changes
    assert found["facts"]["outcomesChanged"] == 1
    delta = next(row["delta"] for row in found["rows"] if row["test"] == "b" and row["change"] == "time")
    assert delta == 0.2


INCOMPARABLE: dict[str, dict[str, Any]] = {
    "scope": {"selection": {"argsSource": "args", "args": ["t.py"], "paths": ["t.py"], "narrowing": []}},
    "environment.python": {"environment": {"python": "3.12"}},
    "environment.profile": {"environment": {"profile": "ci"}},
    "workers": {"workers": 4},
    "scheduling": {"scheduling": "load"},
}


@pytest.mark.parametrize("what", INCOMPARABLE)
def test_what_is_not_comparable_is_not_compared(past: Past, what: str) -> None:
    first, second = past.run(ABC), past.run(ABC, **INCOMPARABLE[what])
    asked = ask(past, "compare", first, second, "--json")
    assert asked.status == 1 and asked.json["outcome"] == "refused"
    assert asked.document["verdict"] == "unknown" and what in [row["differs"] for row in asked.document["rows"]]


def test_history_names_the_runs_it_could_not_read(past: Past) -> None:
    past.run({"a": "passed"})
    lost = past.run({"a": "failed"})
    ledger.events_path(past.world, lost).unlink()
    found = answer(past, "history", "a")
    assert [row["outcome"] for row in found["rows"]] == ["passed"]
    assert lost in found["reason"] and "gone" in found["reason"] and found["facts"]["notIngested"] == 1


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_the_closing_line_is_the_record_of_a_run_whatever_becomes_of_its_events(past: Past, damage: str) -> None:
    run = past.run({"a": "passed"})
    path = ledger.events_path(past.world, run)
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes().replace(b"passed", b"failed"))
    assert answer(past, "last")["verdict"] == answer(past, "run", run)["verdict"] == "true"
    assert answer(past, "explain", f"passed({run})")["verdict"] == "true"
    assert damage in answer(past, "slowest", run)["reason"]


@pytest.mark.parametrize("damage", ["removed", "edited", "garbage"])
def test_a_damaged_ledger_names_the_way_out_and_doctor_finds_it(past: Past, damage: str) -> None:
    past.run({"a": "passed"})
    past.run({"a": "passed"})
    path = past.world.store.path(names.LEDGER)
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    second = {"removed": b"", "edited": second.replace(b"passed", b"failed"), "garbage": b"{garbage\n"}[damage]
    path.write_bytes(b"".join([first, second, *rest]))
    asked = ask(past, "last")
    assert (asked.status, "ledger-append --repair" in asked.err.replace("\n", " ")) == (5, True)
    git = Repo.init(past.root / "repository")
    checked = call("git-ktx", "doctor", "--json", "--ktx-dir", str(past.world.store.root), cwd=git.path)
    (told,) = [one for one in checked.document["findings"] if one["check"] == "ledger"]
    assert (checked.status, told["level"]) == (1, "error") and "ledger-append --repair" in told["hint"]
    repaired = call("ledger-append", "--repair", "--ktx-dir", str(past.world.store.root), cwd=git.path)
    assert repaired.status == 0 and ask(past, "last").status == 0
    past.run({"a": "passed"})
    assert answer(past, "last")["verdict"] == "true"


def test_events_that_were_changed_later_are_no_evidence(past: Past) -> None:
    run = past.run({"a": "failed"})
    path = ledger.events_path(past.world, run)
    path.write_bytes(path.read_bytes().replace(b'"outcome": "failed"', b'"outcome": "passed"'))
    found = answer(past, "slowest", run)
    assert found["verdict"] == "unknown" and "changed" in found["reason"]


def test_flaky_with_its_rows_and_its_derivation(past: Past) -> None:
    first, second = past.run({"a": "passed", "b": "passed"}), past.run({"a": "failed", "b": "passed"})
    found = answer(past, "flaky", "a")
    assert found["verdict"] == "true" and [row["run"] for row in found["rows"]] == [first, second]
    tree = answer(past, "explain", "flaky(a)")
    assert tree["verdict"] == "true" and {row["run"] for row in tree["rows"]} == {first, second}
    assert "true: flaky(a)" in ask(past, "explain", "flaky", "a").out
    everything = answer(past, "flaky")
    assert [(row["test"], row["word"]) for row in everything["rows"]] == [("a", "flaky")]
    other = answer(past, "flaky", "b")
    assert other["verdict"] == "unknown" and other["facts"]["rateBelow"] == 1.0


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "tree": ({"tree": {"tree": "b" * 40}}, "failing"),
    "environment": ({"environment": {"python": "3.12"}}, "environment_dependent_failure"),
    "selection": ({"selected": ["a", "b"]}, "order_dependent"),
    "workers": ({"workers": 2}, "concurrency_dependent"),
    "scheduling": ({"scheduling": "worksteal"}, "concurrency_dependent"),
    "order": ({"order": "another"}, "order_dependent"),
    "generated": ({"tree": {"generated": "b3:" + "1" * 64}}, "failing"),
    "generated not known": ({"tree": {"generated": None}}, "failing"),
    "load": ({"load": 5.0}, "load_dependent"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_each_difference_of_two_recorded_runs_refuses_flaky(past: Past, what: str) -> None:
    facts, word = DIFFERENT[what]
    past.run({"a": "passed"})
    past.run({"a": "failed"}, **facts)
    found = answer(past, "flaky", "a")
    assert (found["verdict"], found["facts"]["word"]) == ("unknown", word)
    assert answer(past, "explain", "flaky(a)")["verdict"] == "unknown"


def test_what_differs_between_runs_is_said_in_words(past: Past) -> None:
    past.run({"a": "passed"}, tree={"generated": "b3:" + "1" * 64})
    past.run({"a": "failed"}, tree={"generated": "b3:" + "2" * 64})
    said = " ".join(ask(past, "explain", "flaky(a)").out.split())
    assert "they differ in files that git ignores (generated: a digest of their names, sizes and times)" in said
    assert "they differ in files that git ignores" in answer(past, "flaky", "a")["reason"]


def test_retries_are_another_word(past: Past) -> None:
    past.run({"a": "failed>passed"})
    assert answer(past, "flaky", "a")["facts"]["word"] == "passed_on_retry"
    assert answer(past, "explain", "passed_on_retry(a)")["verdict"] == "true"


@pytest.mark.parametrize("goal", ["passed(last)", "full(last)", "authoritative(last)"])
def test_explain_goes_down_to_rows(past: Past, goal: str) -> None:
    past.run(ABC)
    found = answer(past, "explain", goal)
    assert found["facts"]["derivation"]["because"] and found["rows"]
    expected = {"passed(last)": "true", "full(last)": "true", "authoritative(last)": "false"}[goal]
    assert found["verdict"] == expected


def test_projects_are_kept_apart(past: Past) -> None:
    mine = past.run({"a": "passed"})
    other = past.run({"a": "failed"}, project="example.org/other")
    assert answer(past, "last")["rows"][0]["run"] == mine
    assert answer(past, "last", "--project", "example.org/other")["rows"][0]["run"] == other
    assert len(answer(past, "runs", "--project", PROJECT, "--project", "example.org/other")["rows"]) == 2
    assert len(answer(past, "history", "a")["rows"]) == 1
    assert answer(past, "flaky", "a")["facts"]["executions"] == 1


def test_an_unresolvable_project_is_an_error(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KTX_PROJECT")
    asked = ask(past, "last")
    assert asked.status == 2 and "--project" in asked.err
    assert ask(past, "jobs").status == 0, "jobs are of the repository, whatever the project is called"


def test_answers_are_deterministic(past: Past) -> None:
    past.run({"b": "failed", "a": "passed"}, seconds=0.1)
    past.run({"a": "failed>passed", "b": "passed"})
    words = [
        ["last"],
        ["runs"],
        ["slowest"],
        ["history", "a"],
        ["flaky"],
        ["explain", "flaky(b)"],
        ["compare", "last", "last-full"],
    ]
    first = [ask(past, *one, "--json").out for one in words]
    past.world.store.path(names.LEDGER_INDEX).unlink()
    assert [ask(past, *one, "--json").out for one in words] == first, "a rebuilt index gives the same bytes"


def test_a_changed_ledger_line_is_status_5(past: Past) -> None:
    past.run({"a": "failed"})
    past.run({"a": "failed"})
    path = past.world.store.path(names.LEDGER)
    path.write_bytes(path.read_bytes().replace(b'"verdict":"failed"', b'"verdict":"passed"', 1))
    asked = ask(past, "last")
    assert asked.status == 5 and "it was changed" in asked.err


def test_a_line_that_is_taken_out_is_status_5(past: Past) -> None:
    for _ in range(3):
        past.run({"a": "passed"})
    path = past.world.store.path(names.LEDGER)
    kept = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(kept[:2] + kept[3:]))
    assert ask(past, "last").status == 5


INDEXES = {"garbage": b"no database", "empty": b"", "truncated": None}


@pytest.mark.parametrize("how", INDEXES)
def test_a_damaged_index_is_made_again(past: Past, how: str) -> None:
    run = past.run({"a": "passed"})
    ask(past, "last")
    path = past.world.store.path(names.LEDGER_INDEX)
    data = INDEXES[how]
    path.write_bytes(path.read_bytes()[:1000] if data is None else data)
    assert answer(past, "last")["rows"][0]["run"] == run


def test_a_replaced_ledger_makes_the_index_again(past: Past) -> None:
    past.run({"a": "passed"})
    ask(past, "last")
    other = Past(past.root / "other")
    other.count = 30
    run = other.run({"a": "failed"})
    for name in (names.LEDGER, names.LEDGER_HEAD):
        other.world.store.path(name).replace(past.world.store.path(name))
    for mark in past.world.store.ledger_marks():
        mark.write_bytes(past.world.store.path(names.LEDGER_HEAD).read_bytes())
    past.world.store.path(names.EVENTS).rename(past.root / "old")
    past.world.store.path(names.EVENTS).mkdir()
    ledger.events_path(other.world, run).replace(ledger.events_path(past.world, run))
    assert [row["run"] for row in answer(past, "runs")["rows"]] == [run]


def test_a_torn_last_line_changes_nothing(past: Past) -> None:
    run = past.run({"a": "passed"})
    path = past.world.store.path(names.LEDGER)
    path.write_bytes(path.read_bytes() + b'{"schemaVersion":1,"kind":"run-')
    assert answer(past, "last")["rows"][0]["run"] == run
    second = past.run({"a": "passed"})
    assert answer(past, "last")["rows"][0]["run"] == second


def test_live_elapsed_uses_the_clock(past: Past) -> None:
    from ktxkit.base.clock import FixedClock
    from ktxkit.ledger.live import live_row

    run = past.run({"a": "running"}, finish=False)
    clock = FixedClock(datetime(2026, 1, 2, 3, 1, 30, tzinfo=UTC))
    assert live_row(past.world, run, clock.now())["elapsed"] == 30.0


def test_every_line_and_event_is_valid(past: Past) -> None:
    past.run({"a": "passed", "b": "failed>passed"})
    assert [line["kind"] for line in chain.lines(past.world)] == ["run-opened", "run-closed"]
    assert json.loads(past.world.store.path(names.LEDGER).read_bytes().splitlines()[0])["project"] == PROJECT


def test_the_run_before_is_the_one_that_was_opened_before(past: Past) -> None:
    """Two at once: the first to begin is the last to end."""
    first = past.run(ABC, settle=False, tree={"tree": "b" * 40})
    second = past.run({"t.py::a": "passed"})
    ledger.settle(past.world, first)
    found = answer(past, "last-full")
    assert (found["rows"][0]["run"], found["facts"]["lacksOf"], found["facts"]["lacksCount"]) == (second, first, 2)
