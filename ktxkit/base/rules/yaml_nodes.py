"""Values of a YAML document with their places, and the scalars of the YAML 1.2 core schema.

Lines and columns count from 1, in characters; offsets count characters from 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from typing import Any

INTEGER_LIMIT = 2**63  # what every reader of JSON can take

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})([Tt \t].*)?\Z")


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def lines(text: str) -> list[str]:
    """The lines of a text with their ends. LF, CRLF and CR end a line; nothing else does."""
    return _LINE.findall(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where. `rule` is a rule id of the gates."""

    rule: str
    line: int
    column: int
    message: str
    hint: str = ""
    level: str = ""  # where it is not the rule's own


@dataclass(slots=True)
class Node:
    """A value with its place. `kind` is map, list or scalar; `plain` is its Python value (a scalar's only).

    A map's `items` are (key node, value node); a list's `items` are (None, value node). `dateish`: a plain scalar that
    other readers of YAML turn into a date. `start` and `end` are offsets in the text.
    """

    kind: str
    line: int
    column: int
    start: int
    end: int
    plain: Any = None
    items: list[tuple[Node | None, Node]] = field(default_factory=list)
    style: str = ""
    dateish: bool = False

    def get(self, key: str) -> Node | None:
        """The value of a key of a map."""
        return next((value for name, value in self.items if name is not None and name.plain == key), None)

    def values(self) -> list[Node]:
        """The values of a list; of anything else none."""
        return [value for _, value in self.items] if self.kind == "list" else []

    def at(self, path: list[str | int]) -> tuple[Node, Node | None]:
        """The node at a path of keys and indexes as far as it leads, and the key node that named it, if any."""
        node, named = self, None
        for part in path:
            pairs = node.items
            if isinstance(part, int):
                if node.kind != "list" or part >= len(pairs):
                    break
                named, node = None, pairs[part][1]
            else:
                found = next(((key, value) for key, value in pairs if key is not None and key.plain == part), None)
                if found is None:
                    break
                named, node = found
        return node, named

    def data(self) -> Any:
        """The value as Python has it. The depth cap bounds the recursion."""
        if self.kind == "map":
            return {key.plain: value.data() for key, value in self.items if key is not None}
        if self.kind == "list":
            return [value.data() for _, value in self.items]
        return self.plain


def resolve(node: Node) -> Problem | None:
    """Give a plain scalar its YAML 1.2 core value. A problem where it is none that every reader takes alike."""
    text: str = node.plain
    lead = text[:1]
    if lead and lead not in "+-.0123456789tTfFnN~":
        return None  # nearly all of them: text
    if text in _NULL:
        node.plain = None
    elif text in _BOOLEAN:
        node.plain = _BOOLEAN[text]
    elif lead not in "+-.0123456789":
        return None
    elif _INTEGER.match(text) or _BASED.match(text):
        return _integer(node, text)
    elif _FLOAT.match(text) or _NOT_FINITE.match(text):
        return _float(node, text)
    elif found := _DATE.match(text):
        node.dateish = True
        try:
            date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            return Problem("yaml-scalar", node.line, node.column, f"{text[:40]} is no date", "quote it if it is text")
    return None


def _integer(node: Node, text: str) -> Problem | None:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    digits = text[2:] if base != 10 else text
    value = int(digits, base) if len(digits) < 40 else INTEGER_LIMIT
    if not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        return Problem(
            "yaml-number", node.line, node.column, f"{len(text)} digits are more than 64 bits hold", "quote it"
        )
    node.plain = value
    return None


def _float(node: Node, text: str) -> Problem | None:
    value = float(text) if not _NOT_FINITE.match(text) else float("inf")
    if value in (float("inf"), float("-inf")):
        return Problem("yaml-number", node.line, node.column, f"{text[:40]} is not a finite number", "quote it")
    node.plain = value
    return None
