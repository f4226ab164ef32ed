"""Measures of metric cards, segments of tables.

Sources of a Metabase snapshot: tables by schema as manifest shards, models as sources, metrics as measures.

A name that the semantic layer has already, and that this source did not project, is left to whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ktxkit.ingest.rules.artifacts import identifier, source_path
from ktxkit.ingest.rules.mbql import Clause, Stage, Unreadable, clause4, clause5
from ktxkit.ingest.rules.metabase_cards import Card, MetabaseColumn, Table, number, text
from ktxkit.ingest.rules.metabase_units import Bundle, MetabaseProjection, Names, short
from ktxkit.ingest.rules.projection import Projected, Projection, dump
from ktxkit.ingest.rules.sql import SqlScope


def metrics(making: MetabaseProjection) -> list[Card]:
    found = (card for card in making.bundle.cards.values() if card.kind == "metric" and not card.archived)
    return sorted(found, key=lambda card: card.id)


def measures(
    making: MetabaseProjection, cards: Iterable[Card], columns: Sequence[MetabaseColumn]
) -> list[dict[str, str]]:
    """Measures of metric cards. Two of one name that compute different things are both kept, the later renamed."""
    found: dict[str, dict[str, str]] = {}
    taken = {column.name for column in columns}
    for card in cards:
        try:
            measure = _measure(making, card)
        except Unreadable as error:
            making.unresolved[card.raw_path] = str(error)
            continue
        name = identifier(card.title, f"metric_{card.id}")
        same = found.get(name)
        if same is not None and (same["expr"], same.get("filter")) == (measure["expr"], measure.get("filter")):
            making.warnings.append(f"metric {card.title!r} ({card.raw_path}) is there already; it stands once")
            continue
        if same is not None:
            making.warnings.append(
                f"metric {card.title!r} is computed in two ways: {same['expr']} and {measure['expr']} ({card.raw_path})"
            )
        if same is not None or name in taken:
            name = f"{name}_{card.id}"
        found[name] = {"name": name, **measure}
    return [found[name] for name in sorted(found)]


def _measure(making: MetabaseProjection, card: Card) -> dict[str, str]:
    stage = _one_aggregation(card)
    renderer = making.renderer(card.database)
    table = making.bundle.tables.get(stage.table) if isinstance(stage.table, int) else None
    scope = SqlScope("", "", table, stage)
    filters = [renderer.expression(one, scope) for one in stage.filters]
    said = short(card.description) if card.description else card.title
    return {
        "expr": renderer.expression(stage.aggregation[0], scope),
        **({"filter": " AND ".join(filters)} if filters else {}),
        "description": said,
    }


def _one_aggregation(card: Card) -> Stage:
    if card.query is None:
        raise Unreadable(card.unreadable)
    stages = card.query.stages
    if len(stages) != 1 or len(stages[0].aggregation) != 1 or stages[0].joins:
        raise Unreadable("a metric is one aggregation of one table or model, without joins")
    return stages[0]


def reads(card: Card, table: int) -> bool:
    stages = card.query.stages if card.query else ()
    return len(stages) == 1 and stages[0].table == table and stages[0].card is None


def segments_of_table(making: MetabaseProjection, table: Table) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in table.segments:
        name = identifier(text(one.get("name")), f"segment_{number(one.get('id'))}")
        try:
            expr = _definition(making, table, one.get("definition"))
        except Unreadable as error:
            making.warnings.append(f"segment {name} of {table.full_name} is left out: {error}")
            continue
        name = name if name not in found else f"{name}_{number(one.get('id'))}"
        said = {"description": short(text(one.get("description")))} if text(one.get("description")) else {}
        found[name] = {"name": name, "expr": expr, **said}
    return [found[name] for name in sorted(found)]


def _definition(making: MetabaseProjection, table: Table, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise Unreadable("it has no definition")
    stages = value.get("stages")
    read: Callable[[Any], Any] = clause5 if isinstance(stages, list) else clause4
    filters = stages[0].get("filters", []) if isinstance(stages, list) and stages else [value.get("filter")]
    scope = SqlScope("", "", table, Stage(table=table.id))
    made = [making.renderer(table.database).expression(clause, scope) for clause in map(read, filters)]
    if not made or not all(isinstance(read(one), Clause) for one in filters):
        raise Unreadable("its definition has no filter")
    return " AND ".join(made)


SHARD_LIMIT = 400_000  # characters of a manifest shard; a larger schema has several


def named(bundle: Bundle, declared: Collection[str], readers: Mapping[str, str]) -> Names:
    """Names for all. `declared`: source names that others declared; `readers`: table (lower case) to such a source."""
    names, used = Names(foreign=dict(readers)), set(declared)
    for table in sorted(bundle.tables.values(), key=lambda one: one.id):
        reader = readers.get(table.full_name.lower()) or readers.get(table.name.lower())
        if reader is None:
            wanted = identifier(table.name, f"table_{table.id}")
            if wanted in used:  # the older one keeps the plain name: what refers to it stays true
                wanted = identifier(f"{table.schema}_{table.name}", f"table_{table.id}")
            reader = wanted if wanted not in used else f"{wanted}_{table.id}"
            used.add(reader)
        names.tables[table.id] = reader
    for card in sorted(bundle.cards.values(), key=lambda one: one.id):
        if card.kind == "model" and not card.archived:
            wanted = identifier(card.title, f"model_{card.id}")
            names.models[card.id] = wanted if wanted not in used else f"{wanted}_{card.id}"
            used.add(names.models[card.id])
    return names


def project(bundle: Bundle, names: Names, connection: str, shard_limit: int = SHARD_LIMIT) -> Projection:
    """Every source of the snapshot, as files. Deterministic: the same snapshot and names give the same bytes.

    `shard_limit`: characters of a manifest shard; a schema with more has several.
    """
    making = MetabaseProjection(bundle, names, connection)
    files = [*_shards(making, shard_limit), *_models(making), *_overlays(making)]
    return Projection(tuple(files), tuple(making.warnings), (), dict(making.unresolved))


def _shards(making: MetabaseProjection, limit: int) -> Iterable[Projected]:
    own = [t for t in making.bundle.tables.values() if making.names.tables[t.id] not in making.names.foreign.values()]
    for schema in sorted({(table.database or 0, table.schema) for table in own}):
        mine = sorted(
            (t for t in own if (t.database or 0, t.schema) == schema), key=lambda t: making.names.tables[t.id]
        )
        entries = [(making.names.tables[table.id], table, _table(making, table)) for table in mine]
        usable = [(name, table, entry) for name, table, entry in entries if entry is not None]
        stem = identifier(f"metabase {schema[0]} {schema[1] or 'default'}", "metabase")
        yield from _split(making, stem, usable, limit)


def _split(
    making: MetabaseProjection, stem: str, entries: Sequence[tuple[str, Table, Mapping[str, Any]]], limit: int
) -> Iterable[Projected]:
    """Files of at most `limit` characters, a table never parted."""
    part: dict[str, Mapping[str, Any]] = {}
    origins: dict[str, tuple[str, ...]] = {}
    size, count = 0, 1
    for name, table, entry in entries:
        length = len(dump({name: entry}))
        if part and size + length > limit:
            yield _shard(making, stem, count, part, origins)
            part, origins, size, count = {}, {}, 0, count + 1
        part[name], size = entry, size + length
        origins[f"{making.connection}/{name}"] = (table.raw_path,)
    if part:
        yield _shard(making, stem, count, part, origins)


def _shard(
    making: MetabaseProjection, stem: str, count: int, part: Mapping[str, Any], origins: Mapping[str, tuple[str, ...]]
) -> Projected:
    name = stem if count == 1 else f"{stem}_{count}"
    return Projected(f"semantic-layer/{making.connection}/_schema/{name}.yaml", dump({"tables": part}), dict(origins))


def _table(making: MetabaseProjection, table: Table) -> Mapping[str, Any] | None:
    columns = [_column(one, key="pk") for one in _usable(making, table.columns, table.full_name)]
    if not columns:
        making.warnings.append(f"table {table.full_name} has no columns; it is no source")
        return None
    joins = _joins(making, table.columns, making.names.tables[table.id], table.id)
    described = {"descriptions": {"db": short(table.description)}} if table.description else {}
    joined = {"joins": joins} if joins else {}
    return {"table": table.full_name, **making.dialect(table.database), "columns": columns, **joined, **described}


def _column(column: MetabaseColumn, *, key: str = "") -> dict[str, Any]:
    said = column.description or (column.title if column.title.lower() != column.name.lower() else "")
    return {
        "name": column.name,
        "type": column.type,
        **({key: True} if key and column.key else {}),
        **({"visibility": "hidden"} if column.hidden else {}),
        **({"descriptions": {"db": short(said)}} if said else {}),
    }


def _usable(making: MetabaseProjection, columns: Sequence[MetabaseColumn], where: str) -> list[MetabaseColumn]:
    """Columns that a reference can spell, each name once."""
    found: dict[str, MetabaseColumn] = {}
    for column in columns:
        if any(char in "./`" or not char.isprintable() for char in column.name) or not column.name.strip():
            making.warnings.append(f"{where}: the column {column.name!r} cannot be named in a reference; left out")
        elif column.name in found:
            making.warnings.append(f"{where}: two columns are named {column.name!r}; the first stands")
        else:
            found[column.name] = column
    return list(found.values())


def _joins(
    making: MetabaseProjection, columns: Sequence[MetabaseColumn], name: str, own: int | None
) -> list[dict[str, str]]:
    """Joins along foreign keys whose target is a source too."""
    targets: dict[int | None, tuple[Table, MetabaseColumn]] = {
        one.field_id: (t, one) for t in making.bundle.tables.values() for one in t.columns if one.field_id
    }
    joins: list[dict[str, str]] = []
    for column in columns:
        if column.target_field not in targets:
            continue
        table, key = targets[column.target_field]
        if table.id == own:
            continue
        to = making.names.tables[table.id]
        on = f"{name}.{column.name} = {to}.{key.name}"
        if to != name and all(join["on"] != on for join in joins):
            joins.append({"to": to, "on": on, "relationship": "many_to_one"})
    return joins


def _models(making: MetabaseProjection) -> Iterable[Projected]:
    for card_id, name in sorted(making.names.models.items()):
        card = making.bundle.cards[card_id]
        columns = _usable(making, card.columns, f"model {card.title!r} ({card.raw_path})")
        if not columns:
            making.unresolved[card.raw_path] = "a model without result metadata has no columns to be a source of"
            continue
        try:
            body = _model(making, card, name, columns)
        except Unreadable as error:
            making.unresolved[card.raw_path] = str(error)
            continue
        origins = {f"{making.connection}/{name}": (card.raw_path,)}
        yield Projected(source_path(making.connection, name), dump(body), origins)


def _model(making: MetabaseProjection, card: Card, name: str, columns: Sequence[MetabaseColumn]) -> Mapping[str, Any]:
    table = _plain_table(making, card)
    sql = card.sql if card.sql and "{{" not in card.sql else making.renderer(card.database).card(card)
    keys = [one.name for one in columns if one.key] or [one.name for one in columns]
    found = measures(making, [m for m in metrics(making) if m.references[:1] == (card.id,)], columns)
    return {
        "name": name,
        "descriptions": {"user": short(f"{card.title}: {card.description}" if card.description else card.title)},
        **({"table": table} if table else {"sql": sql.strip().rstrip(";").rstrip()}),
        **making.dialect(card.database),
        "grain": keys,
        "columns": [_column(one) for one in columns],
        "joins": _joins(making, columns, name, None),
        **({"measures": found} if found else {}),
    }


def _plain_table(making: MetabaseProjection, card: Card) -> str:
    """The table that a model is nothing but a view of; empty where it is more."""
    if card.query is None or len(card.query.stages) != 1 or not card.query.stages[0].plain:
        return ""
    source = card.query.stages[0].table
    return making.bundle.tables[source].full_name if isinstance(source, int) and source in making.bundle.tables else ""


def _overlays(making: MetabaseProjection) -> Iterable[Projected]:
    """Measures and segments of tables: an overlay for each table that has any."""
    for table in sorted(making.bundle.tables.values(), key=lambda one: one.id):
        name = making.names.tables[table.id]
        if name in making.names.foreign.values() or not table.columns:
            continue
        cards = [card for card in metrics(making) if reads(card, table.id)]
        found, cuts = measures(making, cards, table.columns), segments_of_table(making, table)
        if found or cuts:
            body = {"name": name, **({"measures": found} if found else {}), **({"segments": cuts} if cuts else {})}
            origins = tuple(dict.fromkeys([*(card.raw_path for card in cards), table.raw_path]))
            path = source_path(making.connection, name)
            yield Projected(path, dump(body), {f"{making.connection}/{name}": origins})
