"""A worktree's documents: its lease, the note of an opening, the sentinel; and what stands where they say.

The path policy of an attempt: taken once, when its worktree is opened, and read by all who ask what counts.

It is made of the lease (deliverables, generated, copied files), the base tree's `.gitignore` files and the repository's
`info/exclude`. A user's own ignore file has no say: it must not make work invisible to others.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import files, kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Refused
from ktxkit.base.identity import Identity, admin_names, git_dir_of, identify, is_apart, processes_inside
from ktxkit.base.lock import flocked
from ktxkit.base.owners import OwnerState
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, path_fields
from ktxkit.git.neutral import open_objects, sweep
from ktxkit.git.private import PrivateRepository
from ktxkit.store.active import ActiveJob, Unit, cleared_meanwhile
from ktxkit.store.rules import names
from ktxkit.store.rules.paths_policy import CandidatePathPolicy, IgnoreRules, from_lease, rules_of
from ktxkit.store.rules.worktrees import WorktreePresence
from ktxkit.store.worktrees import Worktrees
from ktxkit.store.world import World

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import Lease, LeasePolicy, OwnerProcess
    from ktxkit.base.kinds import D, Kind

    class LeaseHolder(TypedDict, total=False):
        """What a lease says beside the worktree: whose it is, and whether it ends with a process."""

        jobId: str
        unitKey: str
        position: int
        target: str
        policy: LeasePolicy
        policyDigest: str
        owner: OwnerProcess

    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import JournalPosition, PathPolicy

    class ObservedFacts(TypedDict):
        """What a lease says of its policy, and of the chain of records under the lease before it."""

        pathPolicyDigest: str
        observedBefore: NotRequired[JournalPosition]


ADHOC = "adhoc"  # stands for the job of worktrees that have none


class LeaseLocation(NamedTuple):
    """Where a worktree's documents are, and the name its kept work gets."""

    world: World
    directory: str  # in the store
    job: str
    name: str  # a component of a ref

    @classmethod
    def of_unit(cls, job: ActiveJob, unit: Unit) -> LeaseLocation:
        directory = job.unit_dir(unit)
        return cls(job.world, directory, job.id, names.ref_part(unit.position, unit.key))

    @classmethod
    def adhoc(cls, world: World, name: str) -> LeaseLocation:
        return cls(world, names.adhoc_dir(name), ADHOC, names.adhoc_part(name))

    @contextmanager
    def locked(self, wait: float | None = 60.0) -> Iterator[None]:
        """Held while the worktree is opened, closed or pruned. Raises Refused after `wait` seconds.

        What a process that died in such a step had let go, or had for itself only, is deleted first.
        """
        path = self.world.writable_store.path(f"{self.directory}/.lock")
        with flocked(path, clock=self.world.clock, wait=wait, what=f"the worktree of {self.name}"):
            self._must_not_be_cleared(path)
            worktrees(self.world).empty_trash()
            sweep(self.world.writable_store.root)
            self._follow()
            self._end_apart()
            yield

    def _must_not_be_cleared(self, lock: Path) -> None:
        """Raises Refused where the job's documents went while the lock was waited for: it made their directory anew."""
        store = self.world.store
        if self.job == ADHOC or store.exists(names.job_doc(self.job)) or len(store.children(self.directory)) > 1:
            return
        files.remove(lock)
        with suppress(OSError):  # another waits there: it takes its own away
            for folder in (lock.parent, lock.parent.parent, lock.parent.parent.parent):
                os.rmdir(folder)  # noqa: PTH106
        raise cleared_meanwhile(self.job)

    def settle(self) -> None:
        """Let git and the lease follow a worktree that was moved, and take over what a killed job left of a unit in a
        repository of its own. No lock is taken where neither is so."""
        if self.has_moved() or self._is_apart():
            with self.locked():
                pass  # whoever takes the lock follows

    def has_moved(self) -> bool:
        """The worktree is where the store moved to, and git and the lease name the old place. Raises BrokenContract."""
        lease = self.read(kinds.LEASE)
        return lease is not None and relocated(self.world, lease) is not lease

    def _is_apart(self) -> bool:
        lease = self.read(kinds.LEASE)
        return lease is not None and is_apart(path_of(lease))

    def _end_apart(self) -> None:
        """What the unit of a dead job made. Raises Refused where the job lives: none of our gits may run there yet."""
        lease = self.read(kinds.LEASE)
        if lease is None or not is_apart(path_of(lease)):
            return
        if not holder_is_dead(self.world, lease):
            hint = "nothing of it is read before its command has ended"
            raise Refused("its unit is at work in a repository of its own", location=str(path_of(lease)), hint=hint)
        self.take_over(lease)

    def private(self, lease: Lease) -> PrivateRepository:
        """The repository of its own that a unit may have. Raises Blocked where git knows another worktree there."""
        top, admin = path_of(lease), path_of(lease, "adminDir")
        ours = admin.parent == self.world.repository.common_dir / "worktrees"
        if not ours or admin_names(admin) != top / ".git":
            raise Blocked(
                "the lease names a git directory that is not its worktree's", location=str(admin), hint="look"
            )
        return PrivateRepository(worktrees(self.world).git, self.world.repository, top, admin)

    def take_over(self, lease: Lease) -> None:
        """Take what a unit made in a repository of its own; what its other branches and its stash name goes to the
        attic."""
        refs = self.private(lease).take_over()
        made = worktrees(self.world)
        kept = sorted({oid for oid in refs.values() if oid != lease["base"] and made.git.resolve(oid)})
        if kept:
            lines = "".join(f"update {self.attic_ref(lease['attempt'], oid)} {oid}\n" for oid in kept)
            made.on_own("update-ref", "--stdin", git=made.git, stdin=lines.encode("ascii"))

    def _follow(self) -> None:
        lease = self.read(kinds.LEASE)
        here = relocated(self.world, lease) if lease is not None else None
        if here is not None and here is not lease:
            worktrees(self.world).repair(path_of(here), path_of(here, "adminDir"))
            self.write(kinds.LEASE, here)

    def lease(self) -> Lease | None:
        """The lease, of where its worktree is now."""
        recorded = self.read(kinds.LEASE)
        return relocated(self.world, recorded) if recorded is not None else None

    def read(self, kind: Kind[D]) -> D | None:
        """A document as it is recorded."""
        return self.world.store.read_optional(kind, f"{self.directory}/{kind}.json")

    def write(self, kind: Kind[D], document: D, *, durable: bool = True) -> None:
        self.world.writable_store.write(kind, f"{self.directory}/{kind}.json", document, durable=durable)

    def remove(self, kind: Kind[D]) -> None:
        self.world.writable_store.remove(f"{self.directory}/{kind}.json")

    def attic_ref(self, attempt: int, commit: str) -> str:
        """The same work goes to the same ref, however often a closing is tried."""
        return names.attic_ref(self.job, self.name, f"{attempt}-{commit[:16]}")

    @property
    def collected_ref(self) -> str:
        """Where a unit's collected commit is kept."""
        return f"refs/ktx/units/{self.job}/{self.name}"


