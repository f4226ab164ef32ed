"""Killed before, after or within any effect: the next opening, closing or pruning puts it right; no work is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, call
from tests.support.faults import WHENS, Killed, count_effects, run_killed, spread
from tests.support.recovering import Scenario, survive, template_of
from tests.support.repos import Repo

Counted = Callable[[str, object], None]  # record_property: the figures of a long run

UNIT = ["--job", "j1", "--unit", "u1"]
CLOSE = [*UNIT, "--outcome", "success", "--discard"]


def plain(path: Path) -> Repo:
    repo = Repo.init(path)
    for number in range(3):
        repo.write(f"dir{number}/file", f"{number}\n")
    repo.commit("first")
    return repo


def with_work(path: Path) -> Repo:
    """A unit with a commit of its own, a staged, an unstaged and an untracked file."""
    repo = plain(path)
    tree = Repo(Path(call("worktree-open", *UNIT, "--json", cwd=repo.path).document["path"]))
    tree.write("committed", "work\n")
    tree.commit("mine")
    tree.write("staged", "work\n")
    tree.git("add", "staged")
    tree.write("dir0/file", "work\n")
    tree.write("untracked", "work\n")
    return repo


def sweep(make: Callable[[Path], Repo], name: str, args: list[str], tmp_path: Path, when: str, most: int) -> list[Repo]:
    """A repository for each effect at which the command was killed."""
    template = make(tmp_path / "template")
    twin = tmp_path / "twin"
    shutil.copytree(template.path, twin, symlinks=True)
    move(twin)
    effects = count_effects(name, args, twin)
    left = []
    for n in spread(effects, most):
        path = tmp_path / f"killed-{n:03}"
        shutil.copytree(template.path, path, symlinks=True)
        move(path)
        killed = run_killed(name, args, path, n, when)
        assert isinstance(killed, Killed), (n, effects[n], killed)
        left.append(Repo(path))
    return left


def move(path: Path) -> None:
    """A copied repository: its worktrees' links and its leases name the new place and the new directories."""
    old = str(path.parent / "template")
    for file in [*path.glob(".git/worktrees/*/gitdir"), *path.glob(".ktx/worktrees/*/*/.git")]:
        file.write_text(file.read_text().replace(old, str(path)))
    for file in path.glob(".ktx/jobs/*/units/*/lease.json"):
        info = next(path.glob(".ktx/worktrees/*/*")).stat()
        text = file.read_text().replace(old, str(path))
        lines = [line for line in text.splitlines() if "birthTimeNs" not in line]
        lines = [f'  "inode": {info.st_ino},' if '"inode"' in line else line for line in lines]
        file.write_text("\n".join(lines) + "\n")


def nothing_half_made(repo: Repo, worktrees: int) -> None:
    assert len(repo.git("worktree", "list").splitlines()) == worktrees
    assert not list(repo.path.glob(".ktx/**/opening.json"))
    assert not list(repo.path.glob(".ktx/worktrees/.trash/*"))
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("fsck", "--connectivity-only", "--no-dangling") == ""


@pytest.mark.parametrize("when", WHENS)
def test_opening_a_unit_is_opened_again(tmp_path: Path, when: str) -> None:
    for repo in sweep(plain, "worktree-open", UNIT, tmp_path, when, 5):
        again = call("worktree-open", *UNIT, "--json", cwd=repo.path)
        assert again.status == 0, (repo.path, again.out)
        tree = Repo(Path(again.document["path"]))
        assert tree.path == repo.path / ".ktx/worktrees/j1/0001-u1"
        assert (tree.head, tree.git("status", "--porcelain")) == (repo.head, "")
        assert call("worktree-open", "--prune", "--json", cwd=repo.path).status == 0
        nothing_half_made(repo, worktrees=2)


@pytest.mark.parametrize("when", WHENS)
def test_opening_a_unit_is_pruned(tmp_path: Path, when: str) -> None:
    for repo in sweep(plain, "worktree-open", UNIT, tmp_path, when, 5):
        pruned = call("worktree-open", "--prune", "--json", cwd=repo.path)
        assert pruned.status == 0, (repo.path, pruned.out)
        open_now = [row for row in pruned.document["worktrees"] if row.get("state") == "open"]
        nothing_half_made(repo, worktrees=1 + len(open_now))
        assert all(Path(row["path"], "dir2/file").is_file() for row in open_now)


