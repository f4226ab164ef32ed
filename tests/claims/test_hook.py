"""The installed commit-msg hook and the claims gate, by `git commit` itself: what git will commit is what is judged."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.suites import Suite

TRUE, LIE, PLAIN = "All tests pass: 2 passed.", "All tests pass: 3 passed.", "Fix a typo in the notes."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A repository with a recorded run of two tests, and our hooks as they are installed."""
    suite = Suite.make(
        tmp_path_factory.mktemp("claims") / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"}
    )
    suite.repo.write("notes.md", "All tests pass: 9 passed.\n")
    suite.repo.commit("notes")
    suite.run()
    assert call("git-ktx", "install-hooks", "commit-msg", cwd=suite.repo.path).status == 0
    return suite


def git(suite: Suite, *args: str, typed: str | None = None) -> tuple[int, str]:
    """A git call; `typed` is what the editor puts before what git shows it."""
    editor = suite.repo.path.parent / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s\\n" "$TYPED" | cat - "$1" >"$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "GIT_EDITOR": str(editor), "TYPED": typed or ""}
    done = subprocess.run(["git", *args], cwd=suite.repo.path, env=env, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def is_refused(said: str) -> bool:
    """The lie is told with its place, the run that was searched and what it had."""
    return bool(
        re.search(r"^COMMIT_EDITMSG:3:17: error claim-false '3 passed': .*; searched \S+ .* 2 passed of 2", said, re.M)
    )


def message(suite: Suite) -> str:
    return suite.repo.git("log", "-1", "--format=%B").strip()


def test_a_lie_is_refused_with_the_rows(made: Suite) -> None:
    before = made.repo.head
    status, said = git(made, "commit", "--allow-empty", "-m", f"Change\n\n{LIE}")
    assert status == 1 and is_refused(said), said
    assert "the ledger has 2 passed of 2 (finished, scope full)" in said, said
    assert made.repo.head == before


def test_the_truth_and_a_text_without_a_claim_pass(made: Suite) -> None:
    for text in (TRUE, PLAIN):
        status, said = git(made, "commit", "--allow-empty", "-m", f"Change\n\n{text}")
        assert status == 0 and "error" not in said, said
        assert message(made) == f"Change\n\n{text}"


@pytest.mark.parametrize(
    "options", [("commit", "-v"), ("commit", "--cleanup=scissors"), ("commit", "-v", "--cleanup=scissors")]
)
def test_what_stands_under_the_scissors_claims_nothing(made: Suite, options: tuple[str, ...]) -> None:
    """The diff says that all tests pass; git cuts it off."""
    made.repo.write("notes.md", f"{LIE}\n{message(made)}\n{options}\n")
    made.repo.git("add", "notes.md")
    status, said = git(made, *options, typed=f"Notes\n\n{PLAIN}")
    assert status == 0, said
    assert message(made) == f"Notes\n\n{PLAIN}"
    made.repo.write("notes.md", f"{options} again\n")
    made.repo.git("add", "notes.md")
    status, said = git(made, *options, typed=f"Notes\n\n{LIE}")
    assert status == 1 and is_refused(said), said
    made.repo.git("reset", "-q", "--hard")


@pytest.mark.parametrize("char", [";", "%", "auto"])
def test_comments_claim_nothing_whatever_begins_them(made: Suite, char: str) -> None:
    mark = "#" if char == "auto" else char
    how = ("-c", f"core.commentChar={char}", "commit", "--allow-empty")
    status, said = git(made, *how, typed=f"Change\n\n{mark} {LIE}\n{PLAIN}")
    assert status == 0, said
    assert message(made) == f"Change\n\n{PLAIN}"
    if char != "auto":  # then a line with # is part of the message
        status, said = git(made, *how, typed=f"Change\n\n# {LIE}")
        assert status == 1 and "error claim-" in said, said


def test_the_message_of_a_merge(made: Suite) -> None:
    made.repo.git("branch", "-f", "side", "HEAD")
    made.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "main goes on")
    made.repo.git("checkout", "-q", "side")
    made.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "side goes on")
    before = made.repo.head
    status, said = git(made, "merge", "--no-ff", "main", "-m", f"Merge main\n\n{LIE}")
    assert status == 1 and is_refused(said), said
    assert made.repo.head == before
    made.repo.git("merge", "--abort")
    status, said = git(made, "merge", "--no-ff", "main", "-m", f"Merge main\n\n{TRUE}")
    assert status == 0, said
    assert made.repo.git("rev-list", "--parents", "-1", "HEAD").count(" ") == 2


def test_an_amended_message(made: Suite) -> None:
    made.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", LIE)
    before = made.repo.head
    assert git(made, "commit", "--amend", "--no-edit", "--allow-empty")[0] == 1
    assert made.repo.head == before
    assert git(made, "commit", "--amend", "--allow-empty", "-m", TRUE)[0] == 0


def test_the_hook_runs_from_anywhere(made: Suite, tmp_path: Path) -> None:
    (made.repo.path / "below").mkdir(exist_ok=True)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    argv = ["git", "commit", "--allow-empty", "-m", LIE]
    done = subprocess.run(argv, cwd=made.repo.path / "below", env=env, capture_output=True, check=False)
    assert done.returncode == 1 and b"error claim-false" in done.stdout + done.stderr
