"""Worktrees of earlier attempts of a unit. They were kept as evidence; the lease is of a later attempt, beside them.

Ending a lease: the checkout goes only where nothing is lost by it, and what did not land goes to the attic first.

The order: attic ref, checkout away by one rename, registration away, branch away, lease closed, files deleted. A kill
in between leaves an open lease, and the next closing or opening finds each step done or to do.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import kinds, owners, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, CannotRun, KtxError, Refused
from ktxkit.base.identity import git_dir_of, identify, processes_inside
from ktxkit.base.removal import delete
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields
from ktxkit.git.git import Git
from ktxkit.git.repository import Registered
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import (
    LeaseLocation,
    must_be_held_here,
    must_be_ours,
    must_not_be_in_use,
    path_of,
    placed,
    presence,
    unit_options,
    worktrees,
)
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import (
    KEPT,
    HeldWork,
    LeaseFacts,
    Open,
    can_be_kept,
    decide_open,
    unsaved,
    way_out,
    why_dead,
)
from ktxkit.store.world import World
from ktxkit.work.attic import held_by, to_attic, work_in
from ktxkit.work.opening import Wanted, copy_out, make, matching, recover_opening, unit_facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import (
        KeptFiles,
        Lease,
        LeaseOutcome,
        LeasePolicy,
        PathAccount,
        Sentinel,
        SentinelOutcome,
        WorktreeRow,
    )

    class Pruning(TypedDict, total=False):
        """What became of a worktree that was to be cleared."""

        pruned: bool
        atticRef: str
        kept: str
        ignored: PathAccount
        ignoredKept: KeptFiles

    class ClosedFacts(TypedDict, total=False):
        """What the closing adds to a lease beside its outcome."""

        atticRef: str
        branchKept: bool
        leftOut: PathAccount
        ignored: PathAccount
        ignoredKept: KeptFiles
        busy: list[int]


OF_LEASE: Final = ("pathB64", "jobId", "unitKey")
_NAME = re.compile(r"(?P<unit>(?P<position>[0-9]{4,})-.+?)(?:\.attempt-(?P<attempt>[0-9]+))?")


class RemovalOptions(NamedTuple):
    """How worktrees are removed. `keep_ignored`: patterns, as in .gitignore, of ignored files that are copied out
    first. `force`: also where processes stand inside, which are named then. `going` is told of a worktree whose ignored
    files go with it, before they do."""

    keep_ignored: tuple[str, ...] = ()
    force: bool = False
    going: Callable[[Path, PathAccount], None] | None = None


PLAIN: Final = RemovalOptions()


def row(world: World, entry: Registered, *, prune: RemovalOptions | None) -> WorktreeRow | None:
    """What is known of one; None where `entry` is none. With `prune` a dead one is cleared."""
    found = earlier_attempt(world, entry.path)
    if found is None:
        return None
    place, lease, job = found
    busy = processes_inside(entry.path)
    seen = LeaseFacts(
        state="closed",
        outcome="crash",
        job_state=job.state,
        busy=bool(busy),
        locked=entry.locked,
        resumable=bool(job.next_command()),
    )
    made: WorktreeRow = {
        "path": lease["path"],
        "attempt": lease["attempt"],
        "kind": "unit",
        "state": "closed",
        "present": True,
    }
    for key in OF_LEASE:
        if key in lease:
            made[key] = lease[key]
    made |= {"head": entry.head} if entry.head.strip("0") else {}
    made |= {"branch": entry.branch} if entry.branch else {}
    made |= {"busy": busy} if busy else {}
    why = why_dead(seen._replace(busy=False))
    if why and busy and (prune is None or not prune.force):
        return {**made, "kept": in_use(busy)}
    made |= {"dead": why} if why else {}
    return {**made, **_cleared(place, lease, prune)} if why and prune is not None else made


def in_use(busy: Sequence[int]) -> str:
    """Why a worktree stays that would be cleared otherwise."""
    return f"processes stand in it: {', '.join(map(str, busy[:SAMPLE]))}; --force clears it all the same"


def ignored_in(location: LeaseLocation, lease: Lease) -> Pruning:
    """The ignored files that would go with a worktree, counted and named; nothing where it cannot be read."""
    path = path_of(lease)
    try:
        work = work_in(location, lease, path) if identify(path) is not None else None
    except KtxError:
        return {}  # clearing it says why it cannot be read
    return {"ignored": _account(work.ignored)} if work is not None and work.ignored else {}


def earlier_attempt(world: World, path: Path) -> tuple[LeaseLocation, Lease, ActiveJob] | None:
    """The place of its unit, a lease as it must have been, and its job."""
    parts = Path(os.path.relpath(path, world.store.path("worktrees"))).parts
    named = _NAME.fullmatch(parts[1]) if len(parts) == 2 else None
    job = ActiveJob.find(world, parts[0]) if named and parts[0] != ".." else None
    if named is None or job is None:
        return None
    position = int(named["position"])
    unit = next((unit for unit in job.units if unit.position == position), None)
    if unit is None or names.unit_name(unit.position, unit.key) != named["unit"]:
        return None
    place = LeaseLocation.of_unit(job, unit)
    lease, there, admin = place.lease(), identify(path), git_dir_of(path)
    if lease is None or there is None or admin is None or path_of(lease) == path:
        return None
    if admin.parent != Path(os.path.realpath(world.repository.common_dir / "worktrees")):
        return None
    later = placed(lease, path, admin, there)
    later.pop("outcome", None)
    later.pop("leftOut", None)
    return place, {**later, "attempt": int(named["attempt"] or 1), "state": "closed"}, job


def _cleared(location: LeaseLocation, lease: Lease, options: RemovalOptions) -> Pruning:
    path = path_of(lease)
    try:
        with location.locked(wait=0):
            work = work_in(location, lease, path) if identify(path) is not None else None
            kept = to_attic(location, lease, path, why="an earlier attempt was cleared", work=work)
            gone, copied = _ignored_files(location, lease, work, options)
            delete(worktrees(location.world).let_go(path))
    except KtxError as error:
        return {"kept": error.message[:8000]}
    pruned: Pruning = {"pruned": True}
    pruned |= {"ignored": gone} if gone else {}
    pruned |= {"ignoredKept": copied} if copied else {}
    pruned |= {"atticRef": kept} if kept else {}
    return pruned


INTERRUPTED = "the job was interrupted"  # why a worktree is kept that nothing went wrong in
WOULD_LOSE = "closing would lose"
SAMPLE = 20  # names of an account that a lease shows
SAME: Final = ("jobId", "unitKey", "position", "pathB64", "branch")


def close(
    location: LeaseLocation,
    outcome: LeaseOutcome,
    *,
    discard: bool = False,
    reason: str = "",
    options: RemovalOptions = PLAIN,
    job: ActiveJob | None = None,
) -> Lease:
    """End the lease of a place; returns it as it is now. Closing again with the same outcome changes nothing.

    `job`: that of the place, where it is at hand; the trace of a job tells of the closing.
    """
    lease = location.lease()
    done = lease is None or lease.get("outcome") == outcome or "unitKey" not in lease
    job = None if done else job or ActiveJob.find(location.world, location.job)
    if job is None or lease is None:
        return _close(location, outcome, discard=discard, reason=reason, options=options)
    facts = {"outcome": outcome, "path": lease["path"], "reason": reason or None}
    with job.tracer.bound(unitKey=lease["unitKey"]).timed("work_unit", "close_worktree", facts) as told:
        ended = _close(location, outcome, discard=discard, reason=reason, options=options)
        told |= {"state": ended["state"], "atticRef": ended.get("atticRef")}
    return ended


def _opens_again(location: LeaseLocation, lease: Lease) -> str:
    """The command that opens a closed worktree again."""
    if "unitKey" in lease:
        return f"worktree-open {unit_options(lease)} opens the unit again"
    branch = lease.get("branch", "")
    there = branch and location.world.git.resolve(branch) is not None
    name = shlex.quote(branch.removeprefix("refs/heads/") or location.name)
    return f"worktree-open {'--ref ' if there else ''}{name} opens it again"


def _close(
    location: LeaseLocation, outcome: LeaseOutcome, *, discard: bool, reason: str, options: RemovalOptions
) -> Lease:
    with location.locked():
        recover_opening(location)
        lease = location.lease()
        if lease is None:
            raise CannotRun(f"{location.name} has no worktree", hint="open it with worktree-open")
        if lease["state"] == "closed":
            if lease.get("outcome") == outcome:
                return lease
            if _was_interrupted(location, lease) and outcome not in KEPT:  # the job went on with what it had collected
                must_be_ours(location.world, lease)
                return _remove(location, lease, outcome, discard, options)
            said = f"it was closed as {lease.get('outcome', 'unknown')} already"
            raise Refused(said, location=str(path_of(lease)), hint=_opens_again(location, lease))
        if lease["mode"] == "in-place":
            return closed(location, lease, outcome)
        must_be_ours(location.world, lease)
        must_be_held_here(location.world, lease, keeps=outcome in KEPT)
        if outcome == "conflict" or outcome == "crash":
            return _keep(location, lease, outcome, reason)
        return _remove(location, lease, outcome, discard, options)


def _remove(
    location: LeaseLocation, lease: Lease, outcome: LeaseOutcome, discard: bool, options: RemovalOptions
) -> Lease:
    path, work = path_of(lease), None
    found = presence(location.world, lease, path)
    if found.present and not found.same:
        at = str(path)
        raise Blocked("another directory stands where the lease's worktree was", location=at, hint="move it away")
    if found.present:
        _must_not_be_held(location, lease)
        _must_be_left(path, options)
        work = work_in(location, lease, path)
        lost = unsaved(work)
        if lost and (not discard or not can_be_kept(work)):
            raise Refused(f"{WOULD_LOSE} {lost}", location=str(path), hint=way_out(work))
        if work.left_out and not discard:
            return closed(location, lease, outcome, leftOut=_account(work.left_out))
    return remove(location, lease, outcome, discard=discard, work=work, options=options)


def _account(paths: Sequence[bytes]) -> PathAccount:
    return {"count": len(paths), "sample": [path_fields(name) for name in paths[:SAMPLE]]}


def _was_interrupted(location: LeaseLocation, lease: Lease) -> bool:
    """Whether a closed worktree is kept for an interruption only: who resumes the job needs it, nobody after that."""
    found = location.read(kinds.SENTINEL)
    of_this = found is not None and (found.get("reason"), found.get("attempt")) == (INTERRUPTED, lease["attempt"])
    return of_this and lease.get("outcome") in KEPT


def _others_inside(path: Path) -> list[int]:
    """The processes that work there, but for whoever closes it."""
    mine, us = os.getpid(), process.ancestors(os.getpid())
    return [pid for pid in processes_inside(path) if pid not in us and mine not in process.ancestors(pid)]


def _must_be_left(path: Path, options: RemovalOptions) -> None:
    """Nobody works there but whoever closes it. Raises Refused that names the processes."""
    if others := [] if options.force else _others_inside(path):
        hint = "end them, then close again; --force takes the directory from under them"
        raise Refused(f"processes stand in it: {', '.join(map(str, others[:SAMPLE]))}", location=str(path), hint=hint)


def _ignored_files(
    location: LeaseLocation, lease: Lease, work: HeldWork | None, options: RemovalOptions
) -> tuple[PathAccount | None, KeptFiles | None]:
    """The ignored files that go with a worktree, and those that were copied out before, as they were asked for."""
    gone = work.ignored if work is not None else ()
    if not gone or not options.keep_ignored:
        return _account(gone) if gone else None, None
    git = worktrees(location.world).at(path_of(lease))
    folder = names.ignored_dir(location.job, location.name, lease["attempt"])
    target = free_path(location.world.writable_store.path(folder), lease["attempt"])
    kept = copy_out(git, target, options.keep_ignored)
    left = frozenset(matching(git, ("*",))[0]) - frozenset(kept)
    gone = tuple(path for path in gone if _any_left(path, left))
    copied: KeptFiles | None = {**path_fields(bytes(target)), "count": len(kept)} if kept else None
    return _account(gone) if gone else None, copied


def _any_left(path: bytes, left: frozenset[bytes]) -> bool:
    """Whether an ignored file, or a directory of which all is ignored (`path/`), has something that was not kept."""
    return path in left or (path.endswith(b"/") and any(one.startswith(path) for one in left))


def _must_not_be_held(location: LeaseLocation, lease: Lease) -> None:
    """What was written after the attempt's end is looked at, and kept, before anything goes."""
    if "observer" not in lease and not location.world.store.exists(names.observer_journal(lease)):
        return  # nobody watched
    from ktxkit.observer.observe import sealing_hold

    if held := sealing_hold(location, lease):
        hint = f"worktree-watch --once --preserve {unit_options(lease)} keeps it; then close again"
        raise Blocked(f"the worktree cannot be removed: {held}", location=str(path_of(lease)), hint=hint)


