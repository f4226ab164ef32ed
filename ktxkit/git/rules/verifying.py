"""What a verification may and may not have done to the checkout it ran in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktxkit.base.rules.text import path_fields

SAMPLE = 20  # paths of an account that a document shows
Signature = tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """The semantic state of a checkout. `untracked` are paths; a digest stands for the rest of git's status."""

    head: str
    branch: str
    head_tree: str
    index_tree: str
    status_digest: str
    untracked: frozenset[bytes]

    def document(self) -> dict[str, Any]:
        return {
            "head": self.head,
            **({"branch": self.branch} if self.branch else {}),
            "headTree": self.head_tree,
            "indexTree": self.index_tree,
            "statusDigest": self.status_digest,
            "untracked": len(self.untracked),
        }


def differences(before: Snapshot, after: Snapshot) -> list[str]:
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


def moved(before: Snapshot, after: Snapshot) -> bool:
    """Whether HEAD or the branch moved: then nothing is restored, a person must look."""
    return (before.head, before.branch) != (after.head, after.branch)


@dataclass(frozen=True)
class IgnoredChanges:
    """What a command did to ignored files: disclosed with exact counts, never restored."""

    added: tuple[bytes, ...] = ()
    changed: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()

    def document(self) -> dict[str, Any]:
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
