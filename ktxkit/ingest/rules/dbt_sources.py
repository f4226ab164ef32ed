"""Sources of a dbt project: a source for each model that has columns; joins from tests and entities; measures.

Units of a dbt project: one for each raw file that declares models; what they join to are its dependencies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktxkit.ingest.rules.artifacts import identifier, source_path
from ktxkit.ingest.rules.dbt import DbtColumn, DbtProject, Model, Semantic, maps, text
from ktxkit.ingest.rules.planning import PEERS_KEPT, Proposal
from ktxkit.ingest.rules.projection import Projected, Projection, dialect_key, dump
from ktxkit.store.rules.names import KEY_LIMIT, slug

AGGREGATES = {
    "sum": "sum({})", "count": "count({})", "count_distinct": "count(distinct {})", "average": "avg({})",
    "min": "min({})", "max": "max({})", "sum_boolean": "sum(case when {} then 1 else 0 end)",
}  # fmt: skip
TEXT_LIMIT = 4000  # characters of a description
VALUES_SHOWN = 50


@dataclass
class DbtProjection:
    """One projection under way. `names`: key of a model to the name of its source."""

    project: DbtProject
    connection: str
    names: Mapping[str, str]
    own: Mapping[str, Model]
    warnings: list[str] = field(default_factory=list)


def named(
    project: DbtProject, declared: Collection[str], readers: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Model]]:
    """The source name of each model that is or can be one, and the models that this project makes sources of."""
    names: dict[str, str] = {}
    own: dict[str, Model] = {}
    used = set(declared)
    for key, model in sorted(project.models.items(), key=lambda item: (item[1].kind == "source", item[0])):
        reader = readers.get(model.table.lower())
        if reader is not None:
            names[key] = reader
            continue
        if not model.columns and not any(one.model == key for one in project.semantics.values()):
            continue
        wanted = identifier(model.name, "model")
        names[key] = wanted if wanted not in used else identifier(model.table, "model")
        if names[key] in used:
            del names[key]
            project.warnings.append(f"{key}: the name {wanted} is taken; it is no source")
            continue
        used.add(names[key])
        own[key] = model
    return names, own


def project_sources(
    project: DbtProject, connection: str, names: Mapping[str, str], own: Mapping[str, Model]
) -> Projection:
    """Every source, as a file. Deterministic."""
    making = DbtProjection(project, connection, names, own)
    for semantic in project.semantics.values():
        _types(making, semantic)
    files = []
    unresolved: dict[str, str] = {}
    making.warnings += _untyped(own)
    for key in sorted(own, key=lambda one: names[one]):
        made = _source(making, key, own[key])
        if made is None:
            unresolved.setdefault(own[key].raw_path, f"{key} has no column that a source can have")
        else:
            files.append(made)
    return Projection(tuple(files), (*project.warnings, *making.warnings), (), unresolved)


def _untyped(own: Mapping[str, Model]) -> list[str]:
    """How many columns have no type that anything says: they stand as text, and the source names them."""
    counts = {key: sum(not one.type for one in model.columns.values()) for key, model in sorted(own.items())}
    without = {key: count for key, count in counts.items() if count}
    if not without:
        return []
    shown = ", ".join(f"{key} ({count})" for key, count in list(without.items())[:10])
    more = f" and {len(without) - 10} more" if len(without) > 10 else ""
    said = f"the types of {sum(without.values())} columns are not known and stand as string: {shown}{more}"
    return [f"{said}; `dbt docs generate` writes catalog.json, which has them"]


def _source(making: DbtProjection, key: str, model: Model) -> Projected | None:
    columns = [one for one in model.columns.values() if _can_be_named(making, model, one)]
    if not columns:
        return None
    name = making.names[key]
    semantics = [one for _, one in sorted(making.project.semantics.items()) if one.model == key]
    keys = [one.name for one in columns if one.unique and one.not_null] or [one.name for one in columns if one.unique]
    keys = keys[:1] or _primary(semantics, columns) or [one.name for one in columns]
    measures = _measures(making, semantics, {one.name for one in columns})
    time = next((text(_defaults(one).get("agg_time_dimension")) for one in semantics if _defaults(one)), "")
    times = [one.name for one in columns if one.type == "time"]
    untyped = [one.name for one in columns if not one.type]
    body = {
        "name": name,
        **({"descriptions": {"dbt": _short(model.description)}} if model.description else {}),
        "table": model.table,
        **dialect_key(making.project.adapter),
        "grain": keys,
        "columns": [_column(one) for one in columns],
        **({"x-unknown-types": untyped} if untyped else {}),
        "joins": _joins(making, key, columns),
        **({"measures": measures} if measures else {}),
        **({"default_time_dimension": {"dbt": time}} if time in times else {}),
    }
    raws = tuple(
        dict.fromkeys([model.raw_path, *(one.raw_path for one in semantics), *_metric_paths(making, semantics)])
    )
    return Projected(source_path(making.connection, name), dump(body), {f"{making.connection}/{name}": raws})


def _can_be_named(making: DbtProjection, model: Model, column: DbtColumn) -> bool:
    if any(char in "./`" or not char.isprintable() for char in column.name):
        making.warnings.append(f"{model.key}: the column {column.name!r} cannot be named in a reference; left out")
        return False
    return True


def _column(column: DbtColumn) -> dict[str, Any]:
    constraints = {
        **({"not_null": True} if column.not_null else {}),
        **({"unique": True} if column.unique else {}),
    }
    return {
        "name": column.name,
        "type": column.type or "string",
        **({"role": "time"} if column.type == "time" else {}),
        **({"descriptions": {"dbt": _short(column.description)}} if column.description else {}),
        **({"constraints": {"dbt": constraints}} if constraints else {}),
        **({"enum_values": {"dbt": list(column.values[:VALUES_SHOWN])}} if column.values else {}),
    }


def _short(said: str) -> str:
    return said if len(said) <= TEXT_LIMIT else said[: TEXT_LIMIT - 3] + "..."


def _defaults(semantic: Semantic) -> Mapping[str, Any]:
    found = semantic.document.get("defaults")
    return found if isinstance(found, Mapping) else {}


def _expr(one: Mapping[str, Any]) -> str:
    return text(one.get("expr")) or text(one.get("name"))


def _types(making: DbtProjection, semantic: Semantic) -> None:
    """What a semantic model says of its model's columns, and the columns that only it names."""
    model = making.own.get(semantic.model)
    if model is None:
        return
    told = [(one, "") for one in maps(semantic.document.get("entities"))]
    told += [
        (one, "time" if one.get("type") == "time" else "string") for one in maps(semantic.document.get("dimensions"))
    ]
    told += [
        (one, "number" if text(one.get("agg")) in ("sum", "average") else "")
        for one in maps(semantic.document.get("measures"))
    ]
    for one, kind in told:
        name = _expr(one)
        if name.isidentifier():
            column = model.columns.setdefault(name, DbtColumn(name))
            column.type = column.type or kind


