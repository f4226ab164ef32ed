"""commit-msg under git itself: a gate of messages sees what will be committed, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.repos import Repo

GATE = """
from pathlib import Path
from ktxkit.gates import MESSAGE_PATH, Answer, Finding


def check(world, message):
    Path({seen!r}).write_bytes(message.encode())
    if "CRASH" in message:
        raise ZeroDivisionError("inside a gate")
    lines = enumerate(message.splitlines(), start=1)
    return Answer([Finding("no-bad", MESSAGE_PATH, "it is bad", n, 1) for n, line in lines if "BAD" in line], 1)
"""


@pytest.fixture
def seen(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our hooks and a third party's gate of messages, found by its metadata; where it writes what it was given."""
    site, seen = tmp_path / "site", tmp_path / "seen"
    (site / "mood-1.0.dist-info").mkdir(parents=True)
    (site / "mood-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mood\nVersion: 1.0\n")
    (site / "mood-1.0.dist-info/entry_points.txt").write_text("[ktxkit.message_gates]\nmood = mood:check\n")
    (site / "mood.py").write_text(GATE.format(seen=str(seen)))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    assert call("git-ktx", "install-hooks", "commit-msg", cwd=repo.path).status == 0
    repo.write("new", "BAD is what the diff says\n")
    repo.git("add", "new")
    return seen


def commit(repo: Repo, *args: str, typed: str = "") -> tuple[int, str]:
    """`git commit`; `typed` is what the editor puts before what git shows it."""
    editor = repo.path.parent / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s" "$TYPED" | cat - "$1" >"$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    env = {**os.environ, "GIT_EDITOR": str(editor), "TYPED": typed}
    done = subprocess.run(["git", *args], cwd=repo.path, env=env, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("char", ["#", ";", "auto"])
def test_neither_comments_nor_the_diff_are_judged(repo: Repo, seen: Path, char: str) -> None:
    mark = "#" if char == "auto" else char
    status, said = commit(
        repo, "-c", f"core.commentChar={char}", "commit", "-v", typed=f"subject\n\n{mark} BAD\nbody\n"
    )
    assert status == 0, said
    assert seen.read_text().strip() == repo.git("log", "-1", "--format=%B").strip() == "subject\n\nbody"


def test_a_bad_message_is_refused_with_its_line(repo: Repo, seen: Path) -> None:
    before = repo.head
    status, said = commit(repo, "commit", "-v", typed="subject\n\nthis is BAD\n")
    assert status == 1 and "COMMIT_EDITMSG:3:1: error no-bad it is bad" in said, said
    assert repo.head == before


def test_without_an_editor_comments_are_part_of_the_message(repo: Repo, seen: Path) -> None:
    status, said = commit(repo, "commit", "-m", "subject\n\n# BAD, and git keeps it")
    assert status == 1 and "COMMIT_EDITMSG:3:1: error no-bad" in said, said
    status, said = commit(repo, "-c", "commit.cleanup=strip", "commit", "-m", "subject\n\n# BAD, and git drops it")
    assert status == 0, said
    assert repo.git("log", "-1", "--format=%B").strip() == "subject"


def test_in_a_linked_worktree(repo: Repo, seen: Path, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = repo.at(tmp_path / "linked")
    assert commit(linked, "commit", "--allow-empty", "-m", "BAD")[0] == 1
    assert commit(linked, "commit", "--allow-empty", "-m", "fine")[0] == 0


def test_a_gate_that_breaks_has_not_passed_anything(repo: Repo, seen: Path) -> None:
    status, said = commit(repo, "commit", "-m", "CRASH")
    assert status == 1, said
    assert "the gate mood failed: ZeroDivisionError: inside a gate" in said and "Traceback" not in said


def test_a_message_in_another_encoding(repo: Repo, seen: Path) -> None:
    repo.write("message", b"caf\xe9\n\nBAD\n")
    status, said = commit(repo, "-c", "i18n.commitEncoding=latin-1", "commit", "-F", "message")
    assert status == 1 and "COMMIT_EDITMSG:3:1: error no-bad" in said, said


def test_no_such_file(repo: Repo) -> None:
    ran = call("gate-check", "--message", "nowhere", cwd=repo.path)
    assert ran.status == 2 and "nowhere: no such file" in ran.err
