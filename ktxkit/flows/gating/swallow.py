"""Gate `swallow`: exceptions that Python code discards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit.core.gates.swallow import judge
from ktxkit.gates import Answer, Finding, Subject


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the Python files that `files` names (default: all)."""
    chosen = subject.chosen(settings.get("files", ()), ("**/*.py",))
    return Answer([one for path in chosen for one in _findings(subject, path)], len(chosen))


def _findings(subject: Subject, path: bytes) -> Iterator[Finding]:
    for one in judge(subject.read(path)):
        yield Finding(one.rule, path, one.message, one.line, one.column, hint=one.hint, gate="swallow")
