"""A repository of a unit's own, for as long as its command runs: it borrows the shared objects and writes none of them.

It lies in the administrative directory of the unit's worktree and goes with that. `.git` in the worktree names it
meanwhile: what the unit commits, branches, stashes and configures is there, and in nobody's way. What it made is taken
over when its command has ended, each object by the name that its content has. No git of ours runs in the worktree
before: the unit could have configured one. Sources: gitrepository-layout(5), gitformat-pack(5).
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract, Refused, of_machinery
from ktxkit.base.identity import PRIVATE
from ktxkit.base.reading import OPEN_DIRECTORY
from ktxkit.base.removal import delete
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git.child import MARKS, head_of_directory
from ktxkit.git.git import Git, GitFailed, GitResult
from ktxkit.git.shared_files import SIZE_LIMIT, refs_below

if TYPE_CHECKING:
    from ktxkit.git.repository import Repository

VISIBLE_REFS = (
    "refs/heads",
    "refs/tags",
    "refs/remotes",
    "refs/notes",
    "refs/replace",
)  # what a unit knows of the repository
SHARED = ("info/exclude", "info/attributes", "info/grafts", "shallow")
OWN = ("HEAD", "index", "config.worktree", "info/sparse-checkout")
KEPT = ("modules",)  # submodules' checkouts name it
INDEX_LIMIT = 1 << 30  # bytes
CHUNK = 1 << 16  # bytes
HEADER = re.compile(rb"(blob|tree|commit|tag) ([0-9]{1,20})\0")
TYPES = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}  # in a pack
FEW = 20  # loose objects that are copied one by one; one pack of many costs less than as many files


class PrivateRepository(NamedTuple):
    """That of one worktree: `admin` is its administrative directory, `git` runs in the shared repository."""

    git: Git
    repository: Repository
    top: Path
    admin: Path

    @property
    def directory(self) -> Path:
        return self.admin / PRIVATE

    def make(self, *also: str) -> None:
        """Make it, and let `.git` in the worktree name it. `also`: prefixes of refs that the unit may see."""
        delete(self.directory)
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "logs", "info", "lfs"):
            files.make_dirs(self.directory / name)
        common = self.repository.common_dir
        for source, names in ((common, SHARED), (self.admin, (*OWN, *_shared_indexes(self.admin)))):
            for name in names:
                _copy(source / name, self.directory / name)
        config = files.read(common / "config") + b"\n[core]\n\tbare = false\n"
        if (common / "reftable").is_dir():
            config += b"[extensions]\n\trefStorage = files\n"
        files.write_new(self.directory / "config", config)
        files.write_new(self.directory / "objects/info/alternates", os.fsencode(self.repository.objects) + b"\n")
        files.write_new(
            self.directory / "packed-refs", b"# pack-refs with: sorted \n" + self._visible((*VISIBLE_REFS, *also))
        )
        self._point(self.directory)

    def _visible(self, prefixes: Sequence[str]) -> bytes:
        """The refs that the unit may see, as lines of packed-refs; git is asked where they are in no files."""
        packed = self.repository.common_dir / "packed-refs"
        large = packed.exists() and packed.stat().st_size > SIZE_LIMIT
        if large or (self.repository.common_dir / "reftable").is_dir():
            return self.git.run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes).out
        found = refs_below(self.repository.common_dir, prefixes)
        return b"".join(b"%s %s\n" % (oid.encode("ascii"), os.fsencode(name)) for name, oid in found.items())

    def _point(self, where: Path) -> None:
        """Let `.git` in the worktree name a git directory, whatever stands there now."""
        own = self.top / ".git"
        if own.is_dir() and not own.is_symlink():
            raise BrokenContract(
                "a directory stands where the worktree's .git was", location=str(own), hint="look at it"
            )
        aside = self.admin / f"ktx-link-{os.urandom(6).hex()}"
        files.write_new(aside, b"gitdir: " + os.fsencode(where) + b"\n")
        os.rename(aside, own)  # noqa: PTH104

    def take_over(self) -> dict[str, str]:
        """Take what the unit made into the shared repository; its refs that are elsewhere than HEAD, by name.

        Raises Refused, BrokenContract where what it left is no repository; what it left stays there then.
        """
        if not os.path.lexists(self.directory):
            return {}
        if os.path.lexists(self.top / ".git"):  # a unit that took it away is told so
            self._point(self.admin)
        self._take_objects()
        head = self._head()
        refs = {name: oid for name, oid in _loose_refs(self.directory) if oid != head}
        files.write_atomic(self.admin / "HEAD", head.encode("ascii") + b"\n", mode=0o644, durable=False)
        for name in ("index", *_shared_indexes(self.directory)):
            files.remove(self.admin / name)
            _copy(self.directory / name, self.admin / name)
        for name in MARKS:
            if os.path.lexists(self.directory / name) and not os.path.lexists(self.admin / name):
                files.write_new(self.admin / name, b"")
        kept = [name for name in KEPT if os.path.lexists(self.directory / name)]
        if not kept:
            delete(self.directory)
        return refs

    def _head(self) -> str:
        fd = os.open(self.directory, OPEN_DIRECTORY)
        try:
            head = head_of_directory(fd)
        finally:
            os.close(fd)
        if head is None:
            raise Refused("HEAD has no commit", location=str(self.top), hint="look at what the unit did")
        return head

    def _take_objects(self) -> None:
        """Loose objects under the names that they have by their content; packs are named anew by git.

        Raises BrokenContract for an object that is not what its name says: it could stand for another one later.
        """
        shared = self.repository.objects
        loose = list(_loose_objects(self.directory / "objects"))
        wanted = [(path, name) for path, name in loose if not os.path.lexists(shared / name[:2] / name[2:])]
        if len(wanted) > FEW:
            self._take_together(wanted)
        else:
            for path, name in wanted:
                _take(path, shared / name[:2] / name[2:], name)
        for pack in _entries(self.directory / "objects/pack", ".pack"):
            self._take_pack(pack)
        lfs = self.directory / "lfs/objects"
        for folder, names in files.walk(os.fspath(lfs)):
            for name in names:
                _take_large(Path(folder) / name, self.repository.common_dir / "lfs/objects", name)

    def _take_together(self, loose: Sequence[tuple[Path, str]]) -> None:
        """Take many loose objects as one pack. Source: gitformat-pack(5)."""
        pack = self.admin / f"ktx-taken-{os.urandom(6).hex()}.pack"
        import hashlib

        whole = hashlib.sha1() if len(loose[0][1]) == 40 else hashlib.sha256()
        try:
            with files.written_aside(pack, durable=False) as fd, open(fd, "wb", CHUNK, closefd=False) as stream:
                for data in _packed(loose):
                    whole.update(data)
                    stream.write(data)
                stream.write(whole.digest())
            self._take_pack(pack)
        finally:
            files.remove(pack)

    def _take_pack(self, pack: Path) -> None:
        words = ("index-pack", "--stdin", "--fix-thin")
        fd = _regular(pack)
        try:
            for _ in range(2):  # a pack is named by its content: twice is once
                os.lseek(fd, 0, os.SEEK_SET)
                child = self.git.start(*words, stdin=fd)
                out, err = child.communicate()
                if child.returncode == 0:
                    return
        finally:
            os.close(fd)
        told = GitResult(("git", *words), self.directory, child.returncode, out, err)
        raise GitFailed(told) if told.no_answer else _forged(pack)


def _forged(path: Path) -> BrokenContract:
    hint = "nothing of it was taken; look at what the unit did, its worktree is kept"
    return BrokenContract("an object that the unit made is not what its name says", location=str(path), hint=hint)


def _regular(path: Path) -> int:
    """A descriptor of a regular file. Raises BrokenContract for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if of_machinery(error):
            raise
        raise _forged(path) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _forged(path)
    return fd


