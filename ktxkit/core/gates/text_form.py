"""A verdict as text: one line for each finding, `path:line:col: level rule message`, stable and sorted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktxkit.core.gates.verdict import summary
from ktxkit.core.text import plural

__all__ = ["lines", "summary"]
PLACES_SHOWN = 3


def lines(verdict: Mapping[str, Any]) -> list[str]:
    """The charged findings with what helps to mend them, then how many were inherited."""
    said = [line for finding in verdict["findings"] if not finding.get("inherited") for line in _finding(finding)]
    inherited = [finding for finding in verdict["findings"] if finding.get("inherited")]
    if inherited:
        said.append(f"{plural(len(inherited), 'finding')} inherited from the base, not charged:")
        said += [f"  {_place(one)}: {one['level']} {one['rule']} {one['message']}" for one in inherited]
    return said


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_place(finding)}: {finding['level']} {finding['rule']} {finding['message']}"
    more: Sequence[Mapping[str, Any]] = finding.get("positions", ())[1:]
    if more:
        shown = ", ".join(f"{one['line']}:{one['column']}" for one in more[:PLACES_SHOWN])
        rest = finding["count"] - 1 - len(more[:PLACES_SHOWN])
        yield f"    also at {shown}{f' and {rest} more' if rest > 0 else ''}"
    if finding.get("searched"):
        yield f"    searched: {', '.join(finding['searched'])}"
    if finding.get("nearest"):
        yield f"    nearest: {', '.join(finding['nearest'])}"
    if finding.get("hint"):
        yield f"    hint: {finding['hint']}"


def _place(finding: Mapping[str, Any]) -> str:
    from ktxkit.core.text import printable

    path = printable(finding["path"])
    return f"{path}:{finding['line']}:{finding['column']}" if "line" in finding else path
