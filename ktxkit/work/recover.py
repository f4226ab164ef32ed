"""Finishing or forgetting what a dead process left, exactly once; and proving that a branch is where we left it.

How far a job's own branch is in its target, and bringing it up to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import contracts, kinds, owners
from ktxkit.base.errors import Blocked, KtxError, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, stands
from ktxkit.git import merging, stale
from ktxkit.git.neutral import open_neutral
from ktxkit.store import leases
from ktxkit.store.active import ActiveJob, cleared_meanwhile
from ktxkit.store.branch_lock import WAIT, HeldBranch, hold
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import target, verification
from ktxkit.work.report import has_moved, is_in, no_longer_in

if TYPE_CHECKING:
    from ktxkit.base.documents import Intent, Job, JobCaughtUp, LandingReceipt


@contextmanager
def holding(world: World, ref: str, job: ActiveJob | None = None, *, wait: float | None = WAIT) -> Iterator[HeldBranch]:
    """Hold a branch, after what a dead holder left pending on it is finished or forgotten."""
    with hold(world, ref, wait=wait) as held:
        settle_pending(held, job)
        try:
            yield held
        except Blocked:
            raise
        except KtxError as error:
            _settle_at_once(held, job, error)
            raise


def _settle_at_once(held: HeldBranch, job: ActiveJob | None, error: KtxError) -> None:
    """Refused in the middle of a step: nothing of it stays. On a disk that fails the next holder sees to it."""
    try:
        settle_pending(held, job)
    except OSError as second:
        error.add_note(f"and what was begun could not be put back yet: {second}")


def recover(job: ActiveJob) -> None:
    """Settle whatever is pending on the job's integration branch and on its target."""
    for ref in (job.integration_ref, job.target):
        if job.world.store.exists(names.branch_lock_doc(ref)):
            with holding(job.world, ref, job):
                pass


def settle_pending(held: HeldBranch, job: ActiveJob | None) -> None:
    """Finish the pending step where its branch has moved, forget it where it has not. Raises Blocked otherwise."""
    pending = held.document.get("pending")
    if pending is None:
        return
    intent = held.world.store.read_optional(kinds.INTENT, pending["intent"])
    if intent is not None and intent["step"] != "land":
        path, logs = verified_at(held.ref, intent)
        verification.heal(held, held.world.store.path(path), logs, pending["nonce"])
    if intent is None:
        held.settle()
        return
    cleared = clear_own_locks(held.world, intent) if pending["nonce"] != held.nonce else ()
    settlers = {"apply": settle_apply, "land": settle_land, "apply-file": settle_file, "verify": settle_verify}
    settlers[intent["step"]](held, intent, pending["intent"])
    _told(job, intent, cleared)


def clear_own_locks(world: World, intent: Intent) -> list[Path]:
    """The lock of a ref, left by a git of ours that was killed in moving it: it would stop everybody for ever.

    Ours it is where it was made after the intent, and no process is left that could be at work on it.
    """
    if owners.others(world.store.root):
        return []  # a git of theirs may hold it
    git = world.git.at(world.repository.directory)
    if "checkout" in intent:
        top = Path(os.fsdecode(path_bytes(intent, "checkout")))
        git = world.git.at(top) if top.is_dir() else git
    git_dir = Path(os.fsdecode(git.run("rev-parse", "--absolute-git-dir").out.removesuffix(b"\n")))
    since = datetime.fromisoformat(intent["at"]).timestamp()
    return stale.clear_ref_locks(git_dir, world.repository.common_dir, intent["ref"], since, world.limits.lock_age)


def verified_at(ref: str, intent: Intent) -> tuple[str, str]:
    """Where the candidates of a step are verified, and where the logs of that go: both in the store."""
    if "jobId" not in intent:
        return names.verify_dir(ref), names.VERIFY_LOGS
    job = intent["jobId"]
    unit = names.unit_dir(job, intent["position"], intent["unitKey"]) if "unitKey" in intent else names.job_dir(job)
    return names.integration_dir(job), unit


