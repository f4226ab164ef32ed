"""Table names in SQL text, found without a parser: the names that stand where a table stands. A hint, never a proof.

The clauses of MBQL that mean the same in every SQL engine, rendered. Any other is Unreadable.

SQL of a card: Metabase's own where a bundle has it, a native query as it stands, else rendered from MBQL.

What cannot be rendered for certain is not rendered at all: `Unreadable` says why, and the card is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules.mbql import Clause, Join, Stage, Unreadable, walk
from ktxkit.ingest.rules.metabase_cards import Card, Table

_SKIPPED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_PART = r'(?:"[^"]+"|`[^`]+`|\[[^\]]+\]|[A-Za-z_][A-Za-z0-9_$]*)'
_TABLE = re.compile(rf"\b(?:from|join)\s+({_PART}(?:\s*\.\s*{_PART})*)", re.IGNORECASE)
_CTE = re.compile(
    rf"(?:\bwith(?:\s+recursive)?|,)\s*({_PART})\s*(?:\([^()]*\)\s*)?as\s*(?:not\s+)?(?:materialized\s*)?\(",
    re.IGNORECASE,
)


def tables_in(sql: str) -> list[str]:
    """Names after FROM and JOIN, in lower case, without quotes, without the names that WITH defines; each once."""
    bare = _SKIPPED.sub(" ", sql)
    own = {_plain(found) for found in _CTE.findall(bare)}
    names = (_plain(found) for found in _TABLE.findall(bare))
    return list(dict.fromkeys(name for name in names if name not in own))


def _plain(name: str) -> str:
    parts = re.findall(_PART, name)
    return ".".join(part.strip('"`[]') for part in parts).lower()


Render = Callable[[Any], str]
COMPARED = {"=": "=", "!=": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
COMPUTED = {"+": "+", "-": "-", "*": "*"}
AGGREGATED = {"sum": "sum", "avg": "avg", "min": "min", "max": "max"}
FUNCTIONS = {"upper": "upper", "lower": "lower", "trim": "trim", "abs": "abs", "round": "round", "floor": "floor"}
FUNCTIONS |= {"ceil": "ceil", "coalesce": "coalesce", "length": "length"}


def literal(value: Any) -> str:
    """A number, text, truth value or NULL. Text with a backslash means different things to different engines."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str) and "\\" not in value and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    raise Unreadable(f"a value that cannot be written for certain: {str(value)[:80]!r}")


def render(clause: Clause, inner: Render) -> str:
    """A filter, aggregation or computation. `inner` renders its arguments."""
    for known in (_compared, _combined, _aggregated, _computed):
        made = known(clause, inner)
        if made is not None:
            return made
    raise Unreadable(f"the clause {clause.op!r} is not known here")


def _compared(clause: Clause, inner: Render) -> str | None:
    op, args = clause.op, clause.args
    if op in ("is-null", "not-null"):
        return f"{inner(args[0])} IS {'NOT ' if op == 'not-null' else ''}NULL"
    if op == "between":
        return f"{inner(args[0])} BETWEEN {inner(args[1])} AND {inner(args[2])}"
    if op in ("=", "!=") and (len(args) > 2 or None in args[1:]):
        return _in(clause, inner)
    if op in ("in", "not-in"):
        return _in(Clause("=" if op == "in" else "!=", args, clause.options), inner)
    if op == "!=":  # Metabase counts what is empty as different
        what = inner(args[0])
        return f"({what} <> {inner(args[1])} OR {what} IS NULL)"
    if op in COMPARED:
        return f"{inner(args[0])} {COMPARED[op]} {inner(args[1])}"
    if op in ("contains", "starts-with", "ends-with", "does-not-contain"):
        return _like(clause, inner)
    return None


def _in(clause: Clause, inner: Render) -> str:
    if any(isinstance(one, Clause) for one in clause.args[1:]) or None in clause.args[1:]:
        raise Unreadable("it compares with several columns, or with nothing")
    listed = ", ".join(inner(one) for one in clause.args[1:])
    what = inner(clause.args[0])
    return f"{what} IN ({listed})" if clause.op == "=" else f"({what} NOT IN ({listed}) OR {what} IS NULL)"


def _like(clause: Clause, inner: Render) -> str:
    what = clause.args[1] if len(clause.args) == 2 else None
    if not isinstance(what, str) or any(char in what for char in "%_\\"):
        raise Unreadable("it looks for text that has a wildcard, or for several")
    before = "" if clause.op == "starts-with" else "%"
    after = "" if clause.op == "ends-with" else "%"
    pattern, what_in = literal(f"{before}{what}{after}"), inner(clause.args[0])
    if not clause.options.get("case-sensitive", True):
        pattern, what_in = pattern.lower(), f"lower({what_in})"
    if clause.op == "does-not-contain":
        return f"({what_in} NOT LIKE {pattern} OR {what_in} IS NULL)"
    return f"{what_in} LIKE {pattern}"


