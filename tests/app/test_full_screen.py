"""The views that go on: the whole screen of a real terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from ktxkit.ledger import ledger
from tests.support.commands import call, script
from tests.support.ledgers import PROJECT, Past
from tests.support.repos import Repo
from tests.support.terminal import terminal

LONG = "pages/" + "customer-" * 12


@pytest.fixture
def two(repo: Repo) -> Repo:
    for unit in ("orders", LONG):
        assert call("worktree-open", "--job", "j1", "--unit", unit, cwd=repo.path).status == 0
    return repo


def shell(place: Path, command: str) -> str:
    """A shell line for a fresh terminal: what it says after the screen was given back stays to be read."""
    return f"cd {place} && {command}; echo ended with $?; sleep 60"


def test_worktrees_on_a_terminal(two: Repo, tmp_path: Path) -> None:
    with terminal(tmp_path, shell(two.path, f"{script('worktree-status')} --watch")) as screen:
        shown = screen.wait_for("2 worktrees at")
        assert "unwatched" in shown and "verdict" in shown and "Ctrl-C ends" in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
        (tree,) = (two.path / ".ktx/worktrees/j1").glob("0001-*")
        (tree / "new.md").write_text("new\n")
        call("worktree-watch", "--once", "--job", "j1", "--unit", "orders", cwd=two.path)
        screen.wait_for("working")
        screen.type("", "C-c")
        ended = screen.wait_for("ended with 0")
        assert "Traceback" not in ended and "verdict" not in ended, "the screen was given back"


@contextmanager
def watched(repo: Repo, *words: str) -> Iterator[IO[str]]:
    """What `worktree-status --watch` prints into a pipe; it must have ended well by itself at the end."""
    argv = [script("worktree-status"), "--watch", "--job", "j1", *words]
    with subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child.stdout
            assert child.wait(60) == 0
        finally:
            child.kill()


def close(repo: Repo, unit: str) -> None:
    words = ("--job", "j1", "--unit", unit, "--outcome", "empty", "--discard")
    assert call("worktree-close", *words, cwd=repo.path).status == 0


def test_worktrees_elsewhere(two: Repo) -> None:
    with watched(two) as said:
        first = [said.readline(), said.readline()]
        assert all("unknown; Worktree activity: none observed" in line for line in first), first
        close(two, "orders")
        close(two, LONG)
        rest = said.read()
        assert "j1 orders: closed\n" in rest and f"j1 {LONG}: closed\n" in rest and "\x1b" not in rest


def test_one_worktree_until_it_is_closed(repo: Repo) -> None:
    call("worktree-open", "--job", "j1", "--unit", "a", cwd=repo.path)
    with watched(repo, "--unit", "a") as said:
        assert "j1 a: unknown" in said.readline()
        close(repo, "a")
        assert "Next: " in said.read()


def test_watching_prints_no_document(repo: Repo) -> None:
    done = call("worktree-status", "--watch", "--json", cwd=repo.path)
    assert done.status == 2 and "prints as it goes" in done.out


def test_a_run_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_PROJECT", PROJECT)
    past = Past(tmp_path)
    test = "tests/deep/" + "very_" * 20 + "long.py::test_of_something"
    run = past.run({"t.py::a": "passed", test: "running"}, selected=["t.py::a", test, "t.py::z"], finish=False)
    live = f"{script('ledger-query')} --ktx-dir .ktx --project {PROJECT} live --follow"
    with terminal(tmp_path, shell(tmp_path, live)) as screen:
        shown = screen.wait_for("1 of 3")
        assert "very_very_" in shown and "1 busy of 1" in shown
        with open(ledger.events_path(past.world, run), "a") as stream:
            stream.write(
                json.dumps({"event": "run_finished", "t": 9.0, "at": "2026-01-02T03:09:00.000Z", "exitStatus": 0})
                + "\n"
            )
        ended = screen.wait_for("ended with 0")
        assert "finished full" in ended and "workers" not in ended, "the screen was given back, with the last line"
