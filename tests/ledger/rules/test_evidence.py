"""Each difference alone refuses the word `flaky`; identical executions grant it; a missing fact grants nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ktxkit.ledger.rules.evidence import PARTS, Execution, judge

SAME: dict[str, Any] = {
    "tree": "t", "environment": "e", "selection": "s", "workers": 0, "scheduling": "no", "ordering": "o",
    "generated": "g", "load": "idle",
}  # fmt: skip


def ran(outcome: str, run: str = "r", **other: Any) -> Execution:
    key = {**SAME, **other}
    more = {name: key.pop(name) for name in ("attempt", "retried") if name in key}
    return Execution(run=run, outcome=outcome, key=tuple(key[part] for part in PARTS), **more)


DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "tree": ({"tree": "t2"}, "failing"),
    "environment": ({"environment": "e2"}, "environment_dependent_failure"),
    "selection": ({"selection": "s2"}, "order_dependent"),
    "workers": ({"workers": 8}, "concurrency_dependent"),
    "scheduling": ({"scheduling": "load"}, "concurrency_dependent"),
    "ordering": ({"ordering": "o2"}, "order_dependent"),
    "generated": ({"generated": "g2"}, "failing"),
    "load": ({"load": "busy"}, "load_dependent"),
}


def test_the_table_names_every_part() -> None:
    assert set(DIFFERENCES) == set(PARTS) == set(SAME)


def test_identical_executions_with_both_outcomes_are_flaky() -> None:
    said = judge([ran("passed", "r1"), ran("failed", "r2")])
    assert (said.word, said.verdict) == ("flaky", "true")
    assert [one.run for one in said.rows] == ["r1", "r2"]


@pytest.mark.parametrize("part", DIFFERENCES)
@pytest.mark.parametrize("bad", ["failed", "error", "crashed"])
def test_each_difference_alone_refuses_the_word(part: str, bad: str) -> None:
    other, word = DIFFERENCES[part]
    said = judge([ran("passed", "r1"), ran(bad, "r2", **other)])
    assert said.word == word
    assert said.word != "flaky"


@pytest.mark.parametrize("part", DIFFERENCES)
def test_a_part_that_is_not_known_grants_nothing(part: str) -> None:
    said = judge([ran("passed", "r1", **{part: None}), ran("failed", "r2", **{part: None})])
    assert said.word != "flaky"


@pytest.mark.parametrize(
    ("name", "executions", "word"),
    [
        ("nothing", [], "unknown"),
        ("one pass", [ran("passed")], "unknown"),
        ("passes only", [ran("passed"), ran("passed")], "unknown"),
        ("one failure", [ran("failed")], "failing"),
        ("failures only", [ran("failed"), ran("error")], "failing"),
        ("skips are no side", [ran("skipped"), ran("passed")], "unknown"),
        ("expected failures are no side", [ran("xfailed"), ran("passed")], "unknown"),
        ("failed once, passes now, other tree", [ran("failed"), ran("passed", tree="t2")], "unknown"),
        ("interrupted is no side", [ran("interrupted"), ran("passed")], "unknown"),
        ("retry", [ran("failed", retried=True), ran("passed", attempt=2)], "passed_on_retry"),
        ("retry that failed", [ran("failed", retried=True), ran("failed", attempt=2)], "failing"),
    ],
)
def test_words(name: str, executions: list[Execution], word: str) -> None:
    assert judge(executions).word == word, name


@pytest.mark.parametrize("least", [2, 3, 5])
def test_fewer_identical_executions_than_asked_for_do_not_do(least: int) -> None:
    executions = [ran("passed", "r0"), *(ran("failed", f"r{n}") for n in range(1, least - 1))]
    assert judge(executions, least).word != "flaky"
    assert judge([*executions, ran("failed", "last")], least).word == "flaky"


def test_a_value_with_both_outcomes_is_not_explained_by_the_difference() -> None:
    mixed = [
        ran("passed", workers=0, tree=None),
        ran("failed", workers=8, tree=None),
        ran("passed", workers=8, tree=None),
    ]
    assert judge(mixed).word not in ("concurrency_dependent", "flaky")