def worktrees(world: World) -> Worktrees:
    """The worktrees of the world's repository."""
    return Worktrees.of(world)


def path_of(document: Mapping[str, Any], key: str = "path") -> Path:
    """Where the worktree of a lease (or note) is; with `adminDir`, its administrative directory."""
    return Path(os.fsdecode(path_bytes(document, key)))


def at_hand(job: ActiveJob, unit: Unit) -> Lease:
    """The lease of a unit that must have one, for work in its worktree.

    Raises CannotRun where none was ever opened, BrokenContract where the lease is gone.
    """
    place = LeaseLocation.of_unit(job, unit)
    place.settle()
    if not job.world.store.children(place.directory):
        hint = f"worktree-open --job {job.id} --unit {shlex.quote(unit.key)}"
        raise CannotRun(f"unit {unit.key!r} of {job.id} has no worktree", hint=hint)
    return job.world.store.read(kinds.LEASE, f"{place.directory}/{kinds.LEASE}.json")


def relocated(world: World, lease: Lease) -> Lease:
    """The lease itself; where its worktree was moved with the store (`mv` of the repository), one of where it is now.

    Proven by git's own two links: its `.git` names the administrative directory that is the lease's, and that one names
    the old place. A copy is no move: the old place still stands.
    """
    recorded = path_of(lease)
    if lease["mode"] == "in-place" or os.path.lexists(recorded):
        return lease
    here = world.store.path(f"worktrees/{'/'.join(recorded.parts[-2:])}")
    admin = world.repository.common_dir / "worktrees" / path_of(lease, "adminDir").name
    named, found = git_dir_of(here), identify(here)
    if named is None or found is None or named.name != admin.name or (named != admin and os.path.lexists(named)):
        return lease
    if admin_names(admin) not in (recorded / ".git", here / ".git"):
        return lease
    return placed(lease, here, admin, found)


