"""The neutral git directory: private, bare, without configuration, attributes, hooks or refs of anybody.

Everything that decides content runs here. Only the objects are the user's: no gc, prune or repack may ever run in it,
since that would delete the user's history.

A scratch repository of one tree: its own git directory, our objects, nothing else of the user's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktxkit.base import files, owners
from ktxkit.base.errors import BrokenContract
from ktxkit.base.removal import delete
from ktxkit.git.git import Git, scrubbed
from ktxkit.git.listing import TreeDiff
from ktxkit.git.objects import Objects, Promised, RunReader, promised
from ktxkit.git.repository import Repository
from ktxkit.store.store import Store

if TYPE_CHECKING:
    from ktxkit.base.documents import ObjectFormat


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
    def cwd(self) -> Path: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    pool: Pool | None
    reader: RunReader | None


class Neutral:
    """The directory and a git that runs in it, on the user's objects; readers of these are started when asked for."""

    def __init__(
        self, git: Git, directory: Path, object_format: ObjectFormat, promised: Promised | None = None
    ) -> None:
        self.git = git
        self.directory = directory
        self.object_format = object_format
        self.promised = promised  # of a partial clone

    @cached_property
    def objects(self) -> Objects:
        """The reader of objects."""
        return Objects(self.git)

    @cached_property
    def differ(self) -> TreeDiff:
        """The comparer of trees."""
        return TreeDiff(self.git)

    def tree_of(self, revision: str) -> str | None:
        """The tree id of a commit or tree, or None where it is neither, or not there."""
        if revision.startswith("-") or "\n" in revision:
            return None
        found = self.objects.find(f"{revision}^{{tree}}")
        return found[0] if found is not None else None

    def need_tree(self, revision: str) -> str:
        """The tree id of a commit that was here. Raises BrokenContract (`missing_base`) where it is gone."""
        found = self.tree_of(revision)
        if found is None:
            hint = "a damaged repository (git fsck), or a history that was pruned"
            raise BrokenContract(f"commit {revision} is not in this repository", outcome="missing_base", hint=hint)
        return found

    def close(self) -> None:
        """End the readers and remove the directory."""
        for name in ("objects", "differ"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()
        delete(self.directory)

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


class Pool:
    """Neutral directories that a long run uses again. One is used by one block at a time."""

    def __init__(self, objects: str) -> None:
        self.objects = objects  # the object directory they are made for
        self.idle: list[Neutral] = []

    def close(self) -> None:
        """Remove those that nobody uses."""
        while self.idle:
            self.idle.pop().close()


@contextmanager
def pooled(world: Placed) -> Iterator[None]:
    """For the block, neutral directories of the world are used again."""
    before, world.pool = world.pool, Pool(str(world.repository.objects))
    try:
        yield
    finally:
        world.pool.close()
        world.pool = before


@contextmanager
def reading(world: Placed) -> Iterator[None]:
    """For the block, one reader answers for refs and objects of the repository; it starts at its first question."""
    if world.reader is not None:
        yield
        return
    place = world.repository.directory
    world.reader = RunReader(Git.scrub(place, world.env), {world.cwd, place})
    try:
        yield
    finally:
        world.reader.close()
        world.reader = None


@contextmanager
def open_objects(world: Placed) -> Iterator[Objects]:
    """A reader of the repository's objects for the block: that of the run where it has one."""
    if world.reader is not None and world.reader.serves(world.cwd):
        yield world.reader.objects
        return
    with Objects(Git.scrub(world.cwd, world.env)) as objects:
        yield objects


@contextmanager
def open_neutral(world: Placed) -> Iterator[Neutral]:
    """A neutral directory for the block; where the world has a pool, one of it that was used before."""
    pool = world.pool
    if pool is None or pool.objects != str(world.repository.objects):
        made = _make(world)
        try:
            yield made
        finally:
            made.close()
        return
    try:
        made = pool.idle.pop()  # one step for threads
    except IndexError:
        made = _make(world)
    try:
        yield made
    except BaseException:
        made.close()  # a reader may be in the middle of an answer
        raise
    pool.idle.append(made)


def _make(world: Placed) -> Neutral:
    """A new neutral directory. What a dead process left of its own is swept first."""
    parent = world.writable_store.directory("tmp")
    sweep(world.writable_store.root)
    owners.hold(world.writable_store.root)
    path = owned_dir(parent, "neutral")
    kind = world.repository.object_format
    _init(path, kind)
    objects = world.repository.objects
    git = Git(path, {**scrubbed(world.env), **ENV, "GIT_DIR": str(path), "GIT_OBJECT_DIRECTORY": str(objects)}, CONFIG)
    return Neutral(git, path, kind, promised(Git.scrub(world.repository.directory, world.env), objects, world.env))


def _init(path: Path, kind: str) -> None:
    """A bare repository, as `git init --bare --template=` makes it. Source: gitrepository-layout(5)."""
    for name in ("objects", "refs"):
        os.mkdir(path / name, 0o700)  # noqa: PTH102 - os calls only: see files.py
    version = "1\n[extensions]\n\tobjectFormat = sha256" if kind == "sha256" else "0"
    for name, text in {
        "HEAD": "ref: refs/heads/none\n",
        "config": f"[core]\n\tbare = true\n\trepositoryFormatVersion = {version}\n",
    }.items():
        files.write_new(path / name, text.encode("ascii"))


def owned_dir(parent: Path, kind: str) -> Path:
    """A new private directory that names its owner, so that a later process can prove it dead."""
    return files.temp_dir(parent, f"{kind}-{owners.this_owner().mark}-")


@contextmanager
def scratch_dir(world: Placed) -> Iterator[Path]:
    """A private directory for the block."""
    owners.hold(world.writable_store.root)
    path = owned_dir(world.writable_store.directory("tmp"), "scratch")
    try:
        yield path
    finally:
        delete(path)


def sweep(root: Path) -> list[str]:
    """Remove the private directories of dead processes from the store at `root`; returns their names."""
    parent = root / "tmp"
    try:
        names = sorted(entry.name for entry in os.scandir(parent))
    except FileNotFoundError:
        return []
    gone = []
    for name in names:
        if name.startswith(KINDS) and owners.is_abandoned(name, root):
            delete(parent / name)
            gone.append(name)
    return gone


PLAIN = {
    "core.autocrlf": "false",
    "core.fsync": "none",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


@contextmanager
def checkout(world: Placed, entries: Iterable[tuple[str, bytes, str]], base_tree: str = "") -> Iterator[Path]:
    """Files, as (mode, path, object id), checked out in a repository of its own for the block.

    HEAD is a commit of the base tree (of nothing where there is none), the index has the files.

    Objects are borrowed through `info/alternates`; whatever runs there writes none into the user's store.
    """
    with scratch_dir(world) as place:
        top = place / "tree"
        files.make_dirs(top)
        kept = {key: value for key, value in world.env.items() if not key.startswith("GIT_")}
        git = Git(top, {**kept, **{key: ENV[key] for key in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL")}}, PLAIN)
        kind = f"--object-format={world.repository.object_format}"
        git.run("init", "-q", "--template=", "-b", "main", kind, str(top))
        store = os.fsencode(world.repository.objects)
        files.write_atomic(top / ".git/objects/info/alternates", store + b"\n", durable=False)
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
        base_tree = base_tree or git.run("mktree", stdin=b"").text
        commit = git.run("commit-tree", "-m", "base", base_tree, env=who).text
        git.run("update-ref", "refs/heads/main", commit)
        listed = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for mode, path, oid in entries)
        git.run("update-index", "-z", "--index-info", stdin=listed)
        git.run("checkout-index", "-a", "-q", "-f")
        git.run("update-index", "-q", "--refresh", ok=None)
        yield top
