"""A small JSON client: time limits, retries that wait longer each time, answers of bounded size, no foreign redirect.

Secrets go into a header of each request and nowhere else: not into an address, a message or a file.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.clock import Clock
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError

ANSWER_LIMIT = 64 * 1024 * 1024  # bytes
TRIES = 5
FIRST_WAIT = 0.5  # seconds; doubled with each try
LONGEST_WAIT = 60.0
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class Gone(KtxError):
    """The address has nothing (any more): status 404 or 410."""


class Forbidden(KtxError):
    """The address may not be read with these credentials: status 401 or 403."""


class Unavailable(CannotRun):
    """No useful answer after every try."""


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same host only: credentials go with them."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise Unavailable(
                f"it redirects to {new.scheme}://{new.netloc}",
                where=_shown(req.full_url),
                hint="credentials go to no other server: name that one, if it is the right one",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


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
            where=_shown(url),
            hint="credentials come from the environment only; the address is that of the server itself",
        )


@dataclass
class Client:
    """Asks one server. `request_limit`, `time_limit`: seconds for one request, and for all of them."""

    base: str
    headers: Mapping[str, str]
    clock: Clock
    request_limit: float = 30.0
    time_limit: float = 3600.0
    requests: int = 0
    waited: float = 0.0
    _began: float = field(default=0.0)

    def __post_init__(self) -> None:
        check_address(self.base)
        self.base = self.base.rstrip("/")
        self._began = self.clock.monotonic()
        # No proxy of the environment is meant for this machine itself; urllib honours no_proxy for the others.
        self._opener = urllib.request.build_opener(_SameHost())

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
        raise Unavailable(f"no answer after {TRIES} tries: {why}", where=_shown(url), hint="is the server up?")

    def _once(self, url: str) -> tuple[bytes | None, str, float]:
        """The body, or why there is none and how many seconds the server asks to wait."""
        self.requests += 1
        request = urllib.request.Request(url, headers={"Accept": "application/json", **self.headers})
        try:
            with self._opener.open(request, timeout=self.request_limit) as answer:
                body = answer.read(ANSWER_LIMIT + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in AGAIN:
                return None, f"status {error.code}", _seconds(error.headers.get("Retry-After"))
            raise _refusal(error.code, url) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            return None, str(getattr(error, "reason", error)) or type(error).__name__, 0.0
        if len(body) > ANSWER_LIMIT:
            raise Unavailable(
                f"an answer above {ANSWER_LIMIT} bytes", where=_shown(url), hint="no document of a source is so large"
            )
        return body, "", 0.0

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
                where=_shown(url),
                hint="try again later, or --option time-limit=SECONDS",
            )


def _parsed(body: bytes, url: str) -> Any:
    try:
        return contracts.parse(body, _shown(url))
    except BrokenContract as error:
        hint = "is the address that of the server itself, without a path?"
        raise Unavailable(f"the answer is no JSON: {error.message}", where=_shown(url), hint=hint) from error


def _refusal(status: int, url: str) -> KtxError:
    if status in (404, 410):
        return Gone(
            f"there is nothing (status {status})", where=_shown(url), hint="is it the address of the server itself?"
        )
    if status in (401, 403):
        return Forbidden(
            f"the server refuses these credentials (status {status})",
            where=_shown(url),
            hint="is the key or session still valid, and may it see this?",
        )
    return Unavailable(f"the server answers with status {status}", where=_shown(url), hint="look at the server's log")


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
