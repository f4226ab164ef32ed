"""A revision that is typed and is none is a matter of usage, in every command: status 2, with its name."""

from __future__ import annotations

import pytest

from tests.support.commands import call
from tests.support.repos import Repo

COMMANDS = {
    "patch-apply": ["p.patch", "--base", "nothing"],
    "patch-collect": ["--base", "nothing", "-o", "p.patch"],
    "worktree-open": ["work", "--base", "nothing"],
    "worktree-open of a unit": ["--job", "j1", "--unit", "a", "--base", "nothing"],
    "worktree-open at a ref": ["--ref", "nothing"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_status_2(repo: Repo, name: str) -> None:
    patch = repo.path / "p.patch"
    patch.write_text("")
    args = [patch if word == "p.patch" else word for word in COMMANDS[name]]
    ran = call(name.partition(" ")[0], *args, cwd=repo.path)
    assert ran.status == 2, ran
    assert "no commit 'nothing'" in ran.err and "hint: " in ran.err


@pytest.mark.parametrize("name", ["worktree-open", "job-run"])
def test_one_word_for_a_target_that_is_none(repo: Repo, name: str) -> None:
    file = repo.path / "job.yaml"
    file.write_text('{"schemaVersion": 1, "connectionId": "c", "sourceKey": "s", "target": "nothing", "units": []}')
    args = ["--job", "j1", "--unit", "a", "--target", "nothing"] if name == "worktree-open" else [str(file)]
    ran = call(name, *args, cwd=repo.path)
    assert (ran.status, "no branch 'nothing' to land on\n  hint: the branches are main" in ran.err) == (2, True), ran
