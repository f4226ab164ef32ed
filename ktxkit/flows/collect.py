"""Taking a unit's change: checked, named path by path, proved by a round trip, kept as an object before all else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.contracts import SCHEMA_VERSION, Document
from ktxkit.core import child as child_core
from ktxkit.core import names
from ktxkit.core.child import ChildState, Expected
from ktxkit.core.patch import PATCH_LIMIT, Content, Entry, blobs, documents
from ktxkit.core.paths_policy import CandidatePathPolicy
from ktxkit.core.policy import BREACHES_KEPT, Breach, Facts, Policy, collisions, judge, policy_digest
from ktxkit.core.text import path_bytes, path_fields
from ktxkit.effects import child as child_effects
from ktxkit.effects import merging
from ktxkit.effects.clock import timestamp
from ktxkit.effects.git import Git
from ktxkit.effects.neutral import Neutral, open_neutral, scratch_dir
from ktxkit.effects.objects import Objects, flush_loose
from ktxkit.effects.worktrees import PLAIN
from ktxkit.errors import BrokenContract, CannotRun, Refused
from ktxkit.flows import jobs, leases, selection
from ktxkit.flows.path_policy import of_lease
from ktxkit.world import World

CONTRACT = "patch"
SAMPLE = 20  # paths of an account that a document shows
COLLISIONS_SHOWN = 100


@dataclass(frozen=True)
class Request:
    """What to take from where. `base` is a commit id; `integration` a ref whose merge into the unit is understood."""

    top: Path
    base: str
    expected: Expected
    policy: Mapping[str, Any] = field(default_factory=dict)
    integration: str = ""
    copied: Sequence[str] = ()
    identity: Mapping[str, Any] = field(default_factory=dict)
    ref: str = ""
    paths: CandidatePathPolicy | None = None  # of a lease: what could become source was said when it was opened
    plain: bool = False  # a unit's: neither the user's line-end settings nor a global ignore file decide what is taken


def collect_unit(world: World, job: Document, unit: jobs.Unit, *, include_uncommitted: bool = True) -> Document:
    """The unit's patch document, written with its patch. Raises Refused where the child is not in a state to be taken.

    The unit's commit is kept at its ref before the documents are written.
    """
    place = (job["jobId"], unit.position, unit.key)
    lease = leases.at_hand(world, job, unit)
    request = request_of(world, job, unit, lease, require_clean=not include_uncommitted)
    trace = jobs.tracer(world, job).bound(unitKey=unit.key)
    began = world.clock.monotonic()
    try:
        document = collect(world, request, world.writable_store.path(names.patch_file(*place)))
    except Exception as error:
        spent = (world.clock.monotonic() - began) * 1000
        trace.emit("collect", "work_unit_patch_failed", {}, level="error", duration_ms=spent, error=error)
        raise
    world.writable_store.write(CONTRACT, names.unit_doc(*place, "patch"), document)
    told = {
        "outcome": document["outcome"],
        "paths": [item["path"] for item in document["paths"]],
        "patchDigest": document.get("patchDigest"),
        "patchBytes": document.get("patchBytes"),
        "reasons": [item["message"] for item in document.get("breaches", ())] or None,
    }
    spent = (world.clock.monotonic() - began) * 1000
    trace.emit("collect", "work_unit_patch_collected", told, duration_ms=spent)
    return document


def request_of(
    world: World, job: Document, unit: jobs.Unit, lease: Document, *, require_clean: bool = False
) -> Request:
    """What to collect of a unit, by its lease."""
    top = Path(path_bytes(lease).decode("utf-8", "surrogateescape"))
    branch = lease.get("branch")
    full = branch if not branch or branch.startswith("refs/") else f"refs/heads/{branch}"
    identity: Document = {key: lease[key] for key in ("generation", "attempt", "fence") if key in lease}
    return Request(
        top=top,
        base=lease["base"],
        expected=Expected(branch=full, require_clean=require_clean),
        policy=lease.get("policy", {}),
        integration=job["integrationRef"],
        copied=lease.get("copied", ()),
        identity={"jobId": job["jobId"], "unitKey": unit.key, "position": unit.position, **identity},
        ref=names.unit_ref(job["jobId"], unit.position, unit.key),
        paths=of_lease(world, lease),
        plain=lease["mode"] == "unit",
    )


def collect(world: World, request: Request, patch: Path) -> Document:
    """Take the change and write its patch; returns the document, which the caller writes."""
    _same_repository(world, request.top)
    with open_neutral(world) as neutral, scratch_dir(world) as scratch:
        git = runner(world, request)
        state = child_effects.read_state(git, scratch)
        chosen = selection.choose(state.status, request.policy, request.copied, request.paths)
        _require(state, request, chosen)
        base = _base(world.git, request, state)
        tree = selection.tree_of_worktree(git, scratch / "index", chosen.take, state.head)
        again = child_effects.read_status(git) if chosen.take else state.status
        if git.resolve("HEAD") != state.head or again != state.status:
            raise Refused("the worktree changed while it was collected", where=str(request.top), hint="end its command")
        return _record(Taken(world, request, neutral, neutral.objects, base, tree), state, chosen, patch)


def runner(world: World, request: Request) -> Git:
    """git in the worktree: no edit hides from it, and in a unit's none of the user's settings decides."""
    git = child_effects.honest(world.git, request.top)
    return Git(git.cwd, git.env, {**git.config, **PLAIN, "core.excludesFile": os.devnull}) if request.plain else git


def _same_repository(world: World, top: Path) -> None:
    if not top.is_dir():
        raise CannotRun("the worktree is gone", where=str(top), hint="open the unit again")
    if not os.path.lexists(top / ".git"):
        hint = "its files are as they were; `git worktree repair` puts it back"
        raise CannotRun("the worktree's .git is gone: it is no checkout any more", where=str(top), hint=hint)
    here = world.at(top).repository
    if here.common_dir != world.repository.common_dir:
        raise CannotRun("this worktree belongs to another repository", where=str(top), hint="-C names the repository")
    if here.top is None or here.top.resolve() != top.resolve():
        raise CannotRun("this is not the top of a checkout", where=str(top), hint="name the worktree's top directory")


def _require(state: ChildState, request: Request, chosen: selection.Chosen) -> None:
    reasons = child_core.refusals(state, request.expected, chosen.take)
    if reasons:
        raise Refused(
            f"cannot collect: {'; '.join(reasons)}",
            where=str(request.top),
            hint="put the worktree right and collect again; nothing was touched",
            data={"reasons": reasons},
        )


def _base(git: Git, request: Request, state: ChildState) -> str:
    """The commit that the change is counted from: the recorded base, or the one merge base with the integration."""
    if not git.resolve(request.base):
        raise BrokenContract(
            f"base {request.base} is not in this repository",
            outcome="missing_base",
            hint="fetch it, or open the unit again at a base that is here",
        )
    if state.head == request.base:
        return request.base
    if not git.ok("merge-base", "--is-ancestor", request.base, state.head):
        raise Refused(
            f"the base {request.base[:12]} is not an ancestor of HEAD: it was rewound, amended or rebased",
            where=str(request.top),
            hint="bring the change back on top of its base",
        )
    if not request.integration or not git.resolve(request.integration):
        return request.base
    found = git.run("merge-base", "--all", request.integration, state.head, ok=(0, 1)).lines
    if len(found) == 1 and found[0] != request.base and git.ok("merge-base", "--is-ancestor", request.base, found[0]):
        return found[0]
    return request.base


@dataclass(frozen=True)
class Taken:
    """The tree that was taken, and the base that its change counts from."""

    world: World
    request: Request
    neutral: Neutral
    objects: Objects
    base: str
    tree: str


def _record(taken: Taken, state: ChildState, chosen: selection.Chosen, patch: Path) -> Document:
    """The document, and before it the kept commit and the proven patch."""
    neutral, objects, tree = taken.neutral, taken.objects, taken.tree
    base_tree = neutral.tree_of(taken.base)
    assert base_tree is not None, "the base is a commit"
    entries = merging.changes(neutral, base_tree, tree)
    merging.prefetch(neutral, blobs(entries))
    document = _facts(taken, state, base_tree, "collected" if entries else "noop") | chosen.account(SAMPLE)
    document |= _kept(taken, entries) if entries else {}
    document |= _written(neutral, entries, base_tree, tree, patch)
    content = {e.new.oid: objects.content(e.new.oid) for e in entries if e.new.kind not in ("absent", "gitlink")}
    sizes = {e.old.oid: objects.size(e.old.oid) for e in entries if e.old.kind not in ("absent", "gitlink")}
    document["paths"] = documents(entries, sizes, content)
    size = document.get("patchBytes", 0)
    breaches = judge_entries(neutral, objects, entries, content, taken.request.policy, size, tree)
    if breaches:
        document["outcome"] = "policy_rejected"
        document["breaches"] = [breach.document() for breach in breaches[:BREACHES_KEPT]]
    clashes = collisions((e.path for e in entries if e.change == "added"), _siblings(objects, tree, entries))
    if clashes:
        document["collisions"] = [
            {**path_fields(path), **path_fields(other, "other")} for path, other in clashes[:COLLISIONS_SHOWN]
        ]
    return document


def _facts(taken: Taken, state: ChildState, base_tree: str, outcome: str) -> Document:
    request = taken.request
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "patch",
        **request.identity,
        "outcome": outcome,
        "objectFormat": taken.neutral.object_format,
        "base": request.base,
        "baseTree": base_tree,
        "tree": taken.tree,
        "head": state.head,
        **({"mergedFrom": taken.base} if taken.base != request.base else {}),
        "transport": "none",
        "uncommitted": not state.status.clean,
        "policyDigest": policy_digest(request.policy),
        "collectedAt": timestamp(taken.world.clock.now()),
    }


def _kept(taken: Taken, entries: Sequence[Entry]) -> Document:
    """The unit's commit, flushed and kept at its ref; without a ref it is only an object."""
    world, request, neutral = taken.world, taken.request, taken.neutral
    seconds = int(world.clock.now().timestamp())
    who = request.identity.get("unitKey", "unit")
    commit = merging.commit_tree(neutral, taken.tree, taken.base, f"{who}: collected by ktxkit\n", seconds)
    if not request.ref:
        return {"commit": commit}
    flush_loose(world.repository.objects, merging.changed_objects(neutral, taken.tree, entries))
    durable = world.git.configured(core_fsync="reference")
    leases.worktrees(world).on_own("update-ref", "--create-reflog", request.ref, commit, git=durable)
    return {"commit": commit, "ref": request.ref}