def remove(
    location: LeaseLocation,
    lease: Lease,
    outcome: LeaseOutcome,
    *,
    discard: bool,
    work: HeldWork | None = None,
    why: str = "",
    options: RemovalOptions = PLAIN,
) -> Lease:
    """Remove checkout, registration and a branch that was made for it; work that is nowhere else is kept at the attic.

    A branch with commits of its own stays, unless `discard` is given. `work`: what was just read of the checkout.
    `why`: for the attic, in place of how it was closed. The lock is held.
    """
    path, made = path_of(lease), worktrees(location.world)
    must_not_be_in_use(location.world, lease, force=options.force)
    work = work or (work_in(location, lease, path) if identify(path) is not None else None)
    why = why or f"closed as {outcome}{' with --discard' if discard else ''}"
    kept = to_attic(location, lease, path, why=why, branch_goes=discard, work=work)
    gone, copied = _ignored_files(location, lease, work, options)
    facts: ClosedFacts = {"ignored": gone} if gone else {}
    facts |= {"ignoredKept": copied} if copied else {}
    if gone is not None and options.going is not None:
        options.going(path, gone)
    facts |= {"busy": busy} if options.force and (busy := _others_inside(path)) else {}
    trash = made.let_go(path)
    facts |= {"atticRef": kept} if kept else {}
    facts |= {"branchKept": True} if _branch_stays(location, lease, discard=discard) else {}
    done = closed(location, lease, outcome, **facts)
    delete(trash)
    return done


