"""Collect, apply and land in repositories of every kind: the same result as in a plain one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.gates.judging import check_tree
from ktxkit.git.neutral import open_neutral
from ktxkit.git.objects import Objects
from ktxkit.git.rules.checkout import Expected
from ktxkit.work.bare_patches import BarePatchOptions, apply_file
from ktxkit.work.collect import Request, collect
from tests.support.commands import spawn
from tests.support.integration import Job, world_at
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
LINES = "".join(f"{n}\n" for n in range(20))
Listing = list[tuple[str, str, bytes]]


def fill(repo: Repo) -> None:
    """Two commits, so that a shallow clone lacks one; blobs outside the cone, so that a partial one lacks some."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.write("cone/a.txt", "old\n")
    repo.commit("first")
    repo.write("cone/a.txt", LINES)
    repo.write("cone/deep/b.txt", LINES + "b\n")
    repo.write("cone/bin", b"\0\1\2")
    repo.write("far/c.txt", LINES + "c\n")
    repo.write("far/d/e.txt", "e\n")
    repo.write("top", "top\n")
    repo.commit("second")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    with pytest.MonkeyPatch.context() as patch:  # the hermetic fixture is each test's; this is made before
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "A")
            patch.setenv(f"GIT_{role}_EMAIL", "a@example.invalid")
            patch.setenv(f"GIT_{role}_DATE", "2024-01-01T00:00:00Z")
        repo = Repo.init(tmp_path_factory.mktemp("kinds") / "origin")
        fill(repo)
    yield repo


def cloned(origin: Repo, path: Path, *args: str) -> Repo:
    subprocess.run(["git", "clone", "-q", *args, f"file://{origin.path}", str(path)], check=True)
    return Repo(path)


def configured(*settings: str) -> Callable[[Repo, Path], Repo]:
    def make(origin: Repo, path: Path) -> Repo:
        repo = cloned(origin, path)
        for setting in settings:
            repo.git("config", *setting.split("="))
        repo.git("read-tree", "HEAD")
        repo.git("update-index", "-q", "--refresh")
        return repo

    return make


def sparse(*how: str, clone: tuple[str, ...] = ()) -> Callable[[Repo, Path], Repo]:
    def make(origin: Repo, path: Path) -> Repo:
        repo = cloned(origin, path, *clone, "--no-checkout")
        repo.git("sparse-checkout", "set", *how)
        repo.git("checkout", "-q", "main")
        assert not (repo.path / "far").exists()
        return repo

    return make


