"""Which unit starts when, and which is integrated next: in unit order, whatever the order of completion.

Unit order is the order of the job file, moved only as far as `after` demands (a stable topological order). A unit that
names others starts from the integration head right after the last of them, so its base does not depend on timing.

Who made a batch fail, in few verifications: the first failing prefix, and the smallest set that fails together.

Assumes of the verification what one-by-one verification assumes too: that it answers the same for the same tree, and
that what fails goes on failing when more is stacked on it. The first is checked (`may_confirm`), the second is what
lets 100 units be searched in 7 steps.

Source: the smallest set is QuickXplain's (Junker, AAAI 2004), which asks O(k log(n/k)) times for a set of k.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest

LANDED = frozenset({"accepted", "subsumed", "noop"})  # what a later unit may build on


class ScheduledUnit(NamedTuple):
    """A unit as the schedule sees it. `tolerant`: starts although units it names did not make it (reconciliation)."""

    key: str
    after: tuple[str, ...] = ()
    tolerant: bool = False


def integration_order(nodes: Sequence[ScheduledUnit]) -> list[ScheduledUnit]:
    """Stable topological order. Raises CannotRun for a key that is twice, unknown in `after`, or part of a cycle."""
    known: dict[str, int] = {}
    for index, node in enumerate(nodes):
        if node.key in known:
            raise CannotRun(
                f"the unit key {node.key!r} stands twice",
                hint="give each unit a key of its own",
                data={"unit": node.key},
            )
        known[node.key] = index
    for node in nodes:
        for name in node.after:
            if name not in known:
                near = nearest(name, list(known))
                hint = f"did you mean {near[0]!r}?" if near else "`after` names keys of units of the same job"
                said = f"unit {node.key!r} names an unknown unit in `after`: {name!r}"
                raise CannotRun(said, hint=hint, data={"unit": node.key})
    return _sorted(nodes, known)


def _sorted(nodes: Sequence[ScheduledUnit], known: Mapping[str, int]) -> list[ScheduledUnit]:
    missing = [len(set(node.after)) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in set(node.after):
            followers[known[name]].append(index)
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order: list[ScheduledUnit] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for follower in followers[index]:
            missing[follower] -= 1
            if missing[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) < len(nodes):
        stuck = [node.key for index, node in enumerate(nodes) if missing[index] > 0]
        raise CannotRun(
            f"`after` goes round in a circle among {', '.join(map(repr, stuck[:8]))}",
            hint="remove one `after` of the circle",
            data={"unit": stuck[0]},
        )
    return order


class Schedule:
    """The state of a running job's units. The caller reports what happened; the schedule says what may happen next."""

    def __init__(self, order: Sequence[ScheduledUnit], limit: int) -> None:
        assert limit >= 1
        self._order = list(order)
        self._node = {node.key: node for node in order}
        self._limit = limit
        self._started: set[str] = set()
        self._ended: set[str] = set()
        self._outcome: dict[str, str] = {}
        self._head_after: dict[str, str] = {}
        self._closed = False

    def startable(self) -> list[ScheduledUnit]:
        """Units that may start now, in order, as many as there is room for."""
        room = 0 if self._closed else self._limit - len(self._started - self._ended)
        found: list[ScheduledUnit] = []
        for node in self._order:
            if len(found) >= room:
                break
            if node.key not in self._started and self._ready(node):
                found.append(node)
        return found

    def _ready(self, node: ScheduledUnit) -> bool:
        return all(name in self._outcome and (node.tolerant or self._landed(name)) for name in node.after)

    def _landed(self, name: str) -> bool:
        return self._outcome.get(name) in LANDED

    def unstartable(self) -> list[tuple[ScheduledUnit, list[str]]]:
        """Units that never can start, with the units they wait for that did not make it."""
        found = []
        for node in self._order:
            failed = [name for name in node.after if name in self._outcome and not self._landed(name)]
            if node.key not in self._started and failed and not node.tolerant:
                found.append((node, failed))
        return found

    def integrable(self) -> ScheduledUnit | None:
        """The next unit in order, where its work has ended; None while it has not."""
        for node in self._order:
            if node.key not in self._outcome:
                return node if node.key in self._ended else None
        return None

    def all_integrable(self) -> list[ScheduledUnit]:
        """The next units in order whose work has ended, up to the first whose has not."""
        found = []
        for node in self._order:
            if node.key not in self._outcome:
                if node.key not in self._ended:
                    break
                found.append(node)
        return found

    def base_after(self, node: ScheduledUnit) -> str | None:
        """The integration head right after the last unit that `node` names; None where it names none."""
        named = set(node.after)
        last = next((other.key for other in reversed(self._order) if other.key in named), None)
        return self._head_after[last] if last is not None else None

    def started(self, key: str) -> None:
        assert key in self._node and key not in self._started
        self._started.add(key)

    def ended(self, key: str) -> None:
        """The unit's command has ended, or it will never start."""
        self._started.add(key)
        self._ended.add(key)

    def settled(self, key: str, outcome: str, head: str) -> None:
        """The unit has its outcome; `head` is the integration head with it. In order, each once."""
        assert key in self._ended and key not in self._outcome, key
        self._outcome[key] = outcome
        self._head_after[key] = head

    def close(self) -> None:
        """No unit starts any more; those that never started end."""
        self._closed = True

    def drop_waiting(self) -> list[ScheduledUnit]:
        """After `close`: the units that never started, which now count as ended."""
        waiting = [node for node in self._order if node.key not in self._started]
        for node in waiting:
            self.ended(node.key)
        return waiting

    @property
    def running(self) -> set[str]:
        return self._started - self._ended

    @property
    def done(self) -> bool:
        return len(self._outcome) == len(self._order)

    @property
    def outcomes(self) -> Mapping[str, str]:
        return self._outcome


def job_outcome(outcomes: Iterable[str], *, changed: bool, landed: bool) -> str:
    """The word for a whole job. `changed`: the integration tree is not the target's; `landed`: it is there now."""
    bad = [word for word in outcomes if word not in LANDED]
    if bad:
        return "partial" if landed else "failed"
    return "done" if changed else "noop"


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


def may_confirm(count: int, culprits: int, verifications: int, rest: int = 0) -> bool:
    """Whether a decisive question may be asked once more at once: the sharpest test of a gate that answers by chance.

    `count` units in the batch, `culprits` found, `verifications` so far, `rest` units still to decide. As promised,
    100 units with 2 bad ones cost at most 20 (two, and for each culprit its search and two verifications more;
    up to 64 units, three). One more culprit is expected in the rest while there are fewer than two.
    """
    expected = max(culprits, 2)
    promise = 2 + expected * (steps(count) + (3 if count <= 64 else 2))
    ahead = 0 if rest == 0 else 1 if culprits >= 2 else 3 + steps(rest)
    return verifications + 1 + ahead <= promise


class Culprit(NamedTuple):
    """A unit that made its batch fail. `together`: the others of the smallest set; empty where it fails on its own."""

    key: str
    together: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if not self.together:
            return f"{self.key} fails on its own"
        return f"{', '.join((*self.together, self.key))} fail only together"
