"""A Metabase snapshot as a whole: what its raw files say together.

Two layouts are read: that of staged bundles (`cards/`, `collections/`, `databases/`, `sync-config.json`) and that of
the API's paths (`card/`, `collection.json`, `database/ID/metadata.json`, `dashboard/`).

A projection under way: names, renderers, and what it noticed.

Units of a Metabase snapshot: cards that build on each other within a collection are one group.

A group that has too many cards falls apart into single ones. What a card builds on elsewhere is a dependency: a change
of it is a change of the unit. Keys come from the least card id of a group, so that a new card moves no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules import mbql, metabase_cards
from ktxkit.ingest.rules.mbql import Unreadable
from ktxkit.ingest.rules.metabase_cards import Card, Collection, Table, number, text
from ktxkit.ingest.rules.planning import PEERS_KEPT, Proposal
from ktxkit.ingest.rules.projection import dialect_key
from ktxkit.ingest.rules.sql import Renderer, tables_in

CONFIG = "sync-config.json"
CARD = re.compile(r"cards?/[0-9]+\.json\Z")
COLLECTION = re.compile(r"collections?/[0-9]+\.json\Z")
DATABASE = re.compile(r"databases?/[0-9]+(/metadata)?\.json\Z")
DASHBOARD = re.compile(r"dashboards?/[0-9]+\.json\Z")
HOLDER = re.compile(r"(cards?|collections?|dashboards?|databases?(/[0-9]+)?)\Z")
NO_DOCUMENT = (ValueError, TypeError, KeyError, AttributeError)  # what `kept` raises for a document of another shape
LISTED = {
    "collection.json": metabase_cards.collection,
    "database.json": metabase_cards.database,
    "table.json": metabase_cards.table,
}
_CONFIG_KEYS = ("metabaseConnectionId", "metabaseDatabaseId", "syncMode", "selections", "defaultTagNames", "mapping")


def wanted(path: str) -> bool:
    """Whether a file of a bundle is part of its snapshot. People (`user/`) and listings of what is there never are."""
    return path == CONFIG or path in LISTED or any(p.match(path) for p in (CARD, COLLECTION, DATABASE, DASHBOARD))


def holds(path: str) -> bool:
    """Whether a directory at this path holds files of a bundle."""
    return HOLDER.match(path) is not None


def content_of(path: str, value: Any) -> Any:
    """The content of a raw file's document, which is what a snapshot has of it. Raises ValueError for a wrong shape."""
    if path in LISTED:
        items = value.get("data", value) if isinstance(value, Mapping) else value
        if not isinstance(items, list):
            raise ValueError("a list is expected")
        return [LISTED[path](one) for one in items if isinstance(one, Mapping)]
    if not isinstance(value, Mapping):
        raise ValueError("an object is expected")
    if path == CONFIG:
        return {key: value[key] for key in _CONFIG_KEYS if key in value}
    for pattern, keep in _KEEPERS:
        if pattern.match(path):
            return keep(value)
    raise AssertionError(f"{path} is not wanted")


_KEEPERS: tuple[tuple[re.Pattern[str], Callable[[Mapping[str, Any]], dict[str, Any]]], ...] = (
    (CARD, metabase_cards.card),
    (COLLECTION, metabase_cards.collection),
    (DATABASE, metabase_cards.database),
    (DASHBOARD, metabase_cards.dashboard),
)


@dataclass
class Bundle:
    """Everything of a snapshot, by id. `owners`: raw paths of which cards are, for the scope."""

    cards: dict[int, Card] = field(default_factory=dict)
    collections: dict[int, Collection] = field(default_factory=dict)
    tables: dict[int, Table] = field(default_factory=dict)
    engines: dict[int, str] = field(default_factory=dict)
    databases: dict[int, str] = field(default_factory=dict)
    shown: dict[int, list[tuple[str, str]]] = field(default_factory=dict)  # card to dashboards: title, raw path
    config: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def collection_path(self, card: Card) -> tuple[str, ...]:
        return card.path or metabase_cards.path_of(self.collections, card.collection)


