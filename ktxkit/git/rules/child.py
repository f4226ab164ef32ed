"""`git status --porcelain=v2 -z`, parsed. Source: git-status(1), "Porcelain Format Version 2".

Whether a child worktree is in a state from which a change can be taken without losing any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable

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
