"""Redis over its own protocol (RESP2): a socket, commands, replies. No client library: importing one costs more than a
short test run may, and its retries turned a closed port into four seconds.

Addresses: `redis://[user:password@]host[:port]/DB`, `rediss://...` (TLS), `unix:///path?db=DB`.

The events of a run on a Redis stream, for readers on other machines. The file is the truth; this is a copy.

A bounded queue, and one thread that drains it: a test never waits for the network. One try to connect, none to
reconnect: what goes wrong once is degraded, counted and said, and costs nothing more.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ktxkit.base.errors import CannotRun

PORT = 6379
READ = 65536  # bytes asked for at once


@dataclass(frozen=True)
class Address:
    """Where a server and which of its databases. `host` is a path for a unix socket; `db` is None where not named."""

    scheme: str
    host: str
    port: int
    db: int | None
    user: str = ""
    password: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """What two addresses have in common that name one database."""
        host = "localhost" if self.host in ("127.0.0.1", "::1", "") else self.host
        return host, self.port, self.db or 0


def address(url: str) -> Address:
    """Raises CannotRun for an address that is none. A password is never in the message."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "unix":
            found = parse_qs(parts.query).get("db", [""])[0]
            return Address("unix", parts.path, 0, int(found) if found else None, password=unquote(parts.password or ""))
        if parts.scheme in ("redis", "rediss"):
            path = parts.path.strip("/")
            db = int(path) if path else None
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            return Address(parts.scheme, parts.hostname or "localhost", parts.port or PORT, db, user, password)
    except ValueError as error:
        raise CannotRun(
            "not an address of a Redis server: the port or database is no number",
            hint="redis://HOST:PORT/DB, as in redis://127.0.0.1:6379/15",
        ) from error
    raise CannotRun("not an address of a Redis server", hint="redis://HOST:PORT/DB, rediss://... or unix:///PATH?db=DB")


class Wire:
    """One connection. Every failure of it is an OSError."""

    def __init__(self, where: Address, timeout: float) -> None:
        self._buffer = b""
        self.socket = _connected(where, timeout)
        try:
            if where.password:
                self.command("AUTH", *([where.user] if where.user else []), where.password)
            self.command("SELECT", str(where.db or 0))
        except OSError:
            self.close()
            raise

    def command(self, *words: str | bytes) -> Any:
        """The reply to one command. Raises OSError, also for an error that the server answers with."""
        return self.pipeline([words])[0]

    def pipeline(self, commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
        """Many commands in one write; their replies."""
        self.socket.sendall(b"".join(_encoded(words) for words in commands))
        replies = [self._reply() for _ in commands]
        wrong = next((reply for reply in replies if isinstance(reply, OSError)), None)
        if wrong is not None:
            raise wrong
        return replies

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _fill(self) -> None:
        data = self.socket.recv(READ)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._buffer += data

    def _reply(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode("utf-8", "replace")
        if kind == b"-":
            return OSError(f"the server answers: {rest.decode('utf-8', 'replace')}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        raise ConnectionError("what answers is no Redis server")

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        while len(self._buffer) < size + 2:
            self._fill()
        data, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return data


def _connected(where: Address, timeout: float) -> socket.socket:
    if where.scheme == "unix":
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(timeout)
        made.connect(where.host)
        return made
    made = socket.create_connection((where.host, where.port), timeout)
    if where.scheme == "rediss":
        import ssl

        return ssl.create_default_context().wrap_socket(made, server_hostname=where.host)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _encoded(words: Sequence[str | bytes]) -> bytes:
    parts = [word.encode("utf-8") if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


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
        if other.key == where.key:
            raise CannotRun(
                f"{VARIABLE} names the database that {name} names: the suite could wipe it",
                hint="give it a database of its own: another number at the end of the address",
            )
    return where


class Mirror:
    """Copies records to a stream. `fault` says why it stopped, where it did; `bound` is how many may wait."""

    def __init__(self, url: str, stream: str, env: Mapping[str, str], bound: int = BOUND) -> None:
        self.stream = stream
        self._bound = bound
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
        if self.fault or os.getpid() != self._pid or len(self._queue) >= self._bound:
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