def build(documents: Iterable[tuple[str, Any]]) -> Bundle:
    """Read the documents of a snapshot (raw path, parsed JSON), in the order of their paths."""
    bundle = Bundle()
    for path, value in documents:
        if path in LISTED:
            for one in value:
                _take(bundle, path, one)
        else:
            _take(bundle, path, value)
    return bundle


def _take(bundle: Bundle, path: str, value: Mapping[str, Any]) -> None:
    if path == CONFIG:
        bundle.config = dict(value)
    elif CARD.match(path):
        card = metabase_cards.read_card(value, path)
        if card is None:
            bundle.warnings.append(f"{path} is no card")
        elif card.id in bundle.cards:
            bundle.warnings.append(f"{path} and {bundle.cards[card.id].raw_path} are both card {card.id}")
        else:
            bundle.cards[card.id] = card
    elif COLLECTION.match(path) or path == "collection.json":
        collection = metabase_cards.read_collection(value, path)
        if collection is not None:
            bundle.collections[collection.id] = collection
    elif DATABASE.match(path) or path == "database.json":
        _database(bundle, path, value)
    elif path == "table.json":
        _table(bundle, path, value)
    else:
        _dashboard(bundle, path, value)


def _database(bundle: Bundle, path: str, value: Mapping[str, Any]) -> None:
    found = number(value.get("id")) or number(value.get("metabaseDatabaseId"))
    if found is None:
        bundle.warnings.append(f"{path}: a database without an id")
        return
    bundle.engines[found] = text(value.get("engine")) or text(value.get("metabaseEngine"))
    bundle.databases[found] = text(value.get("name")) or text(value.get("metabaseDatabaseName"))
    for one in value.get("tables") or ():
        _table(bundle, path, {"db_id": found, **one})


def _table(bundle: Bundle, path: str, value: Mapping[str, Any]) -> None:
    """A table; the answer that has its columns counts, whichever comes first."""
    table = metabase_cards.read_table(value, path)
    if table is not None and (table.id not in bundle.tables or table.columns):
        bundle.tables[table.id] = table


def _dashboard(bundle: Bundle, path: str, value: Mapping[str, Any]) -> None:
    if value.get("archived") is True:
        return
    for one in value.get("cards") or ():
        card_id = number(one.get("card_id"))
        if card_id is not None:
            bundle.shown.setdefault(card_id, []).append((text(value.get("name")), path))


def in_scope(bundle: Bundle, before: Mapping[str, Any] | None, path: str) -> bool:
    """Whether this sync would have had a card, had it still been there. `before`: its document in the last snapshot.

    A sync of some collections says nothing of cards elsewhere; one whose last document is lost is not called deleted.
    """
    if not CARD.match(path) or not selects(bundle.config):
        return True
    card = metabase_cards.read_card(before, path) if before is not None else None
    return card is not None and selected(bundle, card)


def selects(config: Mapping[str, Any]) -> bool:
    """Whether a sync's configuration limits it to some collections or cards, or excludes some."""
    return config.get("syncMode", "ALL") != "ALL" and bool(config.get("selections"))


def selected(bundle: Bundle, card: Card) -> bool:
    """Whether the configuration takes a card."""
    config = bundle.config
    if not selects(config):
        return True
    chosen = [one for one in config.get("selections", ()) if isinstance(one, Mapping)]
    by_kind = {
        kind: [number(one.get("metabaseObjectId")) for one in chosen if one.get("selectionType") == kind]
        for kind in ("collection", "item", "card")
    }
    numbers = [one for one in by_kind["collection"] if one is not None]
    inside = metabase_cards.within(bundle.collections, card.collection, numbers)
    named = card.id in by_kind["item"] or card.id in by_kind["card"]
    return (inside or named) if config.get("syncMode") == "ONLY" else not (inside or named)


