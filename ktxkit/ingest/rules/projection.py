"""Projection: what a connector makes of a snapshot by rule alone, and whose each projected file is.

A projected file begins with a comment that has the digest of what follows. Where the digest is right, nobody has worked
on the file and the next projection may replace or remove it; where it is not, the file is kept and named. So a clone
knows as much as the machine that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ktxkit.base.rules.digests import digest
from ktxkit.ingest.rules.provenance import Change, Work

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


def work(changes: Iterable[Change], raw_files: Sequence[str]) -> Work:
    """The projection's part in the provenance."""
    return Work(PROJECT, tuple(raw_files), tuple(changes))
