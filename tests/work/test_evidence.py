"""A verification that was asked for has run, has passed on exactly its tree, and what it said is still there."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import call, script
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo")
    made.write("README", "a repository\n")
    made.write(".gitignore", "build/\n")
    made.commit("first")
    return made


def accepted(repo: Repo, *options: str) -> None:
    place = Path(call("worktree-open", "--job", "j", "--unit", "u", "--target", "main", cwd=repo.path).out.strip())
    (place / "n").write_text("n")
    assert call("patch-collect", "--job", "j", "--unit", "u", cwd=repo.path).status == 0
    assert call("patch-apply", "--job", "j", "--unit", "u", *options, cwd=repo.path).status == 0


def test_an_open_attempt_is_no_pass_and_the_earlier_word_is_kept(repo: Repo, tmp_path: Path) -> None:
    accepted(repo)
    assert call("job-verify", "--job", "j", "--", "false", cwd=repo.path).status == 3
    command = [script("job-verify"), "--job", "j", "--", "sh", "-c", "echo begun; sleep 60"]
    killed = subprocess.Popen(["sh", "-c", 'exec "$@"', "sh", *command], cwd=repo.path)
    place = repo.path / ".ktx/jobs/j/verification.json"
    while json.loads(place.read_text())["state"] != "attempt":
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    landed = call("job-land", "--job", "j", cwd=repo.path)
    assert landed.status == 3 and "was begun and did not end" in landed.err, landed.err
    kept = json.loads((repo.path / ".ktx/jobs/j/verifications/0001.json").read_text())
    assert kept["outcome"] == "verification_failed"
    assert call("job-verify", "--job", "j", "--", "true", cwd=repo.path).status == 0
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0


def test_a_command_that_did_not_run_is_no_pass(repo: Repo) -> None:
    accepted(repo, "--verify", "--", "true")
    again = ["patch-apply", "--job", "j", "--unit", "u", "--verify", "--"]
    assert call(*again, "true", cwd=repo.path).status == 0, "this one has passed"
    other = call(*again, "false", cwd=repo.path)
    assert other.status == 1 and "accepted, not verified by this command" in other.err, other.err


def test_a_pass_is_of_the_environment_that_the_job_declares(repo: Repo, tmp_path: Path) -> None:
    """What it declares is what the command sees; a pass in another environment is none, one at another terminal is."""
    asked = tmp_path / "asked"
    run = f'echo "$COLOUR $TERM" >> {asked}; test ! -e n || test "$COLOUR" = green'
    document = {
        "target": "main",
        "verify": {"run": run, "env": {"COLOUR": "green"}},
        "units": [unit("u", "echo y > n")],
    }
    job = call("job-run", job_file(repo, document), "--job", "j", cwd=repo.path, env={"COLOUR": "red", "TERM": "one"})
    assert job.status == 0, job
    assert asked.read_text().split("\n")[-2] == "green one"
    assert outcomes(repo, "j") == {"u": "accepted"}


@pytest.mark.parametrize(("name", "count"), [("OTHER", 2), ("TERM", 1), ("SSH_TTY", 1)])
def test_a_landing_asks_again_in_another_environment(repo: Repo, tmp_path: Path, name: str, count: int) -> None:
    asked = tmp_path / "asked"
    document = {"target": "main", "verify": f"echo asked >> {asked}", "units": [unit("u", "echo y > n")]}
    repo.write("f", "uncommitted")
    repo.git("add", "f")
    repo.write("n", "in the way of the landing")
    first = call("job-run", job_file(repo, document), "--job", "j", cwd=repo.path, env={name: "one"})
    assert first.status == 1 and outcomes(repo, "j") == {"u": "accepted"}, first
    (repo.path / "n").unlink()
    landed = call("job-land", "--job", "j", cwd=repo.path, env={name: "two"})
    assert landed.status == 0, landed
    assert len(asked.read_text().split()) == count


def test_the_log_that_is_named_is_there(repo: Repo) -> None:
    document = {"target": "main", "verify": {"run": "echo the-reason; exit 3"}, "units": [unit("u", "echo y > n")]}
    ran = call("job-run", str(job_file(repo, document)), "--job", "j1", cwd=repo.path)
    assert ran.status != 0 and report(repo)["failedWorkUnits"]
    logs = list((repo.path / ".ktx/jobs/j1/units/0001-u").glob("verify-*.log"))
    assert logs and all("the-reason" in log.read_text() for log in logs)


def test_what_an_earlier_candidate_left_lets_none_pass(repo: Repo) -> None:
    """The products that git ignores are gone, in a directory, as a file, and in a repository of its own."""
    build = "mkdir -p build; test ! -e one || touch build/one; git init -q build/inner; test -e build/one"
    repo.write("one", "1")
    repo.commit("a source")
    units = [unit("first", "echo x > note"), unit("second", "git rm -q one")]
    document = {"target": "main", "maxParallel": 1, "verify": {"run": build}, "units": units}
    call("job-run", str(job_file(repo, document)), "--job", "j1", cwd=repo.path)
    assert outcomes(repo) == {"first": "accepted", "second": "verification_failed"}


def test_what_the_job_file_keeps_stays_and_is_told(repo: Repo, tmp_path: Path) -> None:
    """A package cache may stay from one candidate to the next; whatever else git ignores is gone, and the report
    says that the checkout held more than its tree."""
    repo.write(".gitignore", "cache/\nbuild/\n*.log\n")
    repo.commit("rules")
    log = tmp_path / "seen"
    check = f"ls -d cache build x.log >> {log} 2> /dev/null; mkdir -p cache build; touch cache/x build/x x.log; true"
    units = [unit("a", "echo a > a"), unit("b", "echo b > b", after=["a"])]
    path = job_file(repo, {"verify": {"run": check, "keep": ["cache/"]}, "units": units})
    ran = call("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert set(log.read_text().split()) == {"cache"}
    assert any("keep what earlier candidates left at cache/" in one for one in report(repo)["warnings"])
    assert (repo.path / ".ktx/worktrees/j1/integration/cache/x").exists()