def _primary(semantics: list[Semantic], columns: list[DbtColumn]) -> list[str]:
    known = {one.name for one in columns}
    for semantic in semantics:
        for one in maps(semantic.document.get("entities")):
            if one.get("type") in ("primary", "unique") and _expr(one) in known:
                return [_expr(one)]
    return []


def _joins(making: DbtProjection, key: str, columns: list[DbtColumn]) -> list[dict[str, str]]:
    name, found = making.names[key], []
    for column in columns:
        for target, other in column.joins:
            found.append((target, column.name, other))
    found += _entity_joins(making, key)
    joins: list[dict[str, str]] = []
    for target, mine, theirs in found:
        to = making.names.get(target)
        if to is None or to == name:
            if to is None:
                making.warnings.append(f"{key}.{mine} refers to {target}, which is no source; no join")
            continue
        if target in making.own and theirs not in making.own[target].columns:
            making.warnings.append(f"{key}.{mine} refers to {target}.{theirs}, which is no column; no join")
            continue
        on = f"{name}.{mine} = {to}.{theirs}"
        if all(join["on"] != on for join in joins):
            joins.append({"to": to, "on": on, "relationship": "many_to_one"})
    return sorted(joins, key=lambda join: (join["to"], join["on"]))


def _entity_joins(making: DbtProjection, key: str) -> list[tuple[str, str, str]]:
    """Foreign entities of this model's semantic models, joined to the models whose primary entity they are."""
    primary = {
        text(one.get("name")): (semantic.model, _expr(one))
        for _, semantic in sorted(making.project.semantics.items(), reverse=True)
        for one in maps(semantic.document.get("entities"))
        if one.get("type") in ("primary", "unique")
    }
    own = [one for one in making.project.semantics.values() if one.model == key]
    found = []
    for semantic in own:
        for one in maps(semantic.document.get("entities")):
            target = primary.get(text(one.get("name")))
            if one.get("type") == "foreign" and target is not None and _expr(one).isidentifier():
                found.append((target[0], _expr(one), target[1]))
    return found


