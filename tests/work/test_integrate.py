"""A job's patches, from worktree to target: what is accepted, what is refused, and that nothing else moves."""

from __future__ import annotations

import pytest

from ktxkit.base.errors import Blocked, BrokenContract, Refused
from tests.support.integration import Job
from tests.support.repos import Repo


@pytest.fixture
def job(repo: Repo) -> Job:
    repo.write("text", "".join(f"line {n}\n" for n in range(1, 21)))
    repo.write("dir/one", "one\ntwo\nthree\n")
    repo.commit("base")
    return Job.begin(repo)


def test_a_job_from_two_units_to_its_target(job: Job) -> None:
    first = job.unit("a", lambda w: w.write("a", "new\n"))
    second = job.unit("b", lambda w: w.write("dir/one", "one\ntwo\nthree\nfour\n"))
    assert [first["outcome"], second["outcome"]] == ["accepted", "accepted"]
    assert second["before"] == first["after"]
    landed = job.land(message="all of it")
    assert landed["outcome"] == "done"
    assert job.repo.head == landed["commit"]
    assert job.repo.git("rev-parse", "HEAD^") == job.document["targetAtStart"]
    assert job.repo.tree == job.repo.git("rev-parse", f"{job.head}^{{tree}}")
    assert job.repo.git("status", "--porcelain") == ""
    assert job.document["state"] == "landed"
    assert job.land() == landed


def test_the_same_change_twice_is_subsumed(job: Job) -> None:
    assert job.unit("a", lambda w: w.write("a", "new\n"))["outcome"] == "accepted"
    head = job.head
    receipt = job.unit("b", lambda w: w.write("a", "new\n"))
    assert receipt["outcome"] == "subsumed"
    assert "commit" not in receipt
    assert job.head == head


def test_the_same_line_twice_conflicts(job: Job) -> None:
    job.unit("a", lambda w: w.write("dir/one", "ONE\ntwo\nthree\n"))
    head = job.head
    receipt = job.unit("b", lambda w: w.write("dir/one", "eins\ntwo\nthree\n"))
    assert receipt["outcome"] == "textual_conflict"
    assert [clash["path"] for clash in receipt["conflicts"]] == ["dir/one"]
    assert receipt["conflicts"][0]["stages"] == [1, 2, 3]
    assert job.head == head


def test_nothing_changed_is_a_noop(job: Job) -> None:
    receipt = job.unit("a", lambda w: w.write("dir/one", "one\ntwo\nthree\n"))
    assert receipt["outcome"] == "noop"
    assert job.world.store.children("ingest-patches/j1") == []


def test_the_policy_is_asked_at_both_ends(job: Job) -> None:
    work = job.open("a", policy={"allow": ["wiki/"]})
    work.write("wiki/a.md", "x\n")
    work.write("other", "x\n")
    patch = job.collect("a")
    assert patch["outcome"] == "policy_rejected"
    assert [(b["path"], b["rule"]) for b in patch["breaches"]] == [("other", "not-allowed")]
    receipt = job.apply("a")
    assert receipt["outcome"] == "policy_rejected"
    assert receipt["breaches"] == patch["breaches"]


def test_an_applied_unit_is_not_applied_again(job: Job) -> None:
    receipt = job.unit("a", lambda w: w.write("a", "new\n"))
    assert job.apply("a") == receipt
    assert job.repo.git("rev-list", "--count", f"{job.document['base']}..{job.head}") == "1"


def test_a_tampered_patch_is_invalid(job: Job) -> None:
    job.open("a").write("a", "new\n")
    job.collect("a")
    path = job.world.store.path("ingest-patches/j1/0001-a.patch")
    path.write_bytes(path.read_bytes().replace(b"+new", b"+bad"))
    with pytest.raises(BrokenContract) as caught:
        job.apply("a")
    assert caught.value.outcome == "invalid_patch"
    assert job.head == job.document["base"]


def test_a_foreign_commit_on_the_integration_branch_blocks(job: Job) -> None:
    job.unit("a", lambda w: w.write("a", "new\n"))
    foreign = job.repo.git("commit-tree", "-p", job.head, "-m", "foreign", f"{job.head}^{{tree}}")
    job.repo.git("update-ref", job.document["integrationRef"], foreign)
    with pytest.raises(Blocked) as caught:
        job.unit("b", lambda w: w.write("b", "new\n"))
    assert caught.value.data["found"] == foreign
    with pytest.raises(Blocked):  # the lock stays
        job.land()


