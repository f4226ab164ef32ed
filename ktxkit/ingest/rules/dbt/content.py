"""What of a dbt artifact is content, one raw file for each node: a manifest as a whole changes with every run.

Left out: times, ids of invocations, paths on somebody's machine, checksums, compiled code. Tests of a node are in its
raw file, since they say what its columns are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
LONGEST = 190  # characters of an id in a file name
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Raw path and content of each node of a `manifest.json`, sorted by path. Raises ValueError where it has no nodes:
    taken for an empty one, everything would have been deleted."""
    _required(manifest, "nodes", Mapping)
    found: dict[str, Any] = {}
    tests = _tests(manifest)
    for group in ("nodes", "sources"):
        for unique, node in _nodes(manifest, group):
            prefix = PREFIXES.get(str(node.get("resource_type", "")))
            if prefix:
                found[f"{prefix}/{plain(unique)}.json"] = _node(node) | {"tests": tests.get(unique, [])}
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


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    columns = [_only(one, COLUMN_KEYS) for one in _several(node.get("columns"))]
    return {**_only(node, NODE_KEYS), "columns": columns}


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
