"""What was taken of a unit, made into a record: patch, proof, kept commit and the document that names every path.

Taking a unit's change: checked, named path by path, proved by a round trip, kept as an object before all else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract, CannotRun, Refused
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, path_fields
from ktxkit.git import child, merging, snapshot, staging
from ktxkit.git.child import Here
from ktxkit.git.git import Begun, Git
from ktxkit.git.neutral import Neutral, open_neutral, scratch_dir
from ktxkit.git.objects import Objects, flush_loose, loose_of
from ktxkit.git.rules.checkout import ChildState, Expected, refusals
from ktxkit.git.rules.patch import Content, Entry, blobs, documents
from ktxkit.git.staging import touched
from ktxkit.store import leases
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import as_opened, of_lease
from ktxkit.store.rules import names
from ktxkit.store.rules.paths_policy import CandidatePathPolicy
from ktxkit.store.worktrees import PLAIN
from ktxkit.store.world import World
from ktxkit.work import attic, selection
from ktxkit.work.rules.job_file import PROJECT, plan_of
from ktxkit.work.rules.policy import BREACHES_KEPT, Breach, Policy, TreeContents, collisions, judge, policy_digest

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import JobFile, LeasePolicy, Patch, PatchOutcome, PatchTransport

    class KeptChange(TypedDict, total=False):
        """What a patch document says of how its change can be taken."""

        commit: str
        ref: str
        transport: PatchTransport
        transportReason: str
        patchDigest: str
        patchBytes: int


SAMPLE = 20  # paths of an account that a document shows
COLLISIONS_SHOWN = 100


class CollectedTree(NamedTuple):
    """The tree that was taken, and the commit that its change counts from."""

    world: World
    request: Request
    neutral: Neutral
    state: ChildState
    chosen: selection.Chosen
    base: str
    tree: str


def record(collected: CollectedTree, patch: Path, unchanged: Callable[[], None]) -> Patch:
    """The document, and before it the kept commit and the proven patch.

    `unchanged` raises Refused where the worktree changed meanwhile: nothing has a name or a ref before it was asked.
    """
    neutral, objects, tree = collected.neutral, collected.neutral.objects, collected.tree
    base_tree = neutral.need_tree(collected.base)
    entries = merging.changes(neutral, base_tree, tree)
    merging.prefetch(neutral, blobs(entries))
    facts = _facts(collected, base_tree, "collected" if entries else "noop")
    document: Patch = {**facts, **collected.chosen.account(SAMPLE)}
    content = {e.new.oid: objects.content(e.new.oid) for e in entries if e.new.kind not in ("absent", "gitlink")}
    sizes = {e.old.oid: objects.size(e.old.oid) for e in entries if e.old.kind not in ("absent", "gitlink")}
    document["paths"] = documents(entries, sizes, content)
    clashes = collisions((e.path for e in entries if e.change == "added"), _siblings(objects, tree, entries))
    if clashes:
        document["collisions"] = [
            {**path_fields(path), **path_fields(other, "other")} for path, other in clashes[:COLLISIONS_SHOWN]
        ]
    document = {**document, **_handed_over(collected, entries, base_tree, patch, unchanged)}
    size = document.get("patchBytes", 0)
    names = {e.path: e.new.oid for e in entries if e.new.kind == "gitlink"}
    links = declared_submodules(neutral, objects, tree) if names else {}
    lost = frozenset(
        path for path, oid in names.items() if path in links and _is_lost(collected, path, links[path], oid)
    )
    breaches = judge_entries(neutral, objects, entries, content, collected.request.policy, size, tree, lost)
    if lost:
        document["unpublished"] = [path_fields(path) for path in sorted(lost)][:COLLISIONS_SHOWN]
    if breaches:
        document["outcome"] = "policy_rejected"
        document["breaches"] = [breach.document() for breach in breaches[:BREACHES_KEPT]]
    return document


def _is_lost(collected: CollectedTree, path: bytes, name: bytes, commit: str) -> bool:
    git, common_dir = collected.world.git.at(collected.request.top), collected.world.repository.common_dir
    return snapshot.is_unpublished(git, common_dir, path, name, commit)


def _facts(collected: CollectedTree, base_tree: str, outcome: PatchOutcome) -> Patch:
    request = collected.request
    facts: Patch = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "patch",
        "outcome": outcome,
        "objectFormat": collected.neutral.object_format,
        "base": request.base,
        "baseTree": base_tree,
        "tree": collected.tree,
        "head": collected.state.head,
        "transport": "none",
        "uncommitted": not collected.state.status.clean,
        "policyDigest": policy_digest(request.policy),
        "collectedAt": timestamp(collected.world.clock.now()),
        "paths": [],
    }
    facts = {**facts, **request.identity}
    facts |= {"mergedFrom": collected.base} if collected.base != request.base else {}
    return facts


def _handed_over(
    collected: CollectedTree, entries: Sequence[Entry], base_tree: str, patch: Path, unchanged: Callable[[], None]
) -> KeptChange:
    """The commit kept at its ref, then the patch file, proved by a round trip; nothing for an empty change.

    Objects only, where no patch can carry it.
    """
    if not entries:
        unchanged()
        return {}
    kept = _commit(collected)

    def keep() -> None:
        unchanged()
        _keep(collected, kept["commit"], entries)

    limit = collected.world.limits.patch_bytes
    try:
        digest, size = merging.write_patch(collected.neutral, base_tree, collected.tree, patch, limit, entries, keep)
    except merging.NoPatchError as error:
        keep()
        kept |= {"transport": "objects", "transportReason": str(error)}
        return kept
    kept |= {"transport": "patch", "patchDigest": digest, "patchBytes": size}
    return kept


def _commit(collected: CollectedTree) -> KeptChange:
    """The unit's commit; without a ref it is only an object."""
    request = collected.request
    seconds = int(collected.world.clock.now().timestamp())
    who = request.identity.get("unitKey", "unit")
    commit = merging.commit_tree(
        collected.neutral, collected.tree, collected.base, f"{who}: collected by ktxkit\n", seconds
    )
    return {"commit": commit, "ref": request.ref} if request.ref else {"commit": commit}


