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
