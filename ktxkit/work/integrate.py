"""One patch onto the integration branch, gated, all or nothing (design, section 5).

Everything is decided beside the branch; the branch moves once, last, by compare-and-swap. Before it an intent says what
is about to happen, after it a receipt says that it did; a process that dies between is finished or forgotten by the
next one that holds the branch (`work.recover`). Before anyone is blamed for a failed verification, the same command
runs without the change, and once more with it: if it fails without it, or differs, the gate is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Conflict, Refused
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, path_fields
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.store import leases
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World
from ktxkit.work import candidate, recover, verification
from ktxkit.work.candidate import CandidateVerdict, Offer
from ktxkit.work.collect import policy_of
from ktxkit.work.recover import IntegrationBranch
from ktxkit.work.report import naming_what_moved
from ktxkit.work.rules.reasons import first_obstacle
from ktxkit.work.verification import Check

if TYPE_CHECKING:
    from ktxkit.base.documents import Intent, LeasePolicy, Patch, PathEntry, Receipt, VerificationRun
    from ktxkit.work.rules.job_file import JobCommand


if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, NotRequired, TypedDict

    from ktxkit.base.documents import (
        Intent,
        PathBreach,
        PathConflict,
        PathEntry,
        PrunedReference,
        Receipt,
        ReceiptFollowed,
        ReceiptGates,
        VerificationRun,
    )

    class TransportFacts(TypedDict, total=False):
        """How a unit's change came."""

        patchDigest: str
        transport: Literal["objects"]

    class JudgedFacts(TypedDict):
        """What a receipt says of what was judged."""

        conflicts: list[PathConflict]
        findings: list[Mapping[str, Any]]
        breaches: NotRequired[list[PathBreach]]
        gates: NotRequired[ReceiptGates]
        pruned: NotRequired[list[PrunedReference]]
        followed: NotRequired[list[ReceiptFollowed]]

    from ktxkit.base.documents import Patch

MESSAGE_LIMIT = 1024  # bytes of a commit message that a user gives
KEPT = 10_000  # conflicts, breaches or findings in one receipt


class ApplyOptions(NamedTuple):
    """How to apply. `verify_limit`: seconds. `gate_options`: keyword arguments for the gates. `policy`: in place of the
    unit's own."""

    verify: Sequence[str] = ()
    verify_limit: float | None = None
    gates: bool = True
    gate_options: Mapping[str, Any] = {}
    follow_renames: bool = False
    message: str = ""
    expect_head: str = ""
    policy: LeasePolicy | None = None
    verify_keep: tuple[str, ...] = ()
    verify_env: Mapping[str, str] = {}

    def verified_by(self, step: JobCommand | None) -> ApplyOptions:
        """The same, with the verification of a job file, where it has one."""
        if step is None:
            return self
        return self._replace(verify=step.argv, verify_limit=step.time_limit, verify_keep=step.keep, verify_env=step.env)


class Application:
    """One application under way."""

    def __init__(
        self, branch: IntegrationBranch, unit: Unit, options: ApplyOptions, patch: Patch, began: float, attempt: int
    ) -> None:
        self.branch = branch
        self.unit = unit
        self.options = options
        self.patch = patch
        self.began = began
        self.attempt = attempt

    @property
    def job(self) -> ActiveJob:
        return self.branch.job

    @property
    def world(self) -> World:
        return self.branch.world

    @property
    def lock(self) -> HeldBranch:
        return self.branch.lock

    def doc(self, name: str) -> str:
        return self.job.unit_doc(self.unit, name)

    @cached_property
    def trace(self) -> Tracer:
        """The job's trace, for this unit."""
        return self.job.tracer.bound(unitKey=self.unit.key)


def check_message(message: str) -> None:
    """Raises CannotRun for a blank message, or one above 1,024 bytes; an empty one means the default."""
    if message and (not message.strip() or len(message.encode("utf-8", "surrogateescape")) > MESSAGE_LIMIT):
        raise CannotRun(
            f"a commit message has 1 to {MESSAGE_LIMIT} bytes, and not only blanks",
            hint="--message TEXT, or leave it out for the default",
        )


def message_of(step: Application) -> str:
    """The integration commit's message, with trailers that name what it carries."""
    lead = step.options.message.strip() or f"{step.unit.key}: integrated by ktxkit"
    digest = step.patch.get("patchDigest", "")
    patch = f"Ktx-Patch: {digest}\n" if digest else ""
    return f"{lead}\n\nKtx-Job: {step.job.id}\nKtx-Unit: {step.unit.key}\n{patch}"


