"""Two containers over one repository, or two boots: what lives elsewhere is neither adopted, swept nor cleared.

A job runs in one place and each command that could take its worktree away runs in the other. The job's work lands.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktxkit.base import owners
from ktxkit.base.owners import Owner, OwnerState
from tests.support.commands import call, spawn
from tests.support.elsewhere import PLACES, Elsewhere, begin_here
from tests.support.jobs import job_file, unit
from tests.support.recovering import put, template_of
from tests.support.repos import Repo
from tests.support.wrapped_git import WrappedGit

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MOMENT = 4.0 if FULL else 2.0  # seconds that commands have before what they wait for goes on
UNIT = ("--job", "j1", "--unit", "slow")
# Commands that meet a living job of another place: what they may end with, and what the words of a refusal hold.
MEETING: dict[str, tuple[tuple[str, ...], set[int], str]] = {
    "open": (("worktree-open", *UNIT), {1}, "another machine or namespace"),
    "close": (("worktree-close", *UNIT, "--outcome", "success", "--discard"), {1}, "another machine or namespace"),
    "close as crash": (("worktree-close", *UNIT, "--outcome", "crash"), {1}, "another machine or namespace"),
    "prune": (("worktree-open", "--prune"), {0}, ""),
    "clean": (("git-ktx", "clean", "--yes"), {0}, ""),
    "resume": (("job-run", "--resume", "j1"), {1}, "another process"),
    "land": (("job-land", "--job", "j1"), {0, 1, 2}, ""),
    "watch": (("worktree-watch", *UNIT, "--once"), {0, 1, 2}, ""),
    "another job": (("job-run", "other.yaml", "--job", "j2"), {0}, ""),
}


@pytest.fixture(params=PLACES)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Elsewhere:
    place = Elsewhere(request.param, tmp_path)
    if place.refused:
        pytest.skip(place.refused)
    return place


@pytest.fixture
def living(repo: Repo, tmp_path: Path, elsewhere: Elsewhere) -> Iterator[Callable[[Callable[[], None], bool], str]]:
    """Run a job, elsewhere or here, do something when its unit has begun, let it end; returns what its file has on the
    target."""
    go = tmp_path / "go"
    command = f"echo half > work; touch {tmp_path}/begun; until test -e {go}; do sleep 0.05; done; echo done >> work"
    path = job_file(repo, {"units": [unit("slow", command)]})
    (repo.path / "other.yaml").write_text(
        json.dumps({"schemaVersion": 1, "connectionId": "c", "sourceKey": "o", "target": "side", "units": []})
    )
    repo.git("branch", "side")
    started: list[subprocess.Popen[bytes]] = []

    def during(meanwhile: Callable[[], None], away: bool) -> str:
        words = ("job-run", path, "--job", "j1")
        started.append(elsewhere.begin(*words, cwd=repo.path) if away else begin_here(words, repo.path))
        while not (tmp_path / "begun").exists():
            assert started[0].poll() is None, started[0].communicate()
            time.sleep(0.02)
        meanwhile()
        go.touch()
        said, _ = started[0].communicate()
        assert started[0].returncode == 0, said.decode()
        return repo.git("show", "main:work")

    yield during
    go.touch()
    for process in started:
        process.wait()


@pytest.mark.parametrize("elsewhere", PLACES if FULL else PLACES[:1], indirect=True)
@pytest.mark.parametrize("away", [False, True], ids=["job here", "job elsewhere"])
@pytest.mark.parametrize("meeting", MEETING)
def test_a_living_job_keeps_its_work(
    repo: Repo, elsewhere: Elsewhere, living: Callable[[Callable[[], None], bool], str], meeting: str, away: bool
) -> None:
    words, statuses, said = MEETING[meeting]

    def meanwhile() -> None:
        (repo.path / ".ktx/tmp").mkdir(exist_ok=True)
        scratch = {path for path in (repo.path / ".ktx/tmp").iterdir() if path.name.startswith("neutral-")}
        done = spawn(*words, cwd=repo.path) if away else elsewhere.run(*words, cwd=repo.path)
        assert done.status in statuses, (done.status, done.out, done.err)
        assert said in done.err, done.err
        assert (repo.path / ".ktx/worktrees/j1/0001-slow/work").read_text() == "half\n"
        assert scratch <= set((repo.path / ".ktx/tmp").iterdir()), "its private directories are there"

    assert living(meanwhile, away) == "half\ndone"


def opened_by_hand(repo: Repo, hold: str) -> list[str | Path]:
    """A named worktree in which a command works."""
    return ["worktree-open", "topic", "--", "sh", "-c", hold]


def watched_unit(repo: Repo, hold: str) -> list[str | Path]:
    """A unit opened by hand, which an observer watches; its work is there already."""
    opened = spawn("worktree-open", "--job", "j1", "--unit", "slow", "--target", "main", cwd=repo.path)
    (Path(opened.out.strip()) / "work").write_text("half\ndone\n")
    return ["worktree-watch", *UNIT]


def resumed_job(repo: Repo, hold: str) -> list[str | Path]:
    """A job that was interrupted, and goes on."""
    path = job_file(repo, {"units": [unit("slow", f"test -e {repo.path.parent}/again && {{ {hold}; }} || sleep 60")]})
    first = begin_here(("job-run", path, "--job", "j1"), repo.path)
    while not (repo.path / ".ktx/worktrees/j1/0001-slow/README").exists():
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    first.communicate()
    (repo.path.parent / "again").touch()
    return ["job-run", "--resume", "j1"]


def landing_job(repo: Repo, hold: str) -> list[str | Path]:
    """A job by hand whose landing is verified for as long as it takes."""
    place = Path(spawn("worktree-open", "--job", "j1", "--unit", "slow", "--target", "main", cwd=repo.path).out.strip())
    (place / "work").write_text("half\ndone\n")
    for command in ("patch-collect", "patch-apply"):
        assert spawn(command, *UNIT, cwd=repo.path).status == 0
    return ["job-verify", "--job", "j1", "--", "sh", "-c", hold.replace("work", "/dev/null")]


HOLDERS = {"open": opened_by_hand, "watch": watched_unit, "resume": resumed_job, "land": landing_job}
NAMED: tuple[tuple[str, ...], ...] = (
    ("worktree-open", "topic"), ("worktree-close", "topic", "--discard"), ("git-ktx", "land", "topic"),
)  # fmt: skip
OTHERS = {"open": NAMED}


@pytest.mark.parametrize("elsewhere", PLACES if FULL else PLACES[:1], indirect=True)
@pytest.mark.parametrize("away", [True, False][: 1 + FULL], ids=["holder elsewhere", "holder here"][: 1 + FULL])
@pytest.mark.parametrize("holder", list(HOLDERS)[: None if FULL else 2])
def test_whoever_meets_whom_the_work_stays(
    repo: Repo, elsewhere: Elsewhere, tmp_path: Path, holder: str, away: bool
) -> None:
    """Each command that could take work away, one after the other, while one of another place is at it."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    hold = f"echo half > work; touch {begun}; until test -e {go}; do sleep 0.05; done; echo done >> work"
    repo.git("branch", "side")
    (repo.path / "other.yaml").write_text(
        json.dumps({"schemaVersion": 1, "connectionId": "c", "sourceKey": "o", "target": "side", "units": []})
    )
    words = HOLDERS[holder](repo, hold)
    at_work = elsewhere.begin(*map(str, words), cwd=repo.path) if away else begin_here(words, repo.path)
    try:
        deadline = time.monotonic() + 30
        while holder != "watch" and not begun.exists():
            assert at_work.poll() is None and time.monotonic() < deadline, at_work.communicate()
            time.sleep(0.02)
        if holder == "watch":
            time.sleep(1)
        for meeting in (*OTHERS.get(holder, ()), *(words for words, _, _ in MEETING.values())):
            done = spawn(*meeting, cwd=repo.path) if away else elsewhere.run(*meeting, cwd=repo.path)
            assert "Traceback" not in done.err and done.status in (0, 1, 2, 3), (meeting, done)
            assert holder == "watch" or at_work.poll() is None, (meeting, at_work.communicate())
    finally:
        go.touch()
        if holder == "watch" and at_work.poll() is None:  # what it watched may be closed, then it ends by itself
            for pid in reversed(_descendants(at_work.pid)):
                os.kill(pid, signal.SIGTERM)
        said, _ = at_work.communicate(timeout=60)
    assert at_work.returncode == 0 or holder == "watch", said
    assert _is_somewhere(repo, b"half\ndone\n"), said


