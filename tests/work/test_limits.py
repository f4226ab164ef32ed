"""What a unit may take of the machine: it is ended, or refused by the kernel, and the others land."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from ktxkit.base import sandbox
from ktxkit.work.rules.job_file import limits_of
from tests.support.commands import call, spawn
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

PYTHON = f"{sys.executable} -c"
TAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "memory of one": ({"memory": "96M"}, f"{PYTHON} 'bytearray(400 << 20)'", "it ended with status 1"),
    "memory of all": (
        {"memory": "100M"},
        f"for i in 1 2 3; do {PYTHON} 'x = bytearray(b\"x\") * (40 << 20); import time; time.sleep(60)' & done; wait",
        "it took more than 104857600 bytes of memory",
    ),
    "processes": (
        {"processes": 8},
        "for i in $(seq 20); do env -i setsid sleep 60 & done; wait",
        "it had more than 8 processes" if os.getuid() == 0 else "",
    ),
    "files": ({"files": 20}, f"{PYTHON} 'a = [open(\"/dev/null\") for _ in range(40)]'", "it ended with status 1"),
    "one file": ({"disk": "4M"}, "head -c 9000000 /dev/zero > big", ""),
    "a sparse file": ({"disk": "4M"}, "truncate -s 5G big", ""),
    "files together": (
        {"disk": 3 << 20},
        "for i in $(seq 6); do head -c 1000000 /dev/urandom > e$i; done; sleep 60",
        "it wrote more than 3145728 bytes",
    ),
}


@pytest.mark.parametrize("kind", TAKES)
def test_a_unit_that_takes_more_fails_and_the_others_land(repo: Repo, kind: str) -> None:
    said, command, why = TAKES[kind]
    units = [unit("greedy", command, limits=said, timeLimit=60), unit("good", "yes | head -1 > g")]
    ran = call("job-run", job_file(repo, {"units": units}), "--job", "j1", cwd=repo.path)
    assert outcomes(repo) == {"greedy": "failed", "good": "accepted"}, ran
    assert why in report(repo)["failedWorkUnits"][0]["reason"]
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "g"]


@pytest.mark.parametrize("isolate", [False, True])
def test_what_keeps_within_its_limits_is_as_without(repo: Repo, isolate: bool) -> None:
    """Those of the job, of which a unit says some again; the signals that Python ignores end it as they should."""
    command = "yes | head -2 > n; ulimit -n >> n; ulimit -f >> n"
    document = {
        "limits": {"memory": "2G", "processes": 100, "files": 50, "disk": "1G"},
        "isolate": isolate,
        "units": [unit("a", command, limits={"files": 60}), unit("b", "yes 2> b | head -1 > c")],
    }
    ran = spawn("job-run", job_file(repo, document), "--job", "j1", cwd=repo.path)
    if isolate and "cannot isolate" in ran.err:
        pytest.skip("this kernel cannot isolate")
    assert ran.status == 0, ran
    assert repo.show("main", "n") == b"y\ny\n60\n%d\n" % ((1 << 30) // 512)
    assert repo.show("main", "b") == b"", "SIGPIPE ended it without a word"


@pytest.mark.parametrize(
    ("said", "number"), [(7, 7), ("7", 7), ("3K", 3072), ("2M", 2 << 20), ("1G", 1 << 30), ("1T", 1 << 40)]
)
def test_sizes(said: int | str, number: int) -> None:
    assert limits_of({"memory": said}) == {"memory": number}
    assert limits_of({"memory": 1, "files": 2}, {"memory": said}) == {"memory": number, "files": 2}


@pytest.mark.parametrize("said", [{"memory": 0}, {"memory": "1.5G"}, {"disk": "big"}, {"files": -1}, {"cpu": 1}])
def test_what_is_no_limit_is_said_before_anything_runs(repo: Repo, said: dict[str, Any]) -> None:
    units = [unit("a", "echo a > a")]
    ran = call("job-run", job_file(repo, {"limits": said, "units": units}), "--job", "j1", cwd=repo.path)
    assert ran.status == 2 and "limits" in ran.err, ran


def test_a_command_that_cannot_be_started_is_said(repo: Repo) -> None:
    units = [unit("a", ["no-such-command"], limits={"files": 50})]
    ran = call("job-run", job_file(repo, {"units": units}), "--job", "j1", cwd=repo.path)
    assert outcomes(repo) == {"a": "failed"}, ran
    said = (repo.path / ".ktx/jobs/j1/units/0001-a/stderr.log").read_text()
    assert said == "cannot start no-such-command within its limits: [Errno 2] No such file or directory\n"


def test_what_goes_away_while_it_is_counted_is_nothing() -> None:
    assert sandbox.memory_of(1 << 30) == 0
    assert sandbox.disk_usage(["/no/such/place"]) == 0