def settle_apply(held: HeldBranch, intent: Intent, intent_name: str) -> None:
    """An application: its receipt is beside its intent."""
    beside = intent_name.removesuffix("intent.json") + "receipt.json"
    receipt = held.world.store.read_optional(kinds.RECEIPT, beside)
    if receipt is not None and receipt["nonce"] == intent["nonce"]:
        held.settle(receipt.get("after", receipt["before"]))
        return
    there = held.git.resolve(intent["ref"])
    if "commit" in intent and there == intent["commit"]:
        prepared = contracts.validate(kinds.RECEIPT, intent["prepared"], intent_name)
        held.world.writable_store.write(kinds.RECEIPT, beside, prepared)
        held.settle(there)
    elif there == intent["before"]:
        held.world.writable_store.remove(intent_name)
        held.settle(there)
    else:
        raise Blocked(
            f"{stands(intent['ref'], there)}, expected {intent['before']} or {intent.get('commit', 'nothing else')}",
            location=str(held.world.store.path(intent_name)),
            hint="it was moved by a commit that is not ours, or deleted; put it back with git update-ref",
            data={"expected": intent["before"], "found": there or ""},
        )


def settle_land(held: HeldBranch, intent: Intent, intent_name: str) -> None:
    """A landing: the target moved (then it is finished), or it did not (then its checkout is put right)."""
    beside = names.job_part(intent["jobId"], "landing")
    landing = held.world.store.read_optional(kinds.LANDING, beside)
    if landing is None or landing["nonce"] != intent["nonce"]:
        if not has_moved(held.git, intent):
            forget_move(held, intent, intent_name)
            return
        landing = contracts.validate(kinds.LANDING, intent["prepared"], intent_name)
        held.world.writable_store.write(kinds.LANDING, beside, landing)
    mark_landed(ActiveJob.load(held.world, intent["jobId"]), landing)
    held.settle(landing["after"])


def settle_lost(held: HeldBranch, job: ActiveJob) -> None:
    """A landing whose target has moved, with neither receipt nor lock document (a person removed it as told)."""
    place = job.part("landing-intent")
    intent = job.world.store.read_optional(kinds.INTENT, place)
    if intent is not None and intent["ref"] == held.ref and has_moved(held.git, intent):
        settle_land(held, intent, place)


def settle_file(held: HeldBranch, intent: Intent, intent_name: str) -> None:
    """An application of a file onto a checked-out branch."""
    if has_moved(held.git, intent):
        prepared = contracts.validate(kinds.RECEIPT, intent["prepared"], intent_name)
        held.world.writable_store.write(kinds.RECEIPT, names.branch_receipt(held.ref), prepared)
        held.world.writable_store.remove(intent_name)
        held.settle()
    else:
        forget_move(held, intent, intent_name)


def settle_verify(held: HeldBranch, intent: Intent, intent_name: str) -> None:
    """A plan-wide verification that was cut off: its attempt stays on record, and is no pass."""
    held.world.writable_store.remove(intent_name)
    held.settle()


def mark_landed(job: ActiveJob, landing: LandingReceipt) -> None:
    """The job's own document says that it has landed (or that there was nothing to land)."""

    def edit(document: Job) -> None:
        document["state"] = "landed" if "commit" in landing else "closed"
        if "commit" in landing:
            document["landed"] = {"commit": landing["commit"], "at": landing["at"]}

    job.change(edit)


def forget_move(held: HeldBranch, intent: Intent, intent_name: str) -> None:
    """The branch did not move: a checkout whose move was cut off is put back, and nothing of the step is left."""
    if "commit" in intent and "checkout" in intent:
        top = Path(os.fsdecode(path_bytes(intent, "checkout")))
        git = target.runner(held, top)
        if top.is_dir() and git.resolve("HEAD") == intent["before"]:
            began = datetime.fromisoformat(intent["at"]).timestamp()
            target.put_back(held, git, intent["before"], intent["commit"], intent["ref"], began)
    held.world.writable_store.remove(intent_name)
    held.settle()


def _told(job: ActiveJob | None, intent: Intent, cleared: Sequence[Path]) -> None:
    if job is None or job.id != intent.get("jobId"):
        return
    paths = [str(path) for path in cleared] or None
    facts = {
        "step": intent["step"],
        "unitKey": intent.get("unitKey"),
        "before": intent["before"],
        "cleared": paths,
    }
    job.tracer.emit("recovery", "interrupted_step_settled", facts, level="info")