def _dead_worktree(repo: Repo) -> None:
    """A named worktree with work, whose command was killed with the command that ran it."""
    begun = repo.path.parent / "begun"
    command = f"echo half > work; echo done >> work; touch {begun}; sleep 60"
    killed = begin_here(("worktree-open", "topic", "--", "sh", "-c", command), repo.path)
    while not begun.exists():
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    for pid in _descendants(killed.pid):
        os.kill(pid, signal.SIGKILL)
    killed.communicate()


def pruning(repo: Repo) -> tuple[str, ...]:
    _dead_worktree(repo)
    return ("worktree-open", "--prune")


def cleaning(repo: Repo) -> tuple[str, ...]:
    """A dead worktree, and the refs of a job that has landed."""
    _dead_worktree(repo)
    landing(repo)
    assert spawn("job-land", "--job", "j1", cwd=repo.path).status == 0
    return ("git-ktx", "clean", "--yes")


def closing(repo: Repo) -> tuple[str, ...]:
    place = Path(spawn("worktree-open", "--job", "j1", "--unit", "slow", "--target", "main", cwd=repo.path).out.strip())
    (place / "work").write_text("half\ndone\n")
    return ("worktree-close", *UNIT, "--outcome", "success", "--discard")


def landing(repo: Repo) -> tuple[str, ...]:
    landing_job(repo, "true")
    return ("job-land", "--job", "j1")


