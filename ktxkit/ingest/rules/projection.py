"""YAML as this project writes it: block style, keys in the order given, nothing that two readers take differently.

Projection: what a connector makes of a snapshot by rule alone, and whose each projected file is.

A projected file begins with a comment that has the digest of what follows. Where the digest is right, nobody has worked
on the file and the next projection may replace or remove it; where it is not, the file is kept and named. So a clone
knows as much as the machine that wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base.rules.digests import digest
from ktxkit.gates.rules.expressions import dialect_of
from ktxkit.gates.rules.source import DIALECT
from ktxkit.ingest.rules.artifacts import ArtifactChange, UnitProvenance

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


_HEADER = re.compile(r"# Projected by ktxkit from ([^\n]*)\. Do not edit: digest (b3:[0-9a-f]{64})\n")
PROJECT = "project"  # the unit key in provenance rows of what was projected


@dataclass(frozen=True)
class Projected:
    """One file: its path, its text without the header, and its artifacts: key to the raw files that it comes from."""

    path: str
    body: str
    origins: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Projection:
    """Everything that a connector projects. `errors` end the job; `unresolved`: raw path to why it gave nothing."""

    files: tuple[Projected, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unresolved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Applied:
    """What a projection does to a tree: path to new text, None where the file goes; and what it left alone."""

    changes: Mapping[str, str | None]
    kept: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def dialect_key(engine: str) -> dict[str, str]:
    """The key of a source that says which SQL its expressions are, by the name that a tool has for the engine of its
    database; none for an engine whose SQL is not known by name."""
    dialect = dialect_of(engine)
    return {DIALECT: dialect} if dialect else {}


def stamped(owner: str, body: str) -> str:
    """The whole text of a projected file. `owner`: `connection/source`."""
    return f"# Projected by ktxkit from {owner}. Do not edit: digest {digest(body.encode())}\n{body}"


def owner_of(text: str) -> tuple[str, bool] | None:
    """Who projected a file, and whether nobody edited it since; None where it is no projected file."""
    found = _HEADER.match(text)
    if found is None:
        return None
    return found[1], digest(text[found.end() :].encode("utf-8", "surrogatepass")) == found[2]


def apply(projection: Projection, owner: str, present: Mapping[str, str]) -> Applied:
    """What to change. `present`: the text of every file under `semantic-layer/` that is there now."""
    changes: dict[str, str | None] = {}
    kept: list[str] = []
    warnings: list[str] = []
    wanted = {one.path: stamped(owner, one.body) for one in projection.files}
    for path, text in wanted.items():
        if present.get(path) == text:
            continue
        mine = owner_of(present[path]) if path in present else (owner, True)
        if mine == (owner, True):
            changes[path] = text
        elif not _says_the_same(present[path], text):
            kept.append(path)
            warnings.append(f"{path} is kept as it is: {_why(mine, owner)}; what the source says now is not in it")
    for path, text in present.items():
        mine = owner_of(text)
        if mine is None or mine[0] != owner or path in wanted:
            continue
        if mine[1]:
            changes[path] = None
        else:
            kept.append(path)
            warnings.append(f"{path} is kept although the source has it no more: it was edited")
    return Applied(dict(sorted(changes.items())), tuple(sorted(kept)), tuple(sorted(warnings)))


def _says_the_same(present: str, wanted: str) -> bool:
    """Whether an edited file was edited on top of the very projection that is wanted now."""
    return present.partition("\n")[0] == wanted.partition("\n")[0]


def _why(mine: tuple[str, bool] | None, owner: str) -> str:
    if mine is None:
        return "it was not projected"
    return "it was edited" if mine[0] == owner else f"{mine[0]} projected it"


def work(changes: Iterable[ArtifactChange], raw_files: Sequence[str]) -> UnitProvenance:
    """The projection's part in the provenance."""
    return UnitProvenance(PROJECT, tuple(raw_files), tuple(changes))
