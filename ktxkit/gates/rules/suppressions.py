"""`ktx-gate: ignore=RULE` in a comment: on the line it is about, or alone on the line before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktxkit.base.rules.yaml_nodes import lines

_WORDS = r"ktx-gate:\s*ignore=([A-Za-z0-9,_-]+)"
_YAML = re.compile(rf"(?:^|(?<=\s))#\s*{_WORDS}\s*$")
_HTML = re.compile(rf"{_WORDS}\s*\Z")


def in_yaml(text: str, first_line: int = 1, inside: Iterable[tuple[int, int]] = ()) -> list[list[object]]:
    """Suppressions in the comments of a YAML text: [rule, line, column, alone]. `inside`: offsets of its scalars."""
    if "ktx-gate" not in text:
        return []
    spans = list(inside)
    found: list[list[object]] = []
    offset = 0
    for number, line in enumerate(lines(text)):
        match = _YAML.search(line.rstrip("\r\n"))
        if match and not any(start <= offset + match.start() < end for start, end in spans):
            found += _each(match[1], number + first_line, match.start() + 1, not line[: match.start()].strip())
        offset += len(line)
    return found


def in_comment(text: str, line: int, column: int, alone: bool) -> list[list[object]]:
    """Suppressions in one HTML comment."""
    match = _HTML.match(text)
    return _each(match[1], line, column, alone) if match else []


def _each(words: str, line: int, column: int, alone: bool) -> list[list[object]]:
    return [[rule, line, column, alone] for rule in words.split(",") if rule]