def intent_of(step: Application) -> Intent:
    """The document that says this application has begun."""
    intent: Intent = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "apply",
        "jobId": step.job.id,
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "nonce": step.lock.nonce,
        "at": timestamp(step.world.clock.now()),
        "ref": step.job.integration_ref,
        "before": step.branch.head,
    }
    digest = step.patch.get("patchDigest")
    intent |= {"patchDigest": digest} if digest else {}
    return intent


def receipt_of(step: Application, judged: CandidateVerdict, run: VerificationRun | None = None) -> Receipt:
    """The document that says this application is done, without a commit."""
    assert judged.outcome != "candidate", "it was decided"
    receipt: Receipt = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "receipt",
        "jobId": step.job.id,
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "outcome": judged.outcome,
        "at": timestamp(step.world.clock.now()),
        "integrationRef": step.job.integration_ref,
        "before": step.branch.head,
        "patchTree": step.patch["tree"],
        "nonce": step.lock.nonce,
        "conflicts": [],
        "findings": [],
        "paths": [path_fields(entry.path) for entry in judged.entries] or paths_of(step.patch),
        "durationMs": round((step.world.clock.monotonic() - step.began) * 1000, 3),
    }
    receipt = {**receipt, **facts_of(judged), **transport_of(step.patch)}
    receipt |= {"verification": run} if run else {}
    receipt |= {"message": verification.why_not(run)} if run and judged.outcome == "verification_failed" else {}
    return receipt


def paths_of(patch: Patch) -> list[PathEntry]:
    """The paths that a patch document names, for a receipt."""
    return [path_fields(path_bytes(item)) for item in patch["paths"]]


def transport_of(patch: Patch) -> TransportFacts:
    """How the change came: the patch's digest, or that objects had to do."""
    made: TransportFacts = {"patchDigest": patch["patchDigest"]} if "patchDigest" in patch else {}
    made |= {"transport": "objects"} if patch["transport"] == "objects" else {}
    return made


def facts_of(judged: CandidateVerdict) -> JudgedFacts:
    """Conflicts, findings, breaches and what was looked at, as a receipt has them."""
    made: JudgedFacts = {
        "conflicts": [clash.document() for clash in judged.conflicts[:KEPT]],
        "findings": list(judged.findings[:KEPT]),
    }
    if judged.breaches:
        made["breaches"] = [breach.document() for breach in judged.breaches[:KEPT]]
    if judged.gates is not None:
        made["gates"] = judged.gates
    if judged.pruned:
        made["pruned"] = list(judged.pruned[:KEPT])
    if judged.followed:
        made["followed"] = [
            {**path_fields(old), **path_fields(new, "newPath")} for old, new in sorted(judged.followed.items())
        ]
    return made


def blamed(held: HeldBranch, check: Check, without: tuple[str, str], now: tuple[str, str]) -> VerificationRun:
    """The account of a failure that is proven the change's. `without` and `now`: commit and tree, without it and with.

    Raises Refused where the gate fails without the change, or passes this time.
    """
    control(held, check, *without)
    again = verification.verify(held, check._replace(reuse=False), *now)
    if verification.passed(again):
        raise flaky([])
    return again


def control(held: HeldBranch, check: Check, commit: str, tree: str) -> None:
    """The command without the change: asked once for each tree and command of a job, whatever it answers.

    Raises Refused where it fails: then nobody is blamed.
    """
    run = verification.control_of(held, check, commit, tree)
    if not verification.passed(run):
        raise Refused(
            f"nobody is blamed: the verification fails without any of the units ({verification.why_not(run)})",
            hint="put the command or the base right, then apply again",
            data={"gate": "unknown", "reason": "fails on the base tree", "run": run},
        )


def flaky(units: list[str]) -> Refused:
    """What is said of a gate that answers by chance."""
    return Refused(
        "nobody is blamed: the verification answered twice differently for the same tree",
        hint="make the command deterministic, or apply without it",
        data={"gate": "unknown", "reason": "flaky", **({"units": units} if units else {})},
    )


DONE = ("accepted", "subsumed", "noop")
PATHS_SHOWN = 1000  # paths in one trace event


def apply_unit(
    job: ActiveJob, unit: Unit, *, verify: Sequence[str] = (), options: ApplyOptions | None = None
) -> Receipt:
    """Apply the unit's collected patch; returns the receipt, whose `outcome` says how it ended.

    A unit that is integrated already has its receipt returned. Raises Refused for a failed precondition, Blocked where
    the branch is not as we left it, BrokenContract for a damaged patch.
    """
    options = options or ApplyOptions()
    options = options._replace(verify=verify) if verify else options
    check_message(options.message)
    with recover.integrating(job) as branch:
        return _apply(branch, unit, options)