def placed(lease: Lease, path: Path, admin: Path, identity: Identity) -> Lease:
    """The lease, but of the worktree at `path`, whose administrative directory is `admin`."""
    kept = lease.copy()
    kept.pop("pathB64", None)
    kept.pop("adminDirB64", None)
    kept.pop("birthTimeNs", None)
    return {**kept, **path_fields(bytes(path)), **path_fields(bytes(admin), "adminDir"), **identity.document()}


def holder_is_dead(world: World, lease: Lease) -> bool:
    """The lease names an owner, and that process is proven dead."""
    owner = lease.get("owner")
    return owner is not None and owners.is_dead(owners.Owner.of(owner), world.store.root)


def held_elsewhere(world: World, lease: Lease | None) -> str:
    """That the owner of an open lease is of another machine or pid namespace, and may live: in words; else empty."""
    named = lease.get("owner") if lease is not None and lease["state"] == "open" else None
    owner = owners.Owner.of(named) if named is not None else None
    if owner is None or not owner.elsewhere():
        return ""
    standing = owners.state_of(owner, world.store.root)
    return "" if standing is OwnerState.DEAD else f"held by another machine or namespace: {standing.value}"


def must_be_held_here(world: World, lease: Lease, *, keeps: bool = False) -> None:
    """Before an open lease is taken over or ended. Raises Refused where its owner is elsewhere, and may live.

    `keeps`: everything stays where it is; then it is enough that the owner is not known to be alive.
    """
    said = held_elsewhere(world, lease)
    if said and not (keeps and said.endswith(OwnerState.UNKNOWN.value)):
        gone = f"worktree-close {unit_options(lease)} --outcome crash keeps everything and frees it"
        hint = f"wait for it, or end it there; if it is gone for good, {gone}"
        raise Refused(f"the worktree is {said}", location=str(path_of(lease)), hint=hint)


def in_use_lock(world: World, lease: Lease) -> Path:
    """The lock of whoever runs a command in an open worktree: every pid namespace of the kernel sees it."""
    return world.writable_store.path(names.in_use_lock(digest(os.fsencode(path_of(lease)))))


def must_not_be_in_use(world: World, lease: Lease, *, force: bool = False) -> None:
    """Raises Refused where `worktree-open ... -- CMD` has a command running in it, in whatever pid namespace, unless it
    is to go by `force`."""
    lock = in_use_lock(world, lease)
    if force or not os.path.lexists(lock):
        return
    try:
        with flocked(lock, clock=world.clock, wait=0):
            return
    except Refused as error:
        hint = "end it, then close again; --force takes the directory from under it"
        said = "a command of worktree-open runs in it, here or in another namespace"
        raise Refused(said, location=str(path_of(lease)), hint=hint) from error


def foreign(world: World, document: Mapping[str, Any]) -> str:
    """The git directory that the worktree of a lease (or note) leads to, where it is another repository's; else `""`.

    Documents are copied with their repository (`cp -a`), and then name the worktrees of the original.
    """
    found, common = git_dir_of(path_of(document)), world.repository.common_dir
    if found is None or found == common or found.parent == common / "worktrees":
        return ""
    own = path_of(document, "adminDir") if "adminDir" in document else None
    if own == common / "worktrees" / found.name and not os.path.lexists(found):
        return ""  # moved with this repository, and git is not told yet
    owner = found.parent.parent if found.parent.name == "worktrees" else found
    here, there = identify(common), identify(owner)  # one directory may have two paths
    return "" if here is not None and here == there else str(found)


