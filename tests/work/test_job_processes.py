"""How many git processes a job of one unit starts, and which of them ask again what another has asked."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.support.commands import spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

MOST = 46  # git processes of a job of one unit; one tells people what of their checkout units do not see
LOOK = "what a unit must not touch, looked at before its command, after it, and once all is integrated"
PROOF = "the state before the change, and the state after it"
# Started more than once with the same words: how often at most, and why once is not enough.
REPEATED = {
    "cat-file --batch-command": (2, "one reader of the user's refs and objects, one of the neutral git directory"),
    "commit-tree TREE -p COMMIT -F -": (2, "the unit's commit and the candidate's; the message on stdin differs"),
    "ls-files -s -z": (3, "a patch reproduces its tree; a worktree is as it was collected; a checkout has followed"),
    "ls-files -v -z": (3, "edits that git hides: at collecting, at closing, and in the checkout that has to follow"),
    "status --no-renames --porcelain=v2 --branch -z --untracked-files=all --ignore-submodules=none": (3, LOOK),
    "status --porcelain=v2 -z -uall --ignore-submodules=none --no-renames --ignored=matching --branch "
    "--no-ahead-behind": (2, f"the checkout that follows: {PROOF}"),
    "update-index --add --remove --replace -z --stdin": (
        2,
        "a change is collected; before its worktree goes, it is so",
    ),
}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each git that is started from PATH leaves its words, ended by an empty one."""
    git, log = shutil.which("git"), tmp_path / "started"
    assert git is not None
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" '' >> '{log}'\nexec '{git}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
    return log


def started(log: Path) -> list[str]:
    return [" ".join(one.split("\0")) for one in log.read_text().removesuffix("\0\0").split("\0\0")]


def plain(repo: Repo, words: str) -> str:
    """The words with names for the ids in them."""
    return re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", words.replace(repo.tree, "TREE"))


def test_a_job_of_one_unit(repo: Repo, recorded: Path) -> None:
    for number in range(9):
        repo.write(f"src/f{number}", f"{number}\n")
    repo.commit()
    repo.git("config", "user.name", "U")
    repo.git("config", "user.email", "u@example.invalid")
    path = job_file(repo, {"units": [unit("u", "echo x > src/f1")]})
    recorded.unlink()
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    calls = started(recorded)
    assert outcomes(repo) == {"u": "accepted"} and repo.show("main", "src/f1") == b"x\n"
    assert len(calls) <= MOST, "\n".join(calls)
    again = {plain(repo, words): times for words, times in Counter(calls).items() if times > 1}
    assert again == {words: times for words, (times, _) in REPEATED.items()}


def test_a_unit_that_changes_nothing(repo: Repo, recorded: Path) -> None:
    path = job_file(repo, {"units": [unit("u", "true")]})
    recorded.unlink(missing_ok=True)
    assert spawn("job-run", path, "--job", "j1", cwd=repo.path).status == 0
    calls = started(recorded)
    assert outcomes(repo) == {"u": "noop"}
    assert len(calls) <= MOST - 20, "\n".join(calls)
    assert {plain(repo, words) for words, times in Counter(calls).items() if times > 1} <= REPEATED.keys()
