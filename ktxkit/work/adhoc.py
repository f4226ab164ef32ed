"""Worktrees without a job: new work on a branch of its own, or an existing branch, tag or pull request isolated.

Isolation that exists is used: inside a linked worktree nothing is ever nested, the work goes on in place. A name that
is not its own leads to the worktree of that name, which is opened from the main checkout.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files, kinds, process
from ktxkit.base.errors import Blocked, CannotRun, Conflict, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable
from ktxkit.git import repository as remote
from ktxkit.git.checkout import CHECKED_OUT, checkouts, homes
from ktxkit.git.git import for_others
from ktxkit.store import config
from ktxkit.store.leases import LeaseLocation, in_use_lock, lease_here, path_of, presence, worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import base_candidates, isolated
from ktxkit.store.world import World
from ktxkit.work.attic import head_to_attic
from ktxkit.work.closing import free_path
from ktxkit.work.opening import Wanted, lease_existing, make, recover_opening
from ktxkit.work.rules.job_file import argv_of
from ktxkit.work.rules.reasons import last_lines

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, WorktreeMode


PR_REF = "refs/ktx/pr/{number}"


@dataclass(frozen=True)
class WorktreeRequest:
    """What the command line asks for. At most one of `ref`, `pr`, `detach`; otherwise a new branch `name`."""

    name: str = ""
    base: str = ""
    ref: str = ""
    pr: int = 0
    detach: bool = False
    path: Path | None = None
    fetch: bool = True
    copy: Sequence[str] = ()
    sparse: Sequence[str] = ()
    setup: str = ""  # a command for the shell; empty: the configured one


@dataclass
class Aim:
    """Where HEAD shall be. `notes` is what a person should know of how it was found."""

    mode: WorktreeMode
    base: str
    branch: str = ""
    creates: bool = False
    name: str = ""
    notes: list[str] = field(default_factory=list)


def open_adhoc(world: World, request: WorktreeRequest) -> tuple[Lease, list[str]]:
    """Open (or recognise) a worktree without a job; returns its lease and notes.

    Raises Refused (the branch is checked out already: it says where), CannotRun. A failure leaves nothing behind.
    """
    repository = world.repository
    if isolated(str(repository.git_dir), str(repository.common_dir), str(repository.superproject or "")):
        if not request.name or _is_own_name(world, request.name):
            return _in_place(world, request)
        return open_adhoc(*_from_main(world, request))
    _finish_killed(world)
    known = _open_already(world, request)
    if known is not None:
        return known, [f"it is open already: {printable(str(path_of(known)))}"]
    aim = _aim(world, request)
    if aim.branch:
        _must_be_free(world, aim)
    place, path = _free_place(world, request, aim)
    with place.locked():
        recover_opening(place)
        old = place.lease()
        if old is not None and old["state"] == "open":
            if presence(world, old, path).present:
                raise Refused(
                    f"{place.name} is open already", location=str(path_of(old)), hint="work there, or close it"
                )
            head_to_attic(place, old, "its directory was gone, and the worktree was opened anew")
            worktrees(world).forget(path_of(old))
        wanted = Wanted(path, aim.mode, aim.base, {}, aim.branch, aim.creates, request.copy, request.sparse)
        lease = make(place, wanted, old)
        setup = request.setup or config.load(world).get("setup")
        if setup:
            _set_up(place, lease, argv_of(setup))
        return lease, aim.notes + [f"nothing to copy is named {name}" for name in lease.get("copyUnmatched", ())]


def _set_up(location: LeaseLocation, lease: Lease, argv: Sequence[str]) -> None:
    """Run the setup of a new worktree; what it prints is kept beside the lease. Raises Conflict where it fails: the
    worktree is open."""
    world, path = location.world, path_of(lease)
    log = world.writable_store.path(f"{location.directory}/setup.log")
    done = process.run(process.Command(argv, path, {**for_others(world.env), "PWD": str(path)}))
    files.write_atomic(log, done.out + done.err)
    if done.status != 0:
        last = last_lines((done.out + done.err).decode("utf-8", "replace"))
        said = f"its setup {process.ending(done.status)}{f': {last}' if last else ''}"
        hint = f"the worktree is open; all that the setup printed is in {log}"
        raise Conflict(said, location=str(path), hint=hint, outcome="failed")


def run_inside(world: World, lease: Lease, argv: Sequence[str], *, stdout: int | None = None) -> int:
    """Run a command in an open worktree, with our streams; returns its status, 128 + N where signal N ended it.

    No variable of git's leads it elsewhere; a unit's finds its job, as it does where a job runs it. `stdout`: where its
    output goes, None for ours. Raises CannotRun where it cannot be started.
    """
    path = path_of(lease)
    env = {**for_others(world.env), "PWD": str(path)}
    if "unitKey" in lease:
        env |= {"KTX_DIR": str(world.store.root), "KTX_JOB": lease["jobId"], "KTX_UNIT": lease["unitKey"]}
    with flocked(in_use_lock(world, lease), clock=world.clock, shared=True, what=f"the worktree {path}"):
        ended = process.attached(argv, cwd=path, env=env, stdout=stdout)
    return ended if ended >= 0 else 128 - ended


def _open_already(world: World, request: WorktreeRequest) -> Lease | None:
    """The lease of the worktree that a name, or a branch, means already: the same words lead to the same place.

    None where more is asked than that (a base, a path, files), or where it is on another branch by now.
    """
    name = request.name or request.ref.removeprefix("refs/heads/")
    if not name or request.pr or request.base or request.path or request.copy or request.sparse or request.detach:
        return None
    for known in (name, _other_name(name)):
        lease = LeaseLocation.adhoc(world, known).lease()
        if lease is None or lease["state"] != "open" or lease.get("branch") != f"refs/heads/{name}":
            continue
        path = path_of(lease)
        entry = worktrees(world).registered(path)
        if entry is not None and entry.branch == lease["branch"] and presence(world, lease, path).same:
            return lease
    return None


def _finish_killed(world: World) -> None:
    """Finish or undo openings that were killed: a branch of one would be in the way of trying again."""
    for name in world.store.children("leases"):
        place = LeaseLocation.adhoc(world, name)
        if world.store.exists(f"{place.directory}/{kinds.OPENING}.json"):
            try:
                with place.locked(wait=0):
                    recover_opening(place)
            except (Refused, Blocked):
                continue  # gate-ok: it is being opened now, or another repository's: --list says which


def _aim(world: World, request: WorktreeRequest) -> Aim:
    if request.pr:
        return _pull_request(world, request)
    if request.ref:
        return _existing(world, request)
    if request.detach:
        notes: list[str] = []
        commit = _commit(world, request.base) if request.base else _default_base(world, request, notes)
        return Aim("detach", commit, name=request.name or f"detached-{commit[:10]}", notes=notes)
    if not request.name:
        hint = "worktree-open NAME, or --ref REF, --pr N, --detach; --job JOB --unit KEY for a unit"
        raise CannotRun("what shall the new branch be called?", hint=hint)
    notes = []
    commit = _commit(world, request.base) if request.base else _default_base(world, request, notes)
    return _new_branch(world, "new-branch", request.name, commit, notes)


def _new_branch(world: World, mode: WorktreeMode, name: str, commit: str, notes: list[str]) -> Aim:
    ref = f"refs/heads/{name}"
    if name in ("HEAD", "@") or name.startswith(("-", "refs/")) or not world.git.ok("check-ref-format", ref):
        raise CannotRun(f"{name!r} cannot be a branch name", hint="see git-check-ref-format(1)")
    _must_have_room(world, name)
    if world.git.resolve(ref) is not None:
        _must_be_free(world, Aim(mode, commit, ref))
        raise Refused(f"branch {name} exists already", hint=f"open it with --ref {name}, or take another name")
    return Aim(mode, commit, ref, True, name, notes)


def _must_have_room(world: World, name: str) -> None:
    """No branch can lie below another: refs are files. Raises CannotRun that names the branch in the way."""
    parts = name.split("/")
    above = [f"refs/heads/{'/'.join(parts[:depth])}" for depth in range(1, len(parts))]
    found = world.git.run("for-each-ref", "--format=%(refname)", *above, f"refs/heads/{name}/").lines
    other = next((ref for ref in found if ref in above or ref.startswith(f"refs/heads/{name}/")), "")
    if other:
        said = f"no branch can be called {name} beside branch {other.removeprefix('refs/heads/')}"
        raise CannotRun(said, hint="one name is a folder of the other: take another name, or rename that branch")


def _default_base(world: World, request: WorktreeRequest, notes: list[str]) -> str:
    """Origin's default branch (fetched, where that works), else main, else what is checked out."""
    git, has_origin = world.git, remote.exists(world.git)
    candidates = base_candidates(remote.default_branch(git), has_origin)
    ref = next((ref for ref in candidates if git.resolve(ref) is not None), "")
    if not ref:
        raise CannotRun("there is no commit to start from", hint="make a first commit: an unborn branch has none")
    if ref.startswith("refs/remotes/origin/") and request.fetch:
        branch = ref.removeprefix("refs/remotes/origin/")
        trouble = remote.fetch(git, f"+refs/heads/{branch}:{ref}", world.env)
        notes += [f"could not fetch origin, what is here is used: {trouble}"] if trouble else []
    return _commit(world, ref)


