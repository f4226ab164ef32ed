"""Which git calls the steps of a unit make: each is justified in docs/design-git.md, and none comes unnoticed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import process
from ktxkit.git.neutral import pooled, reading
from ktxkit.work import closing
from tests.support.integration import Job
from tests.support.repos import Repo

# One unit of a job whose readers are at work already. In the order in which they are made.
OPEN = ["worktree add", "rev-parse", "read-tree"]
COLLECT = [
    "rev-parse", "status", "ls-files", "update-index", "status", "write-tree", "commit-tree", "diff-tree",
    "update-index", "apply", "ls-files", "update-ref",
]  # fmt: skip
APPLY = ["merge-tree", "commit-tree", "update-ref"]
CLOSE = ["rev-parse", "ls-files", "status", "update-index", "ls-files"]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git commands that are started, as they are."""
    found: list[str] = []
    start = process.start

    def noted(command: process.Command, **how: Any) -> Any:
        words = [os.fsdecode(word) for word in command.argv]
        if words[0] == "git":
            found.append(" ".join(words[1:3]) if words[1] == "worktree" else words[1])
        return start(command, **how)

    monkeypatch.setattr(process, "start", noted)
    return found


def test_the_calls_of_a_unit(tmp_path: Path, called: list[str]) -> None:
    repo = Repo.init(tmp_path / "repo")
    for name in ("a", "b", "d/c"):
        repo.write(name, f"{name}\n")
    repo.commit()
    job = Job.begin(repo)
    steps: dict[str, list[str]] = {}
    with pooled(job.world), reading(job.world):
        for key, name in (("first", "a"), ("second", "d/c")):
            called.clear()
            child = job.open(key)
            steps["open"] = list(called)
            child.write(name, "changed\n")
            for step in ("collect", "apply", "close"):
                called.clear()
                if step == "close":
                    closing.close_unit(job.active, job.units[key], "success")
                else:
                    getattr(job, step)(key)
                steps[step] = list(called)
    for name, wanted in {"open": OPEN, "collect": COLLECT, "apply": APPLY, "close": CLOSE}.items():
        assert (name, steps[name]) == (name, wanted)
