"""Whose store it is. One kept elsewhere (`KTX_DIR`) holds the jobs of one repository, and says of which.

Two repositories in one store would mix their jobs, refs and snapshots: a job would land in a repository that never saw
its work. The repository's own `.ktx/` needs no such document: its place tells.

Job documents: made once, changed only under the job's lock, and how a command knows which job and unit it is in.

Documents of a job that cannot be read, each by its name: nothing is guessed from what is left.

How a job that did not land is continued, and whether it still can be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Refused
from ktxkit.base.identity import Identity, identify
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.text import nearest, path_b64, path_bytes, path_text, printable
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, Job, JobFile, StoreOwner


SAME: Final = ("path", "pathB64", "device", "inode", "birthTimeNs")


def require_ours(world: World) -> None:
    """Before jobs of the store are shown or changed. Raises Refused where they are another repository's."""
    if world.store.root == world.repository.default_store:
        return
    owner = world.store.read_optional(kinds.STORE, names.STORE)
    if owner is not None:
        _require(world, owner, _here(world))


def claim(world: World) -> None:
    """Before a job is made: the store is this repository's from now on. Raises Refused where it is another's.

    A repository that was renamed stays the owner (device, inode and birth time tell it); one that was put back at the
    same path is taken for the same.
    """
    if world.store.root == world.repository.default_store:
        return
    here, common = _here(world), world.repository.common_dir
    lock = world.writable_store.path(names.STORE_LOCK)
    with flocked(lock, clock=world.clock, what="the store's own document"):
        owner = world.store.read_optional(kinds.STORE, names.STORE)
        if owner is not None:
            _require(world, owner, here)
        made: StoreOwner = {
            "schemaVersion": SCHEMA_VERSION,
            "kind": "store",
            "at": timestamp(world.clock.now()),
            "path": path_text(os.fsencode(common)),
            "device": here.device,
            "inode": here.inode,
        }
        exact = path_b64(os.fsencode(common))
        made |= {"pathB64": exact} if exact else {}
        made |= {"birthTimeNs": here.birth_ns} if here.birth_ns is not None else {}
        if owner is None or any(owner.get(key) != made[key] for key in SAME if key in made):
            world.writable_store.write(kinds.STORE, names.STORE, made)


def _here(world: World) -> Identity:
    found = identify(world.repository.common_dir)
    if found is None:
        where = str(world.repository.common_dir)
        raise Blocked("the repository's git directory is gone", where=where, hint="put it back; nothing was changed")
    return found


def _require(world: World, owner: StoreOwner, here: Identity) -> None:
    place = Path(os.fsdecode(path_bytes(owner)))
    if here.matches(owner) or place == world.repository.common_dir:
        return
    hint = "give this repository a store of its own: another KTX_DIR, or none"
    if identify(place) is None:
        document = world.store.path(names.STORE)
        hint = f"if that repository is this one now (it was moved between disks): remove {printable(str(document))}"
    message = f"the store belongs to another repository: {printable(str(place))}"
    raise Refused(message, where=str(world.store.root), hint=hint)


if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import DamagedDocument, Job, UnitEntry

    class JobFacts(TypedDict, total=False):
        """What a new job may say beside its target and units."""

        syncId: str
        jobFileDigest: str


FACTS: Final = ("syncId", "jobFileDigest")


class Unit(NamedTuple):
    """A unit's place in its job."""

    position: int
    key: str
    after: tuple[str, ...] = ()


def locked(world: World, job_id: str, wait: float | None = 60.0) -> AbstractContextManager[int]:
    """The lock on a job's documents, for short changes. Raises Refused where it is held for `wait` seconds."""
    path = world.writable_store.path(f"locks/{names.job_lock(job_id)}.lock")
    return flocked(path, clock=world.clock, wait=wait, what=f"job {job_id}")


def begun(world: World) -> list[str]:
    """Ids of the jobs that have begun. A directory with a job file at most is left of a start that was killed."""
    return [name for name in world.store.children("jobs") if _documents(world, name)]


