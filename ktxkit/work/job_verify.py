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
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.work import land, recover, verification
from ktxkit.work.recover import IntegrationBranch

if TYPE_CHECKING:
    from ktxkit.base.documents import Verification, VerificationAccepted


CONTRACT = "verification"
SHOWN = 10  # unit keys in a message


@dataclass(frozen=True)
class VerifyRequest:
    """What to run. `limit`: seconds; `summary`: a line for the record."""

    argv: Sequence[str]
    limit: float | None = None
    summary: str = ""


def verify_job(job: ActiveJob, ask: VerifyRequest) -> Verification:
    """Run the command on the integration head, under the lock; returns the receipt (contract `verification`).

    Raises Refused where a unit has no outcome yet, Blocked where the head is not what the receipts say or the command
    moved it.
    """
    if not ask.argv:
        raise CannotRun("which command?", hint="job-verify --job JOB -- make check")
    with recover.integrating(job) as branch:
        job = ActiveJob.load(job.world, job.id)  # as it is now that the branch is ours
        branch = IntegrationBranch(job, branch.lock)
        head, accepted = branch.head, accepted_units(job)
        _require_terminal(job)
        _require_contained(branch, accepted)
        attempt = _attempt(branch, ask, accepted)
        facts = {"argv": list(ask.argv), "head": head, "units": len(accepted)}
        with job.tracer.timed("verification", "job_verification", facts) as told:
            made = _run(branch, ask, attempt)
            told |= {"outcome": made["outcome"], "status": made["run"]["status"]}
        return made


def accepted_units(job: ActiveJob) -> list[VerificationAccepted]:
    """Each accepted unit with its commit, in unit order."""
    found: list[VerificationAccepted] = []
    for unit in job.units:
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        if receipt is not None and receipt["outcome"] == "accepted":
            found.append({"unitKey": unit.key, "position": unit.position, "commit": receipt["commit"]})
    return found


def _require_terminal(job: ActiveJob) -> None:
    """Every unit has its receipt, or its lease is closed, or the job itself has ended without it."""
    waiting = []
    for unit in job.units:
        if job.world.store.exists(job.unit_doc(unit, "receipt")):
            continue
        lease = job.read(kinds.LEASE, "lease", unit)
        if (lease is None and job.state == "open") or (lease is not None and lease["state"] == "open"):
            waiting.append(unit.key)
    if waiting:
        shown = ", ".join(waiting[:SHOWN]) + (", ..." if len(waiting) > SHOWN else "")
        raise Refused(
            f"{plural(len(waiting), 'unit')} without an outcome: {shown}",
            hint="integrate them with patch-apply, or close them with worktree-close",
            data={"units": waiting},
        )


def _require_contained(branch: IntegrationBranch, accepted: Sequence[VerificationAccepted]) -> None:
    """The head is the last accepted commit, every accepted commit is in it, none twice and nothing else."""
    job, head = branch.job, branch.head
    commits = [unit["commit"] for unit in accepted]
    there = branch.lock.git.run("rev-list", "--first-parent", f"{job.document['targetAtStart']}..{head}", "--").lines
    wrong = sorted(set(commits) ^ set(there)) or [c for c in commits if commits.count(c) > 1]
    base = str(job.document.get("base", job.document["targetAtStart"]))
    if wrong or head != (there[0] if there else base):
        raise Blocked(
            f"the integration head does not hold exactly the accepted commits: {', '.join(wrong[:3]) or head}",
            hint="see the reflog of the integration branch",
            data={"head": head, "accepted": commits, "found": there},
        )


def _attempt(branch: IntegrationBranch, ask: VerifyRequest, accepted: Sequence[VerificationAccepted]) -> Verification:
    """The attempt, on the disk before anything runs; and the intent by which a dead one is found."""
    job = branch.job
    attempt: Verification = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "verification",
        "jobId": job.id,
        "state": "attempt",
        "nonce": branch.lock.nonce,
        "startedAt": timestamp(job.world.clock.now()),
        "integrationRef": branch.ref,
        "head": branch.head,
        "accepted": list(accepted),
    }
    attempt |= {"summary": ask.summary} if ask.summary else {}
    land.begin(branch, branch.head)
    _keep_earlier(job)
    job.world.writable_store.write(kinds.VERIFICATION, job.part("verification"), attempt)
    return attempt


def _keep_earlier(job: ActiveJob) -> None:
    """The verification before this one, under its number: nothing that testifies is overwritten."""
    old = job.read(kinds.VERIFICATION, "verification")
    if old is not None:
        number = 1
        while job.world.store.exists(place := job.part(f"verifications/{number:04d}")):
            number += 1
        job.world.writable_store.write(kinds.VERIFICATION, place, old)


def _run(branch: IntegrationBranch, ask: VerifyRequest, attempt: Verification) -> Verification:
    job, held, head = branch.job, branch.lock, branch.head
    began = job.world.clock.monotonic()
    path = job.world.writable_store.path(names.integration_dir(job.id))
    check = verification.Check(ask.argv, ask.limit, path, job.directory)
    tree = held.git.text("rev-parse", "--verify", f"{head}^{{tree}}")
    run = verification.verify(held, check, head, tree)
    branch.require_unmoved(head)
    made: Verification = {
        **attempt,
        "state": "receipt",
        "completedAt": timestamp(job.world.clock.now()),
        "outcome": "done" if verification.passed(run) else "verification_failed",
        "run": run,
        "durationMs": round((job.world.clock.monotonic() - began) * 1000, 3),
    }
    made["evidenceDigest"] = digest_of({key: value for key, value in made.items() if key != "durationMs"})
    job.world.writable_store.write(kinds.VERIFICATION, job.part("verification"), made)
    land.end(branch, head)
    return made
