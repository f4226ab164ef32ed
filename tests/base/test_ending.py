"""How a child ended is said in words, whichever signal it was."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ktxkit.base import process
from tests.support.commands import call
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

NAMELESS = signal.SIGRTMIN + 3

CASES = [
    (3, "ended with status 3"),
    (-signal.SIGKILL, "was ended by signal SIGKILL"),
    (-NAMELESS, f"was ended by signal {int(NAMELESS)}"),
]


@pytest.mark.parametrize(("status", "said"), CASES, ids=[said for _, said in CASES])
def test_the_words(status: int, said: str) -> None:
    assert process.ending(status) == said


@pytest.mark.parametrize("how", ["exit 3", "kill -9 $$", f"kill -{int(NAMELESS)} $$"])
def test_a_verification(repo: Repo, how: str) -> None:
    """It said `ended with status -9`."""
    (repo.path / "own.patch").write_text("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n")
    args = (repo.path / "own.patch", "--base", "HEAD", "--verify")
    ended = call("patch-apply", *args, "--", "sh", "-c", f"test ! -e new || {how}", cwd=repo.path)
    want = {"exit 3": CASES[0][1], "kill -9 $$": CASES[1][1]}.get(how, CASES[2][1])
    assert ended.status == 3 and f"the verification {want}" in ended.out, ended


def test_a_unit_killed_by_a_signal_without_a_name(repo: Repo) -> None:
    """A real-time signal ended the job with a traceback."""
    path = job_file(repo, {"units": [unit("a", f"kill -{int(NAMELESS)} $$")]})
    ended = call("job-run", path, "--job", "j", cwd=repo.path)
    assert f"was ended by signal {int(NAMELESS)}" in ended.out + ended.err
    assert (repo.path / ".ktx/jobs/j/report.json").exists()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo")
    made.write("base", "base\n")
    made.commit()
    return made
