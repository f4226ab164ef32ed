"""A job killed at any of its effects is finished by the next one: the same tree, receipts once, nothing stray."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.commands import Ran, spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.recovering import Scenario, survive, template_of
from tests.support.repos import Repo

Counted = Callable[[str, object], None]  # record_property: the figures of a long run
DOCUMENT: dict[str, Any] = {
    "maxParallel": 1,
    "project": "echo base > projected.txt",
    "units": [
        unit("one", "cat projected.txt > one.txt; git add -A; git commit -qm one"),
        unit("clash", "echo x > one.txt"),
        unit("two", "echo 2 > two.txt", after=["one"]),
    ],
}
BATCHED: dict[str, Any] = {
    "maxParallel": 1,
    "verify": {"run": "test ! -e bad", "batch": True},
    "units": [unit("one", "echo 1 > one.txt"), unit("wrong", "echo x > bad"), unit("two", "echo 2 > two.txt")],
}
WANTED = {"project": "accepted", "one": "accepted", "clash": "textual_conflict", "two": "accepted"}


def made(path: Path, document: dict[str, Any]) -> tuple[Repo, Path]:
    repo = Repo.init(path)
    repo.write("README", "a repository\n")
    repo.commit("first")
    return repo, job_file(repo, document)


def look(repo: Repo) -> dict[str, Any]:
    """What must be the same after a kill as without one."""
    store = repo.path / ".ktx"
    leases = sorted(store.glob("jobs/j1/units/*/lease.json"))
    landed = json.loads((store / "jobs/j1/landing.json").read_text())
    return {
        "outcomes": outcomes(repo),
        "target": repo.git("rev-list", "--count", "main"),
        "landed": [landed["commit"] == repo.git("rev-parse", "main"), landed["units"] != []],
        "tree": repo.git("ls-tree", "-r", "main"),
        "status": repo.git("status", "--porcelain", "--ignored"),
        "fsck": repo.git("fsck", "--strict", "--no-dangling"),
        "leases": [(path.parent.name, json.loads(path.read_text())["state"]) for path in leases],
        "worktrees": sorted(path.name for path in (store / "worktrees/j1").iterdir()),
        "registered": repo.git("worktree", "list", "--porcelain").count("worktree "),
        "branches": repo.git("for-each-ref", "--format=%(refname)", "refs/heads"),
        "temporary": [path.name for path in (store / "tmp").glob("*")],
        "trash": [path.name for path in (store / "worktrees/.trash").glob("*")],
        "half-written": [str(path) for path in store.rglob(".*.tmp")],
        "locks": [str(path) for path in (repo.path / ".git").rglob("*.lock")],
        "held": [path.name for path in (store / "locks").glob("branch-*.json") if held(path)],
        "integrated": repo.git("rev-list", "--count", "refs/ktx/jobs/j1/integration", "--not", "main^"),
        "receipts": len(list(store.glob("jobs/j1/units/*/receipt.json"))),
    }


def held(path: Path) -> bool:
    document = json.loads(path.read_text())
    return document["phase"] != "idle" or "pending" in document


def next_of(path: Path) -> Callable[[Repo], list[str | Path]]:
    def after(repo: Repo) -> list[str | Path]:
        """What a person does after a kill: resume, or start where nothing had begun."""
        begun = (repo.path / ".ktx/jobs/j1/job.json").exists()
        return ["--resume", "j1"] if begun else ["--job", "j1", str(path)]

    return after


def is_over(ran: Ran) -> bool:
    return ran.status == 1 and "has landed already" in ran.err


def scenario(tmp_path: Path, document: dict[str, Any]) -> Scenario:
    repo, path = made(tmp_path / "place" / "repo", document)
    args: list[str | Path] = ["--job", "j1", str(path)]
    kept = template_of(repo, tmp_path / "aside")
    return Scenario("job-run", args, repo, kept, status=3, next=next_of(path), settled=is_over, look=look)


def test_undisturbed(tmp_path: Path) -> None:
    repo, path = made(tmp_path / "repo", DOCUMENT)
    assert spawn("job-run", str(path), "--job", "j1", cwd=repo.path).status == 3
    seen = look(repo)
    assert seen["outcomes"] == WANTED
    assert (seen["target"], seen["integrated"]) == ("2", "3"), "one landing; projection, one, two: each once"
    assert seen["worktrees"] == ["0003-clash"], "only the evidence of the conflict is left"
    assert not (seen["temporary"] or seen["trash"] or seen["half-written"] or seen["locks"] or seen["held"])


def test_killed_at_any_effect(tmp_path: Path, record_property: Counted) -> None:
    count = survive(scenario(tmp_path, DOCUMENT), 5, 1)
    assert count.first >= 4 and count.second >= 3, "threads: a point may lie behind the last effect of this run"
    record_property("kills", f"job-run: {count}")


def test_a_batch_killed_at_any_effect(tmp_path: Path, record_property: Counted) -> None:
    count = survive(scenario(tmp_path, BATCHED), 4, 0)
    assert count.first >= 4
    record_property("kills", f"job-run, batch: {count}")