def must_be_ours(world: World, document: Mapping[str, Any]) -> None:
    """Before a worktree is touched. Raises Blocked where it belongs to another repository."""
    theirs = foreign(world, document)
    if not theirs:
        return
    hint = "work in that repository; in a copy of one, its worktrees are not yours"
    if not os.path.lexists(theirs):
        hint = "if this repository was moved: git worktree repair, with the worktree's path"
    raise Blocked(f"the worktree belongs to another repository: {theirs}", location=str(path_of(document)), hint=hint)


def must_be_leased_directory(lease: Lease) -> None:
    """Before a worktree is collected. Raises BrokenContract where another directory, or a link, stands at its path."""
    path = path_of(lease)
    found = identify(path)
    if (found is None and os.path.lexists(path)) or (found is not None and not found.matches(lease)):
        what = "a directory that was not opened for it" if found is not None else "no directory"
        hint = "nothing of it was read; look at what the unit did"
        raise BrokenContract(f"{what} stands where the worktree was", location=str(path), hint=hint)


def presence(world: World, lease: Lease | None, wanted: Path) -> WorktreePresence:
    """What stands where a worktree belongs."""
    path = path_of(lease) if lease is not None else wanted
    found = identify(path)
    dead = lease is not None and holder_is_dead(world, lease)
    return WorktreePresence(
        present=os.path.lexists(path),
        same=found is not None and lease is not None and found.matches(lease) and not foreign(world, lease),
        holder_dead=dead,
        busy=dead and bool(processes_inside(path)),
        elsewhere=held_elsewhere(world, lease),
    )


def lease_here(world: World) -> tuple[LeaseLocation, Lease] | None:
    """The lease of the worktree that the world stands in, of a unit or without a job."""
    repository = world.repository
    if not repository.linked:
        return None
    broken: BrokenContract | None = None
    for place in all_locations(world):
        try:
            lease = place.lease()
        except BrokenContract as error:  # it may be another's: that one must not stop us
            broken = broken or error
            continue
        if lease is not None and os.fsencode(repository.git_dir) == path_bytes(lease, "adminDir"):
            return place, lease
    if broken is not None:
        raise broken
    return None


def all_locations(world: World) -> list[LeaseLocation]:
    """Every place of the store that has, or had, a worktree: units job by job, then those without a job."""
    store = world.store
    found = [
        LeaseLocation(world, f"{names.job_dir(job)}/units/{unit}", job, _ref_name(world, job, unit))
        for job in store.children("jobs")
        for unit in store.children(f"{names.job_dir(job)}/units")
    ]
    return found + [LeaseLocation.adhoc(world, name) for name in store.children("leases")]


def _ref_name(world: World, job: str, unit: str) -> str:
    """The ref component of a unit directory: the lease has the key, where there is one."""
    try:
        lease = world.store.read_optional(kinds.LEASE, f"{names.job_dir(job)}/units/{unit}/lease.json")
    except BrokenContract:
        return unit  # whoever reads the lease is told; nothing is ever done under this name
    return unit if lease is None else names.ref_part(lease["position"], lease["unitKey"])


def unit_options(lease: Lease) -> str:
    """Options that name a lease's unit on a command line."""
    if "unitKey" in lease:
        return f"--job {lease['jobId']} --unit {shlex.quote(lease['unitKey'])}"
    return f"-C {shlex.quote(lease['path'])}"


FILE = "policy.json"
LISTED_KEPT = 64
_listed: dict[tuple[str, str], list[tuple[bytes, bytes]]] = {}  # (objects, commit id) to its ignore files
EXCLUDE_LIMIT = 4 * 1024 * 1024  # bytes of an ignore file that are read