def landing_by_name(repo: Repo) -> tuple[str, ...]:
    place = Path(spawn("worktree-open", "topic", cwd=repo.path).out.strip())
    (place / "work").write_text("half\ndone\n")
    Repo(place).commit("work")
    return ("git-ktx", "land", "topic")


# What holds a worktree, or the target, for some moments: its setting, and how it ends beside any of the commands above.
SHORT = {"prune": pruning, "clean": cleaning, "close": closing, "land": landing, "land by name": landing_by_name}


@pytest.mark.parametrize("elsewhere", PLACES if FULL else PLACES[:1], indirect=True)
@pytest.mark.parametrize("away", [True, False][: 1 + FULL], ids=["holder elsewhere", "holder here"][: 1 + FULL])
@pytest.mark.parametrize("holder", SHORT)
def test_whoever_meets_a_short_command_the_work_stays(
    elsewhere: Elsewhere, tmp_path: Path, holder: str, away: bool
) -> None:
    """Each command that could take work away, while one of another place waits for one of its gits (in the full suite
    for each in turn)."""
    repo = Repo.init(tmp_path / "place" / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    words = SHORT[holder](repo)
    repo.git("branch", "side")
    other = {"schemaVersion": 1, "connectionId": "c", "sourceKey": "o", "target": "side", "units": []}
    (repo.path / "other.yaml").write_text(json.dumps(other))
    git, template = WrappedGit(tmp_path / "git"), template_of(repo, tmp_path / "aside")
    git.prepare(-1, "failed")
    undisturbed = begin_here(words, repo.path, git.env)
    said, _ = undisturbed.communicate()
    assert undisturbed.returncode == 0, said
    count = len(git.started())
    for n in range(count) if FULL else [count // 2]:
        put(template, repo.path.parent, repo.path.parent)
        git.prepare_pause(n)
        held = elsewhere.begin(*words, cwd=repo.path, env=git.env) if away else begin_here(words, repo.path, git.env)
        for argv, status, told in [*_met(repo, elsewhere, (held, git), away)]:
            assert b"Traceback" not in told and status in (0, 1, 2, 3, 4), (n, argv, status, told)
        assert _is_somewhere(repo, b"half\ndone\n"), n
        told_by = spawn("git-ktx", "doctor", cwd=repo.path)
        assert told_by.status == 0, (n, told_by.out)


def _met(
    repo: Repo, elsewhere: Elsewhere, holder: tuple[subprocess.Popen[bytes], WrappedGit], away: bool
) -> Iterator[tuple[object, int, bytes]]:
    """How each command ended that met the holder: those that wait for it go on when it does; and the holder."""
    held, git = holder
    begun = [held]
    try:
        while not git.waits:
            assert held.poll() is None, held.communicate()
            time.sleep(0.02)
        for words in (*NAMED, *(words for words, _, _ in MEETING.values())):
            begun.append(begin_here(words, repo.path) if away else elsewhere.begin(*words, cwd=repo.path))
        deadline = time.monotonic() + MOMENT
        while any(other.poll() is None for other in begun[1:]) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert held.poll() is None
    finally:
        git.go_on()
        ended = [(process.args, process.communicate(timeout=120)[0], process) for process in begun]
    yield from ((argv, process.returncode, told) for argv, told, process in ended)


def _is_somewhere(repo: Repo, content: bytes) -> bool:
    """On a branch, in a worktree or in the attic."""
    files = [path for path in repo.path.glob(".ktx/worktrees/*/*/work") if path.read_bytes() == content]
    refs = repo.git("for-each-ref", "--format=%(refname)").splitlines()
    listed = [line for ref in refs for line in repo.git("ls-tree", "-r", ref, check=False).splitlines()]
    blob = repo.git("hash-object", "--stdin", stdin=content)
    return bool(files) or any(blob in line for line in listed)


def test_what_was_killed_elsewhere_is_taken_over(repo: Repo, elsewhere: Elsewhere, tmp_path: Path) -> None:
    """The kernel lets the lock of a dead process go, and every namespace sees it."""
    begun = tmp_path / "begun"
    path = job_file(
        repo, {"units": [unit("slow", f"echo half > work; test -e {begun} || {{ touch {begun}; sleep 60; }}")]}
    )
    job = elsewhere.begin("job-run", path, "--job", "j1", cwd=repo.path)
    while not begun.exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.02)
    lease = json.loads((repo.path / ".ktx/jobs/j1/units/0001-slow/lease.json").read_text())
    owner = Owner.of(lease["owner"])
    assert owners.state_of(owner, repo.path / ".ktx") is OwnerState.ALIVE
    for pid in _descendants(job.pid):
        os.kill(pid, signal.SIGKILL)
    job.communicate()
    while owners.state_of(owner, repo.path / ".ktx") is OwnerState.ALIVE:
        time.sleep(0.02)
    assert owners.state_of(owner, repo.path / ".ktx") is OwnerState.DEAD
    assert call("job-run", "--resume", "j1", cwd=repo.path).status == 0
    assert repo.git("show", "main:work") == "half"


def _descendants(pid: int) -> list[int]:
    """The process and all below it, the lowest first."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*(one for child in children for one in _descendants(child)), pid]


def edited(repo: Repo, **owner: str) -> Path:
    """The lease of a unit whose owner is said to be another one."""
    assert call("worktree-open", "--job", "j1", "--unit", "u", "--base", "HEAD", cwd=repo.path).status == 0
    path = repo.path / ".ktx/jobs/j1/units/0001-u/lease.json"
    lease = json.loads(path.read_text())
    lease["owner"] = {**owners.this_owner().document(), "pid": 4194303, **owner}
    path.write_text(json.dumps(lease))
    return Path(lease["path"])


ANOTHER = {
    "machine": {"machine": "another", "bootId": "another"},
    "namespace": {"pidNamespace": "1"},
    "container": {"machine": "another", "pidNamespace": "1"},
}


@pytest.mark.parametrize("owner", ANOTHER)
def test_unknown_is_not_dead(repo: Repo, owner: str) -> None:
    """An owner elsewhere that holds no lock we can see: nothing proves its death, a person ends it."""
    tree = edited(repo, **ANOTHER[owner])
    (tree / "work").write_text("theirs")
    opened = call("worktree-open", "--job", "j1", "--unit", "u", "--base", "HEAD", cwd=repo.path)
    assert opened.status == 1 and opened.out == ""
    assert "held by another machine or namespace: unknown whether it lives" in opened.err
    for command in (("worktree-open", "--prune"), ("git-ktx", "clean", "--yes")):
        done = call(*command, cwd=repo.path)
        assert done.status == 0 and "unknown whether it lives" in done.out, done.out
    close = ("worktree-close", "--job", "j1", "--unit", "u", "--outcome")
    assert call(*close, "success", "--discard", cwd=repo.path).status == 1
    assert (tree / "work").read_text() == "theirs"
    assert call(*close, "crash", cwd=repo.path).status == 0
    assert (tree / "work").read_text() == "theirs"
    assert call("worktree-open", "--job", "j1", "--unit", "u", "--base", "HEAD", cwd=repo.path).status == 0


def test_the_machine_was_started_anew(repo: Repo) -> None:
    """Nothing of an earlier boot of this machine lives."""
    tree = edited(repo, bootId="the-one-before")
    (tree / "work").write_text("saved")
    assert call("worktree-open", "--job", "j1", "--unit", "u", "--base", "HEAD", cwd=repo.path).status == 0
    assert repo.git("for-each-ref", "refs/ktx/attic") and not (tree / "work").exists()


def test_its_own_file_tells_of_a_process(tmp_path: Path) -> None:
    """Held: alive, whatever the pid says. Free: dead. The name of a private directory leads to the same file."""
    owner = owners.hold(tmp_path)
    other = owner._replace(namespace="1")
    name = f"neutral-{other.mark}-00ff"
    assert owners.state_of(owner, tmp_path) is OwnerState.ALIVE
    assert owners.state_of(other, tmp_path) is OwnerState.UNKNOWN and not owners.is_abandoned(name, tmp_path)
    held = tmp_path / owners.FOLDER / other.mark
    os.link(tmp_path / owners.FOLDER / owner.mark, held)
    assert owners.state_of(other, tmp_path) is OwnerState.ALIVE and not owners.is_abandoned(name, tmp_path)
    assert owners.others(tmp_path) == [other.mark] and owners.sweep(tmp_path) == 0
    held.unlink()
    held.touch()
    assert owners.state_of(other, tmp_path) is OwnerState.DEAD and owners.is_abandoned(name, tmp_path)
    assert owners.sweep(tmp_path, frozenset({other.mark})) == 0 and owners.sweep(tmp_path) == 1
    assert [path.name for path in (tmp_path / owners.FOLDER).iterdir()] == [owner.mark]
