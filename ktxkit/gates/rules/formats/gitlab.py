"""GitLab's code quality report: the Code Climate subset that it reads. Source: GitLab, Code Quality report format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.gates.rules.formats.common import Content, Finding, place, sentence, shown_path, standing
from ktxkit.gates.rules.formats.records import compact
from ktxkit.gates.rules.formats.unique import unique

SEVERITY = {"error": "major", "warning": "minor", "advice": "info"}


def render(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One array, an object on each line."""
    issues = [compact(_issue(finding)) for finding in unique(verdict["findings"])]
    return ["[", *(f"{issue}," for issue in issues[:-1]), *issues[-1:], "]"]


def _issue(finding: Finding) -> dict[str, Any]:
    return {
        "description": f"{finding['rule']}: {sentence(finding)}",
        "check_name": finding["rule"],
        "fingerprint": finding["fingerprint"],
        "severity": SEVERITY[standing(finding)],
        "location": {"path": shown_path(finding), "lines": {"begin": place(finding)[0]}},
    }
