"""Trees that are listed once cost nothing again, whoever asks, and what is kept of them is bounded."""

from __future__ import annotations

from pathlib import Path

from ktxkit.git.listing import KEPT_PER_LOCATION, TreeEntry, TreeListings, in_runs
from ktxkit.git.objects import Objects
from tests.support.integration import world_at
from tests.support.repos import Repo
from tests.support.trees import REGULAR, File, Store


def entry(name: bytes, oid: str = "a") -> tuple[str, bytes, str]:
    return "100644", name, oid


def test_files_in_a_row_and_subtrees_keep_their_order(tmp_path: Path) -> None:
    """git's order: a directory stands where its name with a slash does."""
    repo = Repo.init(tmp_path / "repo")
    names = [b"a", b"a-b", b"a.d/x", b"a/b/c", b"a0", b"z/\xff", b"z/a"]
    del names[0]
    tree = Store(repo.path / ".git/objects").tree({name: File(REGULAR, name) for name in names})
    wanted = repo.git_bytes("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0")[:-1]
    for _ in range(2):
        with Objects(world_at(repo.path).git) as objects:
            assert [found.path for found in objects.tree(tree)] == wanted


def test_of_each_place_the_last_few_are_kept() -> None:
    listed = TreeListings(1000)
    for number in range(10):
        listed.put(f"t{number}", b"d/", in_runs([entry(b"x")], b"d/"))
        assert listed.get("t0", b"d/") is not None, "what is asked for stays"
    kept = [number for number in range(10) if listed.get(f"t{number}", b"d/") is not None]
    assert len(kept) == KEPT_PER_LOCATION and {0, 9} <= set(kept)


def test_above_the_limit_only_the_newest_stays() -> None:
    listed = TreeListings(10)
    listed.put("one", b"a/", in_runs([entry(b"%d" % n) for n in range(8)], b"a/"))
    listed.put("two", b"b/", in_runs([entry(b"%d" % n) for n in range(8)], b"b/"))
    assert listed.get("one", b"a/") is None
    assert listed.get("two", b"b/") == [[TreeEntry("100644", b"b/%d" % n, "a") for n in range(8)]]
