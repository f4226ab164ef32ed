"""Following a run while it goes on: from its event file here, or from its stream on Redis, from another machine.

What is going on now: runs that were opened and not closed, folded as far as their events go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ktxkit.base import contracts, files
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.ledger import ledger
from ktxkit.ledger import redis as mirror
from ktxkit.ledger.asking import LedgerQuery, ensure, find, running
from ktxkit.ledger.redis import Wire
from ktxkit.ledger.rules.fold import Fold
from ktxkit.ledger.rules.rows import Row, answer, tally
from ktxkit.ledger.rules.scope import requested
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, RunEvent

TICK = 0.25  # seconds between two looks
EVENTS_AT_ONCE = 1000  # streams of one project that are looked through


class EventSource(Protocol):
    """Where events come from."""

    run: str

    def new(self) -> list[RunEvent]:
        """The events since the last call."""

    def gone(self, fold: Fold) -> bool:
        """Whether nothing will come any more, though the run has not said that it ended."""

    def close(self) -> None:
        """Let go of what is held."""


class FileSource:
    """A run's event file on this machine."""

    def __init__(self, world: World, path: Path, run: str) -> None:
        self.world, self.path, self.run = world, path, run
        self._read = 0

    def new(self) -> list[RunEvent]:
        size = ledger.whole_size(self.path)
        with files.reading(self.path) as stream:
            stream.seek(self._read)
            data = stream.read(size - self._read)
        self._read = size
        return [event for line in data.split(b"\n") if line and (event := _event(line)) is not None]

    def gone(self, fold: Fold) -> bool:
        return ledger.life_of(self.world, fold) == "dead"

    def close(self) -> None:
        return  # each look opens the file anew


class StreamSource:
    """A run's stream on Redis. One who joins late replays it from its beginning."""

    def __init__(self, wire: Wire, stream: str) -> None:
        self.wire, self.stream = wire, stream
        self.run = stream.rsplit(":", 2)[1]
        self._last = "0-0"

    def new(self) -> list[RunEvent]:
        found: list[RunEvent] = []
        while True:
            reply = self.wire.command("XREAD", "COUNT", "5000", "STREAMS", self.stream, self._last)
            if not reply:
                return found
            entries = reply[0][1]
            self._last = entries[-1][0].decode("ascii")
            events = (_event(dict(zip(pairs[::2], pairs[1::2], strict=True))[b"e"]) for _, pairs in entries)
            found += [event for event in events if event is not None]

    def gone(self, fold: Fold) -> bool:
        return False  # another machine's process cannot be seen from here

    def close(self) -> None:
        self.wire.close()


def _event(line: bytes) -> RunEvent | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None  # torn; the fold of the closed run counts it
    return cast("RunEvent", found) if contracts.checker(ledger.EVENT)(found) else None


def follow(
    world: World, ask: LedgerQuery, *, redis: bool = False, waiting: Callable[[], object] | None = None
) -> Iterator[Row]:
    """A row whenever something has changed, until the run has ended. Waits for a run where none is going on: then
    `waiting` is called, once. Raises CannotRun for a run that has ended.
    """
    source = _wait(world, ask, redis, waiting)
    try:
        yield from _rows(world, source)
    finally:
        source.close()


def _rows(world: World, source: EventSource) -> Iterator[Row]:
    fold = Fold()
    while True:
        events = source.new()
        fold.feed(events)
        ended = bool(fold.end)
        gone = not ended and source.gone(fold)
        if events or gone:
            state = "finished" if ended else ("ending" if gone else "running")
            yield {"run": source.run, **row_of(fold, world.clock.now()), "state": state}
        if ended or gone:
            return
        world.clock.sleep(TICK)


def _wait(world: World, ask: LedgerQuery, redis: bool, waiting: Callable[[], object] | None) -> EventSource:
    while True:
        source = _of_redis(world, ask) if redis else _of_store(world, ask)
        if source is not None:
            return source
        if ask.subject and not redis and (run := find(ensure(world), ask, ask.subject[0]))["closed"]:
            raise CannotRun(f"run {run['run']} has ended", hint=f"ledger-query run {run['run']}")
        if waiting is not None:
            waiting()
            waiting = None
        world.clock.sleep(TICK)


def _of_store(world: World, ask: LedgerQuery) -> EventSource | None:
    found = [run for run in running(ensure(world), ask) if not ask.subject or run.startswith(ask.subject[0])]
    for run in reversed(found):
        if ledger.events_path(world, run).is_file():
            return FileSource(world, ledger.events_path(world, run), run)
    return None


