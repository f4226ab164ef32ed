"""Suppressions as functions over findings."""

from __future__ import annotations

from typing import Any

import pytest

from ktxkit.gates.rules.findings import Finding, grouped
from ktxkit.gates.rules.suppressions import apply, idle, in_text


def finding(line: int, rule: str = "schema-type", path: bytes = b"a", reference: str = "r") -> Finding:
    return Finding(rule, path, "wrong", line, 1, reference)


@pytest.mark.parametrize(
    ("text", "ignores"),
    [
        ("a: 1 # ktx-gate: ignore=x-y", [["x-y", 1, 6, False]]),
        ("# ktx-gate: ignore=x,y\na: 1", [["x", 1, 1, True], ["y", 1, 1, True]]),
        ("\t// ktx-gate: ignore=no-todo\r\n", [["no-todo", 1, 2, True]]),
        ("select 1 -- ktx-gate:ignore=S001", [["S001", 1, 10, False]]),
        ("/* ktx-gate: ignore=a/b:c */", [["a/b:c", 1, 1, True]]),
        ("x <!-- ktx-gate: ignore=x -->", [["x", 1, 3, False]]),
        ("; ktx-gate: ignore=x\r% ktx-gate: ignore=y", [["x", 1, 1, True], ["y", 2, 1, True]]),
        ("# ktx-gate: ignore=", []),
        ("# ktx-gate: ignore=x and more words", []),
        ("# ktx-gate ignore=x", []),
        ("url#ktx-gate: ignore=x", []),
        ("ktx-gate: ignore=x", []),
        ("", []),
    ],
)
def test_in_text(text: str, ignores: list[list[Any]]) -> None:
    assert in_text(text) == ignores


SAME, ALONE = ["schema-type", 3, 9, False], ["schema-type", 3, 1, True]


@pytest.mark.parametrize(
    ("ignore", "line", "covered"),
    [(SAME, 3, True), (SAME, 4, False), (SAME, 2, False), (ALONE, 3, True), (ALONE, 4, True), (ALONE, 5, False)],
)
def test_what_a_comment_covers(ignore: list[Any], line: int, covered: bool) -> None:
    done = apply([finding(line)], {b"a": [ignore]})
    assert (done.kept == []) is covered and done.hidden == covered
    assert idle({b"a": [ignore]}, done.used) == [] if covered else idle({b"a": [ignore]}, done.used)


@pytest.mark.parametrize(
    "one", [finding(3, "schema-value"), finding(3, path=b"b"), finding(0), finding(3, "swallowed-exception")]
)
def test_what_it_does_not_cover(one: Finding) -> None:
    ignores = {b"a": [SAME, ["swallowed-exception", 3, 1, False]]}
    done = apply([one], ignores)
    assert done.kept == [one] and done.hidden == 0 and not done.used


def test_of_several_places_only_the_covered_ones_go() -> None:
    (many,) = grouped([finding(2), finding(3), finding(9)])
    done = apply([many], {b"a": [SAME, ["schema-type", 2, 1, False]]})
    (left,) = done.kept
    assert (left.line, left.places, done.hidden) == (9, ((9, 1),), 2)
    assert left.fingerprint == many.fingerprint


def test_what_is_told_of_a_comment_that_covers_nothing() -> None:
    ignores = {b"a": [SAME, ["shema-type", 4, 2, True]]}
    unused, unknown = idle(ignores, ())
    assert (unused.rule, unused.line, unused.column, unused.reference) == ("suppression-unused", 3, 9, "schema-type")
    assert (unknown.rule, unknown.nearest[0]) == ("suppression-unknown", "schema-type")
    assert [one.rule for one in idle(ignores, [(b"a", 0)], foreign=True)] == ["suppression-unused"]
