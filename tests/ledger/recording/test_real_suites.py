"""Other projects' own suites, from their source distributions: our counts are pytest's own, and pytest-reportlog's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.repos import Repo
from tests.support.suites import Suite

PROJECTS = ("iniconfig", "pluggy", "click")
SHORT = ("iniconfig",)


def source(name: str, directory: Path) -> Path:
    """The source distribution, unpacked. Skips where the index cannot be reached; under CI=true that fails."""
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(directory), name]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    found = list(directory.glob("*.tar.gz"))
    if done.returncode or not found:
        reason = f"pip could not download {name}: {done.stderr[-300:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with tarfile.open(found[0]) as archive:
        archive.extractall(directory, filter="data")
    return next(path for path in directory.iterdir() if path.is_dir())


def reportlog_counts(path: Path) -> Counter[str]:
    """The words of pytest's summary, counted from the reports in the file alone."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        report = json.loads(line)
        kind, outcome, when = report.get("$report_type"), report.get("outcome"), report.get("when")
        if kind == "CollectReport" and outcome == "failed":
            counts["errors"] += 1
        elif kind == "CollectReport" and outcome == "skipped":
            counts["skipped"] += 1
        elif kind in ("SubTestReport", "SubtestReport"):
            counts["failed"] += outcome == "failed"
        elif kind == "TestReport" and "wasxfail" in report and outcome in ("skipped", "passed"):
            if when == "call" or outcome == "skipped":
                counts["xfailed" if outcome == "skipped" else "xpassed"] += 1
        elif kind == "TestReport" and outcome == "failed":
            counts["failed" if when == "call" else "errors"] += 1
        elif kind == "TestReport" and outcome == "skipped":
            counts["skipped"] += 1
        elif kind == "TestReport" and when == "call" and outcome == "passed":
            counts["passed"] += 1
    return counts


@pytest.mark.parametrize("name", PROJECTS if os.environ.get("KTX_TEST_FULL") else SHORT)
def test_counts(name: str, tmp_path: Path) -> None:
    """Alone and under xdist."""
    root = source(name, tmp_path)
    repo = Repo.init(root)
    repo.commit("as released")
    suite = Suite(repo, env={"PYTHONPATH": str(root / "src")})
    _ = suite.world.writable_store
    for options, plugins in (((), ("reportlog",)), (("-n", "2"), ("reportlog", "xdist"))):
        log = tmp_path / f"{len(options)}.jsonl"  # with `=`: a word of its own would be a path that decides the rootdir
        ended = suite.run("-q", "-W", "default", f"--report-log={log}", *options, plugins=plugins)
        record = suite.records[-1]
        known = {
            key: count for key, count in ended.summary.items() if key in set(record["reported"]) | {"passed", "failed"}
        }
        assert record["reported"] == known, ended.out[-2000:]
        assert Counter(record["reported"]) == reportlog_counts(log)
        assert record["counts"]["selected"] > 20 and "lost" not in record
        assert record["state"] == "finished" and record["exitStatus"] == ended.status
        assert record["workers"] == (2 if options else 0)
    assert len(suite.records) == 2
