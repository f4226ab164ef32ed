"""`ledger-append --from store`: the ledger of another job, whole or run by run; and what claims make of it in CI."""

from __future__ import annotations

import shutil
import subprocess
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
