"""inotify: names are bytes, an overflow is told, links are not followed, reading is no event, no loss is silent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktxkit.observer.watch import Churn, Watcher, WatchFailed

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
PATIENCE = 5.0  # seconds that an event may take


class Watched:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.watcher = Watcher(lambda path, is_dir: "volatile_log" if path.endswith(b".log") else "")
        self.watch("")

    def watch(self, name: str) -> None:
        fd = os.open(self.root / name, os.O_RDONLY | os.O_DIRECTORY)
        self.watcher.on_directory(name.encode(), fd)
        os.close(fd)

    def woken(self) -> tuple[set[bytes], set[bytes]]:
        assert self.watcher.wait(PATIENCE)
        wake = self.watcher.take()
        assert not wake.everything
        return wake.shallow, wake.deep

    def quiet(self) -> bool:
        return not self.watcher.wait(0)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.watcher.close()


def test_a_change_names_its_directory(watched: Watched) -> None:
    (watched.root / "d").mkdir()
    assert watched.woken() == ({b""}, {b"d"})
    watched.watch("d")
    (watched.root / "d/x").write_text("1")
    assert watched.woken() == ({b"d"}, set())
    (watched.root / "d/x").unlink()
    assert watched.woken() == ({b"d"}, set())


@pytest.mark.parametrize("act", ["write", "append", "chmod", "rename in", "delete"])
def test_what_may_change_content_wakes(watched: Watched, act: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = watched.root / "f"
    path.write_text("x")
    watched.woken()
    if act == "write":
        path.write_text("y")
    elif act == "append":
        with open(path, "a") as stream:
            stream.write("z")
    elif act == "chmod":
        path.chmod(0o755)
    elif act == "rename in":
        (tmp_path_factory.mktemp("o") / "n").write_text("n")
        shutil.move(tmp_path_factory.getbasetemp() / "o0/n", watched.root / "n")
    else:
        path.unlink()
    assert watched.woken()[0] == {b""}


def test_reading_is_no_event(watched: Watched) -> None:
    (watched.root / "f").write_text("x")
    watched.woken()
    assert (watched.root / "f").read_text() == "x"
    assert [path.name for path in watched.root.iterdir()] == ["f"]
    assert watched.quiet()


def test_a_name_that_is_not_utf_8(watched: Watched) -> None:
    (watched.root / os.fsdecode(b"\xff\xfe")).mkdir()
    assert watched.woken() == ({b""}, {b"\xff\xfe"})


def test_a_link_is_not_followed(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (watched.root / "l").symlink_to(outside)
    watched.woken()
    (outside / "x").write_text("1")
    assert watched.quiet()
    assert watched.watcher.queue.paths.keys() == {1}


def test_what_does_not_count_is_counted_and_wakes_nobody(watched: Watched) -> None:
    (watched.root / "a.log").write_text("1")
    assert watched.quiet()
    watched.watcher.drain()
    assert watched.watcher.churn["volatile_log"] >= 1


def test_a_directory_that_moves_takes_its_watches_along(watched: Watched) -> None:
    (watched.root / "d/e").mkdir(parents=True)
    watched.woken()
    watched.watch("d")
    watched.watch("d/e")
    (watched.root / "d").rename(watched.root / "n")
    assert watched.woken() == ({b""}, {b"n"})
    assert set(watched.watcher.queue.numbers) == {b""}
    watched.watch("n")
    watched.watch("n/e")
    (watched.root / "n/e/x").write_text("1")
    assert watched.woken() == ({b"n/e"}, set())


def test_the_root_that_goes_is_told(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    watched = Watched(tmp_path / "r")
    (tmp_path / "r").rename(tmp_path / "elsewhere")
    assert watched.watcher.wait(PATIENCE)
    wake = watched.watcher.take()
    assert (wake.gone, wake.hints()) == (True, None)
    watched.watcher.close()


def test_an_overflow_is_told(watched: Watched) -> None:
    """Nobody reads for as many events as the kernel keeps, and some more."""
    limit = int(QUEUE.read_text()) if QUEUE.exists() else 16_384
    for number in range(limit // 3 + 100):  # a file made by writing it is three events
        os.close(os.open(watched.root / f"f{number}", os.O_WRONLY | os.O_CREAT))
        (watched.root / f"f{number}").unlink()
    watched.watcher.drain()
    wake = watched.watcher.take()
    assert (wake.overflow, wake.everything, wake.hints()) == (True, True, None)
    assert watched.watcher.overflows >= 1


def test_many_directories_become_one_look_at_everything(watched: Watched) -> None:
    for number in range(4_200):
        (watched.root / f"d{number}").mkdir()
        if number % 1_000 == 0:
            watched.watcher.drain()
    watched.watcher.drain()
    assert watched.watcher.take().hints() is None


def test_no_more_watches_is_an_error_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path)

    class Full:
        @staticmethod
        def inotify_add_watch(*_: object) -> int:
            import ctypes

            ctypes.set_errno(28)
            return -1

    monkeypatch.setattr(watched.watcher.queue, "_libc", Full)
    (tmp_path / "d").mkdir()
    with pytest.raises(WatchFailed, match="max_user_watches"):
        watched.watch("d")
    monkeypatch.undo()
    watched.watcher.close()


def test_churn_is_counted_also_in_directories_that_are_new(tmp_path: Path) -> None:
    (tmp_path / "target/old").mkdir(parents=True)
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    churn = Churn()
    try:
        churn.on_pruned(b"target", root, "volatile_build")
        (tmp_path / "target/old/a").write_text("1")
        (tmp_path / "target/new").mkdir()
        churn.look(root)
        before = churn.counts["volatile_build"].count
        assert before >= 3
        (tmp_path / "target/new/b").write_text("1")
        churn.look(root)
        assert churn.counts["volatile_build"].count > before
        assert not churn.counts["volatile_build"].at_least
    finally:
        churn.close()
        os.close(root)


def test_a_flood_of_churn_is_a_lower_bound_and_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    churn = Churn()
    try:
        churn.on_pruned(b"target", root, "volatile_build")
        for number in range(6_000):
            os.close(os.open(tmp_path / f"target/{number}", os.O_WRONLY | os.O_CREAT))
            (tmp_path / f"target/{number}").unlink()
        churn.look(root)
        found = churn.counts["volatile_build"]
        assert (found.count > 10_000, found.at_least) == (True, True)
    finally:
        churn.close()
        os.close(root)
