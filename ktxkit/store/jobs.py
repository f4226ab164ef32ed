"""Jobs of the store: made once, listed, changed only under their lock; and which of them a command is in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract, CannotRun, Refused
from ktxkit.base.rules.text import nearest, path_bytes
from ktxkit.git.repository import missing_revision
from ktxkit.store.active import ActiveJob, Unit, claim, locked, other_documents, require_not_lost
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.world import World

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import DamagedDocument, Job, JobFileSource

    class JobFacts(TypedDict, total=False):
        """What a new job may say beside its target and units."""

        syncId: str
        jobFileDigest: str
        jobFileSource: JobFileSource


FACTS: Final = ("syncId", "jobFileDigest", "jobFileSource")


def begun(world: World) -> list[str]:
    """Ids of the jobs that have begun. A directory with a job file at most is left of a start that was killed."""
    return [name for name in world.store.children("jobs") if other_documents(world, name)]


def readable(world: World, damaged: list[DamagedDocument] | None = None) -> Iterator[ActiveJob]:
    """Every job by id. One whose document cannot be read, or is lost, is none of them; where goes to `damaged`."""
    for name in world.store.children("jobs"):
        try:
            job = ActiveJob.find(world, name)
            if job is None:
                require_not_lost(world, name)
        except BrokenContract as error:
            if damaged is not None:
                damaged.append({"where": error.location, "message": error.message})
            continue
        if job is not None:
            yield job


def sweep_unbegun(world: World) -> None:
    """Remove the half-written documents that killed starts of jobs left; their directories hold nothing else."""
    for name in set(world.store.children("jobs")) - set(begun(world)):
        files.sweep_asides(world.store.path(names.job_dir(name)), world.store.root)


def create(
    world: World,
    job_id: str,
    *,
    target: str,
    connection: str = DEFAULT_CONNECTION,
    source: str = DEFAULT_SOURCE,
    base: str | None = None,
    units: Sequence[Unit] = (),
    **facts: Unpack[JobFacts],
) -> ActiveJob:
    """Make the job's document, or return the one that is there. `target` is a full ref; `base` a commit id.

    Raises CannotRun where the target does not exist, or an existing job has another target or base, and Refused where
    the store is another repository's.
    """
    names.check_job(job_id)
    if job_id == "adhoc":
        raise CannotRun("the job id 'adhoc' is taken: worktrees without a job lie there", hint="use another id")
    claim(world)
    with locked(world, job_id):
        old = ActiveJob.find(world, job_id)
        if old is not None:
            _require_same(old.document, target, base)
            return old
        document = _new_job(world, job_id, target, connection, source)
        document["units"] = [unit.entry for unit in units]
        document |= {"base": base} if base else {}
        for key in FACTS:
            if key in facts:
                document[key] = facts[key]
        _clear_the_way(world, job_id)
        world.writable_store.write(kinds.JOB, names.job_doc(job_id), document)
        return ActiveJob(world, document)


def _clear_the_way(world: World, job_id: str) -> None:
    """The branch of a job whose documents went with the store (`git clean -fdx`) goes to the attic: this job is none
    of it."""
    ref = names.integration_ref(job_id)
    left = world.git.resolve(ref)
    if left is not None:
        kept = names.attic_ref(job_id, "integration", left[:16])
        world.git.run("update-ref", "--stdin", stdin=f"update {kept} {left}\ndelete {ref} {left}\n".encode())


def _new_job(world: World, job_id: str, target: str, connection: str, source: str) -> Job:
    at_start = world.git.resolve(target)
    if at_start is None:
        raise CannotRun(f"target {target} does not exist", hint="name an existing branch; an unborn one has no base")
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "job",
        "jobId": job_id,
        "connectionId": connection,
        "sourceKey": source,
        "createdAt": timestamp(world.clock.now()),
        "objectFormat": world.repository.object_format,
        "target": target,
        "targetAtStart": at_start,
        "integrationRef": names.integration_ref(job_id),
        "state": "open",
        "units": [],
    }


def _require_same(old: Job, target: str, base: str | None) -> None:
    if old["target"] != target or (base and old.get("base", base) != base):
        raise CannotRun(
            f"job {old['jobId']} exists with target {old['target']} and base {old.get('base', 'not fixed yet')}",
            hint="use another job id, or leave --target and --base out",
        )


def change(world: World, job_id: str, edit: Callable[[Job], object]) -> ActiveJob:
    """Change a job's document as it is on the disk, under its lock; returns the job with the new one.

    For whoever does not run the job (`ActiveJob.change`). Raises as `ActiveJob.load`.
    """
    with locked(world, job_id):
        job = ActiveJob.load(world, job_id)
        edit(job.document)
        world.writable_store.write(kinds.JOB, names.job_doc(job_id), job.document)
        return job


def commit_of(world: World, revision: str) -> str:
    """The id of a commit that somebody named. Raises CannotRun where there is none: what was typed is usage."""
    found = world.git.resolve(revision)
    if found is None:
        raise CannotRun(f"no commit {revision!r}", hint=missing_revision(world.git, revision))
    return found


def target_ref(world: World, name: str) -> str:
    """The full ref of the branch that a job lands on: the one named, else the one checked out here.

    Raises CannotRun.
    """
    if not name:
        name = world.repository.branch(world.git) or ""
        if not name:
            hint = "name it: --target BRANCH, or `target` in the job file"
            raise CannotRun("HEAD is detached: which branch is the target?", hint=hint)
    ref = name if name.startswith("refs/") else f"refs/heads/{name}"
    if world.git.resolve(ref) is None:
        raise _no_branch(world, ref)
    return ref


def _no_branch(world: World, ref: str) -> CannotRun:
    """What is wrong with a target that is no branch: it has no commit yet, or another was meant."""
    name = ref.removeprefix("refs/heads/")
    if world.repository.branch(world.git) == ref:
        first = (
            "push a first one into it"
            if world.repository.bare
            else "make a first one (git add -A; git commit -m start)"
        )
        hint = f"units start from a commit: {first}, then run this again"
        return CannotRun(f"branch {name} has no commit yet", location=str(world.repository.directory), hint=hint)
    branches = world.git.run("for-each-ref", "--format=%(refname)", "refs/heads/", "refs/remotes/").lines
    heads = [one.removeprefix("refs/heads/") for one in branches if one.startswith("refs/heads/")]
    remote = [one.removeprefix("refs/remotes/") for one in branches if one.endswith(f"/{name}")]
    near = nearest(name, heads, 2)
    known = f"the branches are {', '.join(sorted(heads)[:8]) or 'none'}; git branch {name} makes it"
    hint = f"did you mean {' or '.join(near)}?" if near else known
    if remote and not near:
        hint = f"only {remote[0]} has that name: git branch {name} {remote[0]} makes it here"
    return CannotRun(f"no branch {name!r} to land on", location=str(world.repository.directory), hint=hint)


def current_unit(world: World, job: str | None, unit: str | None) -> tuple[str | None, str | None]:
    """Job and unit of a command: the options, then KTX_JOB and KTX_UNIT, then the worktree it stands in."""
    job = job or world.env.get("KTX_JOB") or None
    unit = unit or world.env.get("KTX_UNIT") or None
    if job and unit:
        return job, unit
    standing = _standing_in(world)
    if standing is not None and job in (None, standing[0]):
        return standing[0], unit or standing[1]
    return job, unit


def _standing_in(world: World) -> tuple[str, str] | None:
    """The job and unit whose worktree under the store holds `cwd`."""
    relative = Path(os.path.relpath(world.cwd, world.store.path("worktrees"))).parts
    if len(relative) < 2 or relative[0] in ("..", ".", "adhoc") or not relative[1][:4].isdigit():
        return None
    job = ActiveJob.find(world, relative[0])
    if job is None:
        return None
    position = int(relative[1].partition("-")[0])
    for unit in job.units:
        if unit.position == position:
            _must_be_the_leased_one(job, unit, relative[1])
            return job.id, unit.key
    return None


def _must_be_the_leased_one(job: ActiveJob, unit: Unit, name: str) -> None:
    """Raises Refused in the worktree of an earlier attempt, which is kept as evidence: the lease is of another one."""
    lease = job.read(kinds.LEASE, "lease", unit)
    if lease is None or lease["mode"] != "unit" or Path(os.fsdecode(path_bytes(lease))).name == name:
        return
    said = f"this is an earlier attempt of unit {unit.key!r}; attempt {lease['attempt']} has the lease"
    hint = "work there, or name --job and --unit to mean that one from here"
    raise Refused(said, location=os.fsdecode(path_bytes(lease)), hint=hint)


def need_job(world: World, job: str | None, alone: str = "") -> ActiveJob:
    """The job that a command is in. Raises CannotRun where it is in none; `alone`: how it is run without a job."""
    found = job or world.env.get("KTX_JOB") or current_unit(world, None, None)[0]
    if not found:
        raise CannotRun("which job?", hint=f"--job JOB, or KTX_JOB, or run inside a unit's worktree{alone}")
    return ActiveJob.load(world, found)


def need_unit(world: World, job: str | None, unit: str | None, alone: str = "") -> tuple[ActiveJob, Unit]:
    """The job and unit that a command is in. Raises CannotRun where either is not known."""
    found = need_job(world, job, alone)
    _, key = current_unit(world, found.id, unit)
    if not key:
        raise CannotRun("which unit?", hint="--unit KEY, or KTX_UNIT, or run inside a unit's worktree")
    return found, found.unit(key)