def _written(neutral: Neutral, entries: Sequence[Entry], old: str, new: str, patch: Path) -> Document:
    """The patch file, proved by a round trip; nothing for an empty change; objects only where no patch can carry it."""
    if not entries:
        return {}
    try:
        digest, size = merging.write_patch(neutral, old, new, patch, PATCH_LIMIT, entries)
    except merging.NoPatchError as error:
        return {"transport": "objects", "transportReason": str(error)}
    return {"transport": "patch", "patchDigest": digest, "patchBytes": size}


def judge_entries(
    neutral: Neutral,
    objects: Objects,
    entries: Sequence[Entry],
    content: Mapping[str, Content],
    policy: Mapping[str, Any],
    patch_bytes: int,
    tree: str,
) -> list[Breach]:
    """The policy's word on a change, with what it must know read from the objects."""
    links = {e.path: objects.read(e.new.oid) for e in entries if e.new.kind == "symlink" and e.new != e.old}
    declared: frozenset[bytes] = frozenset()
    if any(entry.new.kind == "gitlink" for entry in entries):
        declared = declared_submodules(neutral, objects, tree)
    return judge(entries, Policy.of(policy), Facts(links, content, declared, patch_bytes))


def declared_submodules(neutral: Neutral, objects: Objects, tree: str) -> frozenset[bytes]:
    """The paths that a tree's .gitmodules declares."""
    found = objects.entry(tree, b".gitmodules")
    if found is None or not found.mode.startswith("100"):
        return frozenset()
    merging.prefetch(neutral, [found.oid])
    query = ("--get-regexp", r"^submodule\..*\.path$")
    answer = neutral.git.run("config", "-z", f"--blob={found.oid}", *query, ok=(0, 1))
    return frozenset(item.partition(b"\n")[2] for item in answer.nul)


def _siblings(objects: Objects, tree: str, entries: Iterable[Entry]) -> dict[bytes, list[bytes]]:
    """The names in each directory on the way to an added path."""
    found: dict[bytes, list[bytes]] = {}
    for entry in entries:
        if entry.change != "added":
            continue
        parts = entry.path.split(b"/")[:-1]
        for depth in range(len(parts) + 1):
            parent = b"/".join(parts[:depth])
            if parent not in found:
                at = objects.entry(tree, parent) if parent else None
                found[parent] = [name for _, name, _ in objects.level(at.oid if at else tree)]
    return found
