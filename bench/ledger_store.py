"""A ledger of realistic size: 63 runs (21 of the whole suite of 29,100 tests), 2.1 million records.

    python bench/ledger_store.py DIR [SCALE]

Writes the store below DIR/.ktx, and DIR/flat.ndjson: the same records in one file, each with its run.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from ktxkit.ledger import ledger
from ktxkit.store.world import World

RUNS, FULL, TESTS, SCOPED = 63, 21, 29_100, 10_270  # 2 records a test: 2.1 million
START = {
    "event": "run_started", "schemaVersion": 1, "t": 0, "at": "2026-01-02T03:04:05.678Z", "project": "bench",
    "trigger": "manual", "managed": False, "mode": "run", "argv": ["pytest"], "directory": ".",
    "tree": {"commit": "a" * 40, "tree": "b" * 40, "dirty": False},
    "environment": {"python": "3.11.7", "platform": "linux", "digest": "b3:" + "0" * 64},
    "workers": 0, "scheduling": "no",
}  # fmt: skip


def name(number: int) -> str:
    place = f"tests/integration/area_{number % 97:02d}/test_module_{number % 970:03d}.py"
    return f"{place}::TestThing::test_case_{number:05d}"


def compact(event: dict[str, object]) -> str:
    return json.dumps(event, separators=(",", ":"))


def lines(run: str, tests: range, chance: random.Random) -> Iterator[str]:
    """The events of one run, as the plugin writes them."""
    narrowing = [] if len(tests) == TESTS else [{"option": "-k", "value": "x"}]
    yield compact({**START, "selection": {"argsSource": "testpaths", "args": [], "narrowing": narrowing}, "run": run})
    count = {"collected": len(tests), "selected": len(tests), "deselected": 0, "removed": 0}
    yield compact({"event": "collected", "t": 0.5, **count})
    t = 1.0
    for number in tests:
        test = name(number)
        yield f'{{"event":"test_started","test":"{test}","t":{t:.6f}}}'
        spent = chance.random() / 50
        t += spent
        failed = chance.random() < 0.001
        outcome = "failed" if failed else "passed"
        error = ',"error":{"message":"AssertionError: assert 1 == 2"}' if failed else ""
        spans = f'"setup":{spent / 4:.6f},"call":{spent / 2:.6f},"teardown":{spent / 4:.6f}'
        yield f'{{"event":"test_result","test":"{test}","t":{t:.6f},"outcome":"{outcome}",{spans}{error}}}'
    yield compact({"event": "run_finished", "t": round(t, 6), "at": "2026-01-02T04:04:05.678Z", "exitStatus": 0})


def make(place: Path, scale: float = 1.0) -> tuple[World, list[str]]:
    """The store and its runs; the last three are full ones."""
    (place / ".ktx/ledger/events").mkdir(parents=True)
    world = World(place, {**os.environ, "KTX_PROJECT": "bench"}, ktx_dir=str(place / ".ktx"))
    chance, names = random.Random(1), []
    with open(place / "flat.ndjson", "w") as flat:
        for number in range(max(3, round(RUNS * scale))):
            run = f"20260102T0304{number:02d}Z-{number:08x}"
            full = number % 3 == 2
            tests = range(TESTS) if full else range(number, number + SCOPED)
            with open(ledger.events_path(world, run), "w") as events:
                for line in lines(run, tests, chance):
                    events.write(f"\n{line}\n")
                    flat.write(line if '"run":' in line else f'{{"run":"{run}",{line[1:]}')
                    flat.write("\n")
            ledger.opened(world, run, "bench")
            ledger.settle(world, run, imported=True)
            names.append(run)
    return world, names


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)[1][-3:])
