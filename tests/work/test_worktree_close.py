"""Closing: what is collected or nowhere is let go; whatever else is there is refused, or goes to the attic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo

UNIT = ("--job", "j1", "--unit", "u1")
Act = Callable[[Repo], object]


@pytest.fixture
def unit(repo: Repo) -> Repo:
    """The worktree of an open unit, with a file that the repository ignores."""
    repo.write(".gitignore", "*.log\n")
    repo.write("dir/file", "old\n")
    repo.commit()
    return Repo(Path(call("worktree-open", *UNIT, "--json", cwd=repo.path).document["path"]))


def close(repo: Repo, *args: str, outcome: str = "success") -> Ran:
    return call("worktree-close", *UNIT, "--outcome", outcome, "--json", *args, cwd=repo.path)


def collect(repo: Repo) -> None:
    ran = call("patch-collect", *UNIT, cwd=repo.path)
    assert ran.status == 0, ran.err


def nested(tree: Repo, *, commit: bool) -> None:
    inner = Repo.init(tree.path / "inner")
    inner.write("x", "x")
    if commit:
        inner.commit()


def hide(tree: Repo, flag: str) -> None:
    tree.git("update-index", flag, "dir/file")
    tree.write("dir/file", "hidden\n")


LOSES: dict[str, Act] = {
    "an untracked file": lambda t: t.write("new", "x"),
    "an edit": lambda t: t.write("dir/file", "new\n"),
    "an edit of the same size and second": lambda t: t.write("dir/file", "odl\n"),
    "a deletion": lambda t: (t.path / "dir/file").unlink(),
    "a mode": lambda t: (t.path / "dir/file").chmod(0o755),
    "a commit": lambda t: (t.write("new", "x"), t.commit()),
    "a commit that was taken back by hand": lambda t: (t.write("new", "x"), t.commit(), t.write("new", "y")),
    "a staged file that is gone again": lambda t: (t.write("new", "x"), t.git("add", "new")),
    "an edit hidden by assume-unchanged": lambda t: hide(t, "--assume-unchanged"),
    "an edit hidden by skip-worktree": lambda t: hide(t, "--skip-worktree"),
    "an untracked file that a global rule ignores": lambda t: t.write("x.global", "x"),
    "a name that is no text": lambda t: t.write(b"a\xffb\n", "x"),
    "a file where a directory was": lambda t: (t.git("rm", "-q", "dir/file"), t.write("dir", "x")),
    "an intent to add": lambda t: (t.write("new", "x"), t.git("add", "-N", "new")),
}


@pytest.mark.parametrize("name", LOSES)
def test_work_is_refused_and_then_goes_to_the_attic(repo: Repo, unit: Repo, hermetic: Path, name: str) -> None:
    (hermetic / "ignore").write_text("*.global\n")
    repo.git("config", "--global", "core.excludesFile", hermetic / "ignore")
    LOSES[name](unit)
    before = {str(p.relative_to(unit.path)): p.read_bytes() for p in unit.path.rglob("*") if p.is_file()}
    refused = close(repo)
    assert refused.status == 1 and "would lose" in refused.json["error"]["message"], refused.out
    done = close(repo, "--discard")
    assert done.status == 0 and not unit.path.exists(), done.out
    attic = Repo(repo.path.parent / "attic")
    repo.git("worktree", "add", "-q", "--detach", attic.path, done.document["atticRef"])
    after = {str(p.relative_to(attic.path)): p.read_bytes() for p in attic.path.rglob("*") if p.is_file()}
    before.pop(".git"), after.pop(".git")
    assert after == before


LOSES_NOTHING: dict[str, Act] = {
    "nothing was done": lambda t: None,
    "ignored files": lambda t: t.write("run.log", "x"),
    "a touched file": lambda t: t.write("dir/file", "old\n"),
    "an edit that was undone": lambda t: (t.write("dir/file", "x"), t.commit(), t.git("revert", "--no-edit", "HEAD")),
    "a branch of its own": lambda t: (t.write("new", "x"), t.commit(), t.git("branch", "mine")),
}


@pytest.mark.parametrize("name", LOSES_NOTHING)
def test_closing_that_loses_nothing(repo: Repo, unit: Repo, name: str) -> None:
    LOSES_NOTHING[name](unit)
    assert close(repo).status == 0
    assert not unit.path.exists()
    assert len(repo.git("worktree", "list").splitlines()) == 1


def test_history_that_nets_to_nothing_is_kept(repo: Repo, unit: Repo) -> None:
    LOSES_NOTHING["an edit that was undone"](unit)
    head = unit.head
    assert repo.git("rev-parse", close(repo).document["atticRef"]) == head


@pytest.mark.parametrize("name", ["an untracked file", "an edit", "a deletion", "a mode", "a commit"])
def test_what_was_collected_is_let_go(repo: Repo, unit: Repo, name: str) -> None:
    LOSES[name](unit)
    collect(repo)
    assert close(repo).status == 0
    assert not unit.path.exists()
    assert repo.git("rev-parse", "--verify", "refs/ktx/units/j1/0001-u1")


def test_work_after_collecting_is_refused(repo: Repo, unit: Repo) -> None:
    unit.write("new", "x")
    collect(repo)
    unit.write("new", "y")
    assert close(repo).status == 1
    assert (unit.path / "new").read_text() == "y"


@pytest.mark.parametrize("commit", [True, False])
def test_a_repository_inside_is_never_discarded(repo: Repo, unit: Repo, commit: bool) -> None:
    nested(unit, commit=commit)
    for more in ((), ("--discard",)):
        refused = close(repo, *more)
        assert refused.status == 1 and "a repository inside it" in refused.json["error"]["message"]
        hint = refused.json["error"]["hint"]
        assert "move inner out of the worktree" in hint and "--discard" not in hint
    assert (unit.path / "inner/x").exists()
    assert close(repo, outcome="crash").status == 0


def test_a_repository_that_was_moved_out_is_in_no_way(repo: Repo, unit: Repo) -> None:
    nested(unit, commit=True)
    assert close(repo, "--discard").status == 1
    (unit.path / "inner").rename(repo.path.parent / "inner")
    assert close(repo, "--discard").status == 0 and not unit.path.exists()


def with_submodule(repo: Repo, unit: Repo) -> Repo:
    library = Repo.init(repo.path.parent / "library")
    library.write("lib", "x")
    library.commit()
    unit.git("submodule", "add", "-q", library.path, "lib")
    unit.commit("a submodule")
    return Repo(unit.path / "lib")


SUBMODULE: dict[str, tuple[Act, bool]] = {
    "as it was fetched": (lambda s: None, True),
    "with a commit that was never pushed": (lambda s: s.commit("mine"), False),
    "with an edit": (lambda s: s.write("lib", "y"), False),
    "with an untracked file": (lambda s: s.write("new", "y"), False),
    "with a stash": (lambda s: (s.write("lib", "y"), s.git("stash", "-q")), False),
    "with a pushed commit": (lambda s: (s.commit("mine"), s.git("push", "-q", "origin", "HEAD:refs/heads/up")), True),
}


@pytest.mark.parametrize("name", SUBMODULE)
def test_submodules(repo: Repo, unit: Repo, name: str) -> None:
    act, safe = SUBMODULE[name]
    act(with_submodule(repo, unit))
    done = close(repo, "--discard")
    assert done.status == (0 if safe else 1), done.out
    assert unit.path.exists() is not safe


def test_a_directory_that_came_instead_is_not_touched(repo: Repo, unit: Repo) -> None:
    unit.path.rename(unit.path.with_name("moved"))
    unit.write("mine", "x")
    for args in (("--outcome", "success"), ("--outcome", "success", "--discard")):
        assert call("worktree-close", *UNIT, *args, cwd=repo.path).status == 4
    assert (unit.path / "mine").read_text() == "x"
    assert call("worktree-open", *UNIT, cwd=repo.path).status == 4


def test_a_directory_that_is_gone_is_closed_and_its_commits_are_kept(repo: Repo, unit: Repo) -> None:
    unit.write("new", "x\n")
    unit.commit()
    repo.git("worktree", "lock", unit.path)
    unit.path.rename(repo.path.parent / "away")
    locked = close(repo)
    assert locked.status == 1 and "locked" in locked.out
    assert len(repo.git("worktree", "list").splitlines()) == 2
    repo.git("worktree", "unlock", unit.path)
    done = close(repo)
    assert done.status == 0, done.out
    assert repo.show(done.document["atticRef"], "new") == b"x\n"
    assert len(repo.git("worktree", "list").splitlines()) == 1


def test_closing_twice(repo: Repo, unit: Repo) -> None:
    assert close(repo).document == close(repo).document
    assert close(repo, outcome="crash").status == 1


def test_closing_from_inside(repo: Repo, unit: Repo) -> None:
    done = call("worktree-close", "--outcome", "empty", "--json", cwd=unit.path)
    assert done.status == 0 and done.document["unitKey"] == "u1"
    assert not unit.path.exists()


def test_a_read_only_directory_goes_too(repo: Repo, unit: Repo) -> None:
    cache = unit.write("a.log/deep/file", "x").parent
    unit.write(".git_placeholder.log", "x")
    cache.chmod(0o500)
    cache.parent.chmod(0o500)
    assert close(repo).status == 0
    assert not list((repo.path / ".ktx/worktrees/.trash").iterdir())


@pytest.mark.parametrize("what", ["truncated", "version 2", "unknown key"])
def test_a_damaged_lease_is_status_5(repo: Repo, unit: Repo, what: str) -> None:
    path = repo.path / ".ktx/jobs/j1/units/0001-u1/lease.json"
    text = path.read_text()
    path.write_text(
        {
            "truncated": text[:-20],
            "version 2": text.replace('"schemaVersion": 1', '"schemaVersion": 2'),
            "unknown key": text.replace("{", '{"surprise": 1,', 1),
        }[what]
    )
    for ran in (close(repo), call("worktree-open", *UNIT, "--json", cwd=repo.path)):
        assert ran.status == 5 and ran.json["error"]["where"] == str(path)
    assert unit.path.is_dir()


@pytest.mark.parametrize(("args", "hint"), [((), "which"), (("--job", "j1", "--unit", "nobody"), "no unit")])
def test_which_worktree(repo: Repo, unit: Repo, args: tuple[str, ...], hint: str) -> None:
    ran = call("worktree-close", *args, "--outcome", "empty", cwd=repo.path)
    assert ran.status == 2 and hint in ran.err
