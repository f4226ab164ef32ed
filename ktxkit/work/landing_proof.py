"""That what lands was verified: the job file's `verify` on exactly the tree that the target gets.

The last unit's verification says so where its tree lands as it is. A replay on a moved target, a projection without
units, or a unit that was applied by hand make a tree that nobody verified: it is asked before the target moves.
"""

from __future__ import annotations

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Conflict
from ktxkit.base.rules.digests import digest_of
from ktxkit.store import jobs
from ktxkit.store.branch_lock import Held
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import control, integrate, verification
from ktxkit.work.rules.job_file import Step, plan_of


def wanted(world: World, job: Document) -> Step | None:
    """The verification of the job file; None where it has none, and for a job that was made by hand."""
    document = world.store.read_optional("job-file", names.job_part(job["jobId"], "job-file"))
    return plan_of(document).verify if document is not None else None


def on_record(world: World, job: Document, step: Step, tree: str) -> Document | None:
    """The pass of the command on exactly this tree that a unit's receipt has; the last unit's is looked at first."""
    command = digest_of(list(step.argv))
    for unit in reversed(jobs.units(job)):
        receipt = world.store.read_optional("receipt", names.unit_doc(job["jobId"], unit.position, unit.key, "receipt"))
        run = receipt.get("verification") if receipt is not None else None
        if run is None or (run["tree"], run.get("commandDigest")) != (tree, command):
            continue
        if verification.passed(run):
            return {**run, "reused": True}
    return None


LANDS = ("what would land", "put the target or the command right, or run the units again from the new target")
Tree = tuple[str, str]  # a commit, and its tree


def prove(
    world: World, job: Document, inner: Held, step: Step, at: Tree, *, said: Tree = LANDS, without: Tree | None = None
) -> Document:
    """Run the command on a commit whose tree is to land; returns its account.

    `inner`: the job's own branch is held; its checkout of candidates is where it runs. `said`: what the commit is, and
    what to do where it fails. `without`: nobody is blamed where that fails too (Refused). Raises Conflict
    (`verification_failed`) where it does not pass: nothing lands then.
    """
    head = str(inner.document.get("head", ""))  # proven by who holds it; the first base has no branch yet
    begin(world, job, inner, head or at[0])
    path = world.writable_store.path(names.integration_dir(job["jobId"]))
    check = verification.Check(step.argv, step.time_limit, path, names.job_dir(job["jobId"]), job["jobId"])
    facts = {"argv": list(step.argv), "tree": at[1]}
    with jobs.tracer(world, job).timed("verification", "landing_verification", facts) as told:
        run = verification.verify(world, inner, check, *at)
        if without is not None and not verification.passed(run):
            run = control.blamed(world, inner, check, without, at)
        told |= {"status": run["status"], "passed": verification.passed(run), "reused": run.get("reused")}
    if head:
        integrate.require_unmoved(inner, job["integrationRef"], head)
    end(world, job, inner, head)
    if not verification.passed(run):
        raise Conflict(
            f"{said[0]} does not pass the job's verification: {verification.why_not(run)}",
            outcome="verification_failed",
            where=job["target"],
            hint=f"nothing was moved; {said[1]}",
            data={"run": run},
        )
    return run


def begin(world: World, job: Document, held: Held, head: str) -> None:
    """The intent of a verification of the whole job, by which a dead one is found and its checkout healed."""
    place = names.job_part(job["jobId"], "verification-intent")
    held.begin("verify", place)
    intent = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "verify",
        "jobId": job["jobId"],
        "nonce": held.nonce,
        "at": timestamp(world.clock.now()),
        "ref": job["integrationRef"],
        "before": head,
    }
    world.writable_store.write("intent", place, intent)


def end(world: World, job: Document, held: Held, head: str) -> None:
    """It has its answer, and nothing of it is left."""
    world.writable_store.remove(names.job_part(job["jobId"], "verification-intent"))
    held.settle(head)
