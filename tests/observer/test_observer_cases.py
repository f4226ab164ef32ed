"""The hard situations of an observer, each with its verdict. The numbers are those of the collection of cases."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ktxkit.base import kinds, owners, removal
from ktxkit.base.errors import Blocked, BrokenContract, KtxError
from ktxkit.observer import attach
from ktxkit.observer.rules.projection import linked
from ktxkit.observer.scan import Level
from ktxkit.store.world import World
from tests.support import data
from tests.support.observed import Observed
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, JournalPosition, Lease

Case = Callable[[Observed, pytest.MonkeyPatch], None]
CASES: dict[str, Case] = {}
ROOT = Path(__file__).resolve().parents[2]


def case(number: str) -> Callable[[Case], Case]:
    def register(function: Case) -> Case:
        CASES[number] = function
        return function

    return register


@pytest.fixture
def watched(repo: Repo) -> Observed:
    repo.write("a.md", "a\n")
    repo.write("b.md", "b\n")
    repo.write("run.log", "tracked\n")
    repo.write("dir/c.md", "c\n")
    repo.write(".gitignore", "*.ign\n")
    repo.commit()
    return Observed.open(repo)


def test_every_case_has_its_test() -> None:
    assert {item["id"] for item in data.cases("observer")} <= CASES.keys()


# -- helpers ---------------------------------------------------------------------------------------


def advances(o: Observed) -> int:
    return int(o.attempt.state.content_seq)


def last(o: Observed) -> ActivityRecord:
    return o.records[-1]


def operations(record: ActivityRecord) -> list[tuple[str, str]]:
    return [(change["path"], change["operation"]) for change in record.get("changes", [])]


def holds(o: Observed) -> list[tuple[str, str]]:
    state = o.attempt.read_state()
    assert state is not None
    return [(hold["path"], hold["reason"]) for hold in state["holds"]["paths"]]


def nothing_new(o: Observed, level: Level = Level.CONTENT) -> None:
    before = o.chain_file().read_bytes()
    o.look(level)
    assert o.chain_file().read_bytes() == before


# -- content and metadata --------------------------------------------------------------------------


@case("O01")
def same_size_inside_the_tick(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.tree.write("a.md", "1\n")
    o.attach()
    o.tree.write("a.md", "2\n")
    o.look()
    assert (advances(o), operations(last(o))) == (1, [("a.md", "content-change")])
    nothing_new(o)


@case("O03")
def store_into_a_dirty_page(o: Observed, _m: pytest.MonkeyPatch) -> None:
    path = o.tree.write("m.md", "0" * 4096)
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[0:1] = b"0"
        o.attach()
        mapped[0:1] = b"1"
        o.look(Level.CONTENT)
        assert (advances(o), operations(last(o))) == (1, [("m.md", "content-change")])
        nothing_new(o)


@case("O06")
def mode_bits(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.tree.git("config", "core.fileMode", "false")
    o.attach()
    (o.tree.path / "a.md").chmod(0o600)
    nothing_new(o)
    (o.tree.path / "a.md").chmod(0o755)
    o.look()
    assert operations(last(o)) == [("a.md", "mode-change")]


@case("O08")
def there_and_back(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write("a.md", "other\n"), o.tree.write("a.md", "a\n")
    nothing_new(o)
    first = o.attempt.state.manifest
    o.tree.write("a.md", "other\n")
    o.look()
    o.tree.write("a.md", "a\n")
    o.look()
    assert (advances(o), o.attempt.state.manifest) == (2, first)
    assert (last(o)["counted"], last(o)["reason"]) == (False, "manifest_seen_before")


@case("O09")
def two_names_inside(o: Observed, _m: pytest.MonkeyPatch) -> None:
    os.link(o.tree.path / "a.md", o.tree.path / "a2.md")
    o.attach()
    with open(o.tree.path / "a.md", "a") as stream:
        stream.write("more\n")
    o.look()
    assert operations(last(o)) == [("a.md", "content-change"), ("a2.md", "content-change")]
    assert advances(o) == 1
    assert [change["flags"] for change in last(o)["changes"]] == [["hard_linked"]] * 2


@case("O10")
def a_name_outside(o: Observed, _m: pytest.MonkeyPatch) -> None:
    outside = o.repo.path.parent / "outside"
    os.link(o.tree.path / "a.md", outside)
    o.attach()
    with open(outside, "a") as stream:
        stream.write("more\n")
    o.look()
    assert operations(last(o)) == [("a.md", "content-change")]
    assert "external_alias_possible" in last(o)["changes"][0]["flags"]


@contextmanager
def appending(path: Path) -> Iterator[None]:
    """Something is written to the file in every read of any file."""
    real = os.read

    def read(fd: int, count: int) -> bytes:
        found = real(fd, count)
        with open(path, "a") as stream:
            stream.write("x")
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "read", read)
        yield


@case("O13")
def an_endless_appender(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    path = o.tree.write("endless.md", "x")
    o.clock.advance(290)
    with appending(path):
        o.look()
        o.clock.advance(5)
        o.tree.write("b.md", "judged\n")
        o.look()
    state = o.attempt.read_state()
    assert state is not None
    assert [item["path"] for item in state["unstable"]["paths"]] == ["endless.md"]
    assert state["unstable"]["scans"] == 2
    assert (advances(o), operations(last(o)), last(o)["partial"]) == (1, [("b.md", "content-change")], True)
    assert o.status()["observer"]["unstable"]["count"] == 1


@case("O16")
def an_empty_file(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write("empty.md", "")
    o.look()
    assert (operations(last(o)), last(o)["byteDelta"]) == ([("empty.md", "create")], 0)


# -- kinds -----------------------------------------------------------------------------------------


@case("O17")
def special_entries(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    os.mkfifo(o.tree.path / "fifo")
    (o.tree.path / "a.md").unlink()
    os.mkfifo(o.tree.path / "a.md")
    here = Path.cwd()
    os.chdir(o.tree.path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    os.chdir(here)
    o.look(Level.CONTENT)
    assert sorted(holds(o)) == [(name, "special_entry") for name in ("a.md", "fifo", "sock")]
    assert operations(last(o)) == [("a.md", "delete")]


@case("O19")
def a_link_is_retargeted(o: Observed, _m: pytest.MonkeyPatch) -> None:
    (o.tree.path / "l").symlink_to("a.md")
    o.attach()
    (o.tree.path / "l").unlink()
    (o.tree.path / "l").symlink_to("b.md")
    o.tree.write("b.md", "changed\n")
    o.look()
    assert operations(last(o)) == [("b.md", "content-change"), ("l", "symlink-target-change")]


@case("O20")
def loops_and_dangling_links(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    (o.tree.path / "loop").symlink_to("loop")
    (o.tree.path / "dangling").symlink_to("nowhere")
    o.look()
    assert operations(last(o)) == [("dangling", "create"), ("loop", "create")]
    assert holds(o) == []


@case("O22")
def a_directory_becomes_a_link_while_we_walk(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    o.attach()
    real, place = os.open, o.tree.path / "dir"

    def swapping(path: Any, flags: int, *args: int, dir_fd: int | None = None) -> int:
        if path == b"dir" and not place.is_symlink():
            place.rename(place.with_name("moved"))
            place.symlink_to("/etc")
        return real(path, flags, *args, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    o.look()
    monkeypatch.undo()
    assert advances(o) == 0
    assert o.status()["observer"]["unstable"]["paths"] == [{"path": "dir"}]
    o.look()
    assert ("dir/c.md", "delete") in operations(last(o))


@case("O23")
def a_file_becomes_a_directory_and_back(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    (o.tree.path / "a.md").unlink()
    o.tree.write("a.md/x", "x")
    o.look()
    assert operations(last(o)) == [("a.md", "delete"), ("a.md/x", "create")]
    shutil.rmtree(o.tree.path / "a.md")
    o.tree.write("a.md", "a\n")
    o.look()
    assert operations(last(o)) == [("a.md", "create"), ("a.md/x", "delete")]


@case("O24")
def something_is_mounted_inside(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write("dir/c.md", "below the mount\n")
    mount = removal.Mount(bytes(o.tree.path / "dir"), "ext4")
    monkeypatch.setattr(removal, "mounts", lambda: [removal.Mount(b"/", "ext4"), mount])
    nothing_new(o)
    assert holds(o) == [("dir", "foreign_device")]


def with_submodule(repo: Repo) -> tuple[Repo, Repo]:
    source = Repo.init(repo.path.parent / "source")
    source.write("s", "1\n")
    source.commit()
    repo.git("submodule", "--quiet", "add", str(source.path), "sub")
    repo.commit("a submodule")
    return source, Repo(repo.path / "sub")


@case("O26")
def a_submodule_moves(o: Observed, _m: pytest.MonkeyPatch) -> None:
    with_submodule(o.repo)
    other = Observed.open(o.repo, "u2")
    other.tree.git("checkout", "-q", "main", "--detach")
    other.change_lease(base=other.tree.head)
    other.tree.git("submodule", "--quiet", "update", "--init")
    inside = Repo(other.tree.path / "sub")
    other.attach()
    inside.write("s", "dirty\n")
    nothing_new(other)
    inside.commit("moved")
    other.look()
    assert operations(last(other)) == [("sub", "gitlink-change")]


# -- names and classification ----------------------------------------------------------------------


@case("O28")
def names_are_bytes(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    for name in (b"bad\xff", b"esc\x1b[31m", b"new\nline"):
        (o.tree.path / os.fsdecode(name)).write_text("x")
    o.look()
    shown = last(o)["changes"]
    assert [change.get("pathB64") for change in shown] == ["YmFk/w==", None, None]
    text = o.status()
    from ktxkit.observer.rules.status import lines

    assert not any(ord(char) < 32 for line in lines(text) for char in line)


@case("O29")
def names_that_collide(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.tree.write("A.md", "upper\n")
    o.attach()
    o.look()
    assert holds(o) == [("A.md", "case_collision"), ("a.md", "case_collision")]


@case("O30")
def ignore_rules_change_while_it_lasts(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write(".gitignore", "*.ign\nhidden.md\n")
    o.tree.write("hidden.md", "work\n")
    o.look()
    assert operations(last(o)) == [(".gitignore", "content-change"), ("hidden.md", "create")]


@case("O31")
def rules_outside_of_the_tree_change(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    with open(o.repo.path / ".git/info/exclude", "a") as stream:
        stream.write("*.md\n")
    ignore = o.repo.path.parent / "global-ignore"
    ignore.write_text("*\n")
    o.repo.git("config", "core.excludesFile", str(ignore))
    o.tree.write("new.md", "work\n")
    o.look()
    assert operations(last(o)) == [("new.md", "create")]
    assert o.status()["observer"]["drift"] == ["info_exclude_changed"]


@case("O34")
def the_index_churns(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.tree.write("new.md", "work\n")
    o.attach()
    o.tree.git("add", "-A")
    o.tree.git("rm", "-q", "--cached", "b.md")
    o.tree.git("update-index", "--assume-unchanged", "a.md")
    nothing_new(o)
    o.tree.write("a.md", "hidden from git status\n")
    o.tree.write("b.md", "changed\n")
    o.look()
    assert [(change["path"], change["class"]) for change in last(o)["changes"]] == [
        ("a.md", "tracked"),
        ("b.md", "tracked"),
    ]


@case("O35")
def dependencies_churn(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    place = o.tree.path / "node_modules/m"
    place.mkdir(parents=True)
    for number in range(2_000):
        (place / str(number)).write_text(str(number))
    seen = o.look()
    assert seen.scan is not None
    assert dict(seen.scan.excluded) == {"volatile_dependency": 1}  # the tree as one: nobody walks it
    nothing_new(o)


@case("O36")
def a_name_like_our_journal_s(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write("worktree-observer/activity.jsonl", "{}\n")
    o.look()
    assert operations(last(o)) == [("worktree-observer/activity.jsonl", "create")]


# -- root, lease, epochs ---------------------------------------------------------------------------


@case("O37")
def another_directory_of_that_name(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    o.attach()
    path = o.tree.path
    path.rename(path.with_name("away"))
    path.mkdir()
    (path / "a.md").write_text("foreign\n")
    o.look()
    assert (last(o)["event"], last(o)["holds"], advances(o)) == ("hold", ["root_replaced"], 0)
    # the same device and inode again: the birth time tells
    shutil.rmtree(path)
    path.with_name("away").rename(path)
    o.change_lease(birthTimeNs=o.lease["birthTimeNs"] - 1)
    o.restart()
    with pytest.raises(Blocked):
        fresh = Observed(o.repo, o.clock, o.world, o.unit)
        fresh.change_lease(attempt=2)
        fresh.attach()
    assert attach.wrong(o.lease) == "root_replaced"


@case("O38")
def the_root_is_a_link(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    path = o.tree.path
    path.rename(path.with_name("away"))
    path.symlink_to(path.with_name("away"))
    (path.with_name("away") / "a.md").write_text("through the link\n")
    o.look()
    assert (last(o)["holds"], advances(o)) == (["root_is_a_link"], 0)


@case("O39")
def the_git_file_points_elsewhere(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    other = Repo.init(o.repo.path.parent / "other")
    (o.tree.path / ".git").write_text(f"gitdir: {other.path}/.git\n")
    o.tree.write("a.md", "changed\n")
    o.clock.advance(290)
    o.look()
    assert [record["event"] for record in o.records[-2:]] == ["hold", "activity"]
    assert o.records[-2]["holds"] == ["control_mismatch"]
    assert (last(o)["counted"], last(o)["reason"]) == (False, "held")
    assert o.suspect_in() == 10


@case("O40")
def other_trees_are_inert(o: Observed, _m: pytest.MonkeyPatch) -> None:
    other = Observed.open(o.repo, "u2")
    o.attach()
    o.repo.write("a.md", "main is written\n")
    other.tree.write("a.md", "another worktree is written\n")
    nothing_new(o)


@case("O41")
def the_lease_moves_on(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.change_lease(leaseEpoch=2, attempt=2, leaseId="other", nonce="other")
    o.tree.write("a.md", "whose?\n")
    assert o.reconciler is not None
    seen = o.look()
    assert seen.validity.value == "lease_superseded"
    written = o.reconciler.attempt.chain.records
    assert [record["event"] for record in written[1:]] == ["stale"]
    assert written[-1]["reason"] == "lease_superseded"


@case("O42")
def two_observers(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach(bump=False)
    second = Observed(o.repo, o.clock, o.world, o.unit)
    second.attach(bump=False)
    o.tree.write("a.md", "changed\n")
    o.look()
    second.look()
    assert o.events() == ["baseline", "activity"]
    o.world = second.world = World(o.repo.path, os.environ)  # in real time: they wait for each other
    o.attach(bump=False)
    second.attach(bump=False)
    o.tree.write("a.md", "changed again\n")
    threads = [threading.Thread(target=x.look) for x in (o, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert o.events() == ["baseline", "activity", "activity"]


@case("O43")
def a_restart_with_the_same_state(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.clock.advance(200)
    o.tree.write("a.md", "changed\n")
    o.look()
    before = (o.chain_file().read_bytes(), o.status()["deadlines"])
    o.restart()
    o.attach(bump=False)
    o.look(Level.CONTENT, "startup")
    assert (o.chain_file().read_bytes(), o.status()["deadlines"]) == before


@case("O44")
def dirt_from_before(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.tree.write("a.md", "somebody's earlier work\n")
    o.tree.write("left.md", "left over\n")
    o.attach()
    nothing_new(o)
    assert advances(o) == 0


@case("O45")
def a_pid_is_reused(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.look()
    state = o.attempt.read_state()
    assert state is not None
    me: Any = owners.this_owner().document()
    o.attempt.write_state({**state, "mode": "event+reconcile", "owner": me})
    assert o.status()["observer"]["health"] == "healthy"
    me["startTime"] -= 1
    o.attempt.write_state({**state, "mode": "event+reconcile", "owner": me})
    assert o.status()["observer"]["health"] == "unwatched"


# -- events ----------------------------------------------------------------------------------------


@case("O51")
def events_without_a_change(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    path = o.tree.write("short.md", "here and gone\n")
    path.unlink()
    for source in ("event", "event", "overflow"):
        before = len(o.records)
        o.look(source=source)
        assert len(o.records) == before


@case("O53")
def a_remote_file_system(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktxkit.observer.observe import ObserverLoop

    monkeypatch.setattr(removal, "mounts", lambda: [removal.Mount(b"/", "nfs4")])
    loop = ObserverLoop(o.attach())
    try:
        loop.first()
        assert (loop.watcher, loop.describe()["mode"]) == (None, "poll-only")
        assert "nfs4" in loop.describe()["modeReason"]
        o.clock.advance(15)
        seen = loop.step(1)
        assert seen is not None and seen.scan is not None
        assert seen.scan.level is Level.CONTENT
    finally:
        loop.close()


@case("O54")
def an_old_observer_calls_back(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    old = o.reconciler
    assert old is not None
    o.attach()  # a new one has taken over
    o.tree.write("a.md", "changed\n")
    seen = old.reconcile("event", Level.STAT)
    assert (seen.validity.value, last(o)["event"], advances(o)) == ("stale_observer_epoch", "stale", 0)
    o.look()
    assert (last(o)["event"], advances(o)) == ("activity", 1)


# -- journal and disk ------------------------------------------------------------------------------


def grown(o: Observed, count: int = 3) -> None:
    """A chain of a baseline and some activities."""
    o.attach()
    for number in range(count):
        o.tree.write("a.md", f"{number}\n")
        o.look()


def replaced(o: Observed, problem: str) -> None:
    """The chain's problem is told, nothing follows it, and a new segment claims nothing of the time before."""
    before = o.chain_file().read_bytes() if o.chain_file().exists() else None
    assert o.attempt.chain.problem == problem
    assert o.status()["verdict"] == "unknown"
    assert o.reconciler is not None
    with pytest.raises(BrokenContract, match=problem):
        o.look()
    o.restart()
    o.attach()
    state = o.attempt.state
    assert (state.segment, state.content_seq, state.window.known) == (2, 0, False)
    assert state.holds == (f"journal_{problem}", "baseline_time_unknown")
    assert (o.chain_file().read_bytes() if o.chain_file().exists() else None) == before
    assert o.status()["verdict"] == "unknown"
    assert "suspectAt" not in o.status()["deadlines"]
    o.tree.write("a.md", "after\n")
    o.look()
    assert (last(o)["event"], last(o)["counted"]) == ("activity", False)


