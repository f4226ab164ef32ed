"""A patch file onto the branch that a checkout is on, outside any job: the same judgement, and the checkout follows."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.text import path_fields
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.git.rules.patch import documents
from ktxkit.store import jobs
from ktxkit.store.branch_lock import Held
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import candidate, control, recover, step, target, verification
from ktxkit.work.aftermath import naming_what_moved
from ktxkit.work.candidate import Judged, Offer
from ktxkit.work.collect_file import policy_by_hand

MOVED = "look at what came meanwhile; leave --expect-head out, or give the new one"


@dataclass(frozen=True)
class How:
    """What the caller asks for beside the file. `base`: of a bare patch. `policy`: as in a lease."""

    base: str = ""
    expect_head: str = ""
    message: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    follow_renames: bool = False
    gates: bool = True
    verify: Sequence[str] = ()
    verify_limit: float | None = None


def apply_file(world: World, patch: Path, how: How) -> Document:
    """Apply the patch in `patch` (with its document beside it, or bare with `how.base`); returns the receipt.

    Raises Refused (`dirty_target` and others: nothing was changed), BrokenContract (`invalid_patch`, `missing_base`).
    """
    step.check_message(how.message)
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout here", hint="-C names a checkout of the branch")
    git = world.git.at(top)
    ref = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
    if not ref:
        raise Refused("HEAD is detached: which branch?", where=str(top), hint="switch to the branch first")
    began = world.clock.monotonic()
    with recover.holding(world, ref) as held, open_neutral(world) as neutral:
        before = git.resolve("HEAD")
        if before is None:
            raise Refused("the branch has no commit yet", where=str(top), hint="commit something first")
        if how.expect_head and git.resolve(how.expect_head) != before:
            raise Refused(
                f"HEAD is {before}, expected {how.expect_head}", where=str(top), hint=MOVED, outcome="target_moved"
            )
        offer, document = offer_from(world, neutral, neutral.objects, patch, how)
        work = Work(world, held, neutral, neutral.objects, top, ref, before, how, patch, began)
        return _applied(work, offer, document)


@dataclass(frozen=True)
class Work:
    """One application under way."""

    world: World
    held: Held
    neutral: Neutral
    objects: Objects
    top: Path
    ref: str
    before: str
    how: How
    patch: Path
    began: float


def offer_from(world: World, neutral: Neutral, objects: Objects, patch: Path, how: How) -> tuple[Offer, Document]:
    """What a file hands over, with its document; a bare patch gets one from its base."""
    beside = patch.with_name(patch.name + ".json")
    if beside.is_file():
        document = contracts.loads("patch", files.read(beside), str(beside))
        if how.base and world.git.resolve(how.base) != document["base"]:
            raise Refused(
                f"--base is not the patch's base {document['base']}", where=str(beside), hint="leave --base out"
            )
    elif not patch.is_file():
        said = "a patch is a regular file; this is none" if patch.exists() else "no such patch file"
        raise CannotRun(said, where=str(patch), hint="patch-collect -o FILE writes one")
    elif how.base:
        document = bare_document(world, neutral, patch, how.base)
    else:
        raise CannotRun(
            f"there is no {beside.name} beside the patch", where=str(patch), hint="name its base commit with --base REV"
        )
    return candidate.offer_of(world, neutral, document, patch, how.policy), document


def bare_document(world: World, neutral: Neutral, patch: Path, revision: str) -> Document:
    """The document of a patch that came from elsewhere: what it makes of the base tree decides."""
    base = jobs.commit_of(world, revision)
    base_tree = neutral.tree_of(base)
    assert base_tree is not None, "a commit has a tree"
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


def _applied(work: Work, offer: Offer, document: Document) -> Document:
    judged = _judged(work, offer, document)
    receipt = _receipt(work, judged, document)
    if judged.outcome != "accepted":
        return receipt
    git = target.runner(work.held, work.top)
    status = target.require_free(work.world, git, judged.entries, judged.tree)
    message = f"{work.how.message.strip() or f'Apply {work.patch.name}'}\n"
    commit, _ = target.commit_for_user(work.world, work.neutral, judged.tree, work.before, message, sign=False)
    place = names.branch_intent(work.ref)
    work.held.begin("apply-file", place)
    if work.how.verify:
        run = _verified(work, commit, judged.tree)
        receipt["verification"] = run
        if not verification.passed(run):
            work.held.settle()
            return receipt | {"outcome": "verification_failed", "message": verification.why_not(run)}
    receipt |= {"after": commit, "commit": commit, "tree": judged.tree}
    work.world.writable_store.write("intent", place, _intent(work) | _follows(work, receipt))
    with naming_what_moved(work.world, work.held, place, "the patch is applied", "any command on that branch"):
        target.move_checkout(work.held, git, work.ref, work.before, commit, judged.entries, status)
        work.world.writable_store.write("receipt", names.branch_receipt(work.ref), receipt)
        work.world.writable_store.remove(place)
        work.held.settle()
    return receipt


def _verified(work: Work, commit: str, tree: str) -> Document:
    path = work.world.writable_store.path(names.verify_dir(work.ref))
    check = verification.Check(work.how.verify, work.how.verify_limit, path, names.VERIFY_LOGS)
    work.world.writable_store.write("intent", names.branch_intent(work.ref), _intent(work), durable=False)
    run = verification.verify(work.world, work.held, check, commit, tree)
    if not verification.passed(run):
        before = work.neutral.tree_of(work.before)
        assert before is not None, "HEAD is a commit"
        run = control.blamed(work.world, work.held, check, (work.before, before), (commit, tree))
    work.world.writable_store.remove(names.branch_intent(work.ref))
    return run


def _judged(work: Work, offer: Offer, document: Document) -> Judged:
    if document["outcome"] == "noop" or not offer.entries:
        return Judged("noop")
    breaches = candidate.by_policy(work.neutral, work.objects, offer)
    if breaches or document["outcome"] == "policy_rejected":
        return Judged("policy_rejected", breaches=tuple(breaches))
    tree = work.neutral.tree_of(work.before)
    assert tree is not None, "HEAD is a commit"
    judged = candidate.merged(work.neutral, work.objects, offer, tree, follow=work.how.follow_renames)
    if judged.outcome == "candidate" and work.how.gates:
        judged = candidate.gated(work.world, judged, tree, {})
    if judged.outcome != "candidate":
        return judged
    return Judged("accepted", judged.tree, judged.entries, gates=judged.gates, followed=judged.followed)


def _intent(work: Work) -> Document:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "apply-file",
        "nonce": work.held.nonce,
        "at": timestamp(work.world.clock.now()),
        "ref": work.ref,
        "before": work.before,
    }


def _follows(work: Work, receipt: Document) -> Document:
    """What the intent says once the commit is made and the checkout is about to follow."""
    return {"commit": receipt["commit"], **path_fields(bytes(work.top), "checkout"), "prepared": receipt}


def _receipt(work: Work, judged: Judged, document: Document) -> Document:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "receipt",
        "outcome": judged.outcome,
        "at": timestamp(work.world.clock.now()),
        "integrationRef": work.ref,
        "before": work.before,
        "nonce": work.held.nonce,
        "patchTree": document["tree"],
        **step.facts_of(judged),
        **({"breaches": document["breaches"]} if "breaches" in document and not judged.breaches else {}),
        "paths": [path_fields(e.path) for e in judged.entries] or step.paths_of(document),
        **step.handed_over(document),
        "durationMs": round((work.world.clock.monotonic() - work.began) * 1000, 3),
    }


def apply_by_hand(world: World, args: Namespace) -> Document:
    """What `patch-apply -C DIR PATCH` does."""
    how = How(
        base=args.base,
        expect_head=args.expect_head,
        message=args.message or "",
        policy=policy_by_hand(args),
        follow_renames=args.follow_renames,
        gates=not args.no_gates,
        verify=args.command,
        verify_limit=args.verify_limit,
    )
    return apply_file(world, Path(os.path.realpath(args.patch)), how)
