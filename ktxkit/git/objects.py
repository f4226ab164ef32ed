"""Objects, read through one long-lived `cat-file --batch-command`: 0.03 ms each, in any object format.

A partial clone's missing objects, fetched many at once from the remote that promised them.

The neutral directory has no remote, so nothing is fetched there one by one and unasked. Source of the options:
promisor-remote.c in git, which fetches so itself.

The files of a tree by path, without a listing: what a small change of a large tree asks for is a few of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar

from ktxkit.base import files, process
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.git import repository
from ktxkit.git.git import Argument, Git, exhausted
from ktxkit.git.listing import LISTED_KEPT, Below, TreeEntry, TreeListings, in_runs
from ktxkit.git.rules.patch import Content

ENTRIES_KEPT = 60_000  # of trees that were read, those used last: some 12 MB, however long a run is
AHEAD, SMALL = 64, 1024 * 1024  # objects of one exchange; bytes of one that is read in it
CHUNK = 1024 * 1024  # bytes of a blob held at once where it is only hashed
SAID = 4000  # bytes of its stderr that are kept
T = TypeVar("T")


LISTED = TreeListings(LISTED_KEPT)


class Objects:
    """A reader of objects. Thread-safe; close it, or use it in a `with`. A killed one is replaced, and asked again.

    `entries_kept`: how many entries of trees are remembered, those of the trees used last.
    """

    def __init__(self, git: Git, entries_kept: int = ENTRIES_KEPT) -> None:
        self._git = git
        self._entries_kept = entries_kept
        self._lock = threading.Lock()
        self._start()
        self._ahead: dict[str, bytes] = {}
        self._trees: dict[str, list[tuple[str, bytes, str]]] = {}
        self._held = 0
        self._memory = threading.Lock()

    def _start(self) -> None:
        self._child = self._git.start("cat-file", "--batch-command")
        self._unread = False  # a question was sent whose answer is not read to its end
        self._said = b""
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)

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
        assert "\n" not in name
        self._send(f"{verb} {name}\n")
        found = self._answer()
        self._unread = found is not None and verb == "contents"
        return found

    def _send(self, questions: str) -> None:
        if self._unread:  # by an interrupt: what the pipe still holds would be taken for the answer to the next
            self._restart()
        assert self._child.stdin is not None
        self._unread = True
        try:
            self._child.stdin.write(questions.encode("utf-8", "surrogateescape"))
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def _answer(self) -> tuple[str, str, int] | None:
        line = self._out.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        head = line.decode("utf-8", "replace").rstrip("\n")
        words = head.split(" ")
        if len(words) != 3 or not words[2].isdigit():
            said = self._hear()  # a broken ref is a line of it each time: a pipe that fills up would stop it
            if exhausted(said):  # "missing" is what it says of all that it could not open
                raise self._unread_object(said)
            return None
        return words[0], words[1], int(words[2])

    def _body(self, size: int) -> bytes:
        """The content that follows an answer, and its end of line."""
        data = self._part(size)
        self._part(1)
        return data

    def _part(self, size: int) -> bytes:
        data = self._out.read(size)
        if len(data) != size:
            raise self._ended()
        return data

    def _hear(self) -> bytes:
        """What it said on its stderr since the last time."""
        assert self._child.stderr is not None
        new = self._child.stderr.read() or b""
        self._said = (self._said + new)[-SAID:]
        return new

    def _restart(self) -> None:
        self._child.kill()
        process.end_reader(self._child)
        self._start()

    def _retried(self, question: Callable[[], T]) -> T:
        """The answer; where the reader ended meanwhile (somebody killed it), that of a new one. Raises CannotRun."""
        with self._lock:
            try:
                return question()
            except CannotRun:
                self._restart()
                return question()

    def _ended(self) -> CannotRun:
        """git ended although we still ask: what it said is why (a repository whose configuration it cannot read)."""
        self._child.wait()
        self._hear()
        said = self._said.decode("utf-8", "replace").strip()
        return CannotRun(
            f"git cat-file ended early: {said or 'it said nothing'}",
            location=str(self._git.cwd),
            hint="run it again; git fsck tells whether the repository is whole",
            machinery=True,
        )

    def _unread_object(self, told: bytes) -> CannotRun:
        said = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
        hint = "make room for it, then run it again"
        return CannotRun(f"git cat-file could not read: {said}", location=str(self._git.cwd), hint=hint, machinery=True)

    def find(self, name: str) -> tuple[str, str, int] | None:
        """Id, type and size in bytes of what a name stands for now, or None."""
        return self._retried(lambda: self._ask("info", name))

    def size(self, oid: str) -> int:
        """Bytes of an object. Raises BrokenContract where it is missing."""
        return self._need(oid, self.find(oid))[2]

    def read(self, oid: str) -> bytes:
        """An object's whole content. Raises BrokenContract where it is missing."""
        return self._retried(lambda: self._contents(oid))

    def _contents(self, oid: str) -> bytes:
        if oid in self._ahead:
            return self._ahead.pop(oid)
        _, _, size = self._need(oid, self._ask("contents", oid))
        data = self._body(size)
        self._unread = False
        return data

    def each(self, oids: Sequence[str]) -> Iterator[bytes]:
        """The contents of objects, in order: small ones in exchanges of many, not one by one. Raises as `read` does."""
        for start in range(0, len(oids), AHEAD):
            part = oids[start : start + AHEAD]
            self._fetch(list(dict.fromkeys(part)))
            yield from map(self.read, part)
            self._ahead.clear()

    def _fetch(self, oids: list[str]) -> None:
        """Keep the contents of those that are there and small. What is written fits into a pipe: nobody waits."""
        sizes = dict(zip(oids, self._retried(lambda: self._sizes(oids)), strict=True))
        small = [oid for oid, size in sizes.items() if size is not None and size <= SMALL]
        self._ahead |= self._retried(lambda: self._small(small))

    def _sizes(self, oids: list[str]) -> list[int | None]:
        self._send("".join(f"info {oid}\n" for oid in oids))
        found = [self._answer() for _ in oids]
        self._unread = False
        return [None if one is None else one[2] for one in found]

    def _small(self, oids: list[str]) -> dict[str, bytes]:
        self._send("".join(f"contents {oid}\n" for oid in oids))
        found = {oid: self._body(self._need(oid, self._answer())[2]) for oid in oids}
        self._unread = False
        return found

    def content(self, oid: str) -> Content:
        """Size, digest, and whether a NUL or what is no UTF-8 is in it, a chunk at a time."""
        from codecs import getincrementaldecoder

        from blake3 import blake3

        def hashed() -> Content:
            hasher, binary, foreign = blake3(), False, False
            decoder = getincrementaldecoder("utf-8")()
            _, _, size = self._need(oid, self._ask("contents", oid))
            left = size
            while left:
                chunk = self._part(min(left, CHUNK))
                hasher.update(chunk)
                binary = binary or b"\0" in chunk
                left -= len(chunk)
                try:
                    foreign = foreign or decoder.decode(chunk, left == 0) is None
                except UnicodeDecodeError:
                    foreign = True
            self._body(0)
            self._unread = False
            return Content(size, binary, f"b3:{hasher.hexdigest()}", foreign)

        return self._retried(hashed)

    def _need(self, oid: str, found: tuple[str, str, int] | None) -> tuple[str, str, int]:
        if found is None:
            raise BrokenContract(
                f"object {oid} is not in this repository",
                location=str(self._git.cwd),
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
            while self._held > self._entries_kept and len(self._trees) > 1:
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
        pending = [iter(self._runs(tree, prefix))]  # of each tree that is begun, the innermost last
        while pending:
            run = next(pending[-1], None)
            if run is None:
                pending.pop()
            elif isinstance(run, Below):
                pending.append(iter(self._runs(run.tree, run.prefix)))
            else:
                found += run

    def _runs(self, tree: str, prefix: bytes) -> Sequence[Below | Sequence[TreeEntry]]:
        runs = LISTED.get(tree, prefix)
        if runs is None:
            runs = in_runs(self.level(tree), prefix)
            LISTED.put(tree, prefix, runs)
        return runs

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


class RunReader:
    """The reader of the user's repository that a long run has, started at its first question.

    It answers what a name stands for as a process of its own would: git reads a loose ref anew at each question, and
    packed-refs where its stat changed (refs/files-backend.c, refs/packed-backend.c). Thread-safe.
    """

    def __init__(self, git: Git, places: Collection[Path]) -> None:
        self._git = git.configured(core_warnAmbiguousRefs="false")
        self._places = frozenset(places)
        self._lock = threading.Lock()
        self._objects: Objects | None = None

    def serves(self, cwd: Path) -> bool:
        """Whether a git that runs in `cwd` would see the same refs and objects."""
        return cwd in self._places

    @property
    def objects(self) -> Objects:
        with self._lock:
            if self._objects is None:
                self._objects = Objects(self._git)
            return self._objects

    def find(self, name: str) -> tuple[str, str, int] | None:
        """Id, type and size in bytes of what a name stands for now, or None."""
        return self.objects.find(name)

    def close(self) -> None:
        if self._objects is not None:
            self._objects.close()


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
            fd = files.open_regular(path)
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


PATIENCE = 600.0  # seconds that one fetch may take
FETCH = (
    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
    "--filter=blob:none", "--stdin",
)  # fmt: skip


class Promised(NamedTuple):
    """The remotes of a partial clone. `git` stands in the user's repository and asks nobody anything."""

    git: Git

    def fetch(self, oids: Iterable[str]) -> None:
        """Fetch objects, in one call for each remote until one has them. Raises CannotRun where none does."""
        wanted = sorted(set(oids))
        block = "".join(f"{oid}\n" for oid in wanted).encode("ascii")
        said = "it has no promisor remote any more"
        for name in self._remotes():
            git = self.git.configured(fetch_negotiationAlgorithm="noop")
            answer = git.run(*FETCH, "--end-of-options", name, stdin=block, ok=None, timeout=PATIENCE)
            if answer.status == 0:
                return
            told = answer.err.strip().rpartition(b"\n")[2]
            said = f"{name} did not give them: {printable(told)}"
        raise CannotRun(
            f"{plural(len(wanted), 'object')} of this partial clone cannot be fetched: {said}",
            location=str(self.git.cwd),
            hint="reach the remote (network, credentials) and run it again; nothing was changed",
        )

    def warm(self, *args: Argument, env: Mapping[str, str] | None = None) -> None:
        """Run a read in the user's repository, where git itself fetches what it misses, whatever it answers."""
        self.git.run(*args, ok=None, env=env, timeout=PATIENCE)

    def _remotes(self) -> list[str]:
        """Remotes that promised objects. Source: git-config(1), remote.<name>.promisor and extensions.partialClone."""
        query = ("config", "-z", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        found = []
        for item in self.git.run(*query, ok=(0, 1)).nul:
            key, _, value = os.fsdecode(item).partition("\n")
            if key == "extensions.partialclone":
                found.append(value)
            elif value != "false":
                found.append(key.removeprefix("remote.").removesuffix(".promisor"))
        return list(dict.fromkeys(found))


def promised(git: Git, objects: Path, environ: Mapping[str, str]) -> Promised | None:
    """The promise of a repository, or None where it is no partial clone: it has no pack from a promisor."""
    try:
        partial = any(name.endswith(".promisor") for name in os.listdir(objects / "pack"))  # noqa: PTH208
    except FileNotFoundError:
        partial = False
    if not partial:
        return None
    reach = {key: environ[key] for key in repository.REACH if key in environ}
    return Promised(git.having(**{**repository.QUIET, **reach}))


LOOKED_UP = 2_000  # paths that are looked up one by one; then all are listed
TREE = "040000"


class TreeFiles(Mapping[bytes, tuple[str, str]]):
    """Path to mode and object id, read through `objects` while that is open."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self._objects, self.id = objects, tree
        self._looked_up = 0
        self._differing: tuple[str, list[bytes]] | None = None
        self._listed: dict[bytes, tuple[str, str]] | None = None

    def _all(self) -> dict[bytes, tuple[str, str]]:
        if self._listed is None:
            self._listed = {path: (mode, oid) for mode, path, oid in self._objects.tree(self.id)}
        return self._listed

    def __getitem__(self, path: bytes) -> tuple[str, str]:
        self._looked_up += 1
        if self._listed is not None or self._looked_up > LOOKED_UP:
            return self._all()[path]
        found = self._objects.entry(self.id, path)
        if found is None or found.mode == TREE:
            raise KeyError(path)
        return found.mode, found.oid

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> ItemsView[bytes, tuple[str, str]]:
        return self._all().items()

    def has_folder(self, folder: bytes) -> bool:
        """Whether a directory, which ends in `/`, is there."""
        found = self._objects.entry(self.id, folder.removesuffix(b"/"))
        return found is not None and found.mode == TREE

    def differing(self, before: TreeFiles) -> list[bytes]:
        """The files that differ from those of another tree, sorted; what both have under one id is not looked at."""
        if self._differing is None or self._differing[0] != before.id:
            found: list[bytes] = []
            _differing(self._objects, before.id, self.id, b"", found)
            self._differing = before.id, sorted(found)
        return self._differing[1]


def _differing(objects: Objects, before: str, after: str, prefix: bytes, found: list[bytes]) -> None:
    pending = [(before, after, prefix)]
    while pending:
        old_tree, new_tree, prefix = pending.pop()
        if old_tree == new_tree:
            continue
        sides: dict[bytes, list[tuple[str, str] | None]] = {}
        for side, tree in enumerate((old_tree, new_tree)):
            for mode, name, oid in objects.level(tree) if tree else ():
                sides.setdefault(name, [None, None])[side] = mode, oid
        for name, (old, new) in sides.items():
            if old == new:
                continue
            below = [one[1] if one is not None and one[0] == TREE else "" for one in (old, new)]
            if any(below):
                pending.append((below[0], below[1], prefix + name + b"/"))
            if any(one is not None and one[0] != TREE for one in (old, new)):
                found.append(prefix + name)