def _branch_stays(location: LeaseLocation, lease: Lease, *, discard: bool) -> bool:
    """Delete the branch that was made for the worktree; True where it stays for the commits that are only there."""
    ref, made = lease.get("branch", ""), worktrees(location.world)  # the world may stand in what just went
    tip = made.git.resolve(ref) if lease.get("createdBranch") else None
    if tip is None:
        return False
    held = held_by(location, lease, tip, attic=discard)
    return held is None or not made.delete_branch(ref, tip, held)


def _head_of(git: Git) -> str:
    """The commit of HEAD; empty where the worktree is none any more: a unit may have taken its registration away."""
    answer = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}", ok=(0, 1, 128))
    return answer.text if answer.status == 0 else ""


def _keep(location: LeaseLocation, lease: Lease, outcome: SentinelOutcome, reason: str) -> Lease:
    path = path_of(lease)
    there = location.world.git.at(path) if identify(path) is not None else None
    head = _head_of(there) if there is not None else None
    sentinel: Sentinel = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "sentinel",
        "outcome": outcome,
        "at": timestamp(location.world.clock.now()),
        "attempt": lease["attempt"],
        "base": lease["base"],
        "path": lease["path"],
    }
    for key in SAME:
        if key in lease:
            sentinel[key] = lease[key]
    sentinel |= {"head": head} if head else {}
    sentinel |= {"reason": reason[:8000]} if reason else {}
    location.write(kinds.SENTINEL, sentinel)
    return closed(location, lease, outcome)


