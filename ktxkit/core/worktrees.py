"""What to do about a worktree: decided from its lease and from what stands on the disk, before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

KEPT = ("conflict", "crash")  # outcomes that keep the checkout as evidence
OUTCOMES = ("success", "empty", *KEPT)


class Open(Enum):
    """What opening a unit's worktree means."""

    FRESH = "nothing stands there: make it"
    REUSE = "it is open already, at this base: hand its lease out again"
    OTHER_BASE = "it is open already, at another base: refuse"
    TAKE_OVER = "whoever held it is dead: keep its work in the attic, then make it anew"
    LEFTOVER = "its lease is over, its files are not: keep what is unsaved in the attic, then make it anew"
    BESIDE = "evidence is kept there: make the new one beside it"
    OCCUPIED = "someone works in it: refuse"
    FOREIGN = "another directory stands where the lease's was: a person must look"


@dataclass(frozen=True)
class Standing:
    """What was found where a unit's worktree belongs."""

    present: bool  # something is at the path
    same: bool  # and it is the directory that the lease means
    holder_dead: bool  # the lease names an owner, and that process is proven dead
    busy: bool  # a process has its working directory inside


def decide_open(lease: Mapping[str, Any] | None, found: Standing, base: str) -> Open:
    """How to open a unit's worktree at `base`."""
    if lease is None:
        return Open.LEFTOVER if found.present else Open.FRESH
    if lease["state"] == "closed":
        if not found.present:
            return Open.FRESH
        return Open.BESIDE if lease.get("outcome") in KEPT else Open.LEFTOVER
    if not found.present:
        return Open.TAKE_OVER
    if not found.same:
        return Open.FOREIGN
    if found.holder_dead:
        return Open.OCCUPIED if found.busy else Open.TAKE_OVER
    return Open.REUSE if lease["base"] == base else Open.OTHER_BASE


@dataclass(frozen=True)
class Work:
    """What a worktree holds, and what of it is safe elsewhere. Trees and commits are ids."""

    tree: str  # everything but ignored files
    base_tree: str
    kept_trees: tuple[str, ...] = ()  # trees that refs of ours or branches keep: collected, landed
    commits: bool = False  # commits of its own that no other ref reaches
    uncommitted: bool = False
    nested: tuple[bytes, ...] = ()  # repositories inside, which no snapshot holds


def unsaved(work: Work) -> str:
    """What removing the worktree would lose, in words; empty where all of it is kept elsewhere or nothing was done."""
    if work.nested:
        return f"a repository inside it ({len(work.nested)}), which nothing else holds"
    if work.tree in (work.base_tree, *work.kept_trees):
        return ""
    parts = [*(["commits"] if work.commits else []), *(["uncommitted work"] if work.uncommitted else [])]
    return " and ".join(parts)
