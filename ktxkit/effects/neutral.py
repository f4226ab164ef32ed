"""The neutral git directory: private, bare, without configuration, attributes, hooks or refs of anybody.

Everything that decides content runs here. Only the objects are the user's: no gc, prune or repack may ever run in it,
since that would delete the user's history.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ktxkit.effects import files
from ktxkit.effects.git import Git, scrubbed
from ktxkit.effects.promised import Promised, promised
from ktxkit.effects.repository import Repository
from ktxkit.effects.store import Store

AUTHOR = {"NAME": "ktxkit", "EMAIL": "ktxkit@invalid"}
CONFIG = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.fsync": "objects,reference",
    "core.quotePath": "true",
    "core.preloadIndex": "false",
    "merge.directoryRenames": "false",
    "apply.whitespace": "nowarn",
    "apply.ignoreWhitespace": "no",
    "advice.detachedHead": "false",
}
ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
}
KINDS = ("neutral-", "scratch-")  # directories of ours that only their owner uses


class Placed(Protocol):
    """What a neutral directory needs of a world."""

    @property
    def repository(self) -> Repository: ...

    @property
    def writable_store(self) -> Store: ...

    @property
    def env(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Neutral:
    """The directory and a git that runs in it, on the user's objects."""

    git: Git
    directory: Path
    object_format: str
    promised: Promised | None = None  # of a partial clone

    @property
    def zero(self) -> str:
        return "0" * (64 if self.object_format == "sha256" else 40)

    def index(self, name: str) -> Git:
        """The same git with an index file of that name, private to this directory; it is new where it was not used."""
        return self.git.having(GIT_INDEX_FILE=str(self.directory / f"index-{name}"))

    def as_author(self, seconds: int) -> Git:
        """The same git with the fixed author and committer, at `seconds` since the epoch, UTC."""
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
        when = {f"GIT_{role}_DATE": f"@{seconds} +0000" for role in ("AUTHOR", "COMMITTER")}
        return self.git.having(**who, **when)


@contextmanager
def open_neutral(world: Placed) -> Iterator[Neutral]:
    """A neutral directory for the block. What a dead process left of its own is swept first."""
    parent = world.writable_store.root / "tmp"
    sweep(parent)
    path = owned_dir(parent, "neutral")
    try:
        base = Git(path, {**scrubbed(world.env), **ENV}, CONFIG)
        kind = world.repository.object_format
        base.run("init", "-q", "--bare", "--template=", f"--object-format={kind}", str(path))
        objects = world.repository.objects
        promise = promised(Git.scrub(world.repository.place, world.env), objects, world.env)
        yield Neutral(base.having(GIT_DIR=str(path), GIT_OBJECT_DIRECTORY=str(objects)), path, kind, promise)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def owned_dir(parent: Path, kind: str) -> Path:
    """A new private directory that names its owner, so that a later process can prove it dead."""
    return files.temp_dir(parent, f"{kind}-{files.owner_mark()}-")


@contextmanager
def scratch_dir(world: Placed) -> Iterator[Path]:
    """A private directory for the block."""
    path = owned_dir(world.writable_store.root / "tmp", "scratch")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sweep(parent: Path) -> list[str]:
    """Remove the private directories of processes that are proven dead; returns their names."""
    try:
        names = sorted(entry.name for entry in os.scandir(parent))
    except FileNotFoundError:
        return []
    gone = []
    for name in names:
        if name.startswith(KINDS) and files.is_abandoned(name):
            shutil.rmtree(parent / name, ignore_errors=True)
            gone.append(name)
    return gone
