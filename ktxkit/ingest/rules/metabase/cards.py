"""Cards, tables and collections as values, whichever shape their documents have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules.metabase import mbql, mbql_read
from ktxkit.ingest.rules.metabase.mbql import Query, Unreadable

NUMBERS = ("Integer", "Float", "Decimal", "Number", "BigInteger")
TIMES = ("Date", "Time", "Instant")


@dataclass(frozen=True)
class Column:
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
    columns: tuple[Column, ...] = ()
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
    columns: tuple[Column, ...] = ()
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


def column(value: Mapping[str, Any]) -> Column:
    semantic = str(value.get("semantic_type") or "").removeprefix("type/")
    return Column(
        name=text(value.get("name")),
        type=type_of(value),
        title=text(value.get("display_name")),
        description=text(value.get("description")),
        field_id=number(value.get("id")),
        target_field=number(value.get("fk_target_field_id")),
        key=semantic == "PK",
        hidden=value.get("visibility_type") in ("hidden", "sensitive", "retired", "details-only"),
    )


def columns(found: Any) -> tuple[Column, ...]:
    made = [column(one) for one in found or () if isinstance(one, Mapping)]
    return tuple(one for one in made if one.name)


def card(value: Mapping[str, Any], raw_path: str) -> Card | None:
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
        return mbql_read.read(document), ""
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


def table(value: Mapping[str, Any], raw_path: str) -> Table | None:
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


def collection(value: Mapping[str, Any], raw_path: str) -> Collection | None:
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
