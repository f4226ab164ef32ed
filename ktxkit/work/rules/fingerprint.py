"""What changed around a unit that it must not touch: two fingerprints compared, each change named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

Facts = Mapping[tuple[str, str], str]  # (kind, name) -> a value that is equal while the thing is unchanged

CHECKOUT = "checkout"  # HEAD, branch, operations in progress and every path that git status has a line for
REFS = "refs"  # branches and tags
STASH = "stash"
CONFIG = "config"  # keys of the shared configuration, never their values; attributes, exclude rules, alternates
HOOKS = "hooks"
SIBLING = "sibling"  # worktrees of units that nobody should be working in
DOCUMENT = "document"  # documents of the job that are written once, and what never changes of a lease
JOURNAL = "journal"  # files that may only grow; the value is `inode:size`
JOB = "job"  # other jobs
STORE = "store"  # files at the store's top, where none of ours are but one


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was. `how` is `added`, `removed` or `changed`."""

    kind: str
    name: str
    how: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.how}"


def differences(before: Facts, after: Facts, busy: Collection[str] = (), working: Collection[str] = ()) -> list[Change]:
    """Every change between two fingerprints, sorted.

    `busy` names the units (`0001-key`) that were at work or were handled in between: their own documents may change;
    `working` those at work: their worktrees may. New documents and new jobs are no change; a journal that grew is none.
    """
    units = [{name for kind, name in facts if kind == SIBLING and "/" not in name} for facts in (before, after)]
    watched = (units[0] & units[1]) - set(working)
    found = []
    for key in before.keys() | after.keys():
        kind, name = key
        if before.get(key) == after.get(key) or _is_expected(kind, name, before.get(key), after.get(key), busy):
            continue
        if kind == SIBLING and name.partition("/")[0] not in watched:
            continue
        how = "added" if key not in before else "removed" if key not in after else "changed"
        found.append(Change(kind, name, how))
    return sorted(found, key=lambda change: (change.kind, change.name))


def _is_expected(kind: str, name: str, old: str | None, new: str | None, busy: Collection[str]) -> bool:
    if kind in (DOCUMENT, JOB, JOURNAL) and old is None:
        return True
    if kind == DOCUMENT:
        return any(unit in busy for unit in name.replace(".patch", "").split("/"))
    if kind == JOURNAL and old is not None and new is not None:
        (was_inode, was_size), (inode, size) = old.split(":"), new.split(":")
        return was_inode == inode and int(size) >= int(was_size)
    return False


def summary(changes: Collection[Change], limit: int = 20) -> list[str]:
    """The changes as lines for a trace or a report; what is beyond `limit` is counted."""
    lines = [str(change) for change in list(changes)[:limit]]
    return lines if len(changes) <= limit else [*lines, f"... {len(changes) - limit} more"]
