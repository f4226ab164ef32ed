"""What of a Metabase answer is content: a snapshot keeps that, and never what changes by being looked at.

View counts, times of use, names and addresses of people, statistics of columns and connection details (they hold
passwords) are left out. MBQL 5 gives each clause a new `lib/uuid` in every answer; they are numbered in the order in
which they appear, since clauses refer to each other by them.

Cards, tables and collections as values, whichever shape their documents have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules import mbql
from ktxkit.ingest.rules.mbql import Query, Unreadable

CARD_KEYS = (
    "id", "entity_id", "name", "description", "type", "dataset", "archived", "collection_id", "database_id", "table_id",
    "source_card_id", "query_type", "display", "dataset_query", "result_metadata", "parameters", "dashboard_id",
    "card_schema",
)  # fmt: skip
STAGED_CARD_KEYS = (
    "metabaseId", "name", "description", "type", "databaseId", "collectionId", "archived", "resolvedSql",
    "templateTags", "resultMetadata", "collectionPath", "referencedCardIds", "resolutionStatus", "resolutionError",
    "dashboardIds", "tableId", "datasetQuery",
)  # fmt: skip
COLUMN_KEYS = (
    "id", "name", "display_name", "description", "base_type", "effective_type", "semantic_type", "fk_target_field_id",
    "visibility_type", "field_ref",
)  # fmt: skip
COLLECTION_KEYS = (
    "id", "name", "description", "location", "parent_id", "archived", "is_personal", "personal_owner_id", "namespace",
    "type", "authority_level", "slug", "entity_id",
)  # fmt: skip
DATABASE_KEYS = ("id", "name", "description", "engine", "timezone", "is_sample", "is_audit")
TABLE_KEYS = (
    "id", "db_id", "schema", "name", "display_name", "description", "active", "visibility_type", "entity_type",
)  # fmt: skip
FIELD_KEYS = (
    "id", "table_id", "name", "display_name", "description", "base_type", "effective_type", "database_type",
    "semantic_type", "fk_target_field_id", "visibility_type", "active", "position", "parent_id", "nfc_path",
    "coercion_strategy",
)  # fmt: skip
DEFINITION_KEYS = ("id", "name", "description", "archived", "definition", "table_id")
DASHBOARD_KEYS = ("id", "entity_id", "name", "description", "archived", "collection_id", "parameters")
PARAMETER_KEYS = ("id", "name", "slug", "type", "default", "sectionId")


def encoded(value: Any) -> bytes:
    """A document of a snapshot: sorted keys, one key a line, so that git shows what changed. Lone surrogates become
    U+FFFD, which no reader refuses."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return (text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "\n").encode("utf-8")


