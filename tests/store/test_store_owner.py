"""A store kept elsewhere (KTX_DIR) holds the jobs of one repository, and says of which."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo


@pytest.fixture
def first(tmp_path: Path) -> Repo:
    repo = Repo.init(tmp_path / "first")
    repo.write("base", "base\n")
    repo.commit()
    opened = open_unit(repo.path)
    assert opened.status == 0, opened.err
    return repo


def open_unit(place: Path, key: str = "a") -> Ran:
    return call("worktree-open", "--job", "j", "--unit", key, "--target", "main", cwd=place)


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_DIR", str(tmp_path / "store"))


@pytest.fixture
def second(first: Repo, tmp_path: Path) -> Path:
    clone = tmp_path / "second"
    first.git("clone", "-q", str(first.path), str(clone))
    return clone


@pytest.mark.parametrize(
    "command",
    [
        ("worktree-open", "--job", "j", "--unit", "b"),
        ("worktree-open", "--job", "k", "--unit", "b", "--target", "main"),
        ("patch-collect", "--job", "j", "--unit", "a"),
        ("job-land", "--job", "j"),
        ("job-report", "j"),
        ("git-ktx", "status"),
        ("git-ktx", "clean", "--yes"),
    ],
    ids=" ".join,
)
def test_another_repository_is_refused(first: Repo, second: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    before = (tmp_path / "store/jobs/j/job.json").read_bytes()
    refused = call(*command, cwd=second)
    assert refused.status == 1, refused
    assert f"the store belongs to another repository: {first.path / '.git'}" in refused.err
    assert "another KTX_DIR" in refused.err
    assert (tmp_path / "store/jobs/j/job.json").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "store/jobs").iterdir()) == ["j"]


def test_a_repository_that_was_renamed_keeps_its_store(first: Repo, tmp_path: Path) -> None:
    moved = first.path.rename(tmp_path / "moved")
    assert open_unit(moved, "b").status == 0
    assert call("git-ktx", "status", cwd=moved).status in (0, 1)
    assert call("worktree-open", "--job", "k", "--unit", "b", "--target", "main", cwd=moved).status == 0
    assert json.loads((tmp_path / "store/store.json").read_bytes())["path"] == str(moved / ".git")


def test_one_that_was_put_back_at_its_place_keeps_it(first: Repo, tmp_path: Path) -> None:
    shutil.copytree(first.path, tmp_path / "backup", symlinks=True)
    shutil.rmtree(first.path)
    (tmp_path / "backup").rename(first.path)
    assert call("git-ktx", "status", cwd=first.path).status in (0, 1)


def test_where_the_owner_is_gone_the_way_out_is_named(first: Repo, second: Path, tmp_path: Path) -> None:
    shutil.rmtree(first.path)
    refused = call("git-ktx", "status", cwd=second)
    assert refused.status == 1 and f"remove {tmp_path / 'store/store.json'}" in refused.err
    (tmp_path / "store/store.json").unlink()
    assert call("git-ktx", "status", cwd=second).status in (0, 1)


def test_a_linked_worktree_and_a_unit_are_the_same_repository(first: Repo, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    first.git("worktree", "add", "-q", "--detach", str(linked))
    assert open_unit(linked, "b").status == 0
    inside = tmp_path / "store/worktrees/j/0001-a"
    assert call("patch-collect", cwd=inside).status in (0, 1)


def test_the_repositorys_own_store_needs_no_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KTX_DIR")
    repo = Repo.init(tmp_path / "repo")
    repo.write("base", "base\n")
    repo.commit()
    assert call("worktree-open", "--job", "j", "--unit", "a", "--target", "main", cwd=repo.path).status == 0
    assert not (repo.path / ".ktx/store.json").exists()


def test_a_damaged_owner_is_named(first: Repo, tmp_path: Path) -> None:
    (tmp_path / "store/store.json").write_text("{}")
    broken = open_unit(first.path, "b")
    assert broken.status == 5 and "store.json" in broken.err
