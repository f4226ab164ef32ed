"""References of pages: which are gated, and whether what they name is there.

Explicit forms (`source:NAME`, `table:NAME`, `connection/...`, the lists of the front matter) are always gated. A bare
`a.b` is an error only where `a` is a known source; a known `schema.table` passes; anything else is prose. An entity is
looked for in every connection that has the source, since the same source may stand in several.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from heapq import nsmallest
from typing import NamedTuple

from ktxkit.gates.rules.findings import ADVICE, level_of
from ktxkit.gates.rules.model import Layer, Source

SHOWN = 12  # names that a finding lists as searched
_FILE = re.compile(r"(?:ya?ml|md|json|jsonl|sql|csv|py|ts|js|txt|html|toml|lkml|parquet|sh)\Z")
_NEAR = 0.85  # how alike two names are before one is offered for the other where nothing says that it is meant


class Wrong(NamedTuple):
    """Why a reference is one that nothing answers. `absent`: what is not there."""

    rule: str
    message: str
    searched: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    hint: str = ""
    absent: str = ""


class References:
    """Answers for one tree; each text is judged once. `strict`: a name that several connections answer is told.

    `former`: sources of the base. A bare `a.b` whose `a` has just gone is no prose.
    """

    def __init__(self, layer: Layer, *, strict: bool = False, former: Container[str] = frozenset()) -> None:
        self.layer = layer
        self.strict = strict
        self.former = former
        self._spans: dict[str, Wrong | None] = {}
        self._lists: dict[tuple[str, str], Wrong | None] = {}

    def span(self, text: str) -> Wrong | None:
        """A code span of a body."""
        if text not in self._spans:
            self._spans[text] = self._span(text)
        return self._spans[text]

    def sl_ref(self, text: str) -> Wrong | None:
        """An entry of `sl_refs`."""
        return self._kept("sl", text)

    def table(self, text: str) -> Wrong | None:
        """An entry of `tables`."""
        return self._kept("table", text)

    def fine(self) -> dict[str, set[str]]:
        """The texts that were asked about and are answered, by kind of list."""
        found: dict[str, set[str]] = {"spans": _fine(self._spans.items()), "slRefs": set(), "tables": set()}
        for (kind, text), wrong in self._lists.items():
            found["slRefs" if kind == "sl" else "tables"] |= _fine([(text, wrong)])
        return found

    def _kept(self, kind: str, text: str) -> Wrong | None:
        key = (kind, text)
        if key not in self._lists:
            self._lists[key] = self._sl_ref(text) if kind == "sl" else self._table(text, "", text)
        return self._lists[key]

    def _span(self, text: str) -> Wrong | None:
        connection, rest = split_connection(text)
        for prefix in ("source:", "table:"):
            if rest.startswith(prefix):
                return self._explicit(prefix, rest.removeprefix(prefix).strip(), connection, text)
        source, dot, entity = rest.partition(".")
        if not connection:
            return self._bare(source, entity, text)
        if connection not in self.layer.connections:
            return self._foreign(connection, source, entity, text)
        if dot and _FILE.match(entity) and not any(one.has(entity) for one in self.layer.find(source)):
            return self._source(source, connection, text, "unknown-source")
        return self._source(source, connection, text, "unknown-source") or self._entity(
            source, entity, connection, text
        )

    def _explicit(self, prefix: str, name: str, connection: str, text: str) -> Wrong | None:
        if connection and connection not in self.layer.connections:
            return self._no_connection(connection, text)
        if prefix == "table:":
            return self._table(name, connection, text)
        inner, rest = split_connection(name)
        source, _, entity = rest.partition(".") if rest not in self.layer.homes else (rest, "", "")
        connection = inner or connection
        return self._source(source, connection, text, "unknown-source") or self._entity(
            source, entity, connection, text
        )

    def _bare(self, source: str, entity: str, text: str) -> Wrong | None:
        if source in self.layer.homes:
            if self.layer.knows_table(text):
                return None
            return self._entity(source, entity, "", text)
        if self.layer.is_unreadable(source) or self.layer.knows_table(text):
            return None
        if source in self.former:
            return self._source(source, "", text, "unknown-source")
        near = self.layer.near_source(source, "", 1, _NEAR)
        if not near or not any(one.has(entity) for one in self.layer.find(near[0])):
            return None
        return Wrong(
            "near-source", f"no source is named {source}, but {near[0]} has {entity}", (), (f"{near[0]}.{entity}",)
        )

    def _foreign(self, connection: str, source: str, entity: str, text: str) -> Wrong | None:
        """`a/b` with an unknown `a`: a path in prose, unless `b` is a source or `a` nearly a connection."""
        near = self._near_connection(connection, 1, _NEAR)
        known = source in self.layer.homes and not _FILE.match(entity)
        return self._no_connection(connection, text) if near or known else None

    def _no_connection(self, connection: str, text: str) -> Wrong:
        return Wrong(
            "unknown-connection",
            f"{text}: there is no connection {connection}",
            listed(self.layer.connections),
            tuple(self._near_connection(connection)),
            "name a directory of semantic-layer/, or leave the connection out",
            connection,
        )

    def _sl_ref(self, text: str) -> Wrong | None:
        if not text.strip() or text != text.strip() or text.count("/") > 1:
            return Wrong("ref-format", f"{text!r} is no reference", hint="source, source.entity or connection/source")
        connection, rest = split_connection(text)
        source, _, entity = rest.partition(".")
        if connection and connection not in self.layer.connections:
            return self._no_connection(connection, text)
        if not connection and source in self.layer.connections and entity.partition(".")[0] in self.layer.homes:
            fixed = f"{source}/{entity}"
            return Wrong(
                "ref-format", f"{text}: a dot stands where a slash is due", (), (fixed,), f"write {fixed}", text
            )
        return self._source(source, connection, text, "unknown-sl-ref") or self._entity(
            source, entity, connection, text
        )

    def _source(self, source: str, connection: str, text: str, rule: str) -> Wrong | None:
        homes = self.layer.homes.get(source, [])
        if connection in homes or (homes and not connection):
            if self.strict and not connection and len(homes) > 1:
                return self._ambiguous(source, text, homes)
            return None
        if self.layer.is_unreadable(source, connection):
            return None  # one error on the file says it
        near = self.layer.near_source(source, connection)
        elsewhere = f"; it is in {', '.join(homes)}" if homes else ""
        searched = (connection,) if connection else listed(self.layer.connections)
        hint = f"did you mean {near[0]}?" if near else "add the source, or remove the reference"
        return Wrong(rule, f"{text}: there is no source {source}{elsewhere}", searched, tuple(near), hint, source)

    def _ambiguous(self, source: str, text: str, homes: list[str]) -> Wrong:
        fixed = tuple(f"{home}/{text.removeprefix('source:')}" for home in homes)
        message = f"{text}: several connections have a source {source}"
        return Wrong("ambiguous-reference", message, tuple(homes), fixed, "say which connection is meant", source)

    def _entity(self, source: str, entity: str, connection: str, text: str) -> Wrong | None:
        found = [one for one in self.layer.find(source) if not connection or one.connection == connection]
        if not found or not entity:
            return None
        having = [one for one in found if one.has(entity)]
        if having:
            several = self.strict and not connection and len(having) > 1
            return self._ambiguous(source, text, [one.connection for one in having]) if several else None
        if self.layer.is_unreadable(source, connection) or not all(one.based for one in found):
            return None  # what it has cannot be known; another finding says why
        return self._stale(source, entity, found, text)

    def _stale(self, source: str, entity: str, found: list[Source], text: str) -> Wrong:
        near = self.layer.near_entity(entity, found)
        lead = text[: len(text) - len(entity)]
        if near:
            hint = f"did you mean {lead}{near[0]}?"
        else:
            known = nsmallest(SHOWN, {name for one in found for name in one.names()})
            hint = f"{source} has {', '.join(known) or 'nothing'}"
        searched = tuple(f"{one.connection}/{source}" for one in found)
        message = f"{text}: {source} has no measure, column or segment {entity}"
        return Wrong(
            "stale-entity", message, searched, tuple(f"{lead}{name}" for name in near), hint, f"{source}.{entity}"
        )

    def _table(self, name: str, connection: str, text: str) -> Wrong | None:
        if self.layer.knows_table(name, connection):
            return None
        near = self.layer.near.names(name.casefold(), ("tables", connection), lambda: self._tables(connection))
        searched = (connection,) if connection else listed(self.layer.connections)
        hint = f"did you mean {near[0]}?" if near else "no source of these connections reads that table"
        return Wrong("unknown-table", f"{text}: no source reads a table {name}", searched, tuple(near), hint, name)

    def _tables(self, connection: str) -> set[str]:
        places = [connection] if connection else list(self.layer.tables)
        return {table for place in places for table in self.layer.tables.get(place, ()) if "." in table}

    def _near_connection(self, connection: str, limit: int = 3, cutoff: float = 0.6) -> list[str]:
        return self.layer.near.names(connection, "connections", lambda: self.layer.connections, limit, cutoff)


def is_fine(wrong: Wrong | None) -> bool:
    """Whether a text is answered, or is only worth advice."""
    return wrong is None or level_of(wrong.rule) == ADVICE


def _fine(answers: Iterable[tuple[str, Wrong | None]]) -> set[str]:
    return {text for text, wrong in answers if is_fine(wrong)}


def split_connection(text: str) -> tuple[str, str]:
    """`connection/rest` in two; an empty connection where there is none."""
    head, slash, rest = text.partition("/")
    if not slash or ":" in head:
        return "", text
    return head, rest


def listed(names: Iterable[str]) -> tuple[str, ...]:
    """What was searched, in bounds."""
    whole = sorted(names)
    more = len(whole) - SHOWN
    return (*whole[:SHOWN], f"and {more} more") if more > 0 else tuple(whole)
