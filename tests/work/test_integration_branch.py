"""A job's own branch while it is held: its head is what it moved to, and nobody else says what it is."""

from __future__ import annotations

import pytest

from ktxkit.base.errors import Blocked
from ktxkit.work import recover
from tests.support.integration import Job
from tests.support.repos import Repo


@pytest.fixture
def job(repo: Repo) -> Job:
    return Job.begin(repo)


def commit(job: Job, parent: str, message: str) -> str:
    return job.repo.git("commit-tree", f"{parent}^{{tree}}", "-p", parent, "-m", message)


def test_it_is_made_at_the_base_and_moves(job: Job) -> None:
    base = job.document["base"]
    with recover.integrating(job.active) as branch:
        assert branch.head == base == job.head
        one, two = commit(job, base, "one"), commit(job, base, "two")
        branch.move(one)
        assert branch.head == one == job.head
        branch.move(two)
        assert branch.head == two == job.head


def test_only_its_own_move_changes_its_head(job: Job) -> None:
    with recover.integrating(job.active) as branch:
        head = branch.head
        with pytest.raises(AttributeError):
            branch.head = "0" * 40  # type: ignore[misc]
        assert branch.head == head


def test_one_that_somebody_moved_does_not_move(job: Job) -> None:
    base = job.document["base"]
    theirs, ours = commit(job, base, "theirs"), commit(job, base, "ours")
    with pytest.raises(Blocked, match="was moved by somebody else"), recover.integrating(job.active) as branch:
        assert branch.head == base
        job.repo.git("update-ref", job.active.integration_ref, theirs)
        try:
            branch.move(ours)
        finally:
            assert branch.head == base
    assert job.head == theirs, "theirs stays"


def test_a_foreign_commit_is_no_head(job: Job) -> None:
    with recover.integrating(job.active) as branch:
        base = branch.head
    theirs = commit(job, base, "theirs")
    job.repo.git("update-ref", job.active.integration_ref, theirs)
    with pytest.raises(Blocked, match="expected") as caught, recover.integrating(job.active) as branch:
        assert branch.head == base
    assert caught.value.data["found"] == theirs


def test_a_verification_that_moves_it_is_found(job: Job) -> None:
    with pytest.raises(Blocked, match="the verification moved"), recover.integrating(job.active) as branch:
        head = branch.head
        branch.require_unmoved(head)
        job.repo.git("update-ref", branch.ref, commit(job, head, "theirs"))
        branch.require_unmoved(head)
