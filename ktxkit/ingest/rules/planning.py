"""What changed in a source since what earlier syncs of the same connection and source really landed.

A raw file counts as unchanged only where its content is what it was and its last unit ended accepted, subsumed, noop or
skipped: what failed is tried again. A file that is gone counts as deleted only where the scope of this sync covers it.

Which units a sync needs: those whose raw files, dependencies or facts changed since they last settled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest_of
from ktxkit.ingest.rules.places import sort_key
from ktxkit.store.rules.names import check_key

SETTLED = frozenset({"accepted", "subsumed", "noop", "skipped"})


@dataclass(frozen=True)
class LastSync:
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


def fold(states: Iterable[Mapping[str, Any]]) -> dict[str, LastSync]:
    """The last word on each raw path, from records in the order in which they were written."""
    known: dict[str, LastSync] = {}
    for state in states:
        known[state["rawPath"]] = LastSync(
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
    known: Mapping[str, LastSync],
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


PEERS_KEPT = 100  # raw paths of a unit's peer index; with all of them 2,000 units would name 4 million
EVICTIONS = "evictions"  # the key of the unit that removes what only deleted raw files led to
REASONS_KEPT = 20


@dataclass(frozen=True)
class Proposal:
    """A unit as a connector sees it, whether or not this sync needs it.

    `raw_files` are its own: no other unit has them. `dependency_paths` are raw files that it reads and others own.
    `peers` are what else there is. `facts` is what it is told beside them; a change of it is a change of the unit.
    """

    key: str
    title: str
    raw_files: tuple[str, ...]
    dependency_paths: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts_digest(self) -> str:
        return digest_of(self.facts)


@dataclass(frozen=True)
class Selected:
    """A unit that runs, and why."""

    proposal: Proposal
    reasons: tuple[str, ...]


def check_proposals(proposals: Sequence[Proposal], snapshot: Collection[str]) -> None:
    """A connector's plan must be one that a job can be made of. Raises CannotRun naming the unit and the raw path."""
    owner: dict[str, str] = {}
    keys: set[str] = set()
    for proposal in proposals:
        check_key(proposal.key)
        if proposal.key in keys or proposal.key == EVICTIONS:
            raise CannotRun(
                f"the connector planned two units with the key {proposal.key!r}",
                hint="a fault of the connector: its unit keys must differ",
            )
        keys.add(proposal.key)
        if not proposal.raw_files:
            raise CannotRun(
                f"the connector planned unit {proposal.key!r} without a raw file",
                hint="a fault of the connector: a unit names the raw files that it is made from",
            )
        for raw in (*proposal.raw_files, *proposal.dependency_paths, *proposal.peers):
            if raw not in snapshot:
                raise CannotRun(
                    f"unit {proposal.key!r} names {raw}, which is not in the snapshot",
                    hint="a fault of the connector: a unit names files of its own snapshot only",
                )
        for raw in proposal.raw_files:
            if raw in owner:
                raise CannotRun(
                    f"{raw} belongs to two units: {owner[raw]!r} and {proposal.key!r}",
                    hint="a fault of the connector: a raw file belongs to one unit, others may depend on it",
                )
            owner[raw] = proposal.key


def select(
    proposals: Iterable[Proposal], difference: Difference, known: Mapping[str, LastSync], retried: Collection[str] = ()
) -> list[Selected]:
    """The units that run, in the order given. `retried`: raw files whose unit must run although they are unchanged."""
    changed = difference.changed
    found = []
    for proposal in proposals:
        reasons = [
            *_reasons(proposal, changed, known),
            *(f"again: {raw}" for raw in proposal.raw_files if raw in retried),
        ]
        if reasons:
            found.append(Selected(proposal, tuple(reasons[:REASONS_KEPT])))
    return found


def _reasons(proposal: Proposal, changed: Collection[str], known: Mapping[str, LastSync]) -> list[str]:
    reasons = [f"changed: {raw}" for raw in proposal.raw_files if raw in changed]
    reasons += [f"dependency: {raw}" for raw in proposal.dependency_paths if raw in changed]
    told = {known[raw].facts for raw in proposal.raw_files if raw in known}
    if not reasons and told != {proposal.facts_digest}:
        reasons.append("facts: what the rest of the source says of it changed")
    return reasons


@dataclass(frozen=True)
class Evictions:
    """What deleted raw files leave behind. `retried`: raw files that share an artifact with a deleted one."""

    paths: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # edited since, or written by nobody we know
    retried: frozenset[str] = frozenset()


def evictions(
    last: Mapping[str, Sequence[Mapping[str, Any]]], deleted: Collection[str], tree: Mapping[str, str]
) -> Evictions:
    """Artifacts whose every raw file is deleted go. `last`: rows of the last sync for each raw path.

    `tree`: the digest of each artifact that is there. One whose bytes are not those that a sync wrote is kept: somebody
    works on it.
    """
    origins: dict[str, set[str]] = {}
    wrote: dict[str, set[str]] = {}
    for raw, rows in last.items():
        for row in rows:
            if "artifactPath" in row:
                origins.setdefault(row["artifactPath"], set()).add(raw)
                wrote.setdefault(row["artifactPath"], set()).add(row.get("artifactContentHash", ""))
    gone, kept, again = [], [], set()
    for path, raws in origins.items():
        if path not in tree or raws.isdisjoint(deleted):
            continue
        if not raws <= set(deleted):
            again |= raws - set(deleted)
        elif tree[path] in wrote[path]:
            gone.append(path)
        else:
            kept.append(path)
    return Evictions(tuple(sorted(gone, key=sort_key)), tuple(sorted(kept, key=sort_key)), frozenset(again))


def unit_order(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Units before those that depend on them, else as given; a circle keeps the order given."""
    from graphlib import CycleError, TopologicalSorter

    owner = {raw: index for index, proposal in enumerate(proposals) for raw in proposal.raw_files}
    needs = [sorted({owner[raw] for raw in p.dependency_paths if raw in owner} - {i}) for i, p in enumerate(proposals)]
    try:
        depth: dict[int, int] = {}
        for index in TopologicalSorter(dict(enumerate(needs))).static_order():
            depth[index] = 1 + max((depth[other] for other in needs[index]), default=-1)
    except CycleError:
        return list(proposals)
    return [proposals[index] for index in sorted(range(len(proposals)), key=lambda index: depth[index])]
