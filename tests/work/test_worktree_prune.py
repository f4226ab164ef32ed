"""--list and --prune: only what is provably dead goes, and what did not land is kept first."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.contracts import Document
from tests.support.commands import call, script
from tests.support.repos import Repo


def opened(repo: Repo, unit: str) -> Repo:
    ran = call("worktree-open", "--job", "j1", "--unit", unit, "--json", cwd=repo.path)
    assert ran.status == 0, ran.out
    return Repo(Path(ran.document["path"]))


def close(repo: Repo, unit: str, outcome: str) -> None:
    ran = call("worktree-close", "--job", "j1", "--unit", unit, "--outcome", outcome, cwd=repo.path)
    assert ran.status == 0, ran.err


def rows(repo: Repo, what: str = "--list") -> list[Document]:
    ran = call("worktree-open", what, "--json", cwd=repo.path)
    assert ran.status == 0, ran.out
    found: list[Document] = ran.document["worktrees"]
    return found


def edit(path: Path, **facts: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def lease(repo: Repo, unit: str) -> Path:
    return next(repo.path.glob(f".ktx/jobs/j1/units/*-{unit}/lease.json"))


def dead_owner() -> dict[str, Any]:
    child = subprocess.Popen(["true"])
    child.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"bootId": boot, "pid": child.pid, "startTime": 1}


def test_the_list_has_everything(repo: Repo) -> None:
    opened(repo, "one")
    opened(repo, "two")
    close(repo, "two", "crash")
    opened(repo, "three")
    close(repo, "three", "empty")
    repo.git("worktree", "add", "-q", "-b", "theirs", repo.path.parent / "theirs")
    call("worktree-open", "work", cwd=repo.path)
    short = [(row["kind"], row.get("unitKey", row.get("branch")), row.get("state")) for row in rows(repo)]
    assert short == [
        ("main", "refs/heads/main", None),
        ("linked", "refs/heads/theirs", None),
        ("unit", "one", "open"),
        ("unit", "two", "closed"),
        ("adhoc", "refs/heads/work", "open"),
    ]
    text = call("worktree-open", "--list", cwd=repo.path).out
    assert "unit two of j1, attempt 1  closed, as crash" in text and text.endswith("5 worktrees, 0 left over\n")


def test_pruning_what_is_alive_changes_nothing(repo: Repo) -> None:
    for unit, outcome in (("open", ""), ("kept", "crash"), ("torn", "conflict")):
        opened(repo, unit).write("work", unit)
        if outcome:
            close(repo, unit, outcome)
    call("worktree-open", "work", cwd=repo.path)
    before = rows(repo)
    assert rows(repo, "--prune") == before == rows(repo)
    assert not any("dead" in row for row in before)


def test_age_is_no_reason(repo: Repo) -> None:
    tree = opened(repo, "old")
    for path in (tree.path, lease(repo, "old"), *repo.path.glob(".git/worktrees/*/*")):
        os.utime(path, (0, 0))
    edit(lease(repo, "old"), openedAt="1999-01-01T00:00:00.000Z")
    assert not any("dead" in row for row in rows(repo, "--prune"))
    assert tree.path.is_dir()


def job_over(repo: Repo, _: Repo) -> None:
    edit(repo.path / ".ktx/jobs/j1/job.json", state="closed")


def owner_dead(repo: Repo, _: Repo) -> None:
    edit(lease(repo, "u"), owner=dead_owner())


DEAD = {"its job is closed": job_over, "its owner is dead": owner_dead}


@pytest.mark.parametrize("state", ["open", "failed", "aborted"])
def test_a_unit_of_a_job_that_can_be_resumed_is_not_dead(repo: Repo, state: str) -> None:
    tree = opened(repo, "u")
    owner_dead(repo, tree)
    edit(repo.path / ".ktx/jobs/j1/job.json", state=state)
    assert "dead" in rows(repo)[1], "by hand, nothing resumes it"
    (repo.path / ".ktx/jobs/j1/job-file.json").write_text("{}")
    assert [row.get("dead") for row in rows(repo, "--prune")] == [None, None] and tree.path.is_dir()
    status = call("git-ktx", "status", "--json", cwd=repo.path).document
    assert status["worktrees"]["dead"] == 0


@pytest.mark.parametrize("why", DEAD)
def test_what_is_dead_goes_and_its_work_is_kept(repo: Repo, why: str) -> None:
    tree = opened(repo, "u")
    tree.write("committed", "work\n")
    tree.commit()
    tree.write("untracked", "work\n")
    DEAD[why](repo, tree)
    assert [row.get("dead") for row in rows(repo)] == [None, why]
    row = rows(repo, "--prune")[1]
    assert row["pruned"] is True and not tree.path.exists()
    for name in ("committed", "untracked"):
        assert repo.show(row["atticRef"], name) == b"work\n"
    assert len(rows(repo)) == 1 and len(repo.git("worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("why", DEAD)
def test_never_while_a_process_works_inside(repo: Repo, why: str) -> None:
    tree = opened(repo, "u")
    tree.write("deep/file", "x")
    DEAD[why](repo, tree)
    child = subprocess.Popen(["sleep", "60"], cwd=tree.path / "deep")
    try:
        row = rows(repo, "--prune")[1]
        assert row["busy"] == [child.pid] and "dead" not in row
        assert tree.path.is_dir()
    finally:
        child.kill()
        child.wait()
    assert rows(repo, "--prune")[1]["pruned"] is True


def test_never_from_inside(repo: Repo) -> None:
    tree = opened(repo, "u")
    job_over(repo, tree)
    done = subprocess.run(
        [script("worktree-open"), "--prune", "--json"], cwd=tree.path, capture_output=True, check=True
    )
    row = json.loads(done.stdout)["document"]["worktrees"][1]
    assert "pruned" not in row and tree.path.is_dir()


def test_a_directory_that_is_gone(repo: Repo) -> None:
    tree = opened(repo, "u")
    tree.write("new", "x\n")
    tree.commit()
    tree.path.rename(repo.path.parent / "away")
    row = rows(repo, "--prune")[1]
    assert row["dead"] == "its directory is gone" and repo.show(row["atticRef"], "new") == b"x\n"
    assert len(repo.git("worktree", "list").splitlines()) == 1


def test_what_no_commit_can_hold_stays_with_the_reason(repo: Repo) -> None:
    tree = opened(repo, "u")
    Repo.init(tree.path / "inner").commit()
    job_over(repo, tree)
    row = rows(repo, "--prune")[1]
    assert row["dead"] == "its job is closed" and "a repository inside it" in row["kept"]
    assert (tree.path / "inner/.git").is_dir()
    assert "stays: " in call("worktree-open", "--prune", cwd=repo.path).out


def test_evidence_goes_when_its_job_is_over(repo: Repo) -> None:
    tree = opened(repo, "u")
    tree.write("half", "x\n")
    close(repo, "u", "conflict")
    job_over(repo, tree)
    row = rows(repo, "--prune")[1]
    assert repo.show(row["atticRef"], "half") == b"x\n" and not tree.path.exists()
    assert json.loads(lease(repo, "u").read_text())["outcome"] == "conflict"


def test_a_branch_with_commits_outlives_its_dead_worktree(repo: Repo) -> None:
    tree = Repo(Path(call("worktree-open", "work", "--json", cwd=repo.path).document["path"]))
    tree.commit("mine")
    tree.write("loose", "x\n")
    edit(repo.path / ".ktx/leases/work/lease.json", owner=dead_owner())
    row = rows(repo, "--prune")[1]
    assert repo.show(row["atticRef"], "loose") == b"x\n"
    assert repo.git("log", "-1", "--format=%s", "work") == "mine"


def test_a_lease_in_place_is_closed_when_its_worktree_is_gone_and_nothing_else_is_touched(repo: Repo) -> None:
    linked = repo.at(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "mine", linked.path)
    assert call("worktree-open", "--json", cwd=linked.path).document["mode"] == "in-place"
    linked.path.rename(repo.path.parent / "away")
    before = repo.git("worktree", "list", "--porcelain"), repo.git("for-each-ref")
    assert [row.get("dead") for row in rows(repo, "--prune")][-1] == "its directory is gone"
    assert (repo.git("worktree", "list", "--porcelain"), repo.git("for-each-ref")) == before
    assert [row["kind"] for row in rows(repo)] == ["main", "linked"]


def test_a_locked_opening_is_not_dead(repo: Repo) -> None:
    """An opening in progress holds its lock: flock is held here in its stead."""
    place = repo.path / ".ktx/leases/work"
    opened(repo, "u")
    place.mkdir(parents=True)
    path = repo.path / ".ktx/worktrees/adhoc/work"
    repo.git("worktree", "add", "-q", "--detach", path)
    note = {"schemaVersion": 1, "kind": "opening", "nonce": "n", "mode": "detach", "base": repo.head}
    note |= {"path": str(path), "at": "2026-01-01T00:00:00.000Z"}
    (place / "opening.json").write_text(json.dumps(note))
    holder = subprocess.Popen(["flock", place / ".lock", "sh", "-c", "echo held; cat"], stdin=-1, stdout=-1)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert not any("dead" in row for row in rows(repo, "--prune"))
    assert path.is_dir()
    holder.communicate(b"")
    assert [row.get("dead") for row in rows(repo, "--prune")][-1] == "its opening was cut short"
    assert not path.exists()


def test_a_taken_over_unit_keeps_the_work_of_the_dead(repo: Repo) -> None:
    tree = opened(repo, "u")
    tree.write("half", "x\n")
    owner_dead(repo, tree)
    again = call("worktree-open", "--job", "j1", "--unit", "u", "--json", cwd=repo.path).document
    assert (again["attempt"], again["fence"], again["path"]) == (2, 2, str(tree.path))
    assert not (tree.path / "half").exists()
    attic = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic")
    assert repo.show(attic, "half") == b"x\n"


def test_a_dead_owners_unit_in_use_is_not_taken_over(repo: Repo) -> None:
    tree = opened(repo, "u")
    owner_dead(repo, tree)
    child = subprocess.Popen(["sleep", "60"], cwd=tree.path)
    try:
        ran = call("worktree-open", "--job", "j1", "--unit", "u", cwd=repo.path)
        assert ran.status == 1 and str(child.pid) in ran.err
    finally:
        child.kill()
        child.wait()