@case("O55")
def the_journal_is_gone(o: Observed, _m: pytest.MonkeyPatch) -> None:
    grown(o)
    o.chain_file().unlink()
    replaced(o, "missing")


@case("O57")
def a_bad_record_before_a_good_one(o: Observed, _m: pytest.MonkeyPatch) -> None:
    grown(o)
    lines = o.chain_file().read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"counted":true', b'"counted":false')
    o.chain_file().write_bytes(b"".join(lines))
    o.restart()
    assert o.attempt.chain.problem == "corrupt"
    o.attach()
    assert o.attempt.state.holds == ("journal_corrupt", "baseline_time_unknown")


@case("O58")
def the_last_records_are_cut_off(o: Observed, _m: pytest.MonkeyPatch) -> None:
    grown(o)
    lines = o.chain_file().read_bytes().splitlines(keepends=True)
    o.chain_file().write_bytes(b"".join(lines[:-2]))
    replaced(o, "rollback")


@case("O59")
def the_whole_chain_is_rewritten(o: Observed, _m: pytest.MonkeyPatch) -> None:
    grown(o)
    prev, lines = "", []
    for number, record in enumerate(o.records, start=1):
        body = {k: v for k, v in record.items() if k not in ("hash", "prev", "seq", "segment", "schemaVersion", "kind")}
        made = linked({**body, "source": "manual"}, number, prev, 1)
        prev = made["hash"]
        lines.append(json.dumps(made, separators=(",", ":")).encode() + b"\n")
    o.chain_file().write_bytes(b"".join(lines))
    replaced(o, "fork")


