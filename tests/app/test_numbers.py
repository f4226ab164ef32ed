"""Numbers that nothing can be done with: refused with a sentence and status 2, as one document with --json."""

from __future__ import annotations

import pytest

from ktxkit.app.cli import count, seconds
from tests.support.commands import call
from tests.support.repos import Repo

SECONDS = {
    "worktree-watch": ("--once", "--job", "j", "--unit", "u", "--interval"),
    "job-verify": ("--job", "j", "--limit"),
    "patch-apply": ("--job", "j", "--verify-limit"),
    "ingest-run": ("metabase", "x", "--connection", "c", "--time-limit"),
    "trace-append": ("--job", "j", "--phase", "a", "--event", "b", "--duration-ms"),
}
COUNTS = {
    "ledger-query": ("runs", "--limit"),
    "job-run": ("x.yaml", "--max-parallel"),
    "patch-collect": ("--max-file-bytes",),
    "test-select": ("--sample",),
    "worktree-open": ("--pr",),
}


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1", "99999999999999999999", "", "x"])
def test_no_command_takes_them(repo: Repo, value: str) -> None:
    for command, words in (SECONDS | COUNTS).items():
        *before, option = words
        ran = call(command, *before, f"{option}={value}", "--json", cwd=repo.path)
        assert ran.status == 2, (command, value, ran)
        assert option in ran.json["error"]["message"] and "from 0 to" in ran.json["error"]["message"], ran.out


def test_what_is_one() -> None:
    assert [seconds(text) for text in ("0", "1.5", "1e3")] == [0.0, 1.5, 1000.0]
    assert [count(text) for text in ("0", "12", "9007199254740992")] == [0, 12, 2**53]
