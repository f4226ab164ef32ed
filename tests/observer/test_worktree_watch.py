"""worktree-watch and worktree-status as their users run them: real processes, a real repository, inotify and kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call, script, spawn
from tests.support.faults import WHENS, Killed, count_effects, run_killed, spread
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
CHURN = 200_000 if FULL else 12_000  # events under target/
PATIENCE = 60.0  # seconds that a busy machine may need
UNIT = ("--job", "j1", "--unit", "u1")


@pytest.fixture
def tree(repo: Repo) -> Repo:
    """The worktree of a leased unit; the repository is its `path.parents[3]`."""
    repo.write("a.md", "a\n")
    repo.write("docs/x.md", "x\n")
    repo.commit()
    opened = call("worktree-open", *UNIT, "--json", cwd=repo.path)
    return Repo(Path(opened.document["path"]))


def status(tree: Repo) -> Any:
    ran = spawn("worktree-status", "--json", cwd=tree.path)
    assert ran.status in (0, 4), ran.err + ran.out
    return ran.document


def until(tree: Repo, wanted: Callable[[Any], bool]) -> Any:
    """The first status of which that is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = status(tree)
        if wanted(found):
            return found
        threading.Event().wait(0.1)
    raise AssertionError(json.dumps(found, indent=1))


@contextmanager
def watching(tree: Repo, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A watcher that has taken its first look."""
    child = subprocess.Popen(
        [script("worktree-watch"), *options], cwd=tree.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until(tree, lambda s: s["observer"].get("pid") == child.pid)
        yield child
    finally:
        child.kill()
        child.communicate()


# -- the text and the document ---------------------------------------------------------------------


def test_four_lines_and_the_next_safe_action(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    tree.write("docs/x.md", "x" * 20_000)
    call("worktree-watch", "--once", cwd=tree.path)
    ran = call("worktree-status", cwd=tree.path)
    lines = ran.out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Worktree activity", "Proven progress", "Deadlines", "Observer", "Next",
    ]  # fmt: skip
    assert "observed/unproven seq=1 writing docs/x.md (+19 KiB, " in lines[0]
    assert "none yet" in lines[1]
    assert "proof deadline in 29" in lines[2] and "observed-only extension 0s / 600s cap" in lines[2]
    assert "poll-only unwatched" in lines[3] and "ignored churn not counted" in lines[3]
    assert lines[4] == "Next: nobody is watching: watch it: worktree-watch --job j1 --unit u1"


def test_the_json_is_of_its_contract_and_names_the_whole_tuple(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    ran = call("worktree-status", "--json", cwd=tree.path)
    assert ran.json["contract"] == "observer-status"
    domain = ran.document["domain"]
    assert {"jobId", "unitKey", "generation", "attempt", "fence", "leaseEpoch", "processEpoch"} < domain.keys()
    assert {"observerEpoch", "worktreeId", "path", "device", "inode", "birthTimeNs", "nonce"} < domain.keys()


def test_looking_changes_nothing(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    store = tree.path.parents[3] / ".ktx/attempts"
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    tree.write("a.md", "changed\n")
    assert call("worktree-status", cwd=tree.path).status == 0
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("option", ["--interval=0.1", "--silence=0.5", "--cap=86401", "--debounce=60"])
def test_an_interval_out_of_range_is_status_2(tree: Repo, option: str) -> None:
    ran = call("worktree-watch", "--once", option, cwd=tree.path)
    assert (ran.status, "it must be" in ran.err) == (2, True)


def test_names_cannot_drive_the_terminal(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    (tree.path / os.fsdecode(b"\x1b[31mred\xff\n")).write_text("x")
    ran = call("worktree-watch", "--once", cwd=tree.path)
    assert "\x1b" not in ran.out
    assert len(ran.out.splitlines()) == 5


def test_without_a_lease_it_cannot_run(repo: Repo) -> None:
    ran = call("worktree-watch", cwd=repo.path)
    assert (ran.status, "hint" in ran.err) == (2, True)


def test_before_any_look_nothing_is_called_lost(tree: Repo) -> None:
    text = call("worktree-status", cwd=tree.path).out
    assert "lost" not in text and "Deadlines: none yet: nobody has looked" in text
    assert text.splitlines()[-1] == "Next: nobody is watching: watch it: worktree-watch --job j1 --unit u1"


def test_after_the_lease_is_over_the_next_step_is_one_that_works(tree: Repo) -> None:
    main = tree.path.parents[3]
    assert call("worktree-close", *UNIT, "--outcome", "crash", cwd=main).status == 0
    ran = call("worktree-status", *UNIT, cwd=main)
    end = "Next: nothing to watch, the lease is over: to go on, open it again with worktree-open"
    assert (ran.status, ran.out.splitlines()[-1]) == (0, end)
    assert call("worktree-open", *UNIT, cwd=main).status == 0
    assert call("worktree-watch", "--once", *UNIT, cwd=main).status == 0


def test_where_no_worktree_is_meant_the_open_ones_are_listed(tree: Repo) -> None:
    main = tree.path.parents[3]
    call("worktree-open", "--job", "j2", "--unit", "u2", cwd=main)
    ran = call("worktree-status", cwd=main)
    assert ran.status == 0, ran.err
    assert [line.split()[:3] for line in ran.out.splitlines()] == [
        ["unit", "verdict", "proven"], ["j1", "u1", "unknown"], ["j2", "u2", "unknown"],
    ]  # fmt: skip
    found = call("worktree-status", "--job", "j2", "--json", cwd=main).json["data"]["worktrees"]
    assert [(row["name"], row["status"]["verdict"]) for row in found] == [("j2 u2", "unknown")]
    assert call("worktree-status", "--job", "nosuch", cwd=main).status == 2
    for job, unit in (("j1", "u1"), ("j2", "u2")):
        call("worktree-close", "--job", job, "--unit", unit, "--outcome", "crash", cwd=main)
    ran = call("worktree-status", cwd=main)
    assert (ran.status, ran.out) == (0, "no worktree is open; worktree-open opens one\n")


# -- proof -----------------------------------------------------------------------------------------


def test_a_trace_event_proves_progress(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    event = ("trace-append", "--phase", "work_unit", "--event", "tables_read")
    assert call(*event, "--proof", "tables-1", cwd=tree.path).status == 0
    again = call(*event, "--proof", "tables-1", cwd=tree.path)
    assert "no new proof" in again.err
    assert call(*event, "--proof", "--", "true", cwd=tree.path).status == 0
    assert call(*event, "--proof", "--", "false", cwd=tree.path).status == 1
    found = status(tree)["proven"]
    assert (found["proofSeq"], found["what"]) == (2, "tables_read_finished")


def test_proof_of_somebody_else_is_refused_and_nothing_is_written(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    main = tree.path.parents[3]
    ran = call("trace-append", *UNIT, "--phase", "p", "--event", "e", "--proof", cwd=main)
    assert (ran.status, "not the attempt" in ran.err) == (1, True)
    trace = main / ".ktx/ingest-traces/j1/trace.jsonl"
    assert "open_worktree_started" in trace.read_text() and '"event":"e"' not in trace.read_text()


# -- damage ----------------------------------------------------------------------------------------


def _observer(tree: Repo) -> Path:
    return next((tree.path.parents[2] / "attempts").glob("*/worktree-observer"))


def _edited(observer: Path) -> None:
    journal = observer / "activity.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"creat", b"xxxxx"))


def _rolled_back(observer: Path) -> None:
    journal = observer / "activity.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "edited": ("corrupt", _edited),
    "rolled back": ("rollback", _rolled_back),
    "missing": ("missing", lambda observer: (observer / "activity.jsonl").unlink()),
    "emptied": ("missing", lambda observer: (observer / "activity.jsonl").write_bytes(b"")),
    "no directory": ("missing", shutil.rmtree),
    "baseline": ("baseline_lost", lambda observer: (observer / "baseline.json").write_bytes(b"garbage")),
    "tracked": ("baseline_lost", lambda observer: (observer / "tracked").write_bytes(b"garbage")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_the_look_that_finds_damage_says_so_and_ends_with_5(tree: Repo, name: str) -> None:
    why, damage = DAMAGE[name]
    call("worktree-watch", "--once", cwd=tree.path)
    tree.write("new.md", "new\n")
    call("worktree-watch", "--once", cwd=tree.path)
    damage(_observer(tree))
    before = call("worktree-status", cwd=tree.path)
    words = why.replace("_", " ")
    assert (before.status, f"Journal: segment 1 cannot be trusted ({words})" in before.out) == (5, True)
    found = call("worktree-watch", "--once", cwd=tree.path)
    assert (found.status, f"Journal: segment 1 was lost ({words}), found by this look" in found.out) == (5, True)
    after = call("worktree-status", "--json", cwd=tree.path)
    lost = after.document["journal"]["lost"]
    assert (after.status, lost["segment"], lost["why"], "foundNow" in lost) == (0, 1, why, False)
    assert f"was lost ({words}), found {lost['at']}" in call("worktree-status", cwd=tree.path).out
    again = call("worktree-watch", "--once", cwd=tree.path)
    assert (again.status, "found by this look" in again.out) == (0, False)


def test_a_watch_that_finds_damage_ends_with_5(tree: Repo) -> None:
    call("worktree-watch", "--once", cwd=tree.path)
    (_observer(tree) / "tracked").write_bytes(b"garbage")
    ran = call("worktree-watch", "--for", "0", "--poll", cwd=tree.path)
    assert (ran.status, "was lost (baseline lost), found by this look" in ran.out) == (5, True)


# -- live ------------------------------------------------------------------------------------------


def test_gradual_writes_are_observed_beside_proven_progress(tree: Repo) -> None:
    with watching(tree) as child:
        for number in range(3):
            tree.write("docs/x.md", "line\n" * (number + 1))
            until(tree, lambda s, n=number: s["activity"]["contentSeq"] > n)  # type: ignore[misc]
        call("trace-append", "--phase", "p", "--event", "read", "--proof", cwd=tree.path)
        found = until(tree, lambda s: s["proven"]["proofSeq"] == 1)
        assert found["activity"]["label"] == "observed/unproven"
        assert (found["proven"]["label"], found["verdict"]) == ("proven", "working")
        assert (found["observer"]["health"], found["observer"]["mode"]) == ("healthy", "event+reconcile")
        assert "docs/x.md" in call("worktree-status", cwd=tree.path).out
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    assert child.returncode == 0, err
    assert out.count("observed/unproven") >= 4


def test_churn_is_ignored_visibly_and_stays_cheap(tree: Repo) -> None:
    with watching(tree) as child:
        churner = f"""
import os
os.makedirs({os.fspath(tree.path / "target/debug")!r}, exist_ok=True)
for number in range({CHURN} // 4):
    name = {os.fspath(tree.path / "target/debug")!r} + f"/o{{number % 50}}"
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"x")
    os.close(fd)
    os.unlink(name)
"""
        subprocess.run([sys.executable, "-c", churner], check=True)
        tree.write("a.md", "real work\n")
        found = until(
            tree, lambda s: s["activity"]["contentSeq"] and "volatile_build" in s["observer"].get("churn", {})
        )
        assert found["activity"]["changes"][0]["path"] == "a.md"
        assert found["activity"]["contentSeq"] == 1
        assert found["observer"]["churn"]["volatile_build"]["count"] > 0
        assert "ignored churn build=" in call("worktree-status", cwd=tree.path).out
        assert resident(child.pid) < 256 * 1024 * 1024
        settled(child.pid)


def churn(found: Any) -> Any:
    return found["observer"].get("churn", {})


def resident(pid: int) -> int:
    """The most memory that a process had, in bytes."""
    line = next(s for s in Path(f"/proc/{pid}/status").read_text().splitlines() if s.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def settled(pid: int) -> None:
    """A process comes to rest: it uses next to no CPU in some second."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = ticks()
        threading.Event().wait(1.0)
        if ticks() - before <= 0.1 * os.sysconf("SC_CLK_TCK"):
            return
    raise AssertionError("it does not come to rest")


def test_an_overflow_a_restart_and_a_rename_converge(tree: Repo) -> None:
    with watching(tree) as child:
        os.kill(child.pid, signal.SIGSTOP)
        for number in range(6_000):  # more than the kernel keeps for a reader that sleeps
            path = tree.write("docs/burst.md", f"{number}\n")
            if number % 2:
                path.rename(path.with_name("burst2.md"))
        tree.write(".a.new", "replaced\n").rename(tree.path / "a.md")
        os.kill(child.pid, signal.SIGCONT)
        found = until(tree, lambda s: s["activity"]["contentSeq"] and s["observer"].get("overflows"))
        assert found["activity"]["source"] == "overflow"
    with watching(tree):
        tree.write("docs/x.md", "after the restart\n")
        until(tree, lambda s: s["activity"]["contentSeq"] > found["activity"]["contentSeq"])
    ran = spawn("worktree-watch", "--once", "--level", "content", "--json", cwd=tree.path)
    assert ran.document["activity"]["contentSeq"] == status(tree)["activity"]["contentSeq"]


def test_a_killed_watcher_never_looks_healthy(tree: Repo) -> None:
    with watching(tree) as child:
        child.kill()
        child.wait()
        found = status(tree)
    assert (found["observer"]["health"], found["observer"]["mode"]) == ("unwatched", "poll-only")
    assert found["observer"]["reason"] == "the watcher is dead"
    assert found["next"]["command"] == "worktree-watch --job j1 --unit u1"
    text = call("worktree-status", cwd=tree.path).out
    assert "poll-only unwatched (the watcher is dead)" in text and "worktree-watch --job j1 --unit u1" in text


def test_a_second_watcher_takes_over(tree: Repo) -> None:
    with watching(tree) as first, watching(tree) as second:
        tree.write("a.md", "changed\n")
        until(tree, lambda s: s["activity"]["contentSeq"] == 1)
        first.communicate(timeout=PATIENCE)
        assert (first.returncode, second.poll()) == (0, None)


def test_a_unit_that_only_rewrites_becomes_suspect(tree: Repo) -> None:
    """Short intervals by explicit option; the defaults are what they are."""
    short = ("--silence=1", "--grace=1", "--cap=2", "--interval=0.3")
    writer = threading.Event()

    def rewrite() -> None:
        number = 0
        while not writer.wait(0.1):
            number += 1
            tree.write("a.md", f"{number}\n")

    thread = threading.Thread(target=rewrite)
    with watching(tree, *short):
        thread.start()
        try:
            found = until(tree, lambda s: s["verdict"] == "suspect")
        finally:
            writer.set()
            thread.join()
        assert found["deadlines"]["capConsumedMs"] == 2_000
        assert "SUSPECT for" in call("worktree-status", cwd=tree.path).out
        assert (found["authority"], found["standing"]) == ("current", "current")  # and nothing else happened to it


def test_a_late_write_is_quarantined_kept_and_wakes_nobody(tree: Repo) -> None:
    main = tree.path.parents[3]
    call("worktree-watch", "--once", cwd=tree.path)
    assert call("worktree-close", *UNIT, "--outcome", "crash", cwd=main).status == 0
    tree.write("late.md", "late\n")
    ran = spawn("worktree-watch", "--once", *UNIT, cwd=main)
    assert (ran.status, "--preserve" in ran.out) == (4, True)
    document = status(tree)
    assert document["lateWrites"]["late"][0]["lateKind"] == "late-worktree-mutation-observed"
    assert document["activity"]["contentSeq"] == 0
    kept = spawn("worktree-watch", "--once", "--preserve", "--json", *UNIT, cwd=main)
    ref = kept.document["lateWrites"]["preservedRef"]
    assert (kept.status, Repo(main).show(ref, "late.md")) == (0, b"late\n")


# -- kill -9 at every effect -----------------------------------------------------------------------


def prepared(root: Path) -> Repo:
    repo = Repo.init(root)
    repo.write("a.md", "a\n")
    repo.commit()
    return Repo(Path(call("worktree-open", *UNIT, "--json", cwd=repo.path).document["path"]))


def changed(root: Path) -> Repo:
    tree = prepared(root)
    assert call("worktree-watch", "--once", cwd=tree.path).status == 0
    tree.write("a.md", "changed\n")
    return tree


STATES: dict[str, tuple[Callable[[Path], Repo], int]] = {"the baseline": (prepared, 0), "a change": (changed, 1)}


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("name", STATES)
def test_killed_anywhere_it_repeats_neither_number_nor_time(tmp_path: Path, name: str, when: str) -> None:
    make, expected = STATES[name]
    effects = count_effects("worktree-watch", ["--once"], make(tmp_path / "count").path)
    for n in spread(effects, 6):
        tree = make(tmp_path / f"{n}")
        ran = run_killed("worktree-watch", ["--once"], tree.path, n, when)
        assert isinstance(ran, Killed), (n, effects[n])
        after_kill = records(tree)
        for _ in range(2):
            again = call("worktree-watch", "--once", "--json", cwd=tree.path)
            assert again.status == 0, (ran, again.err)
        found = records(tree)
        assert found[: len(after_kill)] == after_kill, ran
        assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
        assert [record["event"] for record in found] == ["baseline", *["activity"] * expected], ran
        assert again.document["baseline"]["baselineTime"] == "known"
        lease = json.loads((tree.path.parents[2] / "jobs/j1/units/0001-u1/lease.json").read_bytes())
        assert lease["observer"]["head"] == found[-1]["hash"]


def records(tree: Repo) -> list[Any]:
    """Whole records on the disk."""
    found = list((tree.path.parents[2] / "attempts").glob("*/worktree-observer/activity.jsonl"))
    lines = found[0].read_bytes().split(b"\n")[:-1] if found else []
    return [json.loads(line) for line in lines]
