"""How far a job's own branch is in its target, and bringing it up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ktxkit.base import kinds
from ktxkit.git import merging
from ktxkit.git.neutral import open_neutral
from ktxkit.store.active import ActiveJob
from ktxkit.work import recover
from ktxkit.work.report import is_in, no_longer_in

if TYPE_CHECKING:
    from ktxkit.base.documents import JobCaughtUp


class LandedUpTo(NamedTuple):
    """How far a job's own branch is in its target: the newest commit of it that has nothing to land, and the commit of
    the target that has it all."""

    commit: str
    target: str


def landed_up_to(job: ActiveJob) -> LandedUpTo:
    """Where what is to land begins: at the target's head when the job began, behind the last landing that the target
    still has, or where the branch was brought up to it."""
    git, start = job.git, job.document["targetAtStart"]
    landing = job.read(kinds.LANDING, "landing")
    found = LandedUpTo(start, start)
    if landing is not None and not no_longer_in(job):
        found = LandedUpTo(landing["integrationHead"], landing["after"])
    for step in reversed(job.document.get("caughtUp", ())):
        on_branch = git.ok("merge-base", "--is-ancestor", step["commit"], job.integration_ref)
        behind = git.ok("merge-base", "--is-ancestor", found.commit, step["commit"])
        if on_branch and behind and is_in(git, job.target, step["target"], start):
            return LandedUpTo(step["commit"], step["target"])
    return found


def catch_up(job: ActiveJob) -> str:
    """Bring the job's own branch up to its target, where nothing on it waits to land; returns its head.

    What starts from there starts from all that has landed, the job's own work and everybody's.
    """
    with recover.integrating(job) as branch:
        done, now = landed_up_to(job), job.git.resolve(job.target)
        if now is None or branch.head != done.commit or done.target == now:
            return branch.head
        with open_neutral(job.world) as neutral:
            seconds = int(job.world.clock.now().timestamp())
            message = f"brought up to {job.target} at {now} by ktxkit\n"
            commit = merging.commit_tree(neutral, neutral.need_tree(now), branch.head, message, seconds)
        step: JobCaughtUp = {"commit": commit, "target": now}
        job.change(lambda document: document.setdefault("caughtUp", []).append(step))
        branch.move(commit)
        branch.lock.settle(commit)
        return commit
