"""`path:line:col: level rule message`, one line for each finding. For scripts too: the shape never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.base.rules.text import printable
from ktxkit.gates.rules.formats.common import Content, Finding, charged, place, sentence, shown_path


def render(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """The charged findings."""
    return [line(finding) for finding in charged(verdict["findings"])]


def line(finding: Finding) -> str:
    """One finding; the shape is that of compilers, which editors read."""
    at, column = place(finding)
    return f"{shown_path(finding)}:{at}:{column}: {finding['level']} {printable(finding['rule'])} {sentence(finding)}"
