"""What of a dbt artifact is content, one raw file for each node: a manifest as a whole changes with every run.

Left out: times, ids of invocations, paths on somebody's machine, checksums, compiled code. Tests of a node are in its
raw file, since they say what its columns are.

A dbt project as values, read from the raw files of a snapshot: manifest nodes, or schema YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base.rules.digests import digest

NODE_KEYS = (
    "unique_id", "name", "alias", "resource_type", "package_name", "schema", "database", "identifier", "source_name",
    "description", "tags", "original_file_path", "refs", "sources",
)  # fmt: skip
COLUMN_KEYS = ("name", "description", "data_type", "tags")
SEMANTIC_KEYS = (
    "name",
    "label",
    "description",
    "model",
    "node_relation",
    "entities",
    "dimensions",
    "measures",
    "defaults",
)
METRIC_KEYS = ("name", "label", "description", "type", "type_params", "filter")
PREFIXES = {"model": "models", "source": "sources", "seed": "models", "snapshot": "models"}
ADAPTER = "adapter.json"  # raw path of what the project runs on, of all that the manifest says of itself
LONGEST = 190  # characters of an id in a file name
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def files(manifest: Mapping[str, Any], catalog: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Raw path and content of each node of a `manifest.json`, sorted by path. Raises ValueError where it has no nodes:
    taken for an empty one, everything would have been deleted.

    `catalog`: what `dbt docs generate` found in the warehouse: columns and types that the manifest does not have.
    """
    _required(manifest, "nodes", Mapping)
    found: dict[str, Any] = {}
    tests = _tests(manifest)
    adapter = _mapping(manifest.get("metadata")).get("adapter_type")
    if isinstance(adapter, str) and adapter:
        found[ADAPTER] = {"adapter_type": adapter}
    for group in ("nodes", "sources"):
        for unique, node in _nodes(manifest, group):
            prefix = PREFIXES.get(str(node.get("resource_type", "")))
            if prefix:
                columns = _columns(node, _mapping(_mapping((catalog or {}).get(group)).get(unique)))
                found[f"{prefix}/{plain(unique)}.json"] = _node(node, columns) | {"tests": tests.get(unique, [])}
    found |= dict(semantic_files(manifest))
    yield from sorted(found.items())


def semantic_files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Semantic models and metrics, of a `manifest.json` or a `semantic_manifest.json`, which has a list of them. Raises
    ValueError where it has not."""
    if "nodes" not in manifest:
        _required(manifest, "semantic_models", list)
    for one in _items(manifest, "semantic_models"):
        yield f"semantic_models/{plain(str(one.get('name')))}.json", _only(one, SEMANTIC_KEYS)
    for one in _items(manifest, "metrics"):
        yield f"metrics/{plain(str(one.get('name')))}.json", _only(one, METRIC_KEYS)


def plain(name: str) -> str:
    """A unique id as a file name. Two that differ have different ones."""
    clean = _UNSAFE.sub("-", name)[:LONGEST]
    return clean if clean == name and name else f"{clean}-{digest(name.encode('utf-8', 'surrogatepass'))[3:11]}"


def _required(manifest: Mapping[str, Any], key: str, kind: type) -> None:
    if not isinstance(manifest.get(key), kind):
        raise ValueError(f"it has no {key}")


def _nodes(manifest: Mapping[str, Any], group: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The nodes of a group by unique id."""
    listed = manifest.get(group)
    if not isinstance(listed, Mapping | None):
        raise ValueError(f"{group} is no object")
    for unique, node in (listed or {}).items():
        if not isinstance(node, Mapping):
            raise ValueError(f"{group}: {unique} is no object")
        yield unique, node


def _items(manifest: Mapping[str, Any], group: str) -> list[Mapping[str, Any]]:
    listed = manifest.get(group)
    if not isinstance(listed, Mapping | list | None):
        raise ValueError(f"{group} is neither a list nor an object")
    found = _several(listed)
    if len(found) != len(listed or ()):
        raise ValueError(f"{group} holds what is no object")
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _several(value: Any) -> list[Mapping[str, Any]]:
    """A list, or the values of a mapping: the two manifests differ."""
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [one for one in items if isinstance(one, Mapping)]