def _measures(making: DbtProjection, semantics: list[Semantic], columns: Collection[str]) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for semantic in semantics:
        for one in maps(semantic.document.get("measures")):
            name, how = text(one.get("name")), AGGREGATES.get(text(one.get("agg")))
            if how is None or not name or "{{" in _expr(one):
                making.warnings.append(f"measure {name!r} of {semantic.name}: {one.get('agg')} is not taken; left out")
                continue
            said = text(one.get("description")) or text(one.get("label"))
            plain = identifier(name, "measure")
            plain = f"{plain}_total" if plain in columns else plain
            expr = how.format("*" if how.startswith("count(") and _expr(one) in ("1", "*") else _expr(one))
            measure = {"name": plain, "expr": expr, **({"description": _short(said)} if said else {})}
            if plain in found and found[plain]["expr"] != expr:
                making.warnings.append(f"measure {name!r} is computed in two ways; that of {semantic.name} is left out")
                continue
            found[plain] = measure
    return [found[name] for name in sorted(found)]


def _metric_paths(making: DbtProjection, semantics: list[Semantic]) -> list[str]:
    """Raw paths of the metrics that are a measure of these."""
    names = {text(one.get("name")) for semantic in semantics for one in maps(semantic.document.get("measures"))}
    found = []
    for path, metric in making.project.metrics.values():
        told = metric.get("type_params")
        measure = told.get("measure") if isinstance(told, Mapping) else None
        name = text(measure.get("name")) if isinstance(measure, Mapping) else text(measure)
        if name in names:
            found.append(path)
    return sorted(set(found))


def plan(project: DbtProject, names: Mapping[str, str], connection: str) -> list[Proposal]:
    """All units. A source table is only in a unit together with models of its file: alone it says nothing to write."""
    by_path: dict[str, list[Model]] = {}
    for model in sorted(project.models.values(), key=lambda one: one.key):
        by_path.setdefault(model.raw_path, []).append(model)
    paths = {path: models for path, models in sorted(by_path.items()) if any(m.kind != "source" for m in models)}
    peers = tuple(paths)
    found = []
    for path, models in paths.items():
        told = [one for one in models if one.kind != "source"]
        semantic = {one.raw_path for one in project.semantics.values() if one.model in {m.key for m in told}}
        own = (path, *sorted(one for one in semantic if one not in by_path))
        needs = {
            project.models[to].raw_path
            for m in told
            for c in m.columns.values()
            for to, _ in c.joins
            if to in project.models
        }
        found.append(
            Proposal(
                key=_key(path, paths),
                title=told[0].name if len(told) == 1 else f"{told[0].name} and {len(told) - 1} more",
                raw_files=own,
                dependency_paths=tuple(sorted(needs - set(own))),
                peers=tuple(one for one in peers if one not in own)[:PEERS_KEPT],
                facts={"items": [_item(project, one, names, connection) for one in told]},
            )
        )
    return _owned_once(found)


def _key(path: str, paths: Collection[str]) -> str:
    """The raw path itself, so that no two are alike; without `.json`, and shortened where a key cannot be as long."""
    bare = path.removesuffix(".json")
    key = path if bare in paths else bare
    return key if len(key) <= KEY_LIMIT else slug(key)


def _owned_once(found: list[Proposal]) -> list[Proposal]:
    """A semantic model's file that two models' units would own is the first one's, and what the other depends on."""
    from dataclasses import replace

    owner: dict[str, str] = {}
    kept = []
    for one in found:
        mine = tuple(path for path in one.raw_files if owner.setdefault(path, one.key) == one.key)
        foreign = {path for path in one.raw_files if path not in mine}
        kept.append(
            replace(one, raw_files=mine, dependency_paths=tuple(sorted({*one.dependency_paths, *foreign} - set(mine))))
        )
    return kept


def _item(project: DbtProject, model: Model, names: Mapping[str, str], connection: str) -> dict[str, Any]:
    source = names.get(model.key)
    joined = {names[to] for column in model.columns.values() for to, _ in column.joins if to in names}
    semantics = [one for _, one in sorted(project.semantics.items()) if one.model == model.key]
    measures = sorted({text(one.get("name")) for s in semantics for one in maps(s.document.get("measures"))})
    return {
        "id": f"dbt-{model.key}",
        "rawPath": model.raw_path,
        "title": model.name,
        "kind": model.kind,
        **({"description": model.description} if model.description else {}),
        **({"path": [model.path]} if model.path else {}),
        "columns": [
            {key: value for key, value in (("name", c.name), ("type", c.type), ("description", c.description)) if value}
            for c in model.columns.values()
        ],
        "sources": [
            f"{connection}/{name}" for name in [*([source] if source else []), *sorted(joined - {source or ""})]
        ],
        "tables": [model.table],
        "references": [],
        **({"measures": measures} if measures else {}),
    }
