"""A query of Metabase in one form, whichever version it is written in: stages of clauses (`mbql_read` makes them)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

CARD_TAG = re.compile(r"\{\{\s*#\s*([0-9]+)[^}]*\}\}")


class Unreadable(Exception):
    """A query that is not one that is known here; the message says why."""


@dataclass(frozen=True)
class Clause:
    """One clause: `op` in lower case; `args` are clauses, numbers, text, None or lists of them."""

    op: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Join:
    """A join: what is joined (`stages`, its last is the outermost), under which alias, on which conditions."""

    stages: tuple[Stage, ...]
    alias: str
    conditions: tuple[Clause, ...] = ()
    strategy: str = "left-join"
    fields: Any = "none"


@dataclass(frozen=True)
class Stage:
    """One step of a query. A native stage has `sql`; the first other stage has a table or a card as its source."""

    sql: str | None = None
    tags: Mapping[str, Any] = field(default_factory=dict)
    table: int | str | None = None
    card: int | None = None
    joins: tuple[Join, ...] = ()
    filters: tuple[Clause, ...] = ()
    aggregation: tuple[Clause, ...] = ()
    breakout: tuple[Clause, ...] = ()
    expressions: tuple[tuple[str, Clause], ...] = ()
    fields: tuple[Clause, ...] = ()
    order_by: tuple[Clause, ...] = ()
    limit: int | None = None

    @property
    def plain(self) -> bool:
        """Whether it is its source and nothing else."""
        parts = (self.joins, self.filters, self.aggregation, self.breakout, self.expressions, self.fields)
        return self.sql is None and not any(parts) and not self.order_by and self.limit is None


@dataclass(frozen=True)
class Query:
    """A whole query. `stages` run in order, each on the one before; the first has the source."""

    database: int | None
    stages: tuple[Stage, ...]


def walk(value: Any) -> Iterator[Clause]:
    """A clause and every clause in it."""
    if isinstance(value, Clause):
        yield value
        for one in value.args:
            yield from walk(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from walk(one)


def stages_of(query: Query) -> Iterator[Stage]:
    """Every stage, those of joins included."""
    waiting = list(query.stages)
    while waiting:
        stage = waiting.pop(0)
        yield stage
        waiting += [inner for join in stage.joins for inner in join.stages]


def clauses_of(query: Query) -> Iterator[Clause]:
    """Every clause of every stage."""
    for stage in stages_of(query):
        parts = (stage.filters, stage.aggregation, stage.breakout, stage.fields, stage.order_by)
        yield from walk((*parts, tuple(one for _, one in stage.expressions)))
        for join in stage.joins:
            yield from walk(join.conditions)


def tables(query: Query) -> list[int]:
    """Ids of the tables that a query reads by itself, in order of appearance."""
    return list(dict.fromkeys(stage.table for stage in stages_of(query) if isinstance(stage.table, int)))


def cards(query: Query) -> list[int]:
    """Ids of the cards that a query builds on: as a source, joined, in SQL, or as a metric."""
    found = [stage.card for stage in stages_of(query) if isinstance(stage.card, int)]
    for stage in stages_of(query):
        if stage.sql is not None:
            found += [int(number) for number in CARD_TAG.findall(stage.sql)]
            tags = stage.tags.values() if isinstance(stage.tags, Mapping) else ()
            found += [
                tag["card-id"] for tag in tags if isinstance(tag, Mapping) and isinstance(tag.get("card-id"), int)
            ]
    metrics = (one.args[0] for one in clauses_of(query) if one.op == "metric" and one.args)
    found += [number for number in metrics if isinstance(number, int)]
    return list(dict.fromkeys(found))


def segments(query: Query) -> list[int]:
    """Ids of the segments that a query filters by."""
    found = (one.args[0] for one in clauses_of(query) if one.op == "segment" and one.args)
    return list(dict.fromkeys(number for number in found if isinstance(number, int)))
