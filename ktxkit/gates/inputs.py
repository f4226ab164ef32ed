"""In a partial clone, the artifacts that gates will read of a tree are fetched at once, not one by one.

The files of an index or a tree as git lists them in one answer: compared as bytes, parsed where they are read.

Suppressions in the files that the gates beside the one of artifacts looked at, or found something in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.rules.text import printable
from ktxkit.gates.rules.model import CONFIGURATION, artifact_path
from ktxkit.git.objects import Objects, promised
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.gates.rules import suppressions
    from ktxkit.gates.rules.findings import Finding
    from ktxkit.git.git import Git


def fetch_listed(world: World, listings: Iterable[FileListing], root: bytes) -> None:
    """The same of indexes and trees that git listed. What an index has and HEAD's tree has not was added here."""
    if promised(world.git, world.repository.objects, world.env) is None:
        return
    found = list(listings)
    head = world.git.resolve("HEAD", "tree")
    trees = [tree for tree in (*(one.tree for one in found), head) if tree]
    fetch_artifacts(world, trees, (entry for one in found for entry in one.entries), root)


def fetch_artifacts(world: World, trees: Sequence[str], entries: Iterable[tuple[str, bytes, str]], root: bytes) -> None:
    """Fetch those of the entries (mode, path, blob id) that gates read and the clone lacks; nothing where it is whole.

    `trees` hold the entries. Raises CannotRun where the remote does not give them.
    """
    promise = promised(world.git, world.repository.objects, world.env)
    if promise is None:
        return
    if not trees:
        return
    listed = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--no-walk")  # it asks no remote
    missing = {line[1:] for line in world.git.run(*listed, *trees).lines if line.startswith("?")}
    wanted = [oid for _, path, oid in entries if oid in missing and artifact_path(path, root).kind]
    if wanted:
        promise.fetch(wanted)


Entry = tuple[str, bytes, str]  # mode, path, object id
LINE = "--format=%(objectmode) %(objectname) 0%x09%(path)"  # a tree's files as `ls-files --stage` has them
LISTED = 100  # paths that are named on a command line
TABLE_FROM = 32  # paths that are looked for in the bytes; then a table is made


class FileListing:
    """Each file as `MODE OID STAGE`, a tab and its path, ended by NUL. `tree`: its id, empty for an index."""

    def __init__(self, raw: bytes, tree: str = "") -> None:
        self.raw = raw
        self.tree = tree
        self._differences: dict[FileListing, list[bytes]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileListing) and (self.raw, self.tree) == (other.raw, other.tree)

    def __hash__(self) -> int:
        return hash((self.raw, self.tree))

    @cached_property
    def lines(self) -> list[bytes]:
        """What is there, without what a merge left open."""
        found = self.raw.removesuffix(b"\0").split(b"\0") if self.raw else []
        if any(b" %d\t" % stage in self.raw for stage in (1, 2, 3)):
            return [line for line in found if line[line.index(b"\t") - 1 : line.index(b"\t")] == b"0"]
        return found

    @cached_property
    def unmerged(self) -> list[bytes]:
        """The paths that a merge left open."""
        if not any(b" %d\t" % stage in self.raw for stage in (1, 2, 3)):
            return []
        return sorted(
            {path_of(line) for line in self.raw.removesuffix(b"\0").split(b"\0")} - set(map(path_of, self.lines))
        )

    @cached_property
    def entries(self) -> list[Entry]:
        return [(mode, path, oid) for path, (mode, oid) in map(parsed, self.lines)]

    @cached_property
    def files(self) -> Files:
        return Files(self)

    def without(self, other: FileListing) -> list[bytes]:
        """The lines that the other one does not have."""
        if other not in self._differences:
            same = self.raw == other.raw
            self._differences[other] = [] if same else list(set(self.lines).difference(other.lines))
        return self._differences[other]


def path_of(line: bytes) -> bytes:
    return line[line.index(b"\t") + 1 :]


def parsed(line: bytes) -> tuple[bytes, tuple[str, str]]:
    """Path, and (mode, object id)."""
    head, _, path = line.partition(b"\t")
    mode, oid, _ = head.decode("ascii").split(" ")
    return path, (mode, oid)


