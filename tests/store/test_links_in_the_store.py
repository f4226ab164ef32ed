"""A link in place of a directory of the store: nothing is written, removed or read through it, and it is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ktxkit.base.removal import delete
from tests.support.commands import call, spawn
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

PLACES: tuple[str, ...] = (
    *("jobs", "jobs/j0", "jobs/j0/units", "jobs/j0/verified", "ingest-patches", "ingest-patches/j0"),
    *("ingest-traces", "ingest-traces/j0", "worktrees", "worktrees/j0", "worktrees/.trash", "quarantine", "tmp"),
    *("locks", "owners", "attempts", "cache"),
)  # fmt: skip
FULL = os.environ.get("KTX_TEST_FULL") == "1"
if not FULL:
    PLACES = tuple(place for place in PLACES if place in ("jobs/j0", "ingest-patches/j0", "worktrees/.trash", "tmp"))


def content(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory, with its mode and bytes."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder) / name
            found[str(path.relative_to(top))] = (path.lstat().st_mode, b"" if path.is_symlink() else path.read_bytes())
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody's directory, with names in it that the store has too."""
    place = tmp_path / "mine"
    for name in (
        "notes",
        "thesis/ch1",
        "j0/job.json",
        "0001-a/lease.json",
        "units/x",
        "trace.jsonl",
        "refs_heads_main",
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("years of work")
    return place


COMMANDS = (
    ("git-ktx", "clean", "--yes"),
    ("git-ktx", "status"),
    ("job-report", "--job", "j0"),
    ("worktree-open", "--job", "j2", "--unit", "u", "--target", "main"),
    ("worktree-close", "--job", "j0", "--unit", "b"),
)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_written_or_removed_through_it(repo: Repo, outside: Path, place: str) -> None:
    units = [unit("a", "echo a > a"), unit("b", "echo b > b; exit 1")]
    call("job-run", job_file(repo, {"verify": {"run": "true"}, "units": units}), "--job", "j0", cwd=repo.path)
    store = repo.path / ".ktx"
    if (store / place).exists():
        (store / place).rename(repo.path.parent / "was")
    (store / place).parent.mkdir(parents=True, exist_ok=True)
    (store / place).symlink_to(outside)
    before = content(outside)
    for command in COMMANDS:
        ran = call(*command, cwd=repo.path)
        assert "Traceback" not in ran.err and ran.status in (0, 1, 2, 4, 5), (command, ran)
        assert content(outside) == before, command
    path = job_file(repo, {"units": [unit("c", "echo c > c")]})
    ran = call("job-run", path, "--job", "j1", cwd=repo.path)
    assert "Traceback" not in ran.err and content(outside) == before
    assert ran.status == 0 or place in ran.err, ran


@pytest.mark.parametrize("place", [place.replace("j0", "j1") for place in PLACES])
def test_a_unit_that_puts_it_there_is_named_and_the_others_land(repo: Repo, outside: Path, place: str) -> None:
    evil = f"""while ! test -e "$KTX_DIR/../../good"; do sleep 0.05; done
    cd "$KTX_DIR"; mkdir -p {place}; mv {place} {repo.path.parent}/was; ln -s {outside} {place}
    touch {repo.path.parent}/linked; sleep 0.2"""
    good = "cd $PWD; touch $KTX_DIR/../../good; while ! test -e $KTX_DIR/../../linked; do sleep 0.05; done; echo g > g"
    before = content(outside)
    units = [unit("evil", evil), unit("good", good)]
    ran = spawn("job-run", job_file(repo, {"maxParallel": 2, "units": units}), "--job", "j1", cwd=repo.path)
    assert "Traceback" not in ran.err and content(outside) == before
    if place in ("worktrees", "worktrees/j1"):
        return  # the worktree of the other one went with it
    assert outcomes(repo)["good"] == "accepted", ran
    named = [one["what"] for entry in report(repo)["workUnits"] for one in entry.get("touched", ())]
    if place not in ("owners", "attempts", "cache"):
        assert f"store {place}" in named, (named, ran.out)


@pytest.mark.parametrize("what", ["mkfifo", "mkdir", "ln -s /etc/passwd"])
def test_a_trace_that_is_no_file_stops_nobody(repo: Repo, what: str) -> None:
    evil = f'until {what} "$KTX_TRACE"; do rm -f "$KTX_TRACE"; done'  # the job may write it anew in between
    units = [unit("evil", evil), unit("good", "sleep 0.5; echo g > g")]
    ran = spawn("job-run", job_file(repo, {"maxParallel": 2, "units": units}), "--job", "j1", cwd=repo.path)
    assert ran.status == 0 and outcomes(repo)["good"] == "accepted", ran
    named = [one["what"] for entry in report(repo)["workUnits"] for one in entry.get("touched", ())]
    assert "store ingest-traces/j1/trace.jsonl" in named


def test_deleting_follows_no_link_on_the_way(tmp_path: Path, outside: Path) -> None:
    before = content(outside)
    (tmp_path / "store").mkdir()
    (tmp_path / "store/trash").symlink_to(outside)
    assert not delete(tmp_path / "store/trash/thesis")
    assert delete(tmp_path / "store/trash") and content(outside) == before
    shutil.copytree(outside, tmp_path / "store/trash/thesis")
    (tmp_path / "store/trash/thesis/out").symlink_to(outside)
    assert delete(tmp_path / "store/trash/thesis") and content(outside) == before


# Each of the places that is there is now itself and now a link to `mine`, as fast as it goes: with RENAME_EXCHANGE
# there is always one of the two.
SWAPPER = """
import ctypes, os, sys, time
mine, places = sys.argv[1], sys.argv[2:]
swap = ctypes.CDLL(None).renameat2
while True:
    if "0001-evil" in places[0] and not os.path.exists("go"):
        continue  # what the unit itself, or the git that makes its worktree, writes through a link is not ours
    for place in places:
        if os.path.lexists(place):
            if not os.path.lexists(place + "-link"):
                os.symlink(mine, place + "-link")
            swap(-100, os.fsencode(place), -100, os.fsencode(place + "-link"), 2)
    time.sleep(0.0005)
"""
SWAPPED: dict[str, tuple[str, ...]] = {
    "in its worktree": tuple(f"worktrees/j1/0001-evil/{name}" for name in ("notes", "thesis", "thesis/ch1", "closed")),
    "of its job": ("jobs/j1/units/0001-evil", "ingest-patches/j1", "ingest-traces/j1", "quarantine", "tmp"),
    "of the worktrees": ("worktrees/j1/0001-evil", "worktrees/j1", "worktrees/.trash"),
    "above all": ("jobs", "worktrees", "jobs/j1", "locks"),
}
WORK = """mkdir -p notes thesis/ch1 closed; echo a > notes/a; echo b > thesis/ch1/b; echo c > closed/c
chmod 500 closed; touch $KTX_DIR/go"""


@pytest.mark.parametrize("where", SWAPPED)
def test_directories_that_are_swapped_for_links_all_the_time(repo: Repo, outside: Path, where: str) -> None:
    """While a job runs, collects, closes, lands and is cleared: whatever becomes of it, nothing outside is touched."""
    (outside / "closed").mkdir(mode=0o500)
    (repo.path / ".ktx").mkdir()
    before, modes = content(outside), {path: path.lstat().st_mode for path in outside.rglob("*")}
    path = job_file(repo, {"units": [unit("evil", f"{WORK}; sleep 0.3; exit 1"), unit("good", "echo g > g")]})
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, outside, *SWAPPED[where]], cwd=repo.path / ".ktx")
    close = ("worktree-close", "--job", "j1", "--unit", "evil", "--discard", "--force")
    try:
        for n in range(30 if FULL else 1):
            for command in (("job-run", path, "--job", "j1"), close, ("job-land", "--job", "j1"), *COMMANDS[:2]):
                ran = spawn(*command, cwd=repo.path)
                assert "Traceback" not in ran.err and ran.status in range(6), (n, command, ran)
                assert content(outside) == before, (n, command)
                assert {path: path.lstat().st_mode for path in outside.rglob("*")} == modes, (n, command)
            (repo.path / ".ktx/go").unlink(missing_ok=True)
            shutil.rmtree(repo.path / ".ktx/jobs/j1", ignore_errors=True)
    finally:
        swapper.kill()
        swapper.wait()


SWAPS = {
    "a link": "mv $PWD $PWD-real; cp $PWD-real/.git $MINE/.git; ln -s $MINE $PWD",
    "another directory": "mv $PWD $PWD-real; cp -r $MINE $PWD; cp $PWD-real/.git $PWD/.git",
    "a file": "mv $PWD $PWD-real; echo > $PWD",
}


@pytest.mark.parametrize("how", SWAPS)
def test_a_worktree_that_is_another_is_not_collected(repo: Repo, outside: Path, how: str) -> None:
    units = [unit("evil", f"p=$PWD; cd /; {SWAPS[how].replace('$PWD', '$p')}"), unit("good", "echo g > g")]
    path = job_file(repo, {"env": {"MINE": str(outside)}, "units": units})
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert outcomes(repo) == {"evil": "broken_contract", "good": "accepted"}, ran
    letter = repo.git("hash-object", outside / "notes")
    assert repo.git("cat-file", "--batch-check", stdin=letter.encode()) == f"{letter} missing"
