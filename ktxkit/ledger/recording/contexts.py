"""Which test the traced process is at: pytest's hooks tell the tracer (`tracer.py`), which then knows whose a call is.

What runs once for many (a fixture of a wider scope, the collection of a module) is a context of its own that each of
its users names, whichever of them ran first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger.rules.payload import clean

TRACKER = "multiprocessing.resource_tracker"


def tracer() -> Any:
    """The tracer of this process where it is ours to drive, else None (a pytest inside a test drives nothing)."""
    module = sys.modules.get("_ktxkit_tracer")
    found = getattr(module, "_tracer", None)
    return None if found is None or found.driven or found.token else found


class Contexts:
    """Drives one process's tracer."""

    def __init__(self, found: Any) -> None:
        self.tracer = found
        found.driven = True
        self.collected: dict[str, list[str]] = {}
        self.fixtures: dict[int, list[str]] = {}
        self._kept: list[Any] = []  # definitions stay, so that no later one has their id
        self.threads = set(threading.enumerate())  # the test runner's own
        self.children = _children()

    def _inside(self, kind: str, name: str) -> tuple[str, str]:
        token = self.tracer.context(kind, clean(name)[0])
        return token, self.tracer.switch(token)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        token, before = self._inside("collection", collector.nodeid)
        self.collected.setdefault(collector.nodeid, []).append(token)
        try:
            return (yield)
        finally:
            self.tracer.switch(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if str(getattr(fixturedef, "scope", "function")) == "function":
            return (yield)
        token, before = self._inside("fixture", f"{fixturedef.baseid}::{fixturedef.argname}")
        self._kept.append(fixturedef)
        self.fixtures.setdefault(id(fixturedef), []).append(token)
        try:
            return (yield)
        finally:
            self.tracer.switch(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        _, before = self._inside("test", item.nodeid)
        try:
            return (yield)
        finally:
            self._end(item, before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """While it still is known which fixtures were used, also those that it asked for by name as it ran."""
        request = getattr(item, "_request", None)
        known = getattr(request, "_fixture_defs", None)
        if isinstance(known, dict):
            uses = [token for found in known.values() for token in self.fixtures.get(id(found), ())]
            if uses:
                self.tracer.put("uses", self.tracer.seen.token, list(dict.fromkeys(uses)))
        elif request is not None:
            self.tracer.incomplete("which fixtures it used is not known")

    def _end(self, item: pytest.Item, before: str) -> None:
        uses = [token for node in item.listchain() for token in self.collected.get(node.nodeid, ())]
        if uses:
            self.tracer.put("uses", self.tracer.seen.token, uses)
        if set(threading.enumerate()) - self.threads - set(self.tracer.runners):
            self.tracer.incomplete("a thread of the suite lived when it ended")
        if _children() - self.children:
            self.tracer.incomplete("a process of the suite lived when it ended")
        self.tracer.switch(before)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.tracer.switch("")
        self.tracer.put("faults", self.tracer.faults, self.tracer.fault)
        self.tracer.flush()


def _children() -> set[str]:
    """Processes that this one started and that live, but for the one that multiprocessing keeps (proc(5))."""
    found: set[str] = set()
    try:
        for task in Path("/proc/self/task").iterdir():
            found |= set((task / "children").read_text("ascii").split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return found  # a kernel that does not tell, or a thread that ended meanwhile
    tracker = getattr(sys.modules.get(TRACKER), "_resource_tracker", None)
    return found - {str(getattr(tracker, "_pid", None))}
