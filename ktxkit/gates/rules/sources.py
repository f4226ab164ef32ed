"""Rules over the semantic layer of one tree: names, joins, columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ktxkit.gates.rules import expressions
from ktxkit.gates.rules.findings import Finding
from ktxkit.gates.rules.model import CONFIGURATION, FILE_NAME, RESERVED, Layer, Source, entries, plain_table

Facts = dict[str, Any]
# What to say, what was searched, and the group of names there with what gives them.
_Absent = tuple[str, str, tuple[str, ...], Callable[[], Iterable[str]]]
NO_DIALECTS: Mapping[str, str] = {}
_SLUG = re.compile(r"[^a-z0-9]+")


def judge(layer: Layer, dialects: Mapping[str, str] = NO_DIALECTS) -> Iterator[Finding]:
    """Every finding of the semantic layer but those that a single file has by itself. `dialects`: by connection."""
    yield from _circles(layer, dialects)
    for source, path, form, entry in entries(layer):
        yield from _names(source, path, form, entry)
        yield from _joins(layer, source, path, entry)
        yield from _columns(layer, source, path, entry)
        yield from _expressions(layer, source, path, entry, dialects)
    for connection in sorted(layer.connections):
        for source in layer.connections[connection].values():
            yield from _declared(layer, source)


def pinned(layer: Layer, pins: Iterable[tuple[str, str]], pages: Collection[str]) -> Iterator[Finding]:
    """What somebody chose as canonical and is not there. `pages`: the keys of everyone's pages."""
    for topic, place in pins:
        message = _absent(layer, place, pages)
        if message:
            homes = tuple(layer.homes.get(place.partition("/")[2].partition(".")[0], ()))
            hint = "put it back, or choose another one under `canonical`"
            said = f"the canonical {topic} is to be {place}, but {message}"
            yield Finding("canonical-pin", CONFIGURATION.encode(), said, 0, 0, place, homes, hint=hint)


def _absent(layer: Layer, place: str, pages: Collection[str]) -> str:
    """Why there is no artifact at a place; empty where there is one, or where another finding says why not."""
    connection, _, name = place.partition("/")
    if connection == "wiki" and connection not in layer.connections:
        return "" if name in pages else f"there is no page {name}"
    source, _, entity = name.partition(".")
    found = layer.connections.get(connection, {}).get(source)
    if found is None:
        return "" if layer.is_unreadable(source, connection) else f"{connection} has no source {source}"
    known = not entity or found.has(entity) or not found.based or layer.is_unreadable(source, connection)
    return "" if known else f"{source} has no {entity}"


def _declared(layer: Layer, source: Source) -> Iterator[Finding]:
    """One source, one declaration; an overlay needs a table beneath it."""
    bases = [(path, form) for path, form, _ in source.declared if form != "overlay"]
    overlays = [path for path, form, _ in source.declared if form == "overlay"]
    for same in (sorted({path for path, _ in bases}), sorted(set(overlays))):
        for path in same if len(same) > 1 else ():
            others = [other.decode("utf-8", "replace") for other in same if other != path]
            yield _at(source, path, "duplicate-source", f"{', '.join(others)} declares {source.name} too", source.name)
    hidden = layer.is_unreadable(source.name, source.connection) or _shard_unreadable(layer, source.connection)
    if overlays and not bases and not hidden:
        message = f"{source.name} has neither table nor sql, and no _schema table has its name"
        near = layer.near_source(source.name, source.connection, 4)
        yield _at(
            source, overlays[0], "orphan-overlay", message, source.name, near=[n for n in near if n != source.name]
        )


def _shard_unreadable(layer: Layer, connection: str) -> bool:
    return bool(layer.unreadable.get(connection))


def _at(source: Source, path: bytes, rule: str, message: str, reference: str, near: list[str] | None = None) -> Finding:
    entry = next(entry for where, _, entry in source.declared if where == path)
    return Finding(
        rule, path, message, entry["line"], entry["column"], reference, (source.connection,), tuple(near or ())
    )


def file_names(name: str) -> list[str]:
    """The file stems that a source's name may have: itself where it is plain, else a slug and 8 hex digits of it."""
    if FILE_NAME.match(name) and name not in RESERVED:
        return [name]
    slug = _SLUG.sub("_", name.casefold()).strip("_")
    return [f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}", name]


