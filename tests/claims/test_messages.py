"""`gate-check --messages A..B`: commits' messages, each against its own tree; one answer by hand and in the hook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.claims.test_gate import BIN, HOOK, commit
from tests.support.commands import Ran, call
from tests.support.suites import Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    made = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\n", "lib.py": "x = 1\n"})
    made.repo.git("tag", "start")
    return made


def messages(suite: Suite, wanted: str = "start..HEAD") -> Ran:
    return call("gate-check", "--messages", wanted, "--json", cwd=suite.repo.path)


def found(ran: Ran) -> list[tuple[str, str]]:
    document: dict[str, Any] = json.loads(ran.out)["document"]
    return [(one["path"], one["rule"]) for one in document["findings"]]


def say(suite: Suite, text: str, **files: str) -> str:
    for name, content in files.items():
        suite.repo.write(f"{name}.py", content)
    suite.repo.git("add", "-A")
    suite.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", text)
    return suite.repo.head[:12]


def test_each_message_is_held_against_its_own_tree(suite: Suite) -> None:
    suite.repo.write("lib.py", "x = 2\n")
    suite.run()
    say(suite, "x is 2; all tests pass", lib="x = 2\n")
    false = say(suite, "x is 3\n\nAll tests pass.", lib="x = 3\n")
    say(suite, "Make sure that all tests pass", lib="x = 4\n")
    suite.run()
    say(suite, "All tests pass")
    ran = messages(suite)
    assert ran.status == 1 and found(ran) == [(false, "claim-stale")]
    assert json.loads(ran.out)["document"]["looked"] == {"messages": 4}
    assert messages(suite, f"{false}..HEAD").status == 0
    suite.repo.write("notes", "beside the work")
    assert messages(suite, f"{false}..HEAD").status == 0, "what lies in the checkout is no part of a commit"


def test_a_commit_without_what_its_run_had(suite: Suite) -> None:
    suite.repo.write("test_n.py", "import calc\ndef test_b(): assert calc.one == 1\n")
    suite.repo.write("calc.py", "one = 1\n")
    suite.run()
    suite.repo.git("add", "test_n.py")
    suite.repo.git("commit", "-q", "--no-verify", "-m", "All tests pass")
    assert found(messages(suite)) == [(suite.repo.head[:12], "claim-stale")]


def test_without_a_ledger_a_claim_of_a_range_is_an_error(suite: Suite) -> None:
    said = say(suite, "All tests pass")
    assert found(messages(suite)) == [(said, "claim-unknown")]


def test_a_range_that_there_is_not(suite: Suite) -> None:
    for wanted in ("nowhere..HEAD", "--all", ""):
        ran = call("gate-check", f"--messages={wanted}", cwd=suite.repo.path)
        assert ran.status == 2 and "range" in ran.err, ran.err
    assert call("gate-check", "--messages", "HEAD", "--message", "x", cwd=suite.repo.path).status == 2


def test_by_hand_and_in_the_hook_it_is_one_answer(suite: Suite) -> None:
    """A module that was forgotten: what is staged is what is spoken of, whoever asks."""
    hook = suite.repo.path / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nPATH={BIN}:$PATH exec sh {HOOK} "$@"\n')
    hook.chmod(0o755)
    suite.repo.write("test_n.py", "import calc\ndef test_b(): assert calc.one == 1\n")
    suite.repo.write("calc.py", "one = 1\n")
    suite.run()
    suite.repo.git("add", "test_n.py")
    path = suite.repo.path.parent / "message"
    path.write_text("Change\n\nAll tests pass.\n")
    by_hand = call("gate-check", "--message", path, cwd=suite.repo.path)
    in_hook = commit(suite, "Change\n\nAll tests pass.")
    said = in_hook.stdout + in_hook.stderr
    assert (by_hand.status, in_hook.returncode) == (1, 1)
    assert "claim-uncommitted" in by_hand.out + by_hand.err and "claim-uncommitted" in said
    suite.repo.git("add", "calc.py")
    assert call("gate-check", "--message", path, cwd=suite.repo.path).status == 0
    assert commit(suite, "Change\n\nAll tests pass.").returncode == 0
