"""A verify command decides by its status, and by what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import owners
from ktxkit.base.errors import Blocked, Refused
from tests.support.integration import Job, script
from tests.support.repos import Repo


@pytest.fixture
def job(repo: Repo) -> Job:
    repo.write("text", "one\n")
    repo.write(".gitignore", "*.out\n.venv/\n")
    repo.commit("base")
    return Job.begin(repo)


def verified(job: Job, tmp_path: Path, body: str, key: str = "a", **options: Any) -> Any:
    """A unit that adds a file of its name; the body runs where that is there, else the command passes."""
    asked = f"test -e {key} || exit 0\n{body}"
    return job.unit(key, lambda w: w.write(key, "new\n"), verify=[script(tmp_path / "check", asked)], **options)


def checkout(job: Job) -> Path:
    return job.world.store.path("worktrees/j1/integration")


def test_it_sees_the_candidate_and_nothing_of_git_or_us(job: Job, tmp_path: Path) -> None:
    told = tmp_path / "told"
    receipt = verified(job, tmp_path, f"cat a text > {told}; env >> {told}; test ! -t 0 && ! read x")
    assert receipt["outcome"] == "accepted"
    said = told.read_text().splitlines()
    assert said[:2] == ["new", "one"]
    assert not [line for line in said if line.startswith("GIT_")]
    assert [line for line in said if line.startswith("KTX_")] == [f"KTX_LEASE_NONCE={receipt['nonce']}"]
    assert "PYTHONDONTWRITEBYTECODE=1" in said
    assert receipt["verification"]["status"] == 0
    assert not list(job.world.store.path("jobs/j1").rglob("*.log"))


def test_a_failure_is_kept_with_its_output(job: Job, tmp_path: Path) -> None:
    receipt = verified(job, tmp_path, "echo out; echo err >&2; exit 7")
    assert receipt["outcome"] == "verification_failed"
    run = receipt["verification"]
    assert run["status"] == 7
    log = Path(run["log"])
    assert log.read_text() == "out\nerr\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert job.head == job.document["base"]


def test_what_cannot_start_is_127_and_nobodys_fault(job: Job) -> None:
    with pytest.raises(Refused) as caught:
        job.unit("a", lambda w: w.write("a", "new\n"), verify=["/nonexistent/command"])
    assert caught.value.data["gate"] == "unknown"
    assert caught.value.data["run"]["status"] == 127


def test_nobody_is_blamed_for_a_base_that_fails_and_it_is_asked_once(job: Job, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    argv = [script(tmp_path / "check", f"ls >> {asked}; echo . >> {asked}; exit 1")]
    for key in "abc":
        with pytest.raises(Refused) as caught:
            job.unit(key, lambda w, key=key: w.write(key, "new\n"), verify=argv)  # type: ignore[misc]
        assert caught.value.data["reason"] == "fails on the base tree"
        assert job.doc(key, "receipt") is None
    assert job.head == job.document["base"]
    runs = asked.read_text().split(".\n")[:-1]
    assert len(runs) == 4 and sum("a" not in r and "b" not in r and "c" not in r.split() for r in runs) == 1


def test_a_failure_is_asked_for_again_and_the_base_once_for_many(job: Job, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    argv = [script(tmp_path / "check", f"echo x >> {asked}; test ! -e a && test ! -e b && test ! -e c")]
    for key in "abc":
        assert job.unit(key, lambda w, key=key: w.write(key, "new\n"), verify=argv)["outcome"] == "verification_failed"  # type: ignore[misc]
    assert asked.read_text().count("x") == 3 * 2 + 1, "each twice, and the tree without them once"


def test_a_gate_that_answers_twice_differently_is_unknown(job: Job, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    argv = [script(tmp_path / "check", f"test -e a || exit 0; echo x >> {asked}; test $(wc -l < {asked}) -gt 1")]
    with pytest.raises(Refused) as caught:
        job.unit("a", lambda w: w.write("a", "new\n"), verify=argv)
    assert caught.value.data == {"gate": "unknown", "reason": "flaky"}
    assert job.doc("a", "receipt") is None and job.head == job.document["base"]
    assert job.apply("a", verify=argv)["outcome"] == "accepted"


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("echo more >> text", "tracked files"),
        ("echo x > text; git add text", "index"),
        ("echo x > fresh", "untracked files"),
        ("rm a", "tracked files"),
        ("chmod +x text", "tracked files"),
        ("mkdir d && git mv text d/text", "index"),
        ("git update-index --assume-unchanged text", "tracked files"),
    ],
)
def test_a_change_is_a_failure_although_it_said_0(job: Job, tmp_path: Path, body: str, changed: str) -> None:
    if "assume" in body:
        with pytest.raises(Blocked):
            verified(job, tmp_path, body)
        return
    receipt = verified(job, tmp_path, body)
    assert receipt["outcome"] == "verification_failed"
    assert changed in receipt["verification"]["changed"]
    work = job.repo.at(checkout(job))
    assert work.git("status", "--porcelain") == ""
    assert (work.path / "text").read_text() == "one\n"
    assert verified(job, tmp_path, "true", "b")["outcome"] == "accepted"


def test_what_appeared_is_put_aside_not_deleted(job: Job, tmp_path: Path) -> None:
    receipt = verified(job, tmp_path, "mkdir -p deep/er; echo mine > deep/er/file; echo two > other")
    run = receipt["verification"]
    assert run["quarantined"]["count"] == 2
    aside = Path(run["quarantine"])
    assert (aside / "deep/er/file").read_text() == "mine\n"
    assert not (checkout(job) / "deep").exists()


def test_ignored_files_are_disclosed_with_exact_counts_and_gone_before_the_next(job: Job, tmp_path: Path) -> None:
    body = "mkdir -p .venv/lib; for i in 1 2 3; do echo $i > .venv/lib/$i; done; echo > x.out"
    receipt = verified(job, tmp_path, body)
    assert receipt["outcome"] == "accepted"
    told = receipt["verification"]["ignoredChanges"]
    assert (told["added"], told["changed"], told["removed"]) == (4, 0, 0)
    again = verified(job, tmp_path, "test ! -e x.out && test ! -e .venv && echo > y.out", "b")
    assert again["outcome"] == "accepted"
    told = again["verification"]["ignoredChanges"]
    assert (told["added"], told["changed"], told["removed"]) == (1, 0, 0)


def test_an_ignored_file_in_the_way_of_the_next_candidate_is_put_aside(job: Job, tmp_path: Path) -> None:
    assert verified(job, tmp_path, "echo mine > x.out")["outcome"] == "accepted"
    work = job.open("b")
    work.write("x.out", "tracked\n")
    work.git("add", "-f", "x.out")
    work.git("commit", "-qm", "b")
    job.collect("b")
    assert job.apply("b", verify=[script(tmp_path / "t", "grep -q tracked x.out")])["outcome"] == "accepted"
    kept = list(job.world.store.path("quarantine").rglob("x.out"))
    assert [path.read_text() for path in kept] == ["mine\n"]


@pytest.mark.parametrize(
    "body", ["git -c user.name=x -c user.email=x commit -q --allow-empty -m moved", "git switch -q -c elsewhere"]
)
def test_moving_head_blocks_and_keeps_the_lock(job: Job, tmp_path: Path, body: str) -> None:
    with pytest.raises(Blocked) as caught:
        verified(job, tmp_path, body)
    assert "moved HEAD" in caught.value.message
    with pytest.raises(Blocked):
        verified(job, tmp_path, "true", "b")
    assert job.head == job.document["base"]


def test_moving_the_integration_branch_blocks(job: Job, tmp_path: Path) -> None:
    ref = job.document["integrationRef"]
    with pytest.raises(Blocked) as caught:
        verified(job, tmp_path, f"git update-ref {ref} HEAD")
    assert caught.value.data["ref"] == ref


def test_the_time_limit_ends_the_whole_group(job: Job, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    receipt = verified(job, tmp_path, f"sleep 300 & echo $! > {pid}; wait", verify_limit=0.3)
    assert receipt["outcome"] == "verification_failed"
    assert receipt["verification"]["timedOut"] is True
    assert owners.start_time(int(pid.read_text())) is None


OWN_SLEEP = 300_000 + os.getpid()  # seconds; told from what others on this machine run


def test_what_it_leaves_running_is_ended(job: Job, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    receipt = verified(job, tmp_path, f"setsid sleep {OWN_SLEEP} & echo $! > {pid}; sleep 0.2")
    assert receipt["outcome"] == "accepted"
    for line in pid.read_text().split():
        assert owners.start_time(int(line)) is None
    assert not [p for p in os.listdir("/proc") if p.isdigit() and _sleeps(p)]  # noqa: PTH208


def _sleeps(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00%d\x00" % OWN_SLEEP
    except OSError:
        return False


def test_a_pass_is_reused_for_the_same_tree_command_and_environment(job: Job, tmp_path: Path) -> None:
    count = tmp_path / "count"
    body = f"echo x >> {count}; test ! -e {tmp_path}/no"
    assert verified(job, tmp_path, body)["outcome"] == "accepted"
    head, base = job.head, job.document["base"]
    assert count.read_text().count("x") == 1
    # the same candidate tree again: b makes what a made, on the base
    job.repo.git("update-ref", job.document["integrationRef"], base, head)
    job.world.store.remove("jobs/j1/units/0001-a/receipt.json")
    receipt = verified(job, tmp_path, body, "a")
    assert receipt["outcome"] == "accepted"
    assert receipt["verification"]["reused"] is True
    assert count.read_text().count("x") == 1


def test_unknown_work_in_the_checkout_of_candidates_blocks(job: Job, tmp_path: Path) -> None:
    assert verified(job, tmp_path, "true")["outcome"] == "accepted"
    (checkout(job) / "mine").write_text("a person's\n")
    with pytest.raises(Blocked) as caught:
        verified(job, tmp_path, "true", "b")
    assert "mine" in caught.value.message
    assert (checkout(job) / "mine").read_text() == "a person's\n"
