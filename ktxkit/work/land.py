"""That what lands was verified: the job file's `verify` on exactly the tree that the target gets.

The last unit's verification says so where its tree lands as it is. A replay on a moved target, a projection without
units, or a unit that was applied by hand make a tree that nobody verified: it is asked before the target moves.

Replaying what a job accepted on a target that moved meanwhile: merged, proven and gated again, one by one.

Landing: the integration tree becomes one commit on the target, by compare-and-swap, or nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Conflict, Refused
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields, plural, printable
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.git.rules.patch import Entry
from ktxkit.store.active import ActiveJob
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import candidate, integrate, recover, target, verification
from ktxkit.work.candidate import CandidateVerdict, Offer
from ktxkit.work.recover import IntegrationBranch, LandedUpTo, landed_up_to
from ktxkit.work.report import REMARKS, naming_what_moved, no_longer_in, remark
from ktxkit.work.rules.job_file import JobCommand, plan_of
from ktxkit.work.target import FreeCheckout

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        Intent,
        LandedUnit,
        LandingReceipt,
        LandingReceiptOutcome,
        VerificationRun,
    )


def wanted(job: ActiveJob) -> JobCommand | None:
    """The verification of the job file; None where it has none, and for a job that was made by hand."""
    document = job.file()
    return plan_of(document).verify if document is not None else None


def on_record(job: ActiveJob, step: JobCommand, tree: str) -> VerificationRun | None:
    """The pass of the command on exactly this tree that a unit's receipt has, in the same environment; the last unit's
    is looked at first."""
    check = verification.Check(step.argv, step.time_limit, job.world.cwd, job.directory, env=step.env)
    wanted = (tree, digest_of(list(step.argv)), verification.environment_digest(job.world, check))
    for unit in reversed(job.units):
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        run = receipt.get("verification") if receipt is not None else None
        if run is None or (run["tree"], run.get("commandDigest"), run.get("environmentDigest")) != wanted:
            continue
        if verification.passed(run):
            return {**run, "reused": True}
    return None


LANDS = ("what would land", "put the target or the command right, or run the units again from the new target")
Tree = tuple[str, str]  # a commit, and its tree


def prove(
    branch: IntegrationBranch,
    step: JobCommand,
    at: Tree,
    *,
    subject: Tree = LANDS,
    without: Tree | None = None,
) -> VerificationRun:
    """Run the command on a commit whose tree is to land; returns its account.

    The job's checkout of candidates is where it runs. `subject`: what the commit is, and what to do where it fails.
    `without`: nobody is blamed where that fails too (Refused). Raises Conflict (`verification_failed`) where it does
    not pass: nothing lands then.
    """
    job, head = branch.job, branch.noted_head  # proven by who holds it; the first base has no branch yet
    begin(branch, head or at[0])
    path = job.world.writable_store.path(names.integration_dir(job.id))
    check = verification.Check(step.argv, step.time_limit, path, job.directory, job.id, keep=step.keep, env=step.env)
    facts = {"argv": list(step.argv), "tree": at[1]}
    with job.tracer.timed("verification", "landing_verification", facts) as told:
        run = verification.verify(branch.lock, check, *at)
        if without is not None and not verification.passed(run):
            run = integrate.blamed(branch.lock, check, without, at)
        told |= {"status": run["status"], "passed": verification.passed(run), "reused": run.get("reused")}
    if head:
        branch.require_unmoved(head)
    end(branch, head)
    if not verification.passed(run):
        raise Conflict(
            f"{subject[0]} does not pass the job's verification: {verification.why_not(run)}",
            outcome="verification_failed",
            location=job.target,
            hint=f"nothing was moved; {subject[1]}",
            data={"run": run},
        )
    return run


def begin(branch: IntegrationBranch, head: str) -> None:
    """The intent of a verification of the whole job, by which a dead one is found and its checkout healed."""
    job, place = branch.job, branch.job.part("verification-intent")
    branch.lock.begin("verify", place)
    intent: Intent = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "verify",
        "jobId": job.id,
        "nonce": branch.lock.nonce,
        "at": timestamp(job.world.clock.now()),
        "ref": branch.ref,
        "before": head,
    }
    job.world.writable_store.write(kinds.INTENT, place, intent)


def end(branch: IntegrationBranch, head: str) -> None:
    """It has its answer, and nothing of it is left."""
    branch.world.writable_store.remove(branch.job.part("verification-intent"))
    branch.lock.settle(head)


def replay(branch: IntegrationBranch, neutral: Neutral, since: str, onto: str) -> tuple[str, dict[str, str]]:
    """The tree of every change that was accepted after the commit `since`, on top of `onto`, and each unit's commit
    there.

    Raises Conflict, with the unit that no longer fits, where one is not accepted there; nothing was moved.
    """
    job = branch.job
    owners, options = _owners(job), gate_options(job)
    brought = {step["commit"] for step in job.document.get("caughtUp", ())}
    listed = job.git.run("rev-list", "--reverse", "--first-parent", f"{since}..{branch.head}", "--").lines
    commits = [commit for commit in listed if commit not in brought]
    base_tree = neutral.need_tree(onto)
    tree, parent, made = base_tree, onto, dict[str, str]()
    for commit in commits:
        key = owners.get(commit, commit)
        judged = _again(job.world, neutral, neutral.objects, commit, tree, base_tree, options)
        if judged.outcome not in ("candidate", "subsumed"):
            raise _no_longer(key, judged)
        if judged.outcome == "candidate":
            seconds = int(job.world.clock.now().timestamp())
            tree = judged.tree
            parent = merging.commit_tree(neutral, tree, parent, f"{key}: replayed by ktxkit\n", seconds)
            made[key] = parent
    return tree, made


def _owners(job: ActiveJob) -> dict[str, str]:
    found = {}
    for unit in job.units:
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        if receipt is not None and "commit" in receipt:
            found[receipt["commit"]] = unit.key
    return found


def gate_options(job: ActiveJob) -> Mapping[str, Any]:
    """How the gates run for this job, by its job file; nothing for a job that was made by hand."""
    document = job.file()
    if document is None:
        return {}
    plan = plan_of(document)
    return {**plan.gates, **({"prune": True} if plan.on_conflict == "prune" else {})}


def _again(
    world: World,
    neutral: Neutral,
    objects: Objects,
    commit: str,
    tree: str,
    base_tree: str,
    options: Mapping[str, Any],
) -> CandidateVerdict:
    old, new = neutral.need_tree(f"{commit}^"), neutral.need_tree(commit)
    offer = Offer(old, old, new, tuple(merging.changes(neutral, old, new)))
    judged = candidate.merged(neutral, objects, offer, tree)
    return candidate.gated(world, judged, base_tree, options) if judged.outcome == "candidate" else judged


def _no_longer(key: str, judged: CandidateVerdict) -> Conflict:
    where = [printable(clash.path) for clash in judged.conflicts[:5]]
    where += [f"{finding['path']}: {finding['message']}" for finding in judged.findings[:5]]
    return Conflict(
        f"unit {key} does not fit the moved target: {'; '.join(where)}",
        outcome=judged.outcome,
        hint="nothing was moved; run the unit again from the new target",
        data={"unitKey": key, "conflicts": [clash.document() for clash in judged.conflicts[:1000]]},
    )


PATHS_KEPT = 100_000


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ktxkit.git.checkout import UserSettings

    # The newest of the commits that a landing is made of, whether it is signed, and its message.
    Series: TypeAlias = Callable[["Landing", Neutral, UserSettings], tuple[str, bool, str]]


class Landing(NamedTuple):
    """One landing under way. `held`: the target. `tree`: what it will have; `replayed`: unit key to commit, where the
    target moved."""

    branch: IntegrationBranch
    held: HeldBranch
    message: str
    before: str
    tree: str
    began: float
    replayed: dict[str, str]
    rebased: bool
    series: Series | None = None

    @property
    def job(self) -> ActiveJob:
        return self.branch.job

    @property
    def world(self) -> World:
        return self.branch.world


def land(job: ActiveJob, *, message: str = "", rebase: bool = False, series: Series | None = None) -> LandingReceipt:
    """Squash what was accepted onto the target, or land it as the commits of `series`; returns the landing's receipt.

    A job that has landed has its receipt returned where the target still has it, and lands again where it has not. What
    was accepted since lands behind it, in a landing of its own.
    Raises Refused (`target_moved`, `dirty_target`): nothing moved.
    """
    began = job.world.clock.monotonic()
    if message:
        _check(message)
    with recover.integrating(job) as branch:
        cleared = branch.is_cleared()  # a branch that is not ours stops this job, and nobody else on the target
        with recover.holding(job.world, job.target, job) as held:
            old = job.read(kinds.LANDING, "landing")
            if old is None:
                recover.settle_lost(held, job)
                old = job.read(kinds.LANDING, "landing")
            gone = no_longer_in(job) if old is not None else ""
            if old is not None and not gone and (cleared or landed_up_to(job).commit == branch.head):
                recover.mark_landed(job, old)
                return old
            if old is not None:
                _put_by(job, old)
            return _land_now(branch, held, message, began, rebase=rebase, series=series)


def _land_now(
    branch: IntegrationBranch, held: HeldBranch, message: str, began: float, *, rebase: bool, series: Series | None
) -> LandingReceipt:
    """What waits on the job's own branch lands, or the failure says what has."""
    job = branch.job
    _require_not_failed(branch)
    _remark(job)
    intent, again = job.part("landing-intent"), f"job-land --job {job.id}"
    with (
        naming_what_moved(held, intent, f"job {job.id} has landed", again),
        job.tracer.timed("landing", "landing", {"target": job.target, "head": branch.head}, level="info") as told,
    ):
        made = _land(branch, held, message, began, rebase=rebase, series=series)
        told |= {"outcome": made["outcome"], "commit": made.get("commit"), "before": made["before"]}
    return made


