"""A copy of a repository has the original's leases: it names those worktrees and touches none of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ktxkit.base.contracts import Document
from tests.support.commands import Ran, call, script
from tests.support.repos import Repo
from tests.work.test_worktree_prune import dead_owner, edit


def everything(root: Path) -> dict[str, object]:
    """Each file below a directory with its bytes and mode."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.is_file() and path.read_bytes())
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def copied(repo: Repo) -> tuple[Repo, Repo]:
    """A repository with a unit whose owner is dead, one closed by hand, one open; and its copy, made by `cp -a`."""
    for unit in ("dead", "over", "open"):
        made = call("worktree-open", "--job", "j1", "--unit", unit, "--json", cwd=repo.path)
        Path(made.document["path"], "only-here").write_text("work\n")
    leases = {path.parent.name.partition("-")[2]: path for path in repo.path.glob(".ktx/jobs/j1/units/*/lease.json")}
    edit(leases["dead"], owner=dead_owner())
    edit(leases["over"], state="closed", outcome="success", closedAt="2026-01-01T00:00:00.000Z")
    assert call("worktree-open", "work", cwd=repo.path).status == 0
    copy = repo.path.parent / "backup"
    subprocess.run(["cp", "-a", repo.path, copy], check=True)
    return repo, Repo(copy)


