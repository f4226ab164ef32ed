"""Metabase: a directory of its documents, or a live one over its API; tables, models and metrics become sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.ingest.connectors import directory
from ktxkit.ingest.connectors.interface import Origin, Setting, Sink, Snapshot, Staged
from ktxkit.ingest.rules.metabase import bundle as bundles
from ktxkit.ingest.rules.metabase import content, sources, units
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection

NOT_READ_KEPT = 100
OPTIONS = ("group", "database", "include-personal", "time-limit", "request-limit")


class Metabase:
    """The connector."""

    def detect(self, place: Path) -> str:
        if not place.is_dir():
            return ""
        cards = next((one.name for one in directory.walk(place) if bundles.CARD.match(one.name)), "")
        if (place / bundles.CONFIG).is_file() and not cards:
            return f"it has {bundles.CONFIG}"
        return f"it has {cards}" if cards else ""

    def stage(self, origin: Origin, sink: Sink) -> Staged:
        _check_options(origin)
        if origin.url:
            from ktxkit.ingest.connectors import metabase_api

            return metabase_api.stage(origin, sink)
        assert origin.place is not None, "a source has a place or an address"
        return stage_directory(origin.place, sink)

    def read(self, snapshot: Snapshot, setting: Setting) -> MetabaseReading:
        return MetabaseReading(snapshot, setting)


def _check_options(origin: Origin) -> None:
    unknown = sorted(set(origin.options) - set(OPTIONS))
    if unknown:
        raise CannotRun(f"metabase takes no option {unknown[0]!r}", hint=f"it takes {', '.join(OPTIONS)}")
    group = origin.options.get("group", units.GROUPS[0])
    if group not in units.GROUPS:
        raise CannotRun(f"group={group} is none of {', '.join(units.GROUPS)}", hint="leave it out for the default")


def stage_directory(place: Path, sink: Sink) -> Staged:
    """The raw files of a directory in either layout. Archived cards are no part of it."""
    staged = Staged()
    for one in directory.walk(place):
        name, path, kind = one
        expected = directory.FILE if bundles.wanted(name) else directory.DIRECTORY if bundles.holds(name) else kind
        if kind != expected:
            raise directory.no_file(one, f"a {expected} of Metabase's")
        if not bundles.wanted(name):
            if kind != directory.DIRECTORY:
                staged.not_read.append(name.encode("utf-8", "backslashreplace").decode("utf-8"))
            continue
        value = kept(name, directory.content(path), str(path))
        if isinstance(value, dict) and value.get("archived") is True and bundles.CARD.match(name):
            continue
        sink.put(name, content.encoded(value))
    if len(staged.not_read) > NOT_READ_KEPT:
        staged.not_read = [*staged.not_read[:NOT_READ_KEPT], f"and {len(staged.not_read) - NOT_READ_KEPT} more"]
    return staged


def kept(name: str, data: bytes, where: str) -> Any:
    """The content of one document. Raises CannotRun naming the file where it is none."""
    try:
        return bundles.kept(name, contracts.parse(data, where))
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint="the source gave a damaged document") from error
    except bundles.NO_DOCUMENT as error:
        raise CannotRun(
            f"it has not the shape of a Metabase document: {error}",
            where=where,
            hint="exported by another version of Metabase? leave the document out, or export it again",
        ) from error


class MetabaseReading:
    """A snapshot as cards, collections, tables and dashboards."""

    def __init__(self, snapshot: Snapshot, setting: Setting) -> None:
        self.setting = setting
        self.bundle = bundles.build(_documents(snapshot))
        self.names = sources.named(self.bundle, setting.taken, setting.readers)
        self._projection = sources.project(self.bundle, self.names, setting.connection)

    @property
    def warnings(self) -> Sequence[str]:
        return self.bundle.warnings

    def in_scope(self, raw_path: str, before: Callable[[], bytes | None]) -> bool:
        database = self.setting.options.get("database", "")
        if database and bundles.DATABASE.match(raw_path):
            return raw_path.split("/")[1].removesuffix(".json") == database
        if not bundles.CARD.match(raw_path) or not (database or bundles.selects(self.bundle.config)):
            return True
        data = before()
        value = json.loads(data) if data is not None else None
        if database and (value is None or str(value.get("database_id")) != database):
            return False
        return bundles.in_scope(self.bundle, value, raw_path)

    def project(self) -> Projection:
        return self._projection

    def plan(self) -> Sequence[Proposal]:
        group = self.setting.options.get("group", units.GROUPS[0])
        return units.plan(self.bundle, self.names, self.setting.connection, self._projection.unresolved, group)


def _documents(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    for path in snapshot.paths:
        yield path, json.loads(snapshot.read(path))


connector = Metabase()
