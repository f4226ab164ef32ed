"""Jobs on repositories of every kind: they work, or end with a clear status 2."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, call
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

UNITS: dict[str, Any] = {
    "units": [unit("page", "mkdir -p wiki && echo hello > wiki/page.txt"), unit("b", "echo b > b.txt")]
}


def made(path: Path, *args: str) -> Repo:
    repo = Repo.init(path, *args)
    repo.write("README", "a repository\n")
    repo.commit("first")
    return repo


def run(repo: Repo, place: Path | None = None, **more: Any) -> Ran:
    path = job_file(repo, {**UNITS, **more})
    return call("job-run", str(path), "--job", "j1", cwd=place or repo.path)


def landed(repo: Repo) -> list[str]:
    return repo.git("ls-tree", "-r", "--name-only", "main").split("\n")


def test_sha256(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo", "--object-format=sha256")
    assert run(repo).status == 0
    assert landed(repo) == ["README", "b.txt", "wiki/page.txt"]
    assert len(repo.head) == 64


def test_a_path_with_spaces_and_other_letters(tmp_path: Path) -> None:
    repo = made(tmp_path / "mein Verzeichnis é \u65e5\u672c")
    ran = run(repo)
    assert ran.status == 0, ran.err
    assert landed(repo) == ["README", "b.txt", "wiki/page.txt"]


def test_from_a_directory_below_the_top(repo: Repo) -> None:
    repo.write("deep/er/x", "x\n")
    repo.commit()
    assert run(repo, repo.path / "deep/er").status == 0
    assert (repo.path / ".ktx/jobs/j1/report.json").exists()


def test_detached_head_needs_a_target(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    ran = run(repo)
    assert (ran.status, "HEAD is detached" in ran.err) == (2, True)
    ran = run(repo, target="main")
    assert ran.status == 0, ran.err
    assert "b.txt" in landed(repo)
    assert repo.git("rev-parse", "HEAD") != repo.git("rev-parse", "main"), "the detached checkout stayed where it was"


def test_unborn_branch(tmp_path: Path) -> None:
    ran = run(Repo.init(tmp_path / "repo"))
    assert ran.status == 2
    assert "has no commit" in ran.err and "Traceback" not in ran.err


def test_bare_repository_with_worktrees(repo: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "central.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    central = Repo(bare)
    central.git("worktree", "add", "-q", str(tmp_path / "work"), "main")
    path = job_file(repo, UNITS)
    ran = call("job-run", str(path), "--job", "j1", cwd=tmp_path / "work")
    assert ran.status == 0, ran.err
    assert "b.txt" in landed(central)
    assert (tmp_path / "work/b.txt").exists(), "the checkout follows its branch"
    assert (bare / "ktx/jobs/j1/report.json").exists(), "the store of a bare repository is in it"


def test_bare_repository_alone(repo: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "central.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    path = job_file(repo, {**UNITS, "target": "main"})
    ran = call("job-run", str(path), "--job", "j1", cwd=bare)
    assert ran.status == 0, ran.err
    assert "b.txt" in landed(Repo(bare))


def test_a_submodule_has_its_own_store(repo: Repo, tmp_path: Path) -> None:
    library = made(tmp_path / "library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    inside = Repo(repo.path / "lib")
    path = job_file(repo, UNITS)
    ran = call("job-run", str(path), "--job", "j1", cwd=inside.path)
    assert ran.status == 0, ran.err
    assert "b.txt" in landed(inside)
    assert (inside.path / ".ktx/jobs/j1").exists() and not (repo.path / ".ktx").exists()


def test_a_repository_with_submodules_keeps_them(repo: Repo, tmp_path: Path) -> None:
    library = made(tmp_path / "library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    link = repo.git("ls-tree", "main", "lib")
    ran = run(repo)
    assert ran.status == 0, ran.err
    assert repo.git("ls-tree", "main", "lib") == link
    assert (repo.path / "lib/README").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to someone else")
def test_a_repository_that_git_refuses(repo: Repo) -> None:
    subprocess.run(["chown", "-R", "12345", str(repo.path)], check=True)
    ran = run(repo)
    assert ran.status == 2
    assert "safe.directory" in ran.err and "Traceback" not in ran.err


def test_outside_a_repository(tmp_path: Path) -> None:
    ran = run(Repo(tmp_path))
    assert ran.status == 2
    assert "not a git repository" in ran.err


def test_a_target_that_is_checked_out_nowhere(repo: Repo) -> None:
    repo.git("branch", "release")
    repo.git("checkout", "-q", "-b", "work")
    assert run(repo, target="release").status == 0
    assert "b.txt" in repo.git("ls-tree", "--name-only", "release").split()
    assert outcomes(repo) == {"page": "accepted", "b": "accepted"}
    assert not (repo.path / "b.txt").exists()


def test_a_checkout_with_other_dirt_is_left_as_it_is(repo: Repo) -> None:
    repo.write("README", "edited by hand\n")
    repo.write("untracked", "mine\n")
    assert run(repo).status == 0
    assert (repo.path / "README").read_text() == "edited by hand\n"
    assert (repo.path / "untracked").read_text() == "mine\n"
    assert (repo.path / "b.txt").exists()


def test_dirt_in_the_way_is_refused_by_name(repo: Repo) -> None:
    before = repo.head
    repo.write("b.txt", "mine\n")
    ran = run(repo)
    assert ran.status == 1, ran.err
    assert "b.txt" in ran.err + ran.out
    assert (repo.head, (repo.path / "b.txt").read_text()) == (before, "mine\n")


def test_files_that_appear_beside_a_landing_do_not_block_it(repo: Repo) -> None:
    """An editor or a build writes into the checkout while the job lands: other dirt is left alone."""
    done = threading.Event()

    def noise() -> None:
        number = 0
        while not done.is_set():
            number += 1
            repo.write(f"noise.{number % 50}", f"{number}\n")
            (repo.path / f"noise.{(number + 25) % 50}").unlink(missing_ok=True)
            time.sleep(0.001)

    worker = threading.Thread(target=noise)
    worker.start()
    try:
        ran = run(repo)
    finally:
        done.set()
        worker.join()
    assert ran.status == 0, ran.err
    assert (repo.path / "b.txt").exists()


def test_a_store_that_is_no_longer_ignored_is_no_dirt_of_the_checkout(repo: Repo) -> None:
    repo.write("b.txt", "in the way\n")
    assert run(repo).status == 1
    (repo.path / "b.txt").unlink()
    (repo.path / ".git/info/exclude").write_text("")
    ran = call("job-land", "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert (repo.path / "b.txt").exists()


@pytest.mark.parametrize("kind", ["symlink", "included again"])
def test_a_store_that_cannot_be_one_is_refused_before_any_unit(repo: Repo, tmp_path: Path, kind: str) -> None:
    if kind == "symlink":
        (tmp_path / "elsewhere").mkdir()
        (repo.path / ".ktx").symlink_to(tmp_path / "elsewhere")
    else:
        repo.write(".ktx/tracked", "x\n")
        repo.write(".gitignore", "!.ktx\n")
        repo.commit()
    ran = run(repo)
    assert ran.status == (5 if kind == "symlink" else 2), ran.err + ran.out
    assert "the store" in ran.err
    assert not list((repo.path / ".ktx").glob("jobs/*/units/*"))