def _existing(world: World, request: WorktreeRequest) -> Aim:
    """A branch, a branch of origin (a local one is made for it), a tag or any commit (detached)."""
    git, ref = world.git, request.ref
    local = ref if ref.startswith("refs/heads/") else f"refs/heads/{ref}"
    if git.resolve(local) is not None:
        return Aim("ref", _commit(world, local), local, name=request.name or local.removeprefix("refs/heads/"))
    short = ref.removeprefix("refs/remotes/").removeprefix("origin/")
    theirs = git.resolve(f"refs/remotes/origin/{short}")
    if theirs is not None:
        aim = _new_branch(world, "ref", short, theirs, [])
        aim.name = request.name or short
        return aim
    return Aim("ref", _commit(world, ref), name=request.name or ref.removeprefix("refs/tags/"))


def _pull_request(world: World, request: WorktreeRequest) -> Aim:
    """The head of a pull request on a local branch, never a detached FETCH_HEAD: work on it must have a home."""
    git, name, kept = world.git, request.name or f"pr-{request.pr}", PR_REF.format(number=request.pr)
    ref = f"refs/heads/{name}"
    trouble = remote.fetch(git, f"+refs/pull/{request.pr}/head:{kept}", world.env) if request.fetch else ""
    head, own = git.resolve(kept), git.resolve(ref)
    if head is None:
        raise CannotRun(f"pull request {request.pr} cannot be fetched: {trouble}", hint="is origin its repository?")
    notes = [f"could not fetch pull request {request.pr}, what is here is used: {trouble}"] if trouble else []
    if own is None:
        return _new_branch(world, "pr", name, head, notes)
    aim = Aim("pr", own, ref, False, name, notes)
    if own != head:
        _must_be_free(world, aim)
        if not git.is_ancestor(own, head):
            hint = f"open it as it is with --ref {name}"
            raise Refused(f"{name} has commits that pull request {request.pr} does not have", hint=hint)
        git.run("update-ref", "-m", f"ktxkit: pull request {request.pr}", ref, head, own)
        aim.base = head
    return aim


