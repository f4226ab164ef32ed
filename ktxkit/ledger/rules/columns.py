"""A run's results in columns: a question about a whole run reads these few, not a row for each of its tests.

A place in a run is one number: the test's, and below it in 32 bits the occurrence. Times are whole microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import compress
from operator import ne, sub

NO_VERDICT = 255  # of an attempt that was retried
SHIFT = 32
NARROW, WIDE = "I", "q"  # of four and of eight bytes
Change = tuple[int, int, int]  # place, before, after


class Columns:
    """What each attempt came to, ordered by place: `places`, `verdicts` (codes below 255) and `totals`."""

    __slots__ = ("places", "totals", "verdicts")

    def __init__(self, places: Sequence[int], verdicts: bytes, totals: Sequence[int]) -> None:
        self.places, self.verdicts, self.totals = places, verdicts, totals

    def only(self, kept: Iterable[bool]) -> Columns:
        """Those that are marked."""
        mask = list(kept)
        places, totals = (array(WIDE, compress(column, mask)) for column in (self.places, self.totals))
        return Columns(places, bytes(compress(self.verdicts, mask)), totals)

    def judged(self) -> Columns:
        """Those with a verdict: one for each place."""
        return self if NO_VERDICT not in self.verdicts else self.only(code != NO_VERDICT for code in self.verdicts)

    def slowest(self, limit: int) -> tuple[int, set[int]]:
        """What the last of the `limit` slowest attempts took, and the tests with one that took as long or longer."""
        least = min(nlargest(limit, self.totals), default=0)
        return least, {place >> SHIFT for place, us in zip(self.places, self.totals, strict=True) if us >= least}


def packed(places: Sequence[int], codes: bytes, totals: Sequence[int]) -> tuple[bytes, bytes, bytes]:
    """The columns as they are kept, of attempts in any order; those of one place stay in theirs."""
    if places != sorted(places):
        order = sorted(range(len(places)), key=places.__getitem__)
        places, totals = ([column[number] for number in order] for column in (places, totals))
        codes = bytes(codes[number] for number in order)
    small = min(totals, default=0) >= 0 and max(totals, default=0) < 1 << 32
    return array(WIDE, places).tobytes(), codes, array(NARROW if small else WIDE, totals).tobytes()


def unpacked(places: bytes, verdicts: bytes, totals: bytes) -> Columns:
    kind = NARROW if len(totals) == 4 * len(verdicts) else WIDE
    return Columns(array(WIDE, places), verdicts, array(kind, totals))


class Changes:
    """From one run to another, of what both have a verdict of: the changed verdicts, and the `limit` largest
    differences in time; `gone` and `come` are the tests of which one run has an occurrence that the other lacks."""

    __slots__ = ("come", "gone", "slower", "verdicts")

    def __init__(self, first: Columns, second: Columns, limit: int) -> None:
        one, two = first.judged(), second.judged()
        self.gone: set[int] = set()
        self.come: set[int] = set()
        if one.places != two.places:
            here, there = set(one.places), set(two.places)
            self.gone = {place >> SHIFT for place in here - there}
            self.come = {place >> SHIFT for place in there - here}
            one = one.only(place in there for place in one.places)
            two = two.only(place in here for place in two.places)
        self.verdicts: list[Change] = []
        if one.verdicts != two.verdicts:
            triples = zip(one.places, one.verdicts, two.verdicts, strict=True)
            self.verdicts = list(compress(triples, map(ne, one.verdicts, two.verdicts)))
        self.slower = _slower(one, two, limit)


def _slower(one: Columns, two: Columns, limit: int) -> list[Change]:
    """The largest differences; of those alike, the first places."""
    apart = list(map(abs, map(sub, two.totals, one.totals)))
    most = nlargest(limit, range(len(apart)), key=apart.__getitem__)
    return [(one.places[number], one.totals[number], two.totals[number]) for number in most]