@case("O62")
def a_flush_fails(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(o, 1)
    o.tree.write("a.md", "not on the disk\n")
    real, journal = os.fsync, o.chain_file().stat().st_ino

    def failing(fd: int) -> None:
        if os.fstat(fd).st_ino == journal:
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(Blocked, match="could not be flushed"):
        o.look()
    monkeypatch.undo()
    with pytest.raises(BrokenContract, match="flush_failed"):
        o.look()  # the next flush would succeed: it is not asked
    o.restart()
    o.attach()
    assert (o.attempt.state.segment, o.attempt.state.holds[0]) == (2, "journal_flush_failed")


@case("O63")
def the_store_cannot_be_written(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(o, 1)
    o.clock.advance(250)
    due = o.suspect_in()
    o.tree.write("a.md", "changed\n")
    real = os.open

    def read_only(path: Any, flags: int, *args: Any, **more: Any) -> int:
        above = Path(f"/proc/self/fd/{more['dir_fd']}").readlink() if more.get("dir_fd") is not None else ""
        if flags & (os.O_WRONLY | os.O_RDWR) and "worktree-observer" in f"{above}/{os.fspath(path)}":
            raise OSError(30, "Read-only file system", os.fspath(path))
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises((OSError, KtxError)):
        o.look()
    monkeypatch.undo()
    assert (advances(o), o.suspect_in()) == (1, due)  # nothing was deferred by what could not be written


@case("O64")
def an_unreadable_file(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    o.attach()
    o.tree.write("b.md", "changed and closed\n")
    real = os.open

    def closed(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if path == b"b.md":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", closed)
    nothing_new(o)
    monkeypatch.undo()
    assert holds(o) == [("b.md", "unreadable")]


@case("O65")
def a_file_goes_while_we_look(o: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    o.attach()
    path = o.tree.write("b.md", "changed\n")
    real = os.open

    def going(name: Any, flags: int, *args: Any, **more: Any) -> int:
        if name == b"b.md":
            path.unlink(missing_ok=True)
        if name == b"dir":
            shutil.rmtree(path.with_name("dir"), ignore_errors=True)
        return real(name, flags, *args, **more)

    monkeypatch.setattr(os, "open", going)
    o.look()
    monkeypatch.undo()
    assert operations(last(o)) == [("b.md", "delete")]
    assert o.status()["observer"]["unstable"]["paths"] == [{"path": "dir"}]


# -- time ------------------------------------------------------------------------------------------


@case("O69")
def the_wall_clock_is_set(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    for jump in (3600, -7200, 1):
        o.clock.jump(jump)
        o.look()
        assert o.suspect_in() == 300


@case("O70")
def the_machine_sleeps(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.clock.advance(7200)  # the boot clock counts what it slept
    o.look(Level.CONTENT, "before-decision")
    assert (last(o)["event"], o.status()["verdict"]) == ("suspect", "suspect")


@case("O71")
def early_activity_changes_nothing(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    for at in (60, 120, 180):
        o.clock.advance(60)
        o.tree.write("a.md", f"{at}\n")
        o.look()
        assert (last(o)["counted"], o.suspect_in()) == (True, 300 - at)


@case("O72")
def the_look_that_a_decision_demands(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.clock.advance(301)
    o.tree.write("a.md", "written at 299\n")
    o.look(Level.CONTENT, "before-decision")
    assert (last(o)["event"], last(o)["counted"], o.suspect_in()) == ("activity", True, 120)
    other = Observed.open(o.repo, "u2")
    other.attach()
    other.clock.advance(505)
    other.tree.write("a.md", "seen too late\n")
    other.look(Level.CONTENT, "before-decision")
    activity, suspect = other.records[-2:]
    assert (activity["reason"], suspect["event"]) == ("observed_after_deadline", "suspect")
    assert other.status()["verdict"] == "suspect"


@case("O73")
def a_distinct_write_for_ever(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    for at in range(30, 1_000, 30):
        o.clock.advance(30)
        o.tree.write("a.md", f"{at}\n")
        o.look(Level.CONTENT)
        assert (o.status()["verdict"] == "suspect") is (at >= 900)


# -- late writes -----------------------------------------------------------------------------------


@case("O75")
def written_before_the_fence_and_seen_after(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.clock.advance(20)
    o.tree.write("a.md", "when?\n")
    o.change_lease(fence=2)
    o.look()
    fence, late = o.records[-2:]
    assert (fence["event"], late["event"], late["lateKind"]) == ("fence", "late", "late-worktree-mutation-observed")
    assert (late["timelineNs"] - late["notBeforeNs"]) == 20_000_000_000  # somewhere since the look before
    assert (advances(o), o.status()["lateWrites"]["quarantined"]) == (0, True)


@case("O76")
def written_while_it_is_ended(o: Observed, _m: pytest.MonkeyPatch) -> None:
    from ktxkit.observer import attempt

    o.attach()
    assert o.reconciler is not None
    attempt.fence(o.reconciler.attempt, "command_ended")
    o.tree.write("a.md", "while TERM is on its way\n")
    o.look()
    assert last(o)["lateKind"] == "late-worktree-mutation-observed"
    attempt.record_reaped(o.reconciler.attempt)
    o.tree.write("a.md", "by whom?\n")
    o.look()
    assert last(o)["lateKind"] == "late-write-after-reap"
    assert (advances(o), o.attempt.state.late_after_reap) == (0, True)


@case("O79")
def a_new_attempt_in_the_same_directory(o: Observed, _m: pytest.MonkeyPatch) -> None:
    o.attach()
    o.change_lease(fence=2)
    o.tree.write("a.md", "late\n")
    o.look()
    old = o.attempt
    before: JournalPosition = {"attempt": old.name, "segment": 1, "seq": len(old.chain.records), "head": old.chain.head}
    later: Lease = {**o.lease, "attempt": 2, "nonce": "new", "leaseId": "new", "observedBefore": before}
    later.pop("observer", None)
    o.place.write(kinds.LEASE, later)
    o.restart()
    o.attach()
    assert (o.events(), o.records[0]["previous"]) == (["baseline"], before)
    assert o.records[0]["after"] == old.state.manifest
    nothing_new(o)


@case("O80")
def the_unit_writes_to_our_journal(o: Observed, _m: pytest.MonkeyPatch) -> None:
    grown(o)
    assert o.tree.path not in o.chain_file().parents
    with open(o.chain_file(), "ab") as stream:
        stream.write(b'{"event":"proof"}\n' + o.chain_file().read_bytes().splitlines(keepends=True)[0])
    o.restart()
    assert o.attempt.chain.problem == "corrupt"
    assert o.status()["next"]["command"].startswith("worktree-watch --once")


@pytest.mark.parametrize("number", sorted(CASES))
def test_case(number: str, watched: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[number](watched, monkeypatch)
