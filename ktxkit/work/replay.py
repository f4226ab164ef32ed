"""Replaying what a job accepted on a target that moved meanwhile: merged, proven and gated again, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import Conflict
from ktxkit.base.rules.text import printable
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral
from ktxkit.git.objects import Objects
from ktxkit.store import jobs
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import candidate
from ktxkit.work.candidate import Judged, Offer
from ktxkit.work.rules.job_file import plan_of


def replay(world: World, job: Document, neutral: Neutral, onto: str, head: str) -> tuple[str, dict[str, str]]:
    """The tree of every accepted change on top of `onto`, and each unit's commit there.

    Raises Conflict, with the unit that no longer fits, where one is not accepted there; nothing was moved.
    """
    owners, options = _owners(world, job), gate_options(world, job)
    git = world.git.at(world.repository.place)
    commits = git.run("rev-list", "--reverse", "--first-parent", f"{job['targetAtStart']}..{head}", "--").lines
    base_tree = neutral.tree_of(onto)
    assert base_tree is not None, "the target is a commit"
    tree, parent, made = base_tree, onto, dict[str, str]()
    for commit in commits:
        key = owners.get(commit, commit)
        judged = _again(world, neutral, neutral.objects, commit, tree, base_tree, options)
        if judged.outcome not in ("candidate", "subsumed"):
            raise _no_longer(key, judged)
        if judged.outcome == "candidate":
            seconds = int(world.clock.now().timestamp())
            tree = judged.tree
            parent = merging.commit_tree(neutral, tree, parent, f"{key}: replayed by ktxkit\n", seconds)
            made[key] = parent
    return tree, made


def _owners(world: World, job: Document) -> dict[str, str]:
    found = {}
    for unit in jobs.units(job):
        receipt = world.store.read_optional("receipt", names.unit_doc(job["jobId"], unit.position, unit.key, "receipt"))
        if receipt is not None and "commit" in receipt:
            found[receipt["commit"]] = unit.key
    return found


def gate_options(world: World, job: Document) -> Mapping[str, Any]:
    """How the gates run for this job, by its job file; nothing for a job that was made by hand."""
    document = world.store.read_optional("job-file", names.job_part(job["jobId"], "job-file"))
    if document is None:
        return {}
    plan = plan_of(document)
    return {**plan.gates, **({"prune": True} if plan.on_conflict == "prune" else {})}


def _again(
    world: World,
    neutral: Neutral,
    objects: Objects,
    commit: str,
    tree: str,
    base_tree: str,
    options: Mapping[str, Any],
) -> Judged:
    old, new = neutral.tree_of(f"{commit}^"), neutral.tree_of(commit)
    assert old is not None and new is not None, "an accepted commit has one parent"
    offer = Offer(old, old, new, tuple(merging.changes(neutral, old, new)))
    judged = candidate.merged(neutral, objects, offer, tree)
    return candidate.gated(world, judged, base_tree, options) if judged.outcome == "candidate" else judged


def _no_longer(key: str, judged: Judged) -> Conflict:
    where = [printable(clash.path) for clash in judged.conflicts[:5]]
    where += [f"{finding['path']}: {finding['message']}" for finding in judged.findings[:5]]
    return Conflict(
        f"unit {key} does not fit the moved target: {'; '.join(where)}",
        outcome=judged.outcome,
        hint="nothing was moved; run the unit again from the new target",
        data={"unitKey": key, "conflicts": [clash.document() for clash in judged.conflicts[:1000]]},
    )
