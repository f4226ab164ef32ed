"""The clauses of MBQL that mean the same in every SQL engine, rendered. Any other is Unreadable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktxkit.ingest.rules.metabase.mbql import Clause, Unreadable

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
