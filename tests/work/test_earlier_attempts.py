"""A unit's earlier attempts, kept as evidence beside the one that has the lease: never taken for it, never lost, and
cleared with their work when their job is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.repos import Repo

UNIT = ("--job", "j", "--unit", "a")


@pytest.fixture
def attempts(repo: Repo) -> tuple[Repo, Repo]:
    """The worktrees of a first attempt, closed as conflict, and of a second, which is open. Both have work."""
    made = []
    for number in ("one", "two"):
        tree = Repo(Path(call("worktree-open", *UNIT, cwd=repo.path).out.strip()))
        tree.write("work", f"{number}\n")
        made.append(tree)
        if number == "one":
            assert call("worktree-close", *UNIT, "--outcome", "conflict", cwd=repo.path).status == 0
    return made[0], made[1]


def test_in_an_earlier_attempt_no_command_means_the_later_one(repo: Repo, attempts: tuple[Repo, Repo]) -> None:
    """A repair by hand in what a report named as kept was left out, and the other attempt's files landed."""
    first, second = attempts
    for command in (("patch-collect",), ("worktree-close", "--outcome", "success", "--discard"), ("patch-apply",)):
        refused = call(*command, cwd=first.path)
        assert refused.status == 1 and "an earlier attempt of unit 'a'; attempt 2 has the lease" in refused.err, command
        assert str(second.path) in refused.err
    assert (first.path / "work").read_text() == "one\n" and (second.path / "work").read_text() == "two\n"
    assert repo.git("for-each-ref", "refs/ktx/units") == ""
    assert call("patch-collect", *UNIT, cwd=first.path).status == 0
    assert repo.show("refs/ktx/units/j/0001-a", "work") == b"two\n"


def test_they_are_listed_with_their_unit_and_stay_while_the_job_is_open(
    repo: Repo, attempts: tuple[Repo, Repo]
) -> None:
    first, second = attempts
    rows = call("worktree-open", "--prune", "--json", cwd=repo.path).document["worktrees"]
    told = {row["path"]: (row["kind"], row.get("attempt"), row.get("state"), "dead" in row) for row in rows}
    assert told[str(first.path)] == ("unit", 1, "closed", False)
    assert told[str(second.path)] == ("unit", 2, "open", False)
    assert first.path.exists()


@pytest.mark.parametrize("how", [("worktree-open", "--prune"), ("git-ktx", "clean", "--yes")], ids=["prune", "clean"])
def test_when_the_job_has_landed_they_go_and_their_work_to_the_attic(
    repo: Repo, attempts: tuple[Repo, Repo], how: tuple[str, ...]
) -> None:
    first, second = attempts
    for command in ("patch-collect", "patch-apply"):
        assert call(command, *UNIT, cwd=repo.path).status == 0
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0
    assert "no document of a job" not in call("job-report", "j", cwd=repo.path).out
    assert call(*how, cwd=repo.path).status == 0
    assert not first.path.exists() and not second.path.exists()
    (attic,) = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").split()
    assert repo.show(attic, "work") == b"one\n"
    assert len(repo.git("worktree", "list").splitlines()) == 1
    assert call("git-ktx", "doctor", cwd=repo.path).status == 0


def test_a_directory_that_only_has_such_a_name_is_left_alone(repo: Repo, attempts: tuple[Repo, Repo]) -> None:
    own = repo.path / ".ktx/worktrees/j/0001-a.attempt-9"
    own.mkdir()
    (own / "notes").write_text("mine\n")
    assert call("worktree-open", "--prune", cwd=repo.path).status == 0
    assert (own / "notes").read_text() == "mine\n"


@pytest.mark.parametrize("outcome", ["empty", "success"])
def test_what_an_earlier_attempt_collected_goes_to_the_attic_when_another_is_collected(
    repo: Repo, outcome: str
) -> None:
    """Its worktree could be closed because its work was collected: that commit was then the only place of it."""
    for number in ("one", "two"):
        tree = Repo(Path(call("worktree-open", *UNIT, cwd=repo.path).out.strip()))
        tree.write("work", f"{number}\n")
        assert call("patch-collect", *UNIT, cwd=repo.path).status == 0
        tree.write("work", f"{number}\nmore\n")
        assert call("patch-collect", *UNIT, cwd=repo.path).status == 0
        if number == "one":
            closed = call("worktree-close", *UNIT, "--outcome", outcome, cwd=repo.path)
            assert closed.status == 0, closed.err
    (ref,) = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").split()
    assert ref.startswith("refs/ktx/attic/j/0001-a/1-") and repo.show(ref, "work") == b"one\nmore\n"
    assert repo.show("refs/ktx/units/j/0001-a", "work") == b"two\nmore\n"
    (row,) = call("git-ktx", "attic", "list", "--json", cwd=repo.path).json["data"]["entries"]
    assert row["why"] == "attempt 2 was collected in its place"


def test_what_a_retried_unit_collected_before_goes_to_the_attic(repo: Repo) -> None:
    repo.write(
        "job.yaml",
        "job: j\ntarget: main\nverify: test ! -e b\n"
        "units:\n  - {key: a, run: echo a > a}\n  - {key: b, run: echo b > b}\n",
    )
    repo.git("add", "job.yaml")
    repo.commit("job")
    assert call("job-run", "job.yaml", cwd=repo.path).status == 3
    kept = repo.git("rev-parse", "refs/ktx/units/j/0002-b").strip()
    done = call("job-run", "--resume", "j", "--retry", "b", "--", "sh", "-c", "echo c > c", cwd=repo.path)
    assert done.status == 0, done.err
    refs = repo.git("for-each-ref", "--format=%(objectname)", "refs/ktx/attic").split()
    assert kept in refs and repo.show(kept, "b") == b"b\n"
