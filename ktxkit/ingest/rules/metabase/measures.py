"""Measures of metric cards, segments of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ktxkit.ingest.rules.artifacts import identifier
from ktxkit.ingest.rules.metabase.cards import Card, Column, Table, number, text
from ktxkit.ingest.rules.metabase.making import Making, short
from ktxkit.ingest.rules.metabase.mbql import Clause, Stage, Unreadable
from ktxkit.ingest.rules.metabase.mbql_read import clause4, clause5
from ktxkit.ingest.rules.metabase.sql import Scope


def metrics(making: Making) -> list[Card]:
    found = (card for card in making.bundle.cards.values() if card.kind == "metric" and not card.archived)
    return sorted(found, key=lambda card: card.id)


def measures(making: Making, cards: Iterable[Card], columns: Sequence[Column]) -> list[dict[str, str]]:
    """Measures of metric cards. Two of one name that compute different things are both kept, the later renamed."""
    found: dict[str, dict[str, str]] = {}
    taken = {column.name for column in columns}
    for card in cards:
        try:
            measure = _measure(making, card)
        except Unreadable as error:
            making.unresolved[card.raw_path] = str(error)
            continue
        name = identifier(card.title, f"metric_{card.id}")
        same = found.get(name)
        if same is not None and (same["expr"], same.get("filter")) == (measure["expr"], measure.get("filter")):
            making.warnings.append(f"metric {card.title!r} ({card.raw_path}) is there already; it stands once")
            continue
        if same is not None:
            making.warnings.append(
                f"metric {card.title!r} is computed in two ways: {same['expr']} and {measure['expr']} ({card.raw_path})"
            )
        if same is not None or name in taken:
            name = f"{name}_{card.id}"
        found[name] = {"name": name, **measure}
    return [found[name] for name in sorted(found)]


def _measure(making: Making, card: Card) -> dict[str, str]:
    stage = _one_aggregation(card)
    renderer = making.renderer(card.database)
    table = making.bundle.tables.get(stage.table) if isinstance(stage.table, int) else None
    scope = Scope("", "", table, stage)
    filters = [renderer.expression(one, scope) for one in stage.filters]
    said = short(card.description) if card.description else card.title
    return {
        "expr": renderer.expression(stage.aggregation[0], scope),
        **({"filter": " AND ".join(filters)} if filters else {}),
        "description": said,
    }


def _one_aggregation(card: Card) -> Stage:
    if card.query is None:
        raise Unreadable(card.unreadable)
    stages = card.query.stages
    if len(stages) != 1 or len(stages[0].aggregation) != 1 or stages[0].joins:
        raise Unreadable("a metric is one aggregation of one table or model, without joins")
    return stages[0]


def reads(card: Card, table: int) -> bool:
    stages = card.query.stages if card.query else ()
    return len(stages) == 1 and stages[0].table == table and stages[0].card is None


def segments(making: Making, table: Table) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in table.segments:
        name = identifier(text(one.get("name")), f"segment_{number(one.get('id'))}")
        try:
            expr = _definition(making, table, one.get("definition"))
        except Unreadable as error:
            making.warnings.append(f"segment {name} of {table.full_name} is left out: {error}")
            continue
        name = name if name not in found else f"{name}_{number(one.get('id'))}"
        said = {"description": short(text(one.get("description")))} if text(one.get("description")) else {}
        found[name] = {"name": name, "expr": expr, **said}
    return [found[name] for name in sorted(found)]


def _definition(making: Making, table: Table, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise Unreadable("it has no definition")
    stages = value.get("stages")
    read: Callable[[Any], Any] = clause5 if isinstance(stages, list) else clause4
    filters = stages[0].get("filters", []) if isinstance(stages, list) and stages else [value.get("filter")]
    scope = Scope("", "", table, Stage(table=table.id))
    made = [making.renderer(table.database).expression(clause, scope) for clause in map(read, filters)]
    if not made or not all(isinstance(read(one), Clause) for one in filters):
        raise Unreadable("its definition has no filter")
    return " AND ".join(made)
