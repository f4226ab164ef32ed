"""Many new objects, made durable at once: written aside, then taken into the store as one pack.

A flush for each of thousands of loose objects is most of the time that a large change takes; a pack is flushed once.
Few stay loose files, as git writes them. Nothing is repacked, and nothing of the store is removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.git.git import Git

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
        shutil.rmtree(place, ignore_errors=True)


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
