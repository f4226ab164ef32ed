"""One patch onto the integration branch, gated, all or nothing (design, section 5).

Everything is decided beside the branch; the branch moves once, last, by compare-and-swap. Before it an intent says what
is about to happen, after it a receipt says that it did; a process that dies between is finished or forgotten by the
next one that holds the branch (`flows.recover`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktxkit.contracts import SCHEMA_VERSION, Document
from ktxkit.core import names
from ktxkit.core.text import path_fields
from ktxkit.effects import merging
from ktxkit.effects.clock import timestamp
from ktxkit.effects.neutral import Neutral, open_neutral
from ktxkit.effects.objects import Objects
from ktxkit.errors import Blocked, CannotRun, Refused
from ktxkit.flows import candidate, jobs, recover
from ktxkit.flows.branch_lock import Held
from ktxkit.flows.candidate import Judged, Offer
from ktxkit.world import World

DONE = ("accepted", "subsumed", "noop")
MESSAGE_LIMIT = 1024  # bytes of a commit message that a user gives
KEPT = 10_000  # conflicts, breaches or findings in one receipt
PATHS_TOLD = 1000  # paths in one trace event


@dataclass(frozen=True)
class Options:
    """How to apply. `verify_limit`: seconds. `gate_options`: keyword arguments for the gates."""

    verify: Sequence[str] = ()
    verify_limit: float | None = None
    gates: bool = True
    gate_options: Mapping[str, Any] = field(default_factory=dict)
    follow_renames: bool = False
    message: str = ""
    expect_head: str = ""


@dataclass
class Step:
    """One application under way."""

    world: World
    job: Document
    unit: jobs.Unit
    held: Held
    options: Options
    patch: Document
    before: str
    began: float
    attempt: int

    @property
    def place(self) -> tuple[str, int, str]:
        return self.job["jobId"], self.unit.position, self.unit.key

    def doc(self, name: str) -> str:
        return names.unit_doc(*self.place, name)


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


def check_message(message: str) -> None:
    """Raises CannotRun for a blank message, or one above 1,024 bytes; an empty one means the default."""
    if message and (not message.strip() or len(message.encode("utf-8", "surrogateescape")) > MESSAGE_LIMIT):
        raise CannotRun(f"a commit message has 1 to {MESSAGE_LIMIT} bytes, and not only blanks")


def _apply(world: World, job: Document, unit: jobs.Unit, held: Held, options: Options) -> Document:
    began = world.clock.monotonic()
    held.note(phase="preflight")
    place = (job["jobId"], unit.position, unit.key)
    patch = world.store.read_optional("patch", names.unit_doc(*place, "patch"))
    if patch is None:
        raise Refused(f"unit {unit.key} has no collected patch", hint="patch-collect --unit comes first")
    old = world.store.read_optional("receipt", names.unit_doc(*place, "receipt"))
    if old is not None and old["outcome"] in DONE:
        return _same_receipt(old, patch, unit)
    before = recover.expected_head(world, job, held)
    if options.expect_head and options.expect_head != before:
        raise Refused(
            f"the integration head is {before}, expected {options.expect_head}", hint="somebody integrated meanwhile"
        )
    step = Step(world, job, unit, held, options, patch, before, began, old.get("attempt", 1) + 1 if old else 1)
    trace = jobs.tracer(world, job).bound(unitKey=unit.key)
    told = {"patchDigest": patch.get("patchDigest"), "before": before, "paths": _told(patch["paths"])}
    trace.emit("integration", "patch_apply_started", told)
    try:
        receipt = _decided(step)
    except Exception as error:
        spent = (world.clock.monotonic() - began) * 1000
        trace.emit("integration", "patch_apply_failed", {}, level="error", duration_ms=spent, error=error)
        raise
    trace.emit(
        "integration", f"patch_{receipt['outcome']}", _reasons(receipt), level="info", duration_ms=receipt["durationMs"]
    )
    return receipt


def _told(paths: Sequence[Document]) -> list[str]:
    return [item["path"] for item in paths[:PATHS_TOLD]]


def _reasons(receipt: Document) -> Document:
    """What the trace says of an outcome: paths, and why."""
    return {
        "outcome": receipt["outcome"],
        "paths": _told(receipt["paths"]),
        "commit": receipt.get("commit"),
        "conflicts": receipt["conflicts"][:100] or None,
        "findings": receipt["findings"][:100] or None,
        "breaches": receipt.get("breaches", [])[:100] or None,
        "reasons": [message] if (message := receipt.get("message")) else None,
        "gates": receipt.get("gates"),
    }


def _same_receipt(old: Document, patch: Document, unit: jobs.Unit) -> Document:
    if old.get("patchTree") == patch["tree"] and old.get("patchDigest") == patch.get("patchDigest"):
        return old
    raise Refused(
        f"unit {unit.key} is integrated already, with another patch",
        hint="a later change of the same unit needs a unit of its own",
    )


def _decided(step: Step) -> Document:
    """Judge, and write what was decided."""
    world, patch, store = step.world, step.patch, step.world.writable_store
    step.held.begin("apply", step.doc("intent"))
    store.write("intent", step.doc("intent"), _intent(step), durable=False)
    with open_neutral(world) as neutral, Objects(neutral.git) as objects:
        if patch["outcome"] == "noop":
            return _close(step, _receipt(step, Judged("noop")))
        lease = store.read_optional("lease", step.doc("lease"))
        path = store.path(names.patch_file(*step.place))
        offer = candidate.offer_of(world, neutral, patch, path, lease.get("policy", {}) if lease else {})
        judged = _judged(step, neutral, objects, offer)
        verification = None
        if judged.outcome == "candidate" and step.options.verify:
            judged, verification = _verified(step, neutral, judged)
        if judged.outcome != "candidate":
            return _close(step, _receipt(step, judged, verification))
        return _move(step, neutral, judged, verification)


def _judged(step: Step, neutral: Neutral, objects: Objects, offer: Offer) -> Judged:
    step.held.note(phase="policy")
    breaches = candidate.by_policy(neutral, objects, offer)
    if breaches:
        return Judged("policy_rejected", breaches=tuple(breaches))
    step.held.note(phase="merging")
    tree = merging.tree_of(neutral.git, step.before)
    assert tree is not None, "the integration head is a commit"
    judged = candidate.merged(neutral, objects, offer, tree, follow=step.options.follow_renames)
    if judged.outcome != "candidate" or not step.options.gates:
        return judged
    step.held.note(phase="gates")
    start = merging.tree_of(neutral.git, str(step.job.get("base", step.job["targetAtStart"])))
    assert start is not None, "the job's base is a commit"
    return candidate.gated(step.world, judged, start, step.options.gate_options)


def _verified(step: Step, neutral: Neutral, judged: Judged) -> tuple[Judged, Document]:
    raise CannotRun("--verify is not built yet")


def _move(step: Step, neutral: Neutral, judged: Judged, verification: Document | None) -> Document:
    """Commit, journal the commit with its receipt-to-be, move the branch, write the receipt."""
    step.held.note(phase="committing")
    seconds = int(step.world.clock.now().timestamp())
    commit = merging.commit_tree(neutral, judged.tree, step.before, message_of(step), seconds)
    done = replace(judged, outcome="accepted")
    receipt = _receipt(step, done, verification) | {"after": commit, "commit": commit, "tree": judged.tree}
    intent = {**_intent(step), "commit": commit, "prepared": receipt}
    step.world.writable_store.write("intent", step.doc("intent"), intent)
    move_ref(step.held, step.job["integrationRef"], commit, step.before)
    return _close(step, receipt, commit)


def move_ref(held: Held, ref: str, new: str, old: str) -> None:
    """Compare-and-swap. Raises Blocked where the branch is not where it was under our lock."""
    held.note(phase="moving")
    answer = held.git.run("update-ref", "--no-deref", ref, new, old, ok=None)
    if answer.status != 0:
        there = held.git.resolve(ref) or "nothing"
        if there == new:
            return
        raise Blocked(
            f"{ref} was moved by somebody else: expected {old}, found {there}",
            hint="see git reflog; nothing of ours was lost",
            data={"ref": ref, "expected": old, "found": there},
        )


def message_of(step: Step) -> str:
    """The integration commit's message, with trailers that name what it carries."""
    lead = step.options.message.strip() or f"{step.unit.key}: integrated by ktxkit"
    digest = step.patch.get("patchDigest", "")
    patch = f"Ktx-Patch: {digest}\n" if digest else ""
    return f"{lead}\n\nKtx-Job: {step.job['jobId']}\nKtx-Unit: {step.unit.key}\n{patch}"