def new_format(*args: str) -> Callable[[Repo, Path], Repo]:
    def make(_: Repo, path: Path) -> Repo:
        done = subprocess.run(["git", "init", "-q", *args, str(path)], capture_output=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(path, ignore_errors=True)
            pytest.skip(f"this git has no {' '.join(args)}: {done.stderr.decode().splitlines()[0]}")
        repo = Repo(path)
        fill(repo)
        return repo

    return make


KINDS: dict[str, Callable[[Repo, Path], Repo]] = {
    "plain": lambda origin, path: cloned(origin, path),
    "shallow": lambda origin, path: cloned(origin, path, "--depth=1"),
    "partial": lambda origin, path: cloned(origin, path, "--filter=blob:none"),
    "without trees": lambda origin, path: cloned(origin, path, "--filter=tree:0"),
    "partial and sparse": sparse("--cone", "cone", clone=("--filter=blob:none",)),
    "shallow, partial and sparse": sparse("--cone", "cone", clone=("--filter=blob:none", "--depth=1")),
    "sparse, cone": sparse("--cone", "cone"),
    "sparse, patterns": sparse("--no-cone", "/*", "!/far/"),
    "sparse index": sparse("--cone", "--sparse-index", "cone"),
    "split index": configured("core.splitIndex=true", "splitIndex.maxPercentChange=100"),
    "index version 4": configured("feature.manyFiles=true"),
    "borrowed objects": lambda origin, path: cloned(origin, path, "--shared"),
    "sha256": new_format("--object-format=sha256"),
    "reftable": new_format("--ref-format=reftable"),
}
# In the short form each kind goes one of the two ways.
AS_JOB = ["plain", "shallow", "partial and sparse", "sparse index", "sha256"]
AS_FILE = [kind for kind in KINDS if kind not in AS_JOB]


def first(tree: Repo) -> None:
    tree.write("cone/a.txt", LINES.replace("3\n", "three\n"))
    tree.write("cone/new/\xff".encode("latin-1"), b"\0new")
    (tree.path / "cone/deep/b.txt").unlink()


def second(tree: Repo) -> None:
    tree.write("cone/a.txt", LINES.replace("17\n", "seventeen\n"))
    (tree.path / "cone/bin").chmod(0o755)
    tree.git("add", "-A")
    tree.git("commit", "-q", "-m", "half of it")
    (tree.path / "top").unlink()
    (tree.path / "top").symlink_to("cone")


def listing(repo: Repo, revision: str) -> Listing:
    """Paths with mode and content, whatever the object format."""
    rows = repo.git_bytes("ls-tree", "-r", "-z", revision).split(b"\0")[:-1]
    facts = [(row.partition(b"\t")[0].decode().split(), row.partition(b"\t")[2]) for row in rows]
    return [(head[0], os.fsdecode(path), repo.git_bytes("cat-file", "blob", head[2])) for head, path in facts]


@pytest.fixture(scope="module")
def wanted(origin: Repo) -> Listing:
    """What both changes make of the tree, written down here."""
    made = {name: (mode, content) for mode, name, content in listing(origin, "main")}
    del made["cone/deep/b.txt"]
    content = LINES.replace("3\n", "three\n", 1).replace("13\n", "1three\n").replace("17\n", "seventeen\n")
    made["cone/a.txt"] = ("100644", content.encode())
    made[os.fsdecode(b"cone/new/\xff")] = ("100644", b"\0new")
    made["cone/bin"] = ("100755", b"\0\1\2")
    made["top"] = ("120000", b"cone")
    return sorted((mode, name, content) for name, (mode, content) in made.items())


@pytest.mark.parametrize("kind", KINDS if FULL else AS_JOB)
def test_a_job_lands_the_same(origin: Repo, wanted: Listing, tmp_path: Path, kind: str) -> None:
    repo = KINDS[kind](origin, tmp_path / "repo")
    job = Job.begin(repo)
    assert job.unit("one", first)["outcome"] == "accepted"
    assert job.unit("two", second)["outcome"] == "accepted"
    assert job.land()["outcome"] == "done"
    assert repo.git("status", "--porcelain") == ""
    assert sorted(listing(repo, "main")) == wanted
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("kind", KINDS if FULL else AS_FILE)
def test_a_file_arrives_the_same(origin: Repo, wanted: Listing, tmp_path: Path, kind: str) -> None:
    """By hand: from the checkout itself, as a file, onto a branch that has the other change."""
    repo = KINDS[kind](origin, tmp_path / "repo")
    base = repo.head
    first(repo)
    document = collect(world_at(repo.path), by_hand(repo, base), tmp_path / "p")
    assert document["outcome"] == "collected"
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd")
    second(repo)
    repo.commit("the other")
    (tmp_path / "p.json").write_bytes(dumped(document))
    assert apply_file(world_at(repo.path), tmp_path / "p", BarePatchOptions())["outcome"] == "accepted"
    assert sorted(listing(repo, "main")) == wanted


def by_hand(repo: Repo, base: str) -> Request:
    return Request(repo.path, base, Expected(any_branch=True))


def dumped(document: Mapping[str, object]) -> bytes:
    from ktxkit.base import contracts

    return contracts.dumps("patch", document, "p.json")


# -- a partial clone that lacks what the merge needs -------------------------------------------------


@pytest.fixture
def lacking(tmp_path: Path) -> tuple[Repo, Repo, str]:
    """A clone without blobs, without files; the target moved on the server and was fetched; and the base."""
    origin = Repo.init(tmp_path / "origin")
    fill(origin)
    base = origin.head
    repo = cloned(origin, tmp_path / "repo", "--filter=blob:none", "--no-checkout")
    origin.write("far/c.txt", "upstream\n" + LINES + "c\n")
    for number in range(30):
        origin.write(f"far/many/{number}", f"{number}\n")
    origin.commit("upstream")
    repo.git("fetch", "-q", "--filter=blob:none", "origin")
    repo.git("update-ref", "refs/heads/main", "refs/remotes/origin/main")
    return origin, repo, base


def missing(repo: Repo) -> int:
    return repo.git("rev-list", "--objects", "--all", "--missing=print").count("?")


def changed_file(tree: Repo) -> None:
    tree.write("far/c.txt", LINES + "c\nunit\n")


def test_what_a_merge_needs_is_fetched_at_once(lacking: tuple[Repo, Repo, str]) -> None:
    _, repo, base = lacking
    job = Job.begin(repo)
    changed_file(job.open("u", base))
    before, packs = missing(repo), len(list((repo.path / ".git/objects/pack").glob("*.promisor")))
    job.collect("u")
    assert job.apply("u", gates=False)["outcome"] == "accepted"
    assert repo.show(job.head, "far/c.txt").decode() == "upstream\n" + LINES + "c\nunit\n"
    assert before - missing(repo) == 1, "only the one blob of upstream's that the merge read"
    assert len(list((repo.path / ".git/objects/pack").glob("*.promisor"))) == packs + 1


def test_a_remote_that_is_away_is_said_and_nothing_moves(lacking: tuple[Repo, Repo, str]) -> None:
    origin, repo, base = lacking
    job = Job.begin(repo)
    changed_file(job.open("u", base))
    job.collect("u")
    away = origin.path.rename(origin.path.with_name("away"))
    with pytest.raises(CannotRun, match="1 object of this partial clone cannot be fetched: origin did not give them"):
        job.apply("u", gates=False)
    assert job.head == repo.git("rev-parse", "main")
    away.rename(origin.path)
    assert job.apply("u", gates=False)["outcome"] == "accepted"


def test_what_the_gates_read_is_fetched_at_once(tmp_path: Path) -> None:
    origin = Repo.init(tmp_path / "origin")
    fill(origin)
    for number in range(20):
        origin.write(f"wiki/global/p{number}.md", f"---\nsummary: page {number}\n---\nText.\n")
    origin.commit()
    repo = cloned(origin, tmp_path / "repo", "--filter=blob:none", "--no-checkout")
    with Objects(world_at(repo.path).git) as objects:
        objects.read(repo.git("rev-parse", "main:top"))  # as a checkout of something else would
    packs, before = len(list((repo.path / ".git/objects/pack").glob("*.promisor"))), missing(repo)
    verdict = check_tree(world_at(repo.path), repo.tree)
    assert verdict["looked"]["files"] == 20
    assert before - missing(repo) == 20
    assert len(list((repo.path / ".git/objects/pack").glob("*.promisor"))) == packs + 1


def test_a_patch_from_elsewhere_fetches_what_it_changes(lacking: tuple[Repo, Repo, str], tmp_path: Path) -> None:
    origin, repo, base = lacking
    repo.git("reset", "-q", "--hard", base)
    origin.git("checkout", "-q", "-b", "work", base)
    origin.write("far/d/e.txt", "changed\n")
    origin.commit()
    (tmp_path / "p").write_bytes(origin.git_bytes("diff", "--binary", "--full-index", base, "HEAD"))
    repo.git("sparse-checkout", "set", "cone")
    done = spawn("patch-apply", str(tmp_path / "p"), "--base", base, "--json", cwd=repo.path)
    assert (done.status, done.json["outcome"]) == (0, "accepted"), done
    assert repo.show("main", "far/d/e.txt") == b"changed\n"


def test_an_object_that_is_lost_without_a_promise_is_named(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    fill(repo)
    base = repo.head
    changed_file(repo)
    oid = repo.git("rev-parse", f"{base}:far/c.txt")
    (repo.path / ".git/objects" / oid[:2] / oid[2:]).unlink()
    with open_neutral(world_at(repo.path)) as neutral:
        assert neutral.promised is None
    with pytest.raises((CannotRun, BrokenContract), match=oid):
        collect(world_at(repo.path), by_hand(repo, base), tmp_path / "p")
    assert not (tmp_path / "p").exists()
