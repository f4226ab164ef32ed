"""Objects, read through one long-lived `cat-file --batch-command`: 0.03 ms each, in any object format."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from ktxkit.base import process
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.git.git import Git
from ktxkit.git.listing import LISTED_KEPT, Below, Listed, in_runs
from ktxkit.git.listing import TreeEntry as TreeEntry
from ktxkit.git.rules.patch import Content

ENTRIES_KEPT = 60_000  # of trees that were read, those used last: some 12 MB, however long a run is
AHEAD, SMALL = 64, 1024 * 1024  # objects of one exchange; bytes of one that is read in it
CHUNK = 1024 * 1024  # bytes of a blob held at once where it is only hashed


LISTED = Listed(LISTED_KEPT)


class Objects:
    """A reader of objects. Thread-safe; close it, or use it in a `with`."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._lock = threading.Lock()
        self._child = git.start("cat-file", "--batch-command")
        self._ahead: dict[str, bytes] = {}
        self._trees: dict[str, list[tuple[str, bytes, str]]] = {}
        self._held = 0
        self._memory = threading.Lock()

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the reader."""
        process.end_reader(self._child)

    @property
    def _out(self) -> IO[bytes]:
        assert self._child.stdout is not None
        return self._child.stdout

    def _ask(self, verb: str, name: str) -> tuple[str, str, int] | None:
        """Id, type and size in bytes, or None where there is no such object."""
        assert self._child.stdin is not None and "\n" not in name
        try:
            self._child.stdin.write(f"{verb} {name}\n".encode())
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        return self._answer()

    def _answer(self) -> tuple[str, str, int] | None:
        line = self._out.readline()
        if not line:
            raise self._ended()
        head = line.decode("utf-8", "replace").rstrip("\n")
        words = head.split(" ")
        if len(words) != 3 or not words[2].isdigit():
            return None
        return words[0], words[1], int(words[2])

    def _ended(self) -> CannotRun:
        """git ended although we still ask: what it said is why (a repository whose configuration it cannot read)."""
        said = self._child.stderr.read().decode("utf-8", "replace").strip() if self._child.stderr is not None else ""
        return CannotRun(
            f"git cat-file ended early: {said or 'it said nothing'}",
            where=str(self._git.cwd),
            hint="run it again; git fsck tells whether the repository is whole",
        )

    def find(self, name: str) -> tuple[str, str, int] | None:
        """Id, type and size in bytes of what a name stands for, or None."""
        with self._lock:
            return self._ask("info", name)

    def size(self, oid: str) -> int:
        """Bytes of an object. Raises BrokenContract where it is missing."""
        return self._need(oid, self.find(oid))[2]

    def read(self, oid: str) -> bytes:
        """An object's whole content. Raises BrokenContract where it is missing."""
        with self._lock:
            if oid in self._ahead:
                return self._ahead.pop(oid)
            _, _, size = self._need(oid, self._ask("contents", oid))
            data = self._out.read(size)
            self._out.read(1)
        return data

    def each(self, oids: Sequence[str]) -> Iterator[bytes]:
        """The contents of objects, in order: small ones in exchanges of many, not one by one. Raises as `read` does."""
        for start in range(0, len(oids), AHEAD):
            part = oids[start : start + AHEAD]
            with self._lock:
                self._fetch(list(dict.fromkeys(part)))
            yield from map(self.read, part)
            self._ahead.clear()

    def _fetch(self, oids: list[str]) -> None:
        """Keep the contents of those that are there and small. What is written fits into a pipe: nobody waits."""
        sizes = dict(zip(oids, self._exchange("info", oids), strict=True))
        small = [oid for oid, size in sizes.items() if size is not None and size <= SMALL]
        for oid, size in zip(small, self._exchange("contents", small), strict=True):
            assert size is not None
            self._ahead[oid] = self._out.read(size)
            self._out.read(1)

    def _exchange(self, verb: str, oids: list[str]) -> Iterator[int | None]:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write("".join(f"{verb} {oid}\n" for oid in oids).encode())
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        for _ in oids:
            found = self._answer()
            yield None if found is None else found[2]

    def content(self, oid: str) -> Content:
        """Size, digest and whether a NUL is in it, a chunk at a time."""
        from blake3 import blake3

        hasher, binary = blake3(), False
        with self._lock:
            _, _, size = self._need(oid, self._ask("contents", oid))
            left = size
            while left:
                chunk = self._out.read(min(left, CHUNK))
                if not chunk:
                    raise BrokenContract(
                        f"object {oid} ends early",
                        where=str(self._git.cwd),
                        hint="git fsck tells whether the repository is whole",
                    )
                hasher.update(chunk)
                binary = binary or b"\0" in chunk
                left -= len(chunk)
            self._out.read(1)
        return Content(size, binary, f"b3:{hasher.hexdigest()}")

    def _need(self, oid: str, found: tuple[str, str, int] | None) -> tuple[str, str, int]:
        if found is None:
            raise BrokenContract(
                f"object {oid} is not in this repository",
                where=str(self._git.cwd),
                hint="a damaged repository (git fsck), or a partial clone that could not fetch it",
                outcome="missing_base",
            )
        return found

    def level(self, tree: str) -> list[tuple[str, bytes, str]]:
        """The entries of one tree object, subtrees as such: (mode, name, id)."""
        with self._memory:
            known = self._trees.pop(tree, None)
            if known is not None:
                self._trees[tree] = known  # the last one to go
                return known
        known = parse_tree(self.read(tree), len(tree) // 2)
        with self._memory:
            if tree not in self._trees:
                self._trees[tree] = known
                self._held += len(known)
            while self._held > ENTRIES_KEPT and len(self._trees) > 1:
                self._held -= len(self._trees.pop(next(iter(self._trees))))
        return known

    def tree(self, tree: str) -> list[TreeEntry]:
        """Every file of a tree (a tree id), in git's order; a subtree that any reader listed before costs nothing."""
        return self.below(tree, b"")

    def below(self, tree: str, prefix: bytes) -> list[TreeEntry]:
        """As `tree`, of a subtree whose files' paths begin with `prefix`."""
        found: list[TreeEntry] = []
        self._list(tree, prefix, found)
        return found

    def _list(self, tree: str, prefix: bytes, found: list[TreeEntry]) -> None:
        runs = LISTED.get(tree, prefix)
        if runs is None:
            runs = in_runs(self.level(tree), prefix)
            LISTED.put(tree, prefix, runs)
        for run in runs:
            if isinstance(run, Below):
                self._list(run.tree, run.prefix, found)
            else:
                found += run

    def entry(self, tree: str, path: bytes) -> TreeEntry | None:
        """What stands at a path of a tree (a directory included), or None."""
        *parents, last = path.split(b"/")
        for parent in parents:
            found = next((e for e in self.level(tree) if e[1] == parent), None)
            if found is None or found[0] != "040000":
                return None
            tree = found[2]
        found = next((e for e in self.level(tree) if e[1] == last), None)
        return TreeEntry(found[0], path, found[2]) if found else None


def parse_tree(data: bytes, width: int) -> list[tuple[str, bytes, str]]:
    """A tree object's entries; `width` is the bytes of an id."""
    entries, at = [], 0
    while at < len(data):
        space = data.index(b" ", at)
        nul = data.index(b"\0", space)
        entries.append(
            (data[at:space].decode("ascii").zfill(6), data[space + 1 : nul], data[nul + 1 : nul + 1 + width].hex())
        )
        at = nul + 1 + width
    return entries


def loose_of(objects: Path, oids: Iterable[str]) -> list[str]:
    """Those of the objects that have a file of their own."""
    return [oid for oid in oids if (objects / oid[:2] / oid[2:]).exists()]


def flush_loose(objects: Path, oids: Iterable[str]) -> int:
    """fsync the loose files of objects that git wrote without it (its default); returns how many there were."""
    count, parents = 0, set()
    for oid in oids:
        path = objects / oid[:2] / oid[2:]
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # gate-ok: packed, or not there: whoever reads it says so
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        parents.add(path.parent)
        count += 1
    for parent in sorted(parents):
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return count
