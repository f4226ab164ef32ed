"""A named worktree is a job of one: collected, gated, verified and landed as a unit is, from where it stands.

Its own commits land with their messages and authors, or all of it as one commit (`squash`). They land as they are where
the target has not moved since they branched off; else each is made again on the target. What is gated and verified is
the tree that the target gets; commits on the way to it are not.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import CannotRun, Conflict, KtxError, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable
from ktxkit.git import child, merging
from ktxkit.git.checkout import UserSettings
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.rules.checkout import Expected
from ktxkit.store import config, jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, must_be_ours, path_of, worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.world import World
from ktxkit.work import attic, collect, integrate, target
from ktxkit.work.bare_patches import CONTROL_BY_HAND
from ktxkit.work.job.run import new_job_id
from ktxkit.work.land import Landing, land
from ktxkit.work.rules.job_file import JobPlan, plan_of

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, JobFile, LandingReceipt, Lease, LeasePolicy, Receipt, WorktreeLanding


class LandRequest(NamedTuple):
    """What the command line asks for. `verify`: a command, in place of the configured one. `allow_control`: patterns of
    control files that may be changed, beside git's own."""

    target: str = ""
    squash: bool = False
    message: str = ""
    verify: tuple[str, ...] = ()
    allow_control: tuple[str, ...] = ()


class LandedWorktree(NamedTuple):
    """How it ended: the receipt of the landing, or that of a change that was not accepted."""

    job: ActiveJob
    receipt: Receipt
    work: Work
    landing: LandingReceipt | None = None


class Work(NamedTuple):
    """What a worktree has of its own, and its commits, the oldest first."""

    own: attic.OwnWork
    commits: tuple[str, ...]


def land_worktree(world: World, location: LeaseLocation, request: LandRequest) -> LandedWorktree:
    """Land the work of a worktree without a job. Its lease says where it landed, which its closing asks for.

    Raises Refused where its state cannot be taken (uncommitted work, without `squash`), Conflict where its commits do
    not fit the target one by one, and as `land` does.
    """
    main = worktrees(world).listed()[0]
    world = world.at(main.path)  # what decides is never read in the worktree that is judged
    location = location._replace(world=world)
    lease = _open_lease(world, location)
    usual = config.load(world).get("job", {})
    full = _target(world, lease, request.target or usual.get("target", "") or main.branch)
    plan = _plan(location.name, usual)
    work = _work(location, lease, full, request)
    unit = Unit(1, _key(lease, location))
    job_id = new_job_id(world, f"land-{location.name}")
    job = jobs.create(world, job_id, target=full, base=world.git.resolve(full), units=[unit])
    try:
        ended = _through(job, unit, lease, plan, work, request)
    except KtxError as error:
        _end(job, error.outcome, error.message)
        raise
    if ended.landing is None:
        _end(job, ended.receipt["outcome"], ended.receipt.get("message", "it was not accepted"))
    else:
        _remember(location, ended.landing, work.own.head, ended.receipt)
    return ended


def _open_lease(world: World, location: LeaseLocation) -> Lease:
    lease = location.lease()
    if lease is None or lease["state"] != "open":
        raise CannotRun(f"{location.name} is not open", hint="`git ktx list` shows what is")
    if "jobId" in lease:
        hint = f"patch-collect, patch-apply and job-land --job {lease['jobId']} do it for a unit"
        raise CannotRun(f"{location.name} is a unit of job {lease['jobId']}", location=lease["path"], hint=hint)
    must_be_ours(world, lease)
    return lease


def _key(lease: Lease, location: LeaseLocation) -> str:
    return names.check_key(lease.get("branch", "").removeprefix("refs/heads/") or location.name)


def _target(world: World, lease: Lease, name: str) -> str:
    """The full ref of the branch to land on."""
    if not name:
        if world.repository.bare:
            raise CannotRun("this repository is bare: which is the target?", hint="name it: --target BRANCH")
        raise CannotRun("the main checkout is on no branch: which is the target?", hint="name it: --target BRANCH")
    full = jobs.target_ref(world, name)
    if full == lease.get("branch"):
        raise CannotRun(
            "a branch does not land on itself", location=lease["path"], hint="name another one: --target BRANCH"
        )
    return full


