"""The eight groups of what an observer must hold, on a clock that the test turns."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ktxkit.base import kinds
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Refused
from ktxkit.observer import attempt, observe
from ktxkit.observer.observe import ObserverLoop
from ktxkit.observer.rules.clocks import Settings
from ktxkit.observer.scan import Hints, Level
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules.paths_policy import CandidatePathPolicy
from ktxkit.store.world import World
from ktxkit.work.collect import collect_unit
from tests.support.observed import Observed
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease


@pytest.fixture
def o(repo: Repo) -> Observed:
    repo.write("a.md", "a\n")
    repo.write("b.md", "b\n")
    repo.write("run.log", "tracked\n")
    repo.write(".gitignore", "*.ign\n")
    repo.commit()
    return Observed.open(repo)


def activities(o: Observed) -> list[ActivityRecord]:
    return [record for record in o.records if record["event"] == "activity"]


# -- 1: the exact domain ---------------------------------------------------------------------------


def test_every_record_carries_the_whole_tuple(o: Observed) -> None:
    o.tree.write("a.md", "1\n")
    o.attach()
    o.tree.write("a.md", "2\n")
    o.look()
    lease = o.lease
    for record in o.records:
        for key in ("jobId", "unitKey", "generation", "attempt", "fence", "leaseEpoch", "worktreeId", "path"):
            assert record["domain"][key] == lease[key]
        for fact in ("device", "inode", "birthTimeNs", "nonce", "adminDir"):
            assert record["domain"][fact] == lease[fact]
        assert (record["domain"]["processEpoch"], record["domain"]["observerEpoch"]) == (1, 1)


def test_the_state_lies_outside_of_the_worktree_and_its_head_in_the_lease(o: Observed) -> None:
    o.attach()
    o.tree.write("a.md", "2\n")
    o.look()
    assert o.tree.path not in o.directory.parents
    names = sorted(path.name for path in o.directory.iterdir())
    assert [name for name in names if not name.endswith(".lock")] == [
        "activity.jsonl", "baseline.json", "manifest.bin", "policy.json", "state.json", "tracked",
    ]  # fmt: skip
    assert o.lease["observer"] == {"segment": 1, "seq": 2, "head": o.records[-1]["hash"], "epoch": 1}
    assert o.lease["pathPolicyDigest"] == o.records[0]["pathPolicyDigest"]


@pytest.mark.parametrize("key", ["processEpoch", "leaseEpoch", "fence"])
def test_an_older_epoch_is_inert(o: Observed, key: str) -> None:
    o.attach()
    o.change_lease(**{key: 2})
    o.tree.write("a.md", "2\n")
    o.clock.advance(290)
    o.look()
    assert activities(o) == []
    assert o.attempt.state.content_seq == 0


def test_two_attempts_and_a_different_main(o: Observed) -> None:
    other = Observed.open(o.repo, "u2")
    o.attach(), other.attach()
    o.repo.write("main.md", "main\n")
    other.tree.write("b.md", "the other's\n")
    o.look(Level.CONTENT), other.look(Level.CONTENT)
    assert (len(activities(o)), len(activities(other))) == (0, 1)


def test_a_closed_lease_is_not_attached_to(o: Observed) -> None:
    o.change_lease(state="closed", outcome="crash", closedAt="2026-01-01T00:00:00.000Z")
    with pytest.raises(Refused, match="over"):
        o.attach()
    assert not (o.directory / "baseline.json").exists()


# -- 2: gradual writing ----------------------------------------------------------------------------


def test_a_distinct_write_every_thirty_seconds_for_seven_minutes(o: Observed) -> None:
    o.attach()
    for number in range(1, 15):
        o.clock.advance(30)
        o.tree.write("a.md", f"line {number}\n" * number)
        o.look()
        status = o.status()
        assert (status["verdict"], status["activity"]["contentSeq"]) == ("working", number)
    assert o.suspect_in() == 120  # 420 s after the baseline
    o.tree.write("a.md", o.tree.path.joinpath("a.md").read_text())
    o.clock.advance(30)
    o.look()
    assert (o.status()["activity"]["contentSeq"], o.suspect_in()) == (14, 90)  # the same bytes are nothing
    o.clock.advance(90)
    o.look(Level.CONTENT, "before-decision")
    assert o.status()["verdict"] == "suspect"


# -- 3: classification -----------------------------------------------------------------------------


def test_what_counts_and_what_does_not(o: Observed) -> None:
    o.attach()
    for name in ("run.log", "new.md"):
        o.tree.write(name, "counts\n")
    for name in ("agent.log", "target/debug/o", "node_modules/m", "x.ign", "__pycache__/a.pyc", "b.md~"):
        o.tree.write(name, "does not\n")
    seen = o.look()
    assert [(c["path"], c["class"], c["operation"]) for c in activities(o)[-1]["changes"]] == [
        ("new.md", "untracked", "create"),
        ("run.log", "tracked", "content-change"),
    ]
    assert seen.scan is not None
    assert dict(seen.scan.excluded) == {
        "volatile_log": 1, "volatile_build": 1, "volatile_dependency": 1, "git_ignored": 1, "volatile_cache": 1,
        "volatile_temporary": 1,
    }  # fmt: skip
    for number in range(5):
        o.tree.write("target/debug/o", f"{number}\n")
        o.tree.write("agent.log", f"{number}\n")
        o.clock.advance(15)
        assert o.look().appended == []


def test_a_declared_deliverable_counts_although_it_is_ignored_or_generated(repo: Repo) -> None:
    repo.write(".gitignore", "out/\n")
    repo.commit()
    o = Observed.open(repo)
    (o.directory / "policy.json").unlink()
    lease: Lease = {**o.lease, "policy": {"deliverables": ["out/report.md", "target/**"], "generated": ["README"]}}
    lease.pop("pathPolicyDigest", None)
    o.place.write(kinds.LEASE, lease)
    o.attach()
    for name in ("out/report.md", "out/other.md", "target/debug/app", "README"):
        o.tree.write(name, "x\n")
    o.look()
    assert [c["path"] for c in activities(o)[-1]["changes"]] == ["out/report.md", "target/debug/app"]


def test_the_collector_takes_what_git_does_not_ignore_whatever_the_observer_mutes(o: Observed) -> None:
    """Lists of names mute the observer; they never decide what is collected."""
    o.attach()
    names = ["new.md", "run.log", "agent.log", "target/debug/o", "x.ign", "wiki/build/p.md", "a.md~", "d/e.pyc"]
    for name in names:
        o.tree.write(name, "x\n")
    o.look()
    patch = collect_unit(o.job, o.job.unit("u1"))
    assert [c["path"] for c in activities(o)[-1]["changes"]] == ["new.md", "run.log", "wiki/build/p.md"]
    assert sorted(path["path"] for path in patch["paths"]) == sorted(set(names) - {"x.ign"})


def test_rules_that_are_edited_while_it_lasts_change_nothing_for_the_observer(o: Observed) -> None:
    """The observer goes by its snapshot; what is collected is what `git add` takes, by the rules as they are then."""
    o.attach()
    o.tree.write(".gitignore", "hidden.md\n")
    o.tree.write("hidden.md", "work\n")
    o.tree.write("x.ign", "no work\n")
    o.look()
    patch = collect_unit(o.job, o.job.unit("u1"))
    assert [c["path"] for c in activities(o)[-1]["changes"]] == [".gitignore", "hidden.md"]
    assert sorted(path["path"] for path in patch["paths"]) == [".gitignore", "x.ign"]


# -- 4: events and reconciliation ------------------------------------------------------------------


@pytest.mark.parametrize("lost", [False, True])
def test_a_rename_and_an_atomic_replacement_converge(o: Observed, lost: bool) -> None:
    o.attach()
    o.look()
    (o.tree.path / "b.md").rename(o.tree.path / "c.md")
    o.tree.write(".a.md.new", "replaced\n").rename(o.tree.path / "a.md")
    assert o.reconciler is not None
    if not lost:
        o.reconciler.reconcile("event", Level.HINT, Hints(shallow=frozenset({b""})))
    o.look(Level.CONTENT)
    assert [(c["path"], c["operation"]) for c in activities(o)[-1]["changes"]] == [
        ("a.md", "atomic-replacement"), ("b.md", "delete"), ("c.md", "create"),
    ]  # fmt: skip
    assert len(activities(o)) == 1


def test_a_restart_converges_to_one_sequence(o: Observed) -> None:
    o.attach()
    o.clock.advance(100)
    o.tree.write("a.md", "while nobody watched\n")
    os.utime(o.tree.path / "a.md", (1, 1))
    o.restart()
    o.look(Level.CONTENT, "startup")
    o.restart()
    o.look(Level.CONTENT, "startup")
    assert o.events() == ["baseline", "attach", "activity", "attach"]
    assert o.attempt.state.observed_at == o.attempt.state.baseline_at + 100_000_000_000  # when it was seen


def test_every_so_many_periodic_looks_read_everything(repo: Repo) -> None:
    o = Observed.open(repo, settings=Settings(content_every=3))
    levels = []
    for _ in range(7):
        seen = o.look()
        assert seen.scan is not None
        levels.append(seen.scan.level.value)
    assert levels == ["stat", "stat", "content", "stat", "stat", "content", "stat"]


def test_a_hint_without_the_manifest_it_needs_looks_everywhere(o: Observed) -> None:
    o.attach()
    (o.directory / "manifest.bin").unlink()
    o.tree.write("b.md", "elsewhere\n")
    assert o.reconciler is not None
    seen = o.reconciler.reconcile("event", Level.HINT, Hints(shallow=frozenset({b"dir"})))
    assert seen.scan is not None
    assert seen.scan.level is Level.STAT
    assert activities(o)[-1]["pathsApproximate"] is True
    assert o.look(Level.CONTENT).appended == []


@contextmanager
def looping(o: Observed, *, native: bool = False) -> Iterator[ObserverLoop]:
    loop = ObserverLoop(o.attach(), wanted=native)
    try:
        loop.first()
        yield loop
    finally:
        loop.close()


def test_a_baseline_taken_just_now_is_the_first_look(o: Observed) -> None:
    attached = o.attach()
    assert attached.scan is not None
    o.tree.write("a.md", "since\n")
    assert o.reconciler is not None
    seen = o.reconciler.begin("manual", Level.STAT)
    assert (seen.scan, seen.appended) == (attached.scan, [])
    state = o.attempt.read_state()
    assert state is not None
    assert (state["lastLevel"], state["scans"], state["entries"]) == ("content", 1, 5)
    assert [record["event"] for record in o.look().appended] == ["activity"]  # nothing is lost by it
    o.restart()
    assert o.attach().scan is None


def test_a_baseline_in_which_something_moved_is_no_look(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def appending(fd: int, count: int) -> bytes:
        found = read(fd, count)
        o.tree.write("a.md", f"more {len(found)}\n" * 9)
        return found

    monkeypatch.setattr(os, "read", appending)
    assert o.attach().scan is None


def test_a_watcher_s_first_look_trusts_keys_of_its_own_baseline_only(o: Observed) -> None:
    for wanted in (Level.STAT, Level.CONTENT):
        with looping(o) as loop:
            assert loop.latest is not None
            assert loop.latest.scan is not None
            assert loop.latest.scan.level is wanted
        o.restart()


def test_without_native_watching_it_polls_and_says_so(o: Observed) -> None:
    with looping(o) as loop:
        o.tree.write("a.md", "1\n")
        seen = [loop.step(1.0) for _ in range(16)]
        done = [s for s in seen if s is not None]
        assert [s.appended[0]["source"] for s in done] == ["periodic"]
        observer = o.status()["observer"]
        assert (observer["health"], observer["mode"]) == ("degraded", "poll-only")
        assert observer["reason"] == "native watching was switched off"
        assert "churn" not in observer  # not counted is not zero


def test_the_loop_judges_the_deadline_when_it_comes(o: Observed) -> None:
    with looping(o) as loop:
        for _ in range(299):
            loop.step(1.0)
        assert o.status()["verdict"] == "working"
        for _ in range(3):
            loop.step(1.0)
        assert o.status()["verdict"] == "suspect"
        assert o.events()[-1] == "suspect"
        for _ in range(100):
            loop.step(1.0)
        assert o.events().count("suspect") == 1


def test_a_replaced_root_is_told_once_and_ends_when_it_is_back(o: Observed) -> None:
    with looping(o) as loop:
        path = o.tree.path
        path.rename(path.with_name("away"))
        path.mkdir()
        for _ in range(40):
            loop.step(1.0)
        assert o.events()[-1:] == ["hold"]
        assert o.events().count("hold") == 1
        path.rmdir()
        path.with_name("away").rename(path)
        for _ in range(16):
            loop.step(1.0)
        assert o.records[-1]["holds"] == []


# -- 5: clock authority ----------------------------------------------------------------------------


def test_the_two_clocks_move_by_themselves(o: Observed) -> None:
    o.attach()
    o.clock.advance(100)
    o.proof("first", what="tests_passed")
    assert o.suspect_in() == 300
    o.clock.advance(250)
    o.tree.write("a.md", "1\n")
    o.look()
    status = o.status()
    assert (status["proven"]["agoMs"], status["activity"]["agoMs"]) == (250_000, 0)
    assert (o.suspect_in(), status["deadlines"]["capConsumedMs"]) == (120, 70_000)
    o.proof("second")
    assert (o.suspect_in(), o.status()["deadlines"]["capConsumedMs"]) == (300, 0)


def test_the_same_receipt_counts_once(o: Observed) -> None:
    o.attach()
    assert o.proof("r") is not None
    o.clock.advance(200)
    assert o.proof("r") is None
    assert (o.suspect_in(), o.status()["proven"]["proofSeq"]) == (100, 1)


@pytest.mark.parametrize("what", ["restart", "clock back", "clock forward", "reboot", "no state", "no manifest"])
def test_nothing_replenishes(o: Observed, what: str) -> None:
    o.attach()
    o.clock.advance(290)
    o.tree.write("a.md", "1\n")
    o.look()
    before = o.status()["deadlines"]
    if what == "clock back":
        o.clock.jump(-100_000)
    if what == "clock forward":
        o.clock.jump(100_000)
    if what == "reboot":
        o.clock.reboot(0)
    if what == "no state":
        (o.directory / "state.json").unlink()
    if what == "no manifest":
        (o.directory / "manifest.bin").unlink()
    o.restart()
    o.look(Level.CONTENT, "startup")
    o.look(Level.CONTENT, "startup")
    assert o.status()["deadlines"] == before
    assert [r["contentSeq"] for r in activities(o)] == [1]


def test_a_rewrite_loop_becomes_suspect(o: Observed) -> None:
    o.attach()
    for number in range(62):
        o.clock.advance(15)
        o.tree.write("a.md", f"{number}\n")
        o.look(Level.CONTENT)
    assert o.status()["verdict"] == "suspect"
    assert o.status()["deadlines"]["capConsumedMs"] == 600_000
    assert o.status()["activity"]["contentSeq"] == 62  # and stays visible


def test_going_back_and_forth_defers_nothing(o: Observed) -> None:
    o.attach()
    for number in range(20):
        o.clock.advance(15)
        o.tree.write("a.md", "one\n" if number % 2 else "two\n")
        o.look(Level.CONTENT)
    reasons = [record["reason"] for record in activities(o)]
    assert reasons == ["counted", "counted", *["manifest_seen_before"] * 18]
    o.clock.advance(1)
    o.look(Level.CONTENT)
    assert o.status()["verdict"] == "suspect"


# -- 6: long thought -------------------------------------------------------------------------------


def test_a_long_thought_with_receipts_and_one_last_write(o: Observed) -> None:
    o.attach()
    for number in range(30):
        o.clock.advance(60)
        o.proof(f"token-{number}", what="thinking")
        o.look()
        assert o.status()["verdict"] == "working"
    o.repo.write("main.md", "nobody looks here\n")
    o.tree.write("result.md", "at last\n")
    o.look()
    status = o.status()
    assert (status["activity"]["contentSeq"], status["proven"]["proofSeq"]) == (1, 30)


# -- 7: the late fence -----------------------------------------------------------------------------


def test_before_the_fence_it_is_sequenced_and_after_it_is_late(o: Observed) -> None:
    unit = o.job.unit("u1")
    observer = observe.UnitObserver.start(o.job, unit, o.lease, native=False)
    o.tree.write("a.md", "before\n")
    done = observer.stop()
    assert (done["authority"], done["activity"]["contentSeq"]) == ("reaped", 1)
    assert observe.sealing_hold(o.place, o.lease) == ""
    o.tree.write("a.md", "after\n")
    assert "quarantined" in observe.sealing_hold(o.place, o.lease)
    late = o.records[-1]
    assert (late["lateKind"], late["counted"]) == ("late-write-after-reap", False)
    status = o.status()
    assert status["activity"]["contentSeq"] == 1
    assert status["next"]["command"] == "worktree-watch --once --preserve --job j1 --unit u1"


def test_late_bytes_are_kept_and_then_the_worktree_may_go(o: Observed) -> None:
    from ktxkit.work.closing import close

    observer = observe.UnitObserver.start(o.job, o.job.unit("u1"), o.lease, native=False)
    observer.stop()
    o.tree.write("late.md", "late\n")
    with pytest.raises(Blocked, match="quarantined"):
        close(o.place, "success", discard=True)
    assert (o.tree.path / "late.md").exists()
    status, ref = observe.preserve(o.place, o.lease)
    assert (status["lateWrites"]["quarantined"], status["lateWrites"]["preservedRef"]) == (False, ref)
    assert o.repo.show(ref, "late.md") == b"late\n"
    o.tree.write("late.md", "later still\n")
    with pytest.raises(Blocked, match="quarantined"):
        close(o.place, "success", discard=True)
    observe.preserve(o.place, o.lease)
    close(o.place, "success", discard=True)
    assert not o.tree.path.exists()


def test_proof_after_the_fence_is_refused(o: Observed) -> None:
    observer = observe.UnitObserver.start(o.job, o.job.unit("u1"), o.lease, native=False)
    observer.stop()
    with pytest.raises(Refused, match="revoked"):
        o.proof("late")


@pytest.mark.parametrize(
    ("facts", "more", "match"),
    [
        ({}, {"nonce": "somebody else's"}, "not the attempt"),
        ({}, {"fence": 7}, "fence 7"),
        ({"state": "closed", "outcome": "crash"}, {}, "no open lease"),
    ],
)
def test_only_the_attempt_itself_proves(o: Observed, facts: Any, more: Any, match: str) -> None:
    o.attach()
    o.change_lease(**facts)
    with pytest.raises(Refused, match=match):
        o.proof("r", **more)
    assert "proof" not in o.events()


def test_from_elsewhere_the_nonce_is_needed(o: Observed) -> None:
    o.attach()
    unit = o.job.unit("u1")
    with pytest.raises(Refused, match="not the attempt"):
        observe.record_proof(o.job, unit, receipt="r")
    assert observe.record_proof(o.job, unit, receipt="r", nonce=o.lease["nonce"]) is not None
    env = {**os.environ, "KTX_LEASE_NONCE": o.lease["nonce"]}
    elsewhere = ActiveJob(World(o.repo.path, env, clock=o.clock), o.job.document)
    assert observe.record_proof(elsewhere, unit, receipt="s") is not None


def test_an_unobserved_attempt_has_no_proof_to_keep(o: Observed) -> None:
    assert o.proof("r") is None
    assert observe.sealing_hold(o.place, o.lease) == ""


def test_a_removed_worktree_ends_the_watch(o: Observed) -> None:
    from ktxkit.work.closing import close

    with looping(o) as loop:
        close(o.place, "empty")
        for _ in range(17):
            loop.step(1.0)
        assert loop.over
    assert "hold" not in o.events()


# -- 8: no completion authority --------------------------------------------------------------------


def test_no_change_of_files_decides_anything(o: Observed) -> None:
    """Everything but the observer's own files stays as it was, whatever is seen."""
    o.attach()
    o.tree.write("result.md", "DONE: all tasks complete\n")
    (o.tree.path / "b.md").unlink()
    (o.tree.path / "a.md").rename(o.tree.path / "z.md")

    def everything() -> dict[str, bytes]:
        root = o.world.store.root
        found = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        keep = {name: data for name, data in found.items() if not name.startswith(("attempts/", "worktrees/"))}
        lease = next(name for name in keep if name.endswith("lease.json"))
        return {name: data for name, data in keep.items() if name != lease and not name.endswith(".lock")}

    facts = {key: value for key, value in o.lease.items() if key != "observer"}
    before = (everything(), o.repo.git("for-each-ref"), o.repo.git("worktree", "list"), facts)
    o.look(Level.CONTENT)
    o.clock.advance(1_000)
    o.look(Level.CONTENT, "before-decision")
    assert o.status()["verdict"] == "suspect"
    facts = {key: value for key, value in o.lease.items() if key != "observer"}
    assert (everything(), o.repo.git("for-each-ref"), o.repo.git("worktree", "list"), facts) == before


