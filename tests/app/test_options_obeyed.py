"""An option that is parsed is obeyed or refused, in every mode of a command that has more than one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.commands import spawn
from tests.support.repos import Repo

COMMON = {"help", "version", "directory", "ktx_dir", "json", "quiet"}
UNIT = ["--job", "j", "--unit", "u"]
MODES = {  # command line, and the options that this mode obeys
    "patch-collect": [
        (UNIT, {"job", "unit", "include_uncommitted", "require_clean", "output", "base"}),
    ],
    "patch-apply": [
        (
            UNIT,
            {"job", "unit", "expect_head", "message", "follow_renames", "no_gates", "verify", "verify_limit", "patch"},
        ),
    ],
    "worktree-open": [
        (["--list"], {"ref", "pr", "detach", "list", "prune"}),
        (
            ["new"],
            {"name", "ref", "pr", "detach", "list", "prune", "base", "path", "no_fetch", "copy", "sparse", "unit"},
        ),
    ],
}
CASES = [
    (command, line, action.option_strings[-1], action.nargs == 0)
    for command, modes in MODES.items()
    for line, obeyed in modes
    for action in importlib.import_module("ktx_" + command.replace("-", "_")).parser()._actions
    if action.dest not in COMMON | obeyed and action.option_strings
]


@pytest.mark.parametrize(("command", "line", "option", "bare"), CASES, ids=[f"{c[0]} {c[1][0]} {c[2]}" for c in CASES])
def test_an_option_that_is_not_obeyed_is_refused(
    tmp_path: Path, command: str, line: list[str], option: str, bare: bool
) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    ran = spawn(command, *line, option, *([] if bare else ["7"]), cwd=repo.path)
    assert ran.status == 2 and f"{option} is not obeyed" in ran.err, ran.err


def test_the_job_of_the_environment_is_opened(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    opened = spawn("worktree-open", "--unit", "u", "--target", "main", cwd=repo.path, env={"KTX_JOB": "j"})
    assert opened.status == 0 and (repo.path / ".ktx/jobs/j/units/0001-u/lease.json").exists(), opened.err
