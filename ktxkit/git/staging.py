"""Paths of a worktree into an index that the runner names, as they stand there; the user's filters apply.

Many new objects, made durable at once: written aside, then taken into the store as one pack.

A flush for each of thousands of loose objects is most of the time that a large change takes; a pack is flushed once.
Few stay loose files, as git writes them. Nothing is repacked, and nothing of the store is removed.

Changed means changed: a file whose bytes are what a checkout writes is untouched, whatever the clean filter says.

git asks the other way round: it cleans the file and compares with the blob. With a blob of CRLF under `text eol=crlf`,
or a filter that is not idempotent, a file is then modified in a checkout where nobody was, and only now and then: where
the times in the index are old enough git does not look. Sources: gitattributes(5), "eol"; racy-git in git's technical
documentation.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.identity import git_dir_of
from ktxkit.base.removal import delete_own
from ktxkit.git.git import Git
from ktxkit.git.rules.checkout import SUBMODULE_NONE, Status
from ktxkit.git.rules.patch import Entry, index_info


def stage(git: Git, paths: Iterable[bytes]) -> None:
    """Put those paths into the index as the worktree has them: added, replaced or removed. Raises GitFailed.

    What was below a directory that is a link now is removed by name: update-index looks through no link, and stops.
    So is a file whose place a repository takes: update-index would only remove it, and the repository is in the tree.
    """
    top = os.fsencode(git.cwd)
    known: dict[bytes, bool] = {}
    beyond: list[bytes] = []
    rest: list[bytes] = []
    for path in sorted(set(paths)):
        (beyond if beyond_a_link(top, path, known) else rest).append(path)
    gone = beyond + [path for path in rest if is_directory(top, path) and _has_commit(git, top + b"/" + path)]
    if gone:
        git.run("update-index", "--force-remove", "-z", "--stdin", stdin=_nul(gone))
    if rest:
        git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_nul(rest))


def beyond_a_link(top: bytes, path: bytes, known: dict[bytes, bool]) -> bool:
    """Whether a directory on the way to the path is a link: what is there is not the path's. `known` is a memory."""
    above = []
    parent = path.rpartition(b"/")[0]
    while parent and parent not in known:
        above.append(parent)
        parent = parent.rpartition(b"/")[0]
    answer = known[parent] if parent else False
    for place in reversed(above):  # from the top down, however deep it is
        answer = answer or os.path.islink(top + b"/" + place)  # noqa: PTH114
        known[place] = answer
    return answer


def is_directory(top: bytes, path: bytes) -> bool:
    """Whether a directory stands at that path, no link to one."""
    place = top + b"/" + path
    return os.path.isdir(place) and not os.path.islink(place)  # noqa: PTH112, PTH114


def is_plain_directory(top: bytes, path: bytes) -> bool:
    """A directory that no index has an entry for: only for what is in it."""
    return is_directory(top, path) and not os.path.lexists(top + b"/" + path + b"/.git")


def _has_commit(git: Git, place: bytes) -> bool:
    """Whether a repository with a commit stands in that very directory, not around it."""
    own = place + b"/.git"
    asked = ("rev-parse", "--verify", "--quiet", "HEAD")
    return os.path.lexists(own) and git.run(b"--git-dir=" + own, *asked, ok=None).status == 0