def _keep(collected: CollectedTree, commit: str, entries: Sequence[Entry]) -> None:
    """The unit's commit, flushed and kept at its ref, where it has one."""
    world, ref = collected.world, collected.request.ref
    if not ref:
        return
    store, oids = world.repository.objects, merging.changed_objects(collected.neutral, collected.tree, entries)
    loose = loose_of(store, oids)
    if len(loose) > staging.MANY:  # the unit's own commits
        staging.pack(collected.neutral.git, store, loose)
    else:
        flush_loose(store, loose)
    attempt = collected.request.identity.get("attempt", 1)
    note = attic.collected_note(attempt)
    if attempt > 1:
        attic.keep_replaced(world, ref, commit, attempt)
    durable = world.git.configured(core_fsync="reference")
    leases.worktrees(world).on_own("update-ref", "--create-reflog", "-m", note, ref, commit, git=durable)


def judge_entries(
    neutral: Neutral,
    objects: Objects,
    entries: Sequence[Entry],
    content: Mapping[str, Content],
    policy: Mapping[str, Any],
    patch_bytes: int,
    tree: str,
    unpublished: frozenset[bytes] = frozenset(),
) -> list[Breach]:
    """The policy's word on a change, with what it must know read from the objects. `unpublished`: see TreeContents."""
    links = {e.path: objects.read(e.new.oid) for e in entries if e.new.kind == "symlink" and e.new != e.old}
    declared: frozenset[bytes] = frozenset()
    if any(entry.new.kind == "gitlink" for entry in entries):
        declared = frozenset(declared_submodules(neutral, objects, tree))
    return judge(entries, Policy.of(policy), TreeContents(links, content, declared, unpublished, patch_bytes))


def declared_submodules(neutral: Neutral, objects: Objects, tree: str) -> dict[bytes, bytes]:
    """The paths that a tree's .gitmodules declares, with the submodules' names."""
    found = objects.entry(tree, b".gitmodules")
    if found is None or not found.mode.startswith("100"):
        return {}
    merging.prefetch(neutral, [found.oid])
    query = ("--get-regexp", r"^submodule\..*\.path$")
    answer = neutral.git.run("config", "-z", f"--blob={found.oid}", *query, ok=(0, 1))
    pairs = (item.partition(b"\n")[::2] for item in answer.nul)
    return {path: key.removeprefix(b"submodule.").removesuffix(b".path") for key, path in pairs}


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


if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import Patch

    class UnitIdentity(TypedDict, total=False):
        """Whose change it is; empty outside of a job."""

        jobId: str
        unitKey: str
        position: int
        generation: int
        attempt: int
        fence: int

    from ktxkit.base.documents import Lease

CONTRACT = "patch"


class Request(NamedTuple):
    """What to take from where. `base` is a commit id; `integration` a ref whose merge into the unit is understood."""

    top: Path
    base: str
    expected: Expected
    policy: Mapping[str, Any] = {}
    integration: str = ""
    copied: Sequence[str] = ()
    identity: UnitIdentity = cast("UnitIdentity", {})
    ref: str = ""
    paths: CandidatePathPolicy | None = None  # of a lease: what could become source was said when it was opened
    until: float | None = None  # seconds of the monotonic clock: what is not collected by then is refused
    hint: str = "put the worktree right and collect again; nothing was touched"  # where its state is refused
    counted_from: str = ""  # a commit that is none of its history, and has what landed of it
    plain: bool = False  # a unit's: neither the user's line-end settings nor a global ignore file decide what is taken


