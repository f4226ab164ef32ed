"""Membership in the tracked set, asked in order and out of it."""

from __future__ import annotations

import random

from ktxkit.observer.rules.projection import Tracked

PATHS = [b"a", b"a.txt", b"a/b", b"a/b/c", b"a/bc", b"b", b"dir/\xff", b"dir/x y", b"z"]
OTHERS = [b"", b"a/", b"aa", b"a/b/", b"b/", b"c", b"dir", b"zz"]


def test_every_order_finds_the_same() -> None:
    tracked = Tracked.of(PATHS)
    chance = random.Random(7)
    asked = [*PATHS, *OTHERS]
    for turn in range(200):
        path = chance.choice(asked) if turn % 2 else asked[turn % len(asked)]
        assert (path in tracked) == (path in PATHS), path


def test_a_walk_in_order_and_again() -> None:
    tracked = Tracked.of(PATHS)
    for _ in range(2):
        assert [path for path in sorted([*PATHS, *OTHERS]) if path in tracked] == sorted(PATHS)


def test_nothing_is_tracked() -> None:
    assert b"a" not in Tracked()
    assert b"" not in Tracked()