def _documents(world: World, job_id: str) -> set[str]:
    """What there is of a job but its file, which is written first."""
    return set(world.store.children(names.job_dir(job_id))) - {"job-file.json"}


def readable(world: World, damaged: list[DamagedDocument] | None = None) -> Iterator[Job]:
    """Every job by id. One whose document cannot be read, or is lost, is none of them; where goes to `damaged`."""
    for name in world.store.children("jobs"):
        try:
            job = world.store.read_optional(kinds.JOB, names.job_doc(name))
            if job is None:
                require_not_lost(world, name)
        except BrokenContract as error:
            if damaged is not None:
                damaged.append({"where": error.where, "message": error.message})
            continue
        if job is not None:
            yield job


def sweep_unbegun(world: World) -> None:
    """Remove the half-written documents that killed starts of jobs left; their directories hold nothing else."""
    for name in set(world.store.children("jobs")) - set(begun(world)):
        files.sweep_asides(world.store.path(names.job_dir(name)))


def load(world: World, job_id: str) -> Job:
    """The job's document.

    Raises CannotRun for an unknown job, BrokenContract for a damaged document, Refused where the store is another
    repository's.
    """
    names.check_job(job_id)
    require_ours(world)
    found = world.store.read_optional(kinds.JOB, names.job_doc(job_id))
    if found is None:
        require_not_lost(world, job_id)
        known = nearest(job_id, [name for name in world.store.children("jobs") if name != job_id])
        hint = f"did you mean {known[0]}?" if known else "`ledger-query jobs` lists those there are"
        raise CannotRun(f"no job {job_id!r} here", where=str(world.store.root), hint=hint)
    return found


def require_not_lost(world: World, job_id: str) -> None:
    """Where there is no document: raises BrokenContract if other documents of the job are there, so that it was lost.

    A job file alone is no loss: a process was killed before it wrote the job's own document.
    """
    if _documents(world, job_id):
        raise BrokenContract(
            "the job's own document is gone, others of the job are there",
            where=str(world.store.path(names.job_doc(job_id))),
            hint=f"put it back; what its units collected is kept: git for-each-ref refs/ktx/units/{job_id}",
        )


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
) -> Job:
    """Make the job's document, or return the one that is there. `target` is a full ref; `base` a commit id.

    Raises CannotRun where the target does not exist, or an existing job has another target or base, and Refused where
    the store is another repository's.
    """
    names.check_job(job_id)
    if job_id == "adhoc":
        raise CannotRun("the job id 'adhoc' is taken: worktrees without a job lie there", hint="use another id")
    claim(world)
    with locked(world, job_id):
        old = world.store.read_optional(kinds.JOB, names.job_doc(job_id))
        if old is not None:
            return _same_job(old, target, base)
        document = _new_job(world, job_id, target, connection, source)
        document["units"] = [_entry(unit) for unit in units]
        document |= {"base": base} if base else {}
        for key in FACTS:
            if key in facts:
                document[key] = facts[key]
        world.writable_store.write(kinds.JOB, names.job_doc(job_id), document)
        return document


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


def _same_job(old: Job, target: str, base: str | None) -> Job:
    if old["target"] != target or (base and old.get("base", base) != base):
        raise CannotRun(
            f"job {old['jobId']} exists with target {old['target']} and base {old.get('base', 'not fixed yet')}",
            hint="use another job id, or leave --target and --base out",
        )
    return old


def _entry(unit: Unit) -> UnitEntry:
    entry: UnitEntry = {"position": unit.position, "key": unit.key}
    entry |= {"after": list(unit.after)} if unit.after else {}
    return entry


FIXED: Final = ("target", "targetAtStart", "integrationRef", "base", "jobFileDigest")  # said once, and never otherwise


def change(world: World, job_id: str, edit: Callable[[Job], object], held: Job | None = None) -> Job:
    """Change the job's document in place, under its lock; returns the new one, which is on the disk.

    `held`: as the running job knows it. What is said once is what that one says, and it stands in for a damaged one.
    """
    with locked(world, job_id):
        document = as_held(world, job_id, held) if held is not None else load(world, job_id)
        edit(document)
        world.writable_store.write(kinds.JOB, names.job_doc(job_id), document)
        return document


