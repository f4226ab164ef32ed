"""A Metabase snapshot as a whole: what its raw files say together.

Two layouts are read: that of staged bundles (`cards/`, `collections/`, `databases/`, `sync-config.json`) and that of
the API's paths (`card/`, `collection.json`, `database/ID/metadata.json`, `dashboard/`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules.metabase import cards, content
from ktxkit.ingest.rules.metabase.cards import Card, Collection, Table, number, text

CONFIG = "sync-config.json"
CARD = re.compile(r"cards?/[0-9]+\.json\Z")
COLLECTION = re.compile(r"collections?/[0-9]+\.json\Z")
DATABASE = re.compile(r"databases?/[0-9]+(/metadata)?\.json\Z")
DASHBOARD = re.compile(r"dashboards?/[0-9]+\.json\Z")
HOLDER = re.compile(r"(cards?|collections?|dashboards?|databases?(/[0-9]+)?)\Z")
NO_DOCUMENT = (ValueError, TypeError, KeyError, AttributeError)  # what `kept` raises for a document of another shape
LISTED = {"collection.json": content.collection, "database.json": content.database, "table.json": content.table}
_CONFIG_KEYS = ("metabaseConnectionId", "metabaseDatabaseId", "syncMode", "selections", "defaultTagNames", "mapping")


def wanted(path: str) -> bool:
    """Whether a file of a bundle is part of its snapshot. People (`user/`) and listings of what is there never are."""
    return path == CONFIG or path in LISTED or any(p.match(path) for p in (CARD, COLLECTION, DATABASE, DASHBOARD))


def holds(path: str) -> bool:
    """Whether a directory at this path holds files of a bundle."""
    return HOLDER.match(path) is not None


def kept(path: str, value: Any) -> Any:
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
    (CARD, content.card),
    (COLLECTION, content.collection),
    (DATABASE, content.database),
    (DASHBOARD, content.dashboard),
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
        return card.path or cards.path_of(self.collections, card.collection)


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
        card = cards.card(value, path)
        if card is None:
            bundle.warnings.append(f"{path} is no card")
        elif card.id in bundle.cards:
            bundle.warnings.append(f"{path} and {bundle.cards[card.id].raw_path} are both card {card.id}")
        else:
            bundle.cards[card.id] = card
    elif COLLECTION.match(path) or path == "collection.json":
        collection = cards.collection(value, path)
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
    table = cards.table(value, path)
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
    card = cards.card(before, path) if before is not None else None
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
    inside = cards.within(bundle.collections, card.collection, numbers)
    named = card.id in by_kind["item"] or card.id in by_kind["card"]
    return (inside or named) if config.get("syncMode") == "ONLY" else not (inside or named)