def _names(source: Source, path: bytes, form: str, entry: Facts) -> Iterator[Finding]:
    if form != "shard":
        stem = path.rpartition(b"/")[2].rpartition(b".")[0].decode("utf-8", "surrogateescape")
        wanted = file_names(source.name)
        slugged = re.match(r".*-[0-9a-f]{8}\Z", stem) and stem.endswith(wanted[0][-9:])
        if stem not in wanted and not slugged:
            message = f"the file is {stem} but the source's name is {source.name}"
            hint = f"rename the file to {wanted[0]}.yaml, or the source to {stem}"
            yield Finding("name-mismatch", path, message, entry["line"], entry["column"], source.name, hint=hint)
    for kind in ("measures", "segments"):
        for name, line, column in entry[kind]:
            if name in source.columns:
                message = f"the {kind[:-1]} {name} has the name of a column: a reference to it is ambiguous"
                yield Finding("name-shadow", path, message, line, column, name, hint="rename the measure")


def _joins(layer: Layer, source: Source, path: bytes, entry: Facts) -> Iterator[Finding]:
    siblings = layer.connections[source.connection]
    used = {
        qualifier
        for what, *_, columns in entry["expressions"]
        if not what.startswith("joins")
        for qualifier, _ in columns
    }
    ways: dict[str, str] = {}
    for join in entry["joins"]:
        name = join.get("alias", join["to"])
        if ways.setdefault(name, join.get("on", "")) != join.get("on", "") and name in used - {source.name}:
            message = f"{source.name} joins {name} by two conditions: which way its expressions mean cannot be told"
            place = (join["line"], join["column"], f"{source.name} -> {name}: {join.get('on', '')}")
            yield Finding("join-ambiguous", path, message, *place, hint="give each of them an alias of its own")
        target = join["to"]
        if target in siblings or layer.is_unreadable(target, source.connection):
            continue
        same = layer.folded[source.connection].get(target.casefold())
        rule = "join-case" if same else "unknown-join-target"
        near = [same] if same else layer.near_source(target, source.connection)
        others = [home for home in layer.homes.get(target, ()) if home != source.connection]
        elsewhere = f"; {', '.join(others)} has one, but joins stay in their connection" if others else ""
        message = f"{source.name} joins {target}, which {source.connection} does not have{elsewhere}"
        hint = f"did you mean {near[0]}?" if near else "add the source, or remove the join"
        yield Finding(
            rule, path, message, join["line"], join["column"], target, (source.connection,), tuple(near), hint
        )


def _columns(layer: Layer, source: Source, path: bytes, entry: Facts) -> Iterator[Finding]:
    """Columns and segments that a source names in its own lists."""
    if not source.based:
        return
    base = {name for _, kind, one in source.declared if kind != "overlay" for name, _, _ in one["columns"]}
    base |= source.columns
    for key, known in (("grain", source.columns), ("excluded", base), ("overridden", base), ("times", source.columns)):
        for name, line, column in entry[key]:
            if name not in known and not (key == "times" and "." in name):
                group = (source.connection, source.name, "based" if known is base else "columns")
                near = layer.near.names(name, group, lambda known=known: known)  # type: ignore[misc]
                message = f"{source.name} has no column {name}"
                yield Finding("unknown-column", path, message, line, column, name, (source.name,), tuple(near))
    for name, line, column in entry["uses"]:
        if name not in source.segments:
            group = (source.connection, source.name, "segments")
            near = layer.near.names(name, group, lambda: source.segments)
            message = f"{source.name} has no segment {name}"
            yield Finding("unknown-segment", path, message, line, column, name, (source.name,), tuple(near))


def _expressions(
    layer: Layer, source: Source, path: bytes, entry: Facts, dialects: Mapping[str, str]
) -> Iterator[Finding]:
    for what, text, line, column, rule, message, columns in _read(source, entry, dialects):
        wrong = [] if rule else [(*one, _column(layer, source, *one)) for one in columns]
        hint = ""
        if (rule or any(problem for _, _, problem in wrong)) and not _dialect(source, entry, dialects):
            hint = _of_other_dialects(layer, source, text)
        if rule:
            reference = f"{source.name}.{what}: {text[:200]}"
            yield Finding(rule, path, f"{what}: {message}", line, column, reference, hint=hint)
        for qualifier, name, problem in wrong:
            if problem is not None:
                said, searched, group, known = problem
                near = tuple(layer.near.names(name, (source.connection, *group), known))
                reference = f"{source.name}.{what}: {f'{qualifier}.' if qualifier else ''}{name}"
                where = (line, column, reference, (searched,), near, hint)
                yield Finding("expr-unknown-column", path, f"{what}: {said}", *where)


def _dialect(source: Source, entry: Facts, dialects: Mapping[str, str]) -> str:
    """The dialect that a declaration's SQL is of: its own word, else that of the table it is about, else the
    connection's, else that of all."""
    own = entry.get("dialect") or next((one["dialect"] for _, _, one in source.declared if one.get("dialect")), "")
    return own or dialects.get(source.connection) or dialects.get("", "")


