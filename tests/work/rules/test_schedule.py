"""Unit order, bases and outcomes do not depend on which unit is quicker."""

from __future__ import annotations

import random

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.work.rules.schedule import Schedule, ScheduledUnit, integration_order, job_outcome


def keys(*nodes: ScheduledUnit) -> list[str]:
    return [node.key for node in integration_order(nodes)]


ORDERS = {
    "file order": ([ScheduledUnit("a"), ScheduledUnit("b"), ScheduledUnit("c")], ["a", "b", "c"]),
    "after one later": ([ScheduledUnit("a", ("c",)), ScheduledUnit("b"), ScheduledUnit("c")], ["b", "c", "a"]),
    "chain backwards": ([ScheduledUnit("a", ("b",)), ScheduledUnit("b", ("c",)), ScheduledUnit("c")], ["c", "b", "a"]),
    "named twice": ([ScheduledUnit("a"), ScheduledUnit("b", ("a", "a"))], ["a", "b"]),
    "diamond": (
        [ScheduledUnit("d", ("b", "c")), ScheduledUnit("a"), ScheduledUnit("b", ("a",)), ScheduledUnit("c", ("a",))],
        ["a", "b", "c", "d"],
    ),
    "empty": ([], []),
}


@pytest.mark.parametrize(("nodes", "wanted"), ORDERS.values(), ids=ORDERS)
def test_integration_order(nodes: list[ScheduledUnit], wanted: list[str]) -> None:
    assert keys(*nodes) == wanted


REFUSED = {
    "twice": ([ScheduledUnit("a"), ScheduledUnit("a")], "stands twice"),
    "unknown": ([ScheduledUnit("page-one"), ScheduledUnit("b", ("page-on",))], "unknown unit"),
    "itself": ([ScheduledUnit("a", ("a",))], "circle"),
    "circle": ([ScheduledUnit("x"), ScheduledUnit("a", ("b",)), ScheduledUnit("b", ("a",))], "'a', 'b'"),
}


@pytest.mark.parametrize(("nodes", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_orders(nodes: list[ScheduledUnit], message: str) -> None:
    with pytest.raises(CannotRun, match=message):
        integration_order(nodes)


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(CannotRun) as caught:
        integration_order([ScheduledUnit("page-one"), ScheduledUnit("b", ("page-on",))])
    assert "page-one" in caught.value.hint


def drive(
    nodes: list[ScheduledUnit], limit: int, seed: int, bad: frozenset[str] = frozenset()
) -> tuple[list[str], dict[str, str]]:
    """Run a schedule with units that end in a random order; returns the integration order and each unit's base."""
    chance = random.Random(seed)
    schedule = Schedule(integration_order(nodes), limit)
    integrated: list[str] = []
    bases: dict[str, str] = {}
    head = "base"
    while not schedule.done:
        for node, _ in schedule.unstartable():
            schedule.ended(node.key)
        for node in schedule.startable():
            bases[node.key] = schedule.base_after(node) or "base"
            schedule.started(node.key)
        assert len(schedule.running) <= limit
        if schedule.running:
            schedule.ended(chance.choice(sorted(schedule.running)))
        while (ready := schedule.integrable()) is not None:
            failed = ready.key in bad or ready.key not in bases
            head = head if failed else ready.key
            integrated.append(ready.key)
            schedule.settled(ready.key, "failed" if failed else "accepted", head)
    return integrated, bases


DIAMOND = [
    ScheduledUnit("d", ("b", "c")),
    ScheduledUnit("a"),
    ScheduledUnit("b", ("a",)),
    ScheduledUnit("c", ("a",)),
    ScheduledUnit("e"),
]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_timing_changes_neither_order_nor_bases(limit: int) -> None:
    ways = {repr(drive(DIAMOND, limit, seed)) for seed in range(50)}
    assert len(ways) == 1
    order, bases = drive(DIAMOND, limit, 0)
    assert order == ["a", "b", "c", "d", "e"]
    assert bases == {"a": "base", "b": "a", "c": "a", "d": "c", "e": "base"}


def test_what_waits_for_a_failed_unit_never_starts() -> None:
    order, bases = drive(DIAMOND, 2, 0, frozenset({"b"}))
    assert order == ["a", "b", "c", "d", "e"]
    assert "d" not in bases and {"a", "b", "c", "e"} == set(bases)


def test_a_tolerant_unit_starts_after_failures_too() -> None:
    nodes = [ScheduledUnit("a"), ScheduledUnit("b"), ScheduledUnit("r", ("a", "b"), tolerant=True)]
    _, bases = drive(nodes, 2, 0, frozenset({"a"}))
    assert bases["r"] == "b"


def test_closing_lets_nothing_start() -> None:
    schedule = Schedule(integration_order([ScheduledUnit("a"), ScheduledUnit("b")]), 1)
    schedule.started("a")
    schedule.close()
    schedule.ended("a")
    assert schedule.startable() == []
    assert [node.key for node in schedule.drop_waiting()] == ["b"]


WORDS = {
    "all in": (["accepted", "subsumed"], True, True, "done"),
    "nothing to do": (["noop"], False, False, "noop"),
    "some out": (["accepted", "textual_conflict"], True, True, "partial"),
    "none in": (["failed"], False, False, "failed"),
    "one noop, one failed": (["noop", "failed"], False, False, "failed"),
}


@pytest.mark.parametrize(("outcomes", "changed", "landed", "wanted"), WORDS.values(), ids=WORDS)
def test_job_outcome(outcomes: list[str], changed: bool, landed: bool, wanted: str) -> None:
    assert job_outcome(outcomes, changed=changed, landed=landed) == wanted
