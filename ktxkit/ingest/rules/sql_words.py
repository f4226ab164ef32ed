"""Table names in SQL text, found without a parser: the names that stand where a table stands. A hint, never a proof."""

from __future__ import annotations

import re

_SKIPPED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_PART = r'(?:"[^"]+"|`[^`]+`|\[[^\]]+\]|[A-Za-z_][A-Za-z0-9_$]*)'
_TABLE = re.compile(rf"\b(?:from|join)\s+({_PART}(?:\s*\.\s*{_PART})*)", re.IGNORECASE)
_CTE = re.compile(
    rf"(?:\bwith(?:\s+recursive)?|,)\s*({_PART})\s*(?:\([^()]*\)\s*)?as\s*(?:not\s+)?(?:materialized\s*)?\(",
    re.IGNORECASE,
)


def tables_in(sql: str) -> list[str]:
    """Names after FROM and JOIN, in lower case, without quotes, without the names that WITH defines; each once."""
    bare = _SKIPPED.sub(" ", sql)
    own = {_plain(found) for found in _CTE.findall(bare)}
    names = (_plain(found) for found in _TABLE.findall(bare))
    return list(dict.fromkeys(name for name in names if name not in own))


def _plain(name: str) -> str:
    parts = re.findall(_PART, name)
    return ".".join(part.strip('"`[]') for part in parts).lower()
