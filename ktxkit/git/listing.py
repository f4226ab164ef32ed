"""Trees listed as files with their paths, and kept for the next reader of this process."""

from __future__ import annotations

import threading
from typing import NamedTuple

LISTED_KEPT = 500_000  # entries of trees that were listed
SAME_PLACE = 2  # trees of one place: the base's or the target's, and the last candidate's


class TreeEntry(NamedTuple):
    """One file of a tree: mode of six octal digits, path from the top, object id."""

    mode: str
    path: bytes
    oid: str


class Below(NamedTuple):
    """A subtree and the path of its files up to their names."""

    tree: str
    prefix: bytes


Runs = list[list[TreeEntry] | Below]  # one tree: files in a row, and between them the subtrees


def in_runs(level: list[tuple[str, bytes, str]], prefix: bytes) -> Runs:
    """One level of a tree with the paths of its files."""
    runs: Runs = []
    files: list[TreeEntry] = []
    for mode, name, oid in level:
        if mode == "040000":
            runs.append(Below(oid, prefix + name + b"/"))
            files = []
        else:
            if not files:
                runs.append(files)
            files.append(TreeEntry(mode, prefix + name, oid))
    return runs


class Listed:
    """Trees that were listed in this process: the last few of each place; the next candidate differs in little."""

    def __init__(self, most: int) -> None:
        self._most = most  # entries kept
        self._held = 0
        self._runs: dict[bytes, dict[str, Runs]] = {}
        self._lock = threading.Lock()

    def get(self, tree: str, prefix: bytes) -> Runs | None:
        with self._lock:
            here = self._runs.get(prefix, {})
            runs = here.pop(tree, None)
            if runs is not None:
                here[tree] = runs  # the last one to go
            return runs

    def put(self, tree: str, prefix: bytes, runs: Runs) -> None:
        with self._lock:
            here = self._runs.setdefault(prefix, {})
            if tree not in here:
                here[tree] = runs
                self._held += _size(runs)
            while len(here) > SAME_PLACE:
                self._held -= _size(here.pop(next(iter(here))))
            if self._held > self._most:
                self._runs = {prefix: {tree: runs}}
                self._held = _size(runs)


def _size(runs: Runs) -> int:
    return sum(1 if isinstance(run, Below) else len(run) for run in runs)
