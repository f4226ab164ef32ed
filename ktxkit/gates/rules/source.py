"""A semantic-layer file: standalone source, overlay, or `_schema` shard. Facts are plain JSON values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.violations import Violation
from ktxkit.base.rules.yaml_nodes import Node, Problem
from ktxkit.gates.rules import expressions, shape, suppressions

Facts = dict[str, Any]
Judge = Callable[[str, Any], Sequence[Violation]]

STANDALONE, OVERLAY, SHARD = "artifact-source", "artifact-overlay", "artifact-shard"
FORMS = {STANDALONE: "standalone", OVERLAY: "overlay", SHARD: "shard"}
KINDS = ("columns", "measures", "segments")
EXPRESSIONS = {"columns": ("expr",), "measures": ("expr", "filter"), "segments": ("expr",), "joins": ("on",)}
_NAME_LINE = re.compile(r"(?m)^name:[ \t]*(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s#'\"][^\n#]*?))[ \t]*(?:#.*)?\r?$")


def read(data: bytes, judge: Judge, *, shard: bool) -> Facts:
    """The facts of a file of the semantic layer. `judge` tells departures from a contract. Never raises."""
    parsed = strict_yaml.read(data)
    problems = list(parsed.problems)
    root = parsed.root
    facts: Facts = {"kind": "sources", "form": "", "sources": [], "names": [], "ignores": []}
    if root is None:
        facts["form"] = "broken"
        facts["names"] = _identity(parsed.text)
    else:
        contract = SHARD if shard else _contract(root)
        facts["form"] = FORMS[contract]
        problems += shape.judged(contract, root, judge, dates=shape.SOURCE_DATES)
        budget = _Budget()
        entries = _tables(root, budget) if shard else [_source(root, root.get("name"), budget)]
        facts["sources"] = [entry for entry in entries if entry is not None]
        problems += _both(root) if contract == STANDALONE else []
        problems += _twice(root, shard)
        facts["ignores"] = suppressions.in_yaml(
            parsed.text, 1, shape.scalars(root) if "ktx-gate" in parsed.text else ()
        )
    facts["problems"] = [[p.rule, p.line, p.column, p.message, p.hint, p.level] for p in problems]
    return facts


def _identity(text: str) -> list[str]:
    """The name that a file declares although it cannot be read: YAML that breaks below the line keeps its identity."""
    found = _NAME_LINE.search(text)
    return [next(group for group in found.groups() if group)] if found else []


def _contract(root: Node) -> str:
    return STANDALONE if root.kind != "map" or root.get("table") or root.get("sql") else OVERLAY


def _both(root: Node) -> list[Problem]:
    sql = root.get("sql")
    if root.get("table") is None or sql is None:
        return []
    return [Problem("table-or-sql", sql.line, sql.column, "the source has both a table and sql", "keep one of them")]


def _tables(root: Node, budget: _Budget) -> Iterator[Facts | None]:
    tables = root.get("tables")
    for key, value in tables.items if tables is not None and tables.kind == "map" else ():
        yield _source(value, key, budget)


def _source(node: Node, name: Node | None, budget: _Budget) -> Facts | None:
    if name is None or not isinstance(name.plain, str) or node.kind != "map":
        return None
    found: Facts = {"name": name.plain, "line": name.line, "column": name.column}
    for key in ("table", "inherits_columns_from"):
        value = _text(node.get(key))
        if value is not None:
            found[key] = value.plain
    for kind in KINDS:
        found[kind] = [[n.plain, n.line, n.column] for _, n in _named(node, kind)]
    found["joins"] = list(_joins(node))
    found["grain"] = _texts(node, "grain")
    found["excluded"] = _texts(node, "exclude_columns")
    found["overridden"] = _overridden(node)
    found["times"] = [[n.plain, n.line, n.column] for n in _times(node)]
    found["disabled"] = [text for text, _, _ in _texts(node, "disable_joins")]
    found["expressions"] = list(_expressions(node, budget))
    found["uses"] = [use for _, item in _items(node, "measures") for use in _texts(item, "segments")]
    return found


class _Budget:
    """The expressions of one file, read until they are more than is read; that is told once."""

    def __init__(self) -> None:
        self.left = expressions.FILE_LIMIT

    def read(self, text: str) -> expressions.Read:
        if self.left <= 0:
            return expressions.Read()
        self.left -= expressions.size(text) + 4  # what each takes however short it is
        if self.left > 0:
            return expressions.read(text)
        message = (
            f"the file's expressions have more than {expressions.FILE_LIMIT} words and signs; here the reading ends"
        )
        return expressions.Read("expr-nesting", message)


def _items(node: Node, kind: str) -> list[tuple[int, Node]]:
    value = node.get(kind)
    return [(n, item) for n, item in enumerate(value.values() if value is not None else ()) if item.kind == "map"]


def _named(node: Node, kind: str) -> Iterator[tuple[Node, Node]]:
    for _, item in _items(node, kind):
        name = _text(item.get("name"))
        if name is not None:
            yield item, name


def _text(node: Node | None) -> Node | None:
    return node if node is not None and node.kind == "scalar" and isinstance(node.plain, str) else None


def _texts(node: Node, key: str) -> list[list[Any]]:
    value = node.get(key)
    found = [_text(item) for item in (value.values() if value is not None else ())]
    return [[item.plain, item.line, item.column] for item in found if item is not None]


def _overridden(node: Node) -> list[list[Any]]:
    """`column_overrides`: a map from names, or a list of maps with names."""
    value = node.get("column_overrides")
    if value is None:
        return []
    if value.kind == "map":
        return [[key.plain, key.line, key.column] for key, _ in value.items if key is not None]
    return [[name.plain, name.line, name.column] for _, name in _named(node, "column_overrides")]


def _times(node: Node) -> Iterator[Node]:
    value = node.get("default_time_dimension")
    for item in [value, *([v for _, v in value.items] if value is not None else [])]:
        text = _text(item)
        if text is not None:
            yield text


def _joins(node: Node) -> Iterator[Facts]:
    for index, item in _items(node, "joins"):
        to = _text(item.get("to"))
        if to is None:
            continue
        found: Facts = {"to": to.plain, "line": to.line, "column": to.column, "index": index}
        alias, on = _text(item.get("alias")), _text(item.get("on"))
        if alias is not None:
            found["alias"] = alias.plain
        if on is not None:
            found["on"] = on.plain
        yield found


def _expressions(node: Node, budget: _Budget) -> Iterator[list[Any]]:
    """[what it is, text, line, column, rule, message, columns]: each expression, read once."""
    for kind, keys in (
        ("columns", ("expr",)),
        ("measures", ("expr", "filter")),
        ("segments", ("expr",)),
        ("joins", ("on",)),
    ):
        for index, item in _items(node, kind):
            name = _text(item.get("to" if kind == "joins" else "name"))
            for key in keys:
                text = _text(item.get(key))
                if text is not None:
                    read = budget.read(text.plain)
                    what = f"{kind}[{name.plain if name is not None else index}].{key}"
                    columns = [list(column) for column in read.columns]
                    yield [what, text.plain, text.line, text.column, read.rule, read.message, columns]


def _twice(root: Node, shard: bool) -> list[Problem]:
    """Two entities of one kind with one name."""
    tables = root.get("tables") if shard else None
    nodes = [value for _, value in tables.items] if tables is not None else [root]
    problems = []
    for node in nodes:
        for kind in KINDS:
            seen: set[str] = set()
            for _, name in _named(node, kind) if node.kind == "map" else ():
                if name.plain in seen:
                    message = f"{name.plain!r} stands twice among the {kind}"
                    problems.append(Problem("duplicate-entity", name.line, name.column, message, "rename one of them"))
                seen.add(name.plain)
    return problems
