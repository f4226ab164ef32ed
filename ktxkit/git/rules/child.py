"""Whether a child worktree is in a state from which a change can be taken without losing any of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ktxkit.base.rules.text import plural, printable
from ktxkit.git.rules.status import SUBMODULE_NONE, Status

SHOWN = 5  # paths in one reason


@dataclass(frozen=True)
class ChildState:
    """What was read of a child worktree; nothing of it was changed."""

    head: str
    branch: str | None  # full ref; None where HEAD is detached
    operations: tuple[str, ...]  # merge, rebase, ... that are not finished
    hidden: tuple[bytes, ...]  # index entries whose edits git does not show
    special: tuple[bytes, ...]  # fifos, sockets, devices
    status: Status


@dataclass(frozen=True)
class Expected:
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
