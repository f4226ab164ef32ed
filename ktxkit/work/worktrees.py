"""Worktrees of units: opened at a base, leased, closed without losing anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktxkit.base import process
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, CannotRun, Refused
from ktxkit.base.identity import processes_inside
from ktxkit.base.removal import delete
from ktxkit.base.rules.digests import digest_of
from ktxkit.store.jobs import Unit
from ktxkit.store.leases import LEASE, Place, must_be_ours, path_of, standing, worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import Open, decide_open
from ktxkit.store.world import World
from ktxkit.work.attic import to_attic
from ktxkit.work.closing import close
from ktxkit.work.opening import Wanted, make, recover_opening


def open_unit(
    world: World,
    job: Document,
    unit: Unit,
    *,
    base: str,
    policy: Mapping[str, Any] = {},
    copy: Sequence[str] = (),
    sparse: Sequence[str] = (),
    owned: bool = True,
) -> Document:
    """Open the unit's worktree, detached at `base`, no branch; returns its lease. An open one is handed out again.

    It lies in the store, wherever the world stands. `owned`: the lease ends with this process; where that is proven
    dead, the next opening takes the worktree over. Raises CannotRun, Refused (in use, other base), Blocked (another
    directory stands there); a failure leaves nothing behind.
    """
    place = Place.of_unit(world, job, unit)
    with place.locked():
        recover_opening(place)
        old = place.read(LEASE)
        usual = world.writable_store.path(names.worktree_dir(job["jobId"], unit.position, unit.key))
        what = decide_open(old, standing(world, old, usual), base)
        if what is Open.REUSE:
            assert old is not None
            return old
        path = make_way(place, what, old, usual)
        facts = _facts(job, unit, policy)
        if owned:
            facts["owner"] = process.this_owner().document()
        return make(place, Wanted(path, "unit", base, facts, copy=copy, sparse=sparse), old)


def _facts(job: Document, unit: Unit, policy: Mapping[str, Any]) -> Document:
    return {
        "jobId": job["jobId"],
        "unitKey": unit.key,
        "position": unit.position,
        "target": job["target"],
        **({"policy": dict(policy), "policyDigest": digest_of(dict(policy))} if policy else {}),
    }


def make_way(place: Place, what: Open, old: Document | None, usual: Path) -> Path:
    """Free the path for a new worktree, or refuse; returns where it goes. The lock is held."""
    path = path_of(old) if old is not None else usual
    if old is not None and what is not Open.BESIDE:
        must_be_ours(place.world, old)
    if what is Open.OTHER_BASE:
        assert old is not None
        raise Refused(f"the worktree is open at base {old['base']}", where=str(path), hint="close it first")
    if what is Open.OCCUPIED:
        pids = ", ".join(map(str, processes_inside(path)))
        raise Refused("processes of a dead owner still work in it", where=str(path), hint=f"end them first: {pids}")
    if what is Open.FOREIGN:
        raise Blocked("a directory that no lease means stands there", where=str(path), hint="look, and move it away")
    if old is not None and what is not Open.BESIDE:  # its work, if any, is kept; then it goes
        to_attic(place, old, path)
        delete(worktrees(place.world).let_go(path))
    return free_path(usual, 1 if old is None else old["attempt"] + 1)


def free_path(usual: Path, attempt: int) -> Path:
    """The usual path, or one beside it where evidence is kept there. Raises Blocked where both are taken."""
    beside = usual.with_name(f"{usual.name}.attempt-{attempt}")
    for path in (usual, beside):
        if not os.path.lexists(path):
            return path
    raise Blocked("a directory that no lease means stands there", where=str(beside), hint="look, and move it away")


def close_unit(
    world: World, job: Document, unit: Unit, outcome: str, *, discard: bool = False, reason: str = ""
) -> Document:
    """End the unit's lease; returns it as it is now. `success` and `empty` remove the checkout, the others keep it.

    Raises Refused where removing would lose work and `discard` is not given; with it the work goes to the attic first.
    """
    place = Place.of_unit(world, job, unit)
    if place.read(LEASE) is None:
        raise CannotRun(f"unit {unit.key!r} of {job['jobId']} has no worktree", hint="open it with worktree-open")
    return close(place, outcome, discard=discard, reason=reason)
