"""What changed in a source, judged by what really landed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.ingest.rules.planning import (
    Evictions,
    LastSync,
    Proposal,
    check_proposals,
    difference,
    everywhere,
    evictions,
    fold,
    select,
    unit_order,
)

OLD, NEW = "b3:old", "b3:new"


def known(outcome: str = "accepted", digest: str = OLD, *, deleted: bool = False) -> LastSync:
    return LastSync(digest, outcome, "s1", deleted=deleted)


def elsewhere(path: str) -> bool:
    return not path.startswith("other/")


# name: snapshot, what is known, scope, lists that are expected (added, modified, deleted, unchanged)
CASES: dict[str, tuple[dict[str, str], dict[str, LastSync], Callable[[str], bool], tuple[list[str], ...]]] = {
    "the first run has only additions": ({"b": OLD, "a": OLD}, {}, everywhere, (["a", "b"], [], [], [])),
    "four ways": (
        {"new": NEW, "same": OLD, "other": NEW},
        {"same": known(), "other": known(), "gone": known()},
        everywhere,
        (["new"], ["other"], ["gone"], ["same"]),
    ),
    "a failed one is tried again": ({"a": OLD}, {"a": known("failed")}, everywhere, ([], ["a"], [], [])),
    "a conflict is tried again": ({"a": OLD}, {"a": known("textual_conflict")}, everywhere, ([], ["a"], [], [])),
    "subsumed, noop and skipped are settled": (
        {"a": OLD, "b": OLD, "c": OLD},
        {"a": known("subsumed"), "b": known("noop"), "c": known("skipped")},
        everywhere,
        ([], [], [], ["a", "b", "c"]),
    ),
    "out of scope is not deleted": ({}, {"other/a": known(), "a": known()}, elsewhere, ([], [], ["a"], [])),
    "a settled deletion is over": ({}, {"a": known("skipped", deleted=True)}, everywhere, ([], [], [], [])),
    "a failed eviction is tried again": ({}, {"a": known("failed", deleted=True)}, everywhere, ([], [], ["a"], [])),
    "what comes back is added": ({"a": OLD}, {"a": known("skipped", deleted=True)}, everywhere, (["a"], [], [], [])),
    "one that never landed and is gone": ({}, {"a": known("failed")}, everywhere, ([], [], ["a"], [])),
    "sorted by bytes": (
        {"ä": OLD, "z": OLD, "Z": OLD, "card/10": OLD, "card/9": OLD},
        {},
        everywhere,
        (["Z", "card/10", "card/9", "z", "ä"], [], [], []),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_difference(name: str) -> None:
    current, before, scope, expected = CASES[name]
    found = difference(current, before, scope)
    assert (list(found.added), list(found.modified), list(found.deleted), list(found.unchanged)) == expected
    assert found.summary() == dict(zip(("added", "modified", "deleted", "unchanged"), map(len, expected), strict=True))


def state(path: str, outcome: str, digest: str = OLD, **more: Any) -> dict[str, Any]:
    return {"rawPath": path, "rawContentHash": digest, "outcome": outcome, "syncId": "s", **more}


def test_the_last_record_counts() -> None:
    found = fold([state("a", "failed"), state("b", "accepted"), state("a", "accepted", NEW, factsDigest="f")])
    assert found["a"] == LastSync(NEW, "accepted", "s", "f") and found["b"].settled
    for _ in range(50):  # however many syncs find it unchanged, and so write nothing
        assert difference({"a": NEW, "b": OLD}, found).unchanged == ("a", "b")


def unit(key: str, own: str, needs: str = "", facts: Any = None) -> Proposal:
    return Proposal(key, key, tuple(own.split()), tuple(needs.split()), facts=facts or {})


def told(proposals: list[Proposal]) -> dict[str, LastSync]:
    return {raw: LastSync(OLD, "accepted", "s", one.facts_digest) for one in proposals for raw in one.raw_files}


def test_one_changed_card_redoes_its_unit_and_its_dependants_only() -> None:
    plan = [unit("a", "1"), unit("b", "2", "1"), unit("c", "3", "1 2"), unit("d", "4")]
    found = difference({"1": NEW, "2": OLD, "3": OLD, "4": OLD}, told(plan))
    assert [one.proposal.key for one in select(plan, found, told(plan))] == ["a", "b", "c"]
    assert select(plan, found, told(plan))[1].reasons == ("dependency: 1",)


def test_nothing_changed_needs_no_unit() -> None:
    plan = [unit("a", "1"), unit("b", "2", "1")]
    assert select(plan, difference({"1": OLD, "2": OLD}, told(plan)), told(plan)) == []


def test_a_deleted_dependency_and_changed_facts_redo_a_unit() -> None:
    plan = [unit("b", "2"), unit("c", "3", facts={"table": "orders"})]
    before = {**told(plan), "1": known(), "3": known()}
    found = select([unit("b", "2", "1"), plan[1]], difference({"2": OLD, "3": OLD}, before), before)
    assert [one.proposal.key for one in found] == ["b", "c"]


def test_a_failed_dependant_is_redone_although_its_bytes_are_the_same() -> None:
    plan = [unit("b", "2", "1")]
    before = {"1": known(), "2": known("failed")}
    assert [one.proposal.key for one in select(plan, difference({"1": OLD, "2": OLD}, before), before)] == ["b"]


BAD_PLANS = {
    "a key twice": [unit("a", "1"), unit("a", "2")],
    "a raw file in two units": [unit("a", "1"), unit("b", "1")],
    "no raw file": [unit("a", "")],
    "a raw file that is not there": [unit("a", "9")],
    "a dependency that is not there": [unit("a", "1", "9")],
    "the key of the evictions": [unit("evictions", "1")],
    "a key with a control character": [unit("a\nb", "1")],
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_plan_that_no_job_can_be_made_of(name: str) -> None:
    with pytest.raises(CannotRun):
        check_proposals(BAD_PLANS[name], {"1", "2"})


def test_units_stand_behind_what_they_build_on() -> None:
    plan = [unit("c", "3", "2"), unit("b", "2", "1"), unit("x", "9"), unit("a", "1")]
    assert [one.key for one in unit_order(plan)] == ["x", "a", "b", "c"]
    circle = [unit("a", "1", "2"), unit("b", "2", "1")]
    assert unit_order(circle) == circle


def row(path: str, digest: str = "d") -> dict[str, Any]:
    return {"artifactPath": path, "artifactContentHash": digest}


def test_evictions() -> None:
    last = {"1": [row("only"), row("shared"), row("edited"), row("absent")], "2": [row("shared")], "3": [row("live")]}
    tree = {"only": "d", "shared": "d", "edited": "other", "live": "d"}
    assert evictions(last, {"1"}, tree) == Evictions(("only",), ("edited",), frozenset({"2"}))
    assert evictions(last, {"1", "2"}, tree).paths == ("only", "shared")
    assert evictions(last, (), tree) == Evictions()
