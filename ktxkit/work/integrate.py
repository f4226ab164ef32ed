"""One patch onto the integration branch, gated, all or nothing (design, section 5).

Everything is decided beside the branch; the branch moves once, last, by compare-and-swap. Before it an intent says what
is about to happen, after it a receipt says that it did; a process that dies between is finished or forgotten by the
next one that holds the branch (`flows.recover`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, Refused
from ktxkit.git import merging, stale
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.store import jobs, leases
from ktxkit.store.branch_lock import Held
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import candidate, control, recover, target, verification
from ktxkit.work.aftermath import naming_what_moved
from ktxkit.work.candidate import Judged, Offer
from ktxkit.work.step import Options as Options
from ktxkit.work.step import Step, check_message, intent_of, message_of, receipt_of

DONE = ("accepted", "subsumed", "noop")
PATHS_TOLD = 1000  # paths in one trace event


def apply_unit(
    world: World, job: Document, unit: jobs.Unit, *, verify: Sequence[str] = (), options: Options | None = None
) -> Document:
    """Apply the unit's collected patch; returns the receipt, whose `outcome` says how it ended.

    A unit that is integrated already has its receipt returned. Raises Refused for a failed precondition, Blocked where
    the branch is not as we left it, BrokenContract for a damaged patch.
    """
    options = options or Options()
    options = replace(options, verify=verify) if verify else options
    check_message(options.message)
    with recover.holding(world, job["integrationRef"], job) as held:
        return _apply(world, job, unit, held, options)


def _apply(world: World, job: Document, unit: jobs.Unit, held: Held, options: Options) -> Document:
    held.note(phase="preflight")
    step = begin(world, job, unit, held, options)
    if not isinstance(step, Step):
        return step
    announce(step)
    with naming(step):
        try:
            with open_neutral(world) as neutral:
                receipt = _decided(step, neutral, neutral.objects)
        except Exception as error:
            spent = (world.clock.monotonic() - step.began) * 1000
            step.trace.emit("integration", "patch_apply_failed", {}, level="error", duration_ms=spent, error=error)
            raise
        tell(step, receipt)
    return receipt


def naming(step: Step) -> AbstractContextManager[None]:
    """A failure after the branch has moved names the unit's commit on it."""
    again = f"patch-apply --job {step.job['jobId']} --unit {step.unit.key}"
    return naming_what_moved(step.world, step.held, step.doc("intent"), f"unit {step.unit.key} is integrated", again)


def begin(world: World, job: Document, unit: jobs.Unit, held: Held, options: Options) -> Step | Document:
    """The step of a unit whose preconditions hold; its receipt where it is integrated already. Raises Refused."""
    place = (job["jobId"], unit.position, unit.key)
    patch = world.store.read_optional("patch", names.unit_doc(*place, "patch"))
    if patch is None:
        raise Refused(f"unit {unit.key} has no collected patch", hint="patch-collect --unit comes first")
    old = world.store.read_optional("receipt", names.unit_doc(*place, "receipt"))
    if old is not None and old["outcome"] in DONE:
        return _same_receipt(old, patch, unit)
    jobs.require_not_landed(world, job)
    before = recover.expected_head(world, job, held)
    if options.expect_head and options.expect_head != before:
        raise Refused(
            f"the integration head is {before}, expected {options.expect_head}", hint="somebody integrated meanwhile"
        )
    attempt = old.get("attempt", 1) + 1 if old else 1
    return Step(world, job, unit, held, options, patch, before, world.clock.monotonic(), attempt)


def announce(step: Step) -> None:
    """The trace says that a patch is being applied."""
    facts = {"patchDigest": step.patch.get("patchDigest"), "before": step.before, "paths": _told(step.patch["paths"])}
    step.trace.emit("integration", "patch_apply_started", facts)


def tell(step: Step, receipt: Document) -> None:
    """The trace says how it ended: paths, and why."""
    facts = {
        "outcome": receipt["outcome"],
        "paths": _told(receipt["paths"]),
        "commit": receipt.get("commit"),
        "conflicts": receipt["conflicts"][:100] or None,
        "findings": receipt["findings"][:100] or None,
        "breaches": receipt.get("breaches", [])[:100] or None,
        "reasons": [message] if (message := receipt.get("message")) else None,
        "gates": receipt.get("gates"),
        "pruned": receipt.get("pruned"),
    }
    name = f"patch_{receipt['outcome']}"
    step.trace.emit("integration", name, facts, level="info", duration_ms=receipt["durationMs"])


def _told(paths: Sequence[Document]) -> list[str]:
    return [item["path"] for item in paths[:PATHS_TOLD]]


def _same_receipt(old: Document, patch: Document, unit: jobs.Unit) -> Document:
    if old.get("patchTree") == patch["tree"] and old.get("patchDigest") == patch.get("patchDigest"):
        return old
    raise Refused(
        f"unit {unit.key} is integrated already, with another patch",
        hint="a later change of the same unit needs a unit of its own",
    )


def _decided(step: Step, neutral: Neutral, objects: Objects) -> Document:
    """Judge, and write what was decided."""
    start(step)
    if step.patch["outcome"] == "noop":
        return close(step, receipt_of(step, Judged("noop")))
    judged = judge(step, neutral, objects, offer_of(step, neutral), step.before)
    if judged.outcome != "candidate":
        return close(step, receipt_of(step, judged))
    commit, run = commit_of(step, neutral, judged, step.before), None
    if step.options.verify:
        judged, run = _verified(step, neutral, judged, commit)
    if judged.outcome != "candidate":
        return close(step, receipt_of(step, judged, run))
    return accept(step, judged, commit, run)


