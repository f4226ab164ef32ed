"""Many openings at once all succeed, and an agent's own git beside them never fails because of us."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import call, script
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"


@pytest.fixture
def large(tmp_path: Path) -> Repo:
    repo = Repo.init(tmp_path / "repo")
    for number in range(200):
        repo.write(f"dir{number % 10}/file{number}", f"{number}\n")
    repo.commit()
    return repo


@contextmanager
def agent(repo: Repo) -> Iterator[list[str]]:
    """Edits, adds and commits in a loop in the user's checkout; every failure is on the list."""
    stop, failures = threading.Event(), list[str]()
    rounds = 0

    def work() -> None:
        nonlocal rounds
        while not stop.is_set():
            repo.write("agent", f"{rounds}\n")
            for args in (("add", "agent"), ("commit", "-q", "-m", f"{rounds}")):
                done = subprocess.run(["git", *args], cwd=repo.path, capture_output=True, check=False)
                if done.returncode != 0:
                    failures.append(f"{args}: {done.stderr.decode()}")
            rounds += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join()
        assert rounds > 0


def burst(repo: Repo, commands: list[list[str]]) -> list[tuple[int, bytes, bytes]]:
    """Start all at once; how each ended."""
    running = [subprocess.Popen([script(argv[0]), *argv[1:]], cwd=repo.path, stdout=-1, stderr=-1) for argv in commands]
    ended = [(child, *child.communicate()) for child in running]
    return [(child.returncode, out, err) for child, out, err in ended]


@pytest.mark.parametrize(
    ("bursts", "at_once"), [(1, 16), pytest.param(6, 48, marks=pytest.mark.full)], ids=["short", "full"]
)
def test_bursts_of_openings(large: Repo, bursts: int, at_once: int) -> None:
    if at_once == 48 and not FULL:
        pytest.skip("the long form: KTX_TEST_FULL=1")
    assert call("worktree-open", "--job", "j1", "--unit", "first", cwd=large.path).status == 0
    base = large.head
    paths = set()
    with agent(large) as failures:
        for number in range(bursts):
            units = [f"u{number}-{n}" for n in range(at_once)]
            ended = burst(large, [["worktree-open", "--job", "j1", "--unit", unit, "--json"] for unit in units])
            assert [(status, err, out) for status, out, err in ended if status != 0] == []
            paths |= {json.loads(out)["document"]["path"] for _, out, _ in ended}
            closed = burst(
                large,
                [["worktree-close", "--job", "j1", "--unit", unit, "--outcome", "empty"] for unit in units[::2]],
            )
            assert [(status, err) for status, _, err in closed if status != 0] == []
    assert failures == []
    assert len(paths) == bursts * at_once
    left = [Repo(Path(path)) for path in sorted(paths) if Path(path).exists()]
    assert len(left) == bursts * at_once // 2
    assert {tree.head for tree in left} == {base}
    assert {tree.git("status", "--porcelain") for tree in left[:: max(1, len(left) // 12)]} == {""}
    assert len(large.git("worktree", "list").splitlines()) == 2 + len(left)
    positions = [entry["position"] for entry in json.loads((large.path / ".ktx/jobs/j1/job.json").read_text())["units"]]
    assert positions == list(range(1, bursts * at_once + 2))


def test_the_first_openings_of_a_job_at_once(large: Repo) -> None:
    """Nothing is there yet: no store, no rule, no job."""
    ended = burst(large, [["worktree-open", "--job", "j1", "--unit", f"u{n}"] for n in range(8)])
    assert [(status, err) for status, _, err in ended if status != 0] == []
    rules = (large.path / ".git/info/exclude").read_text().splitlines()
    assert rules.count("/.ktx/") == 1
    assert large.git("status", "--porcelain") == ""


def test_new_branches_at_once(large: Repo) -> None:
    ended = burst(large, [["worktree-open", f"work{n}"] for n in range(8)])
    assert [(status, err) for status, _, err in ended if status != 0] == []
    assert len(large.git("for-each-ref", "refs/heads").splitlines()) == 9
    ended = burst(large, [["worktree-close", f"work{n}", "--outcome", "success"] for n in range(8)])
    assert [(status, err) for status, _, err in ended if status != 0] == []
    assert len(large.git("for-each-ref", "refs/heads").splitlines()) == 1


def test_one_unit_opened_by_many_is_opened_once(large: Repo) -> None:
    ended = burst(large, [["worktree-open", "--job", "j1", "--unit", "u", "--json"] for _ in range(8)])
    assert [(status, err) for status, _, err in ended if status != 0] == []
    assert len({json.loads(out)["document"]["nonce"] for _, out, _ in ended}) == 1


def test_one_name_opened_by_many_is_opened_by_one(large: Repo) -> None:
    ended = burst(large, [["worktree-open", "work"] for _ in range(8)])
    opened = [out for status, out, _ in ended if status == 0]  # whoever comes when it is open is told where it is
    assert opened and len(set(opened)) == 1 and {status for status, _, _ in ended} <= {0, 1}
    assert len(large.git("worktree", "list").splitlines()) == 2
