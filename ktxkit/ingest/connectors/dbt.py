"""dbt: `manifest.json`, `semantic_manifest.json` or the schema YAML of a project; models become sources."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.ingest.connectors import interface
from ktxkit.ingest.connectors.interface import Origin, Setting, Sink, Snapshot, Staged
from ktxkit.ingest.rules import dbt, dbt_sources
from ktxkit.ingest.rules.metabase_cards import encoded
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection

MANIFEST, SEMANTIC, PROJECT = "manifest.json", "semantic_manifest.json", "dbt_project.yml"
CATALOG = "catalog.json"  # beside a manifest: what `dbt docs generate` found in the warehouse
IGNORED = ("dbt_packages/", "dbt_modules/", "target/", "logs/", "venv/", ".venv/", "node_modules/")
KEYS = ("models", "sources", "seeds", "snapshots", "semantic_models", "metrics")
NOT_READ_KEPT = 100
OPTIONS = ("schema",)


class Dbt:
    """The connector."""

    def detect(self, directory: Path) -> str:
        found = _manifest(directory, MANIFEST) or _manifest(directory, SEMANTIC)
        if found is not None:
            return f"it has {found.name}"
        if not directory.is_dir():
            return ""
        if (directory / PROJECT).is_file():
            return f"it has {PROJECT}"
        name = next(
            (one.name for one in _yaml_files(directory) if one.kind == interface.FILE and _declares(one.path)), ""
        )
        return f"{name} declares models or sources" if name else ""

    def stage(self, origin: Origin, sink: Sink) -> Staged:
        unknown = sorted(set(origin.options) - set(OPTIONS))
        if unknown:
            raise CannotRun(f"dbt takes no option {unknown[0]!r}", hint=f"it takes {', '.join(OPTIONS)}")
        if origin.url or origin.path is None:
            raise CannotRun("dbt reads a directory or a manifest", hint="name the project, or its target directory")
        whole, semantic = _manifest(origin.path, MANIFEST), _manifest(origin.path, SEMANTIC)
        manifest = whole or semantic
        if manifest is None:
            return _stage_yaml(origin.path, sink)
        catalog = manifest.parent / CATALOG
        types = _parsed(catalog) if whole is not None and catalog.is_file() else None
        try:
            found = dict(dbt.semantic_files(_parsed(manifest)) if whole is None else dbt.files(_parsed(whole), types))
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CannotRun(
                f"it has not the shape of a dbt manifest: {error}",
                location=str(manifest),
                hint="made by dbt 1.5 or newer? run `dbt parse` again",
            ) from error
        for path, value in sorted(found.items(), key=lambda item: item[0].encode()):
            sink.put(path, encoded(value))
        return Staged()

    def read(self, snapshot: Snapshot, setting: Setting) -> DbtReading:
        return DbtReading(snapshot, setting)


def _manifest(directory: Path, name: str) -> Path | None:
    """A manifest: the place itself, in it, or in its `target/`. Raises CannotRun where something else has its name: the
    project's YAML would be read in its place, and all that the manifest said be taken for deleted."""
    options = (
        [directory / name, directory / "target" / name]
        if directory.is_dir()
        else [directory]
        if directory.name == name
        else []
    )
    found = next((path for path in options if os.path.lexists(path)), None)
    if found is not None and not found.is_file():
        raise CannotRun("it is no file", location=str(found), hint="run `dbt parse`, or remove it")
    return found


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        value = contracts.parse(interface.content(path), str(path))
    except BrokenContract as error:
        raise CannotRun(error.message, location=error.location, hint="run `dbt parse` again") from error
    if not isinstance(value, Mapping):
        raise CannotRun(
            "a manifest is an object", location=str(path), hint="run `dbt parse`, then name its target/manifest.json"
        )
    return value


def _yaml_files(directory: Path) -> Iterator[interface.StagedEntry]:
    """YAML of the project, and links to directories: dbt follows them."""
    for one in interface.walk(directory):
        if any(f"{one.name}/".startswith(name) or f"/{name}" in f"{one.name}/" for name in IGNORED):
            continue
        linked = one.kind == interface.LINK and one.path.is_dir()
        if linked or (one.name.endswith((".yml", ".yaml")) and one.kind != interface.DIRECTORY):
            yield one


def _declares(path: Path) -> bool:
    value = load(interface.content(path), str(path))
    return isinstance(value, Mapping) and any(isinstance(value.get(key), list) for key in KEYS)


def _stage_yaml(directory: Path, sink: Sink) -> Staged:
    staged = Staged()
    for one in _yaml_files(directory):
        if one.kind != interface.FILE:
            raise interface.no_file(one, "the project's own file or directory")
        if one.name == PROJECT or _declares(one.path):
            sink.put(one.name, interface.content(one.path))
        else:
            staged.not_read.append(one.name.encode("utf-8", "backslashreplace").decode("utf-8"))
    staged.not_read = staged.not_read[:NOT_READ_KEPT]
    return staged


def load(data: bytes, path: str) -> Any:
    """YAML as dbt reads it: anchors and aliases are allowed there. Raises CannotRun naming the file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(io.BytesIO(data))
    except (YAMLError, ValueError, RecursionError, AttributeError) as error:
        raise CannotRun(
            f"not YAML: {str(error).splitlines()[0]}",
            location=path,
            hint="correct it there: dbt does not read it either",
        ) from error


class DbtReading:
    """A snapshot as models, semantic models and metrics."""

    def __init__(self, snapshot: Snapshot, setting: Setting) -> None:
        documents = ((path, _document(snapshot, path)) for path in snapshot.paths)
        self.project_read = dbt.build(documents, setting.options.get("schema", ""))
        self.names, self.own = dbt_sources.named(self.project_read, setting.used_names, setting.readers)
        self.connection = setting.connection
        self._projection = dbt_sources.project_sources(self.project_read, self.connection, self.names, self.own)

    @property
    def warnings(self) -> Sequence[str]:
        return ()  # they are the projection's

    def in_scope(self, raw_path: str, before: Callable[[], bytes | None]) -> bool:
        return True

    def project(self) -> Projection:
        return self._projection

    def plan(self) -> Sequence[Proposal]:
        return dbt_sources.plan(self.project_read, self.names, self.connection)


def _document(snapshot: Snapshot, path: str) -> Any:
    data = snapshot.read(path)
    return json.loads(data) if path.endswith(".json") else load(data, path)


connector = Dbt()