def as_held(world: World, job_id: str, held: Job) -> Job:
    """The job's document as it is on the disk, with what is said once as the running job knows it."""
    try:
        document = world.store.read_optional(kinds.JOB, names.job_doc(job_id)) or held.copy()
    except BrokenContract:
        document = held.copy()  # what is on the disk is nobody's: the process that runs the job writes its own
    new = [entry for entry in document["units"] if entry["position"] > len(held["units"])]
    document = {**document, "units": [*held["units"], *new]}
    for key in FIXED:
        if key in held:
            document[key] = held[key]
    return document


def add_unit(world: World, job_id: str, key: str, after: Sequence[str] = ()) -> Unit:
    """The unit of that key, appended at the next position where it is new. Positions are never reused."""
    names.check_key(key)

    def edit(document: Job) -> None:
        if all(entry["key"] != key for entry in document["units"]):
            require_not_landed(world, document)
            position = max((entry["position"] for entry in document["units"]), default=0) + 1
            document["units"].append(_entry(Unit(position, key, tuple(after))))

    return unit_of(change(world, job_id, edit), key)


_FILES: dict[str, JobFile] = {}  # job files by their digest: what was proven once cannot be another one
FILES_KEPT = 8


def file_of(world: World, job: Job) -> JobFile | None:
    """The job file: policy, verification, gates and order are what it says. None for a job that was made without one.

    `job` says whether there is one, and its digest. Raises BrokenContract where it is gone, or is another one.
    """
    digest = job.get("jobFileDigest")
    if digest is None:
        return None
    known = _FILES.get(digest)
    if known is not None:
        return known
    place = names.job_part(job["jobId"], "job-file")
    document = world.store.read_optional(kinds.JOB_FILE, place)
    if document is None or digest_of(document) != digest:
        what = "gone" if document is None else "not the one that the job was begun with"
        raise BrokenContract(
            f"the job's file is {what}",
            where=str(world.store.path(place)),
            hint=f"put it back (job.json names its digest, {digest}), or give the work a job of its own",
        )
    while len(_FILES) >= FILES_KEPT:
        _FILES.pop(next(iter(_FILES)))
    _FILES[digest] = document
    return document


def require_not_landed(world: World, job: Job) -> None:
    """Raises Refused where the job has landed: what is added to it now would be accepted and never land."""
    if job["state"] == "landed" or world.store.exists(names.job_part(job["jobId"], "landing")):
        raise Refused(
            f"job {job['jobId']} has landed already; what is added to it would not land",
            where=job["target"],
            hint="give the change a job of its own: worktree-open --job OTHER",
        )


def commit_of(world: World, revision: str) -> str:
    """The id of a commit that somebody named. Raises CannotRun where there is none: what was typed is usage."""
    found = world.git.resolve(revision)
    if found is None:
        raise CannotRun(
            f"no commit {revision!r}", hint="name an existing commit, or fetch it; an unborn branch has none"
        )
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
        hint = "an unborn branch has none: make a first commit, or name another branch as the target"
        raise CannotRun(f"no branch {name!r}: target branch {name} has no commit", hint=hint)
    return ref


def units(job: Job) -> list[Unit]:
    """All units, in unit order."""
    found = [Unit(entry["position"], entry["key"], tuple(entry.get("after", ()))) for entry in job["units"]]
    return sorted(found, key=lambda unit: unit.position)


def unit_of(job: Job, key: str) -> Unit:
    """Raises CannotRun for a unit that the job does not have."""
    for unit in units(job):
        if unit.key == key:
            return unit
    near = nearest(key, [unit.key for unit in units(job)])
    raise CannotRun(
        f"job {job['jobId']} has no unit {key!r}", hint=f"did you mean {near[0]!r}?" if near else "see its job.json"
    )


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
    job = world.store.read_optional(kinds.JOB, names.job_doc(relative[0]))
    if job is None:
        return None
    position = int(relative[1].partition("-")[0])
    for unit in units(job):
        if unit.position == position:
            _must_be_the_leased_one(world, job, unit, relative[1])
            return job["jobId"], unit.key
    return None


