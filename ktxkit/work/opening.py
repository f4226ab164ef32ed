"""Making a worktree and its lease, in an order that makes every kill recoverable.

A note first, then the registration, the branch, the files, the lease; then the note goes. All of it under the place's
own lock, which the kernel lets go when we die: whoever gets it next finds a note without its lease, and undoes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.identity import identify
from ktxkit.base.lock import nonce
from ktxkit.base.removal import delete
from ktxkit.base.rules.text import path_fields
from ktxkit.git import copying
from ktxkit.git.git import Git
from ktxkit.observer.path_policy import opening_facts
from ktxkit.observer.rules.domain import attempt_name
from ktxkit.store.leases import LEASE, OPENING, Place, must_be_ours, path_of, worktrees
from ktxkit.store.rules import names
from ktxkit.store.store import ensure_ignored
from ktxkit.store.world import World

PASSED_ON = ("GIT_LFS_SKIP_SMUDGE",)  # what git's filters may see of the caller's git environment


@dataclass(frozen=True)
class Wanted:
    """The worktree that is to be made."""

    path: Path
    mode: str
    base: str  # commit
    facts: Document  # what else its lease says
    branch: str = ""  # full ref that HEAD shall be; detached where empty
    creates: bool = False  # the branch is new
    copy: Sequence[str] = ()
    sparse: Sequence[str] = ()


def make(place: Place, wanted: Wanted, old: Document | None) -> Document:
    """Make the worktree; returns its lease, which is on the disk. A failure leaves nothing behind. The lock is held.

    Raises CannotRun, GitFailed, Refused. `old`: the lease before, whose attempt and fence this one follows.
    """
    world, mark = place.world, nonce()
    ensure_ignored(world.writable_store, world.repository, world.git)
    now = timestamp(world.clock.now())
    place.write(OPENING, _note(wanted, mark, now), durable=False)
    try:
        admin = _checkout(world, wanted, mark)
        copied = copying.copy_into(_source(world), wanted.path, wanted.copy) if wanted.copy else None
        lease = _lease(wanted, admin, old, {"nonce": mark, "openedAt": now})
        if copied is not None:
            lease["copied"] = [path_fields(path)["path"] for path in copied.paths]
            lease["copyUnmatched"] = list(copied.unmatched)
        lease |= opening_facts(world, lease, old)
        place.write(LEASE, lease)
    except BaseException:
        recover_opening(place)
        raise
    place.remove(OPENING)
    return lease


def _note(wanted: Wanted, mark: str, now: str) -> Document:
    branch = {"branch": wanted.branch, "createsBranch": wanted.creates} if wanted.branch else {}
    head = {"schemaVersion": SCHEMA_VERSION, "kind": OPENING, "nonce": mark, "mode": wanted.mode, "base": wanted.base}
    return {**head, **path_fields(bytes(wanted.path)), **branch, "at": now}


def _checkout(world: World, wanted: Wanted, mark: str) -> Path:
    """Register, put HEAD on its branch, write the files; returns the git dir."""
    made = worktrees(world)
    existing = wanted.branch.removeprefix("refs/heads/") if wanted.branch and not wanted.creates else ""
    admin = made.add(wanted.path, wanted.base, branch=existing, sparse=wanted.sparse)
    if wanted.creates:
        made.branch_create(wanted.branch, wanted.base, world.repository.zero, _made_by(mark))
        made.at(wanted.path).run("symbolic-ref", "-m", _made_by(mark), "HEAD", wanted.branch)
    passed = {key: world.env[key] for key in PASSED_ON if key in world.env}
    made.populate(wanted.path, passed, plain=wanted.mode == "unit")
    return admin


def _made_by(mark: str) -> str:
    """The reflog message that proves which opening made a branch."""
    return f"ktxkit: opened {mark}"


def _source(world: World) -> Git:
    """The checkout that files are copied from: the one the command stands in."""
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout to copy from: this is a bare repository", hint="leave --copy out")
    return world.git.at(top)


def _lease(wanted: Wanted, admin: Path, old: Document | None, more: Document) -> Document:
    identity = identify(wanted.path)
    assert identity is not None, "git made the worktree"
    number = 1 if old is None else old["attempt"] + 1
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": LEASE,
        "leaseId": more["nonce"],
        **wanted.facts,
        "generation": 1,
        "attempt": number,
        "fence": number,
        "leaseEpoch": number,
        "mode": wanted.mode,
        "base": wanted.base,
        **({"branch": wanted.branch, "createdBranch": wanted.creates} if wanted.branch else {"detached": True}),
        **path_fields(bytes(wanted.path)),
        **path_fields(bytes(admin), "adminDir"),
        "worktreeId": admin.name,
        **identity.document(),
        **more,
        "state": "open",
    }


def recover_opening(place: Place) -> bool:
    """Finish or undo what a killed opening left; True where something was undone. The lock is held.

    The lease is the receipt: without it nobody has worked there yet, and worktree and branch go.
    """
    note = place.read(OPENING)
    if note is None:
        return False
    lease = place.read(LEASE)
    undo = lease is None or lease["nonce"] != note["nonce"]
    if undo:
        must_be_ours(place.world, note)
        made = worktrees(place.world)
        made.settle(path_of(note))
        delete(made.let_go(path_of(note)))
        if note.get("createsBranch") and made.newest_reflog(note["branch"]) == _made_by(note["nonce"]):
            made.delete_ref(note["branch"], note["base"])
        _drop_attempt(place, note, lease)
    place.remove(OPENING)
    return undo


def _drop_attempt(place: Place, note: Document, old: Document | None) -> None:
    """What an undone opening had said of its attempt; that of a unit is written over by the next one."""
    if note["mode"] != "unit":
        number = 1 if old is None else old["attempt"] + 1
        attempt = attempt_name({"leaseId": note["nonce"], "generation": 1, "attempt": number})
        folder = names.attempt_dir(attempt)
        delete(place.world.store.path(folder) if place.world.store.exists(folder) else None)


def make_in_place(place: Place, wanted: Wanted, admin: Path, old: Document | None) -> Document:
    """Lease a worktree that someone else made and that is never removed here; returns the lease."""
    now = timestamp(place.world.clock.now())
    lease = _lease(wanted, admin, old, {"nonce": nonce(), "openedAt": now})
    lease.pop("createdBranch", None)
    lease |= opening_facts(place.world, lease, old)
    place.write(LEASE, lease)
    return lease
