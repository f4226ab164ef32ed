"""Paths of a worktree into an index that the runner names, as they stand there; the user's filters apply."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ktxkit.effects.git import Git


def stage(git: Git, paths: Iterable[bytes]) -> None:
    """Put those paths into the index as the worktree has them: added, replaced or removed. Raises GitFailed.

    What was below a directory that is a link now is removed by name: update-index looks through no link, and stops.
    """
    known: dict[bytes, bool] = {}
    beyond: list[bytes] = []
    rest: list[bytes] = []
    for path in sorted(set(paths)):
        (beyond if beyond_a_link(os.fsencode(git.cwd), path, known) else rest).append(path)
    if beyond:
        git.run("update-index", "--force-remove", "-z", "--stdin", stdin=_nul(beyond))
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


def _nul(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