def _must_be_the_leased_one(world: World, job: Job, unit: Unit, name: str) -> None:
    """Raises Refused in the worktree of an earlier attempt, which is kept as evidence: the lease is of another one."""
    place = names.unit_dir(job["jobId"], unit.position, unit.key)
    lease = world.store.read_optional(kinds.LEASE, f"{place}/lease.json")
    if lease is None or lease["mode"] != "unit" or Path(os.fsdecode(path_bytes(lease))).name == name:
        return
    said = f"this is an earlier attempt of unit {unit.key!r}; attempt {lease['attempt']} has the lease"
    hint = "work there, or name --job and --unit to mean that one from here"
    raise Refused(said, where=os.fsdecode(path_bytes(lease)), hint=hint)


def need_job(world: World, job: str | None) -> Job:
    """The job that a command is in. Raises CannotRun where it is in none."""
    found = job or world.env.get("KTX_JOB") or current_unit(world, None, None)[0]
    if not found:
        raise CannotRun("which job?", hint="--job JOB, or KTX_JOB, or run inside a unit's worktree")
    return load(world, found)


def need_unit(world: World, job: str | None, unit: str | None) -> tuple[Job, Unit]:
    """The job and unit that a command is in. Raises CannotRun where either is not known."""
    document = need_job(world, job)
    _, key = current_unit(world, document["jobId"], unit)
    if not key:
        raise CannotRun("which unit?", hint="--unit KEY, or KTX_UNIT, or run inside a unit's worktree")
    return document, unit_of(document, key)


def tracer(world: World, job: Job) -> Tracer:
    """The job's trace."""
    return Tracer.of_job(world.writable_store, world.clock, job, world.env)


# Documents whose name is not that of their contract.
CONTRACTS = {
    "result": "unit-result",
    "landing-intent": "intent",
    "verification-intent": "intent",
    "actions": "unit-actions",
}


def damaged_documents(world: World, job: str) -> list[DamagedDocument]:
    """`where` and `message` of each damaged document of the job and its units."""
    found: list[DamagedDocument] = []
    for place in _damaged(world, job):
        stem = place.rpartition("/")[2].removesuffix(".json")
        contract = CONTRACTS.get(stem, stem)
        if contract not in contracts.names():
            continue
        try:
            world.store.read_optional(contract, place)
        except BrokenContract as error:
            found.append({"where": error.where, "message": error.message})
    return found


def _damaged(world: World, job: str) -> Iterator[str]:
    places = [names.job_dir(job)]
    units = f"{names.job_dir(job)}/units"
    places += [f"{units}/{unit}" for unit in world.store.children(units)]
    for place in places:
        yield from (f"{place}/{name}" for name in world.store.children(place) if name.endswith(".json"))


def command(world: World, job: Job) -> str:
    """The command that continues a job; empty where none does: it landed, was made by hand, or a later one took it up.

    Raises BrokenContract for a damaged document.
    """
    job_id, store = str(job["jobId"]), world.store
    if job["state"] not in ("open", "failed", "aborted") or superseded_by(world, job_id):
        return ""
    known = store.exists(names.job_part(job_id, "ingest")) or store.exists(names.job_part(job_id, "job-file"))
    return resume_command(world, job_id) if known else ""


def resume_command(world: World, job_id: str) -> str:
    """How a job is resumed: an ingestion by the command that made it."""
    command = "ingest-run" if world.store.exists(names.job_part(job_id, "ingest")) else "job-run"
    return f"{command} --resume {job_id}"


def superseded_by(world: World, job_id: str) -> str:
    """The later ingestion that took up what this one left; empty for none."""
    outcome = world.store.read_optional(kinds.INGEST_OUTCOME, names.job_part(job_id, "ingest-outcome"))
    return outcome.get("supersededBy", "") if outcome is not None else ""