def start(step: Step) -> None:
    """The intent, before anything else of the step."""
    step.held.begin("apply", step.doc("intent"))
    step.world.writable_store.write("intent", step.doc("intent"), intent_of(step), durable=False)


def offer_of(step: Step, neutral: Neutral) -> Offer:
    """What the unit hands over, proven. Raises BrokenContract (`invalid_patch`, `missing_base`)."""
    lease = step.world.store.read_optional("lease", step.doc("lease"))
    path = step.world.store.path(names.patch_file(*step.place))
    return candidate.offer_of(step.world, neutral, step.patch, path, lease.get("policy", {}) if lease else {})


def judge(step: Step, neutral: Neutral, objects: Objects, offer: Offer, onto: str) -> Judged:
    """Policy, merge and gates on top of a commit."""
    step.held.note(phase="policy")
    breaches = candidate.by_policy(neutral, objects, offer)
    if breaches:
        return Judged("policy_rejected", breaches=tuple(breaches))
    step.held.note(phase="merging")
    tree = neutral.tree_of(onto)
    assert tree is not None, "the integration head is a commit"
    judged = candidate.merged(neutral, objects, offer, tree, follow=step.options.follow_renames)
    if judged.outcome != "candidate" or not step.options.gates:
        return judged
    step.held.note(phase="gates")
    base = neutral.tree_of(str(step.job.get("base", step.job["targetAtStart"])))
    assert base is not None, "the job's base is a commit"
    done = candidate.gated(step.world, judged, base, step.options.gate_options)
    if not done.pruned:
        return done
    return replace(done, entries=tuple(merging.changes(neutral, tree, done.tree)))


def commit_of(step: Step, neutral: Neutral, judged: Judged, onto: str) -> str:
    """The candidate's commit on top of another."""
    seconds = int(step.world.clock.now().timestamp())
    return merging.commit_tree(neutral, judged.tree, onto, message_of(step), seconds)


def check_of(step: Step) -> verification.Check:
    """The verify command of the options, in the job's checkout of candidates."""
    return verification.Check(
        step.options.verify,
        step.options.verify_limit,
        step.world.writable_store.path(names.integration_dir(step.job["jobId"])),
        names.unit_dir(*step.place),
        step.job["jobId"],
    )


def _verified(step: Step, neutral: Neutral, judged: Judged, commit: str) -> tuple[Judged, Document]:
    """The verify command's word on the candidate, in a checkout of it. Raises Refused where the gate is unknown."""
    check = check_of(step)
    with step.trace.timed("verification", "patch_verification", {"argv": list(check.argv)}) as told:
        run = verification.verify(step.world, step.held, check, commit, judged.tree)
        if not verification.passed(run):
            before = neutral.tree_of(step.before)
            assert before is not None, "the integration head is a commit"
            run = control.blamed(step.world, step.held, check, (step.before, before), (commit, judged.tree))
        told |= {"status": run["status"], "passed": verification.passed(run), "reused": run.get("reused")}
    require_unmoved(step.held, step.job["integrationRef"], step.before)
    return (judged if verification.passed(run) else replace(judged, outcome="verification_failed")), run


def require_unmoved(held: Held, ref: str, before: str) -> None:
    """Raises Blocked where a verification moved the branch that it was to judge."""
    there = held.git.resolve(ref)
    if there != before:
        raise Blocked(
            f"the verification moved {ref}: expected {before}, found {there}",
            hint="a verification must not move branches; see the reflog",
            data={"ref": ref, "expected": before, "found": there or ""},
        )


def accept(step: Step, judged: Judged, commit: str, run: Document | None) -> Document:
    """Journal the commit with its receipt-to-be, move the branch, write the receipt."""
    step.held.note(phase="committing")
    done = replace(judged, outcome="accepted")
    receipt = receipt_of(step, done, run) | {"after": commit, "commit": commit, "tree": judged.tree}
    intent = {**intent_of(step), "commit": commit, "prepared": receipt}
    step.world.writable_store.write("intent", step.doc("intent"), intent)
    move_ref(step.held, step.job["integrationRef"], commit, step.before)
    return close(step, receipt, commit)


def move_ref(held: Held, ref: str, new: str, old: str) -> None:
    """Compare-and-swap. Raises Blocked where the branch is not where it was under our lock."""
    held.note(phase="moving")
    words = ("update-ref", "--no-deref", ref, new, old)
    if ref.startswith("refs/ktx/"):
        answer = leases.worktrees(held.world).on_own(*words, git=held.git, ok=None)
    else:
        answer = held.git.run(*words, ok=None)
    if answer.status != 0:
        there = held.git.resolve(ref) or "nothing"
        if there == new:
            return
        if there == old and (lock := stale.named_lock(answer.err)):
            raise target.locked(ref, lock)
        raise Blocked(
            f"{ref} was moved by somebody else: expected {old}, found {there}",
            hint="see git reflog; nothing of ours was lost",
            data={"ref": ref, "expected": old, "found": there},
        )


def close(step: Step, receipt: Document, head: str | None = None) -> Document:
    """The receipt, and with it the end of the step; the branch is at `head`."""
    step.world.writable_store.write("receipt", step.doc("receipt"), receipt)
    step.held.settle(head or step.before)
    return receipt


def ensure_integration(world: World, job: Document, commit: str) -> str:
    """The integration head; the branch is made at `commit` where there is none."""
    with recover.holding(world, job["integrationRef"], job) as held:
        return recover.expected_head(world, job, held, start=commit)
