"""Names near to one that is not there: for many findings on many names, within a budget.

The measure is difflib's ratio, which takes 10 microseconds a pair and far more for long names: asked for each of ten
thousand findings over ten thousand names it would take minutes. So of many names only those are measured that share
most pairs of letters with the word, and when the budget of one judgement is spent, findings come without near names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from ktxkit.base.rules.text import nearest

BUDGET = 2_000_000  # pairs of characters compared, about 0.15 microseconds each
FEW = 40  # names that are all measured
LONGEST = 128  # characters of a name that is measured


class Nearness:
    """Answers for one judgement; the names of a group are indexed once."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._groups: dict[Hashable, tuple[list[str], dict[str, list[int]]]] = {}

    def names(
        self, word: str, group: Hashable, known: Callable[[], Iterable[str]], limit: int = 3, cutoff: float = 0.6
    ) -> list[str]:
        """The names nearest to `word`, best first. `known` gives the names of `group` where it was not asked before."""
        if self.budget <= 0 or len(word) > LONGEST:
            return []
        if group not in self._groups:
            self._groups[group] = self._indexed(known())
        names, index = self._groups[group]
        chosen = self._alike(word, names, index) if len(names) > FEW else names
        self.budget -= (len(word) + 8) * sum(len(name) + 8 for name in chosen)
        return nearest(word, chosen, limit, cutoff)

    def _indexed(self, known: Iterable[str]) -> tuple[list[str], dict[str, list[int]]]:
        names = sorted(name for name in set(known) if len(name) <= LONGEST)
        index: dict[str, list[int]] = {}
        for number, name in enumerate(names if len(names) > FEW else ()):
            for pair in _pairs(name):
                index.setdefault(pair, []).append(number)
        self.budget -= sum(map(len, names))
        return names, index

    def _alike(self, word: str, names: list[str], index: dict[str, list[int]]) -> list[str]:
        shared: Counter[int] = Counter()
        for pair in _pairs(word):
            hits = index.get(pair, ())
            shared.update(hits)
            self.budget -= len(hits) // 2
        self.budget -= 2 * len(shared)
        best = sorted(shared.most_common(5 * FEW), key=lambda one: (-one[1] / (len(names[one[0]]) + len(word)), one[0]))
        return sorted(names[number] for number, _ in best[:FEW])


def _pairs(name: str) -> set[str]:
    folded = f" {name} "
    return {folded[n : n + 2] for n in range(len(folded) - 1)}