def _apply(branch: IntegrationBranch, unit: Unit, options: ApplyOptions) -> Receipt:
    branch.lock.note(phase="preflight")
    step = begin(branch, unit, options)
    if not isinstance(step, Application):
        return step
    announce(step)
    with naming(step):
        try:
            with open_neutral(step.world) as neutral:
                receipt = _decided(step, neutral, neutral.objects)
        except Exception as error:
            spent = (step.world.clock.monotonic() - step.began) * 1000
            step.trace.emit("integration", "patch_apply_failed", {}, level="error", duration_ms=spent, error=error)
            raise
        tell(step, receipt)
    return receipt


def naming(step: Application) -> AbstractContextManager[None]:
    """A failure after the branch has moved names the unit's commit on it."""
    again = f"patch-apply --job {step.job.id} --unit {step.unit.key}"
    return naming_what_moved(step.lock, step.doc("intent"), f"unit {step.unit.key} is integrated", again)


def begin(branch: IntegrationBranch, unit: Unit, options: ApplyOptions) -> Application | Receipt:
    """The step of a unit whose preconditions hold; its receipt where it is integrated already. Raises Refused."""
    job = branch.job
    patch = job.read(kinds.PATCH, "patch", unit)
    if patch is None:
        raise Refused(f"unit {unit.key} has no collected patch", hint="patch-collect --unit comes first")
    old = job.read(kinds.RECEIPT, "receipt", unit)
    if old is not None and old["outcome"] in DONE:
        return _same_receipt(old, patch, unit)
    head = branch.head
    if options.expect_head and options.expect_head != head:
        raise Refused(
            f"the integration head is {head}, expected {options.expect_head}", hint="somebody integrated meanwhile"
        )
    attempt = old.get("attempt", 1) + 1 if old else 1
    return Application(branch, unit, options, patch, job.world.clock.monotonic(), attempt)


def require_verified(receipt: Receipt, command: Sequence[str]) -> None:
    """Raises Refused where a unit that was in already has not passed this command, which was not run now."""
    if not command or receipt["outcome"] != "accepted":
        return
    run = receipt.get("verification")
    if run is None or run["commandDigest"] != digest_of(list(command)) or not verification.passed(run):
        raise Refused(
            f"unit {receipt['unitKey']} is accepted, not verified by this command",
            hint=f"job-verify --job {receipt['jobId']} -- COMMAND verifies what is on the integration branch",
            data={"outcome": receipt["outcome"]},
        )


def announce(step: Application) -> None:
    """The trace says that a patch is being applied."""
    patch = step.patch
    facts = {"patchDigest": patch.get("patchDigest"), "before": step.branch.head, "paths": _told(patch["paths"])}
    step.trace.emit("integration", "patch_apply_started", facts)


def tell(step: Application, receipt: Receipt) -> None:
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
    name, took = f"patch_{receipt['outcome']}", receipt["durationMs"]
    if receipt["outcome"] in DONE:
        step.trace.emit("integration", name, facts, level="info", duration_ms=took)
        return
    error = Conflict(receipt.get("message") or first_obstacle(receipt))
    step.trace.emit("integration", name, facts, level="error", duration_ms=took, error=error)


def _told(paths: Sequence[PathEntry]) -> list[str]:
    return [item["path"] for item in paths[:PATHS_SHOWN]]


def _same_receipt(old: Receipt, patch: Patch, unit: Unit) -> Receipt:
    if old.get("patchTree") == patch["tree"] and old.get("patchDigest") == patch.get("patchDigest"):
        return old
    raise Refused(
        f"unit {unit.key} is integrated already, with another patch",
        hint="a later change of the same unit needs a unit of its own",
    )


def _decided(step: Application, neutral: Neutral, objects: Objects) -> Receipt:
    """Judge, and write what was decided."""
    start(step)
    if step.patch["outcome"] == "noop":
        return close(step, receipt_of(step, CandidateVerdict("noop")))
    judged = judge(step, neutral, objects, offer_of(step, neutral), step.branch.head)
    if judged.outcome != "candidate":
        return close(step, receipt_of(step, judged))
    commit, run = commit_of(step, neutral, judged, step.branch.head), None
    if step.options.verify:
        judged, run = _verified(step, neutral, judged, commit)
    if judged.outcome != "candidate":
        return close(step, receipt_of(step, judged, run))
    return accept(step, judged, commit, run)


def start(step: Application) -> None:
    """The intent, before anything else of the step."""
    step.lock.begin("apply", step.doc("intent"))
    step.world.writable_store.write(kinds.INTENT, step.doc("intent"), intent_of(step), durable=False)