TEXT_LIMIT = 4000  # characters of a description


@dataclass
class Names:
    """The source names of a connection: each table, model and metric's, unique, the same in every run."""

    tables: dict[int, str] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)  # lower-case name of a table to the source that reads it


@dataclass
class MetabaseProjection:
    """One projection under way."""

    bundle: Bundle
    names: Names
    connection: str
    renderers: dict[int | None, Renderer] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)

    def renderer(self, database: int | None) -> Renderer:
        if database not in self.renderers:
            engine = self.bundle.engines.get(database or 0, "")
            self.renderers[database] = Renderer(self.bundle.tables, self.bundle.cards, engine)
        return self.renderers[database]

    def dialect(self, database: int | None) -> dict[str, str]:
        """The key that says which SQL a source of a database is of; none where nothing here reads that one."""
        return dialect_key(self.bundle.engines.get(database or 0, ""))


def short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 3] + "..."


GROUP_LIMIT = 20  # cards of a group
GROUPS = ("linked", "card", "collection")


def plan(bundle: Bundle, names: Names, connection: str, unresolved: Mapping[str, str], group: str) -> list[Proposal]:
    """All units, whether or not this sync needs them. `unresolved`: raw paths that gave no source."""
    live = {card.id: card for card in bundle.cards.values() if not card.archived}
    facts = CardFacts(bundle, names, connection, unresolved)
    peers = _peers(live.values())
    return [_proposal(members, live, peers, facts) for members in grouped(live, group)]


def grouped(live: Mapping[int, Card], group: str) -> list[list[int]]:
    """Ids of each group's cards, sorted; groups by their least id."""
    assert group in GROUPS
    if group == "card":
        return [[one] for one in sorted(live)]
    if group == "collection":
        by: dict[int, list[int]] = {}
        for one in sorted(live):
            by.setdefault(live[one].collection or 0, []).append(one)
        return sorted(
            members[at : at + GROUP_LIMIT] for members in by.values() for at in range(0, len(members), GROUP_LIMIT)
        )
    leader = {one: one for one in live}

    def find(one: int) -> int:
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    for one, card in live.items():
        for other in card.references:
            if other in live and live[other].collection == card.collection:
                low, high = sorted((find(one), find(other)))
                leader[high] = low
    together: dict[int, list[int]] = {}
    for one in sorted(live):
        together.setdefault(find(one), []).append(one)
    found: list[list[int]] = []
    for members in together.values():
        found += [members] if len(members) <= GROUP_LIMIT else [[one] for one in members]
    return sorted(found)


def _peers(cards: Iterable[Card]) -> dict[int | None, tuple[str, ...]]:
    """Raw paths of the cards of each collection."""
    found: dict[int | None, list[str]] = {}
    for card in sorted(cards, key=lambda one: one.id):
        found.setdefault(card.collection, []).append(card.raw_path)
    return {key: tuple(paths) for key, paths in found.items()}


def _proposal(
    members: list[int], live: Mapping[int, Card], peers: Mapping[int | None, tuple[str, ...]], facts: CardFacts
) -> Proposal:
    cards = [live[one] for one in members]
    own = tuple(card.raw_path for card in cards)
    needed = {live[one].raw_path for one in _closure(members, live)} - set(own)
    others = tuple(path for path in peers[cards[0].collection] if path not in own)[:PEERS_KEPT]
    key = f"card-{members[0]}" if len(members) == 1 else f"cards-{members[0]}"
    more = f" and {len(cards) - 1} more" if len(cards) > 1 else ""
    return Proposal(
        key=key,
        title=f"{cards[0].title}{more}"[:500],
        raw_files=own,
        dependency_paths=tuple(sorted(needed)),
        peers=others,
        facts={"items": [facts.item(card, live) for card in cards]},
    )


