"""A worktree's documents: its lease, the note of an opening, the sentinel; and what of its work is safe elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ktxkit.contracts import Document
from ktxkit.core import names
from ktxkit.core.text import path_bytes
from ktxkit.core.worktrees import Standing, Work, unsaved
from ktxkit.effects import process, snapshot
from ktxkit.effects.identity import identify, processes_inside
from ktxkit.effects.lock import flocked
from ktxkit.effects.worktrees import Worktrees, delete
from ktxkit.errors import Refused
from ktxkit.flows.jobs import Unit
from ktxkit.world import World

LEASE, OPENING, SENTINEL = "lease", "opening", "sentinel"


@dataclass(frozen=True)
class Place:
    """Where a worktree's documents are, and the name its kept work gets."""

    world: World
    directory: str  # in the store
    job: str
    name: str  # a component of a ref

    @classmethod
    def of_unit(cls, world: World, job: Document, unit: Unit) -> Place:
        directory = names.unit_dir(job["jobId"], unit.position, unit.key)
        return cls(world, directory, job["jobId"], names.ref_part(unit.position, unit.key))

    def locked(self, wait: float | None = 60.0) -> AbstractContextManager[int]:
        """Held while the worktree is opened, closed or pruned. Raises Refused after `wait` seconds."""
        path = self.world.writable_store.path(f"{self.directory}/.lock")
        return flocked(path, clock=self.world.clock, wait=wait, what=f"the worktree of {self.name}")

    def read(self, contract: str) -> Document | None:
        return self.world.store.read_optional(contract, f"{self.directory}/{contract}.json")

    def write(self, contract: str, document: Document, *, durable: bool = True) -> None:
        self.world.writable_store.write(contract, f"{self.directory}/{contract}.json", document, durable=durable)

    def remove(self, contract: str) -> None:
        self.world.writable_store.remove(f"{self.directory}/{contract}.json")

    def attic_ref(self, attempt: int, commit: str) -> str:
        """The same work goes to the same ref, however often a closing is tried."""
        return names.attic_ref(self.job, self.name, f"{attempt}-{commit[:16]}")


def worktrees(world: World) -> Worktrees:
    """The worktrees of the world's repository."""
    return Worktrees.of(world.git, world.repository.common_dir, world.writable_store, world.clock)


def path_of(document: Document) -> Path:
    """Where the worktree of a lease (or note) is."""
    return Path(path_bytes(document).decode("utf-8", "surrogateescape"))


def standing(lease: Document | None, wanted: Path) -> Standing:
    """What stands where a worktree belongs."""
    path = path_of(lease) if lease is not None else wanted
    found = identify(path)
    owner = lease.get("owner") if lease is not None else None
    dead = owner is not None and process.is_dead(process.Owner(owner["bootId"], owner["pid"], owner["startTime"]))
    return Standing(
        present=found is not None or path.is_symlink() or path.exists(),
        same=found is not None and lease is not None and found.matches(lease),
        holder_dead=dead,
        busy=dead and bool(processes_inside(path)),
    )


def recover_opening(place: Place) -> None:
    """Finish or undo what a killed opening left. Its lease is the receipt: without it, nobody has worked there yet."""
    note = place.read(OPENING)
    if note is None:
        return
    lease = place.read(LEASE)
    if lease is None or lease["nonce"] != note["nonce"]:
        delete(worktrees(place.world).let_go(path_of(note)))
    place.remove(OPENING)


def work_in(place: Place, lease: Document, path: Path) -> tuple[snapshot.Snapshot, Work]:
    """What the worktree holds, and what of it is kept elsewhere. Raises GitFailed where it cannot be read."""
    world = place.world
    git = world.git.at(path)
    copied = tuple(name.encode("utf-8", "surrogateescape") for name in lease.get("copied", ()))
    found = snapshot.take(git, world.writable_store.path("tmp"), copied)
    collected = git.resolve(f"refs/ktx/units/{place.job}/{place.name}", "tree")
    own = git.text("rev-list", "--max-count=1", found.head, "--not", lease["base"], "--branches", "--tags", "--remotes")
    return found, Work(
        tree=found.tree,
        base_tree=git.text("rev-parse", f"{lease['base']}^{{tree}}"),
        kept_trees=(collected,) if collected else (),
        commits=bool(own),
        uncommitted=found.uncommitted,
        nested=found.nested,
    )


def to_attic(place: Place, lease: Document | None, path: Path) -> str:
    """Keep what is in a worktree and nowhere else at an attic ref; returns the ref, "" where there is nothing to keep.

    Raises Refused where something in it cannot be kept, GitFailed where it cannot be read.
    """
    if lease is None or identify(path) is None:
        return ""
    found, work = work_in(place, lease, path)
    if work.nested:
        raise Refused(f"it holds {unsaved(work)}", where=str(path), hint="move that away first")
    if not work.commits and not unsaved(work):
        return ""
    message = f"kept from {place.name}, attempt {lease['attempt']}, of {place.job}"
    kept = snapshot.commit(place.world.git.at(path), found, message, lease["openedAt"])
    ref = place.attic_ref(lease["attempt"], kept)
    worktrees(place.world).keep(ref, kept)
    return ref
