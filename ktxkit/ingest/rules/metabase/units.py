"""Units of a Metabase snapshot: cards that build on each other within a collection are one group.

A group that has too many cards falls apart into single ones. What a card builds on elsewhere is a dependency: a change
of it is a change of the unit. Keys come from the least card id of a group, so that a new card moves no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktxkit.ingest.rules.metabase import mbql
from ktxkit.ingest.rules.metabase.bundle import Bundle
from ktxkit.ingest.rules.metabase.cards import Card
from ktxkit.ingest.rules.metabase.making import Names
from ktxkit.ingest.rules.metabase.mbql import Unreadable
from ktxkit.ingest.rules.metabase.sql import Renderer
from ktxkit.ingest.rules.planning import PEERS_KEPT, Proposal
from ktxkit.ingest.rules.sql_words import tables_in

GROUP_LIMIT = 20  # cards of a group
GROUPS = ("linked", "card", "collection")


def plan(bundle: Bundle, names: Names, connection: str, unresolved: Mapping[str, str], group: str) -> list[Proposal]:
    """All units, whether or not this sync needs them. `unresolved`: raw paths that gave no source."""
    live = {card.id: card for card in bundle.cards.values() if not card.archived}
    facts = Facts(bundle, names, connection, unresolved)
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
    members: list[int], live: Mapping[int, Card], peers: Mapping[int | None, tuple[str, ...]], facts: Facts
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


class Facts:
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
