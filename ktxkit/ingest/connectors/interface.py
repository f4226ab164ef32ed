"""What a connector is: it detects and stages a source, and reads a snapshot of it into a plan and a projection.

A connector is an object that an entry point of the group `ktxkit.connectors` names; the entry point's name is its key.
It never writes into the repository: it hands raw files to a sink, and gives back values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ktxkit.base.clock import Clock
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection


@dataclass(frozen=True)
class Origin:
    """Where a source is: a directory or file, or an address. `env` has what must be secret; none of it is stored."""

    place: Path | None
    url: str
    env: Mapping[str, str]
    options: Mapping[str, str]
    clock: Clock


class Sink(Protocol):
    """Takes raw files one by one; none is held in memory after it was put."""

    def put(self, raw_path: str, data: bytes) -> None:
        """Raises CannotRun for a path that is not in its normal form, or that was put already."""


@dataclass
class Staged:
    """What a connector has to say of its staging. `not_read`: what lies there and is no part of the snapshot.

    `unfetched`: raw paths that exist but could not be had this time; they are never called deleted.
    """

    not_read: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unfetched: list[str] = field(default_factory=list)
    scope: str = ""


class Snapshot(Protocol):
    """The raw files of a sync, read one at a time."""

    @property
    def paths(self) -> Sequence[str]:
        """Raw paths, sorted by bytes."""

    def read(self, raw_path: str) -> bytes: ...


@dataclass(frozen=True)
class Setting:
    """What a snapshot is read for. `taken`: names of sources that others declared in this connection.

    `readers`: table in lower case to the one of them that reads it.
    """

    connection: str
    options: Mapping[str, str] = field(default_factory=dict)
    taken: Collection[str] = ()
    readers: Mapping[str, str] = field(default_factory=dict)


class Reading(Protocol):
    """A snapshot that was read."""

    @property
    def warnings(self) -> Sequence[str]: ...

    def in_scope(self, raw_path: str, before: Callable[[], bytes | None]) -> bool:
        """Whether this sync would have had an absent raw file if it still existed. `before` reads its last content."""

    def project(self) -> Projection:
        """What the snapshot says by rule alone. Deterministic."""

    def plan(self) -> Sequence[Proposal]:
        """Every unit, whether or not this sync needs it. Deterministic."""


class Connector(Protocol):
    """One kind of source."""

    def detect(self, place: Path) -> str:
        """Why this directory or file is one of this kind; empty where it is not."""

    def stage(self, origin: Origin, sink: Sink) -> Staged:
        """Hand every raw file to the sink. Raises KtxError where the source cannot be had."""

    def read(self, snapshot: Snapshot, setting: Setting) -> Reading:
        """Raises KtxError where the snapshot means nothing to this connector."""
