"""Redis over its own protocol (RESP2): a socket, commands, replies. No client library: importing one costs more than a
short test run may, and its retries turned a closed port into four seconds.

Addresses: `redis://[user:password@]host[:port]/DB`, `rediss://...` (TLS), `unix:///path?db=DB`.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
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
    def place(self) -> tuple[str, int, int]:
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
