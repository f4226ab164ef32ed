"""Worktrees of units: opened at a base, leased, closed without losing anything.

The order makes every kill recoverable. Opening: note, worktree, files, lease, note away. Closing: attic ref, checkout
away by one rename, registration away, lease closed, files deleted. All of it under the unit's own lock, which the
kernel lets go when we die: whoever gets it finds a note without its lease, or a lease without its worktree, and
finishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktxkit.contracts import SCHEMA_VERSION, Document
from ktxkit.core import names
from ktxkit.core.digests import digest_of
from ktxkit.core.text import path_fields
from ktxkit.core.worktrees import KEPT, Open, decide_open, unsaved
from ktxkit.effects import process
from ktxkit.effects.clock import timestamp
from ktxkit.effects.identity import identify, processes_inside
from ktxkit.effects.lock import nonce
from ktxkit.effects.worktrees import delete
from ktxkit.errors import Blocked, CannotRun, Refused
from ktxkit.flows.jobs import Unit
from ktxkit.flows.leases import (
    LEASE,
    OPENING,
    SENTINEL,
    Place,
    path_of,
    recover_opening,
    standing,
    to_attic,
    work_in,
    worktrees,
)
from ktxkit.world import World

PASSED_ON = ("GIT_LFS_SKIP_SMUDGE",)  # what git's filters may see of the caller's git environment


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

    `owned`: the lease ends with this process; where it is proven dead, the next opening takes the worktree over.
    Raises CannotRun, Refused (in use, other base), Blocked (another directory stands there); a failure leaves nothing.
    """
    place = Place.of_unit(world, job, unit)
    with place.locked():
        recover_opening(place)
        old = place.read(LEASE)
        wanted = world.writable_store.path(names.worktree_dir(job["jobId"], unit.position, unit.key))
        what = decide_open(old, standing(old, wanted), base)
        if what is Open.REUSE:
            assert old is not None
            return old
        path = _make_way(place, what, old, wanted)
        facts = _unit_facts(job, unit, base, policy)
        if owned:
            facts["owner"] = process.this_owner().document()
        return _open(place, path, facts, old, copy=copy, sparse=sparse)


def _unit_facts(job: Document, unit: Unit, base: str, policy: Mapping[str, Any]) -> Document:
    return {
        "jobId": job["jobId"],
        "unitKey": unit.key,
        "position": unit.position,
        "mode": "unit",
        "base": base,
        "target": job["target"],
        "detached": True,
        **({"policy": dict(policy), "policyDigest": digest_of(dict(policy))} if policy else {}),
    }


def _make_way(place: Place, what: Open, old: Document | None, wanted: Path) -> Path:
    """Free the path for a new worktree, or refuse; returns where it goes."""
    path = path_of(old) if old is not None else wanted
    if what is Open.OTHER_BASE:
        assert old is not None
        raise Refused(f"the worktree is open at base {old['base']}", where=str(path), hint="close it first")
    if what is Open.OCCUPIED:
        pids = ", ".join(map(str, processes_inside(path)))
        raise Refused("processes of a dead owner still work in it", where=str(path), hint=f"end them first: {pids}")
    if what is Open.FOREIGN:
        raise Blocked("another directory stands where the lease's worktree was", where=str(path), hint="move it away")
    if what is Open.BESIDE:
        assert old is not None
        return wanted.with_name(f"{wanted.name}.attempt-{old['attempt'] + 1}")
    if what in (Open.TAKE_OVER, Open.LEFTOVER):
        to_attic(place, old, path)
        delete(worktrees(place.world).let_go(path))
    return wanted


