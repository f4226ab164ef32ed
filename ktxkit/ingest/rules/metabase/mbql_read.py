"""Reading Metabase's query language, versions 4 and 5.

Version 4 nests (`source-query`) and puts a field's options last; version 5 lists stages and puts every clause's options
second. Old spellings of version 4 (`field-id`, `datetime-field`, `fk->`) become `field`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktxkit.ingest.rules.metabase.mbql import Clause, Join, Query, Stage, Unreadable

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
