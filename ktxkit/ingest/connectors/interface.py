"""What a connector is: it detects and stages a source, and reads a snapshot of it into a plan and a projection.

A connector is an object that an entry point of the group `ktxkit.connectors` names; the entry point's name is its key.
It never writes into the repository: it hands raw files to a sink, and gives back values.

Finding a connector by its name, through entry points: those of this project and those of others are found alike.

Reading a staged directory: in order of the paths, no link followed, nothing left out without a word.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, cast

from ktxkit.base import files
from ktxkit.base.clock import Clock
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection


@dataclass(frozen=True)
class Origin:
    """Where a source is: a directory or file, or an address. `env` has what must be secret; none of it is stored."""

    path: Path | None
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
    """What a snapshot is read for. `used_names`: names of sources that others declared in this connection.

    `readers`: table in lower case to the one of them that reads it.
    """

    connection: str
    options: Mapping[str, str] = field(default_factory=dict)
    used_names: Collection[str] = ()
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

    def detect(self, directory: Path) -> str:
        """Why this directory or file is one of this kind; empty where it is not."""

    def stage(self, origin: Origin, sink: Sink) -> Staged:
        """Hand every raw file to the sink. Raises KtxError where the source cannot be had."""

    def read(self, snapshot: Snapshot, setting: Setting) -> Reading:
        """Raises KtxError where the snapshot means nothing to this connector."""


GROUP = "ktxkit.connectors"


def installed_connectors() -> dict[str, EntryPoint]:
    """Every connector that is installed, by name."""
    return {one.name: one for one in entry_points(group=GROUP)}


def connector(name: str) -> Connector:
    """Raises CannotRun where there is none of that name, or it cannot be loaded."""
    known = installed_connectors()
    if name not in known:
        near = nearest(name, list(known), 1)
        hint = f"did you mean {near[0]}?" if near else f"installed: {', '.join(sorted(known)) or 'none'}"
        raise CannotRun(f"no connector named {name!r}", hint=hint)
    try:
        loaded = known[name].load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise CannotRun(
            f"connector {name} cannot be loaded: {error}",
            location=known[name].value,
            hint="install what it needs, or the connector again",
        ) from error
    missing = [part for part in ("detect", "stage", "read") if not callable(getattr(loaded, part, None))]
    if missing:
        raise CannotRun(
            f"connector {name} has no {', '.join(missing)}",
            location=known[name].value,
            hint="install another version of it, or take it to its author",
        )
    return cast(Connector, loaded)


FILE_LIMIT = 64 * 1024 * 1024  # bytes of one raw file
DEPTH_LIMIT = 32


FILE, DIRECTORY, LINK, SPECIAL = "file", "directory", "symbolic link", "special file"


class StagedEntry(NamedTuple):
    """Something below a directory: its raw path, its path, and which of the four kinds it is."""

    name: str
    path: Path
    kind: str


def walk(top: Path) -> Iterator[StagedEntry]:
    """Everything below `top` but git's and our own directories; a directory comes before what is in it.

    Names that are not UTF-8 come with surrogates; whoever keeps them must refuse them. Raises CannotRun for a directory
    that cannot be read: what is in it must not be taken for deleted.
    """
    if not top.is_dir():
        raise CannotRun("no such directory", location=str(top), hint="name the directory of a staged bundle")
    yield from _walk(top, "", 0)


def _walk(directory: Path, prefix: str, depth: int) -> Iterator[StagedEntry]:
    if depth > DEPTH_LIMIT:
        raise CannotRun(
            f"more than {DEPTH_LIMIT} directories in each other",
            location=str(directory),
            hint="name a directory further down, or look for one that holds itself",
        )
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise _unreadable(directory, error) from error
    for entry in entries:
        if entry.name in (".git", ".ktx"):
            continue
        one = StagedEntry(f"{prefix}{entry.name}", Path(entry.path), _kind(entry))
        yield one
        if one.kind == DIRECTORY:
            yield from _walk(one.path, f"{one.name}/", depth + 1)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return DIRECTORY
    return FILE if entry.is_file(follow_symlinks=False) else SPECIAL


def _unreadable(path: Path, error: OSError) -> CannotRun:
    return CannotRun(
        f"cannot read it: {error.strerror}",
        location=str(path),
        hint="check permissions, and that nobody removed it meanwhile",
    )


def no_file(entry: StagedEntry, expected: str = "a file of the source") -> CannotRun:
    """The error for what stands in a raw file's place and is none: left out, it would be taken for deleted."""
    return CannotRun(
        f"it is a {entry.kind}, where {expected} is expected",
        location=str(entry.path),
        hint="put the file or directory itself there (no link is followed), or remove it if it is gone at the source",
    )


def content(path: Path) -> bytes:
    """A raw file's bytes. Raises CannotRun where it is too large, gone, or cannot be read."""
    try:
        return files.read(path, FILE_LIMIT)
    except OSError as error:
        raise _unreadable(path, error) from error
    except BrokenContract as error:
        raise CannotRun(error.message, location=str(path), hint=error.hint) from error
