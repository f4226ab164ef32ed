"""Every reader of what strangers write, as a function of bytes that must end: an answer, or an error that is meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules import strict_yaml
from ktxkit.gates import command, configuration, ordinary
from ktxkit.gates import facts as gate_facts
from ktxkit.gates.plugin import Finding
from ktxkit.gates.rules import expressions, findings, hooks, markdown, suppressions, swallow
from ktxkit.gates.rules.findings import LEVELS, RULES
from tests.support.gates import judged

SCHEMA = b"""{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["name"],
  "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "list": {"type": "array", "items": {"$ref": "#"}}},
  "additionalProperties": {"type": ["string", "number", "boolean", "array", "object", "null"]}}"""
_schema = contracts.foreign(SCHEMA, "schema.json")


def whole(value: Any) -> Any:
    """JSON can carry it: facts are kept as JSON."""
    return json.loads(json.dumps(value, allow_nan=False))


def facts(kind: str, data: bytes) -> None:
    read = gate_facts.read(kind, data)
    assert whole(read) == read
    for rule, line, column, message, hint, level in read["problems"]:
        assert rule in RULES and level in ("", *LEVELS)
        assert line >= 0 and column >= 0 and message and isinstance(hint, str)


def tree(data: bytes) -> None:
    """A source, a page and rows that are all of these bytes, judged together: each finding keeps its contract."""
    paths = ("wiki/global/a.md", "semantic-layer/w/b.yaml", "semantic-layer/w/_schema/c.yaml", "links/provenance.json")
    told(list(judged(dict.fromkeys(paths, data), advise=True, strictConnections=True).findings))


def told(found: list[Finding]) -> None:
    counts = dict.fromkeys(("error", "warning", "advice", "inherited", "suppressed", "baselined"), 0)
    documents = [findings.document(one) for one in found[:1000]]
    empty = {"schemaVersion": 1, "kind": "verdict", "outcome": "done", "scope": "all", "looked": {}, "gates": []}
    contracts.validate("verdict", {**empty, "counts": counts, "findings": documents})


def yaml(data: bytes) -> None:
    parsed = strict_yaml.read(data)
    assert parsed.root is None or whole(parsed.root.data()) == parsed.root.data() or parsed.problems
    assert all(problem.rule in RULES and problem.line >= 1 for problem in parsed.problems)


def body(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    if len(data) <= markdown.SIZE_LIMIT:  # a larger page is refused before
        assert all(span.line >= 1 for span in markdown.read(text).codes)


def front(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parts = markdown.split(text)
    assert text[parts.body_offset :] == parts.body
    if parts.front is not None:
        assert text[parts.offset : parts.offset + len(parts.front)] == parts.front


def sql(data: bytes) -> None:
    read = expressions.read(data.decode("utf-8", "surrogateescape"))
    assert read.rule in ("", "expr-not-expression", "expr-template", "expr-nesting")


def python(data: bytes) -> None:
    assert all(problem.rule in RULES and problem.line >= 1 for problem in swallow.judge(data))


def by_schema(data: bytes) -> None:
    path = b"a.json" if data[:1] in b"[{" else b"a.yaml"
    told([Finding(one.rule, path, one.message, one.line, one.column) for one in ordinary.problems(path, data, _schema)])


def structured(data: bytes) -> None:
    """The gate `syntax`: each input as one of the kinds of file that it reads."""
    kinds = (b"a.json", b"tsconfig.json", b"a.yaml", b"a.toml")
    told(list(ordinary.unreadable(kinds[len(data) % len(kinds)], data)))


def the_schema(data: bytes) -> None:
    try:
        judge = contracts.foreign(data, "schema.json")
    except CannotRun:
        return  # gate-ok: a refusal is an answer
    ordinary.problems(b"a.yaml", b"name: a\nlist: [1, {name: b}]\n", judge)


def lines(data: bytes) -> None:
    told(list(command.parse(data, "a-command")))


def config(data: bytes) -> None:
    try:
        configuration.make({}, lambda path: data if path == b"ktx-gates.yaml" else None)
    except CannotRun as error:
        assert error.message


def baseline(data: bytes) -> None:
    try:
        configuration.make({"baseline": "known.json"}, lambda path: data if path == b"known.json" else None)
    except BrokenContract as error:
        assert error.message


def message(data: bytes) -> None:
    first, rest = data[:1], data[1:]
    for comment in (b"#", b"//", None, first or b";"):
        for strips in (True, False):
            left = hooks.cut(rest, hooks.Cleanup(comment, strips))
            assert len(left) <= len(rest)
            if comment is not None:
                assert b"\n" + comment + hooks.SCISSORS + b"\n" not in b"\n" + left


def pushes(data: bytes) -> None:
    try:
        read = hooks.read_pushes(data)
    except CannotRun as error:
        assert len(error.message) < 1000
        return
    assert len(read) == sum(1 for line in data.split(b"\n") if line)


def comments(data: bytes) -> None:
    assert all(line >= 1 for _, line, _, _ in suppressions.in_text(data.decode("utf-8", "replace")))


READERS: dict[str, Callable[[bytes], None]] = {
    **{kind: lambda data, kind=kind: facts(kind, data) for kind in ("page", "source", "shard", "provenance")},  # type: ignore[misc]
    "tree": tree,
    "yaml": yaml,
    "markdown": body,
    "front": front,
    "sql": sql,
    "python": python,
    "schema": by_schema,
    "syntax": structured,
    "foreign": the_schema,
    "lines": lines,
    "config": config,
    "baseline": baseline,
    "message": message,
    "pushes": pushes,
    "comments": comments,
}