def _intent(step: Step) -> Document:
    digest = step.patch.get("patchDigest")
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "apply",
        "jobId": step.job["jobId"],
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "nonce": step.held.nonce,
        "at": timestamp(step.world.clock.now()),
        "ref": step.job["integrationRef"],
        "before": step.before,
        **({"patchDigest": digest} if digest else {}),
    }


def _receipt(step: Step, judged: Judged, verification: Document | None = None) -> Document:
    """The document that says this application is done, without a commit."""
    digest = step.patch.get("patchDigest")
    made: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "receipt",
        "jobId": step.job["jobId"],
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "outcome": judged.outcome,
        "at": timestamp(step.world.clock.now()),
        "integrationRef": step.job["integrationRef"],
        "before": step.before,
        "patchTree": step.patch["tree"],
        "nonce": step.held.nonce,
        **facts_of(judged),
        "paths": [path_fields(entry.path) for entry in judged.entries] or paths_of(step.patch),
        **({"patchDigest": digest} if digest else {}),
        **({"verification": verification} if verification else {}),
        "durationMs": round((step.world.clock.monotonic() - step.began) * 1000, 3),
    }
    return made


def paths_of(patch: Document) -> list[Document]:
    """The paths that a patch document names, for a receipt."""
    return [{key: item[key] for key in ("path", "pathB64") if key in item} for item in patch["paths"]]


def facts_of(judged: Judged) -> Document:
    """Conflicts, findings, breaches and what was looked at, as a receipt has them."""
    made: Document = {
        "conflicts": [clash.document() for clash in judged.conflicts[:KEPT]],
        "findings": list(judged.findings[:KEPT]),
    }
    if judged.breaches:
        made["breaches"] = [breach.document() for breach in judged.breaches[:KEPT]]
    if judged.gates is not None:
        made["gates"] = judged.gates
    if judged.followed:
        made["followed"] = [
            {**path_fields(old), **path_fields(new, "newPath")} for old, new in sorted(judged.followed.items())
        ]
    return made


def _close(step: Step, receipt: Document, head: str | None = None) -> Document:
    step.world.writable_store.write("receipt", step.doc("receipt"), receipt)
    step.held.settle(head or step.before)
    return receipt


def ensure_integration(world: World, job: Document, commit: str) -> str:
    """The integration head; the branch is made at `commit` where there is none."""
    with recover.holding(world, job["integrationRef"], job) as held:
        return recover.expected_head(world, job, held, start=commit)
