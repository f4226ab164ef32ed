"""The job under way: its document, and every question about it that its other documents answer.

Documents of a job that cannot be read, each by its name: nothing is guessed from what is left.

How a job that did not land is continued, and whether it still can be.

Whose store it is. One kept elsewhere (`KTX_DIR`) holds the jobs of one repository, and says of which.

Two repositories in one store would mix their jobs, refs and snapshots: a job would land in a repository that never saw
its work. The repository's own `.ktx/` needs no such document: its place tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import contracts, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Refused
from ktxkit.base.identity import Identity, identify, is_private
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest, path_b64, path_bytes, path_text, printable
from ktxkit.store.rules import names
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, Job, JobFile, JobState, StoreOwner, UnitEntry
    from ktxkit.base.kinds import D, Kind
    from ktxkit.git.git import Git


FIXED: Final = ("target", "targetAtStart", "integrationRef", "base", "jobFileDigest")  # said once, and never otherwise
OWN: Final = ("projection", "unitBase", "caughtUp")  # of who runs the job: what another has written there is nobody's
# Documents whose name is not that of their contract.
CONTRACTS = {
    "result": "unit-result",
    "landing-intent": "intent",
    "verification-intent": "intent",
    "actions": "unit-actions",
}
FILES_KEPT = 8


class JobFiles:
    """Job files by their digest (`World.shared`): what was proven once cannot be another one."""

    def __init__(self) -> None:
        self.by_digest: dict[str, JobFile] = {}

    def close(self) -> None:
        self.by_digest.clear()


class Unit(NamedTuple):
    """A unit's place in its job."""

    position: int
    key: str
    after: tuple[str, ...] = ()

    @property
    def entry(self) -> UnitEntry:
        """The unit as the job's document lists it."""
        made: UnitEntry = {"position": self.position, "key": self.key}
        made |= {"after": list(self.after)} if self.after else {}
        return made


