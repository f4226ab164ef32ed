"""Rows of integration and of whole jobs."""

from __future__ import annotations

import json
from pathlib import Path

from harness import Row, Work, ours, repository, run

WIDE = 10_000  # files that both sides edit
VERIFIED, BAD = 100, (17, 71)
UNITS, PARALLEL, SECONDS = 128, 64, 10.0


def one_wide_unit(place: Path) -> tuple[Work, Work]:
    """Two units edit the same files at different lines; the first is applied before, the second is measured."""
    repo = repository(place, WIDE)
    for name in ("first", "second"):
        run(ours("worktree-open"), "--job", "j", "--unit", name, cwd=repo)
    for number, name in enumerate(("first", "second"), start=1):
        child = repo / f".ktx/worktrees/j/{number:04d}-{name}"
        for path in child.glob("d*/*.txt"):
            text = path.read_text()
            path.write_text(f"{name}\n{text}" if number == 1 else f"{text}{name}\n")
        run(ours("patch-collect"), "--job", "j", "--unit", name, cwd=repo)
    run(ours("patch-apply"), "--job", "j", "--unit", "first", cwd=repo)
    peer_tree = place / "peer"
    run("git", "worktree", "add", "-q", "--detach", peer_tree, "refs/ktx/jobs/j/integration", cwd=repo)
    patch = repo / ".ktx/ingest-patches/j/0002-second.patch"
    return (
        lambda: run(ours("patch-apply"), "--job", "j", "--unit", "second", cwd=repo) and None,
        lambda: run("git", "apply", "--3way", "--index", patch, cwd=peer_tree) and None,
    )


def job_file(place: Path, units: list[dict[str, object]], **more: object) -> Path:
    path = place / "job.json"
    document = {"schemaVersion": 1, "connectionId": "bench", "sourceKey": "bench", "units": units, **more}
    path.write_text(json.dumps(document))
    return path


def verifications(place: Path) -> tuple[Work, Work]:
    """Runs of the command in a batch with two bad units, beside one for each unit."""
    repo = repository(place, 200)
    log = place / "runs"
    units: list[dict[str, object]] = [
        {"key": f"u{n}", "run": f"echo {'bad' if n in BAD else 'good'} > new{n}.txt"} for n in range(VERIFIED)
    ]
    verify = {"run": ["sh", "-c", f"echo run >> {log}; ! grep -q bad new*.txt"], "batch": True}
    path = job_file(place, units, verify=verify, maxParallel=4)

    def mine() -> float:
        run(ours("job-run"), path, cwd=repo, ok=(3,))
        return float(log.read_text().count("run"))

    return mine, lambda: float(VERIFIED)


def many_at_once(place: Path) -> tuple[Work, Work]:
    """Units that take their time, many at once, beside the commands alone."""
    repo = repository(place, 500)
    command = f"sleep {SECONDS}; echo done > new-$KTX_UNIT.txt"
    units: list[dict[str, object]] = [{"key": f"u{n}", "run": command} for n in range(UNITS)]
    path = job_file(place, units, maxParallel=PARALLEL)
    words = "".join(f"u{n}\n" for n in range(UNITS)).encode()
    alone = place / "alone"
    alone.mkdir()
    each = ("xargs", "-P", str(PARALLEL), "-I", "{}", "env", "KTX_UNIT={}", "sh", "-c", command)
    return (
        lambda: run(ours("job-run"), path, cwd=repo) and None,
        lambda: run(*each, cwd=alone, stdin=words) and None,
    )


ROWS = [
    Row("one unit of 10,000 files, both sides edited", "git apply --3way --index", 0.1, one_wide_unit),
    Row("verification of 100 units, 2 bad", "one by one", 0.2, verifications, unit="runs", rounds=1),
    Row(
        f"job-run, {UNITS} units of {SECONDS:g} s, {PARALLEL} at once",
        f"xargs -P {PARALLEL}",
        1.3,
        many_at_once,
        rounds=1,
    ),
]
