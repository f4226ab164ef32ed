"""Durability is what it says: the flushes behind each promise, counted, and in the order that makes them one.

Ours are counted by descriptor, git's by its own trace (trace2, `fsync/hardware-flush`; git >= 2.36).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import kinds
from ktxkit.base.clock import SystemClock
from ktxkit.store.rules import trace
from ktxkit.store.tracing import Journal
from tests.faults.test_failing_disk import applying, landing, opening
from tests.support.faults import count_effects
from tests.support.recovering import Scenario

TRACED = """#!/bin/sh
GIT_TRACE2_EVENT={log} exec {git} "$@"
"""


def traced(tmp_path: Path) -> dict[str, str]:
    """An environment whose git tells how often it flushed."""
    folder, real = tmp_path / "traced", shutil.which("git")
    (folder / "log").mkdir(parents=True)
    (folder / "git").write_text(TRACED.format(log=folder / "log", git=real))
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def flushes(tmp_path: Path) -> dict[str, int]:
    """By subcommand: how often git flushed."""
    found: dict[str, int] = {}
    for log in (tmp_path / "traced/log").iterdir():
        events = [json.loads(line) for line in log.read_text().splitlines()]
        argv = next(event["argv"] for event in events if event["event"] == "start")
        count = sum(int(e["value"]) for e in events if e.get("key") == "fsync/hardware-flush")
        found[argv[1]] = found.get(argv[1], 0) + count
    return found


def effects(it: Scenario, tmp_path: Path) -> list[str]:
    it.reset()
    return count_effects(it.command, it.args, it.repo.path, traced(tmp_path))


def at(found: Sequence[str], pattern: str, start: int = 0) -> int:
    """Where the first effect after `start` that matches is."""
    for n, effect in enumerate(found[start:], start):
        if re.match(pattern, effect):
            return n
    raise AssertionError(f"no {pattern} after {start} in {found}")


def kept(found: Sequence[str], name: str, folder: str, start: int = 0) -> int:
    """A document is flushed, then renamed into place, then its directory is flushed. Returns where that ends."""
    pattern = rf"os\.fsync file \.{re.escape(name)}\..*\.tmp$"
    written = at(found, pattern, start)
    assert re.match(rf"os\.replace \.{re.escape(name)}\..* {re.escape(name)}$", found[written + 1]), found[written:]
    assert found[written + 2] == f"os.fsync dir {folder}", found[written:]
    return written + 2


def count(found: Sequence[str]) -> int:
    """How often we flushed, but for the names of new directories."""
    pairs = zip(["", *found], found, strict=False)
    return sum(effect.startswith("os.fsync") and not before.startswith("os.mkdir") for before, effect in pairs)


def test_an_application(tmp_path: Path) -> None:
    """The journalled intent before the branch moves, the receipt after it: two flushes each, and none else."""
    found = effects(applying(tmp_path), tmp_path)
    intent = kept(found, "intent.json", "0001-a")
    moved = at(found, r"exit git update-ref --no-deref", intent)
    receipt = kept(found, "receipt.json", "0001-a", moved)
    assert count(found[: intent + 1]) == 2 and count(found[intent + 1 : moved]) == 0
    assert count(found) == 4 and receipt > moved
    told = flushes(tmp_path)
    assert told["update-ref"] >= 1, "the branch"
    assert told["commit-tree"] >= 1, "the candidate's commit"


def test_a_landing(tmp_path: Path) -> None:
    """Intent, move, receipt, the job's document: the next is begun only when the one before is on the disk."""
    found = effects(landing(tmp_path), tmp_path)
    intent = kept(found, "landing-intent.json", "j1")
    begun = at(found, r"spawn git merge -q --ff-only", intent)
    receipt = kept(found, "landing.json", "j1", at(found, r"exit git merge", begun))
    job = kept(found, "job.json", "j1", receipt)
    assert count(found) == 6 and count(found[: begun + 1]) == 2 and job > receipt
    told = flushes(tmp_path)
    assert told["merge"] >= 1, "the target"
    assert told["commit-tree"] >= 1, "the landing commit"


def test_a_lease_and_the_names_of_new_directories(tmp_path: Path) -> None:
    """The job, then the lease; the name of every directory that is made on the way to them."""
    found = effects(opening(tmp_path), tmp_path)
    for n, effect in enumerate(found):
        name = effect.removeprefix("os.mkdir ")
        if name in (".ktx", "jobs", "j1", "units", "0001-u1") and name != effect:
            assert found[n + 1].startswith("os.fsync dir "), (effect, found[n + 1])
    lease = kept(found, "lease.json", "0001-u1", kept(found, "job.json", "j1"))
    assert at(found, r"os\.unlink opening\.json", lease) > lease, "the note goes when the lease is on the disk"


@pytest.mark.parametrize("durable", [True, False])
def test_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    """A durable record is flushed after its write, and its file's name with the first one; a trace is not."""
    done: list[str] = []
    real = {name: getattr(os, name) for name in ("write", "fsync")}

    def recorded(name: str) -> Any:
        def call(fd: int, *args: Any) -> Any:
            kind = "dir" if Path(f"/proc/self/fd/{fd}").is_dir() else "file"
            done.append(f"{name} {kind}")
            return real[name](fd, *args)

        return call

    for name in real:
        monkeypatch.setattr(os, name, recorded(name))
    journal = Journal(tmp_path / "journal.jsonl", kinds.TRACE_EVENT, SystemClock())
    event = trace.event(trace.TraceContext("j", "c", "s"), "2026-01-02T03:04:05.000Z", "info", "run", "x", {})
    journal.append([event], durable=durable)
    journal.append([event], durable=durable)
    wanted = ["write file", "fsync file", "fsync dir", "write file", "fsync file"]
    assert done == (wanted if durable else ["write file", "write file"])