@pytest.mark.parametrize("when", WHENS)
def test_a_new_branch_is_rolled_back_or_there(tmp_path: Path, when: str) -> None:
    for repo in sweep(plain, "worktree-open", ["work"], tmp_path, when, 5):
        pruned = call("worktree-open", "--prune", "--json", cwd=repo.path)
        assert pruned.status == 0, (repo.path, pruned.out)
        leased = [row for row in pruned.document["worktrees"] if row.get("state") == "open"]
        branch = repo.git("for-each-ref", "--format=%(refname)", "refs/heads/work")
        assert branch == ("refs/heads/work" if leased else ""), repo.path
        nothing_half_made(repo, worktrees=1 + len(leased))
        again = call("worktree-open", "work", cwd=repo.path)
        assert again.status == 0, (repo.path, again.err)
        assert not leased or again.out.strip() == leased[0]["path"]  # it is open: the same name leads to the same place


@pytest.mark.parametrize("when", WHENS)
def test_closing_is_closed_again_and_no_work_is_lost(tmp_path: Path, when: str) -> None:
    for repo in sweep(with_work, "worktree-close", CLOSE, tmp_path, when, 5):
        again = call("worktree-close", *CLOSE, "--json", cwd=repo.path)
        assert again.status == 0, (repo.path, again.out)
        attic = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").splitlines()
        assert attic == [again.document["atticRef"]], repo.path
        for name in ("committed", "staged", "dir0/file", "untracked"):
            assert repo.show(attic[0], name) == b"work\n"
        assert call("worktree-open", "--prune", cwd=repo.path).status == 0
        nothing_half_made(repo, worktrees=1)


@pytest.mark.parametrize("when", WHENS)
def test_closing_that_was_killed_can_be_opened_again(tmp_path: Path, when: str) -> None:
    for repo in sweep(with_work, "worktree-close", CLOSE, tmp_path, when, 4):
        again = call("worktree-open", *UNIT, "--json", cwd=repo.path)
        assert again.status == 0, (repo.path, again.out)
        tree = Repo(Path(again.document["path"]))
        if (tree.path / "untracked").exists():
            assert again.document["attempt"] == 1, "it was not closed yet: nothing is lost, it goes on"
            continue
        assert repo.git("for-each-ref", "refs/ktx/attic") != ""
        assert (again.document["attempt"], tree.git("status", "--porcelain")) == (2, "")


@pytest.mark.parametrize("when", WHENS)
def test_pruning_is_pruned_again(tmp_path: Path, when: str) -> None:
    def landed(path: Path) -> Repo:
        repo = with_work(path)
        document = repo.path / ".ktx/jobs/j1/job.json"
        document.write_text(document.read_text().replace('"state": "open"', '"state": "closed"'))
        return repo

    for repo in sweep(landed, "worktree-open", ["--prune"], tmp_path, when, 4):
        assert call("worktree-open", "--prune", cwd=repo.path).status == 0
        attic = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").splitlines()
        assert len(attic) == 1 and repo.show(attic[0], "untracked") == b"work\n"
        nothing_half_made(repo, worktrees=1)


def twin_of(repo: Repo, tmp_path: Path, name: str, args: list[str], **more: Any) -> Scenario:
    return Scenario(name, args, repo, template_of(repo, tmp_path / "aside"), **more)


def is_open(ran: Ran) -> bool:
    return ran.status == 1 and ("is open already" in ran.err or "is checked out already" in ran.err)


def test_opening_twice_killed(tmp_path: Path, record_property: Counted) -> None:
    count = survive(twin_of(plain(tmp_path / "place" / "repo"), tmp_path, "worktree-open", UNIT), 3, 1)
    assert count.second > 0
    record_property("kills", f"worktree-open unit: {count}")


def test_a_new_branch_twice_killed(tmp_path: Path, record_property: Counted) -> None:
    repo = plain(tmp_path / "place" / "repo")
    count = survive(twin_of(repo, tmp_path, "worktree-open", ["work"], settled=is_open), 3, 1)
    assert count.second > 0
    record_property("kills", f"worktree-open branch: {count}")


def test_closing_twice_killed(tmp_path: Path, record_property: Counted) -> None:
    repo = with_work(tmp_path / "place" / "repo")
    scenario = twin_of(repo, tmp_path, "worktree-close", CLOSE)
    scenario.reset()  # the lease in the copy is of the copy
    count = survive(scenario, 3, 1)
    assert count.second > 0
    record_property("kills", f"worktree-close: {count}")
