"""Sending spans to an OpenTelemetry collector by HTTP: standard library only, no redirect followed, a time limit."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from ktxkit.base.errors import CannotRun

TIME_LIMIT = 30.0  # seconds for one request
PATH = "/v1/traces"
HINT = "the address of an OTLP/HTTP receiver, as in http://localhost:4318"


def endpoint(url: str) -> str:
    """The address that takes traces. Raises CannotRun where it is no http address."""
    if not url.startswith(("http://", "https://")):
        raise CannotRun(f"{url} is no http address", hint=HINT)
    return url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH


def headers_of(text: str) -> dict[str, str]:
    """`k=v,k2=v2` as OTEL_EXPORTER_OTLP_HEADERS has it."""
    pairs = [part.partition("=") for part in text.split(",") if "=" in part]
    return {key.strip(): value.strip() for key, _, value in pairs}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def send(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """One export. Raises CannotRun where it is not taken."""
    data = json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.build_opener(_NoRedirect).open(asked, timeout=TIME_LIMIT) as answer:
            answer.read(65536)
    except urllib.error.HTTPError as error:
        said = error.read(400).decode("utf-8", "replace").strip()
        raise CannotRun(f"the collector answered {error.code}: {said}", where=url, hint=HINT) from error
    except (OSError, ValueError) as error:
        raise CannotRun(f"the collector cannot be reached: {error}", where=url, hint=HINT) from error
