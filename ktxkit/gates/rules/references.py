"""References of pages: which are gated, and whether what they name is there.

Explicit forms (`source:NAME`, `table:NAME`, `connection/...`, the lists of the front matter) are always gated. A bare
`a.b` is an error only where `a` is a known source; a known `schema.table` passes. In a longer text (an expression, a
statement, a sentence) each known source with a dot behind it is looked at, and told as a warning. Anything else is
prose. An entity is looked for in every connection that has the source, since the same source may stand in several.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import nsmallest

from ktxkit.base.rules.named import NamedTuple
from ktxkit.gates.rules import spelling
from ktxkit.gates.rules.findings import ADVICE, WARNING, level_of
from ktxkit.gates.rules.model import Layer, Source
from ktxkit.gates.rules.spelling import Chain

SHOWN = 12  # names that a finding lists as searched
_FILE = re.compile(r"(?:ya?ml|md|json|jsonl|sql|csv|py|ts|js|txt|html|toml|lkml|parquet|sh)\Z")
_NEAR = 0.85  # how alike two names are before one is offered for the other where nothing says that it is meant


class Wrong(NamedTuple):
    """Why a reference is one that nothing answers. `absent`: what is not there; `level`: where it is not the rule's."""

    rule: str
    message: str
    searched: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    hint: str = ""
    absent: str = ""
    level: str = ""