def _read(source: Source, entry: Facts, dialects: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """The expressions as facts have them, read in the dialect of the connection where the source says none."""
    dialect = "" if entry.get("dialect") else _dialect(source, entry, dialects)
    for what, text, line, column, rule, message, columns in entry["expressions"]:
        if dialect and rule not in ("expr-nesting", "expr-template"):
            again = expressions.read(text, dialect)
            rule, message, columns = again.rule, again.message, again.columns
        yield what, text, line, column, rule, message, columns


DIALECTS_COST = 20_000  # of the budget of near names, for a text that is read in eight dialects


def _of_other_dialects(layer: Layer, source: Source, text: str) -> str:
    """Which dialects take an expression that the general one does not; nothing where none does."""
    if layer.near.budget <= 0:
        return ""
    layer.near.budget -= DIALECTS_COST
    found = []
    for dialect in expressions.USUAL:
        read = expressions.read(text, dialect)
        if not read.rule and read.checked and all(_column(layer, source, *one) is None for one in read.columns):
            found.append(dialect)
    return f"right in {', '.join(found)}: `dialect:` in ktx-gates.yaml names the warehouse's" if found else ""


Node = tuple[str, str, str]  # connection, source, measure


def _circles(layer: Layer, dialects: Mapping[str, str]) -> Iterator[Finding]:
    """Measures that are computed from themselves, by way of others or not."""
    edges: dict[Node, list[Node]] = {}
    places: dict[Node, tuple[bytes, int, int]] = {}
    for source, path, _, entry in entries(layer):
        for what, _, line, column, _, _, columns in _read(source, entry, dialects):
            if what.startswith("measures["):
                node = (source.connection, source.name, what[len("measures[") : what.rindex("].")])
                places.setdefault(node, (path, line, column))
                edges.setdefault(node, []).extend(_measures_in(layer, source, columns))
    for node in sorted(_in_circles(edges)):
        path, line, column = places[node]
        way = " -> ".join(f"{name}.{measure}" if name != node[1] else measure for _, name, measure in _way(edges, node))
        message = f"the measure {node[2]} is computed from itself: {way}"
        reference = f"{node[1]}.{node[2]}"
        yield Finding("measure-cycle", path, message, line, column, reference, hint="define one of them anew")


def _measures_in(layer: Layer, source: Source, columns: Iterable[Sequence[str]]) -> Iterator[Node]:
    """The measures that an expression names; where a column has the name too, the column is meant."""
    siblings = layer.connections[source.connection]
    own = {"", source.name, plain_table(source.table).rpartition(".")[2], plain_table(source.table)}
    for qualifier, name in columns:
        target = source if qualifier in own else siblings.get(source.aliases.get(qualifier, qualifier))
        if target is not None and name in target.measures and name not in target.columns:
            yield (target.connection, target.name, name)


def _in_circles(edges: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """The nodes that lead back to themselves."""
    left = {node: {to for to in targets if to in edges} for node, targets in edges.items()}
    while ends := {node for node, targets in left.items() if not targets}:
        left = {node: targets - ends for node, targets in left.items() if node not in ends}
    return {node for node in left if _way(left, node)}


def _way(edges: Mapping[Node, Iterable[Node]], start: Node) -> list[Node]:
    """The shortest way from a node back to it; empty where there is none."""
    came: dict[Node, Node] = {}
    found = [start]
    while found:
        step = []
        for node in found:
            for to in edges.get(node, ()):
                if to == start:
                    way = [node]
                    while way[-1] != start:
                        way.append(came[way[-1]])
                    return [*reversed(way), start]
                if to not in came:
                    came[to] = node
                    step.append(to)
        found = step
    return []


def _column(layer: Layer, source: Source, qualifier: str, name: str) -> _Absent | None:
    """Why a column of an expression is not there. None: it may be."""
    siblings = layer.connections[source.connection]
    aliases = source.aliases
    own = {source.name, plain_table(source.table).rpartition(".")[2], plain_table(source.table)}
    if not qualifier or qualifier in own:
        target = source
    elif qualifier in aliases or qualifier in siblings:
        found = siblings.get(aliases.get(qualifier, qualifier))
        if found is None:
            return None  # the join's own finding says it
        target = found
    elif "." in qualifier or _has(source, qualifier):
        return None  # a qualified table, or a field of a structured column
    else:
        said = f"{qualifier} is neither {source.name}, one of its joins nor a column"
        return said, source.connection, (source.name, "aliases"), lambda: {source.name, *aliases}
    if _has(target, name) or not target.based or layer.is_unreadable(target.name, target.connection):
        return None
    said = f"{target.name} has no column {name}"
    return said, f"{target.connection}/{target.name}", (target.name, "columns"), lambda: target.columns


def _has(source: Source, name: str) -> bool:
    return source.has(name) or name.casefold() in source.folded
