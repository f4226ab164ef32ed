"""YAML as this project writes it: block style, keys in the order given, nothing that two readers take differently."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Text that every YAML reader takes for that text: begins with a letter, has no indicator, no colon, no comment sign.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*\Z")
_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n", "none", "nan", "inf"])


def dump(value: Mapping[str, Any]) -> str:
    """A mapping as a YAML document with its last newline. Values: text, bool, numbers, lists and mappings of them."""
    return "\n".join(_mapping(value, "")) + "\n"


def _mapping(value: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, item in value.items():
        lead = f"{indent}{scalar(key)}:"
        lines += _item(lead, item, indent + "  ")
    return lines


def _item(lead: str, item: Any, indent: str) -> list[str]:
    if isinstance(item, Mapping):
        return [lead, *_mapping(item, indent)] if item else [f"{lead} {{}}"]
    if isinstance(item, str):
        return [f"{lead} {_block(item, indent)}" if _is_block(item) else f"{lead} {scalar(item)}"]
    if isinstance(item, Sequence):
        return [lead, *_list(item, indent)] if item else [f"{lead} []"]
    return [f"{lead} {scalar(item)}"]


def _list(items: Sequence[Any], indent: str) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, Mapping) and item:
            inner = _mapping(item, indent + "  ")
            lines += [f"{indent}- {inner[0].lstrip(' ')}", *inner[1:]]
        else:
            assert not isinstance(item, Sequence) or isinstance(item, str), "no list in a list is needed here"
            lines.append(f"{indent}- {'{}' if isinstance(item, Mapping) else scalar(item)}")
    return lines


def _is_block(text: str) -> bool:
    """Whether text can stand as a literal block and come back the same: lines, none of them blank at its end."""
    return (
        "\n" in text
        and text == text.strip()
        and all(line == line.rstrip() for line in text.split("\n"))
        and all(char == "\n" or (char.isprintable() and char != "\ufeff") for char in text)
    )


def _block(text: str, indent: str) -> str:
    body = "\n".join(f"{indent}{line}" if line else "" for line in text.split("\n"))
    return f"|-\n{body}"


def scalar(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value, allow_nan=False)
    assert isinstance(value, str), f"no YAML for {type(value).__name__}"
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() and char != "\ufeff" else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    code = ord(char)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\u{code:04x}"