def test_an_integration_branch_that_is_gone_blocks_and_is_called_so(job: Job) -> None:
    job.unit("a", lambda w: w.write("a", "new\n"))
    job.repo.git("update-ref", "-d", job.document["integrationRef"])
    with pytest.raises(Blocked, match=r"integration\S* is gone, expected [0-9a-f]{40}") as caught:
        job.unit("b", lambda w: w.write("b", "new\n"))
    assert caught.value.data["found"] == "" and "None" not in str(caught.value)


def test_a_rename_upstream_is_a_conflict_unless_followed(job: Job) -> None:
    job.unit("a", lambda w: w.git("mv", "text", "moved"))
    work = job.open("b")
    work.write("text", (work.path / "text").read_text().replace("line 7\n", "seven\n"))
    job.collect("b")
    receipt = job.apply("b")
    assert receipt["outcome"] == "textual_conflict"
    followed = job.apply("b", follow_renames=True)
    assert followed["outcome"] == "accepted"
    assert followed["followed"] == [{"path": "text", "newPath": "moved"}]
    assert followed["attempt"] == 2
    assert b"seven" in job.repo.show(job.head, "moved")


def test_a_unit_that_carries_old_files_over_new_ones_is_suspect(job: Job) -> None:
    job.unit("a", lambda w: w.write("dir/one", "one\ntwo\nthree\nfour\n"))
    work = job.open("b")
    work.git("merge", "-q", "--no-edit", job.head)
    work.write("dir/one", "one\ntwo\nthree\n")
    work.write("own", "own\n")
    work.commit("synced wrongly")
    assert job.collect("b")["mergedFrom"] == job.head
    receipt = job.apply("b")
    assert receipt["outcome"] == "suspect_revert"
    assert [clash["path"] for clash in receipt["conflicts"]] == ["dir/one"]


def test_landing_names_what_is_dirty_and_moves_nothing(job: Job) -> None:
    job.unit("a", lambda w: (w.write("dir/one", "1\n"), w.write("new", "n\n")))
    before = job.repo.head
    job.repo.write("dir/one", "mine\n")
    job.repo.write("new", "mine\n")
    job.repo.write("text", "unrelated\n")
    with pytest.raises(Refused) as caught:
        job.land()
    assert caught.value.outcome == "dirty_target"
    assert [item["path"] for item in caught.value.data["paths"]] == ["dir/one", "new"]
    assert job.repo.head == before
    job.repo.git("checkout", "dir/one")
    (job.repo.path / "new").unlink()
    assert job.land()["outcome"] == "done"
    assert (job.repo.path / "text").read_text() == "unrelated\n"


def test_a_moved_target_is_refused_or_replayed_onto(job: Job) -> None:
    job.unit("a", lambda w: w.write("a", "new\n"))
    job.repo.write("meanwhile", "m\n")
    moved = job.repo.commit("meanwhile")
    with pytest.raises(Refused) as caught:
        job.land()
    assert caught.value.outcome == "target_moved"
    landed = job.land(rebase=True)
    assert landed["rebased"]
    assert landed["before"] == moved
    assert job.repo.git("ls-tree", "--name-only", "HEAD").split() == ["README", "a", "dir", "meanwhile", "text"]


def test_landing_on_a_branch_nobody_has_checked_out(repo: Repo) -> None:
    repo.git("branch", "quiet")
    job = Job.begin(repo, target="refs/heads/quiet")
    job.unit("a", lambda w: w.write("a", "new\n"))
    before = repo.head
    landed = job.land()
    assert repo.git("rev-parse", "refs/heads/quiet") == landed["commit"]
    assert "checkout" not in landed
    assert repo.head == before


def test_the_trace_tells_each_application(job: Job) -> None:
    job.unit("a", lambda w: w.write("a", "new\n"))
    events = [event["event"] for event in job.active.tracer.journal.records()]
    kept = [name for name in events if not name.startswith("patch_gates_")]
    assert kept[-3:] == ["work_unit_patch_collected", "patch_apply_started", "patch_accepted"]