# -- the seam --------------------------------------------------------------------------------------


def test_a_unit_is_observed_from_a_thread(repo: Repo) -> None:
    """By native events and on the real clock: what is written is recorded within seconds."""
    o = Observed.open(repo)
    world = World(repo.path, os.environ)
    observer = observe.UnitObserver.start(ActiveJob(world, o.job.document), o.job.unit("u1"), o.lease)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            observer.poll(0.2)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        (o.tree.path / "d/e").mkdir(parents=True)
        o.tree.write("d/e/new.md", "x\n")
        deadline = threading.Event()
        for _ in range(100):
            if o.attempt.state.content_seq:
                break
            deadline.wait(0.1)
    finally:
        stop.set()
        thread.join()
    status = observer.stop()
    assert status["activity"]["contentSeq"] >= 1
    assert status["observer"]["mode"] == "event+reconcile"
    assert {"event"} <= {record["source"] for record in activities(o)}


def test_the_baseline_is_whole_before_start_returns(o: Observed) -> None:
    observer = observe.UnitObserver.start(o.job, o.job.unit("u1"), o.lease, native=False)
    assert (o.lease["observer"]["seq"], o.events()) == (2 - 1, ["baseline"])
    assert (o.directory / "baseline.json").is_file()
    assert observer.poll(0) == "working"
    observer.stop()


