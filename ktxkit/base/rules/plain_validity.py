"""A departure of a value from a JSON Schema, without the validator that found it.

Whether a small document is valid, without a schema engine: importing one costs more than a small command's run.

It knows exactly the keywords that the contracts use, answers only what it is sure of, and leaves everything else (an
unknown keyword, a large document, an invalid one, whose message must be the engine's) to the engine. The tests put
every sample, and changed ones, before it and before three engines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ktxkit.base.rules.named import NamedTuple


class Violation(NamedTuple):  # no dataclass: a trace event must not pay for importing it
    """Where in the value, by which keyword, and what the keyword asks for.

    `detail`: the key that is missing or unknown. `known`: the keys that are known there.
    """

    path: tuple[str | int, ...]
    keyword: str
    wanted: Any = None
    detail: str = ""
    known: tuple[str, ...] = ()


INTEGERS = 2**63
INFINITY = float("inf")
BUDGET = 4000  # values looked at before the engine is worth its import
NOTES = frozenset({"$schema", "$id", "$defs", "title", "description"})
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class Unsure(Exception):
    """Only the engine can say."""


def is_plainly_valid(schema: Mapping[str, Any], document: Any, budget: int = BUDGET) -> bool:
    """True only where the document is valid for sure. False says nothing: ask the engine.

    `budget`: values after which it is not sure any more.
    """
    try:
        return _Validity(schema, budget).valid(schema, document)
    except (Unsure, RecursionError):
        return False


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """A contract's pattern: plain enough to mean the same in ECMA 262 and here (no backslash classes, ASCII)."""
    return re.compile(text)


class _Validity:
    """One walk over a document, with a budget."""

    def __init__(self, root: Mapping[str, Any], budget: int) -> None:
        self.root = root
        self.left = budget

    def valid(self, schema: Any, value: Any) -> bool:
        if schema is True:
            _free(self, value)
            return True
        if not isinstance(schema, dict):
            raise Unsure
        self.left -= 1
        if self.left < 0:
            raise Unsure
        if isinstance(value, int | float):
            _finite(value)
        for keyword, wanted in schema.items():
            if keyword in NOTES:
                continue
            check = CHECKS.get(keyword)
            if check is None:
                raise Unsure
            if not check(self, wanted, value, schema):
                return False
        return True

    def resolved(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise Unsure
        found: Any = self.root
        for part in reference[2:].split("/"):
            found = found[part]
        return found


def _type(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(wanted, list):
        return any(_type(walk, one, value, schema) for one in sorted(wanted, reverse=True))  # number before integer
    if isinstance(value, bool):
        return bool(wanted == "boolean")
    if isinstance(value, float) and wanted == "integer":
        raise Unsure  # 1.0 is an integer to JSON Schema
    return isinstance(value, TYPES[wanted])


def _same(one: Any, other: Any) -> bool:
    """JSON equality of scalars: True is not 1."""
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        raise Unsure
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if not value.isascii() and any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise Unsure  # a lone surrogate is no JSON
    return value


def _properties(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    return all(walk.valid(wanted[key], inner) for key, inner in value.items() if key in wanted)


def _pattern_properties(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    return all(
        walk.valid(inner, value[key])
        for text, inner in wanted.items()
        for key in value
        if _pattern(text).search(_key(key))
    )


def _additional(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict) or wanted is True:
        return True
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [k for k in value if k not in known and not any(_pattern(text).search(_key(k)) for text in patterns)]
    return not others if wanted is False else all(walk.valid(wanted, value[key]) for key in others)


def _key(key: Any) -> str:
    text = _text(key)
    if text is None:
        raise Unsure
    return text


def _names(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    return not isinstance(value, dict) or all(walk.valid(wanted, _key(key)) for key in value)


def _items(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    return not isinstance(value, list) or all(walk.valid(wanted, item) for item in value)


def _one_of(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    return sum(walk.valid(inner, value) for inner in wanted) == 1


def _free(walk: _Validity, value: Any) -> None:
    """Objects of no closed shape may hold anything that is JSON: looked through for what is not."""
    walk.left -= 1
    if walk.left < 0:
        raise Unsure
    if isinstance(value, dict):
        for key, inner in value.items():
            _key(key)
            _free(walk, inner)
    elif isinstance(value, list):
        for inner in value:
            _free(walk, inner)
    elif isinstance(value, int | float):
        _finite(value)
    elif _text(value) is None and value is not None:
        raise Unsure


def _finite(value: float) -> None:
    if value != value or (abs(value) >= INTEGERS if isinstance(value, int) else abs(value) == INFINITY):
        raise Unsure  # not a number, infinite, or an integer that some readers of JSON do not have


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object_type(walk: _Validity, wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(value, dict | list) and "properties" not in schema and "items" not in schema:
        _free(walk, value)
    return _type(walk, wanted, value, schema)


CHECKS: dict[str, Any] = {
    "type": _object_type,
    "const": lambda walk, wanted, value, schema: _same(wanted, value),
    "enum": lambda walk, wanted, value, schema: any(_same(one, value) for one in wanted),
    "minLength": lambda walk, wanted, value, schema: (text := _text(value)) is None or len(text) >= wanted,
    "maxLength": lambda walk, wanted, value, schema: (text := _text(value)) is None or len(text) <= wanted,
    "pattern": lambda walk, wanted, value, schema: (
        (text := _text(value)) is None or bool(_pattern(wanted).search(text))
    ),
    "not": lambda walk, wanted, value, schema: not walk.valid(wanted, value),
    "minimum": lambda walk, wanted, value, schema: not _number(value) or value >= wanted,
    "maximum": lambda walk, wanted, value, schema: not _number(value) or value <= wanted,
    "exclusiveMinimum": lambda walk, wanted, value, schema: not _number(value) or value > wanted,
    "minItems": lambda walk, wanted, value, schema: not isinstance(value, list) or len(value) >= wanted,
    "maxItems": lambda walk, wanted, value, schema: not isinstance(value, list) or len(value) <= wanted,
    "minProperties": lambda walk, wanted, value, schema: not isinstance(value, dict) or len(value) >= wanted,
    "maxProperties": lambda walk, wanted, value, schema: not isinstance(value, dict) or len(value) <= wanted,
    "required": lambda walk, wanted, value, schema: not isinstance(value, dict) or all(key in value for key in wanted),
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "anyOf": lambda walk, wanted, value, schema: any(walk.valid(inner, value) for inner in wanted),
    "oneOf": _one_of,
    "$ref": lambda walk, wanted, value, schema: walk.valid(walk.resolved(wanted), value),
}