def _plan(name: str, usual: Mapping[str, Any]) -> JobPlan:
    """Verification and gates as the repository configures them for jobs."""
    units = [{"key": name, "run": ["git", "ktx", "land", name]}]
    document = {"connectionId": DEFAULT_CONNECTION, "sourceKey": DEFAULT_SOURCE, **usual, "units": units}
    return plan_of(cast("JobFile", document))


def _work(location: LeaseLocation, lease: Lease, full: str, request: LandRequest) -> Work:
    git = worktrees(location.world).at(path_of(lease))
    busy = child.operations(git)
    if busy:
        end = f"git -C {shlex.quote(lease['path'])} status says how to end it"
        hint = f"finish it there and commit, or take it back (a merge: git merge --abort); {end}"
        raise Refused(f"a {busy[0]} is in progress", location=lease["path"], hint=hint)
    head = git.resolve("HEAD")
    if head is None:
        raise CannotRun("there is no commit in it", location=lease["path"], hint="make one first")
    own = attic.own_work(location, lease, git, full, head)
    if own.refused:
        raise Refused(own.refused, location=lease["path"], hint=f"{printable(own.way)}, then land it")
    listed = git.run("rev-list", "--reverse", "--topo-order", "--parents", *own.revisions, "--").lines
    merges = [line.split(" ")[0] for line in listed if line.count(" ") > 1]
    if merges and not request.squash:
        said = f"commit {merges[0][:12]} is a merge: its commits cannot land one by one"
        raise Refused(said, location=lease["path"], hint="--squash lands all of it as one commit; or rebase it first")
    return Work(own, tuple(line.split(" ")[0] for line in listed))


def _landed_before(world: World, own: attic.OwnWork) -> str:
    """A commit with what landed of it, where that was more than its commits; empty where it was not."""
    if not own.tree:
        return ""
    seconds = int(world.clock.now().timestamp())
    with open_neutral(world) as neutral:
        return merging.commit_tree(neutral, own.tree, own.base, "landed by ktxkit\n", seconds)


def _through(job: ActiveJob, unit: Unit, lease: Lease, plan: JobPlan, work: Work, asked: LandRequest) -> LandedWorktree:
    """Collect, gate, verify, land."""
    policy: LeasePolicy = {"allowControl": [*CONTROL_BY_HAND, *asked.allow_control]}
    hint = "commit it there; or --squash, which takes uncommitted work along; nothing was touched"
    request = collect.Request(
        top=path_of(lease),
        base=work.own.base,
        counted_from=_landed_before(job.world, work.own),
        expected=Expected(branch=lease.get("branch"), any_branch=True, require_clean=not asked.squash),
        policy=policy,
        copied=lease.get("copied", ()),
        identity=collect.identity_of(job, unit, lease),
        ref=names.unit_ref(job.id, unit.position, unit.key),
        hint=hint,
    )
    patch = collect.collect(job.world, request, job.world.writable_store.path(job.patch_file(unit)))
    job.world.writable_store.write(kinds.PATCH, job.unit_doc(unit, "patch"), patch)
    integrate.ensure_integration(job, job.document["base"], keep_ref=names.base_ref(job.id))
    options = integrate.ApplyOptions(verify=asked.verify, gate_options=plan.gates, policy=policy)
    options = options if asked.verify else options.verified_by(plan.verify)
    receipt = integrate.apply_unit(job, unit, options=options)
    if receipt["outcome"] not in integrate.DONE:
        return LandedWorktree(job, receipt, work)
    kept = None if asked.squash else _Commits(work)
    message = asked.message or _message(job, work)
    return LandedWorktree(job, receipt, work, land(job, message=message, series=kept))


