"""What fixtures cost: seconds of setup for each, summed over the run. pytest sets a fixture up after those it asks for,
so each time is the fixture's own."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from ktxkit.ledger.rules import payload

ROWS_SHOWN = 1000


class FixtureCosts:
    """Sums by (where it is defined, name, scope)."""

    def __init__(self) -> None:
        self._now = time.perf_counter
        self._sums: dict[tuple[str, str, str], list[float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        began = self._now()
        try:
            return (yield)
        finally:
            spent = self._now() - began
            self._count((fixturedef.baseid or "", fixturedef.argname, str(fixturedef.scope)), 1, spent, spent)

    def _count(self, key: tuple[str, str, str], count: int, total: float, longest: float) -> None:
        found = self._sums.get(key)
        if found is None:
            self._sums[key] = [count, total, longest]
        else:
            found[0] += count
            found[1] += total
            found[2] = max(found[2], longest)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """What a worker measured."""
        for row in rows:
            self._count((row["base"], row["fixture"], row["scope"]), row["count"], row["total"], row["longest"])

    def rows(self) -> list[dict[str, Any]]:
        """The costliest first, in seconds."""
        ranked = sorted(self._sums.items(), key=lambda item: (-item[1][1], item[0]))
        return [
            {
                "base": payload.clean(base)[0][:1000],
                "fixture": payload.clean(name)[0][:500],
                "scope": scope[:50],
                "count": int(count),
                "total": round(total, 6),
                "longest": round(longest, 6),
            }
            for (base, name, scope), (count, total, longest) in ranked[:ROWS_SHOWN]
        ]
