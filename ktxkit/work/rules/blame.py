"""Who made a batch fail, in few verifications: the first failing prefix, and the smallest set that fails together.

Assumes of the verification what one-by-one verification assumes too: that it answers the same for the same tree, and
that what fails goes on failing when more is stacked on it. The first is checked (`may_confirm`), the second is what
lets 100 units be searched in 7 steps.

Source: the smallest set is QuickXplain's (Junker, AAAI 2004), which asks O(k log(n/k)) times for a set of k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


def first_failure(count: int, fails: Callable[[int], bool]) -> int:
    """The smallest k from 1 to `count` for which the first k together fail. `count` is known to fail, 0 not to.

    Asks at most ceil(log2(count)) times; the answer rests on two asked facts: k fails and k - 1 does not.
    """
    assert count >= 1
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def minimal_set(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A smallest part of `items`, in their order, that still fails: none of it can be left out.

    All of `items` together are known to fail, none of them (the empty part) is known not to.
    """
    found = _explain([], [], list(items), fails)
    return [item for item in items if item in found]


def _explain(
    background: list[Item], fresh: list[Item], items: list[Item], fails: Callable[[Sequence[Item]], bool]
) -> list[Item]:
    if fresh and fails(background):
        return []
    if len(items) == 1:
        return items
    half = len(items) // 2
    left, right = items[:half], items[half:]
    second = _explain(background + left, left, right, fails)
    first = _explain(background + second, second, left, fails)
    return first + second


def steps(count: int) -> int:
    """How often `first_failure` asks at most: ceil(log2(count))."""
    return max(count - 1, 0).bit_length()


def may_confirm(count: int, culprits: int, asked: int, rest: int = 0) -> bool:
    """Whether a decisive question may be asked once more at once: the sharpest test of a gate that answers by chance.

    `count` units in the batch, `culprits` found, `asked` verifications so far, `rest` units still to decide. Within a
    promise: 100 units with 2 bad ones cost at most 20 (two, and for each culprit its search and two verifications more;
    up to 64 units, three). One more culprit is expected in the rest while there are fewer than two.
    """
    expected = max(culprits, 2)
    promise = 2 + expected * (steps(count) + (3 if count <= 64 else 2))
    ahead = 0 if rest == 0 else 1 if culprits >= 2 else 3 + steps(rest)
    return asked + 1 + ahead <= promise


@dataclass(frozen=True)
class Culprit:
    """A unit that made its batch fail. `together`: the others of the smallest set; empty where it fails on its own."""

    key: str
    together: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if not self.together:
            return f"{self.key} fails on its own"
        return f"{', '.join((*self.together, self.key))} fail only together"
