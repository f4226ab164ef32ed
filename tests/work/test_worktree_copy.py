"""What a checkout lacks comes along: ignored files by pattern, sparse checkouts, filters' own switches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.commands import Ran, call, spawn
from tests.support.repos import Repo

UNIT = ("--job", "j1", "--unit", "u1")


@pytest.fixture
def house(repo: Repo) -> Repo:
    """A repository with ignored files of every kind beside its tracked ones."""
    repo.write(".gitignore", ".env\ncache/\n*.key\nlinked\n")
    repo.write("app/code", "x\n")
    repo.write("tracked.key", "tracked\n")
    repo.git("add", "-f", "tracked.key")
    repo.commit()
    repo.write(".env", "SECRET=1\n").chmod(0o600)
    repo.write("app/.env", "SECRET=2\n")
    repo.write("cache/deep/er/blob", b"\0\1" * 5000)
    repo.write("cache/ä b", "x").chmod(0o755)
    repo.write("my.key", "key\n")
    repo.write("loose", "not ignored\n")
    (repo.path / "linked").symlink_to("cache/deep")
    os.utime(repo.path / "cache/deep/er/blob", (1_000_000_000, 1_000_000_000))
    return repo


def opened(repo: Repo, *args: str) -> tuple[Repo, Ran]:
    ran = call("worktree-open", *UNIT, "--json", *args, cwd=repo.path)
    assert ran.status == 0, ran.out
    return Repo(Path(ran.document["path"])), ran


PATTERNS: dict[str, tuple[list[str], list[str]]] = {
    "a name, wherever it is": ([".env"], [".env", "app/.env"]),
    "a path": (["/.env"], [".env"]),
    "a directory": (["cache/"], ["cache/deep/er/blob", "cache/ä b"]),
    "a glob; what is tracked is there already": (["*.key"], ["my.key"]),
    "two": ([".env", "*.key"], [".env", "app/.env", "my.key"]),
    "a link, as a link": (["linked"], ["linked"]),
    "everything that is ignored": (
        ["*"],
        [".env", "app/.env", "cache/deep/er/blob", "cache/ä b", "linked", "my.key"],
    ),
    "nothing of the store": ([".ktx/"], []),
    "nothing that is not ignored": (["loose"], []),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(house: Repo, name: str) -> None:
    patterns, expected = PATTERNS[name]
    tree, ran = opened(house, *(word for pattern in patterns for word in ("--copy", pattern)))
    assert ran.document.get("copied", []) == expected
    assert tree.git("status", "--porcelain") == ""
    for path in expected:
        source, copy = house.path / path, tree.path / path
        assert copy.is_symlink() == source.is_symlink()
        if not copy.is_symlink():
            assert copy.read_bytes() == source.read_bytes()
            assert copy.stat().st_mode == source.stat().st_mode
            assert copy.stat().st_mtime_ns == source.stat().st_mtime_ns
            assert copy.stat().st_ino != source.stat().st_ino
    assert sorted(path.name for path in (tree.path / "app").iterdir()) == (
        ["code"] if "app/.env" not in expected else [".env", "code"]
    )


def test_a_pattern_that_names_nothing_is_told(house: Repo) -> None:
    ran = call("worktree-open", *UNIT, "--copy", "*.nothing", cwd=house.path)
    assert ran.status == 0 and "*.nothing" in ran.err


def test_what_the_base_does_not_ignore_is_refused(house: Repo) -> None:
    """At the base the rule is missing: a copy would be part of the unit's change. Nothing is left behind."""
    old = house.git("rev-parse", "HEAD~1")
    ran = call("worktree-open", *UNIT, "--base", old, "--copy", ".env", cwd=house.path)
    assert ran.status == 2 and ".env is not ignored at the base" in ran.err
    assert not (house.path / ".ktx/worktrees/j1/0001-u1").exists()
    assert len(house.git("worktree", "list").splitlines()) == 1
    assert call("worktree-open", *UNIT, "--base", old, cwd=house.path).status == 0