def test_other_intervals_are_refused_while_an_attempt_lasts(o: Observed) -> None:
    o.attach()
    o.restart()
    o.settings = Settings(silence_ms=9_000)
    with pytest.raises(Refused, match="intervals"):
        o.attach()
    with pytest.raises(CannotRun, match="must be"):
        Settings(interval_ms=1)


def test_a_new_segment_is_told_by_its_records(o: Observed) -> None:
    o.attach()
    o.tree.write("a.md", "1\n")
    o.look()
    o.chain_file().write_bytes(o.chain_file().read_bytes()[:-400] + b"\n")
    o.restart()
    o.attach()
    first = o.records[0]
    assert (first["segment"], first["baselineTime"], first["previous"]["seq"]) == (2, "unknown", 2)
    assert observe.status(o.place, o.lease)["verdict"] == "unknown"
    assert o.status()["journal"]["lost"] == {"segment": 1, "why": "corrupt", "at": first["at"]}
    assert o.proof("new") is not None  # only new proof starts a window
    assert o.suspect_in() == 300
    attempt.fence(o.attempt, "ended")
    assert o.status()["authority"] == "revoked"


# -- what is lost or damaged on the disk ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["baseline.json", "tracked", "state.json", "manifest.bin", "policy.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "foreign"])
def test_whatever_is_lost_nothing_is_invented(o: Observed, name: str, damage: str) -> None:
    o.attach()
    o.clock.advance(100)
    o.tree.write("a.md", "1\n")
    o.look()
    due = o.suspect_in()
    path = o.directory / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3] if damage == "cut" else b"foreign\n")
    o.restart()
    o.look(Level.CONTENT, "startup")
    state = o.attempt.state
    if name in ("baseline.json", "tracked"):
        assert (state.segment, state.holds[0], state.window.known) == (2, "journal_baseline_lost", False)
        assert o.status()["verdict"] == "unknown"
    else:  # derived, or made again from what the lease's digest proves
        assert (state.segment, state.content_seq, o.suspect_in()) == (1, 1, due)


