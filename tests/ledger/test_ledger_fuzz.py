"""Bits flipped, lines cut, doubled and reordered, at every position of a small ledger: no verdict changes unseen.

What is damaged ends with status 5, or answers as before; of the events of a run that is not closed yet, "not known" is
an answer, too. The short form takes every 151st position, the long form (KTX_TEST_FULL=1) each.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ktxkit.base.errors import BrokenContract
from ktxkit.ledger import answers, asking, chain
from ktxkit.ledger.asking import LedgerQuery
from ktxkit.store.rules import names
from ktxkit.store.world import World
from tests.support.suites import Suite

FULL = os.environ.get("KTX_TEST_FULL") == "1"
STEP = 1 if FULL else 151
GREEN = "import os, signal\ndef test_a(): pass\ndef test_b(): pass\n"
RED = "import os, signal\ndef test_a(): pass\ndef test_b(): assert 0\n"
KILLED = "import os, signal\ndef test_a(): pass\ndef test_b(): os.kill(os.getpid(), signal.SIGKILL)\n"


class Answer(NamedTuple):
    """What is answered of the last run, and of each test in it."""

    verdict: str
    run: str
    state: str
    tests: tuple[tuple[str, str], ...]


class Stage:
    """A ledger to damage: each attempt gets a store of its own."""

    def __init__(self, suite: Suite, place: Path) -> None:
        self.project = asking.resolve(suite.world)
        self.base = place / "base"
        shutil.copytree(suite.repo.path / ".ktx", self.base)
        self.place = place / "attempt"
        self.repository = suite.repo.path

    def ask(self, name: str, data: bytes | None, *, index: bool = False) -> Answer | None:
        """The answer with a file of these bytes (None: without it); None where it is status 5."""
        shutil.rmtree(self.place, ignore_errors=True)
        leave = [] if index else ["index.sqlite"]
        shutil.copytree(self.base, self.place, ignore=shutil.ignore_patterns(*leave))
        path = self.place / name
        path.write_bytes(data) if data is not None else path.unlink()
        return self.look(World(self.repository, os.environ, ktx_dir=str(self.place)))

    def look(self, world: World) -> Answer | None:
        query = LedgerQuery(projects=(self.project,))
        try:
            document = answers.last(world, query)
            last = document["rows"][0] if document["rows"] else {}
            found = asking.ensure(world).rows(
                "SELECT test, outcome FROM results JOIN tests USING (tid)"
                " JOIN runs USING (rid) WHERE run = ? ORDER BY 1",
                last.get("run", ""),
            )
        except BrokenContract:
            return None
        tests = tuple((row["test"], asking_word(row["outcome"])) for row in found)
        return Answer(document["verdict"], last.get("run", ""), last.get("state", ""), tests)

    def bytes(self, name: str) -> bytes:
        return (self.base / name).read_bytes()


def asking_word(code: int) -> str:
    from ktxkit.ledger.index_file import OUTCOMES

    return OUTCOMES[code]


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What can become of a file, each with its name."""
    for place in range(0, len(data), STEP):
        flipped = bytes([data[place] ^ (1 << place % 8)])
        yield f"bit {place % 8} of byte {place}", data[:place] + flipped + data[place + 1 :]
    for place in range(0, len(data), STEP):
        yield f"cut at byte {place}", data[:place]
        yield f"NULs from byte {place} on", data[:place] + bytes(len(data) - place)
    lines = data.splitlines(keepends=True)
    for at, line in enumerate(lines):
        yield f"line {at} cut", b"".join(lines[:at] + lines[at + 1 :])
        yield f"line {at} doubled", b"".join([*lines[: at + 1], line, *lines[at + 1 :]])
        yield f"line {at} doubled at the end", b"".join([*lines, line])
        for other in range(at) if FULL else range(max(0, at - 2), at):
            swapped = list(lines)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            yield f"lines {other} and {at} changed places", b"".join(swapped)
    yield "all lines backwards", b"".join(reversed(lines))


