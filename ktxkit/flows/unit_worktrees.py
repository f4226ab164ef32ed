"""A unit's worktree opened by hand: its job is made where it is new."""

from __future__ import annotations

import argparse

from ktxkit.contracts import Document
from ktxkit.core import names
from ktxkit.errors import CannotRun
from ktxkit.flows import jobs
from ktxkit.flows.leases import worktrees
from ktxkit.flows.worktrees import open_unit
from ktxkit.world import World


def open_by_hand(world: World, args: argparse.Namespace) -> Document:
    """Open `args.unit` of `args.job` from the options of `worktree-open`. Raises CannotRun, Refused, Blocked."""
    job = ensure_job(world, args)
    base = _commit(world, args.base) if args.base else job["base"]
    for key in args.after:
        jobs.unit_of(job, key)
    unit = jobs.add_unit(world, args.job, args.unit, args.after)
    policy = {
        **({"allow": args.allow} if args.allow else {}),
        **({"deny": args.deny} if args.deny else {}),
        **({"slDisallowed": True} if args.sl_disallowed else {}),
    }
    return open_unit(world, job, unit, base=base, policy=policy, sparse=args.sparse, owned=False)


def ensure_job(world: World, args: argparse.Namespace) -> Document:
    """The job, made where it is new, with its base fixed and kept at a ref."""
    names.check_job(args.job)
    job = world.store.read_optional(jobs.CONTRACT, names.job_doc(args.job))
    if job is None or args.target:
        target = target_ref(world, args.target)
        base = _commit(world, args.base or target) if job is None else None
        job = jobs.create(world, args.job, target=target, connection=args.connection, source=args.source, base=base)
    if "base" not in job:
        base = _commit(world, job["target"])
        job = jobs.change(world, args.job, lambda document: document.setdefault("base", base))
    worktrees(world).keep(names.base_ref(args.job), job["base"])
    return job


def target_ref(world: World, target: str | None) -> str:
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


def _commit(world: World, revision: str) -> str:
    found = world.git.resolve(revision)
    if found is None:
        raise CannotRun(f"no commit {revision!r}", hint="name an existing commit; an unborn branch has none")
    return found