class IntegrationBranch:
    """A job's own branch while it is held: its lock, and its head, which `move` alone changes.

    The head is proven when it is asked for first: it is where we left it, or the branch is made at the job's base.
    """

    __slots__ = ("_head", "job", "lock")

    def __init__(self, job: ActiveJob, lock: HeldBranch, head: str = "") -> None:
        self.job = job
        self.lock = lock
        self._head = head

    @property
    def world(self) -> World:
        return self.job.world

    @property
    def ref(self) -> str:
        return self.job.integration_ref

    @property
    def head(self) -> str:
        """The commit that it is at. Raises Blocked for one that is not ours."""
        return self._head or self.prove()

    @property
    def noted_head(self) -> str:
        """The head that the lock's document has; empty before there is one."""
        return str(self.lock.document.get("head", ""))

    def is_cleared(self) -> bool:
        """Whether it is gone after all of it had landed (`git ktx clean` took it away); the head is proven if not."""
        there = self.lock.git.resolve(self.ref)
        if there is None and self._landed_at(_chain(self, None)):
            return True
        self._head = self._proven(there)
        return False

    def _landed_at(self, known: ReceiptChain) -> str:
        """Where it was when all that the receipts have landed; empty where that never was."""
        landing = self.job.read(kinds.LANDING, "landing")
        head = landing["integrationHead"] if landing is not None else ""
        return head if known.tips == {head} else ""

    def prove(self, *, start: str = "", keep_ref: str = "") -> str:
        """The head, proven to be where we left it; made at the job's base where there is no branch yet.

        One that was cleared after all of it had landed is made again where it was. `start`: a commit to make it at,
        instead of the base. `keep_ref`: a ref of ours that is made beside it, at the same commit. Raises Blocked for a
        commit on it that is not ours, Refused where it was cleared and its commits are gone.
        """
        self._head = self._proven(self.lock.git.resolve(self.ref), start, keep_ref)
        return self._head

    def _proven(self, there: str | None, start: str = "", keep_ref: str = "") -> str:
        if there is None or there != self.noted_head:
            return self._by_receipts(there, start, keep_ref)
        return there

    def _by_receipts(self, there: str | None, start: str, keep_ref: str) -> str:
        base, ref = self.job.document.get("base"), self.ref
        known = _chain(self, there)
        landed = self._landed_at(known) if there is None else ""
        if landed and self.lock.git.resolve(landed) is None:
            said = f"job {self.job.id} has landed, and its own branch was cleared"
            hint = "give the change a job of its own: worktree-open --job OTHER"
            raise Refused(said, location=self.job.target, hint=hint)
        if there is None and (landed or not known.tips):
            first = landed or start or base or self.job.document["targetAtStart"]
            made = [f"create {ref} {first}", *([f"update {keep_ref} {first}"] if keep_ref else [])]
            block = "".join(f"option no-deref\n{line}\n" for line in made).encode()
            trees = leases.worktrees(self.world)
            trees.on_own("update-ref", "--create-reflog", "--stdin", git=self.lock.git, stdin=block)
            self.lock.note(head=first)
            return first
        wanted = known.tips or {start, base, self.job.document["targetAtStart"]} - {"", None}
        if there is None or there not in wanted:
            raise Blocked(
                f"{stands(ref, there)}, expected {' or '.join(sorted(map(str, wanted)))}",
                hint="a commit that is not ours is on it, or it was moved or deleted; look at its reflog",
                data={"ref": ref, "expected": sorted(map(str, wanted)), "found": there or ""},
            )
        self.lock.note(head=there)
        return there

    def move(self, new: str) -> None:
        """Compare-and-swap to another commit. Raises Blocked where the branch is not where it was under our lock."""
        target.move_ref(self.lock, self.ref, new, self.head)
        self._head = new

    def require_unmoved(self, head: str) -> None:
        """Raises Blocked where a verification moved the branch that it was to judge from `head`."""
        there = self.lock.git.resolve(self.ref)
        if there != head:
            raise Blocked(
                f"the verification moved {self.ref}: expected {head}, found {there}",
                hint="a verification must not move branches; see the reflog",
                data={"ref": self.ref, "expected": head, "found": there or ""},
            )


