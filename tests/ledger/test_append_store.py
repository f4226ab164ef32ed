"""`ledger-append --from store`: the ledger of another job, whole or run by run; and what claims make of it in CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo
from tests.support.suites import Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    made = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\n"})
    made.repo.git("config", "ktx.project", "p")
    made.run()
    made.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "All tests pass")
    return made


def clone(suite: Suite, place: Path) -> Repo:
    subprocess.run(["git", "clone", "-q", str(suite.repo.path), str(place)], check=True)
    made = Repo(place)
    made.git("config", "ktx.project", "p")
    return made


def append(repo: Repo, place: Path) -> Ran:
    return call("ledger-append", "--from", "store", place, cwd=repo.path)


def test_a_fresh_clone_takes_it_whole(suite: Suite, tmp_path: Path) -> None:
    there = clone(suite, tmp_path / "ci")
    assert call("gate-check", "--messages", "HEAD", cwd=there.path).status == 1
    taken = append(there, suite.repo.path / ".ktx")
    assert taken.status == 0 and "1 passed of 1" in taken.out, taken.err
    assert call("gate-check", "--messages", "HEAD", cwd=there.path).status == 0
    assert "full" in call("ledger-query", "last-full", cwd=there.path).out
    assert call("git-ktx", "doctor", cwd=there.path).status == 0
    shown = call("ledger-query", "run", "last", "--json", cwd=there.path).document["facts"]
    assert shown == call("ledger-query", "run", "last", "--json", cwd=suite.repo.path).document["facts"]
    again = append(there, suite.repo.path / ".ktx")
    assert again.status == 0 and "there already" in again.out


def test_a_store_that_has_runs_takes_the_others_as_imports(suite: Suite, tmp_path: Path) -> None:
    there = clone(suite, tmp_path / "ci")
    other = Suite(there)
    _ = other.world.writable_store
    other.run("-k", "nothing")
    assert append(there, suite.repo.path / ".ktx").status == 0
    taken = other.records[-1]
    assert (taken["trigger"], taken["scope"]["kind"]) == ("imported", "partial")
    said = call("gate-check", "--messages", "HEAD", cwd=there.path)
    assert said.status == 1 and "claim-false" in said.out + said.err, "an import is never full"


def test_a_damaged_store_is_not_taken(suite: Suite, tmp_path: Path) -> None:
    there = clone(suite, tmp_path / "ci")
    copy = tmp_path / "handed"
    shutil.copytree(suite.repo.path / ".ktx", copy)
    (copy / "ledger/test-runs.ndjson").write_bytes(
        (copy / "ledger/test-runs.ndjson").read_bytes().replace(b'"passed":1', b'"passed":2')
    )
    assert append(there, copy).status == 5
    shutil.copytree(suite.repo.path / ".ktx", copy, dirs_exist_ok=True)
    (copy / "ledger/artifacts/link").symlink_to("/etc/passwd")
    assert append(there, copy).status == 5
    assert not (there.path / ".ktx/ledger/test-runs.ndjson").exists()
    ran = append(there, tmp_path / "nowhere")
    assert ran.status == 2 and "there is no ledger" in ran.err


PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "ci.md"


def recipe(repo: Repo, number: int) -> subprocess.CompletedProcess[str]:
    """Run one of the recipe's shell blocks."""
    script = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[number]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-e"], input=script, cwd=repo.path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )


def test_the_recipe_with_git_notes(suite: Suite, tmp_path: Path) -> None:
    """As the page has it: a runner that tests, and another clone that judges the messages of a range."""
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(suite.repo.path), str(hub)], check=True)
    places = [tmp_path / name for name in ("tests", "messages")]
    for place in places:
        subprocess.run(["git", "clone", "-q", str(hub), str(place)], check=True)
    runner, judge = map(Repo, places)
    (runner.path / ".ktx").mkdir()
    runner.write("test_m.py", "def test_a(): pass\ndef test_b(): pass\n")
    runner.write("pytest.ini", "[pytest]\naddopts = -p no:xdist -p no:asyncio\n")
    head = runner.commit("Add test_b\n\nAll tests pass.")
    ran = recipe(runner, 0)
    assert ran.returncode == 0, ran.stderr
    runner.git("push", "-q", "origin", "HEAD:refs/heads/topic")
    judge.git("fetch", "-q", "origin", "topic")
    judge.git("checkout", "-q", head)
    assert call("gate-check", "--messages", "origin/main..HEAD", cwd=judge.path).status == 1, "no ledger yet"
    judged = recipe(judge, 1)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert not (judge.path / "handed-over/ledger/key").exists()
    judge.git("commit", "-q", "--allow-empty", "--amend", "-m", "Add test_b\n\nAll 3 tests pass.")
    assert call("gate-check", "--messages", "origin/main..HEAD", cwd=judge.path).status == 1