def _must_be_free(world: World, aim: Aim) -> None:
    """A branch lives in one worktree. Raises Refused that says where."""
    name = aim.branch.removeprefix("refs/heads/")
    for home in homes(worktrees(world).git, world.repository.common_dir, aim.branch):
        where = printable(str(home.path))
        if home.operation == CHECKED_OUT and not home.present:
            gone = "its directory is gone: `git ktx prune` or `git worktree prune` forgets it"
            hint = "its worktree is locked: bring it back, or `git worktree unlock` it" if home.locked else gone
            raise Refused(f"branch {name} is registered elsewhere", location=where, hint=hint)
        hint = f"work there, or open a worktree at the same commit: --detach --base {name}"
        said = "checked out already" if home.operation == CHECKED_OUT else home.operation
        raise Refused(f"branch {name} is {said}", location=where, hint=hint)


def _other_name(name: str) -> str:
    """Of a worktree whose place another branch has: `feat/a` and `feat-a` have one name in paths."""
    return f"{name}-{digest(name.encode())[3:9]}"


def _free_place(world: World, request: WorktreeRequest, aim: Aim) -> tuple[LeaseLocation, Path]:
    """The place of that name, and the path: the one asked for, else the usual one, beside kept evidence."""
    name = aim.name
    old = LeaseLocation.adhoc(world, name).lease()
    if old is not None and old.get("branch", "") != aim.branch and old["state"] == "open":
        name = _other_name(name)
        old = LeaseLocation.adhoc(world, name).lease()
    place = LeaseLocation.adhoc(world, name)
    if request.path is not None:
        return place, _outside(world, request.path)
    usual = world.writable_store.path(names.adhoc_worktree(name))
    return place, free_path(usual, 1 if old is None else old["attempt"] + 1)


