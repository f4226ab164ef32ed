"""The plan-wide gate: only when every unit has its outcome, on exactly the accepted commits, on record."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktxkit.base import owners
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, Refused
from ktxkit.base.rules.digests import digest_of
from ktxkit.work.job_verify import VerifyRequest, verify_job
from tests.support.commands import call
from tests.support.faults import Killed, count_effects, run_killed
from tests.support.integration import Job, give, script
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import Verification


@pytest.fixture
def job(repo: Repo) -> Job:
    made = Job.begin(repo)
    for key in "ab":
        give(made, key, {key: "x\n"})
        made.apply(key)
    return made


def verify(job: Job, tmp_path: Path, body: str) -> Verification:
    return verify_job(job.active, VerifyRequest([script(tmp_path / "check", body)], summary="all of it"))


def recorded(job: Job) -> Document:
    return job.world.store.read("verification", "jobs/j1/verification.json")


def test_a_pass_has_its_evidence(job: Job, tmp_path: Path) -> None:
    made = verify(job, tmp_path, "test -e a && test -e b")
    assert (made["state"], made["outcome"], made["head"]) == ("receipt", "done", job.head)
    assert [unit["unitKey"] for unit in made["accepted"]] == ["a", "b"]
    assert recorded(job) == made
    rest = {key: value for key, value in made.items() if key not in ("durationMs", "evidenceDigest")}
    assert made["evidenceDigest"] == digest_of(rest)
    assert not job.world.store.exists("jobs/j1/verification-intent.json")


def test_a_failure_keeps_its_log(job: Job, tmp_path: Path) -> None:
    made = verify(job, tmp_path, "echo no; exit 4")
    assert made["outcome"] == "verification_failed"
    assert Path(made["run"]["log"]).read_text() == "no\n"
    ran = call("job-verify", "--job", "j1", "--", script(tmp_path / "again", "exit 4"), cwd=job.repo.path)
    assert (ran.status, ran.out.splitlines()[0]) == (3, f"verification_failed: status 4 on {job.head}, 2 units")


def test_the_attempt_is_on_record_while_it_runs(job: Job, tmp_path: Path) -> None:
    place = job.world.store.path("jobs/j1/verification.json")
    verify(job, tmp_path, f"cp {place} {tmp_path}/seen")
    assert '"state": "attempt"' in (tmp_path / "seen").read_text()


def test_a_unit_without_an_outcome_is_refused(job: Job, tmp_path: Path) -> None:
    job.open("c")
    with pytest.raises(Refused) as caught:
        verify(job, tmp_path, "true")
    assert caught.value.data["units"] == ["c"]


def test_a_missing_commit_blocks(job: Job, tmp_path: Path) -> None:
    receipt = job.doc("b", "receipt")
    assert receipt is not None
    job.repo.git("update-ref", job.document["integrationRef"], receipt["before"])
    with pytest.raises(Blocked):
        verify(job, tmp_path, "true")


def test_moving_the_branch_blocks_and_leaves_an_attempt(job: Job, tmp_path: Path) -> None:
    ref = job.document["integrationRef"]
    with pytest.raises(Blocked):
        verify(job, tmp_path, f"git update-ref {ref} HEAD^")
    assert recorded(job)["state"] == "attempt"


def test_a_killed_one_is_no_pass_and_what_it_ran_is_ended(job: Job, tmp_path: Path) -> None:
    check, mark = tmp_path / "check", tmp_path / "pid"
    args = ["--job", "j1", "--", script(check, "true")]
    count_effects("job-verify", args, job.repo.path)  # the first one makes the checkout
    at = count_effects("job-verify", args, job.repo.path).index("spawn check")
    script(check, f"touch appeared; echo $$ > {mark}; sleep 60")
    assert isinstance(run_killed("job-verify", args, job.repo.path, at, "after"), Killed)
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.01)
    assert recorded(job)["state"] == "attempt"
    assert owners.start_time(int(mark.read_text())) is not None
    assert verify(job, tmp_path, "test ! -e appeared")["outcome"] == "done"
    assert owners.start_time(int(mark.read_text())) is None
    assert [path.name for path in job.world.store.path("quarantine").rglob("appeared")] == ["appeared"]
