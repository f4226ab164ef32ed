"""A small JSON client: one connection for many requests, time limits, retries that wait longer each time, answers of
bounded size, no foreign redirect.

Secrets go into a header of each request and nowhere else: not into an address, a message or a file.
"""

from __future__ import annotations

import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts
from ktxkit.base.clock import Clock
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError

if TYPE_CHECKING:
    import urllib3


ANSWER_LIMIT = 64 * 1024 * 1024  # bytes
TRIES = 5
FIRST_WAIT = 0.5  # seconds; doubled with each try
LONGEST_WAIT = 60.0
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
ELSEWHERE = frozenset({301, 302, 303, 307, 308})
REDIRECTS = 10  # that are followed, one after the other
CHUNK = 64 * 1024  # bytes
HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class Gone(KtxError):
    """The address has nothing (any more): status 404 or 410."""


class Forbidden(KtxError):
    """The address may not be read with these credentials: status 401 or 403."""


class Unavailable(CannotRun):
    """No useful answer after every try."""


def check_address(url: str) -> None:
    """A server's address, which may be kept and shown. Raises CannotRun where it is none, or could hold a secret."""
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise CannotRun(f"{_shown(url)} is no address", hint="http://HOST or https://HOST")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CannotRun(
            "an address with a password, a query or a fragment in it",
            location=_shown(url),
            hint="credentials come from the environment only; the address is that of the server itself",
        )


@dataclass
class Client:
    """Asks one server.

    `request_limit`, `time_limit`: seconds for one request, and for all of them. `answer_limit`: bytes of an answer.
    """

    base: str
    headers: Mapping[str, str]
    clock: Clock
    request_limit: float = 30.0
    time_limit: float = 3600.0
    answer_limit: int = ANSWER_LIMIT
    requests: int = 0
    waited: float = 0.0
    _began: float = field(default=0.0)

    def __post_init__(self) -> None:
        check_address(self.base)
        self.base = self.base.rstrip("/")
        self._began = self.clock.monotonic()

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        """Keeps the connection. Through the environment's proxy, which is not meant for this machine itself."""
        import urllib3

        trusted = ssl.create_default_context()
        proxy = _proxy(self.base)
        if not proxy:
            return urllib3.PoolManager(ssl_context=trusted, retries=False)
        there = urllib.parse.urlsplit(proxy)
        who = ":".join(urllib.parse.unquote(word) for word in (there.username, there.password) if word is not None)
        headers = urllib3.make_headers(proxy_basic_auth=who) if who else None
        address = there._replace(netloc=there.netloc.rpartition("@")[2]).geturl()
        return urllib3.ProxyManager(address, proxy_headers=headers, ssl_context=trusted, retries=False)

    def get(self, path: str, **query: str | int | list[str]) -> Any:
        """The JSON of a path. Raises Gone, Forbidden, Unavailable."""
        tail = f"?{urllib.parse.urlencode(query, doseq=True)}" if query else ""
        url = f"{self.base}/{path.lstrip('/')}{tail}"
        for number in range(1, TRIES + 1):
            self._in_time(url)
            answer, why, wait = self._once(url)
            if answer is not None:
                return _parsed(answer, url)
            if number < TRIES:
                self._wait(min(wait or FIRST_WAIT * 2 ** (number - 1), LONGEST_WAIT), url)
        raise Unavailable(f"no answer after {TRIES} tries: {why}", location=_shown(url), hint="is the server up?")

    def _once(self, url: str) -> tuple[bytes | None, str, float]:
        """The body, or why there is none and how many seconds the server asks to wait."""
        import urllib3

        self.requests += 1
        try:
            answer = self._followed(url)
            try:
                if answer.status in RETRIED:
                    return None, f"status {answer.status}", _seconds(answer.headers.get("Retry-After"))
                if not 200 <= answer.status < 300:
                    raise _refusal(answer.status, url)
                body = self._body(answer, url)
            finally:
                answer.close()  # read to its end, it has given its connection back before
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return None, str(error.__cause__ or error) or type(error).__name__, 0.0
        return body, "", 0.0

    def _followed(self, url: str) -> urllib3.BaseHTTPResponse:
        """The answer, after redirects on the same host: credentials go with them. Raises Unavailable for another."""
        here = url
        for _ in range(REDIRECTS):
            answer = self._pool.request(
                "GET",
                here,
                headers={"Accept": "application/json", **self.headers},
                timeout=self.request_limit,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            target = answer.headers.get("Location")
            if answer.status not in ELSEWHERE or not target:
                return answer
            answer.close()
            old, new = urllib.parse.urlsplit(here), urllib.parse.urlsplit(urllib.parse.urljoin(here, target))
            if (old.scheme, old.netloc) != (new.scheme, new.netloc):
                raise Unavailable(
                    f"it redirects to {new.scheme}://{new.netloc.rpartition('@')[2]}",
                    location=_shown(url),
                    hint="credentials go to no other server: name that one, if it is the right one",
                )
            here = new.geturl()
        raise Unavailable(
            f"it redirects more than {REDIRECTS} times",
            location=_shown(url),
            hint="is it the address of the server itself?",
        )

    def _body(self, answer: urllib3.BaseHTTPResponse, url: str) -> bytes:
        """The whole body. Raises Unavailable for one too large, TimeoutError for one that only trickles in."""
        began, body = self.clock.monotonic(), bytearray()
        while piece := answer.read1(CHUNK):
            body += piece
            if len(body) > self.answer_limit:
                hint = "no document of a source is so large"
                raise Unavailable(f"an answer above {self.answer_limit} bytes", location=_shown(url), hint=hint)
            if self.clock.monotonic() - began > self.request_limit:
                raise TimeoutError(f"not all of it within {self.request_limit:g} seconds")
        return bytes(body)

    def _in_time(self, url: str) -> None:
        self._enough(0.0, url)

    def _wait(self, seconds: float, url: str) -> None:
        self._enough(seconds, url)
        self.waited += seconds
        self.clock.sleep(seconds)

    def _enough(self, seconds: float, url: str) -> None:
        """Whether so many seconds more can be spent. Raises Unavailable."""
        if seconds > self.time_limit - (self.clock.monotonic() - self._began):
            raise Unavailable(
                f"not done within {self.time_limit:g} seconds",
                location=_shown(url),
                hint="try again later, or --option time-limit=SECONDS",
            )


def _proxy(url: str) -> str:
    """The environment's proxy for an address; "" where there is none, or no_proxy names the host."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    proxy = (
        "" if host in HERE or urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme, "")
    )
    return proxy if not proxy or "//" in proxy else f"http://{proxy}"


def _parsed(body: bytes, url: str) -> Any:
    try:
        return contracts.parse(body, _shown(url))
    except BrokenContract as error:
        hint = "is the address that of the server itself, without a path?"
        raise Unavailable(f"the answer is no JSON: {error.message}", location=_shown(url), hint=hint) from error


def _refusal(status: int, url: str) -> KtxError:
    if status in (404, 410):
        return Gone(
            f"there is nothing (status {status})", location=_shown(url), hint="is it the address of the server itself?"
        )
    if status in (401, 403):
        return Forbidden(
            f"the server refuses these credentials (status {status})",
            location=_shown(url),
            hint="is the key or session still valid, and may it see this?",
        )
    return Unavailable(
        f"the server answers with status {status}", location=_shown(url), hint="look at the server's log"
    )


def _seconds(value: str | None) -> float:
    """Retry-After in seconds; its other form, a date, counts as none."""
    return float(value) if value and value.isdigit() else 0.0


def _shown(url: str) -> str:
    """An address without what could be secret in it."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "what was given"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
