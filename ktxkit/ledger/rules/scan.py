r"""Event files in bulk: the lines of a test that passed are read by their bytes, every other line as JSON.

Nine records in ten are those two lines, in exactly the form in which `ktxkit.ledger.recording.attempts` writes them;
whatever differs from it in a byte is parsed and judged as before. So the fold is the same (a test holds both against
each other) at a quarter of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ktxkit.ledger.rules.fold import Fold, TestAttempt

if TYPE_CHECKING:
    from ktxkit.base.documents import RunEvent

_ID = rb'"test":"([^"\\\x00-\x1f\x7f-\xff]{0,60000})",'
_T = rb"([0-9]{1,9}\.[0-9]{6})"
_STARTED = rb'\{"event":"test_started",%b"t":%b\}'
_PASSED = rb'\{"event":"test_result",%b"t":%b,"outcome":"passed","setup":%b,"call":%b,"teardown":%b'
LINE = re.compile(
    rb"\n*(?:"
    + (_STARTED % (_ID, _T) + rb"\n\n" + _PASSED % (rb'"test":"\1",', _T, _T, _T, _T) + rb"\}(?:\n|\Z)")  # groups 1-6
    + (rb"|" + _STARTED % (_ID, _T) + rb"(?:\n|\Z)")  # 7-8
    + (rb"|" + _PASSED % (_ID, _T, _T, _T, _T) + rb'(?:,"worker":"([a-z0-9]{1,50})")?\}()(?:\n|\Z)')  # 9-15
    + rb"|([^\n]+)(?:\n|\Z))"  # 16
)
PAIR, STARTED, PASSED = 6, 8, 15

Other = Callable[[bytes, int], "RunEvent | None"]


def feed(fold: Fold, data: bytes, other: Other, *, aside: bool = False) -> Fold:
    """Feed all lines of `data`. `other(line, place)` gives a line's event, or None for a torn one.

    With `aside`, a first attempt that passed, its two lines one after the other, goes to `fold.plain`.
    """
    plain, latest, pairs = fold.plain, 0.0, 0
    named = {test.encode("utf-8", "surrogatepass") for test, _ in fold.last}  # tests that are not put aside
    for found in LINE.finditer(data):
        kind = found.lastindex
        if kind == PAIR:
            text, began, ended, setup, call, teardown = found.group(1, 2, 3, 4, 5, 6)
            if not aside or text in named:
                _started(fold, text.decode("ascii"), float(began))
                _passed(fold, text.decode("ascii"), ended, setup, call, teardown)
                continue
            plain[text] = setup, call, teardown
            pairs += 2
            t, before = float(ended), float(began)
            if t > latest:
                latest = t
            if before > latest:
                latest = before
        elif kind == STARTED:
            named.add(found[7])
            _started(fold, found[7].decode("ascii"), float(found[8]))
        elif kind == PASSED:
            named.add(found[9])
            one = _passed(fold, found[9].decode("ascii"), *found.group(10, 11, 12, 13))
            one.worker = (found[14] or b"").decode("ascii")
        elif kind is not None:
            event = other(found[16], found.start(16))
            fold.add(event)
            said: Mapping[str, Any] = event or {}
            if "test" in said:
                named.add(said["test"].encode("utf-8", "surrogatepass"))
    fold.events += pairs
    fold.t = max(fold.t, latest)
    return fold


def _started(fold: Fold, test: str, t: float) -> None:
    key = (test, 1, 1)
    fold.attempts[key] = fold.running[key] = fold.last[(test, 1)] = TestAttempt(test, 1, 1, t)
    fold.events += 1
    fold.t = max(fold.t, t)


def _passed(fold: Fold, test: str, t: bytes, setup: bytes, call: bytes, teardown: bytes) -> TestAttempt:
    key = (test, 1, 1)
    one = fold.running.pop(key, None)
    if one is None:
        one = fold.attempts[key] = fold.last[(test, 1)] = TestAttempt(test, 1, 1)
    one.t, one.outcome = float(t), "passed"
    one.setup, one.call, one.teardown = float(setup), float(call), float(teardown)
    fold.events += 1
    fold.t = max(fold.t, one.t)
    return one
