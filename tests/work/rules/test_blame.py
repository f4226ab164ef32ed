"""Blame against one-by-one verification: the same culprits, at a small part of the cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.work.rules.schedule import first_failure, may_confirm, minimal_set, steps


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_the_first_failing_prefix_is_found_in_few_steps(case: tuple[int, int]) -> None:
    count, bad = case
    asked: list[int] = []

    def fails(k: int) -> bool:
        asked.append(k)
        return k >= bad

    assert first_failure(count, fails) == bad
    assert len(asked) <= steps(count)
    assert len(set(asked)) == len(asked)


@given(st.integers(1, 40), st.data())
def test_the_minimal_set_fails_and_no_part_of_it_does(count: int, data: st.DataObject) -> None:
    culprits = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1, max_size=3), min_size=1, max_size=3))

    def fails(items: Sequence[int]) -> bool:
        return any(culprit <= set(items) for culprit in culprits)

    found = minimal_set(range(count), fails)
    assert fails(found)
    assert not any(fails(part) for part in combinations(found, len(found) - 1))
    assert found == sorted(found)


def test_a_pair_of_a_hundred_is_named_in_few_verifications() -> None:
    asked = []

    def fails(items: Sequence[int]) -> bool:
        asked.append(len(items))
        return {17, 63} <= set(items)

    assert minimal_set(range(100), fails) == [17, 63]
    assert len(asked) <= 4 * steps(100)


@pytest.mark.parametrize(
    ("count", "culprits", "asked", "rest", "may"),
    [(8, 1, 7, 4, True), (64, 1, 9, 63, True), (64, 2, 19, 0, True), (100, 1, 10, 99, False), (100, 1, 9, 64, True)],
)
def test_confirming_stays_within_the_promise(count: int, culprits: int, asked: int, rest: int, may: bool) -> None:
    assert may_confirm(count, culprits, asked, rest) is may


@pytest.mark.parametrize("count", [2, 3, 10, 64, 100])
def test_two_bad_ones_cost_at_most_twenty(count: int) -> None:
    """Every pair of positions: control, all, search, alone, again, the rest, search, alone, again, the rest."""
    worst, unconfirmed = 0, 0
    for first, second in combinations(range(1, count + 1), 2):
        cost = 3 + _search(count, first)  # control, the whole batch, alone
        rest = count - first
        confirmed = may_confirm(count, 1, cost, rest)
        cost += confirmed
        cost += 1 + _search(rest, second - first) + 1
        again = may_confirm(count, 2, cost, count - second)
        cost += again
        cost += second < count
        for done in (confirmed, again):
            if not done and may_confirm(count, 2, cost):
                cost += 1
            unconfirmed += not done and not may_confirm(count, 2, cost)
        worst = max(worst, cost)
    assert worst <= 20
    assert count > 64 or unconfirmed == 0


def _search(count: int, bad: int) -> int:
    asked = []

    def fails(k: int) -> bool:
        asked.append(k)
        return k >= bad

    first_failure(count, fails)
    return len(asked)
