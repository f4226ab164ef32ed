"""The facts of a large tree in groups, each read when it is asked for.

Of a group of plain pages a summary is kept beside the facts: every distinct text that they refer with. Where each of
these texts is answered the pages have no finding, so that their facts need not be read at all. Of every group there
are marks: which of its files mention what. Neither is a verdict: the texts are judged against the tree each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from ktxkit.gates.rules import model, targets

Facts = dict[str, Any]
TEXTS = ("refs", "slRefs", "tables", "links", "spans", "words", "comments")
COUNTED = ("refs", "slRefs", "tables", "links", "spans", "targets")
NOTHING = b"{}"
NAMES = b',"names":'  # in marks
FEW = 32  # names that are looked for in the bytes of the marks, one by one
PAGE, SOURCES, ROWS = "page", "sources", "provenance"


class Group:
    """Some files of a tree. `load`: the facts of each path in order, as values or JSON; `shared`: their summary and
    `marked`: their marks, as JSON.
    """

    def __init__(
        self, paths: Sequence[bytes], shared: bytes, marked: bytes, load: Callable[[], Sequence[Facts | bytes]]
    ) -> None:
        self.paths = paths
        self.shared = shared
        self.marked = marked
        self.load = load

    @cached_property
    def _loaded(self) -> list[Facts | bytes]:
        return list(self.load())

    @cached_property
    def facts(self) -> dict[bytes, Facts]:
        """All of them."""
        lines = [(n, one) for n, one in enumerate(self._loaded) if isinstance(one, bytes)]
        for (n, _), one in zip(lines, json.loads(b"[%b]" % b",".join(line for _, line in lines)), strict=True):
            self._loaded[n] = one
        return dict(zip(self.paths, self._loaded, strict=True))  # type: ignore[arg-type]

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {path: n for n, path in enumerate(self.paths)}

    def has(self, path: object) -> bool:
        return path in self._numbers

    def facts_of(self, path: bytes) -> Facts:
        """The facts of one path."""
        n = self._numbers[path]
        found = self._loaded[n]
        if isinstance(found, bytes):
            found = self._loaded[n] = json.loads(found)
        return found

    @cached_property
    def summary(self) -> Facts:
        found: Facts = json.loads(self.shared)
        return found

    @property
    def plain(self) -> bool:
        """Whether the group has a summary: it is of plain pages only."""
        return self.shared != NOTHING

    @cached_property
    def _head(self) -> dict[str, list[int]]:
        """The marks without the names, which come last."""
        found: dict[str, list[int]] = json.loads(self.marked[: self.marked.index(NAMES)] + b"}")
        return found

    @cached_property
    def _names(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = json.loads(self.marked)["names"]
        return found

    @property
    def pages(self) -> Sequence[bytes]:
        """The paths that pages stand at."""
        if self.plain:
            return self.paths
        others = set(self._head["others"])
        return [path for n, path in enumerate(self.paths) if n not in others]

    @property
    def others(self) -> Sequence[bytes]:
        """The paths that no pages stand at."""
        return [] if self.plain else [self.paths[n] for n in self._head["others"]]

    @property
    def special(self) -> Sequence[bytes]:
        """Files that are looked at whatever changed: with comments that suppress, and rows of provenance."""
        return [] if self.plain else [self.paths[n] for n in self._head["special"]]

    def mentioning(self, names: Collection[str]) -> list[bytes]:
        """The files that may mention one of these names or raw paths."""
        found = {n for name in names for n in self._of(name, len(names) <= FEW)}
        return [self.paths[n] for n in sorted(found)]

    def _of(self, name: str, few: bool) -> Sequence[int]:
        """The files that mention a name. Of few names each is looked for in the bytes: a quote in JSON opens a text."""
        if not few:
            return self._names.get(name, ())
        start = json.dumps(name).encode("ascii") + b":["
        at = max(self.marked.find(lead + start) for lead in (b"{", b","))
        if at < 0:
            return ()
        numbers = at + len(start)
        return list(map(int, self.marked[numbers + 1 : self.marked.index(b"]", numbers)].split(b",")))


class Grouped(Mapping[bytes, Facts]):
    """The facts of a tree by path. `home`: the group that may have a path, where that is known without a look."""

    def __init__(
        self, groups: Sequence[Group], layer: str = "", home: Callable[[bytes], Group | None] | None = None
    ) -> None:
        self.groups = groups
        self.layer = layer  # what the semantic layer follows from
        self._home = home or self._table.get

    @cached_property
    def _table(self) -> dict[bytes, Group]:
        return {path: group for group in self.groups for path in group.paths}

    def __getitem__(self, path: bytes) -> Facts:
        group = self._home(path)
        if group is None:
            raise KeyError(path)
        return group.facts_of(path)

    def __contains__(self, path: object) -> bool:
        group = self._home(path) if isinstance(path, bytes) else None
        return group is not None and group.has(path)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def summarized(facts: Mapping[bytes, Facts]) -> list[Group]:
    """The groups of a tree that have a summary."""
    return [group for group in facts.groups if group.plain] if isinstance(facts, Grouped) else []


def loose(facts: Mapping[bytes, Facts], groups: Sequence[Group]) -> dict[bytes, Facts]:
    """The facts that are in none of these groups."""
    if not isinstance(facts, Grouped):
        return dict(facts)
    return {path: one for group in facts.groups if group not in groups for path, one in group.facts.items()}


def pages_of(facts: Mapping[bytes, Facts]) -> list[bytes]:
    """The paths of a tree that pages stand at."""
    if isinstance(facts, Grouped):
        return [path for group in facts.groups for path in group.pages]
    return [path for path, one in facts.items() if one["kind"] == PAGE]


def others_of(facts: Mapping[bytes, Facts]) -> dict[bytes, Facts]:
    """The facts of a tree's files that are no pages; more of them where it is not in groups."""
    if not isinstance(facts, Grouped):
        return dict(facts)
    found: dict[bytes, Facts] = {}
    for group in facts.groups:
        paths = group.others
        found.update(group.facts if len(paths) == len(group.paths) else {path: group.facts_of(path) for path in paths})
    return found


