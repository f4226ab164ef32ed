"""A change of very many paths: its objects come into the store as one pack, flushed once, and survive every kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.git import staging
from tests.faults.test_durability import at, flushes, traced
from tests.support.commands import call, spawn
from tests.support.faults import FULL, Killed, count_effects, run_killed
from tests.support.integration import Job
from tests.support.recovering import put
from tests.support.repos import Repo

FILES = staging.MANY + 1
LINES = "one\ntwo\nthree\n"


def edited(tree: Repo, old: str, new: str) -> None:
    for path in tree.path.glob("d*/*"):
        path.write_text(path.read_text().replace(old, new))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where three units are open: two edit the same files at different lines, the third where the first does."""
    with pytest.MonkeyPatch.context() as patch:  # the hermetic fixture is each test's; this is made before
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "A")
            patch.setenv(f"GIT_{role}_EMAIL", "a@example.invalid")
        place = tmp_path_factory.mktemp("wide") / "place"
        repo = Repo.init(place / "repo")
        for number in range(FILES):
            repo.write(f"d{number % 3}/{number}", f"{number}\n{LINES}")
        repo.commit()
        job = Job.begin(repo)
        for key, old, new in (("a", "one", "1"), ("b", "three", "3"), ("c", "one", "uno")):
            edited(job.open(key), old, new)
    put(place, place.parent / "aside", place)
    return place, place.parent / "aside"


@pytest.fixture
def repo(made: tuple[Path, Path]) -> Repo:
    place, aside = made
    put(aside, place, place)
    return Repo(place / "repo")


def run(repo: Repo, name: str, key: str, status: int = 0, env: dict[str, str] | None = None) -> None:
    words = (f"patch-{name}", "--job", "j1", "--unit", key)
    ran = spawn(*words, cwd=repo.path, env=env) if env else call(*words, cwd=repo.path)
    assert ran.status == status, ran


def loose(repo: Repo) -> int:
    return int(repo.git("count-objects").split()[0])


def content(repo: Repo) -> set[bytes]:
    """Every text on the integration branch, without its first line."""
    listed = repo.git("ls-tree", "-r", "refs/ktx/jobs/j1/integration").splitlines()
    return {repo.git_bytes("cat-file", "blob", line.split()[2]).partition(b"\n")[2] for line in listed}


def test_its_objects_are_packs(repo: Repo) -> None:
    before = loose(repo)
    for key in ("a", "b"):
        run(repo, "collect", key)
        run(repo, "apply", key)
    assert content(repo) == {b"1\ntwo\n3\n"}
    assert loose(repo) - before < 10, "commits, and trees of the first merge"
    assert "missing" not in repo.git("fsck", "--full", "--connectivity-only")
    assert not list((repo.path / ".ktx/tmp").iterdir())


def test_what_the_unit_committed_is_flushed_as_one(repo: Repo, tmp_path: Path) -> None:
    tree = Repo(repo.path / ".ktx/worktrees/j1/0001-a")
    tree.commit()
    before = loose(repo)
    run(repo, "collect", "a", env=traced(tmp_path))
    assert flushes(tmp_path)["pack-objects"] >= 1
    repo.git("prune-packed")
    assert before - loose(repo) >= FILES


def test_a_conflict_leaves_nothing(repo: Repo) -> None:
    for key in ("a", "c"):
        run(repo, "collect", key)
    run(repo, "apply", "a")
    before = repo.git("count-objects", "-v")
    run(repo, "apply", "c", 3)
    assert repo.git("count-objects", "-v") == before
    assert not list((repo.path / ".ktx/tmp").iterdir())


def test_it_is_on_the_disk_before_anything_names_it(repo: Repo, tmp_path: Path) -> None:
    run(repo, "collect", "a", env=traced(tmp_path))
    assert flushes(tmp_path)["pack-objects"] >= 1
    run(repo, "apply", "a")
    run(repo, "collect", "b")
    effects = count_effects("patch-apply", ["--job", "j1", "--unit", "b"], repo.path)
    packed = at(effects, "os.fsync dir pack", at(effects, "exit git pack-objects"))
    assert packed < at(effects, "spawn git update-ref")


@pytest.mark.parametrize("name", ["collect", "apply"] if FULL else ["apply"])
def test_killed_while_it_is_packed(repo: Repo, tmp_path: Path, name: str) -> None:
    if name == "apply":
        run(repo, "collect", "a")
        run(repo, "apply", "a")
        run(repo, "collect", "b")
    place, args = repo.path.parent, ["--job", "j1", "--unit", "b"]
    put(place, tmp_path / "aside", place)
    effects = count_effects(f"patch-{name}", args, repo.path)
    packed = next(n for n, effect in enumerate(effects) if effect.startswith("spawn git pack-objects"))
    for n, when in ((packed, "torn"), (packed + 1, "after"))[: 2 if FULL else 1]:
        put(tmp_path / "aside", place, place)
        assert isinstance(run_killed(f"patch-{name}", args, repo.path, n, when), Killed)
        run(repo, name, "b")
        assert not list((repo.path / ".ktx/tmp").iterdir())
        if name == "apply":
            assert content(repo) == {b"1\ntwo\n3\n"}
