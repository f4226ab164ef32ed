"""What all formats share: order, the sentence of a finding, and how much it counts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ktxkit.base.rules.text import plural, printable

Finding = Mapping[str, Any]
Content = Callable[[bytes], bytes | None]
LEVELS = ("error", "warning", "advice")


def no_content(path: bytes) -> bytes | None:
    """Where nobody can be asked for a file's bytes."""
    return None


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By place, then by rule: the order in which a person walks through files."""
    return sorted(findings, key=_key)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """By what counts most, then by place."""
    return sorted(findings, key=lambda one: (LEVELS.index(standing(one)), *_key(one)))


def _key(finding: Finding) -> tuple[bytes, int, int, int, str, str, str]:
    line, column = place(finding)
    level = LEVELS.index(finding["level"])
    return (path_of(finding), line, column, level, finding["rule"], finding["message"], finding.get("fingerprint", ""))


def charged(findings: Iterable[Finding]) -> list[Finding]:
    """Those that the change has to answer for. What the base has too is counted, and in the documents."""
    return [finding for finding in findings if not finding.get("inherited")]


def standing(finding: Finding) -> str:
    """The level that counts: what the base tree has too is not charged, so it is advice."""
    return "advice" if finding.get("inherited") else str(finding["level"])


def place(finding: Finding) -> tuple[int, int]:
    """Line and column, from 1; a finding on the file as a whole stands at its beginning."""
    return max(finding.get("line", 1), 1), max(finding.get("column", 1), 1)


def path_of(finding: Finding) -> bytes:
    """The path's exact bytes."""
    encoded = finding.get("pathB64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return str(finding.get("path", "")).encode("utf-8", "surrogatepass")


def shown_path(finding: Finding) -> str:
    """The path as one printable word; `.` where the finding is on the tree as a whole."""
    return printable(path_of(finding)) or "."


def sentence(finding: Finding) -> str:
    """The message with what was searched, the nearest names and the next step: one printable line."""
    parts = [printable(finding["message"])]
    if searched := _names(finding.get("searched", ())):
        parts.append(f"searched {', '.join(searched)}")
    nearest, hint = _names(finding.get("nearest", ())), printable(finding.get("hint", ""))
    if nearest:
        parts.append(f"did you mean {' or '.join(nearest)}?")
    if hint and not (nearest and hint.startswith("did you mean ")):
        parts.append(hint)
    if finding.get("count", 1) > 1:
        parts.append(f"{plural(finding['count'], 'place')} in this file")
    if finding.get("inherited"):
        parts.append("not charged: the base has it too")
    return "; ".join(parts)


def _names(names: Sequence[str]) -> list[str]:
    return [printable(name) for name in names]
