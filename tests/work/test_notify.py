"""The notify command: what it is told, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import contracts
from ktxkit.work.job import run
from tests.support.commands import call
from tests.support.report_job import report
from tests.support.repos import Repo

JOB = "schemaVersion: 1\nconnectionId: c\nsourceKey: s\nunits: [{key: a, run: 'echo a > a'}, {key: b, run: 'exit 3'}]\n"


def job(repo: Repo, *more: str) -> Any:
    (repo.path / "job.yaml").write_text(JOB)
    return call("job-run", "job.yaml", "--job", "j1", "--quiet", *more, cwd=repo.path)


def test_the_end_of_a_job_is_told(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_NOTIFY", f'{{ echo "$KTX_EVENT $KTX_JOB $PWD"; cat; }} >> {tmp_path}/told')
    assert job(repo).status == 3
    head, line = (tmp_path / "told").read_text().splitlines()
    assert head == f"job_ended j1 {repo.path}"
    told = contracts.loads("notice", line.encode())
    assert (told["outcome"], told["commit"], told["outcomes"]) == ("partial", repo.head, {"accepted": 1, "failed": 1})
    assert Path(told["trace"]).is_file()


def test_the_configuration_names_it_too(repo: Repo, tmp_path: Path) -> None:
    (repo.path / ".ktx-config.yaml").write_text(f"notify: cat > {tmp_path}/told\n")
    repo.commit()
    assert job(repo).status == 3
    assert json.loads((tmp_path / "told").read_text())["jobId"] == "j1"


@pytest.mark.parametrize("command", ["exit 7", "no-such-command", "kill -KILL $$"])
def test_a_command_that_fails_changes_nothing_and_is_on_record(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("KTX_NOTIFY", command)
    assert job(repo).status == 3
    last = call("ledger-query", "trace", "j1", "--event", "notify_failed", "--json", cwd=repo.path).document
    assert len(last["rows"]) == 1
    assert repo.git("show", "HEAD:a") == "a"


def test_suspects_and_what_is_blocked_are_told() -> None:
    made = report(3)
    made["failedWorkUnits"] = [
        {"position": 1, "key": "s", "outcome": "suspect_revert", "reason": "old file over a new one"},
        {"position": 2, "key": "t", "outcome": "textual_conflict", "reason": "both"},
        {"position": 3, "key": "b", "outcome": "blocked", "reason": ""},
    ]
    made["failure"] = {"phase": "landing", "message": "HEAD moved", "details": {"outcome": "blocked"}}
    told = list(run.notices(made, "2026-05-17T12:00:00.000Z"))
    for notice in told:
        contracts.validate("notice", notice)
    assert [(n["event"], n.get("unitKey"), n.get("message")) for n in told] == [
        ("job_ended", None, "landing: HEAD moved"),
        ("blocked", None, "landing: HEAD moved"),
        ("suspect", "s", "old file over a new one"),
        ("blocked", "b", "blocked"),
    ]
