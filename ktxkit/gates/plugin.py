"""Gates beside the one of artifacts: what they are given, and what they answer. Third parties write theirs with this.

A gate is a function that reads and changes nothing. Entry point group `ktxkit.gates`: `check(subject, settings) ->
Answer` judges a tree; `settings` are the keys of its entry in `ktx-gates.yaml`. Group `ktxkit.message_gates`:
`check(world, message) -> Answer` judges the message of a commit as it will be committed.

Gates by name, from the entry points of what is installed. None is imported before it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.patterns import is_glob, leads_into, matches, text
from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules.findings import Finding
from ktxkit.store.world import World

__all__ = ["Answer", "Finding", "MessageGate", "Subject", "TreeGate"]

TREE_GATES = "ktxkit.gates"
MESSAGE_GATES = "ktxkit.message_gates"
MESSAGE_PATH = b"COMMIT_EDITMSG"  # the path of findings on a message
PLAIN = ("100644", "100755")  # modes of files that have content
LINK = "120000"  # the mode of a symbolic link
SLASH = ord("/")


@dataclass(frozen=True)
class Answer:
    """What a gate found, how many things it looked at, and what it says of that where it is no number of files.

    `waived`: what a waiver in the files themselves excuses. In a job it is charged where the base does not waive it.
    """

    findings: Sequence[Finding] = ()
    looked: int = 0
    message: str = ""
    waived: Sequence[Finding] = ()


@dataclass(frozen=True)
class Subject:
    """A tree to be judged.

    `files`: path to (mode, object id). `touched`: the paths of the change, None where everything is asked for. `read`
    gives a file's bytes. `checkout` makes a scratch repository of the tree, committed on its base, for the block; it
    shares nothing with the user's but objects. `is_base`: this is the base of a change that had findings, judged to
    tell which of them it had already. `base_files`: the files of what the change is made to. `trusted` gives a file of
    where the configuration was read (in a job the base), None where there is none; `trusted_name` says where that is.
    """

    world: World
    files: Mapping[bytes, tuple[str, str]]
    touched: frozenset[bytes] | None
    read: Callable[[bytes], bytes]
    checkout: Callable[[], AbstractContextManager[Path]]
    is_base: bool = False
    read_each: Callable[[Sequence[bytes]], Iterator[bytes]] | None = None
    base_files: Mapping[bytes, tuple[str, str]] | None = None
    trusted: Callable[[bytes], bytes | None] | None = None
    trusted_name: str = ""

    def each(self, paths: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Paths with their bytes: many files faster than `read` of each."""
        contents = map(self.read, paths) if self.read_each is None else self.read_each(paths)
        return zip(paths, contents, strict=True)

    def chosen(
        self, patterns: Iterable[str] = (), default: Iterable[str] = ("**",), *, links: bool = False
    ) -> list[bytes]:
        """The plain files that a pattern names, sorted; of a change only its own. `links`: symbolic links too."""
        return self._of(self._concerned(), patterns, default, (*PLAIN, LINK) if links else PLAIN)

    def not_files(self, patterns: Sequence[str], *, whole: bool = False) -> list[bytes]:
        """The links and submodules where files that a pattern names, or directories of them, are expected: nothing of
        what they lead to is in the tree. Sorted; of a change only its own, unless `whole`."""
        odd = [path for path in (self.files if whole else self._concerned()) if self.files[path][0] not in PLAIN]
        left = self._left(patterns) if odd else frozenset()
        return sorted(path for path in odd if path in left or any(_expects(one, text(path)) for one in patterns))

    def _left(self, patterns: Sequence[str]) -> frozenset[bytes]:
        """The directories of what a pattern names and the change takes away."""
        gone = self.touched - self.files.keys() if self.touched is not None else ()
        named = [path for path in gone if any(matches(one, text(path)) for one in patterns)]
        return frozenset(path[:at] for path in named for at, sign in enumerate(path) if sign == SLASH)

    def _concerned(self) -> Iterable[bytes]:
        return self.files if self.touched is None else self.touched & self.files.keys()

    def concerns(self, patterns: Iterable[str] = ()) -> bool:
        """Whether the change touches, or takes away, anything that a pattern names (default: anything at all)."""
        paths = self.files if self.touched is None else self.touched
        wanted = list(patterns) or ["**"]
        return any(matches(pattern, text(path)) for path in paths for pattern in wanted)

    def anywhere(self, patterns: Iterable[str]) -> list[bytes]:
        """The plain files of the whole tree that a pattern names, sorted."""
        return self._of(self.files, patterns, ())

    def _of(
        self, paths: Iterable[bytes], patterns: Iterable[str], default: Iterable[str], modes: Sequence[str] = PLAIN
    ) -> list[bytes]:
        wanted = list(patterns) or list(default)
        return [
            path
            for path in sorted(paths)
            if self.files[path][0] in modes and any(matches(pattern, text(path)) for pattern in wanted)
        ]


def _expects(pattern: str, path: str) -> bool:
    """Whether a pattern names a path, or by its first names something below it. That a glob may name something below
    any directory makes no link one of them."""
    if matches(pattern.removesuffix("/"), path):
        return True
    first = "/".join(pattern.split("/")[: path.count("/") + 1])
    return not is_glob(first) and leads_into(pattern, path)


MessageGate = Callable[[World, str], Answer]
TreeGate = Callable[[Subject, Mapping[str, Any]], Answer]


@cache
def named(group: str) -> dict[str, EntryPoint]:
    """The gates of a group, sorted by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def load(group: str, name: str) -> Callable[..., Answer]:
    """A gate. Raises CannotRun where there is none of that name, or it cannot be imported."""
    known = named(group)
    if name not in known:
        names = sorted({*known, *(["artifacts"] if group == TREE_GATES else [])})
        near = nearest(name, names)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}"
        raise CannotRun(f"no gate named {name!r}", hint=hint)
    entry = known[name]
    try:
        loaded: Callable[..., Answer] = entry.load()
    except (ImportError, AttributeError) as error:
        raise CannotRun(
            f"the gate {name} cannot be imported: {error}",
            location=entry.value,
            hint="install what it needs, or take it out of ktx-gates.yaml",
        ) from error
    return loaded


def ask_of_message(name: str, world: World, message: str, commit: str = "") -> Answer:
    """Ask a gate of messages. It is told the commit, where there is one already, if it takes a third parameter."""
    takes = len(inspect.signature(load(MESSAGE_GATES, name)).parameters) if commit else 0
    return ask(MESSAGE_GATES, name, *((world, message, commit) if takes > 2 else (world, message)))


def ask(group: str, name: str, *given: Any) -> Answer:
    """Ask a gate. Raises CannotRun where it fails: a gate that broke has not passed anything."""
    gate = load(group, name)
    try:
        return gate(*given)
    except (KtxError, OSError):
        raise
    except Exception as error:  # foreign code: whatever it raises is an answer that is missing
        what = f"{type(error).__name__}: {error}"
        raise CannotRun(
            f"the gate {name} failed: {what[:400]}",
            location=named(group)[name].value,
            hint="a fault of the gate: take it to its author, or take it out of ktx-gates.yaml",
        ) from error
