"""Fingerprints: whatever a unit touches outside its worktree is named; what it may touch is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.store.world import World
from ktxkit.work.fingerprint import IN_TURN, Fingerprinter
from ktxkit.work.rules.shared_state import differences, summary
from tests.support.commands import call
from tests.support.repos import Repo

Act = Callable[[Repo], object]


def fingerprinter(repo: Repo) -> Fingerprinter:
    world = World(repo.path, os.environ)
    return Fingerprinter(world.git, world.repository, world.store, "j1")


def opened(repo: Repo, unit: str) -> Path:
    ran = call("worktree-open", "--job", "j1", "--unit", unit, "--json", cwd=repo.path)
    assert ran.status == 0, ran.out
    return Path(ran.document["path"])


def edit_staged(repo: Repo) -> None:
    repo.write("README", "changed\n")
    repo.git("add", "README")


def stash_drop(repo: Repo) -> None:
    repo.git("stash", "drop", "stash@{1}")


def pack_and_move(repo: Repo) -> None:
    repo.git("pack-refs", "--all")
    repo.git("update-ref", "refs/heads/aside", repo.git("commit-tree", "-m", "x", f"{repo.head}^{{tree}}"))


TOUCHES: dict[str, tuple[Act, list[str]]] = {
    "an edit": (lambda r: r.write("README", "x\n"), ["checkout README added"]),
    "a second edit of a dirty file": (lambda r: r.write("dirty", "2\n"), ["checkout dirty changed"]),
    "a staged edit": (edit_staged, ["checkout README added"]),
    "a new file": (lambda r: r.write("new/ä b", "x"), ["checkout new/ä b added"]),
    "a deleted untracked file": (lambda r: (r.path / "dirty").unlink(), ["checkout dirty removed"]),
    "a commit": (
        lambda r: r.git("commit", "-q", "--allow-empty", "-m", "x"),
        ["checkout HEAD changed", "refs refs/heads/main changed"],
    ),
    "another branch": (
        lambda r: r.git("checkout", "-q", "-b", "other"),
        ["checkout branch changed", "refs refs/heads/other added"],
    ),
    "a tag": (lambda r: r.git("tag", "t"), ["refs refs/tags/t added"]),
    "a dropped stash": (stash_drop, ["stash entries changed"]),
    "all stashes gone": (
        lambda r: r.git("stash", "clear"),
        ["stash entries removed", "stash refs/stash removed"],
    ),
    "configuration": (lambda r: r.git("config", "alias.x", "log"), ["config config: alias.x added"]),
    "hooks elsewhere, by the user's configuration": (
        lambda r: r.git("config", "--global", "core.hooksPath", "/elsewhere"),
        ["hooks core.hooksPath added"],
    ),
    "a branch packed and moved": (pack_and_move, ["refs refs/heads/aside changed"]),
    "an exclude rule": (lambda r: r.write(".git/info/exclude", "/.ktx/\nx\n"), ["config info/exclude changed"]),
    "attributes": (lambda r: r.write(".git/info/attributes", "* -text\n"), ["config info/attributes added"]),
    "a hook": (lambda r: r.write(".git/hooks/pre-commit", "#!/bin/sh\n"), ["hooks pre-commit added"]),
    "a merge": (lambda r: r.write(".git/MERGE_HEAD", r.head + "\n"), ["checkout MERGE_HEAD added"]),
    "a sibling's file": (
        lambda r: r.write(".ktx/worktrees/j1/0001-quiet/README", "x"),
        ["sibling 0001-quiet/README changed"],
    ),
    "a sibling's HEAD": (
        lambda r: r.at(r.path / ".ktx/worktrees/j1/0001-quiet").git("commit", "-q", "--allow-empty", "-m", "x"),
        ["sibling 0001-quiet/(HEAD) changed"],
    ),
    "another job gone": (lambda r: os.removedirs(r.path / ".ktx/jobs/j0"), ["job j0 removed"]),
    "a lease gone": (
        lambda r: (r.path / ".ktx/jobs/j1/units/0001-quiet/lease.json").unlink(),
        ["document 0001-quiet/lease.json removed"],
    ),
    "a patch changed": (
        lambda r: r.write(".ktx/ingest-patches/j1/0001-quiet.patch", "other"),
        ["document ingest-patches/0001-quiet.patch changed"],
    ),
    "a trace cut": (
        lambda r: os.truncate(r.path / ".ktx/ingest-traces/j1/trace.jsonl", 1),
        ["journal ingest-traces/j1/trace.jsonl changed"],
    ),
}

ALLOWED: dict[str, Act] = {
    "nothing": lambda r: None,
    "a status": lambda r: r.git("status"),
    "its own worktree": lambda r: r.write(".ktx/worktrees/j1/0002-busy/new", "x"),
    "its own documents": lambda r: r.write(".ktx/jobs/j1/units/0002-busy/patch.json", "{}"),
    "its own patch": lambda r: r.write(".ktx/ingest-patches/j1/0002-busy.patch", "x"),
    "a longer trace": lambda r: r.write(".ktx/ingest-traces/j1/trace.jsonl", "{}\n{}\n"),
    "another job": lambda r: r.write(".ktx/jobs/j2/x", ""),
    "a ref of ours": lambda r: r.git("update-ref", "refs/ktx/x", "HEAD"),
    "a remote branch": lambda r: r.git("update-ref", "refs/remotes/origin/x", "HEAD"),
    "a touched index": lambda r: os.utime(r.path / ".git/index"),
}


@pytest.fixture
def house(repo: Repo) -> Repo:
    """A repository with two units open, a dirty checkout, two stashes, a branch, another job, a patch and a trace."""
    repo.git("branch", "aside")
    opened(repo, "quiet")
    opened(repo, "busy")
    for number in (1, 2):
        repo.write("README", f"stashed {number}\n")
        repo.git("stash")
    repo.write("dirty", "1\n")
    (repo.path / ".ktx/jobs/j0").mkdir()
    for name in ("0001-quiet", "0002-busy"):
        repo.write(f".ktx/ingest-patches/j1/{name}.patch", "a patch")
    repo.write(".ktx/ingest-traces/j1/trace.jsonl", "{}\n")
    return repo


def changes(house: Repo, act: Act) -> list[str]:
    quiet = {"0001-quiet": house.path / ".ktx/worktrees/j1/0001-quiet"}
    taker = fingerprinter(house)
    before = taker.take(quiet)
    act(house)
    assert fingerprinter(house).take(quiet) == taker.take(quiet), "what is remembered is what is there"
    return summary(differences(before, taker.take(quiet), busy={"0002-busy"}))


@pytest.mark.parametrize("name", TOUCHES)
def test_what_changed_is_named(house: Repo, name: str) -> None:
    act, expected = TOUCHES[name]
    assert changes(house, act) == expected


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_unit_may_do_is_no_change(house: Repo, name: str) -> None:
    assert changes(house, ALLOWED[name]) == []


@pytest.mark.parametrize("name", [".gitconfig", ".config/git/config", ".config/git/included"])
def test_configuration_that_comes_to_be_is_read(house: Repo, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where git looks for a user's file, and where a file of the user includes one that is not there yet."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    place = Path(os.environ["HOME"]) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.name == "included":
        house.git("config", "include.path", place)
    taker = fingerprinter(house)
    before = taker.take()
    assert taker.take() == before
    place.write_text("[core]\n\thooksPath = /elsewhere\n")
    assert summary(differences(before, taker.take())) == ["hooks core.hooksPath added"]
    assert fingerprinter(house).take() == taker.take()


def test_the_job_may_start_in_a_linked_worktree(house: Repo) -> None:
    linked = house.path.parent / "linked"
    house.git("worktree", "add", "-q", "-b", "side", linked)
    there = house.at(linked)
    taker = fingerprinter(there)
    before = taker.take()
    there.write("mine", "x")
    house.write("README", "x")
    assert summary(differences(before, taker.take())) == ["checkout README added", f"checkout {linked} mine added"]


def test_a_bare_repository_has_no_checkout(repo: Repo) -> None:
    bare = repo.path.parent / "bare.git"
    repo.git("clone", "-q", "--bare", repo.path, bare)
    taker = fingerprinter(Repo(bare))
    before = taker.take()
    Repo(bare).git("branch", "new")
    assert summary(differences(before, taker.take())) == ["refs refs/heads/new added"]


def test_in_a_job_of_many_units_their_documents_are_looked_at_in_turn(repo: Repo) -> None:
    """A look costs the same; what changed is found some looks later, at once where it is asked for or at the end."""
    repo.write(".git/info/exclude", ".ktx/\n")
    units = repo.path / ".ktx/jobs/j1/units"
    for number in range(3 * IN_TURN):
        (units / f"{number:04d}-u").mkdir(parents=True)
        (units / f"{number:04d}-u/receipt.json").write_text("{}")
    taker = fingerprinter(repo)
    before = taker.take()
    wanted = ["document 0149-u/receipt.json changed"]
    (units / "0149-u/receipt.json").write_text("{ }")
    assert summary(differences(before, taker.take(fresh=["0001-u"]))) == []
    assert summary(differences(before, taker.take(fresh=["0149-u"]))) == wanted
    between = taker.take()
    (units / "0149-u/receipt.json").write_text("{   }")
    looks = [summary(differences(between, taker.take(fresh=[]))) for _ in range(3)]
    assert looks[-1] == wanted, "after one turn"
    (units / "0003-u/receipt.json").unlink()
    assert "document 0003-u/receipt.json removed" in summary(differences(between, taker.take()))