def special_of(facts: Mapping[bytes, Facts]) -> list[bytes]:
    """Files of a tree that are looked at whatever changed."""
    if isinstance(facts, Grouped):
        return [path for group in facts.groups for path in group.special]
    return [path for path, one in facts.items() if one["ignores"] or one["kind"] == ROWS]


def texts_of(facts: Mapping[bytes, Facts], root: bytes) -> bytes:
    """What pages hold together, as JSON; nothing where one is not everyone's, or has a problem or a comment."""
    texts: dict[str, set[str]] = {key: set() for key in (*TEXTS, "targets")}
    counts = {"pages": len(facts), **dict.fromkeys(COUNTED, 0)}
    for path, page in facts.items():
        where = model.artifact_path(path, root)
        plain = page["kind"] == PAGE and not page["problems"] and not page["ignores"]
        if not plain or where.user or not model.PAGE_KEY.match(where.key):
            return NOTHING
        for key in TEXTS:
            texts[key].update(text for text, _, _ in page[key])
        texts["targets"].update(_beside(path, page))
        for key in COUNTED:
            counts[key] += len(page[key])
    return _json({**{key: sorted(found) for key, found in texts.items()}, "counts": counts}) if facts else NOTHING


def _beside(path: bytes, page: Facts) -> Iterator[str]:
    """The targets of a page, each behind what it is looked for from: its directory, or the page where its anchors
    count. What is right by the page alone is left out.
    """
    here = path.decode("utf-8", "surrogateescape")
    for text, _, _ in page["targets"]:
        if not text.startswith("#"):
            yield f"{here if '#' in text else here.rpartition('/')[0] + '/'}\0{text}"
        elif text[1:] not in page["anchors"]:
            yield f"{here}\0{text}"


def marks_of(facts: Mapping[bytes, Facts], known: Sequence[Iterable[str] | None] = ()) -> bytes:
    """Which files mention what, as JSON: by number in their order. `known`: what is `mentioned` by each."""
    names: dict[str, list[int]] = {}
    for n, one in enumerate(facts.values()):
        for name in (known[n] if n < len(known) else None) or sorted(mentioned(one)):
            names.setdefault(name, []).append(n)
    special = [n for n, one in enumerate(facts.values()) if one["ignores"] or one["kind"] == ROWS]
    others = [n for n, one in enumerate(facts.values()) if one["kind"] != PAGE]
    return _json({"special": special, "others": others, "names": names})


def mentioned(facts: Facts) -> set[str]:
    """Every name and raw path for the sake of which a change may concern a file."""
    if facts["kind"] == PAGE:
        found = {text for text, _, _ in facts["comments"]}
        found |= {targets.mentioned(text) for text, _, _ in facts["targets"]} - {""}
        return found.union(*(names_in(text) for key in TEXTS if key != "comments" for text, _, _ in facts[key]))
    if facts["kind"] == ROWS:
        return {row[key] for row, _, _ in facts["rows"] for key in ("rawPath", "sourcePath") if key in row}
    joined = {join["to"] for entry in facts.get("sources", ()) for join in entry["joins"]}
    return {*joined, *map(str.casefold, joined), *(entry["name"] for entry in facts.get("sources", ()))}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def concerned(facts: Mapping[bytes, Facts], names: Iterable[str], rows: bool) -> dict[bytes, Facts]:
    """The facts of all files that may mention one of these names or raw paths; `rows`: and of all with provenance."""
    if not isinstance(facts, Grouped):
        return dict(facts)
    wanted = set(names)
    found = {path: group.facts_of(path) for group in facts.groups for path in group.mentioning(wanted)}
    if rows:
        found.update({path: facts[path] for path in special_of(facts)})
    return found


def looked_at(facts: Mapping[bytes, Facts]) -> dict[str, int]:
    """Counts of what is there to be looked at."""
    pages = [one for one in facts.values() if one["kind"] == "page"]
    entries = [entry for one in facts.values() if one["kind"] == "sources" for entry in one["sources"]]
    return {
        "files": sum(1 for one in facts.values() if one["kind"] != model.UNREAD),
        "pages": len(pages),
        "sources": len(entries),
        "references": sum(len(page[key]) for page in pages for key in COUNTED),
        "joins": sum(len(entry["joins"]) for entry in entries),
        "rows": sum(len(one["rows"]) for one in facts.values() if one["kind"] == "provenance"),
    }


def key_of(link: str) -> str:
    """The page's key in what a link says."""
    return link.partition("#")[0].strip()


@lru_cache(maxsize=1 << 16)
def names_in(text: str) -> frozenset[str]:
    """Every name that a reference may be about: its parts, its tails, the whole."""
    parts = text.split(".")
    if all(map(str.isidentifier, parts)) and text.casefold() == text:
        return frozenset((*parts, *(".".join(parts[n:]) for n in range(len(parts) - 1))))
    from ktxkit.gates.rules.spelling import words_of  # its patterns cost a job without such names two milliseconds

    rest = text
    for prefix in ("source:", "table:"):
        rest = rest.replace(prefix, "")
    connection, slash, tail = rest.partition("/")
    found = {rest, tail, key_of(text)} | ({connection} if slash else set())
    for part in (rest, tail):
        pieces = model.plain_table(part).split(".")
        found |= {".".join(pieces[n:]) for n in range(len(pieces))}
        found |= set(part.split("."))
    return frozenset(found - {""}) | words_of(text)
