"""A command that serves as a gate: its streams in files, a deadline, and nothing of it left running."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktxkit.base import files, process
from ktxkit.base.process import Completed
from ktxkit.base.unit_process import MARK, end_strays

OUTPUT_LIMIT = 4 * 1024 * 1024  # bytes of each stream that are read; a command may print more


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit: float) -> Completed:
    """Run to its end or `limit` seconds, stdin closed. Its group, and what left the group, is ended then.

    The streams go through files beside `cwd`: what it prints never fills the memory, and a process that it leaves
    behind cannot keep us waiting. Raises CannotRun where it cannot be started.
    """
    nonce = secrets.token_hex(16)
    out, err = (cwd.parent / f"{name}-{nonce[:8]}" for name in ("out", "err"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(out, flags, files.PRIVATE_FILE), "wb") as one, open(os.open(err, flags, 0o600), "wb") as other:
        child = process.start(argv, cwd=cwd, env={**env, MARK: nonce}, stdout=one, stderr=other)
        in_time = process.wait_or_end(child, limit)
    end_strays(nonce)
    told = tuple(os.fsdecode(word) for word in argv)
    return Completed(told, child.returncode, _head(out), _head(err), not in_time)


def _head(path: Path) -> bytes:
    return files.read_part(path, OUTPUT_LIMIT).content
