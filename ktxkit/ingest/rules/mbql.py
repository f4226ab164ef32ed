"""Reading Metabase's query language, versions 4 and 5.

Version 4 nests (`source-query`) and puts a field's options last; version 5 lists stages and puts every clause's options
second. Old spellings of version 4 (`field-id`, `datetime-field`, `fk->`) become `field`.

A query of Metabase in one form, whichever version it is written in: stages of clauses (`mbql_read` makes them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NESTING_LIMIT = 64  # clauses in clauses; a deeper query is no query a person made


def read(document: Mapping[str, Any]) -> Query:
    """A `dataset_query` of either version. Raises Unreadable."""
    if not isinstance(document, Mapping) or not document:
        raise Unreadable("it has no query")
    base = document.get("database")
    database = base if isinstance(base, int) else None
    try:
        if document.get("lib/type") == "mbql/query" or "stages" in document:
            return Query(database, tuple(_stage5(stage) for stage in _listed(document.get("stages"))))
        if document.get("type") == "native":
            return Query(database, (_native(document.get("native")),))
        return Query(database, tuple(_stages4(_mapped(document.get("query"), "query"), 0)))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unreadable(f"its query has an unknown shape ({type(error).__name__}: {error})") from error


def _listed(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or not value:
        raise Unreadable("its query has no stages")
    return value


def _mapped(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Unreadable(f"its {what} is no object")
    return value


def _native(value: Any) -> Stage:
    found = _mapped(value, "native query")
    sql = found.get("query")
    if not isinstance(sql, str):
        raise Unreadable("its native query is no text (a document database?)")
    return Stage(sql=sql, tags=found.get("template-tags") or found.get("template_tags") or {})


def _stage5(value: Any) -> Stage:
    found = _mapped(value, "stage")
    if found.get("lib/type") == "mbql.stage/native" or "native" in found:
        sql = found.get("native")
        if not isinstance(sql, str):
            raise Unreadable("its native stage is no text (a document database?)")
        return Stage(sql=sql, tags=found.get("template-tags") or {})
    return Stage(
        table=found.get("source-table"),
        card=found.get("source-card"),
        joins=tuple(_join5(join) for join in found.get("joins") or ()),
        filters=tuple(clause5(one) for one in found.get("filters") or ()),
        aggregation=tuple(clause5(one) for one in found.get("aggregation") or ()),
        breakout=tuple(clause5(one) for one in found.get("breakout") or ()),
        expressions=tuple(_expression5(one) for one in found.get("expressions") or ()),
        fields=tuple(clause5(one) for one in found.get("fields") or () if isinstance(one, list)),
        order_by=tuple(clause5(one) for one in found.get("order-by") or ()),
        limit=found.get("limit"),
    )


def _join5(value: Mapping[str, Any]) -> Join:
    return Join(
        tuple(_stage5(stage) for stage in _listed(value.get("stages"))),
        str(value.get("alias", "")),
        tuple(clause5(one) for one in value.get("conditions") or ()),
        str(value.get("strategy", "left-join")),
        value.get("fields", "none"),
    )


def _expression5(value: Any) -> tuple[str, Clause]:
    if isinstance(value, list) and len(value) > 1 and isinstance(value[1], Mapping):
        clause = clause5(value)
        return str(clause.options.get("lib/expression-name", "")), clause
    raise Unreadable("an expression has no name")


def clause5(value: Any, depth: int = 0) -> Any:
    """A clause of version 5: `[op, {options}, args...]`. What is no clause is itself."""
    if depth > NESTING_LIMIT:
        raise Unreadable("its query is nested too deeply")
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], str) and isinstance(value[1], Mapping):
        return Clause(value[0].lower(), tuple(clause5(one, depth + 1) for one in value[2:]), value[1])
    if isinstance(value, list):
        return tuple(clause5(one, depth + 1) for one in value)
    return value


def _stages4(value: Mapping[str, Any], depth: int) -> Iterator[Stage]:
    if depth > NESTING_LIMIT:
        raise Unreadable("its query is nested too deeply")
    inner = value.get("source-query")
    if isinstance(inner, Mapping):
        yield from [_native({"query": inner["native"], **inner})] if "native" in inner else _stages4(inner, depth + 1)
    table, card = _source4(value.get("source-table"))
    where = value.get("filter")
    expressions = value.get("expressions") or {}
    yield Stage(
        table=table,
        card=card,
        joins=tuple(_join4(join) for join in value.get("joins") or ()),
        filters=(clause4(where),) if where else (),
        aggregation=tuple(clause4(one) for one in _several(value.get("aggregation"))),
        breakout=tuple(clause4(one) for one in value.get("breakout") or ()),
        expressions=tuple((str(name), clause4(one)) for name, one in expressions.items()),
        fields=tuple(clause4(one) for one in value.get("fields") or () if isinstance(one, list)),
        order_by=tuple(_order4(one) for one in value.get("order-by") or ()),
        limit=value.get("limit"),
    )


def _several(value: Any) -> Sequence[Any]:
    """One aggregation, or a list of them: the oldest form is a clause where a list of clauses is expected."""
    if not value:
        return ()
    return value if isinstance(value[0], list) else [value]


def _order4(value: Any) -> Clause:
    """`[asc, field]`; the oldest form has the direction last."""
    if isinstance(value[0], list):
        return Clause("asc" if str(value[1]).startswith("asc") else "desc", (clause4(value[0]),))
    found = clause4(value)
    assert isinstance(found, Clause)
    return found


def _source4(value: Any) -> tuple[int | str | None, int | None]:
    if isinstance(value, str) and value.startswith("card__"):
        return None, int(value.removeprefix("card__"))
    return value, None


def _join4(value: Mapping[str, Any]) -> Join:
    inner = value.get("source-query")
    if isinstance(inner, Mapping):
        stages = tuple(_stages4({"source-query": inner}, 0))[:-1]
    else:
        table, card = _source4(value.get("source-table"))
        stages = (Stage(table=table, card=card),)
    condition = value.get("condition")
    conditions = (clause4(condition),) if condition else ()
    if conditions and conditions[0].op == "and":
        conditions = tuple(conditions[0].args)
    return Join(
        stages,
        str(value.get("alias", "")),
        conditions,
        str(value.get("strategy", "left-join")),
        value.get("fields", "none"),
    )


def clause4(value: Any, depth: int = 0) -> Any:
    """A clause of version 4: `[op, args..., {options}]`. What is no clause is itself."""
    if depth > NESTING_LIMIT:
        raise Unreadable("its query is nested too deeply")
    if not isinstance(value, list):
        return value
    if not value or not isinstance(value[0], str):
        return tuple(clause4(one, depth + 1) for one in value)
    op, rest = value[0].lower(), value[1:]
    if op in ("field-id", "field-literal"):
        return Clause("field", (rest[0],))
    if op == "datetime-field":
        return _more_options(clause4(rest[0], depth + 1), {"temporal-unit": rest[-1]})
    if op == "joined-field":
        return _more_options(clause4(rest[1], depth + 1), {"join-alias": rest[0]})
    if op == "fk->":
        inner, source = clause4(rest[1], depth + 1), clause4(rest[0], depth + 1)
        return _more_options(inner, {"source-field": source.args[0] if isinstance(source, Clause) else source})
    if op == "aggregation-options":
        return _more_options(clause4(rest[0], depth + 1), rest[1])
    options = rest[-1] if rest and isinstance(rest[-1], Mapping) else {}
    arguments = rest[:-1] if rest and (isinstance(rest[-1], Mapping) or (op == "field" and rest[-1] is None)) else rest
    return Clause(op, tuple(clause4(one, depth + 1) for one in arguments), options)


def _more_options(clause: Any, options: Mapping[str, Any]) -> Clause:
    if isinstance(clause, int | str):
        clause = Clause("field", (clause,))
    return Clause(clause.op, clause.args, {**clause.options, **options})


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
