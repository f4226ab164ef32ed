"""Rows of single commands: what starting costs, the trace, worktrees, collecting."""

from __future__ import annotations

import json
import sys
from importlib.metadata import distribution
from pathlib import Path

from harness import Row, Works, name, ours, peer, repository, run, shared

BATCH = 5  # starts of one figure
EVENT = {
    "schemaVersion": 1, "at": "2026-01-02T03:04:05.678Z", "level": "info", "jobId": "j", "connectionId": "c",
    "sourceKey": "s", "phase": "run", "event": "something_happened", "data": {"unitKey": "a", "n": 1},
}  # fmt: skip


def every_help(place: Path, _: int) -> Works:
    scripts = sorted(one.name for one in distribution("ktxkit").entry_points if one.group == "console_scripts")
    return (
        lambda: [run(ours(script), "--help", cwd=place) for script in scripts] and None,
        lambda: [run(sys.executable, "-c", "pass", cwd=place) for _ in scripts] and None,
    )


def one_event(place: Path, _: int) -> Works:
    trace = place / "trace.jsonl"
    args = ("--trace", trace, "--job", "j", "--phase", "run", "--event", "something_happened")
    return (
        lambda: [run(ours("trace-append"), *args, cwd=place) for _ in range(BATCH)] and None,
        lambda: [run(sys.executable, "-c", "pass", cwd=place) for _ in range(BATCH)] and None,
    )


def many_events(place: Path, n: int) -> Works:
    jq = peer("jq")
    block, trace = place / "events.jsonl", place / "trace.jsonl"
    with open(block, "w") as events:
        events.writelines(json.dumps(EVENT) + "\n" for _ in range(n))
    return (
        lambda: run(ours("trace-append"), "--trace", trace, "--job", "j", "--stdin", cwd=place, stdin=block),
        lambda: run(jq, "-c", ".", cwd=place, stdin=block),
    )


def large(files: int) -> Path:
    """A repository that rows share; each works beside its checkout."""
    return shared(f"repository-{files}", lambda place: repository(place, files)) / "repo"


def open_worktrees(place: Path, n: int) -> Works:
    """One after the other; each round is one."""
    repo, count = large(n), iter(range(1_000))
    return (
        lambda: run(ours("worktree-open"), "--job", "open", "--unit", f"u{next(count)}", cwd=repo),
        lambda: run("git", "worktree", "add", "-q", "--detach", place / f"w{next(count)}", cwd=repo),
    )


def collect(place: Path, n: int) -> Works:
    repo = large(n)
    base = run("git", "rev-parse", "HEAD", cwd=repo).decode().strip()
    child = place / "child"
    run("git", "worktree", "add", "-q", "--detach", child, cwd=repo)
    for number in range(5):
        (child / name(number)).write_text("changed\n")
    out, theirs = place / "out.patch", place / "peer.patch"
    return (
        lambda: run(ours("patch-collect"), "-C", child, "--base", base, "-o", out, cwd=place),
        lambda: run("git", "-C", child, "diff", "--binary", f"--output={theirs}", base, cwd=place),
    )


ROWS = [
    Row("--help of every command", 0, "", "python -c pass, as often", 2.0, every_help, rounds=2),
    Row("trace-append, one event", 0, "", "python -c pass", 3.5, one_event),
    Row("trace-append --stdin", 100_000, "events", "jq -c .", 2.0, many_events, rounds=3, growth=(1_000, 10_000)),
    Row("worktree-open", 50_000, "files", "git worktree add", 1.15, open_worktrees, rounds=5, growth=(500, 5_000)),
    Row("patch-collect, 5 files changed", 50_000, "files", "git diff --binary", 3.0, collect,
        rounds=3, growth=(500, 5_000)),
]  # fmt: skip
