"""Scope: what a change can have made wrong. Its own files, what refers to what it touched, and join neighbours.

The closure is by reverse references: a page that names a touched, renamed or deleted source is in it although nobody
touched the page. What lies outside cannot have a finding that the base did not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktxkit.gates.rules import model
from ktxkit.gates.rules.groups import concerned, names_in

if TYPE_CHECKING:
    from ktxkit.gates.rules.findings import Finding

Facts = dict[str, Any]
Tree = Mapping[bytes, Facts]


@dataclass(frozen=True, slots=True)
class Scope:
    """`touched` files, the `names` they declare or declared, and the `referrers`: files that use one of the names."""

    touched: frozenset[bytes]
    names: frozenset[str]
    referrers: frozenset[bytes]

    @property
    def files(self) -> frozenset[bytes]:
        return self.touched | self.referrers

    def holds(self, finding: Finding) -> bool:
        """Whether a finding belongs to the change where no base tells: in its files, or about its names."""
        if finding.path in self.touched:
            return True
        return finding.path in self.referrers and bool(self.names & names_in(finding.reference))


def close(touched: Collection[bytes], trees: Collection[Tree], root: bytes = b"") -> Scope:
    """The closure of touched paths over the trees before and after the change."""
    names: set[str] = set()
    for tree in trees:
        for path in touched:
            names |= set(declared(path, tree.get(path), root))
    raw = {_text(path, root) for path in touched}
    folded = {name.casefold() for name in names}
    targets = _targets(touched, trees)
    near = [concerned(tree, names | folded | targets | raw, bool(names)) for tree in trees]
    referrers = {path for tree in near for path, facts in tree.items() if _uses(facts, names, folded, raw)}
    referrers |= _joined(targets, near)
    if names:
        referrers |= {path for tree in near for path, facts in tree.items() if facts["kind"] == "provenance"}
    return Scope(frozenset(touched), frozenset(names), frozenset(referrers) - frozenset(touched))


def _text(path: bytes, root: bytes) -> str:
    return path.removeprefix(root).decode("utf-8", "surrogateescape")


def declared(path: bytes, facts: Facts | None, root: bytes) -> Iterator[str]:
    """The names that others use for what a file declares: source names, tables, a page's key, a connection."""
    where = model.place_of(path, root)
    if where.kind == "page":
        yield where.key
    if facts is None or facts["kind"] != "sources":
        return
    yield where.connection
    yield path.rpartition(b"/")[2].rpartition(b".")[0].decode("utf-8", "surrogateescape")
    yield from facts["names"]
    for entry in facts["sources"]:
        yield entry["name"]
        parts = model.plain_table(entry.get("table", "")).split(".")
        yield from (".".join(parts[n:]) for n in range(len(parts)))


def _uses(facts: Facts, names: set[str], folded: set[str], raw: set[str]) -> bool:
    if facts["kind"] == "page":
        if any(text in raw for text, _, _ in facts["comments"]):
            return True
        lists = ("slRefs", "tables", "spans", "refs", "links", "words")
        return any(names & names_in(text) for key in lists for text, _, _ in facts[key])
    if facts["kind"] == "provenance":
        return any(row.get("rawPath") in raw or row.get("sourcePath") in raw for row, _, _ in facts["rows"])
    return facts["kind"] == "sources" and any(
        join["to"] in names or join["to"].casefold() in folded for entry in facts["sources"] for join in entry["joins"]
    )


def _targets(touched: Collection[bytes], trees: Collection[Tree]) -> set[str]:
    """Names of touched sources, and of what they join."""
    entries = [entry for tree in trees for path in touched for entry in tree.get(path, {}).get("sources", ())]
    return {entry["name"] for entry in entries} | {join["to"] for entry in entries for join in entry["joins"]}


def _joined(targets: Collection[str], near: Collection[Tree]) -> set[bytes]:
    """Files of sources that a touched source joins, or shares its name with."""
    return {
        path
        for tree in near
        for path, facts in tree.items()
        if facts["kind"] == "sources" and any(entry["name"] in targets for entry in facts["sources"])
    }