def _only(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


def _node(node: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {**_only(node, NODE_KEYS), "columns": columns}


def _columns(node: Mapping[str, Any], found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The columns that the manifest has, with the types of the catalog where it has none; then those that only the
    catalog has, in the order of the table. Names are compared as warehouses do: case does not count."""
    there = {str(one.get("name", "")).casefold(): one for one in _several(found.get("columns"))}
    columns = []
    for one in _several(node.get("columns")):
        known = there.pop(str(one.get("name", "")).casefold(), {})
        types = {} if one.get("data_type") or not known.get("type") else {"data_type": known["type"]}
        columns.append(_only(one, COLUMN_KEYS) | types)
    rest = sorted(there.values(), key=lambda one: (one.get("index") or 0, str(one.get("name"))))
    return [*columns, *({"name": one.get("name"), "data_type": one.get("type")} for one in rest)]


def _tests(manifest: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Generic tests by the node that they are attached to: kind, column and arguments."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _, node in _nodes(manifest, "nodes"):
        told = node.get("test_metadata") if node.get("resource_type") == "test" else None
        if not isinstance(told, Mapping):
            continue
        above = _mapping(node.get("depends_on")).get("nodes")
        owner = node.get("attached_node") or (above[0] if isinstance(above, list) and above else "")
        arguments = {
            key: value for key, value in _mapping(told.get("kwargs")).items() if key not in ("model", "column_name")
        }
        arguments |= _mapping(arguments.pop("arguments", None))
        one = {
            "name": told.get("name"),
            "column": node.get("column_name") or _mapping(told.get("kwargs")).get("column_name"),
        }
        found.setdefault(str(owner), []).append({**one, "arguments": arguments})
    return {owner: sorted(tests, key=lambda test: str(sorted(test.items(), key=str))) for owner, tests in found.items()}


REF = re.compile(r"ref\(\s*['\"](?:[^'\"]+['\"]\s*,\s*['\"])?([^'\"]+)['\"]")
SOURCE_REF = re.compile(r"source\(\s*['\"]([^'\"]+)['\"]\s*,\s*['\"]([^'\"]+)['\"]\s*\)")
NUMBERS = ("int", "numeric", "decimal", "float", "double", "real", "number", "money", "serial")
TIMES = ("date", "time", "timestamp")


@dataclass
class DbtColumn:
    """A column of a model. `type` is empty until something says what it is."""

    name: str
    description: str = ""
    type: str = ""
    unique: bool = False
    not_null: bool = False
    values: tuple[str, ...] = ()
    joins: list[tuple[str, str]] = field(default_factory=list)  # name of a model, its column


@dataclass
class Model:
    """A model, seed, snapshot or source table. `key` is what `ref` or `source` names: `NAME` or `SOURCE.NAME`."""

    key: str
    name: str
    raw_path: str
    table: str
    description: str = ""
    kind: str = "model"
    path: str = ""
    columns: dict[str, DbtColumn] = field(default_factory=dict)


@dataclass(frozen=True)
class Semantic:
    """A semantic model, as its document has it."""

    name: str
    model: str
    raw_path: str
    document: Mapping[str, Any]


@dataclass
class DbtProject:
    """Everything of a snapshot."""

    models: dict[str, Model] = field(default_factory=dict)
    semantics: dict[str, Semantic] = field(default_factory=dict)
    metrics: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)  # name: raw path, document
    warnings: list[str] = field(default_factory=list)
    adapter: str = ""  # dbt's name of the warehouse


def build(documents: Iterable[tuple[str, Any]], schema: str = "") -> DbtProject:
    """Read parsed raw files, by path. `schema`: where YAML's models lie, which YAML does not say."""
    project = DbtProject()
    for path, value in documents:
        if not isinstance(value, Mapping):
            continue
        if path.endswith(".json"):
            _json(project, path, value)
        else:
            _yaml(project, path, value, schema)
    return project


def text(value: Any) -> str:
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


def maps(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list; anything else is none."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def type_of(declared: str) -> str:
    """The semantic layer's type of an SQL type; empty where nothing is declared."""
    plain = declared.lower().strip()
    if not plain:
        return ""
    if plain.startswith("bool"):
        return "boolean"
    if plain.startswith(TIMES):
        return "time"
    return "number" if any(word in plain for word in NUMBERS) and "interval" not in plain else "string"


def _add(project: DbtProject, model: Model) -> None:
    if model.key in project.models:
        project.warnings.append(
            f"{model.key} is in {project.models[model.key].raw_path} and {model.raw_path}; the first stands"
        )
    else:
        project.models[model.key] = model


def _json(project: DbtProject, path: str, value: Mapping[str, Any]) -> None:
    folder = path.partition("/")[0]
    if path == ADAPTER:
        project.adapter = text(value.get("adapter_type"))
    elif folder == "semantic_models":
        _semantic(project, path, value)
    elif folder == "metrics":
        project.metrics[text(value.get("name"))] = (path, value)
    elif folder in ("models", "sources"):
        _add_node(project, path, value)


def _add_node(project: DbtProject, path: str, value: Mapping[str, Any]) -> None:
    name = text(value.get("identifier")) or text(value.get("alias")) or text(value.get("name"))
    schema = text(value.get("schema"))
    source = text(value.get("source_name"))
    key = f"{source}.{text(value.get('name'))}" if source else text(value.get("name"))
    if not name or not key:
        project.warnings.append(f"{path} has no name")
        return
    model = Model(
        key, text(value.get("name")), path, f"{schema}.{name}" if schema else name, text(value.get("description"))
    )
    model.kind = "source" if source else text(value.get("resource_type")) or "model"
    model.path = text(value.get("original_file_path"))
    for one in maps(value.get("columns")):
        _column(model, one)
    for test in maps(value.get("tests")):
        _test(model, text(test.get("column")), text(test.get("name")), test.get("arguments"))
    _add(project, model)


def _column(model: Model, value: Mapping[str, Any]) -> DbtColumn:
    name = text(value.get("name"))
    column = model.columns.setdefault(name, DbtColumn(name)) if name else DbtColumn("")
    column.description = text(value.get("description"))
    column.type = type_of(text(value.get("data_type")))
    return column


def _test(model: Model, column_name: str, name: str, arguments: Any) -> None:
    column = model.columns.get(column_name)
    told = arguments if isinstance(arguments, Mapping) else {}
    if column is None:
        return
    if name == "unique":
        column.unique = True
    elif name == "not_null":
        column.not_null = True
    elif name == "accepted_values" and isinstance(told.get("values"), list):
        column.values = tuple(str(one) for one in told["values"] if not isinstance(one, Mapping | list))
    elif name == "relationships":
        target = referred(text(told.get("to")))
        if target and text(told.get("field")):
            column.joins.append((target, text(told.get("field"))))


def referred(reference: str) -> str:
    """The key that `ref('x')` or `source('s', 't')` names; empty for anything else."""
    source = SOURCE_REF.search(reference)
    if source:
        return f"{source[1]}.{source[2]}"
    found = REF.search(reference)
    return found[1] if found else ""


def _semantic(project: DbtProject, path: str, value: Mapping[str, Any]) -> None:
    relation = value.get("node_relation")
    model = referred(text(value.get("model")))
    if not model and isinstance(relation, Mapping):
        model = text(relation.get("alias"))
    name = text(value.get("name"))
    if not model or not name:
        project.warnings.append(f"{path}: semantic model {name!r} names no model")
        return
    project.semantics[name] = Semantic(name, model, path, value)


def _yaml(project: DbtProject, path: str, value: Mapping[str, Any], schema: str) -> None:
    for group in ("models", "seeds", "snapshots"):
        for one in maps(value.get(group)):
            name = text(one.get("name"))
            if name:
                table = f"{schema}.{name}" if schema else name
                _add(project, _of_yaml(one, Model(name, name, path, table, kind=group.removesuffix("s"))))
    for source in maps(value.get("sources")):
        place = text(source.get("schema")) or text(source.get("name"))
        for one in maps(source.get("tables")):
            name, source_name = text(one.get("name")), text(source.get("name"))
            if name:
                table = f"{place}.{text(one.get('identifier')) or name}"
                _add(project, _of_yaml(one, Model(f"{source_name}.{name}", name, path, table, kind="source")))
    for one in maps(value.get("semantic_models")):
        _semantic(project, path, one)
    for one in maps(value.get("metrics")):
        if text(one.get("name")):
            project.metrics[text(one.get("name"))] = (path, one)


def _of_yaml(value: Mapping[str, Any], model: Model) -> Model:
    model.description = text(value.get("description"))
    for one in maps(value.get("columns")):
        column = _column(model, one)
        for test in [*_listed(one.get("tests")), *_listed(one.get("data_tests"))]:
            _yaml_test(model, column.name, test)
        for constraint in maps(one.get("constraints")):
            _test(
                model,
                column.name,
                "unique" if constraint.get("type") == "primary_key" else text(constraint.get("type")),
                {},
            )
    return model


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _yaml_test(model: Model, column: str, test: Any) -> None:
    if isinstance(test, str):
        _test(model, column, test, {})
    elif isinstance(test, Mapping) and len(test) >= 1:
        name, told = next(iter(test.items()))
        arguments = told if isinstance(told, Mapping) else {}
        inner = arguments.get("arguments")
        _test(model, column, str(name), inner if isinstance(inner, Mapping) else arguments)