def wrong(stage: Stage, name: str, right: Callable[[Answer | None], bool], *, index: bool = False) -> list[str]:
    """Every damage of a file that has another answer than it may have."""
    data = stage.bytes(name)
    told = []
    for what, made in damaged(data):
        if made == data:
            continue
        found = stage.ask(name, made, index=index)
        if not right(found):
            told.append(f"{what}: {found}")
    return told


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A run that passed, and one that failed: the last."""
    place = tmp_path_factory.mktemp("closed")
    suite = Suite.make(place / "s", {"test_m.py": GREEN})
    suite.run()
    suite.repo.write("test_m.py", RED)
    suite.run()
    return Stage(suite, place)


def unclosed(place: Path, source: str) -> Stage:
    """A run that passed, and a last one that nobody has closed yet."""
    suite = Suite.make(place / "s", {"test_m.py": GREEN})
    suite.run()
    suite.repo.write("test_m.py", source)
    suite.run()
    path = suite.world.store.path(names.LEDGER)
    opened = list(chain.lines(suite.world))[2]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    chain.set_head(suite.world, opened)
    return Stage(suite, place)


def last_events(stage: Stage) -> str:
    """The events of the run that was opened last. Ids do not tell: two runs of one second are ordered by chance."""
    lines = map(json.loads, stage.bytes(names.LEDGER).splitlines())
    return names.events_file([line["run"] for line in lines if line["kind"] == "run-opened"][-1])


def test_the_ledger(closed: Stage) -> None:
    before = closed.ask(names.LEDGER, closed.bytes(names.LEDGER))
    assert before is not None and before.verdict == "false" and ("test_m.py::test_b", "failed") in before.tests
    assert wrong(closed, names.LEDGER, lambda found: found in (None, before)) == []


def test_the_ledger_beside_an_index_of_it(closed: Stage) -> None:
    before = closed.ask(names.LEDGER, closed.bytes(names.LEDGER), index=True)
    assert wrong(closed, names.LEDGER, lambda found: found in (None, before), index=True) == []


def test_the_head(closed: Stage) -> None:
    before = closed.ask(names.LEDGER_HEAD, closed.bytes(names.LEDGER_HEAD))
    assert before is not None
    assert wrong(closed, names.LEDGER_HEAD, lambda found: found in (None, before)) == []
    assert closed.ask(names.LEDGER_HEAD, None) in (None, before)


def test_the_events_of_a_closed_run(closed: Stage) -> None:
    """The line answers for the run; of its tests all is as it was, or nothing is known."""
    name = last_events(closed)
    before = closed.ask(name, closed.bytes(name))
    assert before is not None
    unknown = before._replace(tests=())
    assert wrong(closed, name, lambda found: found in (before, unknown)) == []
    assert closed.ask(name, None) == unknown


@pytest.mark.parametrize("source", [GREEN, RED], ids=["passed", "failed"])
def test_the_events_of_a_run_that_is_not_closed(tmp_path: Path, source: str) -> None:
    """What was recorded, or a damaged or killed run, whose known failures are failures."""
    stage = unclosed(tmp_path, source)
    name = last_events(stage)
    before = stage.ask(name, stage.bytes(name))
    assert before is not None and before.verdict == ("true" if source == GREEN else "false")
    allowed = {before.verdict, "unknown"}

    def right(found: Answer | None) -> bool:
        if found is None or found == before:
            return True
        return found.run == before.run and found.verdict in allowed and found.state in ("damaged", "killed")

    assert wrong(stage, name, right) == []


def test_the_events_of_a_run_that_was_killed(tmp_path: Path) -> None:
    stage = unclosed(tmp_path, KILLED)
    name = last_events(stage)
    before = stage.ask(name, stage.bytes(name))
    assert before is not None and (before.verdict, before.state) == ("unknown", "killed")
    assert wrong(stage, name, lambda found: found is None or found.verdict != "true") == []


def test_the_key(tmp_path: Path) -> None:
    stage = unclosed(tmp_path, GREEN)
    before = stage.ask(names.LEDGER_KEY, stage.bytes(names.LEDGER_KEY))
    assert before is not None and before.verdict == "true"
    allowed = {"true", "unknown"}
    assert wrong(stage, names.LEDGER_KEY, lambda found: found is not None and found.verdict in allowed) == []


def test_the_order_of_two_runs_cannot_be_changed(closed: Stage) -> None:
    """The closing lines change places, with their links made anew: what an editor of the ledger would do."""
    data = closed.bytes(names.LEDGER)
    lines = data.splitlines(keepends=True)
    assert len(lines) == 4
    found = closed.ask(names.LEDGER, b"".join(lines[2:]))
    assert found is None
