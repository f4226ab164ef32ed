"""Near names: those that difflib would give, for a budget."""

from __future__ import annotations

import random

from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules.model import LONGEST, Nearness

WORDS = [f"{a}_{b}_{c}" for a in ("stg", "mart", "int") for b in ("orders", "accounts", "arr") for c in range(60)]


def misspelt(name: str, chance: random.Random) -> str:
    at = chance.randrange(len(name))
    return name[:at] + chance.choice("abcxyz_") + name[at + chance.randrange(2) :]


def test_what_difflib_gives_among_few() -> None:
    few = ["orders", "order_lines", "accounts"]
    assert Nearness().names("ordrs", "few", lambda: few) == nearest("ordrs", few)


def test_the_nearest_among_many() -> None:
    """The best of difflib's is among the first; a name with one letter wrong finds its name."""
    chance = random.Random(5)
    near = Nearness()
    found = 0
    for _ in range(60):
        name = chance.choice(WORDS)
        wrong = misspelt(name, chance)
        if wrong in WORDS:
            continue
        best = nearest(wrong, WORDS, 1)
        found += near.names(wrong, "many", lambda: WORDS)[:1] == best
    assert found >= 54


def test_names_are_asked_for_once() -> None:
    asked: list[int] = []

    def known() -> list[str]:
        asked.append(1)
        return WORDS

    near = Nearness()
    for word in ("stg_ordrs_1", "mart_acounts_2"):
        assert near.names(word, "group", known)
    assert asked == [1]


def test_the_budget_ends() -> None:
    near = Nearness(budget=100_000)
    answers = [near.names(f"stg_ordrs_{n}", "group", lambda: WORDS) for n in range(200)]
    assert answers[0] and not answers[-1]


def test_what_is_too_long_is_not_measured() -> None:
    near = Nearness()
    assert near.names("a" * (LONGEST + 1), "group", lambda: ["a" * LONGEST]) == []
    assert near.names("a" * LONGEST, "long", lambda: ["a" * (LONGEST + 1), "a" * (LONGEST - 1)]) == [
        "a" * (LONGEST - 1)
    ]