class ActiveJob:
    """A job, its document as it was last read or written here, and the world that it is worked on in.

    The document is exchanged by `change`, `add_unit` and `reload` alone; threads only read it.
    """

    __slots__ = ("_document", "world")

    def __init__(self, world: World, document: Job) -> None:
        self.world = world
        self._document = document

    @classmethod
    def load(cls, world: World, job_id: str) -> ActiveJob:
        """The job of that id.

        Raises CannotRun for an unknown job, BrokenContract for a damaged document, Refused where the store is another
        repository's.
        """
        names.check_job(job_id)
        require_ours(world)
        found = cls.find(world, job_id)
        if found is None:
            require_not_lost(world, job_id)
            known = nearest(job_id, [name for name in world.store.children("jobs") if name != job_id])
            hint = f"did you mean {known[0]}?" if known else "`job-report --list` shows those there are"
            raise CannotRun(f"no job {job_id!r} here", location=str(world.store.root), hint=hint)
        return found

    @classmethod
    def find(cls, world: World, job_id: str) -> ActiveJob | None:
        """The job of that id; None where there is no document. Raises BrokenContract for a damaged one."""
        document = world.store.read_optional(kinds.JOB, names.job_doc(job_id))
        return cls(world, document) if document is not None else None

    @property
    def document(self) -> Job:
        return self._document

    @property
    def id(self) -> str:
        return self._document["jobId"]

    @property
    def state(self) -> JobState:
        return self._document["state"]

    @property
    def target(self) -> str:
        """The full ref that the job lands on."""
        return self._document["target"]

    @property
    def integration_ref(self) -> str:
        return self._document["integrationRef"]

    @property
    def connection(self) -> str:
        return self._document["connectionId"]

    @property
    def source(self) -> str:
        """The key of the source that the work comes from."""
        return self._document["sourceKey"]

    @property
    def git(self) -> Git:
        """git at the repository, never in a unit's worktree."""
        return self.world.git.at(self.world.repository.directory)

    @property
    def tracer(self) -> Tracer:
        """The job's trace."""
        return Tracer.of_job(self.world.writable_store, self.world.clock, self._document, self.world.env)

    @property
    def units(self) -> list[Unit]:
        """All units, in unit order."""
        entries = self._document["units"]
        found = [Unit(entry["position"], entry["key"], tuple(entry.get("after", ()))) for entry in entries]
        return sorted(found, key=lambda unit: unit.position)

    def unit(self, key: str) -> Unit:
        """Raises CannotRun for a unit that the job does not have."""
        for unit in self.units:
            if unit.key == key:
                return unit
        near = nearest(key, [unit.key for unit in self.units])
        raise CannotRun(
            f"job {self.id} has no unit {key!r}", hint=f"did you mean {near[0]!r}?" if near else "see its job.json"
        )

    @property
    def directory(self) -> str:
        """Where its documents are, in the store."""
        return names.job_dir(self.id)

    def part(self, name: str) -> str:
        """Where one of its own documents is, in the store: `landing`, `verification` and their kin."""
        return names.job_part(self.id, name)

    def unit_dir(self, unit: Unit) -> str:
        """Where the documents of one of its units are, in the store."""
        return names.unit_dir(self.id, unit.position, unit.key)

    def patch_file(self, unit: Unit) -> str:
        """Where the collected patch of one of its units is, in the store."""
        return names.patch_file(self.id, unit.position, unit.key)

    def unit_doc(self, unit: Unit, name: str) -> str:
        """Where a document of one of its units is, in the store: `lease`, `patch`, `receipt` and their kin."""
        return names.unit_doc(self.id, unit.position, unit.key, name)

    def read(self, kind: Kind[D], name: str, unit: Unit | None = None) -> D | None:
        """A document of the job, or of a unit; None where there is none. Raises BrokenContract for a damaged one."""
        place = self.part(name) if unit is None else self.unit_doc(unit, name)
        return self.world.store.read_optional(kind, place)

    def locked(self, wait: float | None = 60.0) -> AbstractContextManager[int]:
        """The lock on its documents, for short changes. Raises Refused where it is held for `wait` seconds."""
        return locked(self.world, self.id, wait)

    def change(self, edit: Callable[[Job], object]) -> None:
        """Change the document in place, under its lock; the new one is on the disk, and is this job's from now on.

        What is said once stays as this job knows it, and what it knows stands in for a document that was damaged.
        """
        with self.locked():
            document = self._as_on_disk()
            edit(document)
            self.world.writable_store.write(kinds.JOB, names.job_doc(self.id), document)
            self._document = document

    def reload(self) -> None:
        """Take the document as others have written it, but for what is said once."""
        self._document = self._as_on_disk()

    def _as_on_disk(self) -> Job:
        """The document as it is on the disk, with what is said once as this job knows it."""
        mine = self._document
        try:
            document = self.world.store.read_optional(kinds.JOB, names.job_doc(self.id)) or mine.copy()
        except BrokenContract:
            document = mine.copy()  # what is on the disk is nobody's: the process that runs the job writes its own
        new = [entry for entry in document["units"] if entry["position"] > len(mine["units"])]
        document = {**document, "units": [*mine["units"], *new]}
        for key in FIXED:
            if key in mine:
                document[key] = mine[key]
        for own in OWN:
            if own in mine:
                document[own] = mine[own]
            elif own in document:
                del document[own]
        return document

    def add_unit(self, key: str, after: Sequence[str] = ()) -> Unit:
        """The unit of that key, appended at the next position where it is new. Positions are never reused.

        The document is read anew. Raises Refused where the job has landed, BrokenContract for a damaged document.
        """
        names.check_key(key)
        with self.locked():
            job = ActiveJob.load(self.world, self.id)
            entries = job.document["units"]
            if all(entry["key"] != key for entry in entries):
                job.require_not_landed()
                position = max((entry["position"] for entry in entries), default=0) + 1
                entries.append(Unit(position, key, tuple(after)).entry)
            self.world.writable_store.write(kinds.JOB, names.job_doc(self.id), job.document)
            self._document = job.document
        return self.unit(key)

    def require_not_landed(self) -> None:
        """Raises Refused where the job has landed: what is added to it now would be accepted and never land."""
        if self.state == "landed" or self.world.store.exists(self.part("landing")):
            raise Refused(
                f"job {self.id} has landed already; what is added to it would not land",
                location=self.target,
                hint="give the change a job of its own: worktree-open --job OTHER",
            )

    def file(self) -> JobFile | None:
        """The job file: policy, verification, gates and order are what it says. None for a job made without one.

        The job's document has its digest. Raises BrokenContract where the file is gone, or is another one.
        """
        digest = self._document.get("jobFileDigest")
        if digest is None:
            return None
        files = self.world.shared(JobFiles).by_digest
        known = files.get(digest)
        if known is not None:
            return known
        document = self.read(kinds.JOB_FILE, "job-file")
        if document is not None and digest_of(document) != digest:
            document = self._earlier_file(digest) or document
        if document is None or digest_of(document) != digest:
            what = "gone" if document is None else "not the one that the job was begun with"
            raise BrokenContract(
                f"the job's file is {what}",
                location=str(self.world.store.path(self.part("job-file"))),
                hint=f"put it back (job.json names its digest, {digest}), or give the work a job of its own",
            )
        while len(files) >= FILES_KEPT:
            files.pop(next(iter(files)))
        files[digest] = document
        return document

    def _earlier_file(self, digest: str) -> JobFile | None:
        """The job file of that digest that was put by when an edited one was taken: a process died before it was."""
        for name in self.world.store.children(self.directory):
            if name.startswith("job-file-") and name.endswith(".json"):
                document = self.read(kinds.JOB_FILE, name.removesuffix(".json"))
                if document is not None and digest_of(document) == digest:
                    return document
        return None

    def next_command(self) -> str:
        """The command that continues the job; empty where none does: it landed, was made by hand, or a later one took
        it up. Raises BrokenContract for a damaged document."""
        if self.state not in ("open", "failed", "aborted") or self.superseded_by():
            return ""
        known = self.world.store.exists(self.part("ingest")) or self.world.store.exists(self.part("job-file"))
        return self.resume_command() if known else ""

    def resume_command(self) -> str:
        """How the job is resumed: an ingestion by the command that made it."""
        command = "ingest-run" if self.world.store.exists(self.part("ingest")) else "job-run"
        return f"{command} --resume {self.id}"

    def superseded_by(self) -> str:
        """The later ingestion that took up what this one left; empty for none."""
        outcome = self.read(kinds.INGEST_OUTCOME, "ingest-outcome")
        return outcome.get("supersededBy", "") if outcome is not None else ""

    def damaged_documents(self) -> list[DamagedDocument]:
        """`where` and `message` of each damaged document of the job and its units."""
        found: list[DamagedDocument] = []
        for place in self._documents():
            stem = place.rpartition("/")[2].removesuffix(".json")
            contract = CONTRACTS.get(stem, stem)
            if contract not in contracts.names():
                continue
            try:
                self.world.store.read_optional(contract, place)
            except BrokenContract as error:
                found.append({"where": error.location, "message": error.message})
        return found

    def _documents(self) -> Iterator[str]:
        units = f"{self.directory}/units"
        for place in (self.directory, *(f"{units}/{unit}" for unit in self.world.store.children(units))):
            yield from (f"{place}/{name}" for name in self.world.store.children(place) if name.endswith(".json"))