def _copy(source: Path, goal: Path) -> None:
    """Copy a regular file with its times, where it is one: an index tells by them what it must look at again."""
    try:
        info = os.stat(source, follow_symlinks=False)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return  # gate-ok: git has none either
    if not stat.S_ISREG(info.st_mode):
        raise BrokenContract("it is not a regular file", location=str(source), hint="look at what the unit did")
    files.make_dirs(goal.parent)
    files.write_atomic(goal, files.read(source, INDEX_LIMIT), mode=0o644, durable=False)
    os.utime(goal, ns=(info.st_atime_ns, info.st_mtime_ns))


def _entries(folder: Path, end: str = "") -> list[Path]:
    """What is in a real directory, sorted; nothing where there is none."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(end)]  # noqa: PTH208


def _shared_indexes(folder: Path) -> list[str]:
    return [path.name for path in _entries(folder) if path.name.startswith("sharedindex.")]


def _loose_objects(objects: Path) -> Iterator[tuple[Path, str]]:
    for folder in _entries(objects):
        if re.fullmatch(r"[0-9a-f]{2}", folder.name):
            for path in _entries(folder):
                if re.fullmatch(r"[0-9a-f]{38}|[0-9a-f]{62}", path.name):
                    yield path, folder.name + path.name


def _loose_refs(place: Path) -> Iterator[tuple[str, str]]:
    """Refs that were made or moved there, with their ids; the stash is one."""
    pending = [place / "refs"]
    while pending:
        for path in _entries(pending.pop()):
            if path.is_dir() and not path.is_symlink():
                pending.append(path)
                continue
            try:
                said = files.read(path, CHUNK).strip()
            except (BrokenContract, OSError) as error:
                if of_machinery(error):
                    raise
                continue  # no ref of git's
            if re.fullmatch(rb"[0-9a-f]{40}|[0-9a-f]{64}", said):
                yield str(path.relative_to(place)), said.decode("ascii")


def _packed(loose: Sequence[tuple[Path, str]]) -> Iterator[bytes]:
    """The bytes of a pack of loose objects, but for its checksum."""
    yield b"PACK" + struct.pack(">II", 2, len(loose))
    for path, name in loose:
        contents = _contents(path, name)
        kind, _, length = next(contents).partition(b" ")
        size, first = int(length) >> 4, TYPES[kind] << 4 | int(length) & 15
        head = bytearray()
        while size:
            head.append(first | 128)
            size, first = size >> 7, size & 127
        head.append(first)
        yield bytes(head)
        packer = zlib.compressobj(1)
        for data in contents:
            yield packer.compress(data)
        yield packer.flush()


def _contents(source: Path, name: str) -> Iterator[bytes]:
    """What a loose object is (`blob 12`), then its content, piece by piece. Raises BrokenContract at the end of one
    that is not the object of its name."""
    import hashlib

    proof = hashlib.sha1() if len(name) == 40 else hashlib.sha256()
    unpacked, head, said, size = zlib.decompressobj(), b"", None, 0
    with open(_regular(source), "rb") as reader:
        try:
            while block := reader.read(CHUNK):
                while block:
                    data = unpacked.decompress(block, CHUNK)
                    proof.update(data)
                    ended, block = unpacked.unused_data or not data, unpacked.unconsumed_tail
                    if said is None:
                        head += data
                        said = HEADER.match(head)
                        if said is None:
                            raise _forged(source)
                        yield head[: said.end() - 1]
                        data = head[said.end() :]
                    size += len(data)
                    yield data
                    if ended and not block:
                        break
        except zlib.error as error:
            raise _forged(source) from error
    whole = unpacked.eof and not unpacked.unused_data and said is not None
    if not whole or said is None or proof.hexdigest() != name or size != int(said[2]):
        raise _forged(source)


def _take(source: Path, goal: Path, name: str) -> None:
    """Copy a loose object, proved on the way. Raises BrokenContract where it is not the one of its name."""
    import hashlib

    proof = hashlib.sha1() if len(name) == 40 else hashlib.sha256()
    unpacked, head, size = zlib.decompressobj(), b"", 0
    fd = _regular(source)
    with open(fd, "rb") as reader, files.written_aside(goal, mode=0o444, durable=False) as aside:
        try:
            while block := reader.read(CHUNK):
                files.write_all(aside, block)
                while block:
                    data = unpacked.decompress(block, CHUNK)
                    proof.update(data)
                    size += len(data)
                    head = head if len(head) >= 32 else (head + data)[:32]
                    block = unpacked.unconsumed_tail
                    if unpacked.unused_data or (not data and not block):
                        break
        except zlib.error as error:
            raise _forged(source) from error
        said = HEADER.match(head)
        whole = unpacked.eof and not unpacked.unused_data and said is not None
        if not whole or said is None or proof.hexdigest() != name or size != said.end() + int(said[2]):
            raise _forged(source)


def _take_large(source: Path, store: Path, name: str) -> None:
    """Copy a file of git-lfs, whose name is the digest of its content; anything else there is left."""
    goal = store / name[:2] / name[2:4] / name
    if not re.fullmatch(r"[0-9a-f]{64}", name) or os.path.lexists(goal):
        return
    import hashlib

    proof = hashlib.sha256()
    with open(_regular(source), "rb") as reader, files.written_aside(goal, mode=0o644, durable=False) as aside:
        while block := reader.read(CHUNK):
            proof.update(block)
            files.write_all(aside, block)
        if proof.hexdigest() != name:
            raise _forged(source)
