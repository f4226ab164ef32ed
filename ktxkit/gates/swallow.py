"""Gate `swallow`: exceptions that Python code discards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit.gates.plugin import Answer, Finding, Subject
from ktxkit.gates.rules.swallow import judge


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the Python files that `files` names (default: all)."""
    chosen = subject.chosen(settings.get("files", ()), ("**/*.py",))
    return Answer([one for path, data in subject.each(chosen) for one in _findings(path, data)], len(chosen))


def _findings(path: bytes, data: bytes) -> Iterator[Finding]:
    for one in judge(data):
        yield Finding(one.rule, path, one.message, one.line, one.column, hint=one.hint, gate="swallow")
