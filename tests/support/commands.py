"""Run a command as its users do: as a process, or in this one for speed."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def document(self) -> Any:
        return self.json["document"]


def script(name: str) -> str:
    """The installed console script."""
    return str(BIN / name)


def spawn(name: str, *args: str | Path, cwd: Path, env: dict[str, str] | None = None, stdin: bytes = b"") -> Ran:
    """The installed script in a process of its own."""
    done = subprocess.run(
        [script(name), *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "replace"))


def call(name: str, *args: str | Path, cwd: Path) -> Ran:
    """The command's main in this process, standing in `cwd` (by -C, so that tests may run side by side)."""
    module = importlib.import_module("ktx_" + name.replace("-", "_"))
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = module.main([*_placed(args, cwd)])
        out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return Ran(status, out.buffer.getvalue().decode("utf-8", "surrogateescape"), err.getvalue())


def _placed(args: tuple[str | Path, ...], cwd: Path) -> list[str]:
    return ["-C", str(cwd), *map(str, args)]
