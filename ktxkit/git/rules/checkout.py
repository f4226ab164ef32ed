"""Which files of a checkout stand in the way of a change to it, by names alone.

What a verification may and may not have done to the checkout it ran in.

`git status --porcelain=v2 -z`, parsed. Source: git-status(1), "Porcelain Format Version 2".

Whether a child worktree is in a state from which a change can be taken without losing any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields, plural, printable
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


SUBMODULE_NONE = "N..."


class Changed(NamedTuple):
    """A tracked path that differs. `xy`: index against HEAD, worktree against index; `sub` as git has it."""

    path: bytes
    xy: str
    sub: str = SUBMODULE_NONE
    head: str = ""  # mode and id in HEAD; zeros where HEAD has no such path

    @property
    def intent_to_add(self) -> bool:
        return self.xy == ".A"


class Status(NamedTuple):
    """What git says of a checkout. A name that ends in `/` is a nested repository (or a folded ignored directory)."""

    changed: tuple[Changed, ...] = ()
    unmerged: tuple[bytes, ...] = ()
    untracked: tuple[bytes, ...] = ()
    ignored: tuple[bytes, ...] = ()
    head: str = ""  # the commit of HEAD, where it was asked for

    @property
    def unignored(self) -> Status:
        """The same without ignored files, to compare two by."""
        return self._replace(ignored=())

    @property
    def clean(self) -> bool:
        return not (self.changed or self.unmerged or self.untracked)

    @property
    def staged_only(self) -> tuple[bytes, ...]:
        """Paths whose staged content is neither that of HEAD nor that of the file."""
        return tuple(item.path for item in self.changed if item.xy[0] not in ".D" and item.xy[1] != ".")

    @property
    def dirty(self) -> list[bytes]:
        """Every path with uncommitted work, sorted."""
        return sorted({*(item.path for item in self.changed), *self.unmerged, *self.untracked})


def parse_status(data: bytes) -> Status:
    """Raises ValueError for output that is not of this format."""
    changed: list[Changed] = []
    unmerged: list[bytes] = []
    untracked: list[bytes] = []
    head = ""
    ignored: list[bytes] = []
    fields: Iterator[bytes] = iter(data.split(b"\0"))
    for line in fields:
        if line.startswith(b"# branch.oid "):
            head = line[13:].decode("ascii")
        if not line or line.startswith(b"# "):
            continue
        kind = line[:2]
        if kind == b"1 ":
            words = line.split(b" ", 8)
            xy, sub, mode, oid = (words[number].decode("ascii") for number in (1, 2, 3, 6))
            changed.append(Changed(words[8], xy, sub, f"{mode} {oid}"))
        elif kind == b"2 ":
            words = line.split(b" ", 9)
            changed.append(Changed(words[9], words[1].decode("ascii"), words[2].decode("ascii")))
            changed.append(Changed(next(fields), "D.", SUBMODULE_NONE))
        elif kind == b"u ":
            unmerged.append(line.split(b" ", 10)[10])
        elif kind == b"? ":
            untracked.append(line[2:])
        elif kind == b"! ":
            ignored.append(line[2:])
        else:
            raise ValueError(f"not a status line: {line[:80]!r}")
    return Status(tuple(changed), tuple(unmerged), tuple(untracked), tuple(ignored), head)


SHOWN = 5  # paths in one reason


class ChildState(NamedTuple):
    """What was read of a child worktree; nothing of it was changed."""

    head: str
    branch: str | None  # full ref; None where HEAD is detached
    operations: tuple[str, ...]  # merge, rebase, ... that are not finished
    hidden: tuple[bytes, ...]  # index entries whose edits git does not show
    special: tuple[bytes, ...]  # fifos, sockets, devices
    status: Status


class Expected(NamedTuple):
    """`branch`: the full ref it must be on, None for detached; with `any_branch` nobody said."""

    branch: str | None = None
    any_branch: bool = False
    require_clean: bool = False


def refusals(state: ChildState, expected: Expected, wanted: Iterable[bytes]) -> list[str]:
    """Every reason not to collect; empty where there is none. `wanted`: the uncommitted paths that would be taken."""
    status = state.status
    found = [
        *_branch(state.branch, expected),
        *(f"a {operation} is in progress" for operation in state.operations),
        *_named("hidden from git status (assume-unchanged or skip-worktree)", state.hidden),
        *_named("a special file (fifo, socket or device)", state.special),
        *_named("unmerged", status.unmerged),
        *_named("intent to add only (git add -N)", (c.path for c in status.changed if c.intent_to_add)),
        *_named("a nested repository", (path for path in wanted if path.endswith(b"/"))),
        *_named("a submodule with uncommitted work", (c.path for c in status.changed if _dirty_submodule(c.sub))),
    ]
    if expected.require_clean and not status.clean:
        found += _named("uncommitted work", status.dirty)
    return found


def _branch(actual: str | None, expected: Expected) -> list[str]:
    if expected.any_branch or actual == expected.branch:
        return []
    here = f"on {actual}" if actual else "detached"
    wanted = f"on {expected.branch}" if expected.branch else "detached"
    return [f"HEAD is {here}, it must be {wanted}"]


def _dirty_submodule(sub: str) -> bool:
    return sub != SUBMODULE_NONE and ("M" in sub[2:3] or "U" in sub[3:4])


def _named(what: str, paths: Iterable[bytes]) -> list[str]:
    found = sorted(set(paths))
    if not found:
        return []
    names = ", ".join(printable(path) for path in found[:SHOWN])
    more = f" and {plural(len(found) - SHOWN, 'other')}" if len(found) > SHOWN else ""
    return [f"{what}: {names}{more}"]
