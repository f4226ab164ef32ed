"""Taking a unit's change: checked, named path by path, proved by a round trip, kept as an object before all else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun, Refused
from ktxkit.base.rules.text import path_bytes
from ktxkit.git import child as child_effects
from ktxkit.git.child import Here
from ktxkit.git.git import Begun, Git
from ktxkit.git.neutral import open_neutral, scratch_dir
from ktxkit.git.rules import child as child_core
from ktxkit.git.rules.child import ChildState, Expected
from ktxkit.observer.path_policy import of_lease
from ktxkit.observer.rules.paths_policy import CandidatePathPolicy
from ktxkit.store import jobs, leases
from ktxkit.store.rules import names
from ktxkit.store.worktrees import PLAIN
from ktxkit.store.world import World
from ktxkit.work import selection
from ktxkit.work.taken import Taken, record

CONTRACT = "patch"


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
    """Take the change and write its patch; returns the document, which the caller writes.

    The second look, which tells whether the worktree changed meanwhile, goes on beside the making of patch and proof;
    no ref moves and no file has its name before it has ended.
    """
    _must_be_there(request.top)
    git = runner(world, request)
    here = _here(world, request, git)
    with open_neutral(world) as neutral, scratch_dir(world) as scratch:
        copy = child_effects.on_copy(git, here.index, scratch / "index")
        state = child_effects.read_state(git, copy, here, scratch)
        chosen = selection.choose(state.status, request.policy, request.copied, request.paths)
        _require(state, request, chosen)
        base = _base(world.git, request, state)
        staging = selection.Staging(copy, chosen.take, neutral, scratch)
        staging.stage(state.status)
        with child_effects.begin_look(git) if chosen.take else nullcontext() as look:
            tree = staging.tree(state.head)
            taken = Taken(world, request, neutral, state, chosen, base, tree)
            return record(taken, patch, lambda: _require_unchanged(git, state, look))


def _require_unchanged(git: Git, before: ChildState, look: Begun | None) -> None:
    """Raises Refused where the second look saw something else; where nothing was read but commits, HEAD is enough."""
    same = child_effects.looked(look) == before.status if look else git.resolve("HEAD") == before.status.head
    if not same or before.status.head != before.head:
        raise Refused("the worktree changed while it was collected", where=str(git.cwd), hint="end its command")


def runner(world: World, request: Request) -> Git:
    """git in the worktree: no edit hides from it, and in a unit's none of the user's settings decides."""
    git = child_effects.honest(world.git, request.top)
    return Git(git.cwd, git.env, {**git.config, **PLAIN, "core.excludesFile": os.devnull}) if request.plain else git


def _must_be_there(top: Path) -> None:
    if not top.is_dir():
        raise CannotRun("the worktree is gone", where=str(top), hint="open the unit again")
    if not os.path.lexists(top / ".git"):
        hint = "its files are as they were; `git worktree repair` puts it back"
        raise CannotRun("the worktree's .git is gone: it is no checkout any more", where=str(top), hint=hint)


def _here(world: World, request: Request, git: Git) -> Here:
    """Where the worktree stands. Raises CannotRun where it is not the top of a checkout of this repository."""
    top, found = request.top, child_effects.here(git)
    here = found or world.at(top).repository  # which says what is wrong where git says it
    if os.path.realpath(here.common_dir) != str(world.repository.common_dir):
        raise CannotRun("this worktree belongs to another repository", where=str(top), hint="-C names the repository")
    if here.top is None or here.top.resolve() != top.resolve():
        raise CannotRun("this is not the top of a checkout", where=str(top), hint="name the worktree's top directory")
    if found is None:
        raise child_effects.why_not_here(git)
    return found


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