def test_another_policy_is_no_policy_of_the_attempt(o: Observed) -> None:
    """Its digest is in the lease: a snapshot that was edited counts as lost, and is made again."""
    o.attach()
    path = o.directory / "policy.json"
    edited = json.loads(path.read_bytes())
    edited["policy"]["generated"] = ["**"]
    edited["policyDigest"] = CandidatePathPolicy.of(edited["policy"]).digest
    path.write_text(json.dumps(edited))
    o.restart()
    o.tree.write("a.md", "seen\n")
    o.look()
    assert (len(activities(o)), json.loads(path.read_bytes())["policy"]["generated"]) == (1, [])
    with open(o.repo.path / ".git/info/exclude", "a") as stream:
        stream.write("*.md\n")
    path.unlink()
    o.restart()
    with pytest.raises(BrokenContract, match="policy of the lease is lost"):
        o.look()


def test_many_observers_at_once_write_one_chain(repo: Repo) -> None:
    o = Observed.open(repo, real_time=True)
    o.attach(bump=False)
    others = [Observed(o.repo, o.clock, o.world, o.unit) for _ in range(3)]
    for other in others:
        other.attach(bump=False)
    for number in range(5):
        o.tree.write("a.md", f"{number}\n")
        threads = [threading.Thread(target=other.look) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [record["contentSeq"] for record in activities(o)] == [1, 2, 3, 4, 5]
    assert o.attempt.chain.problem == ""
