"""What a killed git leaves is cleared when nobody can be at work on it, and only then."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ktxkit.base.clock import Limits
from ktxkit.base.lock import flocked_directory
from ktxkit.git import stale
from ktxkit.store.rules.names import base_ref
from ktxkit.store.worktrees import Worktrees
from ktxkit.store.world import World
from tests.support.commands import call
from tests.support.repos import Repo

QUICK = Limits(lock_age=0.2)
AGE = QUICK.lock_age
WHOLE = {"gitdir": "/nowhere/.git\n", "commondir": "../..\n", "HEAD": "0" * 40 + "\n", "locked": "initializing"}
HALVES = {
    "an empty directory": (),
    "only the lock": ("locked",),
    "an empty commondir": ("locked", "gitdir", "HEAD", "commondir!"),
    "an empty gitdir": ("locked", "gitdir!"),
    "no HEAD": ("locked", "gitdir", "commondir"),
    "an empty HEAD": ("locked", "gitdir", "commondir", "HEAD!"),
}


def worktrees(repo: Repo) -> Worktrees:
    return Worktrees.of(World(repo.path, os.environ, limits=QUICK))


def half(repo: Repo, name: str) -> Path:
    admin = repo.path / ".git/worktrees/0001-u1"
    admin.mkdir(parents=True)
    for file in HALVES[name]:
        (admin / file.removesuffix("!")).write_text("" if file.endswith("!") else WHOLE[file])
    return admin


@contextmanager
def living_git(repo: Repo, *args: str, cwd: Path | None = None, **env: str) -> Iterator[None]:
    """A process that looks like a git at work in the repository."""
    child = subprocess.Popen(["git", "30", *args], executable="/bin/sleep", cwd=cwd or repo.path, env=env)
    while not Path(f"/proc/{child.pid}/cmdline").read_bytes():  # empty for a moment after the exec
        time.sleep(0.001)
    try:
        yield
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("name", HALVES)
def test_half_a_registration_stops_nobody(repo: Repo, name: str) -> None:
    admin = half(repo, name)
    assert worktrees(repo).listed()[0].path == repo.path
    opened = call("worktree-open", "--job", "j1", "--unit", "u1", cwd=repo.path, limits=QUICK)
    assert opened.status == 0, opened.err
    time.sleep(AGE)
    assert call("worktree-open", "--prune", cwd=repo.path, limits=QUICK).status == 0
    assert not admin.exists() or (admin / "gitdir").read_text().strip() == opened.out.strip() + "/.git"
    assert len(repo.git("worktree", "list").splitlines()) == 2


ALIVE: dict[str, tuple[bool, dict[str, str], bool]] = {
    "in the checkout": (False, {}, False),
    "elsewhere, for this repository": (True, {"GIT_DIR": "{repo}/.git"}, False),
    "elsewhere, for another": (True, {}, True),
}


@pytest.mark.parametrize("name", ALIVE)
def test_what_a_living_git_makes_is_left_alone(repo: Repo, tmp_path: Path, name: str) -> None:
    away, env, expected = ALIVE[name]
    common = repo.path / ".git"
    named = {key: value.format(repo=repo.path) for key, value in env.items()}
    with living_git(repo, cwd=tmp_path if away else None, **named):
        time.sleep(stale.MARGIN + 0.1)
        admin = half(repo, "no HEAD")
        time.sleep(AGE + 0.1)
        assert stale.is_stale(admin, common, age=AGE) is expected
        assert stale.is_stale(admin, common, b"worktree", b"add", age=AGE), "it is no `worktree add`"
    assert stale.is_stale(admin, common, age=AGE)


def test_a_git_that_came_later_proves_nothing_against_it(repo: Repo) -> None:
    admin = half(repo, "no HEAD")
    time.sleep(AGE + 0.1)
    with living_git(repo):
        assert stale.is_stale(admin, repo.path / ".git", age=AGE)


def test_a_reader_that_lives_long_is_no_writer(repo: Repo) -> None:
    with living_git(repo):
        assert stale.writers(repo.path / ".git")
    child = subprocess.Popen(["git", "cat-file", "--batch"], cwd=repo.path, stdin=subprocess.PIPE)
    assert not stale.writers(repo.path / ".git")
    child.communicate()


@pytest.mark.parametrize("ref", ["refs/ktx/jobs/j1/base", "refs/heads/new"])
def test_a_lock_that_nobody_holds_is_cleared(repo: Repo, ref: str) -> None:
    lock = repo.path / f".git/{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    worktrees(repo).keep(ref, repo.head)
    assert repo.git("rev-parse", ref) == repo.head and not lock.exists()


def test_a_lock_outside_of_the_repository_is_never_touched(repo: Repo, tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.touch()
    time.sleep(AGE + 0.1)
    assert not stale.clear_lock(f"Unable to create '{lock}': File exists".encode(), repo.path / ".git", AGE)
    assert lock.exists()


@pytest.mark.parametrize("how", ["that git complained of", "of an index"])
def test_a_lock_that_another_command_has_cleared_is_not_looked_for_again(repo: Repo, how: str) -> None:
    """Two commands saw one lock that was left: the second removed the next one, that of a living git."""
    common, lock = repo.path / ".git", repo.path / ".git/index.lock"
    lock.touch()
    time.sleep(AGE + 0.1)
    told = f"Unable to create '{lock}': File exists".encode()
    other = Thread(
        target=(lambda: stale.clear_lock(told, common, AGE))
        if how == "that git complained of"
        else (lambda: stale.clear_left_behind(lock, common, 0.0, AGE))
    )
    with living_git(repo):
        with flocked_directory(common):
            other.start()
            other.join(0.3)
            assert other.is_alive(), "looking and removing is one step"
            lock.unlink()
            lock.touch()  # the living git's
        other.join(60)
        assert not other.is_alive() and lock.exists()


def test_the_reference_of_a_job_survives_a_killed_update(repo: Repo) -> None:
    lock = repo.path / f".git/{base_ref('j1')}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert call("worktree-open", "--job", "j1", "--unit", "u1", cwd=repo.path, limits=QUICK).status == 0


def test_what_became_whole_while_its_maker_was_looked_for_stays(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load more than a second can pass between the look at a registration and that at the processes."""
    admin = half(repo, "an empty commondir")
    asked = stale.is_stale

    def after_it_was_made(path: Path, *words: Any, **more: Any) -> bool:
        for name, text in WHOLE.items():
            (admin / name).write_text(text)
        time.sleep(2 * AGE)
        return asked(path, *words, **more)

    monkeypatch.setattr(stale, "is_stale", after_it_was_made)
    assert stale.clear_registrations(repo.path / ".git", AGE) == [] and (admin / "commondir").exists()
