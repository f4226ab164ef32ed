"""The plan-wide gate: a command on the integration head, when every unit has its outcome.

The attempt is recorded before the command runs, the receipt last; an attempt without its receipt is never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, CannotRun, Refused
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.text import plural
from ktxkit.store import jobs
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import integrate, land, recover, verification

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, Verification, VerificationAccepted


CONTRACT = "verification"
SHOWN = 10  # unit keys in a message


@dataclass(frozen=True)
class VerifyRequest:
    """What to run. `limit`: seconds; `summary`: a line for the record."""

    argv: Sequence[str]
    limit: float | None = None
    summary: str = ""


def verify_job(world: World, job: Job, ask: VerifyRequest) -> Verification:
    """Run the command on the integration head, under the lock; returns the receipt (contract `verification`).

    Raises Refused where a unit has no outcome yet, Blocked where the head is not what the receipts say or the command
    moved it.
    """
    if not ask.argv:
        raise CannotRun("which command?", hint="job-verify --job JOB -- make check")
    with recover.holding(world, job["integrationRef"], job) as held:
        job = jobs.load(world, job["jobId"])
        head = recover.expected_head(world, job, held)
        accepted = accepted_units(world, job)
        _require_terminal(world, job)
        _require_contained(held, job, head, accepted)
        attempt = _attempt(world, job, held, ask, head, accepted)
        facts = {"argv": list(ask.argv), "head": head, "units": len(accepted)}
        with jobs.tracer(world, job).timed("verification", "job_verification", facts) as told:
            made = _run(world, job, held, ask, attempt)
            told |= {"outcome": made["outcome"], "status": made["run"]["status"]}
        return made


def accepted_units(world: World, job: Job) -> list[VerificationAccepted]:
    """Each accepted unit with its commit, in unit order."""
    found: list[VerificationAccepted] = []
    for unit in jobs.units(job):
        receipt = world.store.read_optional(
            kinds.RECEIPT, names.unit_doc(job["jobId"], unit.position, unit.key, "receipt")
        )
        if receipt is not None and receipt["outcome"] == "accepted":
            found.append({"unitKey": unit.key, "position": unit.position, "commit": receipt["commit"]})
    return found


def _require_terminal(world: World, job: Job) -> None:
    """Every unit has its receipt, or its lease is closed, or the job itself has ended without it."""
    waiting = []
    for unit in jobs.units(job):
        place = (job["jobId"], unit.position, unit.key)
        if world.store.exists(names.unit_doc(*place, "receipt")):
            continue
        lease = world.store.read_optional(kinds.LEASE, names.unit_doc(*place, "lease"))
        if (lease is None and job["state"] == "open") or (lease is not None and lease["state"] == "open"):
            waiting.append(unit.key)
    if waiting:
        shown = ", ".join(waiting[:SHOWN]) + (", ..." if len(waiting) > SHOWN else "")
        raise Refused(
            f"{plural(len(waiting), 'unit')} without an outcome: {shown}",
            hint="integrate them with patch-apply, or close them with worktree-close",
            data={"units": waiting},
        )


def _require_contained(held: HeldBranch, job: Job, head: str, accepted: Sequence[VerificationAccepted]) -> None:
    """The head is the last accepted commit, every accepted commit is in it, none twice and nothing else."""
    commits = [unit["commit"] for unit in accepted]
    there = held.git.run("rev-list", "--first-parent", f"{job['targetAtStart']}..{head}", "--").lines
    wrong = sorted(set(commits) ^ set(there)) or [c for c in commits if commits.count(c) > 1]
    base = str(job.get("base", job["targetAtStart"]))
    if wrong or head != (there[0] if there else base):
        raise Blocked(
            f"the integration head does not hold exactly the accepted commits: {', '.join(wrong[:3]) or head}",
            hint="see the reflog of the integration branch",
            data={"head": head, "accepted": commits, "found": there},
        )


def _attempt(
    world: World, job: Job, held: HeldBranch, ask: VerifyRequest, head: str, accepted: Sequence[VerificationAccepted]
) -> Verification:
    """The attempt, on the disk before anything runs; and the intent by which a dead one is found."""
    attempt: Verification = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "verification",
        "jobId": job["jobId"],
        "state": "attempt",
        "nonce": held.nonce,
        "startedAt": timestamp(world.clock.now()),
        "integrationRef": job["integrationRef"],
        "head": head,
        "accepted": list(accepted),
    }
    attempt |= {"summary": ask.summary} if ask.summary else {}
    land.begin(world, job, held, head)
    _keep_earlier(world, job)
    world.writable_store.write(kinds.VERIFICATION, names.job_part(job["jobId"], "verification"), attempt)
    return attempt


def _keep_earlier(world: World, job: Job) -> None:
    """The verification before this one, under its number: nothing that testifies is overwritten."""
    old = world.store.read_optional(kinds.VERIFICATION, names.job_part(job["jobId"], "verification"))
    if old is not None:
        number = len(world.store.children(f"{names.job_dir(job['jobId'])}/verifications")) + 1
        place = names.job_part(job["jobId"], f"verifications/{number:04d}")
        world.writable_store.write(kinds.VERIFICATION, place, old)


def _run(world: World, job: Job, held: HeldBranch, ask: VerifyRequest, attempt: Verification) -> Verification:
    began = world.clock.monotonic()
    path = world.writable_store.path(names.integration_dir(job["jobId"]))
    check = verification.Check(ask.argv, ask.limit, path, names.job_dir(job["jobId"]))
    head = attempt["head"]
    tree = held.git.text("rev-parse", "--verify", f"{head}^{{tree}}")
    run = verification.verify(world, held, check, head, tree)
    integrate.require_unmoved(held, job["integrationRef"], head)
    made: Verification = {
        **attempt,
        "state": "receipt",
        "completedAt": timestamp(world.clock.now()),
        "outcome": "done" if verification.passed(run) else "verification_failed",
        "run": run,
        "durationMs": round((world.clock.monotonic() - began) * 1000, 3),
    }
    made["evidenceDigest"] = digest_of({key: value for key, value in made.items() if key != "durationMs"})
    world.writable_store.write(kinds.VERIFICATION, names.job_part(job["jobId"], "verification"), made)
    land.end(world, job, held, head)
    return made