def _closure(members: Iterable[int], live: Mapping[int, Card]) -> set[int]:
    """The cards that these build on, directly or through others."""
    found: set[int] = set()
    waiting = list(members)
    while waiting:
        for other in live[waiting.pop()].references:
            if other in live and other not in found:
                found.add(other)
                waiting.append(other)
    return found


class CardFacts:
    """What a worker is told of each card beside its raw file: what only the whole snapshot knows."""

    def __init__(self, bundle: Bundle, names: Names, connection: str, unresolved: Mapping[str, str]) -> None:
        self.bundle, self.names, self.connection, self.unresolved = bundle, names, connection, unresolved
        self._renderers: dict[int | None, Renderer] = {}
        self._readers = {
            **names.foreign,
            **{table.name.lower(): names.tables[table.id] for table in bundle.tables.values()},
            **{table.full_name.lower(): names.tables[table.id] for table in bundle.tables.values()},
        }

    def item(self, card: Card, live: Mapping[int, Card]) -> dict[str, Any]:
        sql, why = self._sql(card)
        reads = self._sources(card, set())
        model = self.names.models.get(card.id)
        projected = card.raw_path not in self.unresolved
        sources = [model] if model and projected else []
        sources += [name for name in reads if name not in sources]
        why = self.unresolved.get(card.raw_path, why)
        return {
            "id": f"card-{card.id}",
            "rawPath": card.raw_path,
            "title": card.title,
            "kind": card.kind,
            **({"description": card.description} if card.description else {}),
            **({"path": list(path)} if (path := self.bundle.collection_path(card)) else {}),
            **({"sql": sql} if sql else {}),
            **({"unresolved": why} if why else {}),
            "columns": [_column(one) for one in card.columns],
            "sources": [f"{self.connection}/{name}" for name in sources],
            **({"tables": tables} if (tables := self._tables(card)) else {}),
            "references": [_reference(live[one]) for one in card.references if one in live],
            **({"shownOn": shown} if (shown := self._shown(card)) else {}),
        }

    def _sql(self, card: Card) -> tuple[str, str]:
        if card.sql and "{{" not in card.sql:
            return card.sql, ""
        renderer = self._renderers.get(card.database)
        if renderer is None:
            engine = self.bundle.engines.get(card.database or 0, "")
            renderer = Renderer(self.bundle.tables, self.bundle.cards, engine)
            self._renderers[card.database] = renderer
        try:
            return renderer.card(card), ""
        except Unreadable as error:
            return "", str(error)

    def _sources(self, card: Card, seen: set[int]) -> list[str]:
        """Names of the sources that a card reads, through the questions that it builds on; a model is one itself."""
        found: list[str] = []
        seen.add(card.id)
        if card.query is not None:
            found += [self.names.tables[one] for one in mbql.tables(card.query) if one in self.names.tables]
            for stage in mbql.stages_of(card.query):
                found += [name for table in tables_in(stage.sql or "") if (name := self._readers.get(table))]
        for other in card.references:
            built_on = self.bundle.cards.get(other)
            if built_on is None or other in seen:
                continue
            model = self.names.models.get(other)
            if model and built_on.raw_path not in self.unresolved:
                found.append(model)
            else:
                found += self._sources(built_on, seen)
        return list(dict.fromkeys(found))

    def _tables(self, card: Card) -> list[str]:
        if card.query is None:
            return []
        found = [self.bundle.tables[one].full_name for one in mbql.tables(card.query) if one in self.bundle.tables]
        return list(dict.fromkeys(found))

    def _shown(self, card: Card) -> list[dict[str, str]]:
        return [{"title": title, "rawPath": path} for title, path in sorted(self.bundle.shown.get(card.id, ()))]


def _column(column: Any) -> dict[str, str]:
    told = {"name": column.name, "type": column.type, "title": column.title, "description": column.description}
    return {key: value for key, value in told.items() if value}


def _reference(card: Card) -> dict[str, str]:
    return {"id": f"card-{card.id}", "title": card.title, "rawPath": card.raw_path}
