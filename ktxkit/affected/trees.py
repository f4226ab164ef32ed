"""`cache/affected.sqlite`: facts of Python files, by the id of their bytes. It may be deleted at any moment.

A row carries the digest of its content: one that is damaged is no row. A file that is no database, or of another
version of the readers, is made again.

The two trees that are compared: a base out of the object store, and what stands now, committed or not.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.affected.rules.scopes import LINK, SUBMODULE
from ktxkit.base import files
from ktxkit.base.errors import CannotRun
from ktxkit.base.files import CacheFile
from ktxkit.base.rules.digests import digest
from ktxkit.git.git import Git
from ktxkit.git.objects import Objects
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import AffectedSelectionTargetKind

IDS_AT_ONCE = 500  # ids in one question
ROWS_KEPT = 100_000
_TABLES = """
DROP TABLE IF EXISTS facts;
CREATE TABLE facts (id TEXT PRIMARY KEY, body BLOB, digest TEXT);
"""
_PROBE = "SELECT id, body, digest FROM facts LIMIT 1"


class AffectedCache(CacheFile):
    """The rows. Where the file is lost every file is read anew."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(path, version, _TABLES, _PROBE)

    def known(self, ids: Iterable[str]) -> dict[str, bytes]:
        """The facts of those ids that are there and whole."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, bytes] = {}
        if self._db is None:
            return found
        try:
            for start in range(0, len(wanted), IDS_AT_ONCE):
                part = wanted[start : start + IDS_AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(f"SELECT id, body, digest FROM facts WHERE id IN ({marks})", part)
                found |= {key: body for key, body, told in rows if isinstance(body, bytes) and digest(body) == told}
        except sqlite3.Error as error:
            self._lose(error)
        return found

    def keep(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Write facts by id. What cannot be written is read anew next time."""
        made = [(key, body, digest(body)) for key, body in rows]
        if self._db is None or not made:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", made)
            old = "SELECT rowid FROM facts ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._db.execute(f"DELETE FROM facts WHERE rowid IN ({old})", (ROWS_KEPT,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._lose(error)


Entries = dict[str, tuple[str, str]]  # path to mode and id
CHANGED_BYTES = 1 << 30  # of one file that is not committed; what is larger has no id of its content


@dataclass
class TreeSnapshot:
    """One tree. `loose`: bytes that are in no object yet, by id."""

    kind: AffectedSelectionTargetKind
    entries: Entries
    name: str = ""
    loose: dict[str, bytes] = field(default_factory=dict)


def committed(world: World, objects: Objects, revision: str) -> TreeSnapshot:
    """The tree of a revision. Raises CannotRun where there is none of that name."""
    git = world.git.at(world.repository.directory)
    tree = git.resolve(revision, "tree")
    if tree is None:
        raise CannotRun(f"no such revision: {revision}", hint="--base and --tree take a commit, a branch or a tree")
    entries = {os.fsdecode(e.path): (e.mode, e.oid) for e in objects.tree(tree)}
    return TreeSnapshot("tree", entries, tree)


def indexed(world: World) -> TreeSnapshot:
    """What would be committed: the index as git's environment names it."""
    return TreeSnapshot("index", _staged(world.inherited.at(_top(world))))


def worktree(world: World) -> TreeSnapshot:
    """What stands in the checkout, untracked files included, ignored ones not."""
    top = _top(world)
    git = world.git.at(top)
    made = TreeSnapshot("worktree", _staged(git))
    for path in _different(git):
        _put(made, os.fsencode(top), path, world.repository.object_format)
    return made


def _top(world: World) -> Path:
    top = world.repository.top
    if top is None:
        raise CannotRun("a bare repository has no checkout", hint="name what to compare with --tree REV")
    return top


def _staged(git: Git) -> Entries:
    entries: Entries = {}
    for line in git.run("ls-files", "-s", "-z").nul:
        head, _, path = line.partition(b"\t")
        mode, oid, stage = head.decode("ascii").split(" ")
        if stage != "0":
            raise CannotRun("a merge is not finished", location=os.fsdecode(path), hint="resolve it and `git add`")
        entries[os.fsdecode(path)] = (mode, oid)
    return entries


def _different(git: Git) -> Iterator[bytes]:
    """Paths that are not as the index has them, and those of which git was told not to look."""
    flags = ("--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=none")
    for entry in git.run("-c", "status.relativePaths=false", "status", *flags).nul:
        kind = entry[:1]
        if kind == b"?":
            yield entry[2:].removesuffix(b"/")
        elif kind in (b"1", b"u"):
            yield entry.split(b" ", 8 if kind == b"1" else 10)[-1]
    for line in git.run("ls-files", "-v", "-z").nul:
        if line[:1] in (b"h", b"S", b"s"):
            yield line[2:]


def _put(made: TreeSnapshot, top: bytes, path: bytes, object_format: str) -> None:
    """What stands at a path, under the id that git would give to these bytes."""
    place, name = top + b"/" + path, os.fsdecode(path)
    try:
        info = os.lstat(place)
        if stat.S_ISDIR(info.st_mode):
            made.entries[name] = (SUBMODULE, "changed")
            return
        if stat.S_ISLNK(info.st_mode):
            mode, data = LINK, os.readlink(place)  # noqa: PTH115
        else:
            mode, data = "100755" if info.st_mode & stat.S_IXUSR else "100644", _content(place, info)
    except (FileNotFoundError, NotADirectoryError):
        if made.entries.get(name, ("",))[0] != SUBMODULE or not os.path.isdir(place):  # noqa: PTH112
            made.entries.pop(name, None)
        return
    hasher = hashlib.new(object_format, b"blob %d\0" % len(data))
    hasher.update(data)
    made.entries[name] = (mode, hasher.hexdigest())
    made.loose[hasher.hexdigest()] = data


def _content(place: bytes, info: os.stat_result) -> bytes:
    if not stat.S_ISREG(info.st_mode) or info.st_size > CHANGED_BYTES:
        raise CannotRun("no regular file, or too large to read", location=os.fsdecode(place), hint="move it away")
    with open(files.open_regular(place), "rb") as file:
        return file.read()


def contents(objects: Objects, snapshots: Iterable[TreeSnapshot], ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The bytes of ids, from the checkout where they are not committed."""
    loose: dict[str, bytes] = {}
    for one in snapshots:
        loose |= one.loose
    wanted = list(ids)
    stored = [oid for oid in wanted if oid not in loose]
    yield from ((oid, loose[oid]) for oid in wanted if oid in loose)
    yield from zip(stored, objects.each(stored), strict=True)
