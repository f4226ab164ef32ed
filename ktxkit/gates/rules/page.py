"""A wiki page: what it says that gates ask about. Facts are plain JSON values, so that they can be kept by blob id."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.violations import Violation
from ktxkit.base.rules.yaml_nodes import Node, Problem
from ktxkit.gates.rules import front_matter, markdown, shape, suppressions

Facts = dict[str, Any]
Judge = Callable[[str, Any], Sequence[Violation]]

CONTRACT = "artifact-page"
LISTS = {"refs": "refs", "sl_refs": "slRefs", "tables": "tables"}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CONNECTION = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_SPAN = re.compile(
    rf"(?:{_CONNECTION}/)?(?:source:|table:)\S.*\Z|(?:{_CONNECTION}/)?{_NAME}\.{_NAME}\Z|{_CONNECTION}/{_NAME}\Z",
    re.DOTALL,
)
_WORD = re.compile(rf"{_NAME}\Z")
_FROM = re.compile(r"from:\s*(\S(?:.*\S)?)\s*\Z", re.DOTALL)
_LINES = re.compile(r"#L[0-9]+(?:-L?[0-9]+)?\Z")


def read(data: bytes, judge: Judge) -> Facts:
    """The facts of a page. `judge` tells where a value departs from a contract. Never raises."""
    facts: Facts = {"kind": "page", "problems": [], "ignores": []}
    facts |= {"refs": [], "slRefs": [], "tables": [], "spans": [], "words": [], "links": [], "comments": []}
    text, problem = _decode(data)
    if problem is not None:
        facts["problems"].append(_problem(problem))
        return facts
    parts = front_matter.split(text)
    if parts.problem is not None:
        facts["problems"].append(_problem(parts.problem))
    elif parts.front is None:
        missing = Problem("front-matter-missing", 1, 1, "no front matter", "start the page with --- and a summary")
        facts["problems"].append(_problem(missing))
    if parts.front is not None:
        _front(facts, parts, judge)
    _body(facts, parts)
    return facts


def _decode(data: bytes) -> tuple[str, Problem | None]:
    if len(data) > markdown.SIZE_LIMIT:
        return "", Problem("md-size", 1, 1, f"{len(data)} bytes are more than the {markdown.SIZE_LIMIT} that are read")
    try:
        return data.decode("utf-8").removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        line, column = strict_yaml.place(data[: error.start].decode("utf-8", "replace").removeprefix("\ufeff"), None)
        return "", Problem("md-encoding", line, column, f"not UTF-8: byte 0x{data[error.start]:02x}")


def _problem(problem: Problem, shift: int = 0) -> list[Any]:
    return [problem.rule, problem.line + shift, problem.column, problem.message, problem.hint, problem.level]


def _front(facts: Facts, parts: front_matter.Split, judge: Judge) -> None:
    assert parts.front is not None
    shift = parts.front_line - 1
    parsed = strict_yaml.read_text(parts.front)
    problems = list(parsed.problems)
    if parsed.root is not None:
        root = parsed.root
        empty = root.kind == "scalar" and root.plain is None
        checked = Node("map", 1, 1, 0, 0) if empty else root
        problems += map(_softened, shape.judged(CONTRACT, checked, judge, dates=shape.PAGE_DATES))
        for key, kept in LISTS.items():
            node = root.get(key) if root.kind == "map" else None
            for item in node.values() if node is not None else ():
                if item.kind == "scalar" and isinstance(item.plain, str) and not item.dateish:
                    facts[kept].append([item.plain, item.line + shift, item.column])
        facts["ignores"] += suppressions.in_yaml(parts.front, parts.front_line, shape.scalars(root))
    facts["problems"] += [_problem(problem, shift) for problem in problems]


def _softened(problem: Problem) -> Problem:
    """A key that nobody reads is a warning, unless it nearly is one that gates read: then the gate would be off."""
    if problem.rule != "schema-unknown-key" or any(f"{key!r}" in problem.hint for key in shape.GATED_KEYS):
        return problem
    return replace(problem, level="warning")


def _body(facts: Facts, parts: front_matter.Split) -> None:
    body = markdown.read(parts.body, parts.body_line)
    facts["problems"] += [_problem(problem) for problem in body.problems]
    for span in body.codes:
        if _SPAN.match(span.text):
            facts["spans"].append([span.text, span.line, span.column])
        elif _WORD.match(span.text):
            facts["words"].append([span.text, span.line, span.column])
    facts["links"] = [[span.text.strip(), span.line, span.column] for span in body.links]
    for span in body.comments:
        if found := _FROM.match(span.text):
            facts["comments"].append([_LINES.sub("", found[1]), span.line, span.column])
        else:
            facts["ignores"] += suppressions.in_comment(span.text, span.line, span.column, span.alone)
