"""A path that becomes something of another kind, uncommitted: units land, their worktrees close."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktxkit.git.git import Git, GitFailed
from ktxkit.git.staging import stage
from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

UNIT = ("--job", "j1", "--unit", "u1")
CHANGES = {
    "file to directory": ("rm d/a; mkdir d/a; echo in > d/a/inner", ["d/a/inner", "d/n", "l", "r/x/y"]),
    "symlink to directory": ("rm l; mkdir l; echo in > l/inner", ["d/a", "d/n", "l/inner", "r/x/y"]),
    "directory to file": ("rm -r r; echo f > r", ["d/a", "d/n", "l", "r"]),
    "directory to symlink": ("rm -r r; ln -s d r", ["d/a", "d/n", "l", "r"]),
    "file to empty directory": ("rm d/a; mkdir d/a", ["d/n", "l", "r/x/y"]),
    "symlink to file": ("rm l; echo f > l", ["d/a", "d/n", "l", "r/x/y"]),
}


@pytest.fixture
def mixed(repo: Repo) -> Repo:
    for name in ("d/a", "d/n", "r/x/y"):
        repo.write(name, f"{name}\n")
    (repo.path / "l").symlink_to("d/n")
    repo.commit()
    return repo


def files(repo: Repo, revision: str) -> list[str]:
    return [name for name in repo.git("ls-tree", "-r", "--name-only", revision).split() if name != "README"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_job_lands_it(mixed: Repo, name: str) -> None:
    command, expected = CHANGES[name]
    document = {"units": [unit("u1", command), unit("u2", "echo ok > ok")]}
    ran = call("job-run", str(job_file(mixed, document)), "--job", "j1", "--quiet", cwd=mixed.path)
    assert ran.status == 0, ran.err
    assert outcomes(mixed) == {"u1": "accepted", "u2": "accepted"}
    assert files(mixed, "main") == sorted([*expected, "ok"])
    assert not (mixed.path / ".ktx/worktrees/j1").exists() or not list((mixed.path / ".ktx/worktrees/j1").iterdir())


def opened(repo: Repo, command: str) -> Path:
    path = Path(call("worktree-open", *UNIT, "--json", cwd=repo.path).document["path"])
    subprocess.run(["sh", "-c", command], cwd=path, check=True)
    return path


@pytest.mark.parametrize("name", CHANGES)
def test_a_collected_worktree_closes(mixed: Repo, name: str) -> None:
    path = opened(mixed, CHANGES[name][0])
    assert call("patch-collect", *UNIT, cwd=mixed.path).status == 0
    done = call("worktree-close", *UNIT, "--outcome", "success", "--json", cwd=mixed.path)
    assert done.status == 0 and "atticRef" not in done.document and not path.exists(), done.out


@pytest.mark.parametrize("name", CHANGES)
def test_one_that_changed_since_goes_to_the_attic(mixed: Repo, name: str) -> None:
    command, expected = CHANGES[name]
    path = opened(mixed, command)
    assert call("patch-collect", *UNIT, cwd=mixed.path).status == 0
    (path / "d/n").write_text("edited since\n")
    refused = call("worktree-close", *UNIT, "--outcome", "success", "--json", cwd=mixed.path)
    assert refused.status == 1 and "would lose" in refused.json["error"]["message"], refused.out
    done = call("worktree-close", *UNIT, "--outcome", "success", "--discard", "--json", cwd=mixed.path)
    assert done.status == 0 and not path.exists(), done.out
    assert files(mixed, done.document["atticRef"]) == expected


def test_a_shortcut_that_fails_ends_nothing(mixed: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    path = opened(mixed, "echo new > new")
    assert call("patch-collect", *UNIT, cwd=mixed.path).status == 0
    failed: list[list[bytes]] = []

    def fails(git: Git, paths: list[bytes]) -> None:
        if git.env["GIT_INDEX_FILE"].endswith("index-of-paths"):
            failed.append(paths)
            raise GitFailed(git.run("rev-parse", "--no-such", "none", ok=None))
        stage(git, paths)

    monkeypatch.setattr("ktxkit.work.selection.stage", fails)
    done = call("worktree-close", *UNIT, "--outcome", "success", "--json", cwd=mixed.path)
    assert failed and done.status == 0 and not path.exists(), done.out


def test_a_file_that_became_a_repository_is_refused_by_name(mixed: Repo) -> None:
    opened(mixed, "rm d/a; git init -q d/a; cd d/a; git commit -q --allow-empty -m x")
    ran = call("patch-collect", *UNIT, "--json", cwd=mixed.path)
    assert ran.status == 1 and "d/a" in ran.out and "repository" in ran.out, ran.out