def test_no_link_leads_a_copy_out_of_the_worktree(house: Repo, tmp_path: Path) -> None:
    house.git("rm", "-q", "-r", "--cached", "app")
    (house.path / "app").rename(house.path / "was")
    (house.path / "app").symlink_to(tmp_path)
    house.git("add", "app")
    base = house.git("commit-tree", house.git("write-tree"), "-m", "app is a link now")
    (house.path / "app").unlink()
    (house.path / "was").rename(house.path / "app")
    _, ran = opened(house, "--base", base, "--copy", ".env")
    assert ran.document["copied"] == [".env"] and not (tmp_path / ".env").exists()


def test_copies_are_neither_collected_nor_kept_in_the_attic(house: Repo) -> None:
    exclude = house.path / ".git/info/exclude"
    exclude.write_text("token\n")
    house.write("token", "SECRET=3\n")
    tree, _ = opened(house, "--copy", ".env", "--copy", "token", "--copy", "cache/")
    exclude.write_text("/.ktx/\n")  # it is not ignored any more
    tree.write("new", "x\n")
    assert call("patch-collect", *UNIT, "--json", cwd=house.path).status == 0
    patch = (house.path / ".ktx/ingest-patches/j1/0001-u1.patch").read_bytes()
    assert b"SECRET" not in patch and b"new" in patch
    tree.write("newer", "x\n")
    done = call("worktree-close", *UNIT, "--outcome", "success", "--discard", "--json", cwd=house.path)
    names = house.git("ls-tree", "-r", "--name-only", done.document["atticRef"]).split("\n")
    assert (
        "newer" in names
        and not {".env", "token"} & set(names)
        and not [name for name in names if name.startswith("cache")]
    )


def test_a_sparse_checkout(house: Repo) -> None:
    house.write("big/file", "x\n")
    house.commit()
    tree, _ = opened(house, "--sparse", "app")
    assert (tree.path / "app/code").exists() and not (tree.path / "big").exists()
    assert tree.git("status", "--porcelain") == ""
    tree.write("app/new", "x\n")
    tree.write("big/new", "x\n")
    done = call("worktree-close", *UNIT, "--outcome", "success", "--discard", "--json", cwd=house.path)
    assert done.status == 0, done.out
    names = house.git("ls-tree", "-r", "--name-only", done.document["atticRef"]).split("\n")
    assert {"app/new", "big/new", "big/file", "README"} <= set(names), "what is not checked out is not deleted"
    assert (house.path / "big/file").exists()
    assert house.git("config", "core.sparseCheckout", check=False) == ""


def test_git_lfs_skip_smudge_reaches_the_filter(repo: Repo, tmp_path: Path) -> None:
    smudge = tmp_path / "smudge"
    smudge.write_text('#!/bin/sh\ncat >/dev/null\necho "skip=$GIT_LFS_SKIP_SMUDGE index=$GIT_INDEX_FILE"\n')
    smudge.chmod(0o755)
    repo.git("config", "filter.fake.smudge", smudge)
    repo.git("config", "filter.fake.clean", "cat")
    repo.write(".gitattributes", "*.bin filter=fake\n")
    repo.write("a.bin", "x\n")
    repo.commit()
    env = {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_INDEX_FILE": "nonsense"}
    ran = spawn("worktree-open", *UNIT, cwd=repo.path, env=env)
    assert ran.status == 0, ran.err
    assert Path(ran.out.strip(), "a.bin").read_text() == "skip=1 index=\n"


def test_a_filter_that_fails_leaves_nothing(repo: Repo) -> None:
    repo.git("config", "filter.broken.smudge", "false")
    repo.git("config", "filter.broken.clean", "cat")
    repo.git("config", "filter.broken.required", "true")
    repo.write(".gitattributes", "*.bin filter=broken\n")
    repo.write("a.bin", "x\n")
    repo.commit()
    for args in (UNIT, ("work",)):
        ran = call("worktree-open", *args, cwd=repo.path)
        assert ran.status == 2 and "smudge filter broken failed" in ran.err
    assert len(repo.git("worktree", "list").splitlines()) == 1
    assert repo.git("for-each-ref", "refs/heads") == repo.git("for-each-ref", "refs/heads/main")
    assert not list((repo.path / ".ktx/worktrees").rglob("a.bin"))
    assert "worktree-open --job" in call("git-ktx", "status", cwd=repo.path).out
    said = call("patch-collect", *UNIT, cwd=repo.path)
    assert said.status == 2 and "has no worktree" in said.err and "worktree-open --job" in said.err, said.err
