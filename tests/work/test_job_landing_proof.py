"""What lands was verified: the job's `verify` on exactly the tree that the target gets, or nothing lands."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import owners
from tests.support.commands import Ran, call
from tests.support.faults import Killed, count_effects, run_killed
from tests.support.integration import script
from tests.support.jobs import job_file, outcomes, trace, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
APART = "test ! -e z || test ! -e a"  # neither z nor a is wrong: both of them are


def run(repo: Repo, verify: str, units: list[dict[str, Any]], *args: str, **more: Any) -> tuple[Ran, Path]:
    """A job whose verification counts how often it was asked."""
    asked = repo.path.parent / "asked"
    check = script(repo.path.parent / "check", f"echo x >> {asked}\n{verify}")
    path = job_file(repo, {"units": units, "verify": {"run": [check]}, **more})
    return call("job-run", path, "--job", "j1", *args, cwd=repo.path), asked


def moving(repo: Repo) -> dict[str, Any]:
    """A unit while which somebody puts z on the target."""
    top = repo.path
    return unit("a", f"echo a > a; echo z > {top}/z; git -C {top} add z; git -C {top} commit -q -m z")


def landing(repo: Repo) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((repo.path / ".ktx/jobs/j1/landing.json").read_text())
    return made


def test_a_replay_that_fails_lands_nothing_until_it_passes(repo: Repo) -> None:
    ran, asked = run(repo, APART, [moving(repo)])
    moved = repo.git("rev-parse", "main")
    assert (ran.status, outcomes(repo)) == (1, {"a": "accepted"}), ran
    done = call("job-land", "--job", "j1", "--rebase", cwd=repo.path)
    assert done.status == 3 and repo.git("rev-parse", "main") == moved, done
    assert "what would land does not pass the job's verification: the verification ended with status 1" in done.err
    assert list((repo.path / ".ktx/jobs/j1").glob("verify-*.log"))
    repo.git("mv", "z", "y")
    repo.commit("no z")
    done = call("job-land", "--job", "j1", "--rebase", cwd=repo.path)
    assert done.status == 0 and repo.show("main", "a") == b"a\n", done
    made = landing(repo)
    assert (made["verification"]["tree"], made["verification"]["status"]) == (made["tree"], 0)
    assert len(asked.read_text().split()) == 3


def test_a_replay_within_the_job_ends_it_as_a_failed_verification(repo: Repo) -> None:
    ran, _ = run(repo, APART, [moving(repo)], "--rebase")
    told = trace(repo)[-1]["data"]
    assert (ran.status, told["outcome"], told["phase"]) == (3, "verification_failed", "landing"), ran
    assert not (repo.path / "a").exists() and repo.show("main", "z") == b"z\n"
    assert "landing_verification_finished" in {event["event"] for event in trace(repo)}


@pytest.mark.parametrize("batch", [False, True][: 1 + FULL])
def test_a_tree_that_a_unit_was_verified_with_is_not_asked_about_again(repo: Repo, *, batch: bool) -> None:
    check = script(repo.path.parent / "check", f"echo x >> {repo.path.parent / 'asked'}\ntest ! -e b")
    units = [unit("a", "echo a > a"), unit("b", "echo b > b")]
    path = job_file(repo, {"units": units, "verify": {"run": [check], "batch": batch}})
    assert call("job-run", path, "--job", "j1", cwd=repo.path).status == 3
    assert outcomes(repo) == {"a": "accepted", "b": "verification_failed"}
    made = landing(repo)
    assert made["verification"]["reused"] and made["verification"]["tree"] == made["tree"]
    assert "landing_verification_started" not in {event["event"] for event in trace(repo)}


def test_a_unit_that_was_applied_by_hand_past_the_verification(repo: Repo) -> None:
    before = repo.git("rev-parse", "main")
    ran, _ = run(repo, "test ! -e b", [unit("b", "echo b > b")])
    assert (ran.status, outcomes(repo)) == (3, {"b": "verification_failed"}), ran
    assert call("patch-apply", "--job", "j1", "--unit", "b", cwd=repo.path).status == 0
    done = call("job-land", "--job", "j1", cwd=repo.path)
    assert done.status == 3 and repo.git("rev-parse", "main") == before, done
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    kept = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx")
    assert "refs/ktx/jobs/j1/integration" in kept, "what it holds is nowhere else"
    assert repo.git("show", "refs/ktx/jobs/j1/integration:b") == "b"


def test_what_a_projection_made_is_verified_before_any_unit_starts(repo: Repo) -> None:
    before = repo.git("rev-parse", "main")
    ran, asked = run(repo, "test ! -e p", [unit("a", "true")], project="echo p > p")
    told = trace(repo)[-1]["data"]
    assert (ran.status, told["outcome"], told["phase"]) == (3, "verification_failed", "projection"), ran
    assert outcomes(repo) == {"project": "verification_failed", "a": "pending"}
    assert repo.git("rev-parse", "main") == before
    script(repo.path.parent / "check", f"echo x >> {asked}")
    assert call("job-run", "--resume", "j1", cwd=repo.path).status == 0
    assert repo.show("main", "p") == b"p\n" and landing(repo)["verification"]["reused"]
    assert len(asked.read_text().split()) == 4, "with it, without it, with it again; then once more"


def test_a_base_that_fails_without_the_projection_too_blames_nobody(repo: Repo) -> None:
    ran, _ = run(repo, "false", [unit("a", "true")], project="echo p > p")
    assert (ran.status, trace(repo)[-1]["data"]["outcome"]) == (1, "refused"), ran


def test_what_an_ingestion_projects_is_verified_before_any_unit_starts(repo: Repo, tmp_path: Path) -> None:
    before = repo.git("rev-parse", "main")
    card = {"metabaseId": 1, "name": "Daily", "type": "model", "collectionId": 1, "resolvedSql": "select 1 as n"}
    card["resultMetadata"] = [{"name": "n", "base_type": "type/Integer"}]
    (tmp_path / "bundle/cards").mkdir(parents=True)
    (tmp_path / "bundle/cards/1.json").write_text(json.dumps(card))
    words: list[str | Path] = [
        "metabase",
        tmp_path / "bundle",
        "--connection",
        "w",
        "--verify",
        "test ! -e semantic-layer",
    ]
    ran = call("ingest-run", *words, "--job", "j1", cwd=repo.path)
    told = trace(repo)[-1]["data"]
    assert (ran.status, told["outcome"], told["phase"]) == (3, "verification_failed", "projection"), ran
    assert "the projection does not pass the job's verification" in told["message"]
    assert repo.git("rev-parse", "main") == before and set(outcomes(repo).values()) == {"pending"}
    done = call("ingest-run", "--resume", "j1", cwd=repo.path)
    assert (done.status, trace(repo)[-1]["data"]["phase"]) == (3, "projection"), done


def test_a_target_that_moves_while_it_is_verified(repo: Repo) -> None:
    again = f"test ! -e z || git -C {repo.path} -c user.name=n -c user.email=e@e commit -q --allow-empty -m again"
    ran, _ = run(repo, again, [moving(repo)], "--rebase")
    told = trace(repo)[-1]["data"]
    assert (ran.status, told["outcome"]) == (1, "target_moved"), ran
    assert "while it was verified" in told["message"] and not (repo.path / "a").exists()


@pytest.mark.skipif(not FULL, reason="the long form kills a landing (KTX_TEST_FULL=1)")
def test_a_landing_that_is_killed_while_it_is_verified(repo: Repo) -> None:
    ran, _ = run(repo, APART, [moving(repo)])
    assert ran.status == 1, ran
    args, check, mark = ["--job", "j1", "--rebase"], repo.path.parent / "check", repo.path.parent / "pid"
    at = count_effects("job-land", args, repo.path, status=3).index("spawn check")
    script(check, f"touch appeared; echo $$ > {mark}; sleep 60")
    assert isinstance(run_killed("job-land", args, repo.path, at, "after"), Killed)
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.01)
    assert not (repo.path / ".ktx/jobs/j1/landing.json").exists()
    script(check, "test ! -e appeared")
    assert call("job-land", *args, cwd=repo.path).status == 0
    assert owners.start_time(int(mark.read_text())) is None
    assert not (repo.path / ".ktx/jobs/j1/verification-intent.json").exists()
