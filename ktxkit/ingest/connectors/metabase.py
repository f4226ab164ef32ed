"""A live Metabase over its REST API: databases, collections, and what lies in each, page by page.

Credentials: METABASE_API_KEY (header x-api-key) or METABASE_SESSION (header X-Metabase-Session). Source: Metabase API.

Metabase: a directory of its documents, or a live one over its API; tables, models and metrics become sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.ingest.connectors import interface
from ktxkit.ingest.connectors.http import Client, Forbidden, Gone, Unavailable
from ktxkit.ingest.connectors.interface import Origin, Setting, Sink, Snapshot, Staged
from ktxkit.ingest.rules import metabase_cards, metabase_sources, metabase_units
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection

PAGE = 200  # items of a collection asked for at once
MODELS = ["card", "dataset", "metric", "dashboard"]
LOST_SHARE = 0.2  # where more of the cards than this cannot be had, the server is at fault and nothing is staged
LOST_LEAST = 5
LISTINGS = 3  # times that a collection is listed which changes while it is
NO_SHAPE = "the answer has not the shape of a Metabase document"
NO_SERVER = "is this a Metabase server, of a version that is known?"


@dataclass
class Fetch:
    """One fetch under way."""

    client: Client
    sink: Sink
    options: Mapping[str, str]
    staged: Staged = field(default_factory=Staged)
    cards: set[int] = field(default_factory=set)
    dashboards: set[int] = field(default_factory=set)

    def put(self, raw_path: str, value: Any, path: str) -> None:
        """Hand a document over. Raises Unavailable where the answer at `path` is none of its kind."""
        try:
            data = metabase_cards.encoded(metabase_units.content_of(raw_path, value))
        except metabase_units.NO_DOCUMENT as error:
            raise Unavailable(f"{NO_SHAPE}: {error}", location=path, hint=NO_SERVER) from error
        self.sink.put(raw_path, data)


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
        raise CannotRun(f"{name}={text} is no number of seconds", hint="as in 30")
    return float(text)


def _databases(fetch: Fetch) -> None:
    where = "api/database"
    found = fetch.client.get(where)
    listed = found.get("data", []) if isinstance(found, Mapping) else found
    only = fetch.options.get("database")
    for one in _objects(listed, where):
        if one.get("is_audit") or (only and only not in (str(one.get("id")), one.get("name"))):
            continue
        number = _number_of(one.get("id"), where)
        path = f"database/{number}/metadata"
        try:
            fetch.put(f"{path}.json", fetch.client.get(f"api/{path}"), f"api/{path}")
        except (Gone, Forbidden) as error:
            fetch.staged.warnings.append(f"database {number}: {error.message}")
            fetch.staged.unfetched.append(f"{path}.json")


def _objects(value: Any, path: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Unavailable("a list of objects is expected", location=path, hint=NO_SERVER)
    return value


def _number_of(value: Any, path: str) -> int:
    """An id or a count. Raises Unavailable where it is none."""
    if not isinstance(value, int) or value < 0:
        raise Unavailable(f"{value!r} is no number", location=path, hint=NO_SERVER)
    return value


def _collections(fetch: Fetch) -> Iterator[int | str]:
    found = _objects(fetch.client.get("api/collection"), "api/collection")
    personal = fetch.options.get("include-personal") == "true"
    kept = [
        one
        for one in found
        if not one.get("archived") and (personal or not (one.get("is_personal") or one.get("personal_owner_id")))
    ]
    fetch.put("collection.json", kept, "api/collection")
    yield "root"
    yield from sorted(int(one["id"]) for one in kept if isinstance(one.get("id"), int))


def _listed(fetch: Fetch, collection: int | str) -> None:
    """Note the cards and dashboards of a collection; anew where it changed meanwhile, since pages shift then."""
    path = f"api/collection/{collection}/items"
    for _ in range(LISTINGS):
        items = _pages(fetch, path)
        if items is not None:
            break
    else:
        raise Unavailable(
            f"collection {collection} changes while it is listed",
            location=path,
            hint="try again when less goes on there",
        )
    for one in items:
        kind, number = one.get("model"), _number_of(one.get("id"), path)
        if kind in ("card", "dataset", "metric") and not one.get("archived"):
            fetch.cards.add(number)
        elif kind == "dashboard" and not one.get("archived"):
            fetch.dashboards.add(number)


def _pages(fetch: Fetch, path: str) -> list[dict[str, Any]] | None:
    """Every item of a listing, page by page; None where its total changed between two. A server without paging answers
    with all at once. Raises Unavailable where some cannot be had: left out, they would be called deleted."""
    found: list[dict[str, Any]] = []
    totals: set[int] = set()
    while True:
        try:
            answer = fetch.client.get(path, models=MODELS, limit=PAGE, offset=len(found))
        except (Gone, Forbidden) as error:
            raise Unavailable(f"it cannot be listed: {error.message}", location=path, hint=error.hint) from error
        if not isinstance(answer, Mapping):
            return _objects(answer, path)
        items = _objects(answer.get("data"), path)
        if items and items == found[-len(items) :]:
            raise Unavailable("it gives the same page again and again", location=path, hint=NO_SERVER)
        found += items
        total = answer.get("total")
        totals |= set() if total is None else {_number_of(total, path)}
        if len(totals) > 1:
            return None
        if totals and not items and len(found) < max(totals):
            lost = f"it lists {max(totals)} and gives {len(found)}"
            raise Unavailable(lost, location=path, hint="try again; what it does not give would be taken for deleted")
        if not items or (totals and len(found) >= max(totals)):
            return found


def _items(fetch: Fetch, kind: str, numbers: set[int]) -> None:
    """Each card or dashboard by itself. One that is gone meanwhile is deleted; one that cannot be had is not."""
    only = fetch.options.get("database")
    for number in sorted(numbers):
        raw_path, path = f"{kind}/{number}.json", f"api/{kind}/{number}"
        try:
            (value,) = _objects([fetch.client.get(path)], path)
            if kind == "card" and only and only.isdigit() and value.get("database_id") != int(only):
                continue
            if value.get("archived") is not True:
                fetch.put(raw_path, value, path)
        except Gone:
            continue  # gate-ok: removed since it was listed: it is not in the snapshot
        except (Forbidden, Unavailable) as error:
            _lost(fetch, raw_path, error, len(numbers))


def _lost(fetch: Fetch, raw_path: str, error: Exception, count: int) -> None:
    fetch.staged.unfetched.append(raw_path)
    fetch.staged.warnings.append(f"{raw_path} could not be had: {error}")
    lost = len(fetch.staged.unfetched)
    if lost >= LOST_LEAST and lost > count * LOST_SHARE:
        raise Unavailable(
            f"{lost} of {count} could not be had; the last: {error}",
            location=raw_path,
            hint="try again when the server is well: nothing was taken over",
        )


NOT_READ_KEPT = 100
OPTIONS = ("group", "database", "include-personal", "time-limit", "request-limit")


class Metabase:
    """The connector."""

    def detect(self, directory: Path) -> str:
        if not directory.is_dir():
            return ""
        cards = next((one.name for one in interface.walk(directory) if metabase_units.CARD.match(one.name)), "")
        if (directory / metabase_units.CONFIG).is_file() and not cards:
            return f"it has {metabase_units.CONFIG}"
        return f"it has {cards}" if cards else ""

    def stage(self, origin: Origin, sink: Sink) -> Staged:
        _check_options(origin)
        if origin.url:
            return stage(origin, sink)
        assert origin.path is not None, "a source has a place or an address"
        return stage_directory(origin.path, sink)

    def read(self, snapshot: Snapshot, setting: Setting) -> MetabaseReading:
        return MetabaseReading(snapshot, setting)


def _check_options(origin: Origin) -> None:
    unknown = sorted(set(origin.options) - set(OPTIONS))
    if unknown:
        raise CannotRun(f"metabase takes no option {unknown[0]!r}", hint=f"it takes {', '.join(OPTIONS)}")
    group = origin.options.get("group", metabase_units.GROUPS[0])
    if group not in metabase_units.GROUPS:
        raise CannotRun(
            f"group={group} is none of {', '.join(metabase_units.GROUPS)}", hint="leave it out for the default"
        )


def stage_directory(directory: Path, sink: Sink) -> Staged:
    """The raw files of a directory in either layout. Archived cards are no part of it."""
    staged = Staged()
    for one in interface.walk(directory):
        name, path, kind = one
        expected = (
            interface.FILE
            if metabase_units.wanted(name)
            else interface.DIRECTORY
            if metabase_units.holds(name)
            else kind
        )
        if kind != expected:
            raise interface.no_file(one, f"a {expected} of Metabase's")
        if not metabase_units.wanted(name):
            if kind != interface.DIRECTORY:
                staged.not_read.append(name.encode("utf-8", "backslashreplace").decode("utf-8"))
            continue
        value = read_document(name, interface.content(path), str(path))
        if isinstance(value, dict) and value.get("archived") is True and metabase_units.CARD.match(name):
            continue
        sink.put(name, metabase_cards.encoded(value))
    if len(staged.not_read) > NOT_READ_KEPT:
        staged.not_read = [*staged.not_read[:NOT_READ_KEPT], f"and {len(staged.not_read) - NOT_READ_KEPT} more"]
    return staged


def read_document(name: str, data: bytes, path: str) -> Any:
    """The content of one document. Raises CannotRun naming the file where it is none."""
    try:
        return metabase_units.content_of(name, contracts.parse(data, path))
    except BrokenContract as error:
        raise CannotRun(error.message, location=error.location, hint="the source gave a damaged document") from error
    except metabase_units.NO_DOCUMENT as error:
        raise CannotRun(
            f"it has not the shape of a Metabase document: {error}",
            location=path,
            hint="exported by another version of Metabase? leave the document out, or export it again",
        ) from error


class MetabaseReading:
    """A snapshot as cards, collections, tables and dashboards."""

    def __init__(self, snapshot: Snapshot, setting: Setting) -> None:
        self.setting = setting
        self.bundle = metabase_units.build(_documents(snapshot))
        self.names = metabase_sources.named(self.bundle, setting.used_names, setting.readers)
        self._projection = metabase_sources.project(self.bundle, self.names, setting.connection)

    @property
    def warnings(self) -> Sequence[str]:
        return self.bundle.warnings

    def in_scope(self, raw_path: str, before: Callable[[], bytes | None]) -> bool:
        database = self.setting.options.get("database", "")
        if database and metabase_units.DATABASE.match(raw_path):
            return raw_path.split("/")[1].removesuffix(".json") == database
        if not metabase_units.CARD.match(raw_path) or not (database or metabase_units.selects(self.bundle.config)):
            return True
        data = before()
        value = json.loads(data) if data is not None else None
        if database and (value is None or str(value.get("database_id")) != database):
            return False
        return metabase_units.in_scope(self.bundle, value, raw_path)

    def project(self) -> Projection:
        return self._projection

    def plan(self) -> Sequence[Proposal]:
        group = self.setting.options.get("group", metabase_units.GROUPS[0])
        return metabase_units.plan(self.bundle, self.names, self.setting.connection, self._projection.unresolved, group)


def _documents(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    for path in snapshot.paths:
        yield path, json.loads(snapshot.read(path))


connector = Metabase()