def ktx(repo: Repo, *args: str) -> Ran:
    done = subprocess.run([script("git-ktx"), *args], cwd=repo.path, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_copy_is_not_cleaned_of_the_originals_worktrees(copied: tuple[Repo, Repo]) -> None:
    original, copy = copied
    before = everything(original.path)
    done = ktx(copy, "clean", "--yes")
    assert done.status == 0 and everything(original.path) == before
    assert f"it belongs to another repository: {original.path}/.git/worktrees/" in done.out
    assert done.out.endswith("Nothing was cleared.\n")
    pruned = call("worktree-open", "--prune", "--json", cwd=copy.path)
    rows: list[Document] = [row for row in pruned.document["worktrees"] if row["kind"] in ("unit", "adhoc")]
    assert len(rows) == 4 and all("kept" in row and "dead" not in row for row in rows)
    listed = call("worktree-open", "--list", cwd=copy.path)
    assert listed.out.count("stays: it belongs to another repository") == 4 and "0 left over" in listed.out
    assert everything(original.path) == before
    assert "its owner is dead" in call("worktree-open", "--list", cwd=original.path).out


def test_what_is_dead_in_the_copy_itself_goes(copied: tuple[Repo, Repo]) -> None:
    original, copy = copied
    made = call("worktree-open", "--job", "j2", "--unit", "own", "--json", cwd=copy.path).document
    edit(next(copy.path.glob(".ktx/jobs/j2/units/*/lease.json")), owner=dead_owner())
    before = everything(original.path)
    assert ktx(copy, "clean", "--yes").out.endswith("Cleared 1 thing.\n")
    assert not Path(made["path"]).exists() and everything(original.path) == before


@pytest.mark.parametrize("unit", ["dead", "over", "open"])
@pytest.mark.parametrize(
    "step",
    [
        ("worktree-close", "--outcome", "success", "--discard"),
        ("worktree-close", "--outcome", "crash"),
        ("worktree-open",),
        ("worktree-watch", "--once"),
    ],
)
def test_a_step_on_the_originals_worktree_is_blocked(
    copied: tuple[Repo, Repo], step: tuple[str, ...], unit: str
) -> None:
    original, copy = copied
    before, name = everything(original.path), step[0]
    ran = call(name, "--job", "j1", "--unit", unit, *step[1:], cwd=copy.path)
    if unit != "over" or name == "worktree-open":  # what is closed already is said, or is not watched
        assert ran.status == 4, (ran.out, ran.err)
        assert "the worktree belongs to another repository" in ran.err and "work in that repository" in ran.err
    assert everything(original.path) == before


def test_the_note_of_a_killed_opening_takes_nothing_of_the_original(copied: tuple[Repo, Repo]) -> None:
    original, copy = copied
    folder = next(copy.path.glob(".ktx/jobs/j1/units/*-open"))
    lease = json.loads((folder / "lease.json").read_text())
    keys = ("schemaVersion", "path", "base", "mode", "nonce")
    note = {key: lease[key] for key in keys} | {"kind": "opening", "at": lease["openedAt"]}
    (folder / "opening.json").write_text(json.dumps(note))
    (folder / "lease.json").unlink()
    before = everything(original.path)
    pruned = call("worktree-open", "--prune", cwd=copy.path)
    assert pruned.status == 0 and pruned.out.count("stays: it belongs to another repository") == 4
    assert call("worktree-open", "other", cwd=copy.path).status == 0
    assert everything(original.path) == before


def test_a_repository_with_two_paths_is_one(repo: Repo) -> None:
    made = call("worktree-open", "--job", "j1", "--unit", "one", "--json", cwd=repo.path).document
    link = repo.path.parent / "link"
    link.symlink_to(repo.path)
    (Path(made["path"]) / ".git").write_text(f"gitdir: {link}/.git/worktrees/{made['worktreeId']}\n")
    assert call("worktree-close", "--job", "j1", "--unit", "one", "--outcome", "success", cwd=repo.path).status == 0
    assert not Path(made["path"]).exists()


def test_a_worktree_of_a_repository_that_was_moved_is_to_be_repaired(repo: Repo) -> None:
    made = call("worktree-open", "work", "--path", "../beside", "--json", cwd=repo.path).document
    moved = Repo(repo.path.parent / "moved")
    shutil.move(repo.path, moved.path)
    ran = call("worktree-close", "work", "--outcome", "success", cwd=moved.path)
    assert ran.status == 4 and "git worktree repair" in ran.err, (ran.out, ran.err)
    moved.git("worktree", "repair", made["path"])
    assert call("worktree-close", "work", "--outcome", "success", cwd=moved.path).status == 0


@pytest.fixture
def moved(repo: Repo) -> Repo:
    """A repository that was renamed while a unit was at work: a commit, something staged, something untracked."""
    there = Repo(Path(call("worktree-open", "--job", "j1", "--unit", "one", cwd=repo.path).out.strip()))
    there.write("committed", "1\n")
    there.commit()
    there.write("staged", "2\n")
    there.git("add", "staged")
    there.write("only-here", "work\n")
    return Repo(repo.path.rename(repo.path.parent / "moved"))


def test_after_a_move_the_unit_goes_on_where_it_was(moved: Repo) -> None:
    """Its worktree was called dead, and cleared from git, with what was staged."""
    assert "Worktrees: 1 open." in ktx(moved, "status").out
    assert ktx(moved, "clean", "--yes").status == 0
    there = Repo(next(moved.path.glob(".ktx/worktrees/j1/*")))
    assert there.git("status", "--porcelain").splitlines() == ["A  staged", "?? only-here"]
    assert call("patch-collect", "--job", "j1", "--unit", "one", cwd=moved.path).status == 0
    for command in (("patch-apply", "--job", "j1", "--unit", "one"), ("job-land", "--job", "j1")):
        assert call(*command, cwd=moved.path).status == 0
    assert moved.git("ls-tree", "--name-only", "main").split() == ["README", "committed", "only-here", "staged"]
    assert call("worktree-close", "--job", "j1", "--unit", "one", "--outcome", "success", cwd=moved.path).status == 0
    assert not there.path.exists() and moved.git("worktree", "list").count("\n") == 0


COMMANDS = {
    "collect": ("patch-collect", "--job", "j1", "--unit", "one"),
    "open again": ("worktree-open", "--job", "j1", "--unit", "one"),
    "close": ("worktree-close", "--job", "j1", "--unit", "one", "--outcome", "crash"),
    "preview": ("job-preview", "--job", "j1"),
    "prune": ("worktree-open", "--prune"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_each_command_follows_the_move(moved: Repo, command: tuple[str, ...]) -> None:
    ran = call(*command, cwd=moved.path)
    assert ran.status == 0, ran
    there = Repo(next(moved.path.glob(".ktx/worktrees/j1/*")))
    assert there.git("rev-parse", "HEAD^") == moved.head
    lease = json.loads(next(moved.path.glob(".ktx/jobs/j1/units/*/lease.json")).read_text())
    assert lease["path"] == str(there.path) and lease["adminDir"].startswith(f"{moved.path}/.git/worktrees/")
    assert not (moved.path.parent / "repo").exists(), "nothing is made at the old place"


def test_doctor_says_that_a_worktree_moved(moved: Repo) -> None:
    said = ktx(moved, "doctor").out
    assert "1 worktree moved with the repository" in said and "git ktx prune tells git" in said
    assert "git worktree prune" not in said and "dead" not in said
    assert call("worktree-open", "--prune", cwd=moved.path).status == 0
    assert "moved" not in ktx(moved, "doctor").out


def test_a_copy_is_no_move(repo: Repo) -> None:
    """Also where the place of the original's worktree is gone: git there has its registration."""
    there = Path(call("worktree-open", "--job", "j1", "--unit", "one", cwd=repo.path).out.strip())
    copy = Repo(repo.path.parent / "copy")
    shutil.copytree(repo.path, copy.path, symlinks=True)
    there.rename(repo.path.parent / "elsewhere")
    assert "1 left over" in ktx(repo, "status").out
    pointer = (copy.path / ".ktx/worktrees/j1/0001-one/.git").read_text()
    call("worktree-open", "--prune", cwd=copy.path)
    assert (copy.path / ".ktx/worktrees/j1/0001-one/.git").read_text() == pointer


IN_A_COPY = {
    **{name: COMMANDS[name] for name in ("collect", "open again", "close", "prune")},
    "clean": ("git-ktx", "clean", "--yes"),
    "watch": ("worktree-watch", "--once", "--job", "j1", "--unit", "one"),
}


@pytest.mark.parametrize("command", IN_A_COPY.values(), ids=IN_A_COPY)
def test_a_copy_never_takes_worktrees_of_the_original(repo: Repo, command: tuple[str, ...]) -> None:
    """The original closed a unit, so the copy has the only worktree of it; another one is at work in the original.

    `git worktree repair` led that one into the copy, and `clean` then removed it with what was in it.
    """
    open_ = ("worktree-open", "--job")
    call(*open_, "j1", "--unit", "one", cwd=repo.path)
    work = Path(call(*open_, "j7", "--unit", "one", "--target", "main", cwd=repo.path).out.strip())
    (work / "precious").write_text("work\n")
    copy = Repo(repo.path.parent / "copy")
    shutil.copytree(repo.path, copy.path, symlinks=True)
    assert call("worktree-close", "--job", "j1", "--unit", "one", "--outcome", "success", cwd=repo.path).status == 0
    pointer = (work / ".git").read_text()
    call(*command, cwd=copy.path)
    call("git-ktx", "clean", "--yes", cwd=copy.path)
    assert (work / ".git").read_text() == pointer and (work / "precious").read_text() == "work\n"
    own = copy.path / ".ktx/worktrees/j1/0001-one/.git"
    assert not own.exists() or own.read_text() == f"gitdir: {copy.path}/.git/worktrees/0001-one\n"
    assert call("patch-collect", "--job", "j7", "--unit", "one", cwd=repo.path).status == 0
