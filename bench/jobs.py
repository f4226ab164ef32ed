"""Rows of integration and of whole jobs."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

from harness import Row, Works, had, name, ours, peak, repository, run, shared

FILES, EACH = 50_000, 5  # of the repository that units are integrated in; files of a unit
VERIFIED, BAD = 100, (17, 71)
UNITS, PARALLEL, SECONDS = 256, 64, 10.0


def job_file(place: Path, units: list[dict[str, object]], **more: object) -> Path:
    path = place / "job.json"
    document = {"schemaVersion": 1, "connectionId": "bench", "sourceKey": "bench", "units": units, **more}
    path.write_text(json.dumps(document))
    return path


def integrate(place: Path, units: int) -> Works:
    """Units of five files, integrated by one job: its integration alone, as its trace has it.

    The peer applies and commits the same patches in a checkout.
    """
    repo = shared(f"repository-{FILES}", lambda place: repository(place, FILES)) / "repo"
    run("git", "branch", f"target-{units}", cwd=repo)
    job = f"integrate-{units}"
    touched = [[name(unit * EACH + number) for number in range(EACH)] for unit in range(units)]
    edits = ["".join(f"echo changed by {unit} > {one};" for one in some) for unit, some in enumerate(touched)]
    # The first waits until all others are collected: nothing else is at work while they are integrated.
    others = f"ls {repo}/.ktx/ingest-patches/{job}/*.patch 2>/dev/null | wc -l"
    edits[0] += f"while [ $({others}) -lt {units - 1} ]; do sleep 0.2; done"
    listed: list[dict[str, object]] = [{"key": f"u{unit}", "run": edit} for unit, edit in enumerate(edits)]
    sparse = sorted({one.split("/")[0] for some in touched for one in some})
    path = job_file(place, listed, maxParallel=4, sparse=sparse)
    run(ours("job-run"), path, "--job", job, "--target", f"target-{units}", cwd=repo)
    memory = peak()  # of the whole job
    patches = sorted((repo / f".ktx/ingest-patches/{job}").glob("*.patch"))
    peer_tree = place / "peer"
    run("git", "worktree", "add", "-q", "--detach", peer_tree, "main", cwd=repo)

    def mine() -> float:
        trace = (repo / f".ktx/ingest-traces/{job}/trace.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in trace if '"phase":"integration"' in line]
        began, ended = (
            [datetime.fromisoformat(event["at"]) for event in events if event["event"] == word]
            for word in ("patch_apply_started", "patch_accepted")
        )
        assert len(began) == len(ended) == units
        had(memory)
        return sum((end - begin).total_seconds() for begin, end in zip(began, ended, strict=True))

    def peer() -> None:
        for patch in patches:
            run("git", "apply", "--3way", "--index", patch, cwd=peer_tree)
            run("git", "commit", "-q", "-m", "unit", cwd=peer_tree)

    return mine, peer


def one_by_one(place: Path, units: int) -> Works:
    """The same by hand: a command for each unit."""
    repo = shared(f"repository-{FILES}", lambda place: repository(place, FILES)) / "repo"
    for unit in range(units):
        key = f"u{unit}"
        run(ours("worktree-open"), "--job", "hand", "--unit", key, "--sparse", f"d{unit:04d}", cwd=repo)
        child = repo / f".ktx/worktrees/hand/{unit + 1:04d}-{key}"
        for number in range(EACH):
            (child / name(unit * 100 + number)).write_text(f"changed by {unit}\n")
        run(ours("patch-collect"), "--job", "hand", "--unit", key, cwd=repo)
    patches = sorted((repo / ".ktx/ingest-patches/hand").glob("*.patch"))
    peer_tree = place / "peer"
    run("git", "worktree", "add", "-q", "--detach", peer_tree, "main", cwd=repo)
    todo, theirs = iter(range(units)), iter(patches)

    def peer() -> None:
        run("git", "apply", "--3way", "--index", next(theirs), cwd=peer_tree)
        run("git", "commit", "-q", "-m", "unit", cwd=peer_tree)

    return lambda: run(ours("patch-apply"), "--job", "hand", "--unit", f"u{next(todo)}", cwd=repo), peer


def one_wide_unit(place: Path, files: int) -> Works:
    """Two units edit the same files at different lines; the first is applied before, the second is measured."""
    repo = repository(place, files)
    for unit in ("first", "second"):
        run(ours("worktree-open"), "--job", "j", "--unit", unit, cwd=repo)
    for number, unit in enumerate(("first", "second"), start=1):
        child = repo / f".ktx/worktrees/j/{number:04d}-{unit}"
        for path in child.glob("d*/*.txt"):
            text = path.read_text()
            path.write_text(f"{unit}\n{text}" if number == 1 else f"{text}{unit}\n")
        run(ours("patch-collect"), "--job", "j", "--unit", unit, cwd=repo)
    run(ours("patch-apply"), "--job", "j", "--unit", "first", cwd=repo)
    peer_tree = place / "peer"
    run("git", "worktree", "add", "-q", "--detach", peer_tree, "refs/ktx/jobs/j/integration", cwd=repo)
    patch = repo / ".ktx/ingest-patches/j/0002-second.patch"
    return (
        lambda: run(ours("patch-apply"), "--job", "j", "--unit", "second", cwd=repo),
        lambda: run("git", "apply", "--3way", "--index", patch, cwd=peer_tree),
    )


def verifications(place: Path, units: int) -> Works:
    """Runs of the command in a batch with two bad units, beside one for each unit."""
    repo = repository(place, 200)
    log = place / "runs"
    bad = {number * units // VERIFIED for number in BAD}
    listed: list[dict[str, object]] = [
        {"key": f"u{n}", "run": f"echo {'bad' if n in bad else 'good'} > new{n}.txt"} for n in range(units)
    ]
    verify = {"run": ["sh", "-c", f"echo run >> {log}; ! grep -q bad new*.txt"], "batch": True}
    path = job_file(place, listed, verify=verify, maxParallel=4)

    def mine() -> float:
        run(ours("job-run"), path, cwd=repo, ok=(3,))
        return float(log.read_text().count("run"))

    return mine, lambda: float(units)


def many_at_once(place: Path, count: int) -> Works:
    """Units that take their time, many at once, beside the commands alone."""
    repo = repository(place, 500)
    command = f"sleep {SECONDS}; echo done > new-$KTX_UNIT.txt"
    units: list[dict[str, object]] = [{"key": f"u{n}", "run": command} for n in range(count)]
    path = job_file(place, units, maxParallel=PARALLEL)
    words = "".join(f"u{n}\n" for n in range(count)).encode()
    alone = place / "alone"
    shutil.rmtree(alone, ignore_errors=True)
    alone.mkdir()
    each = ("xargs", "-P", str(PARALLEL), "-I", "{}", "env", "KTX_UNIT={}", "sh", "-c", command)
    return lambda: run(ours("job-run"), path, cwd=repo), lambda: run(*each, cwd=alone, stdin=(words,))


ROWS = [
    Row(f"integration in a job, {FILES:,} files, gates on, {EACH} each", 40, "units",
        "a loop of git apply --3way --index && git commit", 0.5, integrate, rounds=1, growth=(4,), seconds=200),
    Row("patch-apply by hand, the same", 4, "units", "the same loop", 0.5, one_by_one, rounds=4),
    Row("patch-apply, both sides edited", 10_000, "files", "git apply --3way --index", 0.1, one_wide_unit,
        rounds=1, growth=(1_000,), seconds=150),
    Row("verification of a job, 2 bad units", VERIFIED, "units", "one by one", 0.2, verifications, unit="runs",
        rounds=1, growth=(10,)),
    Row(f"job-run, units of {SECONDS:g} s, {PARALLEL} at once", UNITS, "units", f"xargs -P {PARALLEL}", 1.3,
        many_at_once, rounds=1, seconds=180),
]  # fmt: skip
