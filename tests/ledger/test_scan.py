"""Reading event lines in bulk gives the fold that reading them one by one gives, whatever the lines are."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from typing import Any

import pytest

from ktxkit.ledger import event_log
from ktxkit.ledger.event_log import record
from ktxkit.ledger.rules.fold import Fold, TestAttempt

FULL = os.environ.get("KTX_TEST_FULL") == "1"
TESTS = (
    "t.py::test_a",
    "t.py::test_b[x-1]",
    "t.py::test_ü",
    't.py::test_"q"',
    "t.py::test_back\\slash",
    "",
    "t.py::\x7f",
)


def started(test: str, t: float, **more: Any) -> str:
    return f'{{"event":"test_started","test":{json.dumps(test)},"t":{t:.6f}{tail(more)}}}'


def ended(test: str, t: float, outcome: str = "passed", **more: Any) -> str:
    spans = '"setup":0.000100,"call":12.345678,"teardown":0.000001'
    return f'{{"event":"test_result","test":{json.dumps(test)},"t":{t:.6f},"outcome":"{outcome}",{spans}{tail(more)}}}'


def tail(more: dict[str, Any]) -> str:
    return "".join(f',"{key}":{json.dumps(value)}' for key, value in more.items())


def fields(one: TestAttempt) -> dict[str, Any]:
    return {name: getattr(one, name) for name in TestAttempt.__slots__}


def seen(fold: Fold) -> dict[str, Any]:
    return {
        "attempts": [(key, fields(one)) for key, one in fold.attempts.items()],
        "last": [(key, fields(one)) for key, one in fold.last.items()],
        "running": list(fold.running),
        "counts": (fold.events, fold.torn, fold.t),
        "dead": fold.result("dead", TESTS),
        "alive": fold.result("alive"),
    }


def one_by_one(data: bytes) -> Fold:
    return Fold().feed(record(line) for line in data.split(b"\n") if line)


def both(data: bytes, *, aside: bool = False) -> Fold:
    return event_log.feed(Fold(), data, lambda line, _: record(line), aside=aside)


def lines_of(chance: random.Random) -> list[str]:
    """A run: mostly pairs as they are written, and all that can stand between them."""
    made = ['{"event":"collected","t":0.1,"selected":7,"collected":7}']
    t = 0.2
    for _ in range(chance.randrange(1, 25)):
        test, t = chance.choice(TESTS), t + chance.random()
        pick = chance.random()
        if pick < 0.6:
            made += [started(test, t), ended(test, t + 0.1)]
        else:
            made += chance.choice(
                [
                    [started(test, t)],
                    [ended(test, t)],
                    [ended(test, t, worker="gw1")],
                    [started(test, t), ended(test, t, "failed", error={"message": "no"})],
                    [started(test, t), ended(test, t, retried=True), started(test, t, attempt=2), ended(test, t)],
                    [started(test, t, occurrence=2), ended(test, t, occurrence=2)],
                    [f'{{"event":"subtest_result","test":{json.dumps(test)},"t":{t},"label":"","outcome":"failed"}}'],
                    ['{"torn', "\x01", "[1]", "{}"[:1]],
                    [started(test, 1e9), ended(test, 0.0)],
                    [ended(test, t, teardownFailed=True)],
                    [ended(test, t).replace("0.000100", "0.0001")],
                ]
            )
    if chance.random() < 0.5:
        made.append(f'{{"event":"run_finished","t":{t},"at":"x","exitStatus":0}}')
    return made


@pytest.mark.parametrize("tens", range(300 if FULL else 15))
def test_the_same_fold(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        the_same_fold(random.Random(seed))


def the_same_fold(chance: random.Random) -> None:
    data = "".join(f"\n{line}\n" for line in lines_of(chance)).encode("latin-1", "replace")
    for cut in (len(data), chance.randrange(len(data))):
        expected = seen(one_by_one(data[:cut]))
        assert seen(both(data[:cut])) == expected
        aside = both(data[:cut], aside=True)
        for life in ("dead", "alive"):
            found = aside.result(life, TESTS if life == "dead" else None)
            assert _unordered(found) == _unordered(expected[life])


def _unordered(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the order of tests decides is compared without it."""
    return {key: sorted(map(str, value)) if isinstance(value, list) else value for key, value in result.items()}


def test_what_was_put_aside_is_most_of_it() -> None:
    data = "".join(f"\n{started(f't::{i}', i)}\n\n{ended(f't::{i}', i)}\n" for i in range(100)).encode()
    fold = both(data, aside=True)
    assert len(fold.plain) == 100 and not fold.attempts and fold.events == 200
    assert fold.plain[b"t::7"] == (b"0.000100", b"12.345678", b"0.000001")
