"""Work that is in no file of a worktree: in its index, or named by its own git directory alone. It is not lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo

Make = Callable[[Repo], str]


def opened(repo: Repo, *words: str) -> Repo:
    ran = call("worktree-open", *words, cwd=repo.path)
    assert ran.status == 0, ran.err
    return Repo(Path(ran.out.strip()))


def close(repo: Repo, *words: str) -> Ran:
    return call("worktree-close", *words, "--outcome", "success", "--json", cwd=repo.path)


def staged_and_gone(tree: Repo) -> str:
    tree.write("new", "important\n")
    tree.git("add", "new")
    (tree.path / "new").unlink()
    return tree.git("rev-parse", ":new")


def staged_and_edited(tree: Repo) -> str:
    tree.write("README", "first\n")
    tree.git("add", "README")
    tree.write("README", "second\n")
    return tree.git("rev-parse", ":README")


def autostash(tree: Repo) -> str:
    tree.write("own", "own\n")
    tree.commit()
    tree.write("README", "precious\n")
    tree.git("-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "--autostash", "main")
    assert tree.git("status", "--porcelain") == ""
    return Path(tree.git("rev-parse", "--path-format=absolute", "--git-path", "rebase-merge/autostash")).read_text()


def left_to_replay(tree: Repo) -> str:
    for name in ("a", "b", "c"):
        tree.write(name, name)
        tree.commit(name)
    last = tree.head
    tree.git("-c", "sequence.editor=sed -i 2ibreak", "rebase", "-q", "-i", "main")
    return last


def ref_of_the_worktree(tree: Repo) -> str:
    tree.write("kept", "kept\n")
    tree.commit()
    commit = tree.head
    tree.git("update-ref", "refs/worktree/kept", commit)
    tree.git("reset", "-q", "--hard", "HEAD~1")
    return commit


HIDDEN: dict[str, Make] = {
    "staged, and gone from the files": staged_and_gone,
    "staged, and edited since": staged_and_edited,
    "put away by a rebase": autostash,
    "left to replay by a rebase": left_to_replay,
    "named by a ref of the worktree": ref_of_the_worktree,
}


@pytest.fixture
def ahead(repo: Repo) -> Repo:
    """main is one commit further than the worktree that is opened from it."""
    repo.write("further", "1\n")
    repo.commit()
    return repo


@pytest.mark.parametrize("name", HIDDEN)
def test_it_is_refused_and_goes_to_the_attic(ahead: Repo, name: str) -> None:
    tree = opened(ahead, "d", "--detach", "--base", "HEAD~1")
    made = HIDDEN[name](tree).strip()
    refused = close(ahead, "d")
    assert refused.status == 1 and "would lose" in refused.json["error"]["message"], refused.out
    assert tree.path.exists()
    done = close(ahead, "d", "--discard")
    assert done.status == 0 and not tree.path.exists(), done.out
    assert made in ahead.git("rev-list", "--objects", "--no-object-names", done.document["atticRef"]).split()
    assert ahead.git("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("make", [staged_and_gone, staged_and_edited])
@pytest.mark.parametrize("how", [("worktree-close", "--outcome", "success"), ("git-ktx", "clean", "--yes")])
def test_of_a_unit_it_is_kept_and_refuses_nothing(repo: Repo, make: Make, how: tuple[str, ...]) -> None:
    """Its work is what is in the files: an index that is behind them is no reason to stop a fleet."""
    unit = ("--job", "j", "--unit", "u")
    tree = opened(repo, *unit)
    tree.write("work", "work\n")
    blob = make(tree)
    for command in ("patch-collect", "patch-apply"):
        assert call(command, *unit, cwd=repo.path).status == 0
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0
    ran = call(*how, *(unit if how[0] == "worktree-close" else ()), cwd=repo.path)
    assert ran.status == 0 and not tree.path.exists(), ran.err
    attic = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").split()
    assert len(attic) == 1 and blob in repo.git("rev-list", "--objects", "--no-object-names", attic[0]).split()


def test_what_is_named_elsewhere_too_is_not_in_the_way(repo: Repo) -> None:
    tree = opened(repo, "d", "--detach")
    tree.git("update-ref", "refs/worktree/same", "HEAD")
    tree.write("README", "staged as it is in the file\n")
    tree.git("add", "README")
    tree.git("checkout", "-q", "HEAD", "--", "README")
    done = close(repo, "d")
    assert done.status == 0 and "atticRef" not in done.document, done.out


def cloned(tree: Repo, place: str) -> Repo:
    tree.git("clone", "-q", "--no-local", tree.path, place)
    return Repo(tree.path / place)


def own_repository(tree: Repo) -> None:
    inner = Repo.init(tree.path / "vendor/deep/inner")
    inner.write("x", "x")
    inner.commit()


def worktree_of_the_same(tree: Repo) -> None:
    tree.git("worktree", "add", "-q", "vendor/tree", "-b", "inner")
    tree.write("vendor/tree/work", "work\n")


def clone_with_a_commit(tree: Repo) -> None:
    inner = cloned(tree, "vendor/clone")
    inner.write("x", "x")
    inner.commit()


def clone_with_an_edit(tree: Repo) -> None:
    cloned(tree, "vendor/clone").write("README", "edited\n")


REPOSITORIES = [own_repository, worktree_of_the_same, clone_with_a_commit, clone_with_an_edit]


@pytest.mark.parametrize("kind", [("d", "--detach"), ("--job", "j", "--unit", "u")], ids=["detached", "unit"])
@pytest.mark.parametrize("make", REPOSITORIES)
def test_a_repository_where_git_looks_for_nothing(
    repo: Repo, make: Callable[[Repo], None], kind: tuple[str, ...]
) -> None:
    repo.write(".gitignore", "vendor/\n")
    repo.commit()
    tree = opened(repo, *kind)
    make(tree)
    named = kind[:1] if kind[0] == "d" else kind
    for more in ((), ("--discard",)):
        refused = close(repo, *named, *more)
        assert refused.status == 1 and "a repository inside it" in refused.json["error"]["message"], refused.out
        assert "move vendor/" in refused.json["error"]["hint"]
    assert next(tree.path.glob("vendor/**/.git")).exists()


def test_a_clone_that_has_nothing_of_its_own_is_no_work(repo: Repo) -> None:
    """What dependency managers put where git looks for nothing, and a repository without anything in it."""
    repo.write(".gitignore", "vendor/\n")
    repo.commit()
    tree = opened(repo, "d", "--detach")
    cloned(tree, "vendor/clone")
    Repo.init(tree.path / "vendor/empty")
    done = close(repo, "d")
    assert done.status == 0 and not tree.path.exists(), done.out


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_what_is_mounted_inside_is_not_deleted(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitignore", "data/\n")
    repo.commit()
    tree = opened(repo, "d", "--detach")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious\n")
    (tree.path / "data").mkdir()
    mounted = subprocess.run(["mount", "--bind", precious, tree.path / "data"], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        refused = close(repo, "d", "--discard")
        assert refused.status == 1 and "mounted inside it: data" in refused.json["error"]["message"], refused.out
        assert (precious / "file").read_text() == "precious\n" and (tree.path / "README").exists()
    finally:
        subprocess.run(["umount", tree.path / "data"], check=True)
    assert close(repo, "d").status == 0 and (precious / "file").exists()
