"""Side-by-side measurements: each of our commands beside a named peer, in the same run, as a ratio of medians.

    python bench/run.py [--check] [--rounds N] [--write docs/performance.md] [NAME ...]

Machines are noisy: what counts is the ratio. `--check` ends with status 1 where a ratio is above its target.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gates
import jobs
import ledger
import observer
from harness import Measured, Row, Work, measure, ours, repository, run


def start_up(name: str, *args: str) -> Callable[[Path], tuple[Work, Work]]:
    def make(place: Path) -> tuple[Work, Work]:
        return (
            lambda: [run(ours(name), *args, cwd=place) for _ in range(5)] and None,
            lambda: [run(sys.executable, "-c", "pass", cwd=place) for _ in range(5)] and None,
        )

    return make


EVENT = {
    "schemaVersion": 1, "at": "2026-01-02T03:04:05.678Z", "level": "info", "jobId": "j", "connectionId": "c",
    "sourceKey": "s", "phase": "run", "event": "something_happened", "data": {"unitKey": "a", "n": 1},
}  # fmt: skip


def one_event(place: Path) -> tuple[Work, Work]:
    trace = place / "trace.jsonl"
    args = ("--trace", trace, "--job", "j", "--phase", "run", "--event", "something_happened")
    return (
        lambda: [run(ours("trace-append"), *args, cwd=place) for _ in range(5)] and None,
        lambda: [run(sys.executable, "-c", "pass", cwd=place) for _ in range(5)] and None,
    )


def many_events(place: Path) -> tuple[Work, Work]:
    block = "".join(json.dumps(EVENT) + "\n" for _ in range(100_000)).encode()
    trace = place / "trace.jsonl"
    return (
        lambda: run(ours("trace-append"), "--trace", trace, "--job", "j", "--stdin", cwd=place, stdin=block) and None,
        lambda: run("jq", "-c", ".", cwd=place, stdin=block) and None,
    )


def open_worktrees(place: Path) -> tuple[Work, Work]:
    repo = repository(place, 10_000)

    def mine() -> None:
        for number in range(10):
            run(ours("worktree-open"), "--job", "j", "--unit", f"u{number}", cwd=repo)

    def peer() -> None:
        for number in range(10):
            run("git", "worktree", "add", "-q", "--detach", place / f"w{number}", cwd=repo)

    return mine, peer


def collect(place: Path) -> tuple[Work, Work]:
    repo = repository(place, 10_000)
    base = run("git", "rev-parse", "HEAD", cwd=repo).decode().strip()
    child = place / "child"
    run("git", "worktree", "add", "-q", "--detach", child, cwd=repo)
    for number in range(5):
        (child / f"d0000/f{number:06d}.txt").write_text("changed\n")
    out = place / "out.patch"
    return (
        lambda: run(ours("patch-collect"), "-C", child, "--base", base, "-o", out, cwd=place) and None,
        lambda: run("git", "-C", child, "diff", "--binary", f"--output={place}/peer.patch", base, cwd=place) and None,
    )


UNITS, FILES_EACH = 50, 5


def integrate(place: Path) -> tuple[Work, Work]:
    """Units of five files each: collected before, applied in order. The peer applies and commits in a checkout."""
    repo = repository(place, 20_000)
    patches = []
    for unit in range(UNITS):
        run(ours("worktree-open"), "--job", "j", "--unit", f"u{unit}", cwd=repo)
        child = repo / f".ktx/worktrees/j/{unit + 1:04d}-u{unit}"
        for number in range(FILES_EACH):
            (child / f"d{unit:04d}/f{unit * 100 + number:06d}.txt").write_text(f"changed by {unit}\n")
        run(ours("patch-collect"), "--job", "j", "--unit", f"u{unit}", cwd=repo)
        patches.append(repo / f".ktx/ingest-patches/j/{unit + 1:04d}-u{unit}.patch")
    peer_tree = place / "peer"
    run("git", "worktree", "add", "-q", "--detach", peer_tree, "main", cwd=repo)

    def mine() -> None:
        for unit in range(UNITS):
            run(ours("patch-apply"), "--job", "j", "--unit", f"u{unit}", cwd=repo)

    def peer() -> None:
        for patch in patches:
            run("git", "apply", "--3way", "--index", patch, cwd=peer_tree)
            run("git", "commit", "-q", "-m", "unit", cwd=peer_tree)

    return mine, peer


ROWS = [
    Row("job-run --help", "python -c pass", 2.0, start_up("job-run", "--help")),
    Row("gate-check --help", "python -c pass", 2.0, start_up("gate-check", "--help")),
    Row("trace-append, one event", "python -c pass", 3.5, one_event),
    Row("trace-append --stdin, 100,000 events", "jq -c .", 2.0, many_events),
    Row("worktree-open x 10, 10,000 files", "git worktree add x 10", 1.15, open_worktrees),
    Row("patch-collect, 5 of 10,000 files", "git diff --binary", 3.0, collect),
    Row("patch-apply x 50, 20,000 files, gates on", "git apply --3way --index && git commit", 0.5, integrate),
    *gates.ROWS,
    *jobs.ROWS,
    *ledger.ROWS,
    *observer.ROWS,
]


def table(found: list[Measured]) -> str:
    lines = ["| what | beside | ours | peer | ratio | target | |", "|---|---|---|---|---|---|---|"]
    for one in found:
        figures = " | ".join(
            f"{statistics.median(some):.3f} {one.row.unit} ({min(some):.3f} to {max(some):.3f})"
            for some in (one.ours, one.peers)
        )
        met = "met" if one.ratio <= one.row.target else f"missed by {one.ratio / one.row.target:.1f}x"
        lines.append(f"| {one.row.name} | {one.row.peer} | {figures} | {one.ratio:.2f} | {one.row.target:g} | {met} |")
    return "\n".join(lines)


def machine() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {git}"


HEAD = """# Performance

Written by `make bench`: each command beside a named peer in the same run; medians (lowest to highest) of {rounds}
rounds, each in a fresh place. Machines are noisy: read the ratios. Measured on {machine}.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows to measure: parts of their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    parser.add_argument("--write", type=Path, help="write the page")
    args = parser.parse_args()
    if shutil.which("jq") is None:
        raise SystemExit("the bench needs jq as a peer: apt-get install jq")
    rows = [row for row in ROWS if not args.names or any(name in row.name for name in args.names)]
    found = []
    for row in rows:
        print(f"measuring: {row.name}", file=sys.stderr)
        found.append(measure(row, args.rounds))
    page = HEAD.format(rounds=args.rounds, machine=machine()) + table(found) + "\n"
    print(page)
    if args.write:
        args.write.write_text(page)
    return int(args.check and any(one.ratio > one.row.target for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
