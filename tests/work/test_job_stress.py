"""Many units at once, each with its own `git add` and `git commit` in a loop: none of them fails because of us."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.support.commands import spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
UNITS = 200 if FULL else 40
COMMITS = 5
WORK = (
    "set -e; for i in $(seq {commits}); do echo {n}-$i > f{n}; git add f{n}; git commit -q -m c$i; "
    "git status --porcelain >/dev/null; done"
)


def test_all_units_at_once(repo: Repo) -> None:
    units = [unit(f"u{n}", WORK.format(n=n, commits=COMMITS)) for n in range(UNITS)]
    path = job_file(repo, {"maxParallel": UNITS, "units": units})
    ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err[-3000:]
    assert set(outcomes(repo).values()) == {"accepted"}
    assert len(repo.git("diff", "--name-only", "main^", "main").split()) == UNITS
    assert all(repo.show("main", f"f{n}") == f"{n}-{COMMITS}\n".encode() for n in range(UNITS))
    assert repo.git("fsck", "--no-dangling") == ""
    assert repo.git("worktree", "list").count("\n") == 0, "no worktree is left"


def test_the_user_works_on_beside_a_job(repo: Repo, tmp_path: Path) -> None:
    """`git add` and `git commit` in the main checkout, on another branch, all the while a job runs: none fails."""
    repo.git("checkout", "-q", "-b", "mine")
    units = [unit(f"u{n}", f"echo {n} > f{n}") for n in range(UNITS // 4)]
    path = job_file(repo, {"maxParallel": 4, "target": "main", "units": units})
    done, failed, commits = threading.Event(), [], 0

    def agent() -> None:
        nonlocal commits
        while not done.is_set():
            commits += 1
            repo.write("mine.txt", f"{commits}\n")
            try:
                repo.commit(f"mine {commits}")
            except AssertionError as error:
                failed.append(error)

    worker = threading.Thread(target=agent)
    worker.start()
    try:
        ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path)
    finally:
        done.set()
        worker.join()
    assert ran.status == 0, ran.err
    assert not failed, failed[:3]
    assert commits > 5
    assert set(outcomes(repo).values()) == {"accepted"}
