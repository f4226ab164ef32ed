"""The neutral directory, its readers, and the pool of a long run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ktxkit.git import merging, neutral
from ktxkit.git.git import Git, GitFailed
from ktxkit.git.listing import TreeDiff
from ktxkit.git.neutral import Neutral, open_neutral, pooled
from ktxkit.git.objects import Objects
from tests.support.integration import world_at
from tests.support.repos import Repo


def made(path: Path, name: str, *args: str) -> Repo:
    repo = Repo.init(path, *args)
    repo.write(name, "one\n")
    repo.write("d/b", "two\n")
    repo.commit()
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return made(tmp_path / "repo", "a")


def tree_with(one: Neutral, paths: list[bytes], text: bytes = b"x\n") -> str:
    blob = one.git.run("hash-object", "-w", "--stdin", stdin=text).text
    index = one.index("made")
    listing = b"".join(b"100644 %s\t%s\0" % (blob.encode(), path) for path in paths)
    (one.directory / "index-made").unlink(missing_ok=True)
    index.run("update-index", "-z", "--index-info", stdin=listing)
    return index.text("write-tree")


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_made_by_hand_it_is_what_git_init_makes(tmp_path: Path, kind: str) -> None:
    world = world_at(made(tmp_path / "repo", "a", f"--object-format={kind}").path)
    with open_neutral(world) as one:
        plain = one.git.env.copy()
        plain.pop("GIT_OBJECT_DIRECTORY")
        git = Git(one.directory, plain, one.git.config)
        asked = ("--is-bare-repository", "--show-object-format", "--absolute-git-dir")
        assert git.text("rev-parse", *asked).split("\n") == ["true", kind, str(one.directory)]
        assert git.run("fsck", "--strict").status == 0
        assert (one.directory.stat().st_mode & 0o077, (one.directory / "config").stat().st_mode & 0o077) == (0, 0)
    assert not one.directory.exists()


def test_a_pool_hands_out_what_was_used_before_and_ends_with_nothing_left(repo: Repo) -> None:
    world = world_at(repo.path)
    with pooled(world):
        with open_neutral(world) as one, open_neutral(world) as two:
            assert one is not two and one.directory != two.directory
            reader = one.objects
        with open_neutral(world) as again, open_neutral(world.at(repo.path / "d")) as other:
            assert {id(again), id(other)} == {id(one), id(two)}
            assert one.objects is reader and one.tree_of(repo.head) is not None
        assert sorted(path.name.split("-")[0] for path in (repo.path / ".ktx/tmp").iterdir()) == ["neutral"] * 2
    assert world.pool is None and list((repo.path / ".ktx/tmp").iterdir()) == []


def test_a_pool_is_of_one_repository(repo: Repo, tmp_path: Path) -> None:
    world = world_at(repo.path)
    far = made(tmp_path / "far", "z")
    with pooled(world):
        with open_neutral(world):
            pass
        with open_neutral(world.at(far.path)) as there:
            assert there.tree_of(far.head) is not None and there.tree_of(repo.head) is None


def test_after_an_error_the_readers_are_not_used_again(repo: Repo) -> None:
    world = world_at(repo.path)
    with pooled(world):
        with pytest.raises(RuntimeError, match="in the middle"), open_neutral(world) as one:
            assert one.tree_of(repo.head)
            raise RuntimeError("in the middle")
        assert not one.directory.exists()
        with open_neutral(world) as two:
            assert two is not one


ODD = [b".\n", b".\n.\n", b":100644", b"a\n.\n", b"d/.\nx", b"\xff\xfe", b"z"]


def test_paths_that_look_like_the_mark_are_paths(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one:
        empty, full = tree_with(one, []), tree_with(one, ODD)
        for _ in range(2):
            assert sorted(entry.path for entry in merging.changes(one, empty, full)) == sorted(ODD)
        assert merging.changes(one, full, full) == []
        for path in ODD:
            assert [entry.path for entry in merging.changes(one, empty, tree_with(one, [path]))] == [path]


def test_a_missing_tree_is_an_error_and_the_next_answer_is_right(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one:
        empty, full = tree_with(one, []), tree_with(one, [b"a"])
        for _ in range(2):
            with pytest.raises(GitFailed):
                one.differ.entries(empty, "1" * len(empty))
            with pytest.raises(GitFailed):
                one.differ.entries("1" * len(empty), full)
            assert [entry.path for entry in one.differ.entries(empty, full)] == [b"a"]


def test_a_comparer_that_was_killed_is_started_again(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one:
        empty, full = tree_with(one, []), tree_with(one, [b"a"])
        assert len(one.differ.entries(empty, full)) == 1
        one.differ._child.kill()
        one.differ._child.wait()
        assert [entry.path for entry in one.differ.entries(empty, full)] == [b"a"]
        one.differ._child.kill()


def test_a_reader_remembers_the_trees_used_last(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one, Objects(one.git, entries_kept=10) as reader:
        trees = [tree_with(one, [b"%d" % n, b"x", b"y"]) for n in range(8)]
        for tree in trees:
            assert len(reader.level(trees[0])) == len(reader.level(tree)) == 3
        assert list(reader._trees) == [trees[6], trees[0], trees[7]]
        assert reader._held == 9
        assert [entry.path for entry in reader.tree(trees[3])] == [b"3", b"x", b"y"]


def test_the_reader_is_renewed_in_time(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one, closing(TreeDiff(one.git, renewed_after=3)) as differ:
        empty, full = tree_with(one, []), tree_with(one, [b"a"])
        children = set()
        for _ in range(8):
            assert len(differ.entries(empty, full)) == 1
            children.add(differ._child.pid)
        assert len(children) == 3


def test_a_synthetic_commit_is_the_one_that_git_writes(repo: Repo) -> None:
    with open_neutral(world_at(repo.path)) as one:
        tree = one.tree_of(repo.head)
        assert tree is not None
        base = merging._commit(one.directory / "objects", tree)
        side = merging._commit(one.directory / "objects", tree, base)
        env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in neutral.AUTHOR.items()}
        dates = {f"GIT_{role}_DATE": "@0 +0000" for role in ("AUTHOR", "COMMITTER")}
        stores = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(one.directory / "objects")}
        git = one.git.having(**env, **dates, **stores)
        assert git.text("commit-tree", tree, "-p", base, "-m", "side") == side
        assert git.text("cat-file", "-t", side) == "commit"
