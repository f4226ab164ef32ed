"""Worktrees of earlier attempts of a unit. They were kept as evidence; the lease is of a later attempt, beside them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ktxkit.base.contracts import Document
from ktxkit.base.errors import KtxError
from ktxkit.base.identity import git_dir_of, identify, processes_inside
from ktxkit.base.removal import delete
from ktxkit.store import jobs, resuming
from ktxkit.store.leases import LEASE, Place, path_of, placed, worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import Seen, why_dead
from ktxkit.store.worktrees import Registered
from ktxkit.store.world import World
from ktxkit.work.attic import to_attic

_NAME = re.compile(r"(?P<unit>(?P<position>[0-9]{4,})-.+?)(?:\.attempt-(?P<attempt>[0-9]+))?")


def row(world: World, entry: Registered, *, prune: bool) -> Document | None:
    """What is known of one; None where `entry` is none. With `prune` a dead one is cleared."""
    found = _found(world, entry.path)
    if found is None:
        return None
    place, lease, job = found
    busy = processes_inside(entry.path)
    seen = Seen(
        state="closed",
        outcome="crash",
        job_state=job["state"],
        busy=bool(busy),
        resumable=bool(resuming.command(world, job)),
    )
    made: Document = {
        **{key: lease[key] for key in ("path", "pathB64", "jobId", "unitKey", "attempt") if key in lease},
        "kind": "unit",
        "state": "closed",
        "present": True,
        **({"head": entry.head} if entry.head.strip("0") else {}),
        **({"branch": entry.branch} if entry.branch else {}),
        **({"busy": busy} if busy else {}),
    }
    why = why_dead(seen)
    return {**made, **({"dead": why} if why else {}), **(_cleared(place, lease) if why and prune else {})}


def _found(world: World, path: Path) -> tuple[Place, Document, Document] | None:
    """The place of its unit, a lease as it must have been, and its job."""
    parts = Path(os.path.relpath(path, world.store.path("worktrees"))).parts
    named = _NAME.fullmatch(parts[1]) if len(parts) == 2 else None
    job = world.store.read_optional(jobs.CONTRACT, names.job_doc(parts[0])) if named and parts[0] != ".." else None
    if named is None or job is None:
        return None
    position = int(named["position"])
    unit = next((unit for unit in jobs.units(job) if unit.position == position), None)
    if unit is None or names.unit_name(unit.position, unit.key) != named["unit"]:
        return None
    place = Place.of_unit(world, job, unit)
    lease, there, admin = place.read(LEASE), identify(path), git_dir_of(path)
    if lease is None or there is None or admin is None or path_of(lease) == path:
        return None
    if admin.parent != Path(os.path.realpath(world.repository.common_dir / "worktrees")):
        return None
    later = {key: value for key, value in lease.items() if key not in ("outcome", "leftOut")}
    own = {"attempt": int(named["attempt"] or 1), "state": "closed"}
    return place, {**placed(later, path, admin, there), **own}, job


def _cleared(place: Place, lease: Document) -> Document:
    path = path_of(lease)
    try:
        with place.locked(wait=0):
            kept = to_attic(place, lease, path)
            delete(worktrees(place.world).let_go(path))
    except KtxError as error:
        return {"kept": error.message[:8000]}
    return {"pruned": True, **({"atticRef": kept} if kept else {})}
