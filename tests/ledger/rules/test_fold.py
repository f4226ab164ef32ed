"""The fold: replayable, the same from any prefix, and no prefix of a run says that it passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.base import contracts
from ktxkit.ledger.rules.fold import Fold
from ktxkit.ledger.rules.scope import against_authority, derive

if TYPE_CHECKING:
    from ktxkit.base.documents import RunRecord

AT = "2026-01-02T03:04:05.678Z"
WORDS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "crashed")


def stream(outcomes: list[tuple[str, bool]]) -> list[Any]:
    """A run of tests; each with its outcome and whether it is retried once (and passes)."""
    made: list[dict[str, Any]] = [
        {"event": "run_started", "schemaVersion": 1, "t": 0, "run": "r", "at": AT, "project": "p",
         "trigger": "unmanaged", "managed": False, "mode": "run",
         "selection": {"argsSource": "testpaths", "args": ["."], "narrowing": []}},
        {"event": "phase", "t": 0.1, "phase": "tests", "edge": "start"},
        {"event": "collected", "t": 0.2, "collected": len(outcomes), "selected": len(outcomes)}
        | {"deselected": 0, "removed": 0},
    ]  # fmt: skip
    for number, (word, retried) in enumerate(outcomes):
        who = {"test": f"t{number}", "t": 0.3 + number}
        made.append({"event": "test_started", **who})
        made.append(
            {"event": "test_result", **who, "outcome": word, "call": 0.1} | ({"retried": True} if retried else {})
        )
        if retried:
            made.append({"event": "test_started", **who, "attempt": 2})
            made.append({"event": "test_result", **who, "attempt": 2, "outcome": "passed", "call": 0.1})
    made.append({"event": "phase", "t": 99.0, "phase": "tests", "edge": "end"})
    made.append({"event": "run_finished", "t": 100.0, "at": "2026-01-02T03:05:45.678Z", "exitStatus": 0})
    return made


def record(events: Sequence[Any], life: Any = "dead", tests: int = 0) -> RunRecord:
    found = Fold().feed(events).result(life, [f"t{n}" for n in range(tests)])
    found["scope"] = derive(found)
    found["authoritative"] = not against_authority(found)
    return {"run": "r", **found}


OUTCOMES = st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), max_size=8)


@given(OUTCOMES, st.data())
def test_any_prefix_is_a_well_formed_partial_record(outcomes: list[tuple[str, bool]], data: Any) -> None:
    events = stream(outcomes)
    cut = data.draw(st.integers(0, len(events) - 1))
    found = record(events[:cut], "dead", len(outcomes))
    line = {
        "schemaVersion": 1, "kind": "run-closed", "run": "r", "seq": 1, "at": AT, "project": "p",
        "hash": "b3:" + "0" * 64, "events": {"bytes": 1, "digest": "b3:" + "0" * 64}, "record": found,
    }  # fmt: skip
    contracts.validate("ledger-line", line)
    assert found["state"] == "killed" and found["verdict"] in ("incomplete", "failed")
    assert found["scope"]["kind"] != "full" and not found["authoritative"]
    if cut > 3:
        named = {one["test"] for one in found.get("inFlight", ())} | set(found.get("notRun", ()))
        ended = {
            event["test"] for event in events[:cut] if event["event"] == "test_result" and not event.get("retried")
        }
        assert named >= {f"t{n}" for n in range(len(outcomes))} - ended - retried_between(events, cut)


def retried_between(events: list[dict[str, Any]], cut: int) -> set[str]:
    """Tests cut off between an attempt and its retry: they have run, and are known to be retried."""
    return {event["test"] for event in events[:cut] if event.get("retried")}


@given(OUTCOMES)
def test_replaying_gives_the_same(outcomes: list[tuple[str, bool]]) -> None:
    events = stream(outcomes)
    whole = Fold().feed(events)
    piecewise = Fold()
    for event in events:
        piecewise.feed([event])
        piecewise.result("alive")
    assert whole.result("dead") == piecewise.result("dead") == whole.result("dead")


@given(OUTCOMES)
def test_counts_sum_to_selected(outcomes: list[tuple[str, bool]]) -> None:
    counts: Mapping[str, Any] = record(stream(outcomes), tests=len(outcomes))["counts"]
    words = (
        "passed",
        "failed",
        "errors",
        "skipped",
        "xfailed",
        "xpassed",
        "crashed",
        "interrupted",
        "notRun",
        "unknown",
    )
    assert sum(counts.get(word, 0) for word in words) == counts["selected"] == len(outcomes)


@given(OUTCOMES, st.data())
def test_a_lost_line_never_makes_a_run_better(outcomes: list[tuple[str, bool]], data: Any) -> None:
    events: list[dict[str, Any] | None] = list(stream(outcomes))
    lost = data.draw(st.integers(0, len(events) - 1))
    events[lost] = None
    found = record(events, "dead", len(outcomes))
    assert found["scope"]["kind"] != "full" and found["lost"]["torn"] == 1


@pytest.mark.parametrize(("life", "state"), [("alive", "running"), ("dead", "killed"), ("unknown", "unknown")])
def test_without_an_end_it_depends_on_the_process(life: str, state: str) -> None:
    events = stream([("passed", False)])[:-1]
    found = record(list(events), life, 1)
    assert found["state"] == state and found["verdict"] != "passed"


def test_phases_are_spans_of_the_run() -> None:
    assert record(list(stream([])))["phases"] == {"tests": 98.9}
