"""How much memory a command took: its own process, and the largest of its children, at their peaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RUN = """
import importlib, json, os, resource, sys
def peak(who):
    return resource.getrusage(who).ru_maxrss * 1024
status = importlib.import_module("ktx_" + sys.argv[1].replace("-", "_")).main(sys.argv[2:])
sys.stdout.flush()
told = {"status": status, "own": peak(resource.RUSAGE_SELF), "children": peak(resource.RUSAGE_CHILDREN)}
os.write(2, b"\\n" + json.dumps(told).encode())
"""
GIT = """
import json, resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
told = {"status": status, "own": 0, "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}
sys.stderr.write("\\n" + json.dumps(told))
"""


@dataclass(frozen=True)
class Peak:
    """Bytes at the peak: `own` of the command's process, `children` of the largest git that it ran."""

    status: int
    own: int
    children: int
    out: str = ""


def _measured(program: str, *args: str | Path, cwd: Path) -> Peak:
    # Linux counts what the parent has at exec as the child's own: so a small shell stands between.
    between = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]
    argv = [*between, sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, check=False, env=dict(os.environ))
    told = json.loads(done.stderr.rpartition(b"\n")[2])
    return Peak(told["status"], told["own"], told["children"], done.stdout.decode())


def of_command(name: str, *args: str | Path, cwd: Path) -> Peak:
    return _measured(RUN, name, *args, cwd=cwd)


def of_git(*args: str | Path, cwd: Path) -> Peak:
    """git's own, for the comparison; its output goes nowhere."""
    return _measured(GIT, "git", *args, cwd=cwd)