def closed(location: LeaseLocation, lease: Lease, outcome: LeaseOutcome, **facts: Unpack[ClosedFacts]) -> Lease:
    """Write the lease as closed; returns it."""
    now = timestamp(location.world.clock.now())
    done: Lease = {**lease, **facts, "state": "closed", "outcome": outcome, "closedAt": now}
    location.write(kinds.LEASE, done)
    return done


def open_unit(
    job: ActiveJob,
    unit: Unit,
    *,
    base: str,
    policy: LeasePolicy | None = None,
    copy: Sequence[str] = (),
    sparse: Sequence[str] = (),
    owned: bool = True,
) -> Lease:
    """Open the unit's worktree, detached at `base`, no branch; returns its lease. An open one is handed out again.

    It lies in the store, wherever the world stands. `owned`: the lease ends with this process; where that is proven
    dead, the next opening takes the worktree over. Raises CannotRun, Refused (in use, other base), Blocked (another
    directory stands there); a failure leaves nothing behind.
    """
    place = LeaseLocation.of_unit(job, unit)
    with place.locked():
        recover_opening(place)
        old = place.lease()
        usual = job.world.writable_store.path(names.worktree_dir(job.id, unit.position, unit.key))
        what = decide_open(old, presence(job.world, old, usual), base)
        if what is Open.REUSE:
            assert old is not None
            return old
        if what is Open.BESIDE and old is not None and _was_interrupted(place, old):
            what = Open.LEFTOVER
        with job.tracer.bound(unitKey=unit.key).timed("work_unit", "open_worktree", {"base": base}) as told:
            path = make_way(place, what, old, usual)
            facts = unit_facts(job, unit, policy)
            if owned:
                facts["owner"] = owners.hold(job.world.writable_store.root, named=True).document()
            lease = make(place, Wanted(path, "unit", base, facts, copy=copy, sparse=sparse), old)
            told |= {"path": lease["path"], "attempt": lease["attempt"]}
        return lease


