"""What a unit does beside its work is contained and named: output without end, the repository's configuration, others'
worktrees and documents."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.support.commands import script, spawn
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MEGABYTE = 1024 * 1024
PRINTED = 1024 * MEGABYTE if FULL else 30 * MEGABYTE
LOG_LIMIT = 17 * MEGABYTE
MEMORY_LIMIT = 150 * MEGABYTE  # of job-run itself; it has 60 MB without any output


def result(repo: Repo, unit: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((repo.path / f".ktx/jobs/j1/units/{unit}/result.json").read_text())
    return loaded


def test_output_without_end_is_kept_in_bounds(repo: Repo) -> None:
    """Beginning and end are kept, what is left out is counted, and memory stays flat."""
    command = f"echo first; head -c {PRINTED} /dev/zero | tr '\\0' x; echo; echo last; echo e >&2; echo a > a.txt"
    path = job_file(repo, {"units": [unit("loud", command)]})
    child = subprocess.Popen([script("job-run"), str(path), "--job", "j1"], cwd=repo.path, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    print("max RSS", usage.ru_maxrss)
    assert usage.ru_maxrss * 1024 < MEMORY_LIMIT
    log = repo.path / ".ktx/jobs/j1/units/0001-loud/stdout.log"
    kept = log.read_bytes()
    told = result(repo, "0001-loud")
    assert kept.startswith(b"first\nxxx") and kept.endswith(b"xxx\nlast\n") and len(kept) < LOG_LIMIT
    assert told["stdoutBytes"] == PRINTED + 12 and told["stderrBytes"] == 2 and "stderrCut" not in told
    assert f"[{told['stdoutCut']} bytes were left out here]".encode() in kept
    assert log.with_name("stderr.log").read_bytes() == b"e\n"
    shown = spawn("job-report", "--job", "j1", cwd=repo.path).out
    assert f"loud: {told['stdoutCut']} bytes of its stdout are not in its log" in " ".join(shown.split())
