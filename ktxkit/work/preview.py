"""Which pairs of changes are worth merging: those whose paths meet, and those that meet in what the gates read.

Which units will clash, before they finish: their current trees, merged pairwise; only objects are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import KtxError
from ktxkit.base.identity import is_apart
from ktxkit.git import child, merging
from ktxkit.git.neutral import Neutral, open_neutral, scratch_dir
from ktxkit.git.objects import Objects
from ktxkit.git.rules.checkout import parents
from ktxkit.store import leases
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.world import World
from ktxkit.work import candidate, collect, selection
from ktxkit.work.candidate import CandidateVerdict, Offer

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        Lease,
        Patch,
        Preview,
        PreviewClash,
        PreviewUnit,
        PreviewUnitOutcome,
        PreviewUnitState,
    )


SOURCES, PAGES = b"semantic-layer/", b"wiki/"


def meet(paths: set[bytes], other: set[bytes]) -> bool:
    """Whether two sets of paths share one, or one has a file where the other needs a directory."""
    small, large = sorted((paths, other), key=len)
    if small & large:
        return True
    above = {parent for path in large for parent in parents(path)}
    return bool(small & above) or any(parent in large for path in small for parent in parents(path))


def may_contradict(ours: Iterable[bytes], theirs: Iterable[bytes], root: bytes = b"") -> bool:
    """Whether a gate could read both: a source on one side, a source or a page on the other."""
    here, there = list(ours), list(theirs)

    def has(paths: Sequence[bytes], lead: bytes) -> bool:
        return any(path.startswith(root + lead) for path in paths)

    return (has(here, SOURCES) and (has(there, SOURCES) or has(there, PAGES))) or (
        has(there, SOURCES) and has(here, PAGES)
    )


KEPT = 1000  # conflicts or findings of one unit or pair


@dataclass(frozen=True)
class Live:
    """A unit that is not integrated yet, with what it has so far; `problem` where that could not be read."""

    unit: Unit
    state: PreviewUnitState
    offer: Offer | None = None
    problem: str = ""
    judged: CandidateVerdict | None = None

    @property
    def paths(self) -> set[bytes]:
        return {entry.path for entry in self.offer.entries} if self.offer else set()


def preview(job: ActiveJob, gate_options: Mapping[str, Any] | None = None) -> Preview:
    """The document (contract `preview`): each unit alone on the integration head, then each pair that meets."""
    began = job.world.clock.monotonic()
    git = job.git
    head = git.resolve(job.integration_ref) or str(job.document.get("base", job.document["targetAtStart"]))
    with open_neutral(job.world) as neutral:
        look = Look(job, neutral, neutral.objects, neutral.need_tree(head), gate_options or {})
        units = [look.alone(live) for live in look.live()]
        clashes, met = look.clashes(units)
    bad = clashes or any(unit.judged is None or unit.judged.outcome not in ("candidate", "noop") for unit in units)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "preview",
        "jobId": job.id,
        "at": timestamp(job.world.clock.now()),
        "head": head,
        "outcome": "findings" if bad else "done",
        "units": [_unit(unit) for unit in units],
        "clashes": clashes,
        "pairsMet": met,
        "durationMs": round((job.world.clock.monotonic() - began) * 1000, 3),
    }


@dataclass(frozen=True)
class Look:
    """One preview under way. `tree`: of the integration head."""

    job: ActiveJob
    neutral: Neutral
    objects: Objects
    tree: str
    gate_options: Mapping[str, Any]

    @property
    def world(self) -> World:
        return self.job.world

    def live(self) -> list[Live]:
        """The units without a receipt that have a worktree or a patch, in unit order."""
        found = []
        for unit in self.job.units:
            if self.world.store.exists(self.job.unit_doc(unit, "receipt")):
                continue
            there = self.world.store.exists(self.job.unit_doc(unit, "lease"))
            recorded = self.job.read(kinds.LEASE, "lease", unit) if there else None
            if recorded is not None and is_apart(leases.path_of(recorded)):
                found.append(Live(unit, "live", problem="it is isolated: it is read when its command has ended"))
                continue
            lease = leases.at_hand(self.job, unit) if there else None
            patch = self.job.read(kinds.PATCH, "patch", unit)
            if lease is not None and lease["state"] == "open":
                found.append(self._working(unit, lease))
            elif patch is not None:
                found.append(self._collected(unit, patch, lease))
        return found

    def _collected(self, unit: Unit, patch: Patch, lease: Lease | None) -> Live:
        path = self.world.store.path(self.job.patch_file(unit))
        try:
            policy = collect.policy_of(self.job, unit, lease)
            return Live(unit, "collected", candidate.offer_of(self.world, self.neutral, patch, path, policy))
        except KtxError as error:
            return Live(unit, "collected", problem=error.message)

    def _working(self, unit: Unit, lease: Lease) -> Live:
        """What the worktree has now, committed or not, whatever state it is in."""
        request = collect.request_of(self.job, unit, lease)
        try:
            git = collect.runner(self.world, request)
            status = child.read_status(git, ignored="traditional")
            chosen = selection.choose(status, request.policy, request.copied, request.paths)
            take = [path for path in chosen.take if not path.endswith(b"/")]
            with scratch_dir(self.world) as scratch:
                tree = selection.tree_of_worktree(git, scratch / "index", take, git.text("rev-parse", "HEAD"))
        except KtxError as error:
            return Live(unit, "live", problem=error.message)
        base = self.neutral.need_tree(lease["base"])
        entries = tuple(merging.changes(self.neutral, base, tree))
        return Live(unit, "live", Offer(base, base, tree, entries, request.policy))

    def alone(self, live: Live) -> Live:
        """The unit by itself on the integration head: policy, merge, gates."""
        if live.offer is None:
            return live
        if not live.offer.entries:
            return replace(live, judged=CandidateVerdict("noop"))
        breaches = candidate.by_policy(self.neutral, self.objects, live.offer)
        if breaches:
            return replace(live, judged=CandidateVerdict("policy_rejected", breaches=tuple(breaches)))
        return replace(live, judged=self._judged(live.offer, self.tree))

    def _judged(self, offer: Offer, onto: str, *, gates: bool = True) -> CandidateVerdict:
        judged = candidate.merged(self.neutral, self.objects, offer, onto)
        if judged.outcome != "candidate" or not gates:
            return judged
        base = self.neutral.need_tree(str(self.job.document.get("base", self.job.document["targetAtStart"])))
        return candidate.gated(self.world, judged, base, self.gate_options)

    def clashes(self, units: Sequence[Live]) -> tuple[list[PreviewClash], int]:
        """The pairs that clash although each is fine alone, and how many pairs were merged."""
        fine = [unit for unit in units if unit.judged is not None and unit.judged.outcome == "candidate"]
        found, met = [], 0
        for first, second in combinations(fine, 2):
            gates = may_contradict(first.paths, second.paths)
            if gates or meet(first.paths, second.paths):
                met += 1
                clash = self._pair(first, second, gates=gates)
                found += [clash] if clash else []
        return found, met

    def _pair(self, first: Live, second: Live, *, gates: bool) -> PreviewClash | None:
        assert first.judged is not None and second.offer is not None
        judged = self._judged(second.offer, first.judged.tree, gates=gates)
        if judged.outcome in ("candidate", "subsumed"):
            return None
        pair: PreviewClash = {
            "first": first.unit.key,
            "second": second.unit.key,
            "kind": "semantic" if judged.outcome == "semantic_conflict" else "textual",
        }
        pair |= {"conflicts": [clash.document() for clash in judged.conflicts[:KEPT]]} if judged.conflicts else {}
        pair |= {"findings": list(judged.findings[:KEPT])} if judged.findings else {}
        return pair


def _unit(live: Live) -> PreviewUnit:
    judged = live.judged
    made: PreviewUnit = {
        "unitKey": live.unit.key,
        "position": live.unit.position,
        "state": live.state,
        "outcome": cast("PreviewUnitOutcome", judged.outcome) if judged else "unreadable",  # nothing is accepted here
        "paths": len(live.paths),
    }
    if live.offer is not None:
        made["tree"] = live.offer.tree
    if live.problem:
        made["message"] = live.problem[:4000]
    if judged is not None and judged.conflicts:
        made["conflicts"] = [clash.document() for clash in judged.conflicts[:KEPT]]
    if judged is not None and judged.findings:
        made["findings"] = list(judged.findings[:KEPT])
    if judged is not None and judged.breaches:
        made["message"] = "; ".join(f"{breach.rule}: {breach.message}" for breach in judged.breaches[:5])[:4000]
    return made