def _of_redis(world: World, ask: LedgerQuery) -> EventSource | None:
    url = world.env.get(mirror.VARIABLE)
    if not url:
        raise CannotRun(
            f"{mirror.VARIABLE} is not set", hint="it names the server and database that the run is copied to"
        )
    try:
        wire = Wire(mirror.own_database(url, {}), mirror.TIMEOUT)
        streams = sorted(_streams(wire, ask.projects), key=lambda name: name.rsplit(":", 2)[1])
    except OSError as error:
        raise CannotRun(
            f"the Redis server does not answer: {error.strerror or error}",
            location=mirror.VARIABLE,
            hint="start it or correct the address; without --redis the run is followed on this machine",
        ) from error
    wanted = [name for name in streams if not ask.subject or name.rsplit(":", 2)[1].startswith(ask.subject[0])]
    if wanted:
        return StreamSource(wire, wanted[-1])
    wire.close()
    return None


def _streams(wire: Wire, projects: Sequence[str]) -> Iterator[str]:
    """The streams of the projects; run ids sort by time."""
    for project in projects:
        pattern = mirror.stream_of(_literal(project), "*")
        cursor, seen = "0", 0
        while seen < EVENTS_AT_ONCE:
            cursor_bytes, found = wire.command("SCAN", cursor, "MATCH", pattern, "COUNT", "1000")
            yield from (name.decode("utf-8") for name in found)
            cursor, seen = cursor_bytes.decode("ascii"), seen + 1
            if cursor == "0":
                break


def _literal(text: str) -> str:
    """A text in a pattern of SCAN, standing for itself."""
    return "".join(f"\\{char}" if char in "\\*?[]^" else char for char in text)


FLYING_SHOWN = 20


def live(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Each run that goes on: scope asked for, elapsed time, tests done of the total, tallies, tests in flight.

    Raises CannotRun where a run is named that there is none of.
    """
    index = ensure(world)
    found = [run for run in running(index, ask) if not ask.subject or run.startswith(ask.subject[0])]
    if ask.subject and not found:
        find(index, ask, ask.subject[0])
    now = world.clock.now()
    rows = [row for run in found if (row := live_row(world, run, now))]
    reason = "" if rows else "no run is going on"
    return answer("live", rows, subject=ask.subject, project=ask.project, reason=reason, facts={"at": timestamp(now)})


def live_row(world: World, run: str, now: datetime) -> Row:
    """One run in mid-run: neither complete nor aborted, whatever its file looks like."""
    path = ledger.events_path(world, run)
    if not path.exists():
        return {"run": run, "state": "unknown", "why": "its events are gone", "source": names.LEDGER}
    try:
        fold = ledger.fold_events(world, run, ledger.whole_size(path))
    except (BrokenContract, OSError) as error:
        return {"run": run, "state": "unknown", "why": f"its events cannot be read: {error}", "source": names.LEDGER}
    life = ledger.life_of(world, fold)
    row = row_of(fold, now)
    state = {"alive": "running", "dead": "ending"}.get(life, "unknown")
    why = "it runs on another machine, which cannot be seen from here" if life == "unknown" else None
    return {"run": run, **row, "state": state, "why": why, "source": names.events_file(run)}


def row_of(fold: Fold, now: datetime) -> Row:
    """What a fold in mid-run says; `elapsed` and `since` are seconds."""
    started = fold.start.get("at")
    elapsed = (now - datetime.fromisoformat(started)).total_seconds() if started else None
    counts = fold.counts(ended=False)
    flying = fold.flying()
    wanted = requested(fold.start)
    done = len(fold.last) - len({(one.test, one.occurrence) for one in flying})
    workers = fold.start.get("workers", 0)
    return {
        "asked": " ".join([wanted["kind"], *wanted.get("paths", []), *wanted.get("why", [])]),
        "started": started,
        "elapsed": None if elapsed is None else round(max(0.0, elapsed), 1),
        "phase": next((name for name, edges in reversed(fold.phases.items()) if len(edges) % 2), None),
        "done": done,
        "total": counts.get("selected"),
        "tests": tally({key: value for key, value in counts.items() if key != "selected"}),
        "workers": workers or None,
        "busy": min(len(flying), workers) if workers else min(len(flying), 1),
        "inFlight": [
            {"test": one.test, "since": round(max(0.0, (elapsed or fold.t) - (one.started or 0.0)), 1)}
            for one in flying[:FLYING_SHOWN]
        ],
    }
