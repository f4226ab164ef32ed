"""In an xdist worker: what only it sees (collected, deselected, fixture costs) goes to the controller when it ends."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ktxkit.ledger.recording.fixtures import FixtureCosts


class WorkerRecorder:
    """Writes nothing; the controller does."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.fixtures = FixtureCosts()
        self.deselected = 0
        self.before = 0
        config.pluginmanager.register(self.fixtures, "ktxkit-fixtures")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += len(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        self.before = len(items)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        selected = len(getattr(session, "items", ()))
        self.config.workeroutput["ktxkit"] = {
            "selected": selected,
            "collected": self.before,
            "deselected": self.deselected,
            "removed": max(0, self.before - selected - self.deselected),
        }
        self.config.workeroutput["ktxkit-fixtures"] = self.fixtures.rows()