def _nul(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


MANY = 100  # changed paths from which on it pays

# Of objects that are written aside: what is durable is the pack, and nobody else writes there.
QUICK = {"core_fsync": "none", "core_createObject": "rename", "core_looseCompression": "1"}


@contextmanager
def aside(directory: Path, store: Path, *others: Path) -> Iterator[dict[str, str]]:
    """An environment whose new objects go to `directory`, a directory of ours that is made, and goes with the block.

    What is in the store and in the others is found all the same.
    """
    files.make_dirs(directory)
    try:
        yield stores(directory, store, *others)
    finally:
        delete_own(directory)


def admit(git: Git, directory: Path, store: Path) -> None:
    """Take every object of `directory` into the store, in one pack that is on the disk when this returns.

    `git` is a neutral one. Raises GitFailed, OSError.
    """
    asked = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
    pack(git, store, git.run(*asked, env=stores(directory)).lines, directory)


def pack(git: Git, store: Path, oids: Sequence[str], *others: Path) -> None:
    """Put objects, which are found in the store and in the others, into one pack of it, flushed to the disk."""
    if not oids:
        return
    listed = "".join(f"{oid}\n" for oid in oids).encode("ascii")
    durable = git.configured(core_fsync="pack,pack-metadata")
    words = ("pack-objects", "-q", "--window=0", "--compression=1", store / "pack/pack")
    files.make_dirs(store / "pack")
    durable.run(*words, stdin=listed, env=stores(store, *others))
    files.sync_dir(store / "pack")


def stores(first: Path, *others: Path) -> dict[str, str]:
    """Where new objects go, and where others are found."""
    alternates = ":".join(quoted(str(one)) for one in others)
    return {"GIT_OBJECT_DIRECTORY": str(first), "GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates}


def quoted(path: str) -> str:
    """A path in GIT_ALTERNATE_OBJECT_DIRECTORIES, where `:` separates (git(1)): quoted as a C string if it must be."""
    if ":" not in path and not path.startswith('"') and "\n" not in path:
        return path
    inner = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inner}"'


PLAIN_FILES = ("100644", "100755")
BLOCK = 1 << 20


def settled(git: Git, status: Status) -> Status:
    """The status of the checkout that `git` runs at the top of, without files that are as a checkout writes them."""
    found = as_checked_out(
        git,
        [
            item.path
            for item in status.changed
            if item.xy == ".M" and item.sub == SUBMODULE_NONE and item.head[:6] in PLAIN_FILES
        ],
    )
    if not found:
        return status
    return status._replace(changed=tuple(item for item in status.changed if item.path not in found))


def as_checked_out(git: Git, paths: Sequence[bytes]) -> frozenset[bytes]:
    """Those tracked paths whose files, bytes and executable bit, are what a checkout of the index writes now."""
    top = os.fsencode(git.cwd)
    known: dict[bytes, bool] = {}
    there = [path for path in paths if not beyond_a_link(top, path, known) and _is_plain(top + b"/" + path)]
    if not there or not _may_convert(git, there):
        return frozenset()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ktx-written-") as aside:
        block = b"".join(path + b"\0" for path in there)
        # a required filter that fails is no answer to any path; the others are written all the same
        git.run("checkout-index", "-f", "-q", "-z", "--stdin", f"--prefix={aside}/", stdin=block, ok=None)
        written = os.fsencode(aside)
        return frozenset(path for path in there if _are_equal(written + b"/" + path, top + b"/" + path))


def touched(git: Git, scratch: Path, entries: Sequence[Entry], tree: str) -> tuple[str, list[Entry]]:
    """The tree, which the entries lead to, without files that nobody touched; and the entries of those.

    They stand in the worktree as a checkout of the old side writes them, and were staged or committed as git reads
    them. There are none where the change touches attributes: it says then how files are to be read.
    """
    same = _untouched(git, scratch / "index-of-base", entries)
    if not same:
        return tree, []
    private = git.having(GIT_INDEX_FILE=str(scratch / "index-touched"))
    private.run("read-tree", tree)
    private.run("update-index", "-z", "--index-info", stdin=index_info(same))
    return private.text("write-tree"), same


def _untouched(git: Git, index: Path, entries: Sequence[Entry]) -> list[Entry]:
    if any(entry.path.rpartition(b"/")[2] == b".gitattributes" for entry in entries):
        return []
    wanted = [e for e in entries if e.old.mode == e.new.mode and e.old.mode in PLAIN_FILES]
    if not wanted or not _may_convert(git, [entry.path for entry in wanted]):
        return []
    private = git.having(GIT_INDEX_FILE=str(index))
    private.run("update-index", "-z", "--index-info", stdin=index_info(wanted))
    found = as_checked_out(private, [entry.path for entry in wanted])
    return [entry for entry in wanted if entry.path in found]


def _may_convert(git: Git, paths: Iterable[bytes]) -> bool:
    """Whether attributes, or the user's settings, may make of a blob another file."""
    if git.config.get("core.autocrlf") != "false" or git.config.get("core.attributesFile") != os.devnull:
        return True
    admin = git_dir_of(git.cwd)
    if admin is None or os.path.lexists(_common(admin) / "info/attributes"):
        return True
    top = os.fsencode(git.cwd)
    folders = {path.rpartition(b"/")[0] for path in paths}
    above = {b"/".join(parts[:depth]) for parts in (f.split(b"/") for f in folders) for depth in range(len(parts) + 1)}
    return any(os.path.lexists(top + b"/" + folder + b"/.gitattributes") for folder in above)


def _common(admin: Path) -> Path:
    """The common directory of a git directory. Source: gitrepository-layout(5), "commondir"."""
    named = admin / "commondir"
    return admin / os.fsdecode(named.read_bytes().rstrip(b"\n")) if named.is_file() else admin


def _is_plain(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _are_equal(written: bytes, there: bytes) -> bool:
    if not (_is_plain(written) and _is_plain(there)):
        return False
    one, other = os.lstat(written), os.lstat(there)
    if one.st_size != other.st_size or (one.st_mode ^ other.st_mode) & stat.S_IXUSR:
        return False
    with open(written, "rb") as left, open(there, "rb") as right:
        while block := left.read(BLOCK):
            if block != right.read(BLOCK):
                return False
    return True