class Files(Mapping[bytes, tuple[str, str]]):
    """Path to (mode, object id). The first few that are asked for are looked for in the bytes."""

    def __init__(self, listed: FileListing) -> None:
        self.listed = listed
        self._asked = 0

    @cached_property
    def _table(self) -> dict[bytes, bytes]:
        return {line[line.index(b"\t") + 1 :]: line for line in self.listed.lines}

    def _found(self, path: bytes) -> tuple[str, str] | None:
        self._asked += 1
        if self._asked > TABLE_FROM:
            line = self._table.get(path)
            return parsed(line)[1] if line is not None else None
        raw, wanted = self.listed.raw, b"\t%b\0" % path
        at = raw.find(wanted)
        while at >= 0:
            start = raw.rfind(b"\0", 0, at) + 1
            if raw.index(b"\t", start) == at and raw[at - 2 : at] == b" 0":  # no end of a path that holds a tab
                return parsed(raw[start : at + len(wanted) - 1])[1]
            at = raw.find(wanted, at + 1)
        return None

    def has_folder(self, folder: bytes) -> bool:
        """Whether a file lies below a directory, which ends in `/`."""
        return any(path_of(line).startswith(folder) for line in self.listed.lines if folder in line)

    def __getitem__(self, path: bytes) -> tuple[str, str]:
        found = self._found(path)
        if found is None:
            raise KeyError(path)
        return found

    def __contains__(self, path: object) -> bool:
        return isinstance(path, bytes) and self._found(path) is not None

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self.listed.lines)


def index(world: World) -> FileListing:
    """The index that git's environment names, without what a commit leaves out; in a bare repository HEAD's tree.

    Raises CannotRun without one.
    """
    top = world.repository.top
    if top is None:
        return tree(world, resolved(world, "HEAD"))
    git = world.inherited.at(top)
    return FileListing(_without_intended(git, git.run("ls-files", "-s", "-z", "--full-name").out))


def not_added(world: World, listed: FileListing) -> list[str]:
    """What to say of a configuration of the gates that lies in the checkout and git does not have: it is not read."""
    top = world.repository.top
    if top is None or CONFIGURATION.encode() in listed.files or not (top / CONFIGURATION).is_file():
        return []
    said = f"{CONFIGURATION} is here, but git does not have it, so that it is not read"
    return [f"{said}\n  hint: git add {CONFIGURATION}, or name it with --config"]


def committable(listed: FileListing) -> FileListing:
    """The same files. Raises CannotRun if a merge left some open: what they will be cannot be judged."""
    open_paths = listed.unmerged
    if open_paths:
        from ktxkit.base.errors import CannotRun

        shown = ", ".join(printable(path) for path in open_paths[:5])
        more = f" and {len(open_paths) - 5} more" if len(open_paths) > 5 else ""
        hint = "settle them and git add them, or give --tree REV to look at a commit"
        raise CannotRun(f"the index has unmerged paths: {shown}{more}", hint=hint)
    return listed


