"""Workflow commands of GitHub Actions. Source: GitHub, workflow commands; actions/runner, ActionCommand.

A step shows ten annotations of each level and drops the rest without a word. So the worst come first, the last notice
says how many are not annotations, and the log holds every finding as text. Foreign text never starts a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktxkit.gates.rules.formats import text
from ktxkit.gates.rules.formats.common import (
    Content,
    Finding,
    charged,
    place,
    sentence,
    shown_path,
    standing,
    worst_first,
)

SHOWN = 10  # annotations of one level
COMMANDS = {"error": "error", "warning": "warning", "advice": "notice"}


def render(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """Annotations of the charged findings, worst first; then those that had no room."""
    findings = worst_first(charged(verdict["findings"]))
    kept, rest = _split(findings, SHOWN)
    if not rest:
        return [_annotation(finding) for finding in kept]
    kept, rest = _split(findings, SHOWN - 1)  # the closing notice is a notice too
    said = f"{len(rest)} more of {len(findings)} findings are no annotations (a step shows ten of a level); see the log"
    return [
        *(_annotation(finding) for finding in kept),
        f"::notice title=gate-check::{data(said)}",
        f"::group::{len(rest)} more findings",
        *(f"- {plain(text.line(finding))}" for finding in rest),
        "::endgroup::",
    ]


def _split(findings: Iterable[Finding], notices: int) -> tuple[list[Finding], list[Finding]]:
    room = {"error": SHOWN, "warning": SHOWN, "advice": notices}
    kept: list[Finding] = []
    rest: list[Finding] = []
    for finding in findings:
        level = standing(finding)
        (kept if room[level] else rest).append(finding)
        room[level] -= bool(room[level])
    return kept, rest


def _annotation(finding: Finding) -> str:
    line, column = place(finding)
    where = [f"file={prop(shown_path(finding))}"]
    if "line" in finding:
        where += [f"line={line}", f"col={column}"]
    return f"::{COMMANDS[standing(finding)]} {','.join(where)},title={prop(finding['rule'])}::{data(sentence(finding))}"


def data(value: str) -> str:
    """A command's message: `%`, CR and LF stand for themselves."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def prop(value: str) -> str:
    """A command's property: `:` and `,` stand for themselves too."""
    return data(value).replace(":", "%3A").replace(",", "%2C")


def plain(value: str) -> str:
    """A line of the log: the runner takes an old command (`##[...]`) anywhere in it."""
    return value.replace("##[", "# #[")