def _put_by(job: ActiveJob, old: LandingReceipt) -> None:
    """Keep the record of a landing that the target lost, under a number of its own, before another one follows."""
    number = 1
    while job.world.store.exists(place := job.part(f"landing-{number}")):
        if job.world.store.read_optional(kinds.LANDING, place) == old:
            return
        number += 1
    job.world.writable_store.write(kinds.LANDING, place, old)


def units_in(landing: LandingReceipt) -> set[str]:
    """Keys of the units that a landing has, or that had nothing to add."""
    return {unit["unitKey"] for unit in landing["units"] if unit["outcome"] in integrate.DONE}


def _require_not_failed(branch: IntegrationBranch) -> None:
    """Raises Conflict where the last verification of the whole job did not pass on exactly this head.

    One that was begun and has no receipt is none that passed: it was killed, whatever an earlier one had said.
    """
    job, head = branch.job, branch.head
    found = job.read(kinds.VERIFICATION, "verification")
    if found is not None and found["head"] == head and found.get("outcome") != "done":
        how = "failed" if "outcome" in found else "was begun and did not end"
        raise Conflict(
            f"job-verify {how} on {head[:12]}, which is what would land",
            outcome="verification_failed",
            location=job.target,
            hint=f"job-verify --job {job.id} -- COMMAND once more: a pass lets it land",
        )


