"""A small JSON client: time limits, retries that wait longer each time, answers of bounded size, no foreign redirect.

Secrets go into a header of each request and nowhere else: not into an address, a message or a file.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.effects.clock import Clock
from ktxkit.errors import CannotRun, KtxError

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
            raise Unavailable(f"it redirects to {new.scheme}://{new.netloc}", where=_shown(req.full_url))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


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
        parts = urllib.parse.urlsplit(self.base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise CannotRun(f"{_shown(self.base)} is no address", hint="http://HOST or https://HOST")
        if parts.username or parts.password:
            raise CannotRun("an address with a password in it", hint="credentials come from the environment only")
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
            raise Unavailable(f"an answer above {ANSWER_LIMIT} bytes", where=_shown(url))
        return body, "", 0.0

    def _in_time(self, url: str) -> None:
        if self.clock.monotonic() - self._began > self.time_limit:
            raise Unavailable(f"not done within {self.time_limit:g} seconds", where=_shown(url))

    def _wait(self, seconds: float, url: str) -> None:
        left = self.time_limit - (self.clock.monotonic() - self._began)
        if seconds > left:
            raise Unavailable(f"not done within {self.time_limit:g} seconds", where=_shown(url))
        self.waited += seconds
        self.clock.sleep(seconds)


def _parsed(body: bytes, url: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        hint = "is the address that of the server itself, without a path?"
        raise Unavailable("the answer is no JSON", where=_shown(url), hint=hint) from error


def _refusal(status: int, url: str) -> KtxError:
    if status in (404, 410):
        return Gone("there is nothing", where=_shown(url))
    if status in (401, 403):
        return Forbidden(f"the server refuses these credentials (status {status})", where=_shown(url))
    return Unavailable(f"the server answers with status {status}", where=_shown(url))


def _seconds(value: str | None) -> float:
    """Retry-After in seconds; its other form, a date, counts as none."""
    return float(value) if value and value.isdigit() else 0.0


def _shown(url: str) -> str:
    """An address without what could be secret in it."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
