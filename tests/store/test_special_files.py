"""What stands in the place of a file (a pipe, a directory, a socket, a link into itself, a device) is told, and nobody
waits for it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.faults import FULL
from tests.support.recovering import put, template_of
from tests.support.repos import Repo

HUNG = 60  # seconds after which a command is ended: it waits for ever


def _socket(path: Path) -> None:
    here = os.getcwd()  # noqa: PTH109
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a socket": _socket,
    "a link into itself": lambda path: path.symlink_to(path.name),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
}
COMMANDS = [
    ["job-report", "--job", "j1"],
    ["git-ktx", "status"],
    ["git-ktx", "list"],
    ["git-ktx", "doctor"],
    ["worktree-status", "--job", "j1", "--unit", "a"],
    ["worktree-watch", "--once", "--job", "j1", "--unit", "a"],
    ["worktree-open", "--job", "j1", "--unit", "a"],
    ["patch-collect", "--job", "j1", "--unit", "a"],
    ["patch-apply", "--job", "j1", "--unit", "a"],
    ["trace-append", "--job", "j1", "--phase", "x", "--event", "y"],
    ["ledger-query", "last"],
    ["ledger-append", "--from", "junit", "../run.xml"],
    ["job-verify", "--job", "j1", "--", "true"],
    ["job-land", "--job", "j1"],
    ["worktree-close", "--job", "j1", "--unit", "a", "--outcome", "success"],
]
JUNIT = '<testsuite tests="1" timestamp="2026-01-01T00:00:00"><testcase name="t" classname="c"/></testsuite>'
# Names that git reads; what stands there besides is the store's.
OF_GIT = (".git/config", ".git/HEAD", ".git/index", ".git/info/exclude", ".git/worktrees/0001-a/index", ".gitignore")
OF_US = ("ktx-gates.yaml", ".ktx-config.yaml")


class Place:
    """A repository with a job whose unit is collected, put back before each trial."""

    def __init__(self, tmp_path: Path) -> None:
        self.repo = Repo.init(tmp_path / "place" / "repo")
        self.repo.write("README", "a repository\n")
        self.repo.commit("first")
        self.repo.path.with_name("run.xml").write_text(JUNIT)
        for words in (
            ["worktree-open", "--job", "j1", "--unit", "a", "--target", "main"],
            ["worktree-watch", "--once", "--job", "j1", "--unit", "a"],
        ):
            assert call(*words, cwd=self.repo.path).status == 0
        (self.repo.path / ".ktx/worktrees/j1/0001-a/a").write_text("1\n")
        for words in COMMANDS[7], COMMANDS[9], COMMANDS[11]:
            assert call(*words, cwd=self.repo.path).status == 0, words
        self.template = template_of(self.repo, tmp_path / "aside")

    def files(self) -> list[str]:
        """Every file of the store, and those that git and we read beside it."""
        top = self.repo.path
        found = [path for path in (top / ".ktx").rglob("*") if path.is_file() and "worktrees" not in path.parts[-4:]]
        return [*sorted(str(path.relative_to(top)) for path in found), *OF_GIT, *OF_US]

    def with_one(self, name: str, kind: str) -> None:
        put(self.template, self.repo.path.parent, self.repo.path.parent)
        path = self.repo.path / name
        path.unlink(missing_ok=True)
        KINDS[kind](path)


def run(words: list[str], cwd: Path) -> str:
    """What is wrong with how the command ended; empty where nothing is."""
    try:
        done = subprocess.run([BIN / words[0], *words[1:]], cwd=cwd, capture_output=True, timeout=HUNG, check=False)
    except subprocess.TimeoutExpired:
        return "it waits for ever"
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode not in range(6) or "Traceback" in said:
        return f"status {done.returncode}: {said[-300:]}"
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_place_of_a_file(tmp_path: Path, kind: str) -> None:
    place, wrong, number = Place(tmp_path), [], 0
    for name in place.files():
        for words in COMMANDS:
            number += 1
            if FULL or number % 40 == 0:
                place.with_one(name, kind)
                if how := run(words, place.repo.path):
                    wrong.append(f"{name}: {' '.join(words)}: {how}")
    assert not wrong, "\n".join(wrong)
