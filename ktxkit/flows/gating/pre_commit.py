"""Gate `pre-commit`: the repository's own hooks on the touched files, in a scratch checkout.

The manager is the user's, of the version that they pinned: `run` says how it is started (default `pre-commit`). A hook
that fails is a finding, and so is one that changes a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktxkit.core.text import printable
from ktxkit.effects import process
from ktxkit.effects.git import Git
from ktxkit.flows.gating.command import TIME_LIMIT, failed
from ktxkit.gates import Answer, Subject

CONFIG = b".pre-commit-config.yaml"


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Run the hooks. A tree without hooks has no findings."""
    chosen = subject.chosen(settings.get("files", ()))
    if CONFIG not in subject.files or not chosen:
        return Answer()
    run = settings.get("run", "pre-commit")
    manager = [run] if isinstance(run, str) else list(run)
    limit = float(settings.get("timeLimit", TIME_LIMIT))
    with subject.checkout() as top:
        argv = [*manager, "run", "--color=never", "--show-diff-on-failure", "--files", *map(os.fsdecode, chosen)]
        env = {key: value for key, value in subject.world.env.items() if not key.startswith(("GIT_", "KTX_"))}
        done = process.run(argv, cwd=top, env={**env, "SKIP": str(settings.get("skip", ""))}, timeout=limit)
        changed = _changed(top, env)
    if done.status or done.timed_out:
        return Answer([failed("hook-failed", "pre-commit", done)], len(chosen))
    if changed:
        shown = ", ".join(printable(path) for path in changed[:5])
        return Answer([failed("hook-failed", "pre-commit", done, why=f"changed {shown}")], len(chosen))
    return Answer((), len(chosen))


def _changed(top: Path, env: Mapping[str, str]) -> list[bytes]:
    return Git.scrub(top, env).run("diff-files", "--name-only", "-z").nul