def _only(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


def card(value: Mapping[str, Any]) -> dict[str, Any]:
    """A card, in the API's shape or in that of a staged bundle."""
    if "metabaseId" in value:
        kept = _only(value, STAGED_CARD_KEYS)
        return {**kept, "resultMetadata": _columns(value.get("resultMetadata"))}
    kept = _only(value, CARD_KEYS)
    kept["dataset_query"] = numbered(value.get("dataset_query") or {})
    kept["result_metadata"] = _columns(value.get("result_metadata"))
    kept["parameters"] = _parameters(value)
    return kept


def _columns(found: Any) -> list[dict[str, Any]]:
    return [numbered(_only(column, COLUMN_KEYS)) for column in found or () if isinstance(column, Mapping)]


def _parameters(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_only(one, PARAMETER_KEYS) for one in value.get("parameters") or () if isinstance(one, Mapping)]


def collection(value: Mapping[str, Any]) -> dict[str, Any]:
    """A collection; that a person owns it is kept, who it is is not."""
    if "metabaseId" in value:
        return _only(value, ("metabaseId", "name", "description", "parentId", "archived"))
    kept = _only(value, COLLECTION_KEYS)
    if kept.pop("personal_owner_id", None) is not None:
        kept |= {"is_personal": True}
    if kept.get("is_personal"):
        kept |= {"name": "Personal collection", "slug": "personal"}
    return kept


def database(value: Mapping[str, Any]) -> dict[str, Any]:
    """A database without its connection details; with its tables where the answer has them."""
    if "metabaseDatabaseId" in value:
        return _only(value, ("metabaseDatabaseId", "metabaseDatabaseName", "metabaseEngine", "targetConnectionId"))
    kept = _only(value, DATABASE_KEYS)
    if isinstance(value.get("tables"), list):
        kept["tables"] = sorted((table(one) for one in value["tables"]), key=lambda one: str(one.get("id")))
    return kept


def table(value: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(value, TABLE_KEYS)
    fields = [_only(one, FIELD_KEYS) for one in value.get("fields") or ()]
    kept["fields"] = sorted(fields, key=lambda one: (one.get("position") or 0, str(one.get("id"))))
    for name in ("metrics", "segments"):
        kept[name] = [numbered(_only(one, DEFINITION_KEYS)) for one in value.get(name) or ()]
    return kept


def dashboard(value: Mapping[str, Any]) -> dict[str, Any]:
    """A dashboard: what it shows, not the copies of its cards nor where on the screen they stand."""
    kept = _only(value, DASHBOARD_KEYS)
    kept["parameters"] = _parameters(value)
    places = value.get("dashcards") or value.get("ordered_cards") or ()
    shown = {(place.get("card_id"), _said(place)) for place in places if isinstance(place, Mapping)}
    kept["cards"] = sorted(({"card_id": card_id, "text": text} for card_id, text in shown), key=_shown_key)
    return kept


def _said(place: Mapping[str, Any]) -> str:
    settings = place.get("visualization_settings") or {}
    text = settings.get("text")
    return text if isinstance(text, str) else ""


def _shown_key(one: Mapping[str, Any]) -> tuple[bool, str, str]:
    return one["card_id"] is None, f"{one['card_id'] or 0:>12}", one["text"]


def numbered(value: Any) -> Any:
    """The value with each `lib/uuid` replaced by its number of appearance, and every mention of it with it."""
    names: dict[str, str] = {}
    _collect(value, names)
    return _renamed(value, names)


def _collect(value: Any, names: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        found = value.get("lib/uuid")
        if isinstance(found, str):
            names.setdefault(found, f"u{len(names) + 1}")
        for key in sorted(value):
            _collect(value[key], names)
    elif isinstance(value, list):
        for item in value:
            _collect(item, names)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


NUMBERS = ("Integer", "Float", "Decimal", "Number", "BigInteger")
TIMES = ("Date", "Time", "Instant")


@dataclass(frozen=True)
class MetabaseColumn:
    """A column of a card's result or of a table. `type`: string, number, time or boolean."""

    name: str
    type: str
    title: str = ""
    description: str = ""
    field_id: int | None = None
    target_field: int | None = None  # the field that a foreign key names
    key: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Table:
    """A table of a database, and what its metadata defines on it."""

    id: int
    database: int | None
    schema: str
    name: str
    raw_path: str
    title: str = ""
    description: str = ""
    columns: tuple[MetabaseColumn, ...] = ()
    metrics: tuple[Mapping[str, Any], ...] = ()
    segments: tuple[Mapping[str, Any], ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True)
class Collection:
    """A collection; `parent` is None at the root."""

    id: int
    title: str
    raw_path: str
    parent: int | None = None
    personal: bool = False


@dataclass(frozen=True)
class Card:
    """A question, model or metric. `sql`: what Metabase itself says of it, where the bundle has that."""

    id: int
    raw_path: str
    title: str
    kind: str = "question"
    description: str = ""
    archived: bool = False
    database: int | None = None
    collection: int | None = None
    path: tuple[str, ...] = ()
    query: Query | None = None
    unreadable: str = ""
    sql: str | None = None
    columns: tuple[MetabaseColumn, ...] = ()
    references: tuple[int, ...] = ()
    tags: Mapping[str, Any] = field(default_factory=dict)


def type_of(value: Mapping[str, Any]) -> str:
    """The semantic layer's type of a Metabase column."""
    base = str(value.get("effective_type") or value.get("base_type") or "").removeprefix("type/")
    if base == "Boolean":
        return "boolean"
    if base.startswith(TIMES) or base.endswith(("Date", "Time", "DateTimeWithTZ")):
        return "time"
    return "number" if base in NUMBERS or base.endswith(("Integer", "Float", "Decimal")) else "string"


def text(value: Any) -> str:
    """A text of a document; anything else is none. Line ends are one form and blanks at the ends go."""
    return value.replace("\r\n", "\n").replace("\r", "\n").strip() if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def column(value: Mapping[str, Any]) -> MetabaseColumn:
    semantic = str(value.get("semantic_type") or "").removeprefix("type/")
    return MetabaseColumn(
        name=text(value.get("name")),
        type=type_of(value),
        title=text(value.get("display_name")),
        description=text(value.get("description")),
        field_id=number(value.get("id")),
        target_field=number(value.get("fk_target_field_id")),
        key=semantic == "PK",
        hidden=value.get("visibility_type") in ("hidden", "sensitive", "retired", "details-only"),
    )


def columns(columns: Any) -> tuple[MetabaseColumn, ...]:
    made = [column(one) for one in columns or () if isinstance(one, Mapping)]
    return tuple(one for one in made if one.name)


def read_card(value: Mapping[str, Any], raw_path: str) -> Card | None:
    """The card of a document in either shape; None where it is no card."""
    if number(value.get("metabaseId")) is not None:
        return _staged(value, raw_path)
    card_id = number(value.get("id"))
    if card_id is None or "dataset_query" not in value:
        return None
    query, why = _query(value["dataset_query"])
    kind = text(value.get("type")) or ("model" if value.get("dataset") is True else "question")
    return Card(
        id=card_id,
        raw_path=raw_path,
        title=text(value.get("name")) or f"Card {card_id}",
        kind=kind,
        description=text(value.get("description")),
        archived=value.get("archived") is True,
        database=number(value.get("database_id")),
        collection=number(value.get("collection_id")),
        query=query,
        unreadable=why,
        columns=columns(value.get("result_metadata")),
        references=_references(query, number(value.get("source_card_id"))),
    )


def _query(document: Any) -> tuple[Query | None, str]:
    try:
        return mbql.read(document), ""
    except Unreadable as error:
        return None, str(error)


def _references(query: Query | None, source: int | None) -> tuple[int, ...]:
    found = mbql.cards(query) if query else []
    return tuple(dict.fromkeys([*([source] if source is not None else []), *found]))


def _staged(value: Mapping[str, Any], raw_path: str) -> Card:
    """The shape of a staged bundle: Metabase's own SQL, references found already."""
    sql = value.get("resolvedSql")
    resolved = sql if isinstance(sql, str) and value.get("resolutionStatus", "resolved") == "resolved" else None
    tags = [one for one in value.get("templateTags") or () if isinstance(one, Mapping)]
    named = [number(one) for one in value.get("referencedCardIds") or ()]
    tagged = [number(one.get("cardReference")) for one in tags]
    in_sql = [int(found) for found in mbql.CARD_TAG.findall(resolved or "")]
    card_id = number(value["metabaseId"])
    assert card_id is not None, "the caller looked"
    return Card(
        id=card_id,
        raw_path=raw_path,
        title=text(value.get("name")) or f"Card {card_id}",
        kind=text(value.get("type")) or "question",
        description=text(value.get("description")),
        archived=value.get("archived") is True,
        database=number(value.get("databaseId")),
        collection=number(value.get("collectionId")),
        path=tuple(text(one) for one in value.get("collectionPath") or () if text(one)),
        query=Query(number(value.get("databaseId")), (mbql.Stage(sql=resolved),)) if resolved else None,
        unreadable="" if resolved else text(value.get("resolutionError")) or "its SQL was not resolved",
        sql=resolved,
        columns=columns(value.get("resultMetadata")),
        references=tuple(dict.fromkeys(one for one in (*named, *tagged, *in_sql) if one is not None)),
        tags={text(one.get("name")): one for one in tags},
    )


def read_table(value: Mapping[str, Any], raw_path: str) -> Table | None:
    """The table of a document; None where it is none, or is gone from its database."""
    table_id = number(value.get("id"))
    if table_id is None or not text(value.get("name")) or value.get("active") is False:
        return None
    fields = [one for one in value.get("fields") or () if isinstance(one, Mapping)]
    return Table(
        id=table_id,
        database=number(value.get("db_id")),
        schema=text(value.get("schema")),
        name=text(value.get("name")),
        raw_path=raw_path,
        title=text(value.get("display_name")),
        description=text(value.get("description")),
        columns=columns([one for one in fields if one.get("active") is not False and one.get("parent_id") is None]),
        metrics=_defined(value.get("metrics")),
        segments=_defined(value.get("segments")),
    )


def _defined(found: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(one for one in found or () if isinstance(one, Mapping) and one.get("archived") is not True)


def read_collection(value: Mapping[str, Any], raw_path: str) -> Collection | None:
    """A collection in either shape; None for the root, which is no collection."""
    staged = number(value.get("metabaseId"))
    if staged is not None:
        return Collection(staged, text(value.get("name")), raw_path, number(value.get("parentId")))
    found = number(value.get("id"))
    if found is None:
        return None
    parents = [part for part in text(value.get("location")).split("/") if part.isdigit()]
    parent = int(parents[-1]) if parents else number(value.get("parent_id"))
    return Collection(found, text(value.get("name")), raw_path, parent, value.get("is_personal") is True)


def path_of(collections: Mapping[int, Collection], start: int | None) -> tuple[str, ...]:
    """The titles from the outermost collection to this one; the root is none."""
    found: list[str] = []
    seen: set[int] = set()
    while start is not None and start in collections and start not in seen:
        seen.add(start)
        found.append(collections[start].title)
        start = collections[start].parent
    return tuple(reversed(found))


def within(collections: Mapping[int, Collection], start: int | None, wanted: Sequence[int]) -> bool:
    """Whether a collection is one of these, or lies in one of them."""
    seen: set[int] = set()
    while start is not None and start not in seen:
        if start in wanted:
            return True
        seen.add(start)
        start = collections[start].parent if start in collections else None
    return False
