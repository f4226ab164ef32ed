"""SQL expressions: exactly one, no template, bounded; and the columns it names. sqlglot (extra `sql`) reads them.

sqlglot is a translator, no judge: it takes `THIS IS NOT VALID SQL` for an alias and `1; drop table x` for a block. So
the text is bounded before it, and what it makes of it is looked at. Without it only templates and bounds are checked.
A text is read in the dialect of its warehouse, where one is named: in sqlglot's own, which takes most of Postgres',
`` `id` `` is no column and `date_trunc(at, month)` names one that is called month.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

LENGTH_LIMIT = 4096  # characters
PAREN_LIMIT = 40  # sqlglot's own recursion ends above 48
OPERATOR_LIMIT = 400  # words and operators: a flat chain recurses too
FILE_LIMIT = 15_000  # words and signs of all expressions of one file: a third of a second

_TEMPLATE = re.compile(r"\$\{|\{\{|\{%|<%")
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[-+*/|<>=!%]+")


# sqlglot's names of dialects, and those that people and tools use for the same.
DIALECTS = frozenset((
    "athena", "bigquery", "clickhouse", "databricks", "doris", "drill", "druid", "duckdb", "dune", "exasol", "fabric",
    "hive", "materialize", "mysql", "oracle", "postgres", "presto", "prql", "redshift", "risingwave", "singlestore",
    "snowflake", "spark", "spark2", "sqlite", "starrocks", "tableau", "teradata", "trino", "tsql",
))  # fmt: skip
ALSO = {
    "postgresql": "postgres", "mariadb": "mysql", "sqlserver": "tsql", "mssql": "tsql", "sparksql": "spark",
    "bigquery-cloud-sdk": "bigquery", "presto-jdbc": "presto", "databricks-sql": "databricks", "starburst": "trino",
    "druid-jdbc": "druid", "glue": "spark", "synapse": "tsql",
}  # fmt: skip
USUAL = ("bigquery", "mysql", "databricks", "snowflake", "postgres", "duckdb", "redshift", "tsql")


def dialect_of(name: str) -> str:
    """The dialect that a name means; empty for one that is none."""
    plain = name.strip().casefold()
    return plain if plain in DIALECTS else ALSO.get(plain, "")


class Expression(NamedTuple):
    """What an expression is. `rule` is empty where nothing is wrong; `columns` are (qualifier or "", name)."""

    rule: str = ""
    message: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    checked: bool = False


@cache
def available() -> str:
    """sqlglot's version, or nothing where it is not installed."""
    try:
        import sqlglot
    except ImportError:
        return ""
    return str(getattr(sqlglot, "__version__", "unknown"))


def size(text: str) -> int:
    """Words and signs of an expression: what reading it takes grows with them."""
    return len(_TOKEN.findall(_LITERAL.sub("''", text))) if len(text) <= LENGTH_LIMIT else 1


@lru_cache(maxsize=1 << 14)
def read(text: str, dialect: str = "") -> Expression:
    """Judge one expression, in a dialect of DIALECTS or in sqlglot's own. Never raises."""
    found = _bounded(text)
    if found is not None:
        return found
    if not available():
        return Expression()
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    sqlglot.logger.setLevel("CRITICAL")  # it talks of statements that are refused anyway
    try:
        trees = sqlglot.parse(text, dialect or None, error_level=sqlglot.ErrorLevel.IMMEDIATE)
        parsed = [tree for tree in trees if tree is not None]
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        # The errors that are not its own are its faults on broken text; the text is no expression either way.
        return Expression("expr-not-expression", _reason(error), checked=True)
    if len(parsed) != 1:
        return Expression(
            "expr-not-expression", f"{len(parsed)} statements where one expression is expected", checked=True
        )
    tree = parsed[0]
    if not isinstance(tree, exp.Expression) or not _is_expression(tree, exp):
        return Expression("expr-not-expression", f"{_name(tree)} where an expression is expected", checked=True)
    return Expression(columns=tuple(dict.fromkeys(_columns(tree, exp))), checked=True)


def _bounded(text: str) -> Expression | None:
    """What can be told without a parser."""
    bare = _LITERAL.sub("''", text)
    if _TEMPLATE.search(bare):
        return Expression("expr-template", "a template stands where SQL is expected")
    if "\0" in text:
        return Expression("expr-not-expression", "a NUL character")
    if not text.strip():
        return Expression("expr-not-expression", "nothing stands where an expression is expected")
    if len(text) > LENGTH_LIMIT:
        return Expression("expr-nesting", f"{len(text)} characters are more than {LENGTH_LIMIT}")
    if bare.count("(") > PAREN_LIMIT or bare.count("[") > PAREN_LIMIT or bare.lower().count("case") > PAREN_LIMIT:
        return Expression("expr-nesting", f"more than {PAREN_LIMIT} parentheses")
    if len(_WORD.findall(bare)) > OPERATOR_LIMIT:
        return Expression("expr-nesting", f"more than {OPERATOR_LIMIT} words and operators")
    return None


_EXPRESSIONS = ("Condition", "Func", "Star", "Distinct", "Interval", "Filter", "WithinGroup", "IgnoreNulls")
_STATEMENTS = ("Query", "DDL", "DML", "Command", "Alias", "Aliases", "Block", "Drop", "Set", "Use")


def _is_expression(tree: Any, exp: Any) -> bool:
    def any_of(names: tuple[str, ...]) -> bool:
        return isinstance(tree, tuple(getattr(exp, name) for name in names if hasattr(exp, name)))

    return any_of(_EXPRESSIONS) and not any_of(_STATEMENTS)


def _name(tree: Any) -> str:
    return f"a{'n' if type(tree).__name__[0] in 'AEIOU' else ''} {type(tree).__name__.lower()}"


def _reason(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("\n")[0][:200] or type(error).__name__


def _columns(tree: Any, exp: Any) -> Iterator[tuple[str, str]]:
    """The columns named outside subqueries, which have columns of their own."""
    for node in tree.walk(prune=lambda one: isinstance(one, exp.Query | exp.Subquery | exp.Lambda)):
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            qualifier = ".".join(part.name for part in node.parts[:-1])
            yield qualifier, node.name
