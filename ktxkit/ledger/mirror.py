"""The events of a run on a Redis stream, for readers on other machines. The file is the truth; this is a copy.

A bounded queue, and one thread that drains it: a test never waits for the network. One try to connect, none to
reconnect: what goes wrong once is degraded, counted and said, and costs nothing more.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping

from ktxkit.base.errors import CannotRun
from ktxkit.ledger.redis_wire import Address, Wire, address

VARIABLE = "KTX_REDIS_URL"
BOUND = 20_000  # events that wait; what comes while it is full is dropped and counted
BATCH = 256
TIMEOUT = 2.0  # seconds for a connection or a reply
LENGTH = "1000000"  # events that a stream keeps, about
LIFE = str(7 * 24 * 3600)  # seconds that a stream is kept after its last event


def stream_of(project: str, run: str) -> str:
    return f"test:run:{project}:{run}:events"


def own_database(url: str, env: Mapping[str, str]) -> Address:
    """The address, where it names a database that the suite does not use. Raises CannotRun otherwise.

    A suite that flushes its database must not wipe the evidence of its own run.
    """
    where = address(url)
    if where.db is None:
        raise CannotRun(f"{VARIABLE} names no database", hint="give it one of its own: redis://HOST:PORT/15")
    for name, value in env.items():
        if name == VARIABLE or not value.startswith(("redis://", "rediss://", "unix://")):
            continue
        try:
            other = address(value)
        except CannotRun:
            continue  # gate-ok: not an address after all
        if other.place == where.place:
            raise CannotRun(
                f"{VARIABLE} names the database that {name} names: the suite could wipe it",
                hint="give it a database of its own: another number at the end of the address",
            )
    return where


class Mirror:
    """Copies records to a stream. `fault` says why it stopped, where it did."""

    def __init__(self, url: str, stream: str, env: Mapping[str, str]) -> None:
        self.stream = stream
        self.fault = ""
        self.dropped = 0
        self.sent = 0
        self._pid = os.getpid()
        self._queue: deque[str | None] = deque()  # None: `settle` waits for what is before it
        self._wake = threading.Event()
        self._settled = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        try:
            where = own_database(url, env)
        except CannotRun as error:
            self.fault = error.message
            return
        self._thread = threading.Thread(target=self._work, args=(where,), name="ktxkit-mirror", daemon=True)
        self._thread.start()

    @property
    def degraded(self) -> bool:
        return bool(self.fault or self.dropped)

    def put(self, record: str) -> None:
        if self.fault or os.getpid() != self._pid or len(self._queue) >= BOUND:
            self.dropped += 1
        else:
            self._queue.append(record)
            if len(self._queue) >= BATCH or len(self._queue) == 1:
                self._wake.set()

    def settle(self, wait: float = TIMEOUT) -> None:
        """Wait until what was put is there, at most `wait` seconds: whoever does not take it in that time is left."""
        if self._working:
            self._settled.clear()
            self._queue.append(None)
            self._wake.set()
            if not self._settled.wait(wait):
                self.fault = self.fault or f"it did not take the events in {wait:g} s"

    def close(self, wait: float = TIMEOUT) -> None:
        """Send what waits, for at most `wait` seconds."""
        self._closing = True
        self._wake.set()
        if self._thread is not None and self._working:
            self._thread.join(wait)
            if self._thread.is_alive():
                self.fault = self.fault or f"it did not take the last events in {wait:g} s"
        self.dropped += sum(record is not None for record in list(self._queue))

    @property
    def _working(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and os.getpid() == self._pid and not self.fault

    def _work(self, where: Address) -> None:
        try:
            with Wire(where, TIMEOUT) as wire:
                while self._queue or not self._closing:
                    self._wake.wait(0.2)
                    self._wake.clear()
                    while self._queue:
                        self._send(wire)
                wire.command("EXPIRE", self.stream, LIFE)
        except OSError as error:
            self.fault = self.fault or error.strerror or str(error)
        finally:
            self._settled.set()

    def _send(self, wire: Wire) -> None:
        taken = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        batch = [record for record in taken if record is not None]
        try:
            wire.pipeline([("XADD", self.stream, "MAXLEN", "~", LENGTH, "*", "e", record) for record in batch])
        except OSError:
            self.dropped += len(batch)
            raise
        self.sent += len(batch)
        if len(batch) < len(taken):
            self._settled.set()