def _outside(world: World, path: Path) -> Path:
    """A path that was asked for. A checkout inside another one that does not ignore it would be staged as a gitlink."""
    full = Path(os.path.realpath(path))
    if full.exists() and (not full.is_dir() or any(full.iterdir())):
        raise Refused("something is there already", location=str(full), hint="choose another --path")
    top = world.repository.top
    tops = {Path(os.path.realpath(one)) for one in checkouts(world.repository.common_dir)} - {top}
    around = next((str(one) for one in full.parents if one in tops), "")
    if around:
        hint = "leave --path out, or choose a place outside of every checkout"
        raise Refused(
            f"that lies in another worktree, and goes with it: {printable(around)}", location=str(full), hint=hint
        )
    if top is not None and top in full.parents:
        env = {"GIT_LITERAL_PATHSPECS": "0"}
        probe = world.git.at(top).run("check-ignore", "-q", "--no-index", "--", f"{full}/x", ok=(0, 1), env=env)
        if probe.status != 0:
            hint = "leave --path out, or choose a place outside the checkout"
            raise Refused("that lies in the checkout and is not ignored there", location=str(full), hint=hint)
    return full


def _in_place(world: World, request: WorktreeRequest) -> tuple[Lease, list[str]]:
    """Inside a linked worktree: work in place. A ref that was named must be, or become, what is checked out here."""
    git, top = world.git, world.repository.top
    assert top is not None, "a linked worktree has a top level"
    notes = [f"this is an isolated worktree already: {printable(str(top))}"]
    if request.ref or request.pr:
        aim = _aim(world, request)
        if not _is_current(world, aim):
            _must_be_free(world, aim)
            _switch(world, aim)
    known = lease_here(world)
    if known is not None and known[1]["state"] == "open":
        return known[1], notes
    head = git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    place = LeaseLocation.adhoc(world, world.repository.git_dir.name)
    branch = head.text if head.status == 0 else ""
    with place.locked():
        wanted = Wanted(top, "in-place", _commit(world, "HEAD"), {}, branch)
        return lease_existing(place, wanted, world.repository.git_dir, place.lease()), notes


def _is_own_name(world: World, name: str) -> bool:
    """Whether the linked worktree that the world stands in is the one of that name: by its branch, now or as it was
    opened; where it has none, by its directory."""
    head = world.git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    known, top = lease_here(world), world.repository.top
    branches = {head.text if head.status == 0 else "", known[1].get("branch", "") if known else ""} - {""}
    if branches:
        return f"refs/heads/{name}" in branches
    return top is not None and top.name == names.slug(name)


def _from_main(world: World, request: WorktreeRequest) -> tuple[World, WorktreeRequest]:
    """The main checkout, and what is asked for there. A base means what it means here. Raises Refused in a unit: its
    work belongs where its job looks for it."""
    known = lease_here(world)
    unit = known[1].get("unitKey") if known else None
    unit = unit or world.env.get("KTX_UNIT")
    if unit:
        raise Refused(
            f"unit {unit} has its own worktree, and opens no other one: {printable(request.name)}",
            location=str(world.repository.top),
            hint="work here; `worktree-open` without a name says where that is",
        )
    base = _commit(world, request.base) if request.base else ""
    return world.at(worktrees(world).listed()[0].path), replace(request, base=base)


def _is_current(world: World, aim: Aim) -> bool:
    head = world.git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    if aim.branch:
        return head.text == aim.branch
    return head.status != 0 and world.git.resolve("HEAD") == aim.base


def _switch(world: World, aim: Aim) -> None:
    """Check a ref out here. git refuses where that would overwrite work: so do we."""
    short = aim.branch.removeprefix("refs/heads/")
    how = ("-c", short, aim.base) if aim.creates else (short,) if short else ("--detach", aim.base)
    answer = world.git.run("switch", "--quiet", "--no-guess", *how, ok=None)
    if answer.status != 0:
        said = f"cannot switch to it here: {printable(answer.err.strip())}"
        raise Refused(said, location=str(world.cwd), hint="commit or put away what is in the way")


def _commit(world: World, revision: str) -> str:
    found = world.git.resolve(revision)
    if found is None:
        raise CannotRun(f"no commit {revision!r}", hint=remote.missing_revision(world.git, revision))
    return found
