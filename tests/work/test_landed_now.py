"""Landed is a fact about the branch: asked anew each time, after whatever was done to it."""

from __future__ import annotations

import pytest

from ktxkit.store.rules import names
from ktxkit.work import report
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo


def landed(repo: Repo) -> tuple[Job, str]:
    """A job of one unit that has landed, and the commit."""
    job = Job.begin(repo)
    job.unit("u", lambda tree: tree.write("new.md", "landed\n"))
    return job, str(job.land()["commit"])


def reset(repo: Repo) -> None:
    repo.git("reset", "-q", "--hard", "HEAD~1")


def forced(repo: Repo) -> None:
    """As after a force-push by somebody who had not seen it: other commits in its place."""
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write("other.md", "theirs\n")
    repo.commit()


def amended(repo: Repo) -> None:
    repo.git("commit", "-q", "--amend", "-m", "another message")


def gone_on(repo: Repo) -> None:
    repo.write("more.md", "x\n")
    repo.commit()


def amended_and_gone_on(repo: Repo) -> None:
    amended(repo)
    gone_on(repo)


@pytest.mark.parametrize("act", [reset, forced])
def test_what_is_not_there_any_more_is_told_and_kept(repo: Repo, act: object) -> None:
    job, commit = landed(repo)
    assert callable(act)
    act(repo)
    said = f"landed as {commit[:12]}, no longer on main"
    assert report.no_longer_in(job.active) == said
    answer = call("ledger-query", "--json", "job", "j1", cwd=repo.path).document
    assert answer["verdict"] == "false" and said in answer["reason"]
    assert said in call("git-ktx", "status", cwd=repo.path).out
    assert said in " ".join(call("job-report", "--job", "j1", cwd=repo.path).out.split())
    refs = repo.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/ktx")
    cleaned = call("git-ktx", "clean", "--yes", "--records", cwd=repo.path)
    assert said in cleaned.out
    assert repo.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/ktx") == refs
    assert job.world.store.exists(names.job_doc("j1"))


@pytest.mark.parametrize("act", [amended, gone_on, amended_and_gone_on])
def test_what_is_in_by_another_commit_is_in(repo: Repo, act: object) -> None:
    job, commit = landed(repo)
    assert callable(act)
    act(repo)
    head = repo.head
    assert report.no_longer_in(job.active) == ""
    assert job.land()["commit"] == commit and repo.head == head
    assert call("ledger-query", "--json", "job", "j1", cwd=repo.path).document["verdict"] == "true"
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    assert repo.git("for-each-ref", "refs/ktx/jobs") == ""


def test_an_older_commit_with_the_same_tree_is_no_landing(repo: Repo) -> None:
    """A job that took something back: its tree is one that the target had before."""
    first = repo.head
    repo.write("wrong.md", "x\n")
    repo.commit()
    job = Job.begin(repo)
    job.unit("u", lambda tree: (tree.path / "wrong.md").unlink())
    job.land()
    assert repo.git("rev-parse", "main^{tree}") == repo.git("rev-parse", f"{first}^{{tree}}")
    reset(repo)
    assert report.no_longer_in(job.active) != ""


def test_it_lands_again_and_the_first_record_stays(repo: Repo) -> None:
    job, commit = landed(repo)
    reset(repo)
    again = call("job-land", "--job", "j1", cwd=repo.path)
    assert again.status == 0, again.err
    assert repo.show("main", "new.md") == b"landed\n"
    store = job.world.store
    first = store.read_optional("landing", names.job_part("j1", "landing-1"))
    assert first is not None and first["commit"] == commit
    assert report.no_longer_in(job.active) == ""


def test_beside_other_commits_it_lands_again_where_asked_to_replay(repo: Repo) -> None:
    landed(repo)
    forced(repo)
    refused = call("job-land", "--job", "j1", cwd=repo.path)
    assert refused.status == 1 and "--rebase" in refused.err
    assert call("job-land", "--job", "j1", "--rebase", cwd=repo.path).status == 0
    assert (repo.show("main", "new.md"), repo.show("main", "other.md")) == (b"landed\n", b"theirs\n")


def test_a_branch_that_was_deleted_has_nothing(repo: Repo) -> None:
    repo.git("branch", "side")
    job = Job.begin(repo, target="refs/heads/side")
    job.unit("u", lambda tree: tree.write("new.md", "landed\n"))
    job.land()
    repo.git("branch", "-q", "-D", "side")
    assert "no longer on side" in report.no_longer_in(job.active)
