"""Holding a branch: flock is the exclusion, the document beside it is the evidence that a dead holder leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base import kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, Refused
from ktxkit.base.lock import flocked, nonce
from ktxkit.base.owners import OwnerState
from ktxkit.git.git import Git
from ktxkit.git.neutral import sweep
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import BranchLock, BranchLockPending, BranchLockPhase, BranchLockVerification, IntentStep

    class LockFacts(TypedDict, total=False):
        """What a holder notes; None removes a key."""

        phase: BranchLockPhase
        blocked: str
        pending: BranchLockPending | None
        verification: BranchLockVerification | None
        head: str | None


CARRIED: Final = ("head", "pending", "verification")
WAIT = 600.0  # seconds that an integrator waits for another one


class HeldBranch:
    """A held branch. What it notes survives the death of the process, but not that of the machine."""

    def __init__(self, world: World, ref: str, fd: int, document: BranchLock) -> None:
        self.world = world
        self.ref = ref
        self.fd = fd
        self.document = document

    @property
    def nonce(self) -> str:
        return str(self.document["nonce"])

    @property
    def git(self) -> Git:
        """git for what moves the branch: its children keep the lock until they have ended, and it flushes."""
        place = self.world.git.at(self.world.repository.directory)
        return place.holding(self.fd).configured(core_fsync="objects,reference")

    def note(self, **facts: Unpack[LockFacts]) -> None:
        """Write facts into the document; the value None removes one."""
        document = cast("dict[str, Any]", self.document)  # its keys are those of LockFacts
        for key, value in facts.items():
            if value is None:
                document.pop(key, None)
            else:
                document[key] = value
        self.world.writable_store.write(kinds.LOCK, names.branch_lock_doc(self.ref), self.document, durable=False)

    def let_go(self, **facts: Unpack[LockFacts]) -> None:
        """The last note of a holding. On a disk that fails it stays as it was: the next holder finds its owner gone.

        What the holding was for must not be reported as failed because of it, nor may it hide why it failed.
        """
        with suppress(OSError):
            if any(self.document.get(key) != value for key, value in facts.items()):
                self.note(**facts)

    def begin(self, step: IntentStep, intent: str) -> None:
        """A step begins whose intent will be at that place: recovery looks there."""
        phase = "held" if self.document["phase"] == "idle" else self.document["phase"]
        self.note(phase=phase, pending={"step": step, "intent": intent, "nonce": self.nonce})

    def settle(self, head: str | None = None) -> None:
        """The pending step has its receipt, or has left nothing; the branch is at `head`, and nothing goes on."""
        facts: LockFacts = {"pending": None, "verification": None, "phase": "idle"}
        facts |= {"head": head} if head else {}
        self.note(**facts)


@contextmanager
def hold(world: World, ref: str, *, wait: float | None = WAIT) -> Iterator[HeldBranch]:
    """Hold the lock of a branch of this repository for the block. Recovery is the caller's (`flows.recover.holding`).

    Raises Refused where another process holds it for `wait` seconds, Blocked where a person must look first.
    """
    path = world.writable_store.path(f"locks/{names.branch_lock(ref)}.lock")
    with flocked(path, clock=world.clock, wait=wait, what=ref) as fd:
        sweep(world.writable_store.root)
        old = world.store.read_optional(kinds.LOCK, names.branch_lock_doc(ref))
        _refuse_unproven(world, ref, old)
        held = HeldBranch(world, ref, fd, _document(world, ref, old))
        held.note(phase="held")
        try:
            yield held
        except Blocked as error:
            held.let_go(phase="blocked", blocked=error.message[:4000])
            raise
        except Exception:
            held.let_go(phase="idle")
            raise
        held.let_go(phase="idle")


def _document(world: World, ref: str, old: BranchLock | None) -> BranchLock:
    document: BranchLock = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "lock",
        "ref": ref,
        "nonce": nonce(),
        "phase": "held",
        "owner": owners.hold(world.writable_store.root).document(),
        "since": timestamp(world.clock.now()),
    }
    for key in CARRIED:
        if old is not None and key in old:
            document[key] = old[key]
    return document


def _refuse_unproven(world: World, ref: str, old: BranchLock | None) -> None:
    """A document that is not idle belongs to a holder that must be proven dead; what is blocked stays so."""
    if old is None or old["phase"] == "idle":
        return
    where = str(world.store.path(names.branch_lock_doc(ref)))
    if old["phase"] == "blocked":
        raise Blocked(
            f"{ref} is blocked: {old.get('blocked', 'a person must look')}",
            location=where,
            hint="look at what is named there; when it is as it should be, remove this document and try again",
        )
    owner = owners.Owner.of(old["owner"])
    standing = owners.state_of(owner, world.store.root)
    if owner == owners.this_owner() or standing is OwnerState.DEAD:
        return
    if standing is OwnerState.ALIVE:
        said = f"{ref} is held by process {owner.pid} (phase {old['phase']}), which is alive"
        raise Refused(said, location=where, hint="wait for it to end")
    said = f"{ref} is held by another machine or namespace (phase {old['phase']}): {standing.value}"
    raise Refused(said, location=where, hint="wait for it to end; if it is gone for good, remove this document")
