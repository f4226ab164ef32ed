"""The opened run: its id, its event file, its line in the ledger, and how it is closed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ktxkit.base import files, process
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import KtxError
from ktxkit.git import tree_state
from ktxkit.ledger import ledger, projects
from ktxkit.ledger.artifacts import Artifacts
from ktxkit.ledger.event_log import EventWriter
from ktxkit.ledger.recording import facts
from ktxkit.ledger.rules.payload import clean
from ktxkit.ledger.run_ids import new_run_id
from ktxkit.store.rules import names
from ktxkit.store.store import Store
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.ledger.mirror import Mirror

RUNNER_VARIABLE = "KTX_RUNNER"  # what `test-run` tells the plugin: JSON, taken out of the environment at once


MIRROR_VARIABLE = "KTX_REDIS_URL"


class Opening:
    """Where the events of this run go. Without a writer they are counted as dropped."""

    def __init__(self, config: pytest.Config, world: World, run: str, runner: dict[str, Any]) -> None:
        self.config, self.world, self.run, self.runner = config, world, run, runner
        self.project = runner.get("project") or projects.resolve(world)
        self.writer: EventWriter | None = None
        self.store = world.store
        self.timer = (0.0, "")
        self.trouble = ""
        self.in_ledger = False
        self._open()
        self.artifacts = Artifacts(self.store.path(names.ARTIFACTS))
        self.mirror = self._mirror()

    def _mirror(self) -> Mirror | None:
        """A copy of the events on a Redis stream, where one is asked for."""
        url = os.environ.get(MIRROR_VARIABLE)
        if not url:
            return None
        from ktxkit.ledger import mirror

        return mirror.Mirror(url, mirror.stream_of(self.project, self.run), os.environ)

    def _open(self) -> None:
        """The event file in the store; where that cannot be written, in the user's state directory; or nowhere."""
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
        try:
            self.store = self.world.writable_store
            self._open_in(self.store)
            self._enter()
            return
        except (OSError, KtxError) as error:
            self.trouble = f"{self.store.root}: {_said(error)}"
        try:
            self.store = Store(Path(state) / "ktxkit" / names.slug(self.project))
            self._open_in(self.store)
            self.trouble += f"; recorded in {self.store.root}"
        except (OSError, KtxError) as error:
            self.trouble += f"; {_said(error)}: nothing is recorded"

    def _open_in(self, store: Store) -> None:
        if self.writer is None:
            path = store.path(names.events_file(self.run))
            files.make_dirs(path.parent)
            self.writer = EventWriter(path)

    def _enter(self) -> None:
        ledger.opened(self.world, self.run, self.project, parent=os.environ.get("KTX_TEST_RUN"))
        self.in_ledger = True

    @property
    def sink(self) -> Callable[[str], None]:
        """Where records go, by the shortest way."""
        return self.put if self.writer is None or self.mirror is not None else self.writer.put

    def put(self, record: str) -> None:
        if self.writer is not None:
            self.writer.put(record)
        if self.mirror is not None:
            self.mirror.put(record)

    def put_last(self, record: str) -> None:
        if self.writer is not None:
            self.writer.last_word(record)
            self.writer.flush()
        if self.mirror is not None:
            self.mirror.put(record)

    def flush(self) -> None:
        if self.writer is not None:
            self.writer.flush()

    def run_started(self, parent: str | None) -> dict[str, Any]:
        """The first event: all that is known before collection."""
        count, dist = facts.workers(self.config)
        made: dict[str, Any] = {
            "event": "run_started",
            "schemaVersion": 1,
            "t": 0,
            "run": self.run,
            "at": timestamp(self.world.clock.now()),
            "project": self.project,
            "trigger": self.runner.get("trigger", "unmanaged"),
            "managed": bool(self.runner),
            "mode": facts.mode(self.config),
            "argv": [clean(arg)[0][:4000] for arg in self.config.invocation_params.args][: facts.ARGUMENTS_SHOWN],
            "directory": facts.directory(self.config),
            "selection": self._selection(),
            "environment": facts.environment(os.environ, self.runner.get("variables", ())),
            "workers": count,
            "scheduling": dist,
            "order": facts.order(self.config),
            "owner": process.this_owner().document() | {"machine": process.machine_id()},
            "load": round(os.getloadavg()[0], 2),
            "tools": facts.tools(self.config),
        }
        for key in ("declared", "preconditions", "runner"):
            if key in self.runner:
                made[key] = self.runner[key]
        if parent:
            made["parent"] = parent
        return made | self._tree("tree")

    def _selection(self) -> dict[str, Any]:
        made = facts.selection(self.config) | {"paths": facts.paths(self.config)}
        try:
            top = self.world.repository.top
        except KtxError:
            return made  # the tree is not known either, and says why
        return made | {"narrowing": [*made["narrowing"], *facts.beside_top(self.config, top)]}

    def tree_after(self) -> dict[str, Any]:
        """The tree when the tests are done: what ran is only proven where it is the same as before."""
        return self._tree("treeAfter")

    def _tree(self, key: str) -> dict[str, Any]:
        try:
            repository = self.world.repository
            if repository.top is None:
                return {}
            return {key: tree_state.take(self.world.git, repository).document()}
        except KtxError as error:
            return {key: {"dirty": False, "why": _said(error)[:500]}} if self.world.cwd.is_dir() else {}

    def health(self, faults: int, first: str) -> dict[str, Any]:
        """What was not recorded, where anything was not."""
        found: dict[str, Any] = {}
        if self.writer is not None:
            found |= {"dropped": self.writer.dropped, "fault": self.writer.fault[:500], "forks": self.writer.forks}
        found |= {"unkept": self.artifacts.refused, "faults": faults}
        found["fault"] = found.get("fault") or first or self.trouble[:500]
        if self.mirror is not None:
            self.mirror.settle()
        if self.mirror is not None and self.mirror.degraded:
            found["transportDegraded"] = True
            found["fault"] = found["fault"] or f"redis: {self.mirror.fault or 'events were dropped'}"[:500]
        return {key: value for key, value in found.items() if value}

    def end(self, faults: int, first: str) -> str:
        """Close the file and, where nobody waits for the run, its entry in the ledger. Returns what is to be said."""
        writer = self.writer
        if writer is None:
            return f"ktxkit: run {self.run} is not recorded: {self.trouble}"
        if os.getpid() != writer.owner_pid:
            return ""
        writer.close()
        if self.mirror is not None:
            self.mirror.close()
        if self.in_ledger and not self.runner:
            ledger.settle(self.world, self.run)
        lost = writer.dropped + faults
        if self.mirror is not None and self.mirror.degraded and not lost and not self.trouble:
            return (
                f"ktxkit: run {self.run} is recorded; its copy on Redis is not whole: {self.mirror.fault or 'dropped'}"
            )
        if lost or self.trouble:
            why = self.trouble or writer.fault or first
            return f"ktxkit: run {self.run} is recorded in part ({lost} records dropped): {why}"
        return ""


def open_run(config: pytest.Config, world: World) -> Opening:
    """Take the runner's word, if there is one, and open the run."""
    runner = json.loads(os.environ.pop(RUNNER_VARIABLE, "{}"))
    run = runner.get("run") or new_run_id(world.clock.now())
    return Opening(config, world, run, runner)


def _said(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return error.message if isinstance(error, KtxError) else str(error)
