"""Absent, failed and killed are three answers of git, told apart in one place; a git that waits for a pipe is ended."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base.errors import CannotRun, of_machinery
from ktxkit.git.git import Git, GitFailed, no_answer, repeatable
from ktxkit.git.objects import Objects
from tests.support.repos import Repo

ANSWERS = {
    "no such ref": (1, b""),
    "not a repository": (128, b"fatal: not a git repository (or any of the parent directories): .git\n"),
    "a name that says so": (128, b"fatal: pathspec 'No space left on device' did not match any files\n"),
    "a bad patch": (128, b"error: corrupt patch at line 3\n"),
    "a lock in one worktree": (128, b"fatal: Unable to create '/r/.git/worktrees/0001-a/index.lock': File exists.\n"),
    "a usage error": (129, b"usage: git cat-file ...\n"),
    "what is said beside an answer": (0, b"warning: unable to write loose object: No space left on device\n"),
}
NO_ANSWERS = {
    "killed": (-9, b""),
    "crashed": (-11, b""),
    "killed below a shell": (137, b""),
    "a full disk": (128, b"fatal: write error: No space left on device\n"),
    "a full disk, by another sentence": (128, b"error: unable to write file src/a.py\n"),
    "a quota": (128, b"error: unable to create temporary file: Disk quota exceeded\n"),
    "no descriptors": (128, b"warning: x\nfatal: cannot open 'HEAD': Too many open files\n"),
    "no descriptors for the loader": (127, b"git: error while loading shared libraries: libz.so.1: ...: Error 24\n"),
    "no memory": (128, b"fatal: Out of memory, malloc failed (tried to allocate 9 bytes)\n"),
    "no processes": (128, b"fatal: cannot create async thread: Resource temporarily unavailable\n"),
    "a broken disk": (128, b"error: read error while indexing a: Input/output error\n"),
    "the index's lock": (128, b"fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process"),
    "a ref's lock": (1, b"error: cannot lock ref 'refs/x': Unable to create '/r/.git/refs/x.lock': File exists.\n"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer(case: str) -> None:
    assert not no_answer(*ANSWERS[case])


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_no_answer(case: str) -> None:
    assert no_answer(*NO_ANSWERS[case])


REPEATABLE = {
    ("rev-parse", "HEAD"): True,
    ("-c", "a.b=c", "status"): True,
    ("config", "--get", "a.b"): True,
    ("config", "a.b", "c"): False,
    ("config", "--unset", "a.b"): False,
    ("symbolic-ref", "-q", "HEAD"): True,
    ("symbolic-ref", "HEAD", "refs/heads/x"): False,
    ("commit-tree", "-S", "x"): False,
    ("commit-tree", "x", "-m", "text"): True,
    ("update-ref", "a", "b"): False,
    ("merge", "--ff-only", "x"): False,
    ("worktree", "add", "x"): False,
    ("update-index", "-z"): False,
    ("apply", "--cached", "x"): False,
}


@pytest.mark.parametrize("words", REPEATABLE, ids=" ".join)
def test_what_may_be_asked_twice(words: tuple[str, ...]) -> None:
    assert repeatable(words, own_index=False) is REPEATABLE[words]


def test_an_index_of_our_own_may_be_written_twice() -> None:
    assert repeatable(("update-index", "-z"), own_index=True) and not repeatable(("apply", "x"), own_index=True)


Faulty = Callable[[str], Git]


@pytest.fixture
def faulty(repo: Repo, tmp_path: Path) -> Faulty:
    """A runner in the repository whose git is a script: `$real` is the real one, `$tries` tells how often it began."""

    def make(script: str) -> Git:
        folder = tmp_path / "bin"
        folder.mkdir()
        real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
        count = f"echo x >> {tmp_path}/tries; tries=$(wc -l < {tmp_path}/tries)"
        (folder / "git").write_text(f"#!/bin/sh\nreal={real}\n{count}\n{script}\n")
        (folder / "git").chmod(0o755)
        return Git.scrub(repo.path, {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})

    return make


def test_a_ref_that_is_absent(repo: Repo) -> None:
    git = Git.scrub(repo.path, os.environ)
    assert git.resolve("refs/heads/none") is None and git.resolve("HEAD@{99}") is None and git.resolve("@{u}") is None


@pytest.mark.parametrize(("end", "machinery"), [("kill -KILL $$", True), ("exit 128", False), ("exit 139", True)])
def test_a_ref_that_could_not_be_read_is_not_absent(faulty: Faulty, end: str, machinery: bool) -> None:
    with pytest.raises(GitFailed) as raised:
        faulty(end).resolve("refs/heads/main")
    assert of_machinery(raised.value) is machinery


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 128"])
def test_a_question_is_asked_again(faulty: Faulty, repo: Repo, end: str) -> None:
    assert faulty(f'[ $tries -gt 1 ] || {end}; exec "$real" "$@"').resolve("refs/heads/main") == repo.head


def test_any_status_is_not_any_end(faulty: Faulty) -> None:
    with pytest.raises(GitFailed):
        faulty("kill -KILL $$").run("merge-base", "--is-ancestor", "a", "b", ok=None)


def test_who_begins_waits_for_an_answer(faulty: Faulty) -> None:
    git = faulty('[ $tries -gt 1 ] || kill -KILL $$; exec "$real" "$@"')
    assert b"branch.head" in git.begin("status", "--porcelain=v2", "--branch").answer().out


def test_an_index_lock_of_a_killed_git_does_not_stop_the_next_try(faulty: Faulty, tmp_path: Path) -> None:
    git = faulty(f'[ $tries -gt 1 ] || {{ : > {tmp_path}/own.lock; kill -KILL $$; }}; exec "$real" "$@"')
    git.having(GIT_INDEX_FILE=str(tmp_path / "own")).run("read-tree", "HEAD")
    assert (tmp_path / "own").exists() and not (tmp_path / "own.lock").exists()


def test_an_object_that_could_not_be_opened_is_not_missing(faulty: Faulty, repo: Repo) -> None:
    say = 'echo "error: unable to open loose object 12: Too many open files" >&2'
    git = faulty(f'while read verb name; do {say}; echo "$name missing"; done')
    with Objects(git) as objects, pytest.raises(CannotRun, match="Too many open files") as raised:
        objects.find(repo.head)
    assert of_machinery(raised.value)


def test_an_object_that_is_missing(repo: Repo) -> None:
    with Objects(Git.scrub(repo.path, os.environ)) as objects:
        assert objects.find("1" * 40) is None


def test_a_pipe_in_the_place_of_the_configuration(repo: Repo) -> None:
    config = repo.path / ".git/config"
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(GitFailed, match=r"waited to open the pipe .*[.]git/config and was ended") as raised:
        Git.scrub(repo.path, os.environ).run("worktree", "list")
    assert of_machinery(raised.value), "no unit is judged by what all share"


def test_a_pipe_that_is_put_back_meanwhile(repo: Repo) -> None:
    config = repo.path / ".git/config"
    kept = config.with_name("config.kept")
    config.rename(kept)
    os.mkfifo(config)
    back = threading.Timer(0.5, kept.rename, [config])
    back.start()
    assert Git.scrub(repo.path, os.environ).resolve("HEAD") == repo.head, "the git that waited is asked again"
    back.join()


def test_a_pipe_that_a_checkout_has(repo: Repo) -> None:
    os.mkfifo(repo.path / ".gitignore")
    with pytest.raises(GitFailed, match=r"the pipe [.]gitignore and") as raised:
        Git.scrub(repo.path, os.environ).begin("status", "--porcelain").answer()
    assert not of_machinery(raised.value), "whoever works there made it"
