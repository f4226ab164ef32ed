"""The shape of an artifact: what its JSON Schema says about it, told with the places that the YAML reader knows.

A semantic-layer file: standalone source, overlay, or `_schema` shard. Facts are plain JSON values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.plain_validity import Violation
from ktxkit.base.rules.strict_yaml import Node, YamlProblem
from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules import expressions, spelling, suppressions
from ktxkit.gates.rules.expressions import Expression

PAGE_DATES = frozenset({"stale_since", "archived_since", "usage", "fingerprints", "external_refs"})
SOURCE_DATES = frozenset({"usage", "freshness", "tests", "enum_values"})
GATED_KEYS = frozenset({"refs", "sl_refs", "tables", "summary"})
DEPARTURES = 200  # departures of one file; the rest is counted
SHOWN = 200  # characters of a name or a place
_NAMES = {"null": "nothing", "map": "a map", "list": "a list", "str": "text", "bool": "true or false"}


Judge = Callable[[str, Any], Sequence[Violation]]


def judged(contract: str, root: Node, judge: Judge, dates: frozenset[str] = frozenset()) -> list[YamlProblem]:
    """All departures from a contract, with places; and dates where text is expected. `dates`: keys that take one."""
    found = judge(contract, root.data())
    problems = [_told(violation, root) for violation in found[:DEPARTURES]]
    if len(found) > DEPARTURES:
        problems.append(
            YamlProblem(
                "schema-value",
                1,
                1,
                f"{len(found) - DEPARTURES} and perhaps more departures from the schema are not told",
            )
        )
    if root.kind == "map":
        for key, value in root.items:
            if key is not None and key.plain not in dates:
                problems += _dates(value)
    return problems


def _dates(node: Node) -> Iterator[YamlProblem]:
    if node.dateish:
        message = f"{node.plain} is a date to many readers where text is expected"
        yield YamlProblem("schema-type", node.line, node.column, message, "quote it")
    for _, value in node.items:
        yield from _dates(value)


def scalars(node: Node) -> list[tuple[int, int]]:
    """The offsets of all scalars below a node."""
    if node.kind == "scalar":
        return [(node.start, node.end)]
    found = []
    for key, value in node.items:
        if key is not None:
            found.append((key.start, key.end))
        found += scalars(value)
    return found


def _told(violation: Violation, root: Node) -> YamlProblem:
    if violation.keyword == "more":
        return YamlProblem(
            "schema-value", 1, 1, "of a file this large only the first departure from the schema is told"
        )
    node, key = root.at(list(violation.path))
    place = key if key is not None and violation.keyword == "additionalProperties" else node
    name = _dotted(violation.path)
    if violation.keyword == "additionalProperties":
        return _unknown_key(violation, root, name)
    if violation.keyword == "required":
        return YamlProblem("schema-required", node.line, node.column, f"{violation.detail!r} is missing{_in(name)}")
    if violation.keyword == "type":
        return _wrong_type(violation, node, name)
    if violation.keyword in ("not", "pattern") and violation.path and violation.path[-1] == "name":
        message = f"the name {str(node.plain)[:SHOWN]!r} holds what a reference cannot spell"
        return YamlProblem("entity-name", place.line, place.column, message, "no dots, slashes or control characters")
    return YamlProblem("schema-value", place.line, place.column, f"{name or 'the file'}: {_said(violation, node)}")


def _unknown_key(violation: Violation, root: Node, name: str) -> YamlProblem:
    node, _ = root.at(list(violation.path))
    key = next((k for k, _ in node.items if k is not None and k.plain == violation.detail), None)
    near = nearest(violation.detail[:SHOWN], list(violation.known), 1)
    hint = f"did you mean {near[0]!r}?" if near else "remove it, or begin it with x-"
    place = key or node
    return YamlProblem(
        "schema-unknown-key", place.line, place.column, f"{violation.detail[:SHOWN]!r} is no known key{_in(name)}", hint
    )


def _wrong_type(violation: Violation, node: Node, name: str) -> YamlProblem:
    wanted = violation.wanted if isinstance(violation.wanted, list) else [violation.wanted]
    words = {"array": "a list", "object": "a map", "string": "text", "integer": "a whole number", "number": "a number"}
    expected = " or ".join(words.get(str(word), str(word)) for word in wanted)
    is_plain = node.kind == "scalar" and not isinstance(node.plain, str) and node.plain is not None
    hint = "quote it" if "string" in wanted and is_plain else ""
    if not hint and "array" in wanted and node.kind == "scalar":
        hint = (
            "write a list: [...] or one `- ` line for each" if node.plain is not None else "write [] or remove the key"
        )
    if not hint and "string" in wanted and node.kind == "map":
        hint = "a colon and a space make a map; write `a:b`, or quote it"
    return YamlProblem(
        "schema-type", node.line, node.column, f"{name or 'the file'}: {_kind(node)} where {expected} is expected", hint
    )


def _kind(node: Node) -> str:
    if node.kind != "scalar":
        return _NAMES[node.kind]
    if node.plain is None:
        return _NAMES["null"]
    if isinstance(node.plain, str):
        return _NAMES["str"]
    if isinstance(node.plain, dict | list):
        return _NAMES["map" if isinstance(node.plain, dict) else "list"]
    return f"{'true or false' if isinstance(node.plain, bool) else 'the number'} ({str(node.plain)[:SHOWN]})"


def _said(violation: Violation, node: Node) -> str:
    shown = f"a {node.kind} of {len(node.items)}"
    if node.kind == "scalar":
        shown = _kind(node) if isinstance(node.plain, dict | list) else repr(node.plain)[:80]
    if violation.keyword == "enum":
        return f"{shown} is none of {', '.join(map(str, violation.wanted))}"
    limits = {
        "minItems": "fewer than",
        "minLength": "shorter than",
        "maxItems": "more than",
        "maxLength": "longer than",
    }
    if violation.keyword in limits:
        return f"{limits[violation.keyword]} {violation.wanted}"
    return f"{shown} is not allowed ({violation.keyword})"


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part[:SHOWN]}" for part in path).lstrip(".")


def _in(name: str) -> str:
    return f" in {name}" if name else ""


Facts = dict[str, Any]

STANDALONE, OVERLAY, SHARD = "artifact-source", "artifact-overlay", "artifact-shard"
FORMS = {STANDALONE: "standalone", OVERLAY: "overlay", SHARD: "shard"}
DIALECT = "x-dialect"  # of a source: the dialect of its SQL
KINDS = ("columns", "measures", "segments")
_NAME_LINE = re.compile(r"(?m)^name:[ \t]*(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s#'\"][^\n#]*?))[ \t]*(?:#.*)?\r?$")


def read_source(data: bytes, judge: Judge, *, shard: bool) -> Facts:
    """The facts of a file of the semantic layer. `judge` tells departures from a contract. Never raises."""
    parsed = strict_yaml.read_document(data)
    problems = list(parsed.problems)
    root = parsed.root
    facts: Facts = {"kind": "sources", "form": "", "sources": [], "names": [], "ignores": []}
    if root is None:
        assert problems, "what cannot be read silences references to it, so it has a finding"
        facts["form"] = "broken"
        facts["names"] = _identity(parsed.text)
    else:
        contract = SHARD if shard else _contract(root)
        facts["form"] = FORMS[contract]
        problems += judged(contract, root, judge, dates=SOURCE_DATES)
        budget = _Budget()
        entries = _tables(root, budget) if shard else [_source(root, root.get("name"), budget)]
        facts["sources"] = [entry for entry in entries if entry is not None]
        problems += _both(root) if contract == STANDALONE else []
        problems += _twice(root, shard)
        problems += _spelt(root, shard)
        facts["ignores"] = suppressions.in_yaml(parsed.text, 1, scalars(root) if "ktx-gate" in parsed.text else ())
    facts["problems"] = [[p.rule, p.line, p.column, p.message, p.hint, p.level] for p in problems]
    return facts


def _identity(text: str) -> list[str]:
    """The name that a file declares although it cannot be read: YAML that breaks below the line keeps its identity."""
    found = _NAME_LINE.search(text)
    return [next(group for group in found.groups() if group)] if found else []


def _contract(root: Node) -> str:
    """A source of its own names a table or SQL, or says what its columns are: then its table has its name."""
    if root.kind != "map" or root.get("table") or root.get("sql"):
        return STANDALONE
    typed = any(item.get("type") is not None and item.get("expr") is None for _, item in _items(root, "columns"))
    return STANDALONE if typed and root.get("grain") is not None else OVERLAY


def _both(root: Node) -> list[YamlProblem]:
    sql = root.get("sql")
    if root.get("table") is None or sql is None:
        return []
    return [
        YamlProblem("table-or-sql", sql.line, sql.column, "the source has both a table and sql", "keep one of them")
    ]


def _tables(root: Node, budget: _Budget) -> Iterator[Facts | None]:
    tables = root.get("tables")
    for key, value in tables.items if tables is not None and tables.kind == "map" else ():
        yield _source(value, key, budget)


def _source(node: Node, name: Node | None, budget: _Budget) -> Facts | None:
    if name is None or not isinstance(name.plain, str) or node.kind != "map":
        return None
    found: Facts = {"name": name.plain, "line": name.line, "column": name.column}
    dialect = _text(node.get(DIALECT))
    if dialect is not None:
        found["dialect"] = expressions.dialect_of(dialect.plain)
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
    found["expressions"] = list(_expressions(node, budget, found.get("dialect", "")))
    found["uses"] = [use for _, item in _items(node, "measures") for use in _texts(item, "segments")]
    return found


class _Budget:
    """The expressions of one file, read until they are more than is read; that is told once."""

    def __init__(self) -> None:
        self.left = expressions.FILE_LIMIT

    def read(self, text: str, dialect: str) -> Expression:
        if self.left <= 0:
            return Expression()
        self.left -= expressions.size(text) + 4  # what each takes however short it is
        if self.left > 0:
            return expressions.read(text, dialect)
        message = f"the file's expressions have more than {expressions.FILE_LIMIT} words and signs; the reading ends"
        return Expression("expr-nesting", message)


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


def _expressions(node: Node, budget: _Budget, dialect: str) -> Iterator[list[Any]]:
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
                    read = budget.read(text.plain, dialect)
                    what = f"{kind}[{name.plain if name is not None else index}].{key}"
                    columns = [list(column) for column in read.columns]
                    yield [what, text.plain, text.line, text.column, read.rule, read.message, columns]


def _spelt(root: Node, shard: bool) -> Iterator[YamlProblem]:
    """Names that nobody can refer to by what he sees."""
    for name, node in _declared(root, shard):
        entities = [named for kind in KINDS for _, named in _named(node, kind)] if node.kind == "map" else []
        for declared in (name, *entities):
            text = declared.plain if declared is not None else None
            why, level = spelling.wrong_name(text) if isinstance(text, str) and text else ("", "")
            if declared is not None and why:
                message = f"the name {text!r} cannot be referred to: {why}"
                yield YamlProblem("entity-name", declared.line, declared.column, message, "rename it", level)


def _declared(root: Node, shard: bool) -> Iterator[tuple[Node | None, Node]]:
    """The name and the map of each source of a file."""
    tables = root.get("tables") if shard else None
    if tables is None:
        yield root.get("name"), root
    else:
        yield from tables.items


def _twice(root: Node, shard: bool) -> list[YamlProblem]:
    """Two entities of one kind with one name."""
    problems = []
    for _, node in _declared(root, shard):
        for kind in KINDS:
            seen: set[str] = set()
            for _, name in _named(node, kind) if node.kind == "map" else ():
                if name.plain in seen:
                    message = f"{name.plain!r} stands twice among the {kind}"
                    problems.append(
                        YamlProblem("duplicate-entity", name.line, name.column, message, "rename one of them")
                    )
                seen.add(name.plain)
    return problems


# JSON Schema's keywords, of all drafts: what can refuse a value, what cannot, and where schemas are in a schema.
ASSERTING = frozenset((
    "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
    "maxProperties", "minProperties", "required", "dependentRequired", "dependencies", "properties",
    "patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems", "additionalItems",
    "contains", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "allOf", "anyOf", "oneOf",
    "not", "if", "then", "else", "$ref", "$dynamicRef", "$recursiveRef", "disallow", "extends", "divisibleBy",
))  # fmt: skip
_OTHERS = frozenset((
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment", "$defs",
    "definitions", "title", "description", "default", "examples", "example", "deprecated", "readOnly",
    "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema",
))  # fmt: skip
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_WITHIN = frozenset((
    "items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedItems",
    "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema", "allOf",
    "anyOf", "oneOf", "extends",
))  # fmt: skip
LIKENESS = 0.84  # `propertys` is as near to `properties`; what people add to a schema of theirs is less so


def misspelt_keywords(rules: Any) -> list[tuple[str, str]]:
    """Keywords of a JSON Schema that are none, each with the one that was meant: a validator passes them over."""
    found: dict[str, str] = {}
    pending = [rules]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            for key, value in part.items():
                if key in _BY_NAME and isinstance(value, dict):
                    pending += value.values()
                elif key in _WITHIN:
                    pending.append(value)
                elif key not in ASSERTING and key not in _OTHERS and key not in found:
                    near = nearest(key[:40], sorted(ASSERTING), 1, LIKENESS)
                    found |= dict.fromkeys((key,), near[0]) if near else {}
    return sorted(found.items())
