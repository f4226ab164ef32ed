"""The layout of a document: indented as ever; of a long array each item is one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktxkit.base.rules import text as layout

LONG = [{"path": f"caf\u00e9\n{n}", "n": [n, {}]} for n in range(layout.LONG + 1)]
CASES: dict[str, Any] = {
    "short": {"a": [1, {"b": []}], "c": {}, "d": "\u2028"},
    "as long as it may be": {"a": LONG[: layout.LONG]},
    "long": {"a": 1, "paths": LONG, "z": {"k": [1, {"y": "x"}]}},
    "long, further in": {"document": {"paths": LONG, "a": {"b": 1}}, "status": 0},
    "empty": {},
}


@pytest.mark.parametrize("case", CASES)
def test_it_says_the_same(case: str) -> None:
    value = CASES[case]
    text = layout.indented(value)
    assert json.loads(text) == value and text.isascii()
    if not case.startswith("long"):
        assert text == json.dumps(value, indent=2)


def test_an_item_a_line() -> None:
    lines = layout.indented({"document": {"paths": LONG}}).split("\n")
    assert lines[:3] == ["{", '  "document": {', '    "paths": [']
    assert lines[3] == '      {"path":"caf\\u00e9\\n0","n":[0,{}]},'
    assert len(lines) == len(LONG) + 6 and lines[-3:] == ["    ]", "  }", "}"]


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        layout.indented({"paths": [float("nan"), *LONG]})
