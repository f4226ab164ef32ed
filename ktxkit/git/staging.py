"""Paths of a worktree into an index that the runner names, as they stand there; the user's filters apply."""

from __future__ import annotations

import os
from collections.abc import Iterable

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
    parent = path.rpartition(b"/")[0]
    if not parent:
        return False
    if parent not in known:
        known[parent] = os.path.islink(top + b"/" + parent) or beyond_a_link(top, parent, known)  # noqa: PTH114
    return known[parent]


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
