"""Front matter: the block between `---` and `---` (or `...`) at the very start of a page, and the body after it.

The opener is line 1 and exactly `---` with blanks after it; CRLF, CR and a byte-order mark are taken. What is not
closed is a problem, and so is what looks like front matter after blank lines: no reader would see it.

A wiki page: what it says that gates ask about. Facts are plain JSON values, so that they can be kept by blob id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.plain_validity import Violation
from ktxkit.base.rules.strict_yaml import Node, YamlProblem, lines
from ktxkit.gates.rules import markdown, source, spelling, suppressions, targets

_OPENER = re.compile(r"---[ \t]*\Z")
_CLOSER = re.compile(r"(?:---|\.\.\.)[ \t]*\Z")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*:(?:\s|\Z)")
_LEAD = 20  # lines before a displaced opener that are looked at


@dataclass(frozen=True, slots=True)
class Split:
    """A page's text in two. `front` is None where there is none; lines count from 1; `offset` is front's start."""

    front: str | None
    front_line: int
    offset: int
    body: str
    body_line: int
    body_offset: int
    problem: YamlProblem | None = None


def split(text: str) -> Split:
    """Split a page whose byte-order mark is off. Never raises."""
    whole = lines(text)
    bare = [line.rstrip("\r\n") for line in whole]
    if not bare or not _OPENER.match(bare[0]):
        return Split(None, 0, 0, text, 1, 0, _displaced(bare))
    closer = next((n for n, line in enumerate(bare[1:], 1) if _CLOSER.match(line)), None)
    start = len(whole[0])
    if closer is None:
        problem = YamlProblem(
            "front-matter-unclosed", 1, 1, "front matter starts here and never ends", "add a line ---"
        )
        return Split(None, 2, start, "", len(whole) + 1, len(text), problem)
    front = "".join(whole[1:closer])
    body_offset = start + len(front) + len(whole[closer])
    return Split(front, 2, start, text[body_offset:], closer + 2, body_offset)


def _displaced(bare: list[str]) -> YamlProblem | None:
    """Front matter that blank lines or blanks before it have pushed out of its place."""
    first = next((n for n, line in enumerate(bare[:_LEAD]) if line.strip()), None)
    if first is None or not _OPENER.match(bare[first].lstrip()) or first + 1 >= len(bare):
        return None
    if not _KEY.match(bare[first + 1].lstrip()):
        return None
    return YamlProblem(
        "front-matter-not-first",
        first + 1,
        len(bare[first]) - len(bare[first].lstrip()) + 1,
        "this looks like front matter but does not start the file, so that nobody reads it",
        "move --- to the first column of the first line",
    )


Facts = dict[str, Any]
Judge = Callable[[str, Any], Sequence[Violation]]

CONTRACT = "artifact-page"
LISTS = {"refs": "refs", "sl_refs": "slRefs", "tables": "tables"}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = re.compile(rf"{_NAME}\Z")
_FROM = re.compile(r"from:\s*(\S(?:.*\S)?)\s*\Z", re.DOTALL)
_LINES = re.compile(r"#L[0-9]+(?:-L?[0-9]+)?\Z")


def read(data: bytes, judge: Judge) -> Facts:
    """The facts of a page. `judge` tells where a value departs from a contract. Never raises."""
    facts: Facts = {"kind": "page", "problems": [], "ignores": []}
    facts |= {"refs": [], "slRefs": [], "tables": [], "spans": [], "words": [], "links": [], "comments": []}
    facts |= {"targets": [], "anchors": []}
    text, problem = _decode(data)
    if problem is not None:
        facts["problems"].append(_problem(problem))
        return facts
    parts = split(text)
    if parts.problem is not None:
        facts["problems"].append(_problem(parts.problem))
    elif parts.front is None:
        missing = YamlProblem("front-matter-missing", 1, 1, "no front matter", "start the page with --- and a summary")
        facts["problems"].append(_problem(missing))
    if parts.front is not None:
        _front(facts, parts, judge)
    _body(facts, parts)
    return facts


def _decode(data: bytes) -> tuple[str, YamlProblem | None]:
    if len(data) > markdown.SIZE_LIMIT:
        return "", YamlProblem(
            "md-size", 1, 1, f"{len(data)} bytes are more than the {markdown.SIZE_LIMIT} that are read"
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        line, column = strict_yaml.position(data[: error.start].decode("utf-8", "replace").removeprefix("\ufeff"), None)
        return "", YamlProblem("md-encoding", line, column, f"not UTF-8: byte 0x{data[error.start]:02x}")


def _problem(problem: YamlProblem, shift: int = 0) -> list[Any]:
    return [problem.rule, problem.line + shift, problem.column, problem.message, problem.hint, problem.level]


def _front(facts: Facts, parts: Split, judge: Judge) -> None:
    assert parts.front is not None
    shift = parts.front_line - 1
    parsed = strict_yaml.read_text(parts.front)
    problems = list(parsed.problems)
    root = parsed.root
    if root is None and not problems:
        root = Node("scalar", 1, 1, 0, 0)  # nothing, or comments alone, between the two lines
    if root is not None:
        empty = root.kind == "scalar" and root.plain is None
        checked = Node("map", 1, 1, 0, 0) if empty else root
        problems += map(_softened, source.judged(CONTRACT, checked, judge, dates=source.PAGE_DATES))
        for key, kept in LISTS.items():
            node = root.get(key) if root.kind == "map" else None
            for item in node.values() if node is not None else ():
                if item.kind == "scalar" and isinstance(item.plain, str) and not item.dateish:
                    facts[kept].append([item.plain, item.line + shift, item.column])
        facts["ignores"] += suppressions.in_yaml(parts.front, parts.front_line, source.scalars(root))
    facts["problems"] += [_problem(problem, shift) for problem in problems]


def _softened(problem: YamlProblem) -> YamlProblem:
    """A key that nobody reads is a warning, unless it nearly is one that gates read: then the gate would be off."""
    if problem.rule != "schema-unknown-key" or any(f"{key!r}" in problem.hint for key in source.GATED_KEYS):
        return problem
    return problem._replace(level="warning")


def _body(facts: Facts, parts: Split) -> None:
    body = markdown.read(parts.body, parts.body_line)
    facts["problems"] += [_problem(problem) for problem in body.problems]
    for span in (*body.codes, *body.html):
        if spelling.could_refer(span.text):
            facts["spans"].append([span.text, span.line, span.column])
        elif _WORD.match(span.text):
            facts["words"].append([span.text, span.line, span.column])
    facts["links"] = [[span.text.strip(), span.line, span.column] for span in body.links]
    local = [span for span in body.targets if targets.is_kept(span.text)]
    facts["targets"] = [[span.text.strip(), span.line, span.column] for span in local]
    facts["anchors"] = list(dict.fromkeys(body.anchors))
    for span in body.comments:
        if found := _FROM.match(span.text):
            facts["comments"].append([_LINES.sub("", found[1]), span.line, span.column])
        else:
            facts["ignores"] += suppressions.in_comment(span.text, span.line, span.column, span.alone)