def make_way(location: LeaseLocation, what: Open, old: Lease | None, usual: Path) -> Path:
    """Free the path for a new worktree, or refuse; returns where it goes. The lock is held."""
    path = path_of(old) if old is not None else usual
    if old is not None and what is not Open.BESIDE:
        must_be_ours(location.world, old)
    if what is Open.ELSEWHERE:
        assert old is not None
        must_be_held_here(location.world, old)
    if what is Open.OTHER_BASE:
        assert old is not None
        raise Refused(f"the worktree is open at base {old['base']}", location=str(path), hint="close it first")
    if what is Open.OCCUPIED:
        pids = ", ".join(map(str, processes_inside(path)))
        raise Refused(
            "its owner has ended; processes still work in it", location=str(path), hint=f"end them first: {pids}"
        )
    if what is Open.FOREIGN:
        raise Blocked("a directory that no lease means stands there", location=str(path), hint="look, and move it away")
    if old is not None and what is not Open.BESIDE:  # its work, if any, is kept; then it goes
        to_attic(location, old, path, why="it was opened anew")
        delete(worktrees(location.world).let_go(path))
    return free_path(usual, 1 if old is None else old["attempt"] + 1)


def free_path(usual: Path, attempt: int) -> Path:
    """The usual path, or one beside it where evidence is kept there. Raises Blocked where both are taken."""
    beside = usual.with_name(f"{usual.name}.attempt-{attempt}")
    for path in (usual, beside):
        if not os.path.lexists(path):
            return path
    raise Blocked("a directory that no lease means stands there", location=str(beside), hint="look, and move it away")


def close_unit(job: ActiveJob, unit: Unit, outcome: LeaseOutcome, *, discard: bool = False, reason: str = "") -> Lease:
    """End the unit's lease; returns it as it is now. `success` and `empty` remove the checkout, the others keep it.

    Raises Refused where removing would lose work and `discard` is not given; with it the work goes to the attic first.
    """
    place = LeaseLocation.of_unit(job, unit)
    if place.lease() is None:
        raise CannotRun(f"unit {unit.key!r} of {job.id} has no worktree", hint="open it with worktree-open")
    return close(place, outcome, discard=discard, reason=reason, job=job)
