"""Small test suites in real repositories, run by a real pytest with the plugin on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.ledger import chain, event_log, ledger
from ktxkit.ledger.rules.fold import Fold, Life
from ktxkit.store.world import World
from tests.support import forked
from tests.support.repos import Repo

OFF = (
    "xdist",
    "xdist.looponfail",
    "timeout",
    "rerunfailures",
    "asyncio",
    "reportlog",
    "hypothesispytest",
    "platformdirs",
)  # plugins that only the tests that want them load

SUMMED_UP = re.compile(r" in [0-9.]+s( \([0-9:]+\))?[= ]*$")


@dataclass
class Suite:
    """A repository with tests and a store. `run` is one pytest; `record` what the ledger says of the last run."""

    repo: Repo
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, path: Path, files: dict[str, str], *, store: bool = True) -> Suite:
        repo = Repo.init(path)
        for name, text in {"pytest.ini": "[pytest]\n", ".gitignore": "__pycache__\n.pytest_cache\n"}.items():
            repo.write(name, text)
        for name, text in files.items():
            repo.write(name, text)
        repo.commit()
        suite = cls(repo)
        if store:
            _ = suite.world.writable_store
        return suite

    @property
    def world(self) -> World:
        return World(self.repo.path, os.environ)

    def argv(self, *args: str, plugins: tuple[str, ...] = ()) -> list[str]:
        off = [word for name in OFF if name not in plugins for word in ("-p", f"no:{name}")]
        return [sys.executable, "-m", "pytest", *off, *args]

    def start(
        self, *args: str, plugins: tuple[str, ...] = (), user: int | None = None, **env: str
    ) -> subprocess.Popen[bytes]:
        """A pytest that goes on."""
        full = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.env, **env}
        return subprocess.Popen(
            self.argv(*args, plugins=plugins),
            cwd=self.repo.path,
            env=full,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
        )

    def run(self, *args: str, plugins: tuple[str, ...] = (), user: int | None = None, **env: str) -> Ended:
        """One pytest to its end, whatever that is."""
        full = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.env, **env}
        if user is None and not plugins and forked.can_run(full):
            words = self.argv(*args)[3:]
            status, said = forked.pytest(*words, cwd=self.repo.path, env=full)
            return Ended(status, said.decode("utf-8", "replace"))
        child = self.start(*args, plugins=plugins, user=user, **env)
        try:
            out, _ = child.communicate(timeout=900)
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # gate-ok: nothing of it is left, as it should be
        return Ended(child.returncode, out.decode("utf-8", "replace"))

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The ledger, after the runs that died were closed."""
        ledger.settle_all(self.world)
        return [dict(line) for line in chain.lines(self.world)]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records; what they were made of in bulk is read again one by one, to the same end."""
        closed = [line for line in self.lines if line["kind"] == "run-closed"]
        for line in closed:
            path = self.repo.path / f".ktx/ledger/events/{line['run']}.ndjson"
            events = (record for _, record in event_log.read(path, line["events"]["bytes"]))
            fold = Fold().feed(events)
            life: Life = "alive" if line["record"]["state"] == "unknown" else "dead"
            assert fold.counts(bool(fold.end) or life == "dead") == line["record"]["counts"]
            assert fold.reported() == line["record"].get("reported", {})
        return [line["record"] for line in closed]

    @property
    def record(self) -> dict[str, Any]:
        """The record of the only run."""
        (record,) = self.records
        return record

    @property
    def record_project(self) -> str:
        """The project of the runs."""
        (project,) = {record["project"] for record in self.records}
        return str(project)

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """The events of the only run."""
        (path,) = sorted((self.repo.path / ".ktx/ledger/events").glob("*.ndjson"))
        found = [json.loads(line) for line in path.read_bytes().splitlines() if line]
        return [event for event in found if not name or event["event"] == name]


@dataclass(frozen=True)
class Ended:
    """How a pytest ended."""

    status: int
    out: str

    @property
    def summary(self) -> dict[str, int]:
        """The counts of pytest's last line, in our words."""
        last = [line for line in self.out.splitlines() if SUMMED_UP.search(line)][-1]
        words = {"error": "errors", "warnings": "warning"}
        counts = {}
        for part in last.strip("= ").partition(" in ")[0].split(", "):
            number, _, word = part.partition(" ")
            if number.isdigit():
                counts[words.get(word, word)] = int(number)
        return counts