def _check(message: str) -> None:
    if not message.strip() or len(message.encode("utf-8", "surrogateescape")) > 65536:
        raise CannotRun(
            "a landing message has 1 to 65536 bytes, and not only blanks",
            hint="--message TEXT, or leave it out for the default",
        )


def _land(
    branch: IntegrationBranch,
    held: HeldBranch,
    message: str,
    began: float,
    *,
    rebase: bool,
    series: Series | None,
) -> LandingReceipt:
    job = branch.job
    before = held.git.resolve(job.target)
    if before is None:
        hint = f"make the branch again; it was at {job.document['targetAtStart'][:12]} when the job began"
        raise Refused(f"target {job.target} is gone", outcome="target_moved", hint=hint)
    done = landed_up_to(job)
    moved = before != done.target
    if moved and not rebase:
        raise target_moved(job, done, before)
    with open_neutral(job.world) as neutral:
        tree, replayed = neutral.need_tree(branch.head), dict[str, str]()
        moved = moved or neutral.need_tree(done.commit) != neutral.need_tree(done.target)
        if moved:
            tree, replayed = replay(branch, neutral, done.commit, before)
        landing = Landing(branch, held, message, before, tree, began, replayed, moved, series)
        return _moved(landing, neutral)


def target_moved(job: ActiveJob, done: LandedUpTo, now: str) -> Refused:
    """The refusal of a landing whose target is not where the job left it."""
    since = "the job began" if done.target == job.document["targetAtStart"] else "what it landed before"
    return Refused(
        f"{job.target} moved from {done.target[:12]} to {now[:12]} since {since}",
        outcome="target_moved",
        hint="job-land --rebase replays the accepted patches on it, gates and verification included",
        data={"expected": done.target, "found": now},
    )


def _moved(landing: Landing, neutral: Neutral) -> LandingReceipt:
    world, held, job = landing.world, landing.held, landing.job
    old_tree = neutral.need_tree(landing.before)
    entries = merging.changes(neutral, old_tree, landing.tree)
    if not entries:
        return _finish(landing, _document(landing, "noop", entries))
    top = target.checked_out_at(world, job.target)
    git = target.runner(held, top) if top else held.git

    def free() -> FreeCheckout | None:
        return target.require_free(world, git, entries, landing.tree) if top else None

    ready, verify = free(), wanted(job)
    proof = on_record(job, verify, landing.tree) if verify else None
    if verify and proof is None:
        proof, ready = _proven(landing, verify), free()
    settings = target.settings_for_commits(world, git, ready)
    commit, signed, body = (landing.series or _squashed)(landing, neutral, settings)
    made = _document(landing, "done", entries)
    made |= {"commit": commit, "after": commit, "tree": landing.tree, "signed": signed, "message": body}
    made |= {"verification": proof} if proof else {}
    if top:
        made = {**made, **path_fields(bytes(top), "checkout")}
    held.begin("land", job.part("landing-intent"))
    intent = job.part("landing-intent")
    world.writable_store.write(kinds.INTENT, intent, _intent(landing, made, top))
    if ready is not None:
        target.move_checkout(held, git, job.target, landing.before, commit, entries, ready.status)
    else:
        target.move_ref(held, job.target, commit, landing.before)
    return _finish(landing, made)