# Empty blob and empty tree, which git knows in every repository, by the length of its ids.
_EMPTY = {
    40: (b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
    64: (
        b"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    ),
}


def _without_intended(git: Git, raw: bytes) -> bytes:
    """Without what `git add -N` only marked: it is listed as an empty file, and a commit leaves it out."""
    length = raw.find(b" ", 7) - 7
    blob, tree_id = _EMPTY.get(length, (b"", ""))
    if not blob or b" %b 0\t" % blob not in raw:
        return raw
    lines = raw.removesuffix(b"\0").split(b"\0")
    empty = [path_of(line) for line in lines if line[7 : 7 + length] == blob]
    flags = ("--cached", "--ita-invisible-in-index", "--name-only", "--no-renames", "-z")
    named = empty if len(empty) <= LISTED else ()
    staged = set(git.run("--literal-pathspecs", "diff-index", *flags, tree_id, "--", *named).nul)
    gone = set(empty) - staged
    return b"".join(line + b"\0" for line in lines if path_of(line) not in gone) if gone else raw


def tree(world: World, oid: str) -> FileListing:
    """The files of a tree. git 2.39 quotes odd paths in such a line even with -z; then they are asked for plainly."""
    git = world.git.configured(core_quotePath="false")
    raw = git.run("ls-tree", "-r", "-z", "--full-tree", LINE, oid).out
    if b'\t"' in raw:
        raw = b"".join(map(_staged, git.run("ls-tree", "-r", "-z", "--full-tree", oid).nul))
    return FileListing(raw, oid)


def _staged(line: bytes) -> bytes:
    """`MODE TYPE OID` and a path as an index has it."""
    head, _, path = line.partition(b"\t")
    mode, _, oid = head.split(b" ")
    return b"%b %b 0\t%b\0" % (mode, oid, path)


def resolved(world: World, revision: str) -> str:
    """The id of a commit's tree. Raises CannotRun where there is none of that name."""
    found = world.git.resolve(revision, "tree")
    if found is None:
        from ktxkit.base.errors import CannotRun
        from ktxkit.git.repository import missing_revision

        raise CannotRun(f"no commit or tree named {revision!r}", hint=missing_revision(world.git, revision))
    return found


def merge_heads(world: World) -> list[str]:
    """The other sides of a merge that is about to be committed: what one of them has too is not this merge's doing.

    git names them in MERGE_HEAD once it stopped, and before that, in pre-merge-commit, only in GITHEAD_<id>.
    """
    named = [name.removeprefix("GITHEAD_") for name in world.env if name.startswith("GITHEAD_")]
    if "GIT_DIR" in world.env:  # git names it to its hooks
        place = Path(world.inherited.text("rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD"))
    else:
        place = world.repository.git_dir / "MERGE_HEAD"
    written = files.read(place).decode("ascii").split() if place.is_file() else []
    return sorted({head for head in (*named, *written) if world.git.resolve(head) is not None})


class Comments:
    """The comments of one tree, gathered while its files are read; which of them cover something, and how much."""

    def __init__(self, files: Mapping[bytes, tuple[str, str]], objects: Objects) -> None:
        self._files = files
        self._objects = objects
        self._ignores: dict[bytes, list[suppressions.Ignore]] = {}
        self._used: set[tuple[bytes, int]] = set()
        self.count = 0

    def read(self, path: bytes) -> bytes:
        """A file's bytes; its comments are kept."""
        return self._noted(path, self._objects.read(self._files[path][1]))

    def each(self, paths: Sequence[bytes]) -> Iterator[bytes]:
        """The bytes of files, in order; their comments are kept."""
        contents = self._objects.each([self._files[path][1] for path in paths])
        return map(self._noted, paths, contents)

    def _noted(self, path: bytes, data: bytes) -> bytes:
        if path not in self._ignores:
            from ktxkit.gates.rules import suppressions

            marked = suppressions.MARK in data
            self._ignores[path] = suppressions.in_text(data.decode("utf-8", "replace")) if marked else []
        return data

    def split(self, reported: Iterable[Finding]) -> suppressions.Suppressed:
        """Findings without those that a comment covers, and these."""
        from ktxkit.gates.plugin import PLAIN
        from ktxkit.gates.rules import suppressions

        findings = list(reported)
        for path in {one.path for one in findings if one.line} - self._ignores.keys():
            if path in self._files and self._files[path][0] in PLAIN:
                self.read(path)
        done = suppressions.apply(findings, self._ignores)
        self._used |= done.used
        self.count += done.hidden
        return done

    def refused(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Findings that a comment covers, and must not: they are not counted as suppressed."""
        self.count -= sum(len(one.places) for one in findings)
        return findings

    def idle(self, artifacts: Collection[bytes]) -> list[Finding]:
        """Comments that cover nothing, but for files whose comments the gate of artifacts answers for."""
        if not self._ignores:
            return []
        from ktxkit.gates.rules import suppressions

        others = {path: listed for path, listed in self._ignores.items() if path not in artifacts}
        return suppressions.idle(others, self._used, foreign=True)

    def agreed(self, findings: Iterable[Finding]) -> list[Finding]:
        """The artifacts' findings without those on a comment that covers another gate's finding."""
        covering = {(path, *self._ignores[path][number][:2]) for path, number in self._used}
        about = ("suppression-unused", "suppression-unknown")
        return [one for one in findings if one.rule not in about or (one.path, one.reference, one.line) not in covering]