def _open(
    place: Place, path: Path, facts: Document, old: Document | None, *, copy: Sequence[str], sparse: Sequence[str]
) -> Document:
    world, mark = place.world, nonce()
    now = timestamp(world.clock.now())
    where = path_fields(bytes(path))
    note = {"schemaVersion": SCHEMA_VERSION, "kind": OPENING, "nonce": mark, "mode": facts["mode"], "at": now}
    place.write(OPENING, {**note, "base": facts["base"], **where}, durable=False)
    try:
        made = worktrees(world)
        admin = made.add(path, facts["base"], sparse)
        passed = {key: world.env[key] for key in PASSED_ON if key in world.env}
        made.populate(path, passed, plain=facts["mode"] == "unit")
        lease = _lease(path, admin, facts, old, {"nonce": mark, "openedAt": now})
        place.write(LEASE, lease)
    except BaseException:
        recover_opening(place)
        raise
    place.remove(OPENING)
    return lease


def _lease(path: Path, admin: Path, facts: Document, old: Document | None, more: Document) -> Document:
    identity = identify(path)
    assert identity is not None, "git made the worktree"
    number = 1 if old is None else old["attempt"] + 1
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": LEASE,
        "leaseId": more["nonce"],
        **facts,
        "generation": 1,
        "attempt": number,
        "fence": number,
        "leaseEpoch": number,
        **path_fields(bytes(path)),
        **path_fields(bytes(admin), "adminDir"),
        "worktreeId": admin.name,
        **identity.document(),
        **more,
        "state": "open",
    }


def close_unit(
    world: World, job: Document, unit: Unit, outcome: str, *, discard: bool = False, reason: str = ""
) -> Document:
    """End the unit's lease; returns it as it is now. `success` and `empty` remove the checkout, the others keep it.

    Raises Refused where removing would lose work and `discard` is not given; with it the work goes to the attic first.
    """
    place = Place.of_unit(world, job, unit)
    with place.locked():
        recover_opening(place)
        lease = place.read(LEASE)
        if lease is None:
            raise CannotRun(f"unit {unit.key!r} of {job['jobId']} has no worktree", hint="open it with worktree-open")
        if lease["state"] == "closed":
            if lease.get("outcome") == outcome:
                return lease
            raise Refused(f"it was closed as {lease.get('outcome', 'unknown')} already", where=str(path_of(lease)))
        if outcome in KEPT:
            return _keep(place, lease, outcome, reason)
        return _remove(place, lease, outcome, discard=discard)


def _remove(place: Place, lease: Document, outcome: str, *, discard: bool) -> Document:
    path = path_of(lease)
    found = standing(lease, path)
    if found.present and not found.same:
        raise Blocked("another directory stands where the lease's worktree was", where=str(path), hint="move it away")
    kept = ""
    if found.present:
        _, work = work_in(place, lease, path)
        lost = unsaved(work)
        if lost and not discard:
            hint = (
                "collect it, or close with --discard (it goes to the attic first), or as conflict or crash to keep it"
            )
            raise Refused(f"closing would lose {lost}", where=str(path), hint=hint)
        kept = to_attic(place, lease, path)
    trash = worktrees(place.world).let_go(path)
    closed = _closed(place, lease, outcome, **({"atticRef": kept} if kept else {}))
    delete(trash)
    return closed


def _keep(place: Place, lease: Document, outcome: str, reason: str) -> Document:
    path = path_of(lease)
    head = place.world.git.at(path).resolve("HEAD") if identify(path) is not None else None
    same = ("jobId", "unitKey", "position", "attempt", "base", "path", "pathB64", "branch")
    sentinel: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": SENTINEL,
        "outcome": outcome,
        "at": timestamp(place.world.clock.now()),
        **{key: lease[key] for key in same if key in lease},
        **({"head": head} if head else {}),
        **({"reason": reason[:8000]} if reason else {}),
    }
    place.write(SENTINEL, sentinel)
    return _closed(place, lease, outcome)


def _closed(place: Place, lease: Document, outcome: str, **facts: Any) -> Document:
    now = timestamp(place.world.clock.now())
    closed = {**lease, **facts, "state": "closed", "outcome": outcome, "closedAt": now}
    place.write(LEASE, closed)
    return closed
