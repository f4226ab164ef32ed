"""A pytest that is imported once and forked for each directory that it is told of: the tests that do not pass there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.suites import OFF

SERVER = """
import json, os, sys
import pytest, _pytest.assertion.rewrite, json, dataclasses, enum, subprocess, re, string, collections
sys.dont_write_bytecode = True
OFF = json.loads(sys.argv[1])

class Watch:
    def __init__(self):
        self.bad = set()
        self.ran = set()
    def pytest_runtest_logreport(self, report):
        self.ran.add(report.nodeid)
        if report.failed:
            self.bad.add(report.nodeid)
    def pytest_collectreport(self, report):
        if report.failed:
            self.bad.add(report.nodeid)

for line in sys.stdin:
    place = line.strip()
    pid = os.fork()
    if pid == 0:
        out = os.open(os.devnull, os.O_WRONLY)
        said = os.dup(1)
        os.dup2(out, 1), os.dup2(out, 2)
        os.chdir(place)
        sys.path[:] = [one for one in sys.path if one not in ("", os.getcwd())]
        sys.path.insert(0, place)
        watch = Watch()
        try:
            status = int(pytest.main([*OFF, "-q", "--continue-on-collection-errors"], plugins=[watch]))
        except BaseException:
            status = 99
        answer = {"status": status, "bad": sorted(watch.bad), "ran": len(watch.ran)}
        os.write(said, (json.dumps(answer) + "\\n").encode())
        os._exit(0)
    os.waitpid(pid, 0)
"""


class Runner:
    """Full runs of small suites. `bad`: node ids of tests and files; a status above 1: nothing may have run."""

    def __init__(self, home: Path) -> None:
        off = [word for name in (*OFF, "ktxkit", "cacheprovider") for word in ("-p", f"no:{name}")]
        self._child = subprocess.Popen(
            [sys.executable, "-B", "-c", SERVER, json.dumps(off)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env=dict(os.environ),
        )

    def run(self, place: Path) -> dict[str, Any]:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(f"{place}\n")
        self._child.stdin.flush()
        found: dict[str, Any] = json.loads(self._child.stdout.readline())
        return found

    def close(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait(60)
