"""A unit's worktree opened by hand: its job is made where it is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktxkit.base.contracts import Document
from ktxkit.store import jobs
from ktxkit.store.leases import worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.world import World
from ktxkit.work.worktrees import open_unit


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
    base = jobs.commit_of(world, asked.base) if asked.base else job["base"]
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
        target = jobs.target_ref(world, asked.target)
        base = jobs.commit_of(world, asked.base or target) if job is None else None
        job = jobs.create(world, asked.job, target=target, base=base, connection=asked.connection, source=asked.source)
    if "base" not in job:
        fixed = jobs.commit_of(world, job["target"])
        job = jobs.change(world, asked.job, lambda document: document.setdefault("base", fixed))
    if world.git.resolve(names.base_ref(asked.job)) is None:
        worktrees(world).keep(names.base_ref(asked.job), job["base"])
    return job
