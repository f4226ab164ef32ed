"""Gate `pre-commit`: the repository's own hooks on the touched files, in a scratch checkout.

The manager is the user's, of the version that they pinned: `run` says how it is started (default `pre-commit`). A hook
that fails is a finding, and so is one that changes a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktxkit.base import process
from ktxkit.base.rules.text import printable
from ktxkit.gates import gate_process
from ktxkit.gates.command import TIME_LIMIT, failed, no_answer, plain, without
from ktxkit.gates.plugin import Answer, Subject
from ktxkit.git.git import Git

BATCH = 100_000  # bytes of one command line's paths
UNEXPECTED = 3  # pre-commit's status for an error of its own (pre_commit/error_handler.py): no hook said it
CONFIG = b".pre-commit-config.yaml"


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Run the hooks. A tree without hooks has no findings."""
    chosen = subject.chosen(settings.get("files", ()), links=True)  # check-symlinks and its kin
    if CONFIG not in subject.files or not chosen:
        return Answer()
    run = settings.get("run", "pre-commit")
    manager = [run] if isinstance(run, str) else list(run)
    limit = float(settings.get("timeLimit", TIME_LIMIT))
    env = {**plain(subject), "SKIP": str(settings.get("skip", ""))}
    with subject.checkout() as top:
        done = [_run(manager, top, env, batch, limit) for batch in batches(chosen, os.fsencode(top))]
        changed = _changed(top, env)
    wrong = [one for one in done if one.status or one.timed_out]
    if subject.is_base and any(no_answer(one, UNEXPECTED) for one in wrong):
        return Answer((), len(chosen))  # nothing is handed down
    if wrong:
        return Answer([failed("hook-failed", "pre-commit", one) for one in wrong], len(chosen))
    if changed:
        shown = ", ".join(printable(path) for path in changed[:5])
        return Answer([failed("hook-failed", "pre-commit", done[0], why=f"changed {shown}")], len(chosen))
    return Answer((), len(chosen))


def _run(
    manager: Sequence[str], top: Path, env: Mapping[str, str], batch: Sequence[bytes], limit: float
) -> process.Completed:
    flags = ["run", "--color=never", "--show-diff-on-failure", "--files"]
    done = gate_process.run([*manager, *flags, *map(os.fsdecode, batch)], cwd=top, env=env, limit=limit)
    return replace(done, out=without(done.out, top), err=without(done.err, top))


def batches(paths: Sequence[bytes], top: bytes, limit: int = BATCH) -> Iterator[list[bytes]]:
    """The paths, absolute, so that none looks like an option, in lists that fit into one command line."""
    batch: list[bytes] = []
    size = 0
    for path in paths:
        full = top + b"/" + path
        if batch and size + len(full) > limit:
            yield batch
            batch, size = [], 0
        batch.append(full)
        size += len(full) + 1
    yield batch


def _changed(top: Path, env: Mapping[str, str]) -> list[bytes]:
    return Git.scrub(top, env).run("diff-files", "--name-only", "-z").nul
