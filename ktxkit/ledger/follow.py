"""Following a run while it goes on: from its event file here, or from its stream on Redis, from another machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ktxkit.base import contracts
from ktxkit.base.errors import CannotRun
from ktxkit.ledger import ledger, mirror
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.live_answers import row_of
from ktxkit.ledger.picking import running
from ktxkit.ledger.redis_wire import Wire
from ktxkit.ledger.rules.answers import Row
from ktxkit.ledger.rules.fold import Fold
from ktxkit.store.world import World

TICK = 0.25  # seconds between two looks
SEEN_AT_ONCE = 1000  # streams of one project that are looked through


class Source(Protocol):
    """Where events come from."""

    run: str

    def new(self) -> list[dict[str, Any]]:
        """The events since the last call."""

    def gone(self, fold: Fold) -> bool:
        """Whether nothing will come any more, though the run has not said that it ended."""

    def close(self) -> None:
        """Let go of what is held."""


class FileSource:
    """A run's event file on this machine."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        size = ledger.whole_size(self.path)
        with open(self.path, "rb") as stream:
            stream.seek(self._read)
            data = stream.read(size - self._read)
        self._read = size
        return [event for line in data.split(b"\n") if line and (event := _event(line)) is not None]

    def gone(self, fold: Fold) -> bool:
        return ledger.life_of(fold) == "dead"

    def close(self) -> None:
        return  # each look opens the file anew


class StreamSource:
    """A run's stream on Redis. One who joins late replays it from its beginning."""

    def __init__(self, wire: Wire, stream: str) -> None:
        self.wire, self.stream = wire, stream
        self.run = stream.rsplit(":", 2)[1]
        self._last = "0-0"

    def new(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
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


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None  # torn; the fold of the closed run counts it
    return found if contracts.checker(ledger.EVENT)(found) else None


def follow(world: World, ask: Ask, *, redis: bool = False) -> Iterator[Row]:
    """A row whenever something has changed, until the run has ended. Waits for a run where none is going on."""
    source = _wait(world, ask, redis)
    try:
        yield from _rows(world, source)
    finally:
        source.close()


def _rows(world: World, source: Source) -> Iterator[Row]:
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


def _wait(world: World, ask: Ask, redis: bool) -> Source:
    while True:
        source = _of_redis(world, ask) if redis else _of_store(world, ask)
        if source is not None:
            return source
        world.clock.sleep(TICK)


def _of_store(world: World, ask: Ask) -> Source | None:
    found = [run for run in running(ensure(world), ask) if not ask.subject or run.startswith(ask.subject[0])]
    for run in reversed(found):
        if ledger.events_path(world, run).exists():
            return FileSource(ledger.events_path(world, run), run)
    return None


def _of_redis(world: World, ask: Ask) -> Source | None:
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
            where=mirror.VARIABLE,
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
        while seen < SEEN_AT_ONCE:
            cursor_bytes, found = wire.command("SCAN", cursor, "MATCH", pattern, "COUNT", "1000")
            yield from (name.decode("utf-8") for name in found)
            cursor, seen = cursor_bytes.decode("ascii"), seen + 1
            if cursor == "0":
                break


def _literal(text: str) -> str:
    """A text in a pattern of SCAN, standing for itself."""
    return "".join(f"\\{char}" if char in "\\*?[]^" else char for char in text)
