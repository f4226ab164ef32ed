"""Pytest in a process of its own without the start of one: a server has imported it and forks for each run.

Such a run has its own session, working directory, environment, arguments and output, as if it were started. What an
interpreter reads at its start is that of the server: a test of that starts a process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import endings

SERVER = """
import gc, json, os, runpy, signal, sys
import pytest, _pytest.assertion.rewrite, _pytest.terminal
import ktxkit.ledger.pytest_plugin, ktxkit.ledger.recording.recorder, ktxkit.ledger.recording.opening

def run(cwd, env, argv, out):
    os.close(ANSWER)
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(out, os.O_WRONLY | os.O_APPEND)
    os.dup2(null, 0), os.dup2(file, 1), os.dup2(file, 2)
    os.close(null), os.close(file)
    sys.path[0] = cwd
    sys.argv = ["pytest", *argv]
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)

gc.collect()
gc.freeze()
ANSWER = os.dup(1)
for line in sys.stdin:
    told = json.loads(line)
    pid = os.fork()
    if pid == 0:
        run(**told)
        sys.exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.write(ANSWER, f"{status}\\n".encode())
"""


def can_run(env: Mapping[str, str]) -> bool:
    """Whether the interpreter would start with the settings of the server."""
    return {name for name in env if name.startswith("PYTHON")} <= {"PYTHONDONTWRITEBYTECODE"}


def pytest(*args: str, cwd: Path, env: Mapping[str, str]) -> tuple[int, bytes]:
    """`python -m pytest ARGS` to its end, and that of what it leaves in its process group: status and output."""
    server = endings.server(os.getpid(), sys.executable, "-c", SERVER, cwd="/", own_session=True)
    assert server.stdin is not None and server.stdout is not None
    with tempfile.NamedTemporaryFile(prefix="ktx-pytest-") as out:
        told = {"cwd": str(cwd), "env": dict(env), "argv": args, "out": out.name}
        server.stdin.write(json.dumps(told) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), out.read()
