"""Which files of a checkout stand in the way of a change to it, by names alone.

What a verification may and may not have done to the checkout it ran in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields
from ktxkit.git.rules.child import Status
from ktxkit.git.rules.patch import Entry

if TYPE_CHECKING:
    from ktxkit.base.documents import CheckoutState, IgnoredPathChanges


class Obstacle(NamedTuple):
    """A path that the change needs and that is not as the index has it."""

    path: bytes
    reason: str


def parents(path: bytes) -> Iterable[bytes]:
    """Every directory on the way to a path, the top left out."""
    parts = path.split(b"/")
    return (b"/".join(parts[:depth]) for depth in range(1, len(parts)))


def touched(entries: Sequence[Entry]) -> tuple[set[bytes], set[bytes]]:
    """The paths of a change, and every directory on the way to them."""
    paths = {entry.path for entry in entries}
    return paths, {parent for path in paths for parent in parents(path)}


def meets(path: bytes, paths: set[bytes], above: set[bytes]) -> bool:
    """Whether a path is one of the change's, above one, or below one."""
    bare = path.rstrip(b"/")
    return bare in paths or bare in above or any(parent in paths for parent in parents(bare))


def obstacles(
    entries: Sequence[Entry],
    dirty: Iterable[bytes],
    there: Mapping[bytes, str],
    inside: Mapping[bytes, Sequence[bytes]],
) -> list[Obstacle]:
    """What is in the way.

    `dirty`: paths with uncommitted or hidden work; `there`: for paths the change adds and the directories above them,
    what stands in the checkout (`file`, `directory`); `inside`: for directories where the change puts a file, the files
    that are in them.
    """
    paths, above = touched(entries)
    leaving = {entry.path for entry in entries if entry.change in ("deleted", "typechange")}
    found = {Obstacle(path, "uncommitted work") for path in dirty if meets(path, paths, above)}
    for entry in entries:
        if entry.change != "added":
            continue
        if there.get(entry.path) == "file":
            found.add(Obstacle(entry.path, "an untracked or ignored file is in the way"))
        found |= {
            Obstacle(path, "an untracked or ignored file is in the way")
            for path in inside.get(entry.path, ())
            if path not in leaving
        }
        found |= {
            Obstacle(parent, "a file is where a directory is needed")
            for parent in parents(entry.path)
            if there.get(parent) == "file" and parent not in leaving
        }
    return sorted({item.path: item for item in sorted(found, reverse=True)}.values())


def near(entries: Sequence[Entry], status: Status) -> tuple[frozenset[object], ...]:
    """What a status says of the paths of a change: what is at them, above them or below them.

    Anything else in the checkout is another's, and may come and go while the change lands. A submodule that is only at
    another commit than its gitlink is no dirt of the change.
    """
    paths, above = touched(entries)
    links = {entry.path for entry in entries if entry.new.kind == "gitlink"}
    changed = (item for item in status.changed if item.path not in links and meets(item.path, paths, above))
    return (
        frozenset(changed),
        *(
            frozenset(path for path in some if meets(path, paths, above))
            for some in (status.unmerged, status.untracked)
        ),
    )


SAMPLE = 20  # paths of an account that a document shows
Signature = tuple[int, ...]


class CheckoutSnapshot(NamedTuple):
    """The semantic state of a checkout. `untracked` are paths; a digest stands for the rest of git's status."""

    head: str
    branch: str
    head_tree: str
    index_tree: str
    status_digest: str
    untracked: frozenset[bytes]

    def document(self) -> CheckoutState:
        state: CheckoutState = {
            "head": self.head,
            "headTree": self.head_tree,
            "indexTree": self.index_tree,
            "statusDigest": self.status_digest,
            "untracked": len(self.untracked),
        }
        state |= {"branch": self.branch} if self.branch else {}
        return state


def differences(before: CheckoutSnapshot, after: CheckoutSnapshot) -> list[str]:
    """What changed, by name; empty where nothing did."""
    named = {
        "head": before.head != after.head,
        "branch": before.branch != after.branch,
        "head tree": before.head_tree != after.head_tree,
        "index": before.index_tree != after.index_tree,
        "tracked files": before.status_digest != after.status_digest,
        "untracked files": before.untracked != after.untracked,
    }
    return [name for name, differs in named.items() if differs]


def moved(before: CheckoutSnapshot, after: CheckoutSnapshot) -> bool:
    """Whether HEAD or the branch moved: then nothing is restored, a person must look."""
    return (before.head, before.branch) != (after.head, after.branch)


class IgnoredChanges(NamedTuple):
    """What a command did to ignored files: disclosed with exact counts, never restored."""

    added: tuple[bytes, ...] = ()
    changed: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()

    def document(self) -> IgnoredPathChanges:
        named = [(path, word) for word in ("added", "changed", "removed") for path in getattr(self, word)]
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "sample": [{**path_fields(path), "reason": word} for path, word in named[:SAMPLE]],
        }


def ignored_changes(before: Mapping[bytes, Signature], after: Mapping[bytes, Signature]) -> IgnoredChanges:
    """By the signature of each file (type, size, times, inode), so that a gigabyte of them costs no reading."""
    return IgnoredChanges(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(path for path in before.keys() & after.keys() if before[path] != after[path])),
        tuple(sorted(before.keys() - after.keys())),
    )
