"""What units touched that is not theirs: fingerprints taken when a unit starts and ends, compared with the one before.

Several units run at a time, so a change has an interval, not an author: it is named with the units that ran in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base.contracts import Document
from ktxkit.store.jobs import Unit
from ktxkit.store.rules import names
from ktxkit.work.fingerprint import Fingerprinter
from ktxkit.work.job.guard import Guard
from ktxkit.work.rules.fingerprint import Change, differences

EVIDENCE_WATCHED = 20  # worktrees of failed units that are looked at; each look walks them
GLANCE = 0.03  # seconds between looks at what all worktrees share; a look is a few calls of stat
CHANGES_KEPT = 200  # changes named in one unit's result


@dataclass
class Watch:
    """One for a job. Thread-safe; a look that began after a caller's event serves that caller too."""

    printer: Fingerprinter
    guard: Guard
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _state: threading.Lock = field(default_factory=threading.Lock)
    _last: dict[tuple[str, str], str] | None = None
    _running: dict[str, str] = field(default_factory=dict)  # NNNN-key -> key
    _handled: set[str] = field(default_factory=set)
    _evidence: dict[str, Path] = field(default_factory=dict)
    _asked: int = 0
    _looked: int = 0  # highest request that a look has served
    _changes: list[tuple[int, Document]] = field(default_factory=list)

    def started(self, unit: Unit) -> int:
        """Note a start; returns the number from which on changes concern this unit."""
        with self._state:
            self._running[names.unit_name(unit.position, unit.key)] = unit.key
        self.handling(unit)
        self._look()
        with self._state:
            return len(self._changes)

    def ended(self, unit: Unit, since: int, evidence: Path | None = None) -> list[Document]:
        """Note an end; returns what changed while the unit ran. `evidence`: its worktree is kept and watched."""
        self.handling(unit)
        name = names.unit_name(unit.position, unit.key)
        with self._state:
            if evidence is not None and len(self._evidence) < EVIDENCE_WATCHED:
                self._evidence[name] = evidence  # before the look: what is written there from now on differs from it
        self._look()
        with self._state:
            self._running.pop(name, None)
            return _once([document for _, document in self._changes[since:]])[:CHANGES_KEPT]

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """For the block, what all worktrees share is put back within moments, whatever else goes on."""
        done = threading.Event()
        watcher = threading.Thread(target=self._guard_until, args=(done,), name="guard", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _guard_until(self, done: threading.Event) -> None:
        while not done.wait(GLANCE):
            if self.guard.stirred():
                self._put_back()

    def _put_back(self) -> None:
        changes = self.guard.check()
        with self._state:
            running = sorted(self._running.values())
            self._changes += [(self._asked, {**change, "running": running}) for change in changes]

    def finish(self) -> list[Document]:
        """A last look at everything; what changed since each unit's end, and no unit's result tells of."""
        with self._state:
            since = len(self._changes)
        self._look(whole=True)
        with self._state:
            return _once([document for _, document in self._changes[since:]])[:CHANGES_KEPT]

    def handling(self, unit: Unit) -> None:
        """The job itself works on the unit's documents now: those may change."""
        with self._state:
            self._handled.add(names.unit_name(unit.position, unit.key))

    def _look(self, *, whole: bool = False) -> None:
        with self._state:
            self._asked += 1
            mine = self._asked
        with self._lock:
            if self._looked >= mine:
                return
            with self._state:
                serves = self._asked
                busy = self._handled | set(self._running)
                working, running = set(self._running) - set(self._evidence), sorted(self._running.values())
                self._handled = set(self._running)
                quiet = dict(self._evidence)
            self._put_back()  # first: a configuration that is broken makes every git call fail
            facts = self.printer.take(quiet, None if whole or self._last is None else busy)
            found = differences(self._last, facts, busy, working) if self._last is not None else []
            with self._state:
                entries: Sequence[Document] = [{**_told(change), "running": running} for change in found]
                self._changes += [(serves, entry) for entry in entries]
            self._last, self._looked = facts, serves


def _told(change: Change) -> Document:
    return {"what": f"{change.kind} {change.name}"[:1000], "message": str(change)[:4000]}


def _once(changes: list[Document]) -> list[Document]:
    """A look may have seen what was put back a moment later: it is told once."""
    undone = {change["what"] for change in changes if change.get("putBack")}
    return [change for change in changes if change.get("putBack") or change["what"] not in undone]
