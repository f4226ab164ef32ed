"""Children that wait for a pipe: what the watch of them does while others end."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktxkit.base import process


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three children, each the leader of its own group."""
    made = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(3)]
    yield made
    for child in made:
        child.kill()
        child.wait()


def test_a_child_that_ends_during_a_look_does_not_end_the_watch(
    sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = process.PipeWatch()
    looked = threading.Semaphore(0)

    def waits(root: int) -> list[tuple[int, str]]:
        watch.pipe_of(sleepers[2].pid)  # as whoever waits for that child asks at its end
        looked.release()
        return []

    monkeypatch.setattr(process, "LOOK", 0.01)
    monkeypatch.setattr(process, "waits", waits)
    for child in sleepers:
        watch.watch(child)
    for _ in range(20):
        assert looked.acquire(timeout=60), "the thread looks no more"


def test_a_child_that_waits_for_a_pipe_is_ended_and_the_pipe_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOOK", 0.01)
    monkeypatch.setattr(process, "PATIENCE", 0.05)
    os.mkfifo(tmp_path / "p")
    watch = process.PipeWatch()
    child = subprocess.Popen(["cat", "p"], cwd=tmp_path, start_new_session=True)
    watch.watch(child)
    assert child.wait(60) == -9
    assert watch.pipe_of(child.pid) == "p" and watch.pipe_of(child.pid) == ""
