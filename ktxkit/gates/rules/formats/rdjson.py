"""reviewdog's diagnostics as JSON Lines. Source: reviewdog.proto; a column counts bytes of UTF-8, from 1.

Our columns count characters. They are converted with the line's text; without it a column is left out, not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ktxkit.gates.rules.formats.common import Content, Finding, path_of, place, sentence, shown_path, standing
from ktxkit.gates.rules.formats.records import compact

SEVERITY = {"error": "ERROR", "warning": "WARNING", "advice": "INFO"}
_BREAK = re.compile(b"\r\n|[\r\n]")
_BOM = b"\xef\xbb\xbf"


def render(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One diagnostic on each line."""
    texts: dict[bytes, list[bytes]] = {}
    made = []
    for finding in verdict["findings"]:
        path = path_of(finding)
        if path not in texts and "line" in finding:
            texts[path] = _BREAK.split(content(path) or b"")
        made.append(compact(_diagnostic(finding, texts.get(path, []))))
    return made


def _diagnostic(finding: Finding, lines: list[bytes]) -> dict[str, Any]:
    location: dict[str, Any] = {"path": shown_path(finding)}
    if "line" in finding:
        location["range"] = {"start": _position(finding, lines)}
    return {
        "message": sentence(finding),
        "location": location,
        "severity": SEVERITY[standing(finding)],
        "source": {"name": "ktxkit"},
        "code": {"value": finding["rule"]},
    }


def _position(finding: Finding, lines: list[bytes]) -> dict[str, int]:
    line, column = place(finding)
    if line > len(lines) or not any(lines):
        return {"line": line}
    at = byte_column(lines[line - 1], column, first=line == 1)
    return {"line": line} if at is None else {"line": line, "column": at}


def byte_column(line: bytes, column: int, *, first: bool = False) -> int | None:
    """The column in bytes, from 1, of one in characters; None beyond the line's end and in text that is not UTF-8.

    `first`: the line is a file's first, where a byte-order mark is no character but takes its bytes.
    """
    mark = len(_BOM) if first and line.startswith(_BOM) else 0
    try:
        text = line[mark:].decode("utf-8")
    except UnicodeDecodeError:
        return None
    if column > len(text) + 1:
        return None
    return mark + len(text[: column - 1].encode("utf-8")) + 1