def _combined(clause: Clause, inner: Render) -> str | None:
    if clause.op in ("and", "or"):
        return "(" + f" {clause.op.upper()} ".join(inner(one) for one in clause.args) + ")"
    return f"NOT ({inner(clause.args[0])})" if clause.op == "not" else None


def _aggregated(clause: Clause, inner: Render) -> str | None:
    op, args = clause.op, clause.args
    if op == "count":
        return f"count({inner(args[0])})" if args else "count(*)"
    if op == "distinct":
        return f"count(DISTINCT {inner(args[0])})"
    if op == "count-where":
        return f"sum(CASE WHEN {inner(args[0])} THEN 1 ELSE 0 END)"
    if op == "sum-where":
        return f"sum(CASE WHEN {inner(args[1])} THEN {inner(args[0])} ELSE 0 END)"
    return f"{AGGREGATED[op]}({inner(args[0])})" if op in AGGREGATED else None


def _computed(clause: Clause, inner: Render) -> str | None:
    op, args = clause.op, clause.args
    if op in COMPUTED and len(args) > 1:
        return "(" + f" {COMPUTED[op]} ".join(inner(one) for one in args) + ")"
    if op == "/" and len(args) == 2:  # two whole numbers give a fraction, a division by zero gives nothing
        return f"({inner(args[0])} * 1.0 / NULLIF({inner(args[1])}, 0))"
    if op == "case":
        return _case(clause, inner)
    return f"{FUNCTIONS[op]}({', '.join(inner(one) for one in args)})" if op in FUNCTIONS else None


def _case(clause: Clause, inner: Render) -> str:
    pairs = clause.args[0] if clause.args else ()
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise Unreadable("a case has an unknown shape")
    parts = "".join(f" WHEN {inner(when)} THEN {inner(then)}" for when, then in pairs)
    default = clause.options.get("default", clause.args[1] if len(clause.args) > 1 else None)
    last = f" ELSE {inner(default)}" if default is not None else ""
    return f"CASE{parts}{last} END"


TRUNCATING = frozenset({"postgres", "redshift", "snowflake", "duckdb", "vertica", "materialize", "crunchydata"})
TICKED = frozenset({"mysql", "mariadb", "bigquery-cloud-sdk", "bigquery", "sparksql", "databricks", "clickhouse"})
UNITS = frozenset({"minute", "hour", "day", "month", "quarter", "year"})
STRATEGIES = {"left-join": "LEFT JOIN", "right-join": "RIGHT JOIN", "inner-join": "JOIN", "full-join": "FULL JOIN"}
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_OPTIONAL = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_TAG = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_RESERVED = frozenset(
    ["order", "group", "user", "table", "select", "from", "where", "join", "limit", "end", "case", "default", "all"]
)


