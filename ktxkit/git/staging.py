"""Paths of a worktree into an index that the runner names, as they stand there; the user's filters apply.

Many new objects, made durable at once: written aside, then taken into the store as one pack.

A flush for each of thousands of loose objects is most of the time that a large change takes; a pack is flushed once.
Few stay loose files, as git writes them. Nothing is repacked, and nothing of the store is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.removal import delete_own
from ktxkit.git.git import Git


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
def aside(place: Path, store: Path, *others: Path) -> Iterator[dict[str, str]]:
    """An environment whose new objects go to `place`, a directory of ours that is made, and goes with the block.

    What is in the store and in the others is found all the same.
    """
    files.make_dirs(place)
    try:
        yield stores(place, store, *others)
    finally:
        delete_own(place)


def admit(git: Git, place: Path, store: Path) -> None:
    """Take every object of `place` into the store, in one pack that is on the disk when this returns.

    `git` is a neutral one. Raises GitFailed, OSError.
    """
    asked = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
    pack(git, store, git.run(*asked, env=stores(place)).lines, place)


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
