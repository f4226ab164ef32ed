"""Ending a lease: the checkout goes only where nothing is lost by it, and what did not land goes to the attic first.

The order: attic ref, checkout away by one rename, registration away, branch away, lease closed, files deleted. A kill
in between leaves an open lease, and the next closing or opening finds each step done or to do.
"""

from __future__ import annotations

from typing import Any

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Blocked, CannotRun, Refused
from ktxkit.base.identity import identify
from ktxkit.base.removal import delete
from ktxkit.base.rules.text import path_fields
from ktxkit.observer.observe import sealing_hold
from ktxkit.observer.observer_status import who
from ktxkit.store.leases import LEASE, SENTINEL, Place, must_be_ours, path_of, standing, worktrees
from ktxkit.store.rules.worktrees import KEPT, Work, can_be_kept, unsaved, way_out
from ktxkit.work.attic import NAMED, to_attic, work_in
from ktxkit.work.opening import recover_opening

SAMPLE = 20  # names of an account that a lease shows
SAME = ("jobId", "unitKey", "position", "attempt", "base", "path", "pathB64", "branch")


def close(place: Place, outcome: str, *, discard: bool = False, reason: str = "") -> Document:
    """End the lease of a place; returns it as it is now. Closing again with the same outcome changes nothing."""
    with place.locked():
        recover_opening(place)
        lease = place.read(LEASE)
        if lease is None:
            raise CannotRun(f"{place.name} has no worktree", hint="open it with worktree-open")
        if lease["state"] == "closed":
            if lease.get("outcome") == outcome:
                return lease
            said = f"it was closed as {lease.get('outcome', 'unknown')} already"
            raise Refused(said, where=str(path_of(lease)), hint="worktree-open opens the unit again")
        if lease["mode"] == "in-place":
            return closed(place, lease, outcome)
        must_be_ours(place.world, lease)
        return _keep(place, lease, outcome, reason) if outcome in KEPT else _remove(place, lease, outcome, discard)


def _remove(place: Place, lease: Document, outcome: str, discard: bool) -> Document:
    path, work = path_of(lease), None
    found = standing(place.world, lease, path)
    if found.present and not found.same:
        raise Blocked("another directory stands where the lease's worktree was", where=str(path), hint="move it away")
    if found.present:
        _must_not_be_held(place, lease)
        work = work_in(place, lease, path)
        lost = unsaved(work)
        if lost and (not discard or not can_be_kept(work)):
            hint = way_out(work)
            raise Refused(f"closing would lose {lost}", where=str(path), hint=hint)
        if work.left_out and not discard:
            sample = [path_fields(name) for name in work.left_out[:SAMPLE]]
            return closed(place, lease, outcome, leftOut={"count": len(work.left_out), "sample": sample})
    return remove(place, lease, outcome, discard=discard, work=work)


def _must_not_be_held(place: Place, lease: Document) -> None:
    """What was written after the attempt's end is looked at, and kept, before anything goes."""
    held = sealing_hold(place, lease)
    if held:
        hint = f"worktree-watch --once --preserve {who(lease)} keeps it; then close again"
        raise Blocked(f"the worktree cannot be removed: {held}", where=str(path_of(lease)), hint=hint)


def remove(place: Place, lease: Document, outcome: str, *, discard: bool, work: Work | None = None) -> Document:
    """Remove checkout, registration and a branch that was made for it; work that is nowhere else is kept at the attic.

    A branch with commits of its own stays, unless `discard` is given. `work`: what was just read of the checkout. The
    lock is held.
    """
    path, made = path_of(lease), worktrees(place.world)
    kept = to_attic(place, lease, path, branch_goes=discard, work=work)
    trash = made.let_go(path)
    branch = {"branchKept": True} if _branch_stays(place, lease, discard=discard) else {}
    done = closed(place, lease, outcome, **({"atticRef": kept} if kept else {}), **branch)
    delete(trash)
    return done


def _branch_stays(place: Place, lease: Document, *, discard: bool) -> bool:
    """Delete the branch that was made for the worktree; True where it stays for the commits that are only there."""
    ref, git = lease.get("branch", ""), worktrees(place.world).git  # the world may stand in what just went
    tip = git.resolve(ref) if lease.get("createdBranch") else None
    if tip is None:
        return False
    others = (f"--exclude={ref.removeprefix('refs/heads/')}", *NAMED)
    alone = tip != lease["base"] and git.text("rev-list", "--max-count=1", tip, "--not", lease["base"], *others)
    if alone and not discard:
        return True
    return not worktrees(place.world).delete_branch(ref, tip)


def _keep(place: Place, lease: Document, outcome: str, reason: str) -> Document:
    path = path_of(lease)
    there = place.world.git.at(path) if identify(path) is not None else None
    head = there.resolve("HEAD") if there is not None else None
    sentinel: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": SENTINEL,
        "outcome": outcome,
        "at": timestamp(place.world.clock.now()),
        **{key: lease[key] for key in SAME if key in lease},
        **({"head": head} if head else {}),
        **({"reason": reason[:8000]} if reason else {}),
    }
    place.write(SENTINEL, sentinel)
    return closed(place, lease, outcome)


def closed(place: Place, lease: Document, outcome: str, **facts: Any) -> Document:
    """Write the lease as closed; returns it."""
    now = timestamp(place.world.clock.now())
    done = {**lease, **facts, "state": "closed", "outcome": outcome, "closedAt": now}
    place.write(LEASE, done)
    return done