def locked(world: World, job_id: str, wait: float | None = 60.0) -> AbstractContextManager[int]:
    """The lock on a job's documents, for short changes. Raises Refused where it is held for `wait` seconds."""
    path = world.writable_store.path(f"locks/{names.job_lock(job_id)}.lock")
    return flocked(path, clock=world.clock, wait=wait, what=f"job {job_id}")


def other_documents(world: World, job_id: str) -> set[str]:
    """What there is of a job but its file, which is written first."""
    return set(world.store.children(names.job_dir(job_id))) - {"job-file.json"}


def require_not_lost(world: World, job_id: str) -> None:
    """Where there is no document: raises BrokenContract if other documents of the job are there, so that it was lost.

    A job file alone is no loss: a process was killed before it wrote the job's own document.
    """
    if other_documents(world, job_id):
        raise BrokenContract(
            "the job's own document is gone, others of the job are there",
            location=str(world.store.path(names.job_doc(job_id))),
            hint=f"put it back; what its units collected is kept: git for-each-ref refs/ktx/units/{job_id}",
        )


def cleared_meanwhile(job_id: str) -> Refused:
    """The refusal of a step that had begun when the documents of its job, all of which is in, were cleared."""
    hint = "all of it had landed; give the change a job of its own"
    return Refused(f"job {job_id} was cleared meanwhile (git ktx clean --records)", hint=hint)


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
    found = identify(_common_dir(world))
    if found is None:
        where = str(world.repository.common_dir)
        raise Blocked("the repository's git directory is gone", location=where, hint="put it back; nothing was changed")
    return found


def _common_dir(world: World) -> Path:
    """The repository's; for a unit in a repository of its own, that of the repository which this borrows from."""
    found = world.repository.common_dir
    return found.parents[2] if is_private(found) else found


def _require(world: World, owner: StoreOwner, here: Identity) -> None:
    place = Path(os.fsdecode(path_bytes(owner)))
    if here.matches(owner) or place == _common_dir(world):
        return
    hint = "give this repository a store of its own: another KTX_DIR, or none"
    if identify(place) is None:
        document = world.store.path(names.STORE)
        hint = f"if that repository is this one now (it was moved between disks): remove {printable(str(document))}"
    message = f"the store belongs to another repository: {printable(str(place))}"
    raise Refused(message, location=str(world.store.root), hint=hint)