def _message(job: ActiveJob, work: Work) -> str:
    """Of a squash: the only commit's own message, else what git's own squash lists."""
    if len(work.commits) == 1:
        return job.git.run("log", "-1", "--format=%B", work.commits[0]).text
    subjects = job.git.run("log", "--reverse", "--format=* %s", *work.own.revisions, "--").text
    return f"{job.units[0].key}\n\n{subjects}" if subjects else job.units[0].key


class _Commits:
    """The worktree's own commits as what lands."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, landing: Landing, neutral: Neutral, settings: UserSettings) -> tuple[str, bool, str]:
        """The newest commit, whether it was signed here, and its message. Raises Conflict where they do not fit."""
        newest, signed = self.work.own.head, False
        if landing.before != self.work.own.base:
            newest, signed = self._again(landing, neutral, settings)
        if neutral.need_tree(newest) != landing.tree:
            raise self._misfit("the commits one by one make another tree than was judged", landing)
        return newest, signed, _parsed(neutral, newest)[1]

    def _again(self, landing: Landing, neutral: Neutral, settings: UserSettings) -> tuple[str, bool]:
        """Each commit once more, on the target. One that adds nothing there is left out."""
        tree, parent, signed = neutral.need_tree(landing.before), landing.before, False
        first = self.work.own.tree
        for commit in self.work.commits:
            old, new = first or neutral.need_tree(f"{commit}^"), neutral.need_tree(commit)
            first = ""
            made = merging.merge(neutral, old, tree, new)
            author, message = _parsed(neutral, commit)
            if not made.clean:
                clashes = ", ".join(printable(path) for path in sorted(made.stages)[:10])
                subject = printable(message.partition("\n")[0])
                raise self._misfit(f"commit {commit[:12]} ({subject}) does not fit: {clashes}", landing)
            if made.tree != tree:
                words = (landing.world, neutral, made.tree, parent, message, settings, author)
                parent, signed = target.commit_for_user(*words)
                tree = made.tree
        return parent, signed

    def _misfit(self, said: str, landing: Landing) -> Conflict:
        rebase = printable(self.work.own.way) or "rebase it on the target first"
        hint = f"nothing was moved; --squash lands it as one commit, or {rebase}"
        return Conflict(said, outcome="textual_conflict", location=landing.job.target, hint=hint)


def _parsed(neutral: Neutral, commit: str) -> tuple[target.Author, str]:
    """Author and message of a commit, byte for byte (surrogateescape). Source: git's "Object Storage"."""
    raw = neutral.git.run("cat-file", "commit", commit).out.decode("utf-8", "surrogateescape")
    head, _, message = raw.partition("\n\n")
    facts = dict(line.partition(" ")[::2] for line in head.split("\n") if not line.startswith(" "))
    name, _, rest = facts["author"].partition(" <") if " <" in facts["author"] else ("", "", facts["author"][1:])
    email, _, date = rest.rpartition("> ")
    return target.Author(name, email, f"@{date}", facts.get("encoding", "UTF-8")), message


def _end(job: ActiveJob, outcome: str, message: str) -> None:
    """The job is over, and did not land: nothing of it waits for anybody. The worktree is as it was."""
    at = timestamp(job.world.clock.now())

    def edit(document: Job) -> None:
        document["state"], document["finishedAt"], document["outcome"] = "closed", at, outcome
        document["failure"] = {"phase": "landing", "message": message[:60000], "outcome": outcome}

    job.change(edit)


def _remember(location: LeaseLocation, landing: LandingReceipt, head: str, receipt: Receipt) -> None:
    """What of the worktree is in, and where: its lease says so, and its closing asks the branch."""
    landed: WorktreeLanding = {
        "jobId": landing["jobId"],
        "target": landing["target"],
        "commit": landing["after"],
        "head": head,
        "tree": receipt["patchTree"],
    }
    with location.locked():
        lease = location.lease()
        if lease is not None and lease["state"] == "open":
            lease["landing"] = landed
            location.write(kinds.LEASE, lease)
