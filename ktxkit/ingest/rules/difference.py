"""What changed in a source since what earlier syncs of the same connection and source really landed.

A raw file counts as unchanged only where its content is what it was and its last unit ended accepted, subsumed, noop or
skipped: what failed is tried again. A file that is gone counts as deleted only where the scope of this sync covers it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ktxkit.ingest.rules.raw_paths import sort_key

SETTLED = frozenset({"accepted", "subsumed", "noop", "skipped"})


@dataclass(frozen=True)
class Known:
    """What the last landed sync that took a raw file says of it. `facts`: digest of what its unit was told."""

    digest: str
    outcome: str
    sync_id: str
    facts: str = ""
    deleted: bool = False

    @property
    def settled(self) -> bool:
        return self.outcome in SETTLED


@dataclass(frozen=True)
class Difference:
    """Raw paths, each list sorted by bytes; a path stands in exactly one."""

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    @property
    def changed(self) -> frozenset[str]:
        """What units must look at again."""
        return frozenset((*self.added, *self.modified, *self.deleted))

    def summary(self) -> dict[str, int]:
        return {
            "added": len(self.added),
            "modified": len(self.modified),
            "deleted": len(self.deleted),
            "unchanged": len(self.unchanged),
        }

    def document(self) -> dict[str, list[str]]:
        return {name: list(getattr(self, name)) for name in ("added", "modified", "deleted", "unchanged")}


def fold(states: Iterable[Mapping[str, Any]]) -> dict[str, Known]:
    """The last word on each raw path, from records in the order in which they were written."""
    known: dict[str, Known] = {}
    for state in states:
        known[state["rawPath"]] = Known(
            state["rawContentHash"],
            state["outcome"],
            state["syncId"],
            state.get("factsDigest", ""),
            bool(state.get("deleted", False)),
        )
    return known


def everywhere(_path: str) -> bool:
    """The scope of a sync that looks at all of its source."""
    return True


def difference(
    current: Mapping[str, str],
    known: Mapping[str, Known],
    in_scope: Callable[[str], bool] = everywhere,
    carried: Collection[str] = (),
) -> Difference:
    """Compare a snapshot (raw path to digest) with what is known. `in_scope` is asked of absent paths only.

    A path whose deletion is known and settled is in no list. `carried` were not looked at: they did not change.
    """
    added, modified, deleted, unchanged = [], [], [], []
    for path, digest in current.items():
        before = known.get(path)
        if path in carried:
            unchanged.append(path)
        elif before is None or before.deleted:
            added.append(path)
        elif before.digest == digest and before.settled:
            unchanged.append(path)
        else:
            modified.append(path)
    for path, before in known.items():
        gone = path not in current and not (before.deleted and before.settled)
        if gone and in_scope(path):
            deleted.append(path)
    return Difference(*(tuple(sorted(found, key=sort_key)) for found in (added, modified, deleted, unchanged)))
