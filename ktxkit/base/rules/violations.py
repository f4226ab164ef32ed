"""A departure of a value from a JSON Schema, without the validator that found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Violation:
    """Where in the value, by which keyword, and what the keyword asks for.

    `detail`: the key that is missing or unknown. `known`: the keys that are known there.
    """

    path: tuple[str | int, ...]
    keyword: str
    wanted: Any = None
    detail: str = ""
    known: tuple[str, ...] = ()
