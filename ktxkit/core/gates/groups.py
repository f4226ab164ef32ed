"""The facts of a large tree in groups, each read when it is asked for.

Of a group of plain pages a summary is kept beside the facts: every distinct text that they refer with. Where each of
these texts is answered the pages have no finding, so that their facts need not be read at all. It is no verdict: the
texts are judged against the tree anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ktxkit.core.gates import model

Facts = dict[str, Any]
TEXTS = ("refs", "slRefs", "tables", "links", "spans", "words", "comments")
COUNTED = ("refs", "slRefs", "tables", "links", "spans")


@dataclass(frozen=True, eq=False)
class Group:
    """Some files of a tree. `summary`: of plain pages only, else empty. `load`: the facts of each path, in order."""

    paths: Sequence[bytes]
    summary: Facts
    load: Callable[[], Sequence[Facts]]

    @cached_property
    def facts(self) -> dict[bytes, Facts]:
        return dict(zip(self.paths, self.load(), strict=True))


class Grouped(Mapping[bytes, Facts]):
    """The facts of a tree by path."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self._home = {path: group for group in groups for path in group.paths}

    def __getitem__(self, path: bytes) -> Facts:
        return self._home[path].facts[path]

    def __contains__(self, path: object) -> bool:
        return path in self._home

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


def summarized(facts: Mapping[bytes, Facts]) -> list[Group]:
    """The groups of a tree that have a summary."""
    return [group for group in facts.groups if group.summary] if isinstance(facts, Grouped) else []


def loose(facts: Mapping[bytes, Facts], groups: Sequence[Group]) -> dict[bytes, Facts]:
    """The facts that are in none of these groups."""
    if not groups:
        return dict(facts)
    inside = {path for group in groups for path in group.paths}
    return {path: facts[path] for path in facts if path not in inside}


def summary_of(facts: Mapping[bytes, Facts], root: bytes) -> Facts:
    """What pages hold together; empty where one is no plain page of everyone's, or has a problem or a comment."""
    texts: dict[str, set[str]] = {key: set() for key in TEXTS}
    counts = {"pages": len(facts), **dict.fromkeys(COUNTED, 0)}
    for path, page in facts.items():
        where = model.place_of(path, root)
        plain = page["kind"] == "page" and not page["problems"] and not page["ignores"]
        if not plain or where.user or not model.PAGE_KEY.match(where.key):
            return {}
        for key in TEXTS:
            texts[key].update(text for text, _, _ in page[key])
        for key in COUNTED:
            counts[key] += len(page[key])
    if not facts:
        return {}
    names = {name for key in TEXTS if key != "comments" for text in texts[key] for name in names_in(text)}
    return {**{key: sorted(found) for key, found in texts.items()}, "names": sorted(names), "counts": counts}


def concerned(facts: Mapping[bytes, Facts], names: set[str], raw: set[str]) -> dict[bytes, Facts]:
    """Facts without those of groups in which no page refers to any of these names or raw paths."""
    groups = [group for group in summarized(facts) if not _mentions(group.summary, names, raw)]
    return loose(facts, groups)


def _mentions(summary: Facts, names: set[str], raw: set[str]) -> bool:
    return not names.isdisjoint(summary["names"]) or not raw.isdisjoint(summary["comments"])


@lru_cache(maxsize=1 << 16)
def names_in(text: str) -> frozenset[str]:
    """Every name that a reference may be about: its parts, its tails, the whole."""
    rest = text
    for prefix in ("source:", "table:"):
        rest = rest.replace(prefix, "")
    connection, slash, tail = rest.partition("/")
    found = {rest, tail} | ({connection} if slash else set())
    for part in (rest, tail):
        pieces = model.plain_table(part).split(".")
        found |= {".".join(pieces[n:]) for n in range(len(pieces))}
        found |= set(part.split("."))
    return frozenset(found - {""})
