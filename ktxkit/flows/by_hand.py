"""A unit's worktree opened by hand: its job is made where it is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktxkit.contracts import Document
from ktxkit.core import names
from ktxkit.core.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.errors import CannotRun
from ktxkit.flows import jobs
from ktxkit.flows.leases import worktrees
from ktxkit.flows.worktrees import open_unit
from ktxkit.world import World


@dataclass(frozen=True)
class AskedUnit:
    """What the command line asks for. Facts of the job count where it is new, or must agree."""

    job: str
    unit: str
    base: str = ""
    target: str = ""
    connection: str = DEFAULT_CONNECTION
    source: str = DEFAULT_SOURCE
    after: Sequence[str] = ()
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    sl_disallowed: bool = False
    copy: Sequence[str] = ()
    sparse: Sequence[str] = ()


def open_by_hand(world: World, asked: AskedUnit) -> Document:
    """Open a unit of a job; returns its lease. The job, its base and the unit's position are made where they are new.

    Raises CannotRun, Refused, Blocked.
    """
    names.check_key(asked.unit)
    job = _ensure_job(world, asked)
    base = commit_of(world, asked.base) if asked.base else job["base"]
    for key in asked.after:
        jobs.unit_of(job, key)
    unit = jobs.add_unit(world, asked.job, asked.unit, asked.after)
    policy = {
        **({"allow": list(asked.allow)} if asked.allow else {}),
        **({"deny": list(asked.deny)} if asked.deny else {}),
        **({"slDisallowed": True} if asked.sl_disallowed else {}),
    }
    return open_unit(world, job, unit, base=base, policy=policy, copy=asked.copy, sparse=asked.sparse, owned=False)


def _ensure_job(world: World, asked: AskedUnit) -> Document:
    """The job with its base fixed, and the base kept at a ref: a projection's commit is on no branch."""
    names.check_job(asked.job)
    job = world.store.read_optional(jobs.CONTRACT, names.job_doc(asked.job))
    if job is None or asked.target:
        target = target_ref(world, asked.target)
        base = commit_of(world, asked.base or target) if job is None else None
        job = jobs.create(world, asked.job, target=target, base=base, connection=asked.connection, source=asked.source)
    if "base" not in job:
        fixed = commit_of(world, job["target"])
        job = jobs.change(world, asked.job, lambda document: document.setdefault("base", fixed))
    if world.git.resolve(names.base_ref(asked.job)) is None:
        worktrees(world).keep(names.base_ref(asked.job), job["base"])
    return job


def target_ref(world: World, target: str) -> str:
    """The full ref of the branch a job lands on: the one named, else the one checked out here."""
    git = world.git
    if target:
        ref = target if target.startswith("refs/") else f"refs/heads/{target}"
        if git.resolve(ref) is None:
            raise CannotRun(f"no branch {target!r}", hint="name an existing branch with --target")
        return ref
    head = git.run("symbolic-ref", "--quiet", "HEAD", ok=None)
    if head.status != 0:
        raise CannotRun("HEAD is detached: which branch shall the job land on?", hint="--target BRANCH")
    return head.text


def commit_of(world: World, revision: str) -> str:
    """The id of a commit that must exist."""
    found = world.git.resolve(revision)
    if found is None:
        raise CannotRun(f"no commit {revision!r}", hint="name an existing commit; an unborn branch has none")
    return found
