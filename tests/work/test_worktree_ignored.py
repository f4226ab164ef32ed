"""Ignored files that go with a worktree are named before, and copied out where somebody asks; processes keep it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktxkit.app import views
from ktxkit.store.world import World
from ktxkit.work.closing import RemovalOptions
from ktxkit.work.closing import close as close_worktree
from tests.support.commands import Ran, call, spawn
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import PathAccount


@pytest.fixture
def repo(repo: Repo) -> Repo:
    repo.write(".gitignore", ".env\nresults/\n*.log\n")
    repo.commit()
    return repo


def opened(repo: Repo, *words: str) -> Path:
    """A worktree with ignored files: .env, results/a, results/deep/b, x.log."""
    path = Path(call("worktree-open", *words, "--json", cwd=repo.path).document["path"])
    for name in (".env", "results/a", "results/deep/b", "x.log"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(f"{name}\n")
    (path / ".env").chmod(0o600)
    return path


def close(repo: Repo, *words: str) -> Ran:
    return call("worktree-close", "topic", "--outcome", "success", "--json", *words, cwd=repo.path)


def aborted(repo: Repo, job: str = "j1") -> None:
    path = repo.path / f".ktx/jobs/{job}/job.json"
    path.write_text(path.read_text().replace('"open"', '"aborted"'))


@contextmanager
def standing(path: Path) -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], cwd=path) as child:
        try:
            yield child.pid
        finally:
            child.kill()


def test_close_copies_out_what_is_asked_for(repo: Repo) -> None:
    path = opened(repo, "topic")
    done = close(repo, "--keep-ignored", ".env", "--keep-ignored", "results/")
    assert done.status == 0 and not path.exists(), done.err
    kept = done.document["ignoredKept"]
    copies = Path(kept["path"])
    assert kept["count"] == 3 and copies == repo.path / ".ktx/kept-ignored/adhoc/topic/1"
    assert (copies / ".env").read_text() == ".env\n" and (copies / ".env").stat().st_mode & 0o777 == 0o600
    assert (copies / "results/deep/b").read_text() == "results/deep/b\n" and not (copies / "x.log").exists()
    assert done.document["ignored"] == {"count": 1, "sample": [{"path": "x.log"}]}, "only what is gone"


def test_close_with_all_kept_loses_none(repo: Repo) -> None:
    opened(repo, "topic")
    done = call("worktree-close", "topic", "--outcome", "success", "--keep-ignored", "*", cwd=repo.path)
    assert "4 ignored files copied to" in done.err and "gone with it" not in done.err


def test_a_pattern_that_names_nothing_keeps_nothing(repo: Repo) -> None:
    opened(repo, "topic")
    done = close(repo, "--keep-ignored", "*.nothing")
    assert done.document["ignored"]["count"] == 4 and "ignoredKept" not in done.document
    assert not (repo.path / ".ktx/kept-ignored").exists()


def test_prune_and_clean_name_them_before_and_copy_them_out(repo: Repo) -> None:
    first = opened(repo, "--job", "j1", "--unit", "a")
    aborted(repo)
    assert (
        "goes with it: 4 ignored files (.env, results/a, results/deep/b, x.log)"
        in call("worktree-open", "--list", cwd=repo.path).out
    )
    shown = call("git-ktx", "clean", cwd=repo.path).out
    assert "4 ignored files (.env, results/a, results/deep/b, x.log)" in shown and first.exists()
    done = call("worktree-open", "--prune", "--keep-ignored", ".env", "--json", cwd=repo.path)
    (row,) = (row for row in done.document["worktrees"] if row.get("pruned"))
    assert (Path(row["ignoredKept"]["path"]) / ".env").is_file() and row["ignored"]["count"] == 3
    second = opened(repo, "--job", "j2", "--unit", "a")
    aborted(repo, "j2")
    cleared = call("git-ktx", "clean", "--yes", "--keep-ignored", "results/**", "--json", cwd=repo.path)
    (item,) = (item for item in cleared.document["items"] if item["name"] == str(second))
    assert item["ignoredKept"]["count"] == 2 and not second.exists()
    assert (Path(item["ignoredKept"]["path"]) / "results/a").is_file()
    assert "ignored" not in call("git-ktx", "clean", cwd=repo.path).out, "the copies are never cleared"
    assert (Path(item["ignoredKept"]["path"]) / "results/a").is_file()


def test_a_second_attempt_has_copies_of_its_own(repo: Repo) -> None:
    opened(repo, "topic")
    first = close(repo, "--keep-ignored", ".env").document["ignoredKept"]["path"]
    opened(repo, "topic")
    second = close(repo, "--keep-ignored", ".env").document["ignoredKept"]["path"]
    assert first != second and Path(first).is_dir() and Path(second).is_dir()


def test_a_process_keeps_its_directory_from_closing_unless_forced(repo: Repo) -> None:
    path = opened(repo, "topic")
    words = ("worktree-close", "topic", "--outcome", "success")
    with standing(path / "results") as pid:
        refused = spawn(*words, cwd=repo.path)  # apart: a process of the closing one's own is nobody else's
        assert refused.status == 1 and f"processes stand in it: {pid}" in refused.err and path.exists()
        assert "--force" in refused.err
        done = spawn(*words, "--force", cwd=repo.path)
    assert done.status == 0 and f"taken from under process {pid}" in done.err and not path.exists()


def test_a_process_keeps_its_directory_from_prune_and_clean_unless_forced(repo: Repo) -> None:
    first, second = (opened(repo, "--job", "j1", "--unit", key) for key in "ab")
    aborted(repo)
    with standing(first) as one, standing(second) as two:
        rows = call("worktree-open", "--prune", "--json", cwd=repo.path).document["worktrees"]
        kept = {row["path"]: row["kept"] for row in rows if "kept" in row}
        assert set(kept) == {str(first), str(second)} and str(one) in kept[str(first)]
        items = call("git-ktx", "clean", "--yes", "--json", cwd=repo.path).document["items"]
        assert {(item["name"], item["busy"][0]) for item in items} == {(str(first), one), (str(second), two)}
        assert all("kept" in item for item in items) and first.exists() and second.exists()
        shown = call("git-ktx", "clean", "--yes", "--force", cwd=repo.path).out
        assert str(one) in shown and str(two) in shown and "Cleared 2 things" in shown
        assert not first.exists() and not second.exists()


def test_force_and_copies_are_refused_where_nothing_is_removed(repo: Repo) -> None:
    for option in (("--force",), ("--keep-ignored", "*")):
        done = call("worktree-open", "topic", *option, cwd=repo.path)
        assert done.status == 2 and "not obeyed" in done.err and not (repo.path / ".ktx/worktrees/adhoc").exists()


def test_a_file_that_cannot_be_copied_removes_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    path = opened(repo, "topic")
    blocked = repo.path / ".ktx/kept-ignored"
    blocked.write_text("a file in the way of the directory\n")
    done = close(repo, "--keep-ignored", ".env")
    assert done.status != 0 and (path / ".env").read_text() == ".env\n", done.out


def test_what_goes_with_a_worktree_is_named_before_it_goes(repo: Repo) -> None:
    path, seen = opened(repo, "topic"), []

    def going(place: Path, account: PathAccount) -> None:
        seen.append((place, place.exists(), account["count"]))

    with closing(World(repo.path, os.environ)) as world:
        where = views.location(world, "topic", None, None)
        close_worktree(where, "success", options=RemovalOptions(going=going))
    assert seen == [(path, True, 4)] and not path.exists()


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize(
    "command", [["worktree-close", "topic"], ["worktree-open", "--prune"], ["git-ktx", "clean", "--yes"]]
)
def test_each_command_that_removes_names_them(repo: Repo, command: list[str], quiet: bool) -> None:
    path = opened(repo, *(["topic"] if command[0] == "worktree-close" else ["--job", "j1", "--unit", "a"]))
    if command[0] != "worktree-close":
        aborted(repo)
    done = call(*command, *(["-q"] if quiet else []), cwd=repo.path)
    said = f"{path} goes, with 4 ignored files (.env, results/a, results/deep/b, x.log)"
    assert done.status == 0 and not path.exists() and (said in done.err) is not quiet, done
