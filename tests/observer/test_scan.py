"""The walk: every kind of entry, every level; and whatever saves work gives what reading everything gives."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktxkit.base import reading, removal
from ktxkit.observer import manifest_file
from ktxkit.observer.manifest_file import WINDOW, ByteSpan, Stored
from ktxkit.observer.rules.projection import Tracked
from ktxkit.observer.scan import DEEPEST, Hints, Level, Scan, ScanSubject, escapes, scan
from ktxkit.store.rules.paths_policy import CandidatePathPolicy, rules_of

FULL = os.environ.get("KTX_TEST_FULL") == "1"
POLICY = CandidatePathPolicy(ignore=rules_of([(b".gitignore", b"*.ign\nigndir/\n")]))
TRACKED = Tracked.of([b"tracked.log", b"target/kept", b"a"])


class Tree:
    """A directory and the scans of it; each scan goes on from the one before."""

    def __init__(self, root: Path, policy: CandidatePathPolicy = POLICY) -> None:
        self.root, self.policy = root, policy
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self.limit, self.window = 1 << 30, WINDOW
        self.mounts: frozenset[bytes] = frozenset()
        self.stored = Stored.empty(policy.digest)

    @property
    def subject(self) -> ScanSubject:
        return ScanSubject(self.fd, self.policy, TRACKED, mounts=self.mounts, limit=self.limit, window=self.window)

    def scan(self, level: Level = Level.STAT, hints: Hints | None = None) -> Scan:
        found = scan(self.subject, self.stored, level, hints=hints)
        self.stored = found.stored
        return found

    def cold(self) -> Scan:
        """Everything read, nothing remembered."""
        return scan(self.subject, Stored.empty(self.policy.digest), Level.CONTENT)

    def write(self, name: str, content: str = "x") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    @property
    def paths(self) -> list[bytes]:
        return [entry.path for entry in self.stored.entries()]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(tmp_path)
    yield made
    os.close(made.fd)


def operations(found: Scan) -> list[tuple[bytes, str]]:
    return [(change.path, operation) for change in found.changes for operation in change.operations]


def holds(found: Scan) -> list[tuple[bytes, str]]:
    return [(hold.path, hold.reason) for hold in found.holds]


def test_only_candidates_are_in_the_manifest_and_in_path_order(tree: Tree) -> None:
    for name in ["b", "a-b", "a/x", "a.b", "new.log", "tracked.log", "x.ign", "igndir/y", "target/o", "target/kept"]:
        tree.write(name)
    tree.write("node_modules/m/i.js")
    found = tree.scan()
    assert tree.paths == [b"a-b", b"a.b", b"a/x", b"b", b"target/kept", b"tracked.log"]
    assert dict(found.excluded) == {
        "volatile_log": 1, "git_ignored": 2, "volatile_build": 1, "volatile_dependency": 1,
    }  # fmt: skip


Acts = list[Callable[[Path], object]]
TOUCHES: dict[str, Acts] = {
    "touch": [lambda path: path.touch()],
    "chmod without a git mode": [lambda path: path.chmod(0o600)],
    "the same bytes again": [lambda path: path.write_text("content")],
    "another file with the same bytes": [
        lambda path: path.with_name("t").write_text("content"),
        lambda path: path.with_name("t").rename(path),
    ],
    "away and back": [lambda path: path.unlink(), lambda path: path.write_text("content")],
}


@pytest.mark.parametrize("level", [Level.STAT, Level.CONTENT])
@pytest.mark.parametrize("name", TOUCHES)
def test_no_change_of_content_is_no_change(tree: Tree, name: str, level: Level) -> None:
    path = tree.write("f", "content")
    before = tree.scan().stored.digest
    for act in TOUCHES[name]:
        act(path)
    found = tree.scan(level)
    assert (found.changes, found.stored.digest) == ([], before)


CHANGES: dict[str, tuple[Acts, list[tuple[bytes, str]]]] = {
    "create": ([lambda r: (r / "n").write_text("")], [(b"n", "create")]),
    "delete": ([lambda r: (r / "f").unlink()], [(b"f", "delete")]),
    "write": ([lambda r: (r / "f").write_text("other")], [(b"f", "content-change")]),
    "same size": ([lambda r: (r / "f").write_text("CONTENT")], [(b"f", "content-change")]),
    "executable": ([lambda r: (r / "f").chmod(0o755)], [(b"f", "mode-change")]),
    "retarget": (
        [lambda r: (r / "l").unlink(), lambda r: (r / "l").symlink_to("elsewhere")],
        [(b"l", "symlink-target-change")],
    ),
    "replace": (
        [lambda r: (r / "t").write_text("new"), lambda r: (r / "t").rename(r / "f")],
        [(b"f", "atomic-replacement")],
    ),
    "rename": ([lambda r: (r / "f").rename(r / "g")], [(b"f", "delete"), (b"g", "create")]),
    "file to link": (
        [lambda r: (r / "f").unlink(), lambda r: (r / "f").symlink_to("x")],
        [(b"f", "delete"), (b"f", "create")],
    ),
    "file to directory": (
        [lambda r: (r / "f").unlink(), lambda r: (r / "f").mkdir(), lambda r: (r / "f/x").write_text("")],
        [(b"f", "delete"), (b"f/x", "create")],
    ),
    "directory away": ([lambda r: shutil.rmtree(r / "d")], [(b"d/1", "delete"), (b"d/2", "delete")]),
    "directory to link": (
        [lambda r: shutil.rmtree(r / "d"), lambda r: (r / "d").symlink_to("/")],
        [(b"d", "create"), (b"d/1", "delete"), (b"d/2", "delete")],
    ),
    "mtime put back": (
        [lambda r: (r / "f").write_text("CONTENT"), lambda r: os.utime(r / "f", (1, 1))],
        [(b"f", "content-change")],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_has_its_name(tree: Tree, name: str) -> None:
    tree.write("f", "content")
    tree.write("d/1"), tree.write("d/2")
    (tree.root / "l").symlink_to("somewhere")
    os.utime(tree.root / "f", (1, 1))
    tree.scan()
    acts, expected = CHANGES[name]
    for act in acts:
        act(tree.root)
    assert operations(tree.scan()) == expected
    assert tree.stored.digest == tree.cold().stored.digest


def test_several_names_of_one_file_change_together_and_are_marked(
    tree: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inside, outside = tree.write("a1", "x"), tmp_path_factory.mktemp("other") / "o"
    os.link(inside, tree.root / "a2")
    tree.scan()
    inside.write_text("changed")
    found = tree.scan()
    assert operations(found) == [(b"a1", "content-change"), (b"a2", "content-change")]
    assert {change.flags for change in found.changes} == {("hard_linked",)}
    os.link(inside, outside)
    tree.scan()
    outside.write_text("from outside")
    assert {change.flags for change in tree.scan().changes} == {("hard_linked", "external_alias_possible")}


def test_a_store_through_a_mapping_is_seen_where_everything_is_read(tree: Tree) -> None:
    path = tree.write("m", "0" * 4096)
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[0:1] = b"0"  # the page is dirty now: the kernel notes no time for later stores into it
        later = path.stat().st_ctime_ns + 10 * 10**9
        tree.stored = scan(tree.subject, tree.stored, Level.CONTENT, started_ns=later).stored
        mapped[0:1] = b"1"
        mount = removal.of(path.resolve(), removal.mounts())
        if mount is not None and mount.kind in ("ext4", "tmpfs", "xfs", "btrfs"):
            assert scan(tree.subject, tree.stored, Level.STAT).changes == []  # no key tells: why content is read
        assert operations(tree.scan(Level.CONTENT)) == [(b"m", "content-change")]


def test_a_rewrite_inside_the_clock_s_tick_is_seen(tree: Tree) -> None:
    """The key stays the same: size, inode, and both times as a coarse file system would have them."""
    path = tree.write("r", "one")
    found = scan(tree.subject, tree.stored, Level.STAT, started_ns=path.stat().st_mtime_ns + 1)
    row = found.stored.row_at(0)
    path.write_text("two")
    forged = reading.key_of(path.stat()) + row[manifest_file.FLAGS_AT :]
    tree.stored = Stored(found.stored.policy_digest, found.stored.digest, found.stored.packed, ByteSpan(forged))
    assert operations(tree.scan()) == [(b"r", "content-change")]


def test_an_old_file_is_not_read_again(tree: Tree) -> None:
    path = tree.write("f")
    later = path.stat().st_ctime_ns + 5 * 10**9
    tree.stored = scan(tree.subject, tree.stored, Level.STAT, started_ns=later).stored
    assert scan(tree.subject, tree.stored, Level.STAT).files_read == 0
    assert scan(tree.subject, tree.stored, Level.CONTENT).files_read == 1


def test_special_files_are_held_and_never_opened(tree: Tree) -> None:
    os.mkfifo(tree.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree.root / "sock"))
        found = tree.scan(Level.CONTENT)
    assert sorted(holds(found)) == [(b"fifo", "special_entry"), (b"sock", "special_entry")]
    assert tree.paths == []


def test_a_file_that_becomes_special_is_deleted_and_held(tree: Tree) -> None:
    path = tree.write("a")
    tree.scan()
    path.unlink()
    os.mkfifo(path)
    found = tree.scan()
    assert (operations(found), holds(found)) == ([(b"a", "delete")], [(b"a", "special_entry")])


def test_links_are_text(tree: Tree) -> None:
    for name, target in {
        "dangling": "nowhere",
        "loop": "loop",
        "out": "../x",
        "abs": "/etc",
        "deep/up": "../dangling",
    }.items():
        (tree.root / name).parent.mkdir(exist_ok=True)
        (tree.root / name).symlink_to(target)
    found = tree.scan()
    assert tree.paths == [b"abs", b"dangling", b"deep/up", b"loop", b"out"]
    assert holds(found) == [(b"abs", "escaping_symlink"), (b"out", "escaping_symlink")]


@pytest.mark.parametrize(
    ("path", "target", "verdict"),
    [(b"a/b/l", b"../../x", False), (b"a/b/l", b"../../../x", True), (b"l", b"x/../..", True), (b"l", b"./x", False)],
)
def test_escaping(path: bytes, target: bytes, verdict: bool) -> None:
    assert escapes(path, target) is verdict


def test_what_cannot_be_read_is_held_and_kept(tree: Tree) -> None:
    path = tree.write("secret", "x")
    tree.write("d/x")
    tree.root.chmod(0o755)
    tree.scan()
    path.chmod(0)
    (tree.root / "d").chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)  # root may read everything: be somebody else
    try:
        found = tree.scan(Level.CONTENT)
    finally:
        if root:
            os.seteuid(0)
        (tree.root / "d").chmod(0o700)
    assert (found.changes, sorted(holds(found))) == ([], [(b"d", "unreadable"), (b"secret", "unreadable")])


def test_names_are_bytes(tree: Tree) -> None:
    names = [b"bad\xff", b"new\nline", b"tab\t", b"esc\x1b[31m", "ä".encode()]
    for name in names:
        (tree.root / os.fsdecode(name)).write_text("x")
    tree.scan()
    assert tree.paths == sorted(names)


def test_names_that_some_systems_take_for_one_are_held_both(tree: Tree) -> None:
    for name in ["Read", "read", "caf\u00e9", "cafe\u0301", "plain"]:
        tree.write(name)
    found = tree.scan()
    assert {reason for _, reason in holds(found)} == {"case_collision"}
    assert len(found.holds) == 4
    assert len(tree.paths) == 5


def test_git_s_administration_is_never_walked(tree: Tree) -> None:
    tree.write(".git/config"), tree.write("sub/.GIT/x"), tree.write(".ktx/x"), tree.write("sub/.ktx/x")
    tree.scan()
    assert tree.paths == [b"sub/.ktx/x"]


def test_a_repository_inside_is_held_and_what_was_there_stays(tree: Tree) -> None:
    tree.write("sub/x")
    tree.scan()
    tree.write("sub/.git/HEAD")
    found = tree.scan()
    assert (found.changes, holds(found)) == ([], [(b"sub", "nested_repository")])


def test_a_repository_inside_does_not_hide_what_is_tracked(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("target/kept"), tree.write("target/.git/HEAD")
    tree.scan()
    tree.write("target/kept", "changed")
    assert operations(tree.scan()) == [(b"target/kept", "content-change")]


def test_what_is_mounted_inside_is_held_and_what_was_there_stays(tree: Tree) -> None:
    tree.write("mnt/x")
    tree.scan()
    tree.write("mnt/x", "changed")
    tree.mounts = frozenset({b"mnt"})
    found = tree.scan()
    assert (found.changes, holds(found)) == ([], [(b"mnt", "foreign_device")])


def test_too_large_and_sparse_files_are_held(tree: Tree) -> None:
    tree.limit = 32 * 1024 * 1024
    for name, size in (("huge", tree.limit + 1), ("holes", tree.limit)):
        with open(tree.root / name, "wb") as stream:
            stream.truncate(size)
    found = tree.scan()
    assert sorted(holds(found)) == [(b"holes", "sparse_file"), (b"huge", "too_large")]
    assert found.bytes_read == 0


def test_too_deep_is_held(tree: Tree) -> None:
    at = tree.fd
    opened = []
    for _ in range(DEEPEST + 3):
        os.mkdir("d", dir_fd=at)
        at = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        opened.append(at)
    found = tree.scan()
    for fd in opened:
        os.close(fd)
    assert [hold.reason for hold in found.holds] == ["too_deep"]


@pytest.mark.parametrize("size", [10, reading.SMALL + 10])
def test_a_file_that_changes_while_it_is_read_is_unstable_and_kept(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tree.write("log.md", "one")
    tree.write("other", "x")
    tree.scan()
    tree.write("other", "changed")
    read, readv = os.read, os.readv

    def more() -> int:
        with open(path, "a") as stream:
            return stream.write("more")

    path.write_text("2" * size)
    monkeypatch.setattr(os, "read", lambda fd, count: (read(fd, count), more())[0])
    monkeypatch.setattr(os, "readv", lambda fd, buffers: (readv(fd, buffers), more())[0])
    found = tree.scan()
    monkeypatch.undo()
    assert found.unstable == [b"log.md"]
    assert found.partial
    assert operations(found) == [(b"other", "content-change")]  # the others are judged all the same
    assert operations(tree.scan()) == [(b"log.md", "content-change")]


def test_a_file_that_is_replaced_while_it_is_read_is_unstable(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is not what the name means any more, though the descriptor's file is as it was."""
    path, other = tree.write("f", "one"), tree.write("t", "two")
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, count: (read(fd, count), other.exists() and other.rename(path))[0])
    found = tree.scan(Level.CONTENT)
    monkeypatch.undo()
    assert (found.unstable, tree.paths) == ([b"f"], [])
    tree.scan()
    assert [(entry.path, entry.blake3) for entry in tree.stored.entries()] == [(b"f", blake3(b"two").digest())]


