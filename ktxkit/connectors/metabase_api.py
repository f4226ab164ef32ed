"""A live Metabase over its REST API: databases, collections, and what lies in each, page by page.

Credentials: METABASE_API_KEY (header x-api-key) or METABASE_SESSION (header X-Metabase-Session). Source: Metabase API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.connectors.http import Client, Forbidden, Gone, Unavailable
from ktxkit.connectors.interface import Origin, Sink, Staged
from ktxkit.core.metabase import bundle as bundles
from ktxkit.core.metabase import content
from ktxkit.errors import CannotRun

PAGE = 200  # items of a collection asked for at once
MODELS = ["card", "dataset", "metric", "dashboard"]
LOST_SHARE = 0.2  # where more of the cards than this cannot be had, the server is at fault and nothing is staged
LOST_LEAST = 5


@dataclass
class Fetch:
    """One fetch under way."""

    client: Client
    sink: Sink
    options: Mapping[str, str]
    staged: Staged = field(default_factory=Staged)
    cards: set[int] = field(default_factory=set)
    dashboards: set[int] = field(default_factory=set)

    def put(self, raw_path: str, value: Any) -> None:
        self.sink.put(raw_path, content.encoded(bundles.kept(raw_path, value)))


def stage(origin: Origin, sink: Sink) -> Staged:
    """Fetch everything into the sink. Raises Forbidden, Unavailable, CannotRun."""
    fetch = Fetch(client_of(origin), sink, origin.options)
    _databases(fetch)
    for collection in _collections(fetch):
        _listed(fetch, collection)
    _items(fetch, "card", fetch.cards)
    _items(fetch, "dashboard", fetch.dashboards)
    database = origin.options.get("database")
    fetch.staged.scope = f"database {database}" if database else "every database"
    return fetch.staged


def client_of(origin: Origin) -> Client:
    """The client, with the credentials of the environment. Raises CannotRun where there are none."""
    key, session = origin.env.get("METABASE_API_KEY"), origin.env.get("METABASE_SESSION")
    if not key and not session:
        raise CannotRun(
            "no credentials for Metabase", hint="set METABASE_API_KEY, or METABASE_SESSION, in the environment"
        )
    headers = {"x-api-key": key} if key else {"X-Metabase-Session": str(session)}
    if any(ord(char) < 32 or ord(char) > 126 for char in (key or session or "")):
        raise CannotRun(
            "the Metabase credentials hold a character that no header can have",
            hint="look for a line break at the end of what the environment holds",
        )
    return Client(
        origin.url,
        headers,
        origin.clock,
        request_limit=_number(origin, "request-limit", 30.0),
        time_limit=_number(origin, "time-limit", 3600.0),
    )


def _number(origin: Origin, name: str, usual: float) -> float:
    text = origin.options.get(name)
    if text is None:
        return usual
    if not text.isdigit() or int(text) < 1:
        raise CannotRun(f"{name}={text} is no number of seconds", hint="as in 30 or 0.5")
    return float(text)


def _databases(fetch: Fetch) -> None:
    found = fetch.client.get("api/database")
    listed = found.get("data", []) if isinstance(found, Mapping) else found
    only = fetch.options.get("database")
    for one in _objects(listed, "api/database"):
        if one.get("is_audit") or (only and only not in (str(one.get("id")), one.get("name"))):
            continue
        number = int(one["id"])
        try:
            fetch.put(f"database/{number}/metadata.json", fetch.client.get(f"api/database/{number}/metadata"))
        except (Gone, Forbidden) as error:
            fetch.staged.warnings.append(f"database {number}: {error.message}")
            fetch.staged.unfetched.append(f"database/{number}/metadata.json")


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Unavailable("a list of objects is expected", where=where, hint="is this a Metabase server?")
    return value


def _collections(fetch: Fetch) -> Iterator[int | str]:
    found = _objects(fetch.client.get("api/collection"), "api/collection")
    personal = fetch.options.get("include-personal") == "true"
    kept = [
        one
        for one in found
        if not one.get("archived") and (personal or not (one.get("is_personal") or one.get("personal_owner_id")))
    ]
    fetch.put("collection.json", kept)
    yield "root"
    yield from sorted(int(one["id"]) for one in kept if isinstance(one.get("id"), int))


def _listed(fetch: Fetch, collection: int | str) -> None:
    """Note the cards and dashboards of a collection. A server without paging answers with all at once."""
    offset = 0
    while True:
        path = f"api/collection/{collection}/items"
        try:
            answer = fetch.client.get(path, models=MODELS, limit=PAGE, offset=offset)
        except (Gone, Forbidden) as error:
            raise Unavailable(f"collection {collection} cannot be listed: {error.message}", where=path) from error
        paged = isinstance(answer, Mapping)
        items = _objects(answer.get("data") if isinstance(answer, Mapping) else answer, path)
        for one in items:
            if one.get("model") in ("card", "dataset", "metric") and not one.get("archived"):
                fetch.cards.add(int(one["id"]))
            elif one.get("model") == "dashboard" and not one.get("archived"):
                fetch.dashboards.add(int(one["id"]))
        offset += len(items)
        if not paged or not items or offset >= int(answer.get("total") or 0):
            return


def _items(fetch: Fetch, kind: str, numbers: set[int]) -> None:
    """Each card or dashboard by itself. One that is gone meanwhile is deleted; one that cannot be had is not."""
    only = fetch.options.get("database")
    for number in sorted(numbers):
        raw_path = f"{kind}/{number}.json"
        try:
            value = fetch.client.get(f"api/{kind}/{number}")
            if kind == "card" and only and only.isdigit() and value.get("database_id") != int(only):
                continue
            if value.get("archived") is not True:
                fetch.put(raw_path, value)
        except Gone:
            continue  # gate-ok: removed since it was listed: it is not in the snapshot
        except (Forbidden, Unavailable, ValueError, TypeError, KeyError, AttributeError) as error:
            _lost(fetch, raw_path, error, len(numbers))


def _lost(fetch: Fetch, raw_path: str, error: Exception, count: int) -> None:
    fetch.staged.unfetched.append(raw_path)
    fetch.staged.warnings.append(f"{raw_path} could not be had: {error}")
    lost = len(fetch.staged.unfetched)
    if lost >= LOST_LEAST and lost > count * LOST_SHARE:
        raise Unavailable(f"{lost} of {count} could not be had; the last: {error}", where=raw_path)
