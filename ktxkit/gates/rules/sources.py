"""Rules over the semantic layer of one tree: names, joins, columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ktxkit.gates.rules.findings import Finding
from ktxkit.gates.rules.model import FILE_NAME, RESERVED, Layer, Source, entries, plain_table

Facts = dict[str, Any]
# What to say, what was searched, and the group of names there with what gives them.
_Absent = tuple[str, str, tuple[str, ...], Callable[[], Iterable[str]]]
_SLUG = re.compile(r"[^a-z0-9]+")


def judge(layer: Layer) -> Iterator[Finding]:
    """Every finding of the semantic layer but those that a single file has by itself."""
    for source, path, form, entry in entries(layer):
        yield from _names(source, path, form, entry)
        yield from _joins(layer, source, path, entry)
        yield from _columns(layer, source, path, entry)
        yield from _expressions(layer, source, path, entry)
    for connection in sorted(layer.connections):
        for source in layer.connections[connection].values():
            yield from _declared(layer, source)


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
    for join in entry["joins"]:
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


def _expressions(layer: Layer, source: Source, path: bytes, entry: Facts) -> Iterator[Finding]:
    for what, text, line, column, rule, message, columns in entry["expressions"]:
        if rule:
            yield Finding(rule, path, f"{what}: {message}", line, column, f"{source.name}.{what}: {text[:200]}")
            continue
        for qualifier, name in columns:
            problem = _column(layer, source, qualifier, name)
            if problem is not None:
                said, searched, group, known = problem
                near = tuple(layer.near.names(name, (source.connection, *group), known))
                reference = f"{source.name}.{what}: {f'{qualifier}.' if qualifier else ''}{name}"
                where = (line, column, reference, (searched,), near)
                yield Finding("expr-unknown-column", path, f"{what}: {said}", *where)


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