def test_a_directory_that_becomes_a_link_is_never_followed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("d/x")
    outside = tree.root.parent / f"{tree.root.name}-outside"
    outside.mkdir()
    (outside / "x").write_text("foreign")
    tree.scan()
    real = os.open

    def swapping(path: str | bytes, flags: int, *args: int, dir_fd: int | None = None) -> int:
        if path == b"d" and not (tree.root / "d").is_symlink():
            (tree.root / "d").rename(tree.root / "d2")
            (tree.root / "d").symlink_to(outside)
        return real(path, flags, *args, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    found = tree.scan(Level.CONTENT)
    monkeypatch.undo()
    assert found.unstable == [b"d"]
    assert found.changes == []  # what was below it is deleted after a stable look only
    assert (b"d/x", "delete") in operations(tree.scan())


def test_a_file_that_goes_between_listing_and_opening_is_deleted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tree.write("f", "one")
    tree.scan()
    path.write_text("two")
    real = os.open

    def removing(name: str | bytes, flags: int, *args: int, dir_fd: int | None = None) -> int:
        if name == b"f":
            path.unlink(missing_ok=True)
        return real(name, flags, *args, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", removing)
    assert operations(tree.scan()) == [(b"f", "delete")]


# -- the stored manifest ----------------------------------------


def test_a_stored_manifest_is_what_was_stored(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree.write("a/b"), tree.write("c")
    found = tree.scan().stored
    path = tmp_path_factory.mktemp("store") / "manifest.bin"
    found.save(path)
    again = manifest_file.load(path, found.policy_digest)
    assert again is not None
    assert (again.digest, list(again.entries())) == (found.digest, list(found.entries()))
    assert [again.row_at(n) for n in range(len(again))] == [found.row_at(n) for n in range(len(found))]
    assert manifest_file.load(path, "b3:" + "0" * 64) is None


def test_no_descriptor_of_a_stored_manifest_waits_for_the_collector(tree: Tree, tmp_path: Path) -> None:
    def descriptors() -> list[str]:
        return os.listdir("/proc/self/fd")  # noqa: PTH208

    def kept() -> None:
        tree.scan().stored.save(tmp_path.with_name("kept.bin"))
        loaded = manifest_file.load(tmp_path.with_name("kept.bin"), POLICY.digest)
        assert loaded is not None
        tree.write("b", "changed")
        assert scan(tree.subject, loaded, Level.STAT).changed_keys

    tree.write("a"), tree.write("b")
    gc.collect()
    gc.disable()
    try:
        before = descriptors()
        kept()
        assert descriptors() == before
    finally:
        gc.enable()


def test_a_damaged_manifest_is_none(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree.write("a/b")
    found = tree.scan().stored
    path = tmp_path_factory.mktemp("store") / "manifest.bin"
    found.save(path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert manifest_file.load(path, found.policy_digest) is None
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert manifest_file.load(path, found.policy_digest) is None
    path.write_bytes(whole + b"x")
    assert manifest_file.load(path, found.policy_digest) is None


# -- the oracle ----------------------------------------

NAME = st.sampled_from(["a", "b", "a.b", "a-b", "d", "d/a", "d/b", "d/e/a", "d-e", "d.e/a", "x.ign", "target/o", "d/e"])
OPERATION = st.tuples(
    st.sampled_from(["write", "same", "append", "delete", "rename", "link", "mode", "mkdir", "touch", "hard", "tree"]),
    NAME,
    NAME,
)
ROUND = st.tuples(st.lists(OPERATION, max_size=6), st.sampled_from(["stat", "content", "hint", "saved"]))


def perform(root: Path, kind: str, one: str, other: str, number: int) -> set[bytes]:
    """Do something, if it can be done; returns the directories that an event would name."""
    path, second = root / one, root / other
    try:
        if kind in ("write", "same", "append"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a" if kind == "append" else "w") as stream:
                stream.write("same" if kind == "same" else f"{number:06}")
        elif kind == "delete":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif kind == "rename":
            path.rename(second)
        elif kind == "link":
            path.symlink_to(other)
        elif kind == "mode":
            path.chmod(path.stat().st_mode ^ 0o111)
        elif kind == "mkdir":
            path.mkdir(parents=True)
        elif kind == "touch":
            os.utime(path, (number, number))
        elif kind == "hard":
            os.link(path, second)
        elif kind == "tree":
            (path / "p/q").mkdir(parents=True)
            (path / "p/q/r").write_text(str(number))
    except OSError:
        return set()
    return {os.fsencode(p.relative_to(root)) for p in (path.parent, second.parent)} - {b"."} | {b""}


def run_oracle(root: Path, rounds: list[tuple[list[tuple[str, str, str]], str]], window: int = WINDOW) -> None:
    root.mkdir()
    made = Tree(root)
    made.window = window
    store = root.with_name(f"{root.name}.bin")
    number = 0
    try:
        for todo, mode in rounds:
            touched: set[bytes] = set()
            for kind, one, other in todo:
                number += 1
                touched |= perform(root, kind, one, other, number)
            if mode == "hint":
                known = {p.rpartition(b"/")[0] for p in made.paths}
                deep = {d for d in touched if d and d not in known}
                made.scan(Level.HINT, Hints(frozenset(touched - deep), frozenset(deep | {b"a", b"b", b"d"})))
            else:
                made.scan(Level.CONTENT if mode == "content" else Level.STAT)
            if mode == "saved":
                made.stored.save(store)
                made.stored = manifest_file.load(store, POLICY.digest) or Stored.empty(POLICY.digest)
            assert made.stored.digest == made.cold().stored.digest
            assert made.paths == sorted(made.paths)
    finally:
        os.close(made.fd)


@given(rounds=st.lists(ROUND, min_size=1, max_size=5))
@settings(max_examples=1_000 if FULL else 80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_level_gives_what_reading_everything_gives(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[list[tuple[str, str, str]], str]]
) -> None:
    run_oracle(tmp_path_factory.mktemp("oracle") / "r", rounds)


@given(rounds=st.lists(ROUND, min_size=2, max_size=5), window=st.sampled_from([1, 60, 200]))
@settings(max_examples=500 if FULL else 40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_through_windows_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[list[tuple[str, str, str]], str]], window: int
) -> None:
    run_oracle(tmp_path_factory.mktemp("oracle") / "r", rounds, window)


def test_a_manifest_that_is_cut_while_it_is_read_is_an_error(tree: Tree, tmp_path: Path) -> None:
    store = tmp_path.with_name("cut.bin")
    tree.write("a/b")
    tree.scan().stored.save(store)
    cut = manifest_file.load(store, POLICY.digest)
    assert cut is not None
    os.truncate(store, 200)
    with pytest.raises(OSError, match="cut while"):
        list(cut.entries())


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no tmpfs")
@given(rounds=st.lists(ROUND, min_size=1, max_size=5))
@settings(max_examples=1_000 if FULL else 40)
def test_the_same_on_tmpfs(rounds: list[tuple[list[tuple[str, str, str]], str]]) -> None:
    place = Path("/dev/shm") / f"ktx-oracle-{os.getpid()}"
    place.mkdir()
    try:
        run_oracle(place / "r", rounds)
    finally:
        shutil.rmtree(place)


def test_no_swap_of_a_directory_and_a_link_leads_outside(tmp_path: Path) -> None:
    """Another thread exchanges them as fast as it can, and nothing of the outside is ever read."""
    root, outside = tmp_path / "r", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    outside.mkdir()
    (root / "d/x").write_text("inside")
    (outside / "x").write_text("outside")
    (root / "l").symlink_to(outside)
    tree, stop = Tree(root), threading.Event()
    libc = ctypes.CDLL(None)
    one, other = os.fsencode(root / "d"), os.fsencode(root / "l")
    exchange = 2  # RENAME_EXCHANGE, renameat2(2)

    def swap() -> None:
        while not stop.is_set():
            assert libc.renameat2(-100, one, -100, other, exchange) == 0

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(20_000 if FULL else 1_000):
            tree.scan(Level.CONTENT)
            read = {entry.blake3 for entry in tree.stored.entries() if entry.path in (b"d/x", b"l/x")}
            assert read <= {blake3(b"inside").digest()}
    finally:
        stop.set()
        swapper.join()
        os.close(tree.fd)
