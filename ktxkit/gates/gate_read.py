"""The files of an index or a tree as git lists them in one answer: compared as bytes, parsed where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ktxkit.store.world import World

Entry = tuple[str, bytes, str]  # mode, path, object id
LINE = "--format=%(objectmode) %(objectname) 0%x09%(path)"  # a tree's files as `ls-files --stage` has them
ASKED = 32  # paths that are looked for in the bytes; then a table is made


@dataclass(frozen=True)
class Listed:
    """Each file as `MODE OID STAGE`, a tab and its path, ended by NUL. `tree`: its id, empty for an index."""

    raw: bytes
    tree: str = ""

    @cached_property
    def lines(self) -> list[bytes]:
        """What is there, without what a merge left open."""
        found = self.raw.removesuffix(b"\0").split(b"\0") if self.raw else []
        if any(b" %d\t" % stage in self.raw for stage in (1, 2, 3)):
            return [line for line in found if line[line.index(b"\t") - 1 : line.index(b"\t")] == b"0"]
        return found

    @cached_property
    def entries(self) -> list[Entry]:
        return [(mode, path, oid) for path, (mode, oid) in map(parsed, self.lines)]

    @cached_property
    def files(self) -> Files:
        return Files(self)

    def without(self, other: Listed) -> list[bytes]:
        """The lines that the other one does not have."""
        return _without(self, other)


@lru_cache(maxsize=8)
def _without(one: Listed, other: Listed) -> list[bytes]:
    return [] if one.raw == other.raw else list(set(one.lines).difference(other.lines))


def path_of(line: bytes) -> bytes:
    return line[line.index(b"\t") + 1 :]


def parsed(line: bytes) -> tuple[bytes, tuple[str, str]]:
    """Path, and (mode, object id)."""
    head, _, path = line.partition(b"\t")
    mode, oid, _ = head.decode("ascii").split(" ")
    return path, (mode, oid)


class Files(Mapping[bytes, tuple[str, str]]):
    """Path to (mode, object id). The first few that are asked for are looked for in the bytes."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        self._asked = 0

    @cached_property
    def _table(self) -> dict[bytes, bytes]:
        return {line[line.index(b"\t") + 1 :]: line for line in self.listed.lines}

    def _found(self, path: bytes) -> tuple[str, str] | None:
        self._asked += 1
        if self._asked > ASKED:
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


def index(world: World) -> Listed:
    """The index that git's environment names; in a bare repository HEAD's tree. Raises CannotRun without one."""
    top = world.repository.top
    if top is None:
        return tree(world, resolved(world, "HEAD"))
    return Listed(world.inherited.at(top).run("ls-files", "-s", "-z", "--full-name").out)


def tree(world: World, oid: str) -> Listed:
    """The files of a tree. git 2.39 quotes odd paths in such a line even with -z; then they are asked for plainly."""
    git = world.git.configured(core_quotePath="false")
    raw = git.run("ls-tree", "-r", "-z", "--full-tree", LINE, oid).out
    if b'\t"' in raw:
        raw = b"".join(map(_staged, git.run("ls-tree", "-r", "-z", "--full-tree", oid).nul))
    return Listed(raw, oid)


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

        raise CannotRun(f"no commit or tree named {revision!r}", hint="`git rev-parse REV^{tree}` must answer")
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
    written = place.read_text("ascii").split() if place.is_file() else []
    return sorted({head for head in (*named, *written) if world.git.resolve(head) is not None})