def collect_unit(job: ActiveJob, unit: Unit, *, include_uncommitted: bool = True, until: float | None = None) -> Patch:
    """The unit's patch document, written with its patch. Raises Refused where the child is not in a state to be taken.

    The unit's commit is kept at its ref before the documents are written. `until`: as in `Request`.
    """
    lease = leases.at_hand(job, unit)
    leases.must_be_leased_directory(lease)
    request = request_of(job, unit, lease, require_clean=not include_uncommitted)._replace(until=until)
    trace = job.tracer.bound(unitKey=unit.key)
    began = job.world.clock.monotonic()
    try:
        document = collect(job.world, request, job.world.writable_store.path(job.patch_file(unit)))
    except Exception as error:
        spent = (job.world.clock.monotonic() - began) * 1000
        trace.emit("collect", "work_unit_patch_failed", {}, level="error", duration_ms=spent, error=error)
        raise
    job.world.writable_store.write(kinds.PATCH, job.unit_doc(unit, "patch"), document)
    told = {
        "outcome": document["outcome"],
        "paths": [item["path"] for item in document["paths"]],
        "patchDigest": document.get("patchDigest"),
        "patchBytes": document.get("patchBytes"),
        "patch": str(job.world.store.path(job.patch_file(unit))) if "patchDigest" in document else None,
        "reasons": [item["message"] for item in document.get("breaches", ())] or None,
    }
    spent = (job.world.clock.monotonic() - began) * 1000
    trace.emit("collect", "work_unit_patch_collected", told, duration_ms=spent)
    return document


class UnitPolicies:
    """The policy of each unit of the last job file, by its digest (`World.shared`)."""

    def __init__(self) -> None:
        self._digest = ""
        self._by_unit: Mapping[str, LeasePolicy] = {}

    def of(self, digest: str, document: JobFile) -> Mapping[str, LeasePolicy]:
        """Of the units of this job file; what is projected is judged by the final gates."""
        if digest != self._digest:
            plan = plan_of(document)
            own: dict[str, LeasePolicy] = {PROJECT: {}} if plan.project else {}
            self._by_unit, self._digest = own | {unit.key: unit.policy for unit in plan.units}, digest
        return self._by_unit

    def close(self) -> None:
        self._digest, self._by_unit = "", {}


def policy_of(job: ActiveJob, unit: Unit, lease: Lease | None) -> LeasePolicy:
    """What a unit may do: by the job file, where the job has one and the unit is in it, else by its lease.

    Raises BrokenContract where the lease, which the unit can write, says otherwise.
    """
    said: LeasePolicy = lease.get("policy", {}) if lease is not None else {}
    document = job.file()
    policy = None
    if document is not None:
        policy = job.world.shared(UnitPolicies).of(job.document["jobFileDigest"], document).get(unit.key)
    if policy is None:
        return said
    if lease is not None and (said != policy or lease.get("policyDigest", digest_of(said)) != digest_of(said)):
        raise BrokenContract(
            f"the lease of unit {unit.key} has another policy than the job file: it was altered",
            location=str(job.world.store.path(job.unit_doc(unit, "lease"))),
            hint="look at what the unit did; its worktree is kept",
        )
    return policy


def identity_of(job: ActiveJob, unit: Unit, lease: Lease) -> UnitIdentity:
    """Whose change it is, by its lease."""
    return {
        "jobId": job.id,
        "unitKey": unit.key,
        "position": unit.position,
        "generation": lease["generation"],
        "attempt": lease["attempt"],
        "fence": lease["fence"],
    }


def request_of(job: ActiveJob, unit: Unit, lease: Lease, *, require_clean: bool = False) -> Request:
    """What to collect of a unit, by its lease."""
    top = Path(path_bytes(lease).decode("utf-8", "surrogateescape"))
    branch = lease.get("branch")
    full = branch if not branch or branch.startswith("refs/") else f"refs/heads/{branch}"
    return Request(
        top=top,
        base=lease["base"],
        expected=Expected(branch=full, require_clean=require_clean),
        policy=policy_of(job, unit, lease),
        integration=job.integration_ref,
        copied=lease.get("copied", ()),
        identity=identity_of(job, unit, lease),
        ref=names.unit_ref(job.id, unit.position, unit.key),
        paths=of_lease(job.world, lease),
        plain=lease["mode"] == "unit",
    )


