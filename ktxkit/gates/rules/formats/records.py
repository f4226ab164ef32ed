"""The verdict itself as one JSON document, and its findings as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ktxkit.gates.rules.formats.common import Content


def as_json(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """The whole document (contract `verdict`)."""
    return json.dumps(dict(verdict), indent=2, ensure_ascii=True, allow_nan=False).split("\n")


def as_lines(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One object for each finding."""
    return [compact(finding) for finding in verdict["findings"]]


def compact(value: Any) -> str:
    """JSON on one line, ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