@contextmanager
def integrating(job: ActiveJob, *, wait: float | None = WAIT) -> Iterator[IntegrationBranch]:
    """Hold the job's own branch (`holding`). Raises Refused where the job was cleared while its lock was waited for."""
    with holding(job.world, job.integration_ref, job, wait=wait) as lock:
        if not job.world.store.exists(names.job_doc(job.id)) and lock.git.resolve(job.integration_ref) is None:
            raise cleared_meanwhile(job.id)
        yield IntegrationBranch(job, lock)


@contextmanager
def alone_with(job: ActiveJob) -> Iterator[None]:
    """Nobody runs, integrates, verifies or lands the job, or has a worktree of it in hand. Raises Refused where
    somebody does."""
    store, clock, what = job.world.writable_store, job.world.clock, f"job {job.id}"
    with ExitStack() as held:
        held.enter_context(flocked(store.path(f"locks/run-{job.id}.lock"), clock=clock, wait=0, what=what))
        held.enter_context(holding(job.world, job.integration_ref, job, wait=0))
        for unit in job.units:
            place = store.path(job.unit_dir(unit))
            if place.is_dir():
                held.enter_context(flocked(place / ".lock", clock=clock, wait=0, what=f"the worktree of {unit.key}"))
        yield


class ReceiptChain:
    """What the receipts of a job say of its integration branch."""

    def __init__(self) -> None:
        self.before: set[str] = set()
        self.after: set[str] = set()

    @property
    def tips(self) -> set[str]:
        """Where the branch must be: what some receipt left and none started from."""
        return self.after - self.before


def _chain(branch: IntegrationBranch, there: str | None) -> ReceiptChain:
    """From every receipt; an intent that has moved the branch to where it is and lost its receipt (a power cut) is
    settled first."""
    chain, job = ReceiptChain(), branch.job
    for unit in job.units:
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        if receipt is None or receipt["outcome"] != "accepted":
            intent = job.read(kinds.INTENT, "intent", unit)
            if intent is not None and there is not None and intent.get("commit") == there:
                settle_apply(branch.lock, intent, job.unit_doc(unit, "intent"))
                receipt = contracts.validate(kinds.RECEIPT, intent["prepared"])
        if receipt is not None and receipt["outcome"] == "accepted":
            chain.before.add(receipt["before"])
            chain.after.add(receipt["after"])
    return chain


class LandedUpTo(NamedTuple):
    """How far a job's own branch is in its target: the newest commit of it that has nothing to land, and the commit of
    the target that has it all."""

    commit: str
    target: str


def landed_up_to(job: ActiveJob) -> LandedUpTo:
    """Where what is to land begins: at the target's head when the job began, behind the last landing that the target
    still has, or where the branch was brought up to it."""
    git, start = job.git, job.document["targetAtStart"]
    landing = job.read(kinds.LANDING, "landing")
    found = LandedUpTo(start, start)
    if landing is not None and not no_longer_in(job):
        found = LandedUpTo(landing["integrationHead"], landing["after"])
    for step in reversed(job.document.get("caughtUp", ())):
        on_branch = git.ok("merge-base", "--is-ancestor", step["commit"], job.integration_ref)
        behind = git.ok("merge-base", "--is-ancestor", found.commit, step["commit"])
        if on_branch and behind and is_in(git, job.target, step["target"], start):
            return LandedUpTo(step["commit"], step["target"])
    return found


def catch_up(job: ActiveJob) -> str:
    """Bring the job's own branch up to its target, where nothing on it waits to land; returns its head.

    What starts from there starts from all that has landed, the job's own work and everybody's.
    """
    with integrating(job) as branch:
        done, now = landed_up_to(job), job.git.resolve(job.target)
        if now is None or branch.head != done.commit or done.target == now:
            return branch.head
        with open_neutral(job.world) as neutral:
            seconds = int(job.world.clock.now().timestamp())
            message = f"brought up to {job.target} at {now} by ktxkit\n"
            commit = merging.commit_tree(neutral, neutral.need_tree(now), branch.head, message, seconds)
        step: JobCaughtUp = {"commit": commit, "target": now}
        job.change(lambda document: document.setdefault("caughtUp", []).append(step))
        branch.move(commit)
        branch.lock.settle(commit)
        return commit