def collect(world: World, request: Request, patch: Path) -> Patch:
    """Take the change and write its patch; returns the document, which the caller writes.

    The second look, which tells whether the worktree changed meanwhile, goes on beside the making of patch and proof;
    no ref moves and no file has its name before it has ended.
    """
    _must_be_there(request.top)
    git = runner(world, request)
    here = _here(world, request, git)
    with open_neutral(world) as neutral, scratch_dir(world) as scratch:
        copy = child.on_copy(git, here.index, scratch / "index")
        state = child.read_state(git, copy, here, scratch)
        opened = as_opened(world, request.base, request.paths)
        chosen = selection.choose(state.status, request.policy, request.copied, request.paths, as_opened=opened)
        _require(state, request, chosen)
        base = _base(world.git, request, state)
        staging = selection.Staging(copy, chosen.take, neutral, scratch)
        staging.stage(state.status)
        with child.begin_look(git) if chosen.take else nullcontext() as look:
            tree = staging.tree(state.head)
            tree, chosen = _touched(git, neutral, scratch, base, tree, chosen)
            if request.paths is not None and request.paths.generated:
                entries = merging.changes(neutral, neutral.need_tree(base), tree)
                tree, out = selection.without_left_out(git, scratch, entries, tree, request.paths)
                chosen = chosen._replace(excluded=tuple(sorted({**dict(out), **dict(chosen.excluded)}.items())))
            taken = CollectedTree(world, request, neutral, state, chosen, base, tree)
            return record(taken, patch, lambda: _require_unchanged(git, state, look))


def _touched(
    git: Git, neutral: Neutral, scratch: Path, base: str, tree: str, chosen: selection.Chosen
) -> tuple[str, selection.Chosen]:
    """The tree without files that nobody touched, though they were staged or committed as git reads them."""
    entries = merging.changes(neutral, neutral.need_tree(base), tree)
    tree, same = touched(git, scratch, entries, tree)
    named = tuple((entry.path, "untouched: it is as a checkout of the base writes it") for entry in same)
    return tree, chosen._replace(excluded=(*chosen.excluded, *named))


def _require_unchanged(git: Git, before: ChildState, look: Begun | None) -> None:
    """Raises Refused where the second look saw something else; where nothing was read but commits, HEAD is enough."""
    if look is None:
        same = git.resolve("HEAD") == before.status.head
    else:
        same = child.looked(look, whole=True).unignored == before.status.unignored
    if not same or before.status.head != before.head:
        raise Refused("the worktree changed while it was collected", location=str(git.cwd), hint="end its command")


def runner(world: World, request: Request) -> Git:
    """git in the worktree: no edit hides from it, and in a unit's none of the user's settings decides."""
    git = child.honest(world.git, request.top)
    if request.plain:
        git = Git(git.cwd, git.env, {**git.config, **PLAIN, "core.excludesFile": os.devnull})
    return git.within(request.until)


def _must_be_there(top: Path) -> None:
    if not top.is_dir():
        raise CannotRun("the worktree is gone", location=str(top), hint="open the unit again")
    if not os.path.lexists(top / ".git"):
        hint = "its files are as they were; `git worktree repair` puts it back"
        raise CannotRun("the worktree's .git is gone: it is no checkout any more", location=str(top), hint=hint)


def _here(world: World, request: Request, git: Git) -> Here:
    """Where the worktree stands. Raises CannotRun where it is not the top of a checkout of this repository."""
    top, found = request.top, child.here(git)
    here = found or world.at(top).repository  # which says what is wrong where git says it
    if os.path.realpath(here.common_dir) != str(world.repository.common_dir):
        raise CannotRun(
            "this worktree belongs to another repository", location=str(top), hint="-C names the repository"
        )
    if here.top is None or here.top.resolve() != top.resolve():
        raise CannotRun(
            "this is not the top of a checkout", location=str(top), hint="name the worktree's top directory"
        )
    if found is None:
        raise child.why_not_here(git)
    return found


def _require(state: ChildState, request: Request, chosen: selection.Chosen) -> None:
    reasons = refusals(state, request.expected, chosen.take)
    if reasons:
        raise Refused(
            f"cannot collect: {'; '.join(reasons)}",
            location=str(request.top),
            hint=request.hint,
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
    if request.counted_from:
        return request.counted_from
    if state.head == request.base:
        return request.base
    if not git.is_ancestor(request.base, state.head):
        raise Refused(
            f"the base {request.base[:12]} is not an ancestor of HEAD: it was rewound, amended or rebased",
            location=str(request.top),
            hint="bring the change back on top of its base",
        )
    if not request.integration or not git.resolve(request.integration):
        return request.base
    found = git.run("merge-base", "--all", request.integration, state.head, ok=(0, 1)).lines
    if len(found) == 1 and found[0] != request.base and git.is_ancestor(request.base, found[0]):
        return found[0]
    return request.base
