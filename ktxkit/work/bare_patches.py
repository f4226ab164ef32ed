"""Collecting by hand, outside any job: a checkout's change as a file and its document.

A patch file onto the branch that a checkout is on, outside any job: the same judgement, and the checkout follows.

A unit's worktree opened by hand: its job is made where it is new.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.text import path_fields
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.git.rules.checkout import Expected
from ktxkit.git.rules.patch import documents
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.leases import worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.world import World
from ktxkit.work import candidate, integrate, recover, target, verification
from ktxkit.work.candidate import CandidateVerdict, Offer
from ktxkit.work.closing import open_unit
from ktxkit.work.collect import Request, collect
from ktxkit.work.report import naming_what_moved, put_back, restored

if TYPE_CHECKING:
    from ktxkit.base.documents import Intent, Lease, LeasePolicy, Patch, Receipt, VerificationRun


# By hand these two are ordinary files and a link's target is data; what runs code still has to be allowed by name.
CONTROL_BY_HAND = (".gitattributes", "**/.gitattributes", ".gitignore", "**/.gitignore")


def _why(document: Patch) -> dict[str, str]:
    return {"transportReason": document["transportReason"]} if "transportReason" in document else {}


def _output(named: str) -> Path:
    """Where the patch goes; no directory is made for it. Raises CannotRun where it cannot be written there."""
    path = Path(os.path.realpath(named))
    if not path.parent.is_dir():
        raise CannotRun(
            f"there is no directory {path.parent}", location=named, hint="make it first, or give another -o"
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise CannotRun("a FIFO or device takes no patch", location=named, hint="name a file with -o")
    if path.is_dir():
        raise CannotRun(
            "a directory stands where the patch would be written", location=named, hint="name a file with -o"
        )
    return path


@dataclass(frozen=True)
class BareCollection:
    """The change of the checkout that the caller stands in, counted from the revision `base`, into the file `output`.

    `branch`: the one that HEAD must be on, None for any. `integration`: a revision that the change may have merged in.
    """

    output: str
    base: str
    branch: str | None = None
    require_clean: bool = False
    integration: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)


def collect_by_hand(world: World, collection: BareCollection) -> Patch:
    """The document of a patch, written beside it."""
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout here", hint="-C names the worktree to collect from")
    branch = collection.branch
    full = f"refs/heads/{branch}" if branch and not branch.startswith("refs/") else branch
    request = Request(
        top=top,
        base=jobs.commit_of(world, collection.base),
        expected=Expected(branch=full, any_branch=branch is None, require_clean=collection.require_clean),
        policy=collection.policy,
        integration=collection.integration,
    )
    path = _output(collection.output)
    document = collect(world, request, path)
    if document["transport"] != "patch" and os.path.lexists(path):
        raise Refused(
            "this change has no patch, and an earlier file stands where it would be",
            location=str(path),
            hint="it was left as it is; move it away, or give another -o",
            data={"outcome": document["outcome"], **_why(document)},
        )
    beside = path.with_name(path.name + ".json")
    files.write_named(beside.parent, beside.name, contracts.dumps(kinds.PATCH, document, str(beside)))
    return document


MOVED = "look at what came meanwhile; leave --expect-head out, or give the new one"


@dataclass(frozen=True)
class BarePatchOptions:
    """What the caller asks for beside the file. `base`: of a bare patch. `policy`: as in a lease."""

    base: str = ""
    expect_head: str = ""
    message: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    follow_renames: bool = False
    gates: bool = True
    verify: Sequence[str] = ()
    verify_limit: float | None = None


def apply_file(world: World, patch: Path, options: BarePatchOptions) -> Receipt:
    """Apply the patch in `patch` (with its document beside it, or bare with `how.base`); returns the receipt.

    Raises Refused (`dirty_target` and others: nothing was changed), BrokenContract (`invalid_patch`, `missing_base`).
    """
    integrate.check_message(options.message)
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout here", hint="-C names a checkout of the branch")
    git = world.git.at(top)
    ref = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
    if not ref:
        raise Refused("HEAD is detached: which branch?", location=str(top), hint="switch to the branch first")
    began = world.clock.monotonic()
    with recover.holding(world, ref) as held, open_neutral(world) as neutral:
        before = git.resolve("HEAD")
        if before is None:
            raise Refused("the branch has no commit yet", location=str(top), hint="commit something first")
        if options.expect_head and git.resolve(options.expect_head) != before:
            raise Refused(
                f"HEAD is {before}, expected {options.expect_head}",
                location=str(top),
                hint=MOVED,
                outcome="target_moved",
            )
        offer, document = offer_from(world, neutral, neutral.objects, patch, options)
        offer = _without_what_is_in(world, neutral, offer, document, before)
        work = PatchApplication(held, neutral, neutral.objects, top, ref, before, options, patch, began)
        return _applied(work, offer, document)


@dataclass(frozen=True)
class PatchApplication:
    """One application under way."""

    held: HeldBranch
    neutral: Neutral
    objects: Objects
    top: Path
    ref: str
    before: str
    options: BarePatchOptions
    patch: Path
    began: float

    @property
    def world(self) -> World:
        return self.held.world


def offer_from(
    world: World, neutral: Neutral, objects: Objects, patch: Path, options: BarePatchOptions
) -> tuple[Offer, Patch]:
    """What a file hands over, with its document; a bare patch gets one from its base."""
    beside = patch.with_name(patch.name + ".json")
    if beside.is_file():
        document = contracts.loads(kinds.PATCH, files.read(beside), str(beside))
        if options.base and world.git.resolve(options.base) != document["base"]:
            raise Refused(
                f"--base is not the patch's base {document['base']}", location=str(beside), hint="leave --base out"
            )
    elif not patch.is_file():
        said = "a patch is a regular file; this is none" if patch.exists() else "no such patch file"
        raise CannotRun(said, location=str(patch), hint="patch-collect -o FILE writes one")
    elif options.base:
        document = bare_document(world, neutral, patch, options.base)
    else:
        raise CannotRun(
            f"there is no {beside.name} beside the patch",
            location=str(patch),
            hint="name its base commit with --base REV",
        )
    return candidate.offer_of(world, neutral, document, patch, options.policy), document


def _without_what_is_in(world: World, neutral: Neutral, offer: Offer, document: Patch, before: str) -> Offer:
    """The offer, counted from the commit of the branch that the change has merged in, where it has: what came from
    there is none of its own (as in a job)."""
    head, base = document.get("head", ""), document.get("mergedFrom", document["base"])
    if not head or world.git.resolve(head) is None:
        return offer
    found = world.git.run("merge-base", "--all", before, head, ok=(0, 1)).lines
    if len(found) != 1 or found[0] == base or not world.git.is_ancestor(base, found[0]):
        return offer
    base_tree = neutral.need_tree(found[0])
    return offer._replace(base_tree=base_tree, entries=tuple(merging.changes(neutral, base_tree, offer.tree)))


def bare_document(world: World, neutral: Neutral, patch: Path, revision: str) -> Patch:
    """The document of a patch that came from elsewhere: what it makes of the base tree decides."""
    base = jobs.commit_of(world, revision)
    base_tree = neutral.need_tree(base)
    digest, size = merging.file_digest(patch)
    tree = merging.tree_with_patch(neutral, base_tree, patch, bare=True)
    entries = merging.changes(neutral, base_tree, tree)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "patch",
        "outcome": "collected" if entries else "noop",
        "objectFormat": neutral.object_format,
        "base": base,
        "baseTree": base_tree,
        "tree": tree,
        "transport": "patch",
        "patchDigest": digest,
        "patchBytes": size,
        "paths": documents(entries, {}, {}),
        "collectedAt": timestamp(world.clock.now()),
    }


def _applied(work: PatchApplication, offer: Offer, document: Patch) -> Receipt:
    judged = _judged(work, offer, document)
    receipt = _receipt(work, judged, document)
    if judged.outcome != "accepted":
        return receipt
    git = target.runner(work.held, work.top)
    free = target.require_free(work.world, git, judged.entries, judged.tree)
    message = f"{work.options.message.strip() or f'Apply {work.patch.name}'}\n"
    settings = target.settings_for_commits(work.world, git, free)._replace(sign=False)
    commit, _ = target.commit_for_user(work.world, work.neutral, judged.tree, work.before, message, settings)
    place = names.branch_intent(work.ref)
    work.held.begin("apply-file", place)
    if work.options.verify:
        run = _verified(work, commit, judged.tree)
        receipt["verification"] = run
        if not verification.passed(run):
            work.held.settle()
            receipt |= {"outcome": "verification_failed", "message": verification.why_not(run)}
            return receipt
    receipt |= {"after": commit, "commit": commit, "tree": judged.tree}
    back = restored(git, work.before, ((None, entry) for entry in judged.entries))
    receipt |= {"remarks": told} if (told := [put_back(entry, by) for _, entry, by in back]) else {}
    work.world.writable_store.write(kinds.INTENT, place, _following(work, receipt))
    with naming_what_moved(work.held, place, "the patch is applied", "any command on that branch"):
        target.move_checkout(work.held, git, work.ref, work.before, commit, judged.entries, free.status)
        work.world.writable_store.write(kinds.RECEIPT, names.branch_receipt(work.ref), receipt)
        work.world.writable_store.remove(place)
        work.held.settle()
    return receipt


def _verified(work: PatchApplication, commit: str, tree: str) -> VerificationRun:
    path = work.world.writable_store.path(names.verify_dir(work.ref))
    check = verification.Check(work.options.verify, work.options.verify_limit, path, names.VERIFY_LOGS)
    work.world.writable_store.write(kinds.INTENT, names.branch_intent(work.ref), _intent(work), durable=False)
    run = verification.verify(work.held, check, commit, tree)
    if not verification.passed(run):
        before = work.neutral.need_tree(work.before)
        run = integrate.blamed(work.held, check, (work.before, before), (commit, tree))
    work.world.writable_store.remove(names.branch_intent(work.ref))
    return run


def _judged(work: PatchApplication, offer: Offer, document: Patch) -> CandidateVerdict:
    if document["outcome"] == "noop" or not offer.entries:
        return CandidateVerdict("noop")
    breaches = candidate.by_policy(work.neutral, work.objects, offer)
    if breaches or document["outcome"] == "policy_rejected":
        return CandidateVerdict("policy_rejected", breaches=tuple(breaches))
    tree = work.neutral.need_tree(work.before)
    judged = candidate.merged(work.neutral, work.objects, offer, tree, follow=work.options.follow_renames)
    if judged.outcome == "candidate" and work.options.gates:
        judged = candidate.gated(work.world, judged, tree, {})
    if judged.outcome != "candidate":
        return judged
    return CandidateVerdict("accepted", judged.tree, judged.entries, gates=judged.gates, followed=judged.followed)


def _intent(work: PatchApplication) -> Intent:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "apply-file",
        "nonce": work.held.nonce,
        "at": timestamp(work.world.clock.now()),
        "ref": work.ref,
        "before": work.before,
    }


def _following(work: PatchApplication, receipt: Receipt) -> Intent:
    """The intent once the commit is made and the checkout is about to follow."""
    intent: Intent = {**_intent(work), "commit": receipt["commit"], "prepared": receipt}
    return {**intent, **path_fields(bytes(work.top), "checkout")}


def _receipt(work: PatchApplication, judged: CandidateVerdict, document: Patch) -> Receipt:
    assert judged.outcome != "candidate", "it was decided"
    receipt: Receipt = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "receipt",
        "outcome": judged.outcome,
        "at": timestamp(work.world.clock.now()),
        "integrationRef": work.ref,
        "before": work.before,
        "nonce": work.held.nonce,
        "patchTree": document["tree"],
        "conflicts": [],
        "findings": [],
        "paths": [path_fields(e.path) for e in judged.entries] or integrate.paths_of(document),
        "durationMs": round((work.world.clock.monotonic() - work.began) * 1000, 3),
    }
    receipt = {**receipt, **integrate.facts_of(judged), **integrate.transport_of(document)}
    receipt |= {"breaches": document["breaches"]} if "breaches" in document and not judged.breaches else {}
    return receipt


@dataclass(frozen=True)
class UnitRequest:
    """What the command line asks for. Facts of the job count where it is new, or must agree."""

    job: str
    unit: str
    base: str = ""
    target: str = ""
    connection: str = DEFAULT_CONNECTION
    source: str = DEFAULT_SOURCE
    after: Sequence[str] = ()
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    text_root: Sequence[str] = ()
    sl_disallowed: bool = False
    leave_out: Sequence[str] = ()
    copy: Sequence[str] = ()
    sparse: Sequence[str] = ()


def open_by_hand(world: World, request: UnitRequest) -> Lease:
    """Open a unit of a job; returns its lease. The job, its base and the unit's position are made where they are new.

    Raises CannotRun, Refused, Blocked.
    """
    names.check_key(request.unit)
    job = _ensure_job(world, request)
    base = jobs.commit_of(world, request.base) if request.base else job.document["base"]
    for key in request.after:
        job.unit(key)
    unit = job.add_unit(request.unit, request.after)
    policy: LeasePolicy = {"allow": list(request.allow)} if request.allow else {}
    policy |= {"deny": list(request.deny)} if request.deny else {}
    policy |= {"textRoots": list(request.text_root)} if request.text_root else {}
    policy |= {"slDisallowed": True} if request.sl_disallowed else {}
    policy |= {"leaveOut": list(request.leave_out)} if request.leave_out else {}
    return open_unit(job, unit, base=base, policy=policy, copy=request.copy, sparse=request.sparse, owned=False)


def _ensure_job(world: World, request: UnitRequest) -> ActiveJob:
    """The job with its base fixed, and the base kept at a ref: a projection's commit is on no branch."""
    names.check_job(request.job)
    job = ActiveJob.find(world, request.job)
    if job is None or request.target:
        target = jobs.target_ref(world, request.target)
        base = jobs.commit_of(world, request.base or target) if job is None else None
        job = jobs.create(
            world, request.job, target=target, base=base, connection=request.connection, source=request.source
        )
    if "base" not in job.document:
        fixed = jobs.commit_of(world, job.target)
        job = jobs.change(world, request.job, lambda document: document.setdefault("base", fixed))
    if world.git.resolve(names.base_ref(request.job)) is None:
        worktrees(world).keep(names.base_ref(request.job), job.document["base"])
    return job