def _squashed(landing: Landing, neutral: Neutral, settings: UserSettings) -> tuple[str, bool, str]:
    """One commit of all that lands, whether it is signed, and its message."""
    text = landing.message.strip() or _message(landing)
    body = f"{text}\n\nKtx-Job: {landing.job.id}\n"
    made = target.commit_for_user(landing.world, neutral, landing.tree, landing.before, body, settings)
    return (*made, body)


def _proven(landing: Landing, verify: JobCommand) -> VerificationRun:
    """The verification of what lands. Raises Conflict where it fails, Refused where the target moved meanwhile."""
    job = landing.job
    commit = list(landing.replayed.values())[-1] if landing.rebased else landing.branch.head
    run = prove(landing.branch, verify, (commit, landing.tree))
    there = landing.held.git.resolve(job.target)
    if there != landing.before:
        raise Refused(
            f"{job.target} moved from {landing.before[:12]} to {(there or 'nothing')[:12]} while it was verified",
            outcome="target_moved",
            hint="job-land --rebase replays the accepted patches on it, gates and verification included",
            data={"expected": landing.before, "found": there or ""},
        )
    return run


def _finish(landing: Landing, made: LandingReceipt) -> LandingReceipt:
    landing.world.writable_store.write(kinds.LANDING, landing.job.part("landing"), made)
    recover.mark_landed(landing.job, made)
    landing.held.settle(made["after"])
    return made


def _message(landing: Landing) -> str:
    before = landed_before(landing.job)
    accepted = [key for key, outcome in _outcomes(landing) if outcome == "accepted" and key not in before]
    return f"Job {landing.job.id}: {plural(len(accepted), 'unit')}"


def _remark(job: ActiveJob) -> None:
    """What a person should know of the units that land now is in the job's warnings."""
    before = landed_before(job)
    receipts = [(unit, job.read(kinds.RECEIPT, "receipt", unit)) for unit in job.units if unit.key not in before]
    remark(job, [unit for unit, receipt in receipts if receipt is not None and receipt["outcome"] == "accepted"])


def remarks(job: ActiveJob) -> list[str]:
    """What was remarked of the job's units."""
    marks = tuple(f"({word})" for word in REMARKS)
    return [line for line in job.document.get("warnings", ()) if line.endswith(marks)]


def landed_before(job: ActiveJob) -> set[str]:
    """Keys of the units that landings had which the target still has."""
    old = job.read(kinds.LANDING, "landing")
    return set() if old is None or no_longer_in(job) else units_in(old)


def _outcomes(landing: Landing) -> list[tuple[str, str]]:
    return [(unit["unitKey"], unit["outcome"]) for unit in _units(landing)]


def _units(landing: Landing) -> list[LandedUnit]:
    job, found = landing.job, list["LandedUnit"]()
    for unit in job.units:
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        if receipt is not None:
            made: LandedUnit = {"unitKey": unit.key, "position": unit.position, "outcome": receipt["outcome"]}
            made |= {"commit": receipt["commit"]} if "commit" in receipt else {}
            made |= {"replayed": landing.replayed[unit.key]} if unit.key in landing.replayed else {}
            found.append(made)
    return found


def _document(landing: Landing, outcome: LandingReceiptOutcome, entries: list[Entry]) -> LandingReceipt:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "landing",
        "jobId": landing.job.id,
        "outcome": outcome,
        "at": timestamp(landing.world.clock.now()),
        "nonce": landing.held.nonce,
        "target": landing.job.target,
        "before": landing.before,
        "after": landing.before,
        "integrationHead": landing.branch.head,
        "rebased": landing.rebased,
        "units": _units(landing),
        "paths": [path_fields(entry.path) for entry in entries[:PATHS_KEPT]],
        "durationMs": round((landing.world.clock.monotonic() - landing.began) * 1000, 3),
    }


def _intent(landing: Landing, made: LandingReceipt, top: Path | None) -> Intent:
    intent: Intent = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "land",
        "jobId": landing.job.id,
        "nonce": landing.held.nonce,
        "at": timestamp(landing.world.clock.now()),
        "ref": landing.job.target,
        "before": landing.before,
        "commit": made["commit"],
        "prepared": made,
    }
    return {**intent, **path_fields(bytes(top), "checkout")} if top else intent