@dataclass
class Renderer:
    """Renders cards of one database. `cards` and `tables` are all that a query may name."""

    tables: Mapping[int, Table]
    cards: Mapping[int, Card]
    engine: str = ""
    _fields: dict[int, tuple[Table, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fields = {
            one.field_id: (table, one.name)
            for table in self.tables.values()
            for one in table.columns
            if one.field_id is not None
        }

    def card(self, card: Card, within: Sequence[int] = ()) -> str:
        """A card's SQL, without a last semicolon. Raises Unreadable."""
        if card.id in within:
            raise Unreadable(f"cards refer to each other in a circle: {', '.join(map(str, (*within, card.id)))}")
        if card.query is None:
            raise Unreadable(card.unreadable)
        inner = (*within, card.id)
        sql, before = "", None
        for stage in card.query.stages:
            sql = self._native(card, stage, inner) if stage.sql is not None else self._stage(stage, sql, before, inner)
            before = stage
        return sql

    def _native(self, card: Card, stage: Stage, within: Sequence[int]) -> str:
        """A native query with the cards that it names written in, and its optional clauses left out."""
        assert stage.sql is not None

        def put(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("#"):
                number = re.match(r"#\s*([0-9]+)", name)
                if number is None or int(number[1]) not in self.cards:
                    raise Unreadable(f"it names card {name}, which is not here")
                return f"(\n{self.card(self.cards[int(number[1])], within)}\n)"
            return self._variable(name, {**card.tags, **stage.tags}.get(name))

        body = _OPTIONAL.sub("", stage.sql)
        return _bare(re.sub(r"\(\s*(\{\{\s*#[^{}]*\}\})\s*\)", r"\1", body), put)

    def _variable(self, name: str, tag: Any) -> str:
        kind = tag.get("type") if isinstance(tag, Mapping) else None
        if kind == "dimension":
            return "1 = 1"  # a field filter without a value
        default = (tag.get("default") or tag.get("defaultValue")) if isinstance(tag, Mapping) else None
        if default is None or isinstance(default, list | dict) or kind == "snippet":
            raise Unreadable(f"it has the variable {name!r} without a default")
        return literal(default)

    def _stage(self, stage: Stage, inner: str, before: Stage | None, within: Sequence[int]) -> str:
        scope = self._scope(stage, inner, before, within)
        joins = [self._join(join, scope, within) for join in stage.joins]
        lines = [f"SELECT {self._selected(stage, scope)}", f"FROM {scope.source}", *joins]
        if stage.filters:
            lines.append("WHERE " + " AND ".join(self.expression(one, scope) for one in stage.filters))
        if stage.breakout and stage.aggregation:
            lines.append("GROUP BY " + ", ".join(str(place) for place, _ in enumerate(stage.breakout, start=1)))
        if stage.order_by:
            lines.append("ORDER BY " + ", ".join(self._ordered(one, stage, scope) for one in stage.order_by))
        if stage.limit is not None:
            lines.append(f"LIMIT {int(stage.limit)}")
        return "\n".join(lines)

    def _scope(self, stage: Stage, inner: str, before: Stage | None, within: Sequence[int]) -> SqlScope:
        if inner:
            return SqlScope(f"(\n{inner}\n) AS source", "source", None, stage)
        if isinstance(stage.card, int):
            if stage.card not in self.cards:
                raise Unreadable(f"it is built on card {stage.card}, which is not here")
            return SqlScope(f"(\n{self.card(self.cards[stage.card], within)}\n) AS source", "source", None, stage)
        if not isinstance(stage.table, int) or stage.table not in self.tables:
            raise Unreadable(f"it reads table {stage.table}, whose metadata is not here")
        table = self.tables[stage.table]
        return SqlScope(self.table(table), self.name(table.name), table, stage)

    def _join(self, join: Join, scope: SqlScope, within: Sequence[int]) -> str:
        strategy = STRATEGIES.get(join.strategy)
        if strategy is None or not join.conditions or not join.alias:
            raise Unreadable("it has a join without alias, condition or known strategy")
        last = join.stages[-1]
        if len(join.stages) == 1 and last.plain and isinstance(last.table, int) and last.table in self.tables:
            what = self.table(self.tables[last.table])
        else:
            sql, before = "", None
            for stage in join.stages:
                if stage.sql is not None:
                    raise Unreadable("it joins a native query")
                sql, before = self._stage(stage, sql, before, within), stage
            what = f"(\n{sql}\n)"
        on = " AND ".join(self.expression(one, scope) for one in join.conditions)
        return f"{strategy} {what} AS {self.name(join.alias)} ON {on}"

    def _selected(self, stage: Stage, scope: SqlScope) -> str:
        if stage.aggregation or stage.breakout:
            parts = [self._named(one, scope) for one in stage.breakout]
            parts += [f"{self.expression(one, scope)} AS {self.name(title(one))}" for one in stage.aggregation]
            return ", ".join(parts)
        if stage.fields:
            return ", ".join(self._named(one, scope) for one in stage.fields)
        if any(join.fields not in ("none", None) for join in stage.joins):
            return self._all(stage, scope)
        extra = [f"{self.expression(one, scope)} AS {self.name(name)}" for name, one in stage.expressions]
        return ", ".join([f"{scope.alias}.*" if stage.joins else "*", *extra])

    def _all(self, stage: Stage, scope: SqlScope) -> str:
        """Every column of the source and of its joins, under the names that Metabase gives them."""
        if scope.table is None:
            raise Unreadable("it joins to a subquery and selects every column")
        parts = [f"{scope.alias}.{self.name(one.name)}" for one in scope.table.columns]
        for join in stage.joins:
            last = join.stages[-1]
            if join.fields == "none":
                continue
            if join.fields != "all" or not last.plain or not isinstance(last.table, int):
                raise Unreadable("it selects some columns of a join")
            alias = self.name(join.alias)
            for one in self.tables[last.table].columns:
                parts.append(f"{alias}.{self.name(one.name)} AS {self.name(f'{join.alias}__{one.name}')}")
        return ", ".join(parts)

    def _named(self, clause: Clause, scope: SqlScope) -> str:
        made = self.expression(clause, scope)
        name = self.name(title(clause) if clause.op != "field" else self._column(clause)[1])
        return made if made == name or made.endswith(f".{name}") else f"{made} AS {name}"

    def _ordered(self, clause: Clause, stage: Stage, scope: SqlScope) -> str:
        if clause.op not in ("asc", "desc") or not clause.args:
            raise Unreadable("it is ordered in an unknown way")
        inner = clause.args[0]
        if isinstance(inner, Clause) and inner.op == "aggregation":
            made = self._aggregated(inner, stage)
        else:
            made = self.expression(inner, scope)
        return made if clause.op == "asc" else f"{made} DESC"

    def _aggregated(self, clause: Clause, stage: Stage) -> str:
        """The name of an aggregation that is referred to by its place (version 4) or its uuid (version 5)."""
        for place, one in enumerate(stage.aggregation):
            if clause.args[0] in (place, one.options.get("lib/uuid")):
                return self.name(title(one))
        raise Unreadable("it is ordered by an aggregation that it does not have")

    def _column(self, clause: Clause) -> tuple[Table | None, str]:
        what = clause.args[0] if clause.args else None
        if isinstance(what, int):
            if what not in self._fields:
                raise Unreadable(f"it names field {what}, whose metadata is not here")
            return self._fields[what]
        if not isinstance(what, str):
            raise Unreadable("it names a field that is neither a number nor a name")
        return None, what

    def expression(self, clause: Any, scope: SqlScope) -> str:
        """One expression. Raises Unreadable for what is not known here."""
        if not isinstance(clause, Clause):
            return literal(clause)
        if clause.op == "field":
            return self._field(clause, scope)
        if clause.op == "expression":
            return self._reference(clause, scope)
        if clause.op == "value":
            return literal(clause.args[0])
        return render(clause, lambda one: self.expression(one, scope))

    def _field(self, clause: Clause, scope: SqlScope) -> str:
        if "source-field" in clause.options or "binning" in clause.options:
            raise Unreadable("it reads a column through a foreign key, or in bins")
        table, name = self._column(clause)
        alias = clause.options.get("join-alias")
        if alias:
            made = f"{self.name(str(alias))}.{self.name(name)}"
        elif scope.table is not None and table is not None and table.id != scope.table.id:
            raise Unreadable(f"it reads {table.full_name}, which it does not join")
        else:
            made = f"{scope.alias}.{self.name(name)}" if scope.stage.joins else self.name(name)
        unit = clause.options.get("temporal-unit")
        if unit in (None, "default"):
            return made
        if self.engine not in TRUNCATING or unit not in UNITS:
            raise Unreadable(f"it groups time by {unit} on {self.engine or 'an unknown engine'}")
        return f"date_trunc('{unit}', {made})"

    def _reference(self, clause: Clause, scope: SqlScope) -> str:
        for name, one in scope.stage.expressions:
            if clause.args and name == clause.args[0]:
                if any(inner.op == "expression" and inner.args[:1] == (name,) for inner in walk(one)):
                    raise Unreadable(f"the expression {name!r} names itself")
                return f"({self.expression(one, scope)})"
        raise Unreadable("it names an expression that it does not have")

    def table(self, table: Table) -> str:
        return f"{self.name(table.schema)}.{self.name(table.name)}" if table.schema else self.name(table.name)

    def name(self, text: str) -> str:
        """An identifier, quoted where it must be."""
        if _PLAIN.match(text) and text not in _RESERVED:
            return text
        quote = "`" if self.engine in TICKED else '"'
        if quote in text or "\\" in text or any(not char.isprintable() for char in text):
            raise Unreadable(f"the name {text!r} cannot be quoted for certain")
        return f"{quote}{text}{quote}"


@dataclass(frozen=True)
class SqlScope:
    """What names mean in a stage: its source in FROM, the alias of that, its table where it is one."""

    source: str
    alias: str
    table: Table | None
    stage: Stage


def title(clause: Clause) -> str:
    """The name of an aggregation or expression in a result, as Metabase names it."""
    for key in ("name", "lib/expression-name", "display-name"):
        if isinstance(clause.options.get(key), str):
            return str(clause.options[key])
    if clause.op == "distinct":
        return "count"
    return str(clause.args[0]) if clause.op == "expression" and clause.args else clause.op.replace("-", "_")


def _bare(sql: str, put: Callable[[re.Match[str]], str]) -> str:
    return _TAG.sub(put, sql).strip().rstrip(";").rstrip()