class References:
    """Answers for one tree; each text is judged once. `strict`: a name that several connections answer is told.

    `former`: sources of the base. A bare `a.b` whose `a` has just gone is no prose. `pins`: of a source's name
    the source that is meant (`CONNECTION/SOURCE`), and no other.
    """

    def __init__(
        self,
        layer: Layer,
        *,
        strict: bool = False,
        former: Container[str] = frozenset(),
        pins: Mapping[str, str] | None = None,
    ) -> None:
        self.layer = layer
        self.pins = {} if pins is None else pins
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
            wrong = self._sl_ref(text) if kind == "sl" else self._table(text, "", text)
            seen = spelling.folded(text)
            self._lists[key] = _hidden(text, seen) if wrong is not None and _differs(text, seen) else wrong
        return self._lists[key]

    def _span(self, text: str) -> Wrong | None:
        wrong = self._as_written(text)
        if text.isascii():
            return wrong
        seen = spelling.visible(text)
        if spelling.is_disguised(text) and self._refers(seen):
            return _hidden(text, seen, "" if spelling.is_single(seen) else WARNING)
        seen = spelling.folded(text)
        if seen.isascii() and self._refers(seen) and (wrong is not None or not self._refers(text)):
            return _hidden(text, seen)
        return wrong

    def _refers(self, text: str) -> bool:
        """Whether a text is of an explicit form, or has a known source or connection before its dot or slash."""
        bare = text.strip().rstrip(spelling.END)
        if spelling.EXPLICIT.match(bare) or self.layer.knows_table(bare):
            return True
        slashed = spelling.SLASHED.match(bare)
        if slashed and slashed[1] in self.layer.connections:
            return True
        heads = {bare.partition(".")[0], *(part for one in spelling.chains(bare) for part in one.parts[:-1])}
        return "." in bare and any(self._known(head) or head.casefold() in self.layer.folds for head in heads)

    def _known(self, source: str) -> bool:
        return source in self.layer.homes or source in self.former or self.layer.is_unreadable(source)

    def _as_written(self, text: str) -> Wrong | None:
        bare = text.strip().rstrip(spelling.END)
        explicit = spelling.EXPLICIT.match(bare)
        if explicit:
            return self._explicit(explicit[1] or "", explicit[2], explicit[3], explicit[4], text)
        slashed = spelling.SLASHED.match(bare)
        if slashed:
            return self._slashed(slashed[1], slashed[2], text)
        source, dot, entity = bare.partition(".")
        if dot and self._known(source):
            found = self.layer.find(source)
            less = "-" in entity and any(one.has(spelling.head(entity)) for one in found)  # source.entity-1
            if (spelling.PLAIN.match(entity) and not less) or any(one.has(entity) for one in found):
                return self._bare(source, entity, text)
            if not entity:
                return Wrong(
                    "ref-format", f"{text}: it names nothing of {source}", hint=f"write {source}", level=WARNING
                )
        elif dot and spelling.PLAIN.match(source) and spelling.PLAIN.match(entity):
            return self._bare(source, entity, text)
        if not dot or self.layer.knows_table(bare):
            return None
        return self._within(bare, text)

    def _slashed(self, connection: str, rest: str, text: str) -> Wrong | None:
        source, dot, entity = rest.partition(".")
        if connection not in self.layer.connections:
            return self._foreign(connection, source, entity, text)
        if dot and _FILE.match(entity) and not any(one.has(entity) for one in self.layer.find(source)):
            return self._source(source, connection, text, "unknown-source")
        return self._source(source, connection, text, "unknown-source") or self._entity(
            source, entity, connection, text
        )

    def _explicit(self, connection: str, prefix: str, colon: str, name: str, text: str) -> Wrong | None:
        """`source:NAME`; one that is not written so (a blank, capitals) is told if it dangles, as a warning."""
        canonical = colon == ":" and prefix.islower()
        wrong = self._explicitly(connection, prefix.casefold(), name, text)
        if wrong is None or canonical:
            return wrong
        return wrong._replace(level=WARNING)

    def _explicitly(self, connection: str, prefix: str, name: str, text: str) -> Wrong | None:
        if connection and connection not in self.layer.connections:
            return self._no_connection(connection, text)
        if prefix == "table":
            return self._table(name, connection, text)
        inner, rest = split_connection(name)
        source, dot, entity = rest.partition(".") if rest not in self.layer.homes else (rest, "", "")
        if not source or (dot and not entity):
            return _unreadable(text)
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
        return self._near(source, entity)

    def _near(self, source: str, entity: str) -> Wrong | None:
        """A name that nearly is a source's: a warning where that one has the entity, or where case alone differs."""
        same = [name for name in self.layer.folds.get(source.casefold(), ()) if name != source]
        near = same or self.layer.near_source(source, "", 1, _NEAR)
        for name in near:
            found = self.layer.find(name)
            fold = entity.casefold()
            has = sorted({known for one in found for known in one.names() if known.casefold() == fold})
            if has:
                message = f"no source is named {source}, but {name} has {has[0]}"
                return Wrong("near-source", message, (), tuple(f"{name}.{known}" for known in has))
        if not same:
            return None
        message = f"no source is named {source}; {same[0]} is, but has no {entity}"
        return Wrong("near-source", message, (), (same[0],), level=ADVICE)

    def _within(self, bare: str, text: str) -> Wrong | None:
        """The first thing that is wrong in a longer text."""
        bare = _APART.sub(".", bare)
        named = spelling.aliases(bare)
        for chain in spelling.chains(bare):
            if chain.parts[0] in named or bare[: chain.start].endswith(("/", "@", "\\")):
                continue  # a table of the statement; a path or an address
            wrong = self._chain(chain, bare, text)
            if wrong is not None:
                return wrong._replace(level=wrong.level or WARNING)
        return self._odd_names(bare, text)

    def _chain(self, chain: Chain, bare: str, text: str) -> Wrong | None:
        first, *rest = chain.parts
        if not self._known(first):
            at = self._behind_places(chain.parts)
            if at:  # connection.source.entity, schema.table.column
                first, *rest = chain.parts[at:]
                if not rest:
                    return None
            elif len(rest) == 1 and not chain.call:
                near = self._near(first, rest[0])
                return near if near is not None and near.level != ADVICE else None
            else:
                return None
        found = self.layer.find(first)
        if not rest:
            if self._has_odd(found, bare[chain.end :]):
                return None
            return Wrong("ref-format", f"{text}: {first}. names nothing of {first}", hint=f"{first}.NAME, or {first}")
        if rest[0] == "*" or (chain.call and bare[chain.end :] != "()") or self.layer.is_unreadable(first):
            return None
        if any(one.has(rest[0]) for one in found) or self._has_odd(found, bare[chain.start + len(first) + 1 :]):
            return None
        if len(rest) == 1 and _FILE.match(rest[0]) and "/" in bare:
            return None
        if first not in self.layer.homes:
            return self._source(first, "", text, "unknown-source")
        return self._entity(first, rest[0], "", text)

    def _behind_places(self, parts: Sequence[str]) -> int:
        """Where in a chain a source stands behind its connection, or behind the schema and database of its table."""
        for at in range(1, min(len(parts), 4)):
            tables = (".".join(parts[start : at + 1]) for start in range(at))
            if self._known(parts[at]) and (
                parts[at - 1] in self.layer.connections or any(map(self.layer.knows_table, tables))
            ):
                return at
        return 0

    def _has_odd(self, sources: Iterable[Source], rest: str) -> bool:
        """Whether a text begins with an entity's name that has blanks or signs in it."""
        names = {name for one in sources for name in one.names() if not spelling.SIMPLE.match(name)}
        return any(spelling.begins(rest, name) for name in names)

    def _odd_names(self, bare: str, text: str) -> Wrong | None:
        """Sources with blanks or signs in their names, which no pattern finds."""
        for name in self.layer.odd:
            for rest in spelling.behind(bare, name):
                found = self.layer.find(name)
                entity = spelling.head(rest)
                if not any(one.has(entity) for one in found) and not self._has_odd(found, rest):
                    wrong = self._entity(name, entity or rest, "", text)
                    return wrong._replace(level=WARNING) if wrong is not None else None
        return None

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
            return _unreadable(text)
        connection, rest = split_connection(text)
        source, dot, entity = rest.partition(".")
        if not source or (dot and not entity) or text.startswith("/"):
            return _unreadable(text)
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
        pinned, wanted = self._pinned(source)
        if wanted not in ("", source) and homes:
            return self._another(source, text)
        if pinned and connection in homes and connection != pinned:
            fixed = text.replace(f"{connection}/", f"{pinned}/", 1)
            message = f"{text}: the canonical {source} is {pinned}'s"
            return Wrong("canonical-pin", message, (pinned,), (fixed,), f"write {fixed}", source)
        connection = connection or (pinned if pinned in homes else "")
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

    def _pinned(self, source: str) -> tuple[str, str]:
        """Connection and name of the source that a name is to mean; empty where nobody chose."""
        connection, _, name = self.pins.get(source, "").partition("/")
        return (connection, name.partition(".")[0]) if connection in self.layer.connections else ("", "")

    def _another(self, source: str, text: str) -> Wrong:
        fixed = self.pins[source]
        message = f"{text}: the canonical {source} is {fixed}"
        return Wrong("canonical-pin", message, (), (fixed,), f"write {fixed}", source)

    def _ambiguous(self, source: str, text: str, homes: list[str]) -> Wrong:
        fixed = tuple(f"{home}/{text.removeprefix('source:')}" for home in homes)
        message = f"{text}: several connections have a source {source}"
        return Wrong("ambiguous-reference", message, tuple(homes), fixed, "say which connection is meant", source)

    def _entity(self, source: str, entity: str, connection: str, text: str) -> Wrong | None:
        pinned, wanted = self._pinned(source)
        if wanted not in ("", source) and source in self.layer.homes:
            return self._another(source, text)
        connection = connection or pinned
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


_APART = re.compile(r"(?<=[\w\"`\]])[ \t]+\.[ \t]+(?=[^\W\d])")  # SQL takes blanks around a dot


def is_fine(wrong: Wrong | None) -> bool:
    """Whether a text is answered, or is only worth advice."""
    return wrong is None or (wrong.level or level_of(wrong.rule)) == ADVICE


def _unreadable(text: str) -> Wrong:
    return Wrong("ref-format", f"{text!r} is no reference", hint="source, source.entity or connection/source")


def _differs(text: str, seen: str) -> bool:
    """Whether an entry hides a character, or is Latin to the eye alone."""
    return spelling.visible(text) != text or (seen != text and seen.isascii())


def _hidden(text: str, seen: str, level: str = "") -> Wrong:
    """A text that is another one than it looks."""
    plain = seen.strip()
    odd = spelling.oddities(text, seen)[:3]
    message = f"{plain}: {' and '.join(odd)} stand{'s' if len(odd) == 1 else ''} in it, so that it names something else"
    return Wrong("odd-character", message, (), (plain,), f"write {plain}", plain, level)


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
