"""Several worktrees on one screen of 80 columns, or one in its five lines; and what of it is worth a plain line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ktxkit.base.rules.text import plural, printable
from ktxkit.observer.rules.status import lines, span

Shown = Sequence[tuple[str, Mapping[str, Any] | str]]  # name and status, or what kept it from being read
WIDTHS = (8, 9, 9, 10, 10)  # of the columns after the name
HEADS = ("unit", "verdict", "proven", "activity", "suspect in", "observer")
BESIDE = 6  # lines of the screen that are not worktrees


def screen(shown: Shown, at: str, columns: int, height: int) -> list[str]:
    """The whole screen; `at` is the time of the look. The most urgent first where not all fit."""
    clock = at[11:19]
    head = f"{plural(len(shown), 'worktree')} at {clock}Z".ljust(columns - 12)[: columns - 12] + "Ctrl-C ends"
    if len(shown) == 1:
        name, status = shown[0]
        told = lines(status) if isinstance(status, Mapping) else [status]
        wrapped = [part for line in told for part in textwrap.wrap(line, columns, subsequent_indent="  ") or [""]]
        return [head, "", printable(name), "", *wrapped]
    room = max(1, height - BESIDE)
    ordered = sorted(shown, key=lambda one: _urgency(one[1]))[:room]
    wide = max(12, columns - sum(WIDTHS) - 2 * len(WIDTHS))
    rows = [_row(HEADS, wide), *(_row(_cells(*one), wide) for one in ordered)]
    more = [f"and {len(shown) - room} more, none more urgent"] if len(shown) > room else []
    return [head, "", *rows, *more]


def table(shown: Shown, columns: int) -> list[str]:
    """All of them, the most urgent first; what keeps one from being read stands below."""
    wide = max(12, columns - sum(WIDTHS) - 2 * len(WIDTHS))
    ordered = sorted(shown, key=lambda one: _urgency(one[1]))
    rows = [_row(HEADS, wide), *(_row(_cells(*one), wide) for one in ordered)]
    return [*rows, *(f"{printable(name)}: {printable(why)}" for name, why in ordered if isinstance(why, str))]


def _row(cells: Sequence[str], wide: int) -> str:
    name, *rest = cells
    short = name if len(name) <= wide else name[: wide // 2 - 1] + ".." + name[len(name) - (wide - wide // 2 - 1) :]
    return "  ".join([short.ljust(wide), *(cell[:n].ljust(n) for cell, n in zip(rest, WIDTHS, strict=True))]).rstrip()


def _cells(name: str, status: Mapping[str, Any] | str) -> tuple[str, ...]:
    if isinstance(status, str):
        return printable(name), "damaged", "", "", "", ""
    due = status["deadlines"].get("suspectInMs")
    return (
        printable(name),
        "held" if is_held(status) else status["verdict"],
        _ago(status["proven"]),
        _ago(status["activity"]),
        "" if due is None else (span(due) if due > 0 else f"-{span(-due)}"),
        status["observer"]["health"],
    )


def _ago(found: Mapping[str, Any]) -> str:
    return f"{span(found['agoMs'])} ago" if "agoMs" in found else "none"


def is_held(status: Mapping[str, Any]) -> bool:
    """A person must look before anything of it is closed."""
    return bool(status["lateWrites"]["quarantined"] or status.get("attemptHolds") or status["journal"].get("problem"))


def _urgency(status: Mapping[str, Any] | str) -> tuple[int, float]:
    if isinstance(status, str) or is_held(status):
        return 0, 0
    order = {"suspect": 1, "unknown": 2}.get(status["verdict"], 3)
    return order, status["deadlines"].get("suspectInMs", 0)


def event(name: str, status: Mapping[str, Any] | str) -> tuple[str, str]:
    """What must have changed for a new plain line, and the line: no length of time is in the first."""
    if isinstance(status, str):
        return status, f"{printable(name)}: {status}"
    word = "held" if is_held(status) else status["verdict"]
    activity, proven = (status[key] for key in ("activity", "proven"))
    parts = (word, status["authority"], activity["contentSeq"], proven["proofSeq"], status["observer"]["health"])
    told = lines(status)
    return repr(parts), f"{status['at']} {printable(name)}: {word}; {told[0]}; {told[1]}"
