"""Trees listed as files with their paths, and kept for the next reader of this process.

Trees compared by one long-lived `diff-tree --stdin`: a spawn saved for every comparison of a job.
"""

from __future__ import annotations

import threading
from typing import IO

from ktxkit.base import process
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git.git import Git
from ktxkit.git.rules.patch import Entry, parse_raw

LISTED_KEPT = 500_000  # entries of trees that were listed
KEPT_PER_LOCATION = 2  # trees of one place: the base's or the target's, and the last candidate's


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


class TreeListings:
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
            while len(here) > KEPT_PER_LOCATION:
                self._held -= _size(here.pop(next(iter(here))))
            if self._held > self._most:
                self._runs = {prefix: {tree: runs}}
                self._held = _size(runs)


def _size(runs: Runs) -> int:
    return sum(1 if isinstance(run, Below) else len(run) for run in runs)


RAW = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
RENEWED_AFTER = 500  # comparisons: git keeps what it parsed, and memory is to stay flat
MARK = b".\n"  # no pair of ids: diff-tree says it back, and flushes what it had to say before


class TreeDiff:
    """Compares trees by their ids. Thread-safe; close it at the end. `renewed_after`: comparisons by one process."""

    def __init__(self, git: Git, renewed_after: int = RENEWED_AFTER) -> None:
        self._git = git
        self._renewed_after = renewed_after
        self._lock = threading.Lock()
        self._child = git.start(*RAW, "--stdin")
        self._answered = 0

    def close(self) -> None:
        """End the reader."""
        process.end_reader(self._child)

    def entries(self, old: str, new: str) -> list[Entry]:
        """What differs between two trees, by the paths git reports. Raises GitFailed where one cannot be read."""
        with self._lock:
            if self._answered >= self._renewed_after:
                self._renew()
            self._answered += 1
            data = self._ask(old, new)
            if data is None:
                self._renew()
                return parse_raw(self._git.run(*RAW, old, new, "--").out)  # it says itself what is wrong
        return parse_raw(data)

    def _renew(self) -> None:
        self.close()
        self._child = self._git.start(*RAW, "--stdin")
        self._answered = 0

    def _ask(self, old: str, new: str) -> bytes | None:
        """The raw answer, or None where it is not one."""
        assert self._child.stdin is not None and self._child.stdout is not None
        pair = f"{old} {new}\n".encode("ascii")
        try:
            self._child.stdin.write(pair + MARK)
            self._child.stdin.flush()
        except BrokenPipeError:
            return None
        if self._child.stdout.readline() != pair:
            return None
        return self._until_mark(self._child.stdout)

    @staticmethod
    def _until_mark(out: IO[bytes]) -> bytes | None:
        """Everything before the mark: fields come in pairs (facts, path), and no facts begin like it."""
        data = bytearray()
        while chunk := out.readline():
            data += chunk  # a path may hold a line break: the mark is one only where a pair of fields is complete
            if data.endswith(MARK) and (len(data) == len(MARK) or data[-len(MARK) - 1] == 0):
                whole = bytes(data[: -len(MARK)])
                if whole.count(b"\0") % 2 == 0:
                    return whole
        return None
