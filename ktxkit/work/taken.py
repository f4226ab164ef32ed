"""What was taken of a unit, made into a record: patch, proof, kept commit and the document that names every path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.rules.text import path_fields
from ktxkit.git import merging, packing
from ktxkit.git.neutral import Neutral
from ktxkit.git.objects import Objects, flush_loose, loose_of
from ktxkit.git.rules.child import ChildState
from ktxkit.git.rules.patch import PATCH_LIMIT, Content, Entry, blobs, documents
from ktxkit.store import leases
from ktxkit.store.world import World
from ktxkit.work import selection
from ktxkit.work.rules.policy import BREACHES_KEPT, Breach, Facts, Policy, collisions, judge, policy_digest

if TYPE_CHECKING:
    from ktxkit.work.collect import Request

SAMPLE = 20  # paths of an account that a document shows
COLLISIONS_SHOWN = 100


@dataclass(frozen=True)
class Taken:
    """The tree that was taken, and the commit that its change counts from."""

    world: World
    request: Request
    neutral: Neutral
    state: ChildState
    chosen: selection.Chosen
    base: str
    tree: str


def record(taken: Taken, patch: Path, unchanged: Callable[[], None]) -> Document:
    """The document, and before it the kept commit and the proven patch.

    `unchanged` raises Refused where the worktree changed meanwhile: nothing has a name or a ref before it was asked.
    """
    neutral, objects, tree = taken.neutral, taken.neutral.objects, taken.tree
    base_tree = neutral.tree_of(taken.base)
    assert base_tree is not None, "the base is a commit"
    entries = merging.changes(neutral, base_tree, tree)
    merging.prefetch(neutral, blobs(entries))
    document = _facts(taken, base_tree, "collected" if entries else "noop") | taken.chosen.account(SAMPLE)
    content = {e.new.oid: objects.content(e.new.oid) for e in entries if e.new.kind not in ("absent", "gitlink")}
    sizes = {e.old.oid: objects.size(e.old.oid) for e in entries if e.old.kind not in ("absent", "gitlink")}
    document["paths"] = documents(entries, sizes, content)
    clashes = collisions((e.path for e in entries if e.change == "added"), _siblings(objects, tree, entries))
    if clashes:
        document["collisions"] = [
            {**path_fields(path), **path_fields(other, "other")} for path, other in clashes[:COLLISIONS_SHOWN]
        ]
    document |= _handed_over(taken, entries, base_tree, patch, unchanged)
    size = document.get("patchBytes", 0)
    breaches = judge_entries(neutral, objects, entries, content, taken.request.policy, size, tree)
    if breaches:
        document["outcome"] = "policy_rejected"
        document["breaches"] = [breach.document() for breach in breaches[:BREACHES_KEPT]]
    return document


def _facts(taken: Taken, base_tree: str, outcome: str) -> Document:
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
        "head": taken.state.head,
        **({"mergedFrom": taken.base} if taken.base != request.base else {}),
        "transport": "none",
        "uncommitted": not taken.state.status.clean,
        "policyDigest": policy_digest(request.policy),
        "collectedAt": timestamp(taken.world.clock.now()),
    }


def _handed_over(
    taken: Taken, entries: Sequence[Entry], base_tree: str, patch: Path, unchanged: Callable[[], None]
) -> Document:
    """The commit kept at its ref, then the patch file, proved by a round trip; nothing for an empty change.

    Objects only, where no patch can carry it.
    """
    if not entries:
        unchanged()
        return {}
    told = _commit(taken)

    def keep() -> None:
        unchanged()
        _keep(taken, told["commit"], entries)

    try:
        digest, size = merging.write_patch(taken.neutral, base_tree, taken.tree, patch, PATCH_LIMIT, entries, keep)
    except merging.NoPatchError as error:
        keep()
        return {**told, "transport": "objects", "transportReason": str(error)}
    return {**told, "transport": "patch", "patchDigest": digest, "patchBytes": size}


def _commit(taken: Taken) -> Document:
    """The unit's commit; without a ref it is only an object."""
    request = taken.request
    seconds = int(taken.world.clock.now().timestamp())
    who = request.identity.get("unitKey", "unit")
    commit = merging.commit_tree(taken.neutral, taken.tree, taken.base, f"{who}: collected by ktxkit\n", seconds)
    return {"commit": commit, "ref": request.ref} if request.ref else {"commit": commit}


def _keep(taken: Taken, commit: str, entries: Sequence[Entry]) -> None:
    """The unit's commit, flushed and kept at its ref, where it has one."""
    world, ref = taken.world, taken.request.ref
    if not ref:
        return
    store, oids = world.repository.objects, merging.changed_objects(taken.neutral, taken.tree, entries)
    loose = loose_of(store, oids)
    if len(loose) > packing.MANY:  # the unit's own commits
        packing.pack(taken.neutral.git, store, loose)
    else:
        flush_loose(store, loose)
    durable = world.git.configured(core_fsync="reference")
    leases.worktrees(world).on_own("update-ref", "--create-reflog", ref, commit, git=durable)


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
