"""Units of a dbt project: one for each raw file that declares models; what they join to are its dependencies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ktxkit.ingest.rules.dbt.project import Model, Project, maps, text
from ktxkit.ingest.rules.planning import PEERS_KEPT, Proposal
from ktxkit.store.rules.names import KEY_LIMIT, slug


def plan(project: Project, names: Mapping[str, str], connection: str) -> list[Proposal]:
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


def _item(project: Project, model: Model, names: Mapping[str, str], connection: str) -> dict[str, Any]:
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
