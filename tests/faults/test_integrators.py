"""Many integrators at once: one branch is moved by one of them at a time, two branches by two at the same time."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base.clock import SystemClock
from ktxkit.base.errors import Refused
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.world import World
from ktxkit.work import recover
from tests.support.commands import BIN, call
from tests.support.faults import FULL
from tests.support.integration import Job, give, script
from tests.support.repos import Repo

SECONDS = 60.0 if FULL else 3.0
PATIENCE = 300.0  # seconds after which those that still work are deadlocked


def begin(repo: Repo, name: str) -> Job:
    """A job on main, with the system's clock."""
    world = World(repo.path, os.environ, clock=SystemClock())
    return Job(repo, jobs.create(world, name, target="refs/heads/main", base=repo.git("rev-parse", "main")))


def applying(repo: Repo, number: int, until: float) -> None:
    """Units of one job that all apply to, as many as there is time for."""
    turn = 0
    while time.monotonic() < until:
        job = begin_again(repo)
        give(job, f"u{number}-{turn}", {f"shared/{number}-{turn}": "x\n"})
        assert job.apply(f"u{number}-{turn}")["outcome"] == "accepted"
        turn += 1


def begin_again(repo: Repo) -> Job:
    world = World(repo.path, os.environ, clock=SystemClock())
    return Job(repo, ActiveJob.load(world, "shared"))


def landing(repo: Repo, number: int, until: float) -> None:
    """Jobs of its own on the one target."""
    turn = 0
    while time.monotonic() < until:
        job = begin(repo, f"j{number}-{turn}")
        give(job, "a", {f"landed/{number}-{turn}": "x\n"})
        assert job.apply("a")["outcome"] == "accepted"
        assert job.land(rebase=True)["outcome"] == "done"
        turn += 1


def forked(work: Callable[[], None], log: Path) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - it must not go on as the test
            log.write_text(traceback.format_exc())
        finally:
            os._exit(status)
    return pid


def joined(pids: dict[int, Path]) -> None:
    """Until all have ended well. Fails for one that does not end."""
    deadline = time.monotonic() + PATIENCE
    left = set(pids)
    while left:
        for pid in sorted(left):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                left.discard(pid)
                assert status == 0, pids[pid].read_text()
        assert time.monotonic() < deadline, f"{len(left)} of {len(pids)} do not end"
        time.sleep(0.02)


def chained(links: list[tuple[str, str]], first: str, last: str) -> None:
    """Each move starts where another one ended: nobody moved from where somebody else had moved from."""
    after = dict(links)
    assert len(after) == len(links), "two moves from one place"
    at = first
    for _ in links:
        at = after[at]
    assert at == last


def test_eight_at_once(repo: Repo, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    start = repo.git("rev-parse", "main")
    shared = begin(repo, "shared")
    until = time.monotonic() + SECONDS
    pids = {}
    for number in range(8):
        work = applying if number % 2 else landing
        log = tmp_path / f"log-{number}"
        pids[forked(lambda work=work, number=number: work(repo, number, until), log)] = log  # type: ignore[misc]
    joined(pids)
    shared = begin_again(repo)
    read = shared.world.store.read
    units = shared.active.units
    receipts = [read("receipt", f"jobs/shared/units/{u.position:04}-{u.key}/receipt.json") for u in units]
    count = int(repo.git("rev-list", "--count", f"{start}..{shared.head}"))
    assert count == len(receipts) == sum(receipt["outcome"] == "accepted" for receipt in receipts) >= 4
    chained([(receipt["before"], receipt["after"]) for receipt in receipts], start, shared.head)
    names = [name for name in shared.world.store.children("jobs") if name != "shared"]
    landings = [read("landing", f"jobs/{name}/landing.json") for name in names]
    assert int(repo.git("rev-list", "--count", f"{start}..main")) == len(landings) >= 4
    chained([(found["before"], found["after"]) for found in landings], start, repo.git("rev-parse", "main"))
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("fsck", "--strict", "--no-dangling") == ""
    record_property("moves", f"{SECONDS:.0f} s, 8 processes: {len(receipts)} applied, {len(landings)} landed")


def meeting(tmp_path: Path, own: str, other: str) -> str:
    """A verification that passes only while another one runs: each waits for the other's mark."""
    body = f"touch {tmp_path}/{own}; n=0; while [ ! -e {tmp_path}/{other} ] && [ $n -lt 1200 ]; do sleep 0.05; "
    return script(tmp_path / f"check-{own}", f"{body} n=$((n+1)); done; test -e {tmp_path}/{other}")


def started(repo: Repo, name: str, *more: str) -> subprocess.Popen[bytes]:
    argv = [str(BIN / "patch-apply"), "-C", str(repo.path), "--job", name, "--unit", "a", *more]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_two_branches_go_in_parallel(repo: Repo, tmp_path: Path) -> None:
    for name in ("one", "two"):
        give(begin(repo, name), "a", {name: "x\n"})
    ones = started(repo, "one", "--verify", "--", meeting(tmp_path, "one", "two"))
    twos = started(repo, "two", "--verify", "--", meeting(tmp_path, "two", "one"))
    for child in (ones, twos):
        out, _ = child.communicate()
        assert child.returncode == 0 and out.startswith(b"accepted"), out


def test_one_waits_for_the_other_and_goes_on_from_it(repo: Repo, tmp_path: Path) -> None:
    job = begin(repo, "j1")
    give(job, "a", {"a": "x\n"})
    give(job, "b", {"b": "x\n"})
    body = f"touch {tmp_path}/held; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    first = started(repo, "j1", "--verify", "--", script(tmp_path / "check", body))
    while not (tmp_path / "held").exists():
        assert first.poll() is None
        time.sleep(0.02)
    with (
        pytest.raises(Refused) as caught,
        recover.integrating(job.active, wait=0.1),
    ):
        raise AssertionError("two hold one branch")
    assert "is being worked on by another process" in caught.value.message
    assert "wait for it to end" in caught.value.hint and "patch-apply" in caught.value.hint
    second = forked(lambda: waiting(repo), tmp_path / "log")
    time.sleep(0.3)
    assert os.waitpid(second, os.WNOHANG) == (0, 0), "it waits"
    (tmp_path / "go").touch()
    joined({second: tmp_path / "log"})
    out, _ = first.communicate()
    assert first.returncode == 0, out
    job.units = {unit.key: unit for unit in ActiveJob.load(job.world, "j1").units}
    one, two = job.doc("a", "receipt"), job.doc("b", "receipt")
    assert one is not None and two is not None
    assert two["before"] == one["after"], "the second one starts from where the first one ended"


def waiting(repo: Repo) -> None:
    assert call("patch-apply", "--job", "j1", "--unit", "b", cwd=repo.path).status == 0