def snapshot(world: World, lease: Lease) -> CandidatePathPolicy:
    """Take the policy of a lease and write it down; `lease` need not be written yet."""
    policy = from_lease(lease, ignore_rules(world, lease["base"]))
    _write(world, lease, policy)
    return policy


def _write(world: World, lease: Lease, policy: CandidatePathPolicy) -> None:
    document: PathPolicy = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "path-policy",
        "at": timestamp(world.clock.now()),
        "base": lease["base"],
        "policyDigest": policy.digest,
        "policy": policy.document(),
    }
    world.writable_store.write(kinds.PATH_POLICY, names.observer_file(names.attempt_name(lease), FILE), document)


def opening_facts(world: World, lease: Lease, old: Lease | None) -> ObservedFacts:
    """What a new lease says of its policy, and of what was observed under the lease before it."""
    facts: ObservedFacts = {"pathPolicyDigest": snapshot(world, lease).digest}
    if old is not None and "observer" in old:
        head = old["observer"]
        facts["observedBefore"] = {
            "attempt": names.attempt_name(old),
            "segment": head["segment"],
            "seq": head["seq"],
            "head": head["head"],
        }
    return facts


def of_lease(world: World, lease: Lease) -> CandidatePathPolicy:
    """The policy that a lease was opened with. A lost snapshot is made again where the lease's digest proves it.

    Raises BrokenContract where there is none of that digest any more.
    """
    relative = names.observer_file(names.attempt_name(lease), FILE)
    wanted = lease.get("pathPolicyDigest", "")
    policy, problem = _read(world, relative)
    if policy is not None and wanted in ("", policy.digest):
        return policy
    again = from_lease(lease, ignore_rules(world, lease["base"]))
    if again.digest != wanted and (wanted or problem):
        raise BrokenContract(
            f"the path policy of the lease is lost{f': {problem}' if problem else ''}",
            location=str(world.store.path(relative)),
            hint="open a new attempt",
        )
    _write(world, lease, again)
    return again


def _read(world: World, relative: str) -> tuple[CandidatePathPolicy | None, str]:
    """The snapshot, or what is wrong with it (nothing is, where there is none)."""
    try:
        found = world.store.read_optional(kinds.PATH_POLICY, relative)
        return (None, "") if found is None else (CandidatePathPolicy.of(found["policy"]), "")
    except BrokenContract as error:
        return None, error.message
    except ValueError as error:
        return None, str(error)


def ignore_rules(world: World, base: str) -> IgnoreRules:
    """The ignore rules of a commit and of the repository, as they are now."""
    key = (str(world.repository.objects), base)
    if key not in _listed:
        if len(_listed) >= LISTED_KEPT:
            _listed.clear()
        _listed[key] = _ignore_files(world, base)
    return rules_of(_listed[key], exclude=excluded_here(world))


def as_opened(world: World, base: str, policy: CandidatePathPolicy | None) -> bool:
    """Whether the repository's own ignore rules are still those that the policy was taken with."""
    return policy is None or ignore_rules(world, base).sources == policy.ignore.sources


def _ignore_files(world: World, base: str) -> list[tuple[bytes, bytes]]:
    """Path and content of each `.gitignore` of a commit."""
    with open_objects(world) as objects:
        tree = objects.find(f"{base}^{{tree}}")
        if tree is None:
            raise BrokenContract(f"base {base} is not in this repository", outcome="missing_base", hint="fetch it")
        entries = objects.tree(tree[0])
        found = [e for e in entries if e.path.rpartition(b"/")[2] == b".gitignore" and e.mode.startswith("100")]
        return [(entry.path, objects.read(entry.oid)) for entry in found]


def excluded_here(world: World) -> bytes:
    """The repository's `info/exclude`, which is shared by all its worktrees."""
    path = world.repository.common_dir / "info" / "exclude"
    try:
        return files.read(path, EXCLUDE_LIMIT) if os.path.lexists(path) else b""
    except BrokenContract:
        return b""  # a link, or absurdly long: git does not follow the one, and nobody wrote the other
