"""Columns of results answer as the rows would: held against a plain reading of the same attempts."""

from __future__ import annotations

import random

import pytest

from ktxkit.ledger.rules.rows import NO_VERDICT, SHIFT, Changes, Columns, packed, unpacked

Attempt = tuple[int, int | None, int]


def attempts(chance: random.Random, tests: int) -> list[Attempt]:
    """In the order in which they ended; some tests ran twice, some were retried, some took very long."""
    found: list[Attempt] = []
    for test in chance.sample(range(1, 2 * tests), tests):
        for occurrence in range(1, chance.choice((1, 1, 1, 3)) + 1):
            place = test << SHIFT | occurrence
            found += [(place, None, chance.randrange(20))] * chance.choice((0, 0, 0, 2))
            found.append((place, chance.choice((1, 1, 1, 2, 0)), chance.choice((0, 3, chance.randrange(40), 1 << 33))))
    return found


def columns(made: list[Attempt]) -> Columns:
    codes = bytes(NO_VERDICT if verdict is None else verdict for _, verdict, _ in made)
    return unpacked(*packed([place for place, _, _ in made], codes, [total for _, _, total in made]))


@pytest.mark.parametrize("seed", range(40))
def test_the_slowest_are_those_of_the_rows(seed: int) -> None:
    chance = random.Random(seed)
    made, limit = attempts(chance, chance.randrange(30)), chance.randrange(1, 12)
    ranked = sorted((total for _, _, total in made), reverse=True)[:limit]
    least = ranked[-1] if ranked else 0
    assert columns(made).slowest(limit) == (least, {place >> SHIFT for place, _, total in made if total >= least})


@pytest.mark.parametrize("seed", range(60))
def test_changes_are_those_of_the_rows(seed: int) -> None:
    chance = random.Random(seed)
    before, limit = attempts(chance, chance.randrange(30)), chance.randrange(1, 12)
    after = attempts(chance, chance.randrange(30)) if seed % 2 else [
        (place, verdict and chance.choice((verdict, verdict, 3)), total + chance.randrange(3))
        for place, verdict, total in before
    ]  # fmt: skip
    found = Changes(columns(before), columns(after), limit)
    one, two = ({p: (v, t) for p, v, t in made if v is not None} for made in (before, after))
    both = sorted(one.keys() & two.keys())
    assert found.gone == {place >> SHIFT for place in one.keys() - two.keys()}
    assert found.come == {place >> SHIFT for place in two.keys() - one.keys()}
    assert found.verdicts == [(p, one[p][0], two[p][0]) for p in both if one[p][0] != two[p][0]]
    ranked = sorted(both, key=lambda p: (-abs(two[p][1] - one[p][1]), p))[:limit]
    assert found.slower == [(p, one[p][1], two[p][1]) for p in ranked]


@pytest.mark.parametrize(
    ("totals", "width"), [([0, 5, (1 << 32) - 1], 4), ([0, 1 << 32], 8), ([], 0)], ids=["narrow", "wide", "none"]
)
def test_times_are_kept_whole_in_as_few_bytes_as_they_need(totals: list[int], width: int) -> None:
    kept = packed([number << SHIFT | 1 for number in range(len(totals))], bytes(len(totals)), totals)
    assert len(kept[2]) == width * len(totals) and list(unpacked(*kept).totals) == totals