def offer_of(step: Application, neutral: Neutral) -> Offer:
    """What the unit hands over, proven. Raises BrokenContract (`invalid_patch`, `missing_base`)."""
    lease = step.job.read(kinds.LEASE, "lease", step.unit)
    path = step.world.store.path(step.job.patch_file(step.unit))
    policy = policy_of(step.job, step.unit, lease) if step.options.policy is None else step.options.policy
    return candidate.offer_of(step.world, neutral, step.patch, path, policy)


def judge(step: Application, neutral: Neutral, objects: Objects, offer: Offer, onto: str) -> CandidateVerdict:
    """Policy, merge and gates on top of a commit."""
    step.lock.note(phase="policy")
    breaches = candidate.by_policy(neutral, objects, offer)
    if breaches:
        return CandidateVerdict("policy_rejected", breaches=tuple(breaches))
    step.lock.note(phase="merging")
    tree = neutral.need_tree(onto)
    judged = candidate.merged(neutral, objects, offer, tree, follow=step.options.follow_renames)
    if judged.outcome != "candidate" or not step.options.gates:
        return judged
    step.lock.note(phase="gates")
    base = neutral.need_tree(str(step.job.document.get("base", step.job.document["targetAtStart"])))
    with step.trace.timed("gates", "patch_gates") as told:
        done = candidate.gated(step.world, judged, base, step.options.gate_options)
        told |= {"outcome": done.outcome, **(done.gates or {}), "errors": len(done.findings)}
    if not done.pruned:
        return done
    return done._replace(entries=tuple(merging.changes(neutral, tree, done.tree)))


def commit_of(step: Application, neutral: Neutral, judged: CandidateVerdict, onto: str) -> str:
    """The candidate's commit on top of another."""
    seconds = int(step.world.clock.now().timestamp())
    return merging.commit_tree(neutral, judged.tree, onto, message_of(step), seconds)


def check_of(step: Application) -> verification.Check:
    """The verify command of the options, in the job's checkout of candidates."""
    return verification.Check(
        step.options.verify,
        step.options.verify_limit,
        step.world.writable_store.path(names.integration_dir(step.job.id)),
        step.job.unit_dir(step.unit),
        step.job.id,
        keep=step.options.verify_keep,
        env=step.options.verify_env,
    )


def _verified(
    step: Application, neutral: Neutral, judged: CandidateVerdict, commit: str
) -> tuple[CandidateVerdict, VerificationRun]:
    """The verify command's word on the candidate, in a checkout of it. Raises Refused where the gate is unknown."""
    check = check_of(step)
    with step.trace.timed("verification", "patch_verification", {"argv": list(check.argv)}) as told:
        run = verification.verify(step.lock, check, commit, judged.tree)
        if not verification.passed(run):
            before = neutral.need_tree(step.branch.head)
            run = blamed(step.lock, check, (step.branch.head, before), (commit, judged.tree))
        told |= {"status": run["status"], "passed": verification.passed(run), "reused": run.get("reused")}
    step.branch.require_unmoved(step.branch.head)
    return (judged if verification.passed(run) else judged._replace(outcome="verification_failed")), run


def accept(step: Application, judged: CandidateVerdict, commit: str, run: VerificationRun | None) -> Receipt:
    """Journal the commit with its receipt-to-be, move the branch, write the receipt."""
    step.lock.note(phase="committing")
    done = judged._replace(outcome="accepted")
    receipt = receipt_of(step, done, run)
    receipt |= {"after": commit, "commit": commit, "tree": judged.tree}
    intent: Intent = {**intent_of(step), "commit": commit, "prepared": receipt}
    step.world.writable_store.write(kinds.INTENT, step.doc("intent"), intent)
    step.branch.move(commit)
    return close(step, receipt)


def close(step: Application, receipt: Receipt) -> Receipt:
    """The receipt, and with it the end of the step."""
    step.world.writable_store.write(kinds.RECEIPT, step.doc("receipt"), receipt)
    step.lock.settle(step.branch.head)
    return receipt


def ensure_integration(job: ActiveJob, commit: str, *, keep_ref: str = "") -> str:
    """The integration head; the branch is made at `commit` where there is none. `keep_ref`: a ref that keeps it too."""
    with recover.integrating(job) as branch:
        head = branch.prove(start=commit, keep_ref=keep_ref)
        # The branch was there, and the ref is not: a process died between the two.
        if keep_ref and branch.lock.git.resolve(keep_ref) != commit:
            leases.worktrees(job.world).keep(keep_ref, commit)
        return head
