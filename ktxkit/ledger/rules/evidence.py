"""Which executions of a test are identical, and which word their outcomes allow.

Two executions are identical where node id, tree (untracked files included), environment, selection, worker count and
scheduling with its order are, and nothing generated was written between them. A word is `true` only with the rows that
show it; a missing fact makes an execution no evidence, never evidence against.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktxkit.ledger.rules.attempt import BAD

REPETITIONS = 2  # identical executions that `flaky` needs
BUSY = 1.0  # load for each processor from which a machine counts as busy
PARTS = ("tree", "environment", "selection", "workers", "scheduling", "ordering", "generated", "load")
# A single difference between passing and failing executions, and the word for it.
NARROWER = (
    ("order_dependent", frozenset({"ordering", "selection"})),
    ("concurrency_dependent", frozenset({"workers", "scheduling"})),
    ("environment_dependent_failure", frozenset({"environment"})),
    ("load_dependent", frozenset({"load"})),
)
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Execution:
    """One execution of one test; `key` has a value for each of PARTS, None where it is not known."""

    run: str
    outcome: str
    key: Key
    occurrence: int = 1
    attempt: int = 1
    retried: bool = False
    started: str = ""

    @property
    def side(self) -> str:
        """`good`, `bad`, or empty: a skipped or expected failure is no evidence of either."""
        if self.outcome in BAD:
            return "bad"
        return "good" if self.outcome in ("passed", "xpassed") else ""

    def row(self) -> dict[str, Any]:
        made = {"run": self.run, "outcome": self.outcome, "started": self.started, "attempt": self.attempt}
        return made | {part: value for part, value in zip(PARTS, self.key, strict=True) if value is not None}


@dataclass(frozen=True)
class Said:
    """A word with its verdict, the reason, and the executions that it rests on."""

    word: str
    verdict: str
    reason: str
    rows: tuple[Execution, ...]


def key_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an execution's identity that the record of its run gives."""
    environment, tree = record.get("environment", {}), record.get("tree", {})
    order = record.get("order", {})
    workers = record.get("workers")
    ordering = record.get("orderDigest")
    if workers and order:
        ordering = f"{order.get('by')} {order.get('seed', '')}".strip()
    load, processors = record.get("load"), environment.get("processors")
    return {
        "tree": tree.get("tree"),
        "environment": environment.get("digest"),
        "selection": record.get("ids"),
        "workers": workers,
        "scheduling": record.get("scheduling"),
        "ordering": ordering,
        "generated": tree.get("generated"),
        "load": None if load is None or not processors else load / processors,
    }


def load_class(load: float | None) -> str | None:
    """`busy` or `idle`: what of a load average is part of an identity."""
    return None if load is None else ("busy" if load >= BUSY else "idle")


def judge(executions: Sequence[Execution], repetitions: int = REPETITIONS) -> Said:
    """The word that the executions of one test allow: the strongest that is shown, or `unknown`."""
    flaky = is_flaky(executions, repetitions)
    if flaky.verdict == "true":
        return flaky
    for found in (on_retry(executions), *(narrower(executions, word, parts) for word, parts in NARROWER)):
        if found is not None:
            return found
    return failing(executions) or Said("unknown", "unknown", flaky.reason, flaky.rows)


def is_flaky(executions: Sequence[Execution], repetitions: int = REPETITIONS) -> Said:
    """`true` where at least `repetitions` identical executions have both outcomes; else unknown, never false."""
    groups: dict[Key, list[Execution]] = defaultdict(list)
    blind = 0
    for one in executions:
        if not one.side or one.attempt > 1 or one.retried:
            continue  # a retry is not an identical execution: the first attempt ran before it
        if any(value is None for value in one.key):
            blind += 1
        else:
            groups[(*one.key, one.occurrence)].append(one)
    for found in groups.values():
        if len(found) >= repetitions and {one.side for one in found} == {"good", "bad"}:
            reason = f"{len(found)} identical executions, with both outcomes"
            return Said("flaky", "true", reason, tuple(found))
    sides = {one.side for one in executions if one.side}
    longest = max((len(found) for found in groups.values()), default=0)
    if len(sides) < 2:
        reason = f"{len(executions)} executions, no two of which differ in outcome"
    elif blind:
        reason = f"of {blind} executions not all is known that would make them identical"
    else:
        reason = f"no {repetitions} identical executions differ in outcome (at most {longest} are identical)"
    return Said("flaky", "unknown", reason, tuple(executions))


def on_retry(executions: Sequence[Execution]) -> Said | None:
    """Failed and then passed within one run."""
    failed = {(one.run, one.occurrence) for one in executions if one.retried}
    rows = [one for one in executions if (one.run, one.occurrence) in failed]
    last = {(one.run, one.occurrence): one for one in sorted(rows, key=lambda one: one.attempt)}
    if any(one.side == "good" for one in last.values()):
        return Said("passed_on_retry", "true", "failed, and passed when it was run again in the same run", tuple(rows))
    return None


def narrower(executions: Sequence[Execution], word: str, parts: frozenset[str]) -> Said | None:
    """Where passing and failing executions differ in `parts` alone, and each value of them has one outcome."""
    rest: dict[Key, list[Execution]] = defaultdict(list)
    for one in executions:
        if one.side and not one.retried and one.attempt == 1:
            same = tuple(None if part in parts else value for part, value in zip(PARTS, one.key, strict=True))
            known = all(value is not None for part, value in zip(PARTS, one.key, strict=True) if part != "generated")
            if known:
                rest[(*same, one.occurrence)].append(one)
    for found in rest.values():
        sides: dict[Key, set[str]] = defaultdict(set)
        for one in found:
            sides[tuple(v for part, v in zip(PARTS, one.key, strict=True) if part in parts)].add(one.side)
        if len(sides) > 1 and all(len(each) == 1 for each in sides.values()) and len(set.union(*sides.values())) == 2:
            reason = f"its outcome differs only where {' and '.join(sorted(parts))} differ"
            return Said(word, "true", reason, tuple(found))
    return None


def failing(executions: Sequence[Execution]) -> Said | None:
    """It failed the last time that it ran."""
    ran = [one for one in executions if one.side]
    if ran and ran[-1].side == "bad":
        return Said("failing", "true", "it failed the last time that it ran", (ran[-1],))
    return None
