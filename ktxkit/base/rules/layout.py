"""How a JSON document is laid out: indented for people; of a long array each item is one line.

What indents is written in Python and takes its time for thousands of items; one line is written in C.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LONG = 1000  # items of an array from which on each is one line
COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def is_long(value: Any) -> bool:
    """Whether an object holds a long array, itself or in an object of it."""
    if isinstance(value, Mapping):
        return any((isinstance(one, list) and len(one) > LONG) or is_long(one) for one in value.values())
    return False


def indented(value: Any, margin: str = "") -> str:
    """ASCII JSON, indented by two; `margin` is what its lines but the first begin with. Raises ValueError for NaN."""
    inner = margin + "  "
    if isinstance(value, list) and len(value) > LONG:
        return f"[\n{inner}" + f",\n{inner}".join(map(COMPACT.encode, value)) + f"\n{margin}]"
    if is_long(value):
        shown = (f"{inner}{COMPACT.encode(key)}: {indented(one, inner)}" for key, one in value.items())
        return "{\n" + ",\n".join(shown) + f"\n{margin}}}"
    text = json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\n", "\n" + margin) if margin else text
