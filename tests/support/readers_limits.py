"""Run by a test in a process of its own: what readers take for the worst inputs under 1 MB, and for many random ones.

`python -m tests.support.readers_limits worst [NAME ...]` or `... random COUNT SEED [READER ...]`. Prints one JSON line
for each: name, CPU seconds (random: of the slowest), and how many bytes the process has grown at its peak.

CPU time grows with what else the machine does (caches, siblings of a core): an input that seems slow is measured again,
beside a loop whose time is known, and its seconds are those of a machine on which that loop takes `LOOP_SECONDS`.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable

from tests.support.readers import READERS
from tests.support.readers_worst import worst

MEGABYTE = 1_000_000
LOOP_SECONDS = 0.037  # of CPU time, of `_loop`, on the machine and Python (3.11) that the limits were set on
LOOPS = 500_000
SLOW = 0.5  # seconds from which on an input is measured again
MEMORY = 2_000_000_000  # bytes of address space: an input that wants more ends the process


def main(mode: str, *args: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, read in READERS.items():
        read(b"a: b" if name != "python" else b"a = 1")  # what is imported and compiled once is not the input's
    READERS["source"](b"name: a\ntable: b\nmeasures: [{name: c, expr: sum(a)}]\n")
    if mode == "worst":
        for name, reader, data in worst():
            if not args or name in args:
                told(name, [(reader, data)])
    else:
        for reader in args[2:] or READERS:
            chance = random.Random(f"{reader} {args[1]}")
            told(reader, ((reader, anything(chance)) for _ in range(int(args[0]))))


def told(name: str, inputs: Iterable[tuple[str, bytes]]) -> None:
    slowest = 0.0
    for reader, data in inputs:
        assert len(data) <= MEGABYTE, name
        seconds = _seconds(lambda reader=reader, data=data: READERS[reader](data))  # type: ignore[misc]
        slowest = max(slowest, seconds if seconds < SLOW else _compared(reader, data))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - START) * 1024
    print(json.dumps({"name": name, "seconds": round(slowest, 3), "bytes": grown}), flush=True)


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _loop() -> int:
    return sum(len(str(number)) for number in range(LOOPS))


def _compared(reader: str, data: bytes) -> float:
    """The least of three, each held against the loop just before and after it."""
    found = []
    for _ in range(3):
        before, seconds, after = _seconds(_loop), _seconds(lambda: READERS[reader](data)), _seconds(_loop)
        found.append(seconds * LOOP_SECONDS * 2 / (before + after))
    return min(found)


PIECES = [
    "name",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "a",
    "a.b",
    "`",
    "``",
    "[[",
    "]]",
    "[",
    "](",
    "(",
    ")",
    "{",
    "}",
    '"',
    "'",
    "|",
    ">",
    "---\n",
    "sl_refs:\n",
    "summary: a\n",
    "columns:\n",
    "tables:\n",
    "joins:\n",
    "measures:\n",
    "to: ",
    "expr: ",
    "table: t\n",
    "name: a\n",
    "#",
    "<!-- ",
    "-->",
    "sum(",
    "case when ",
    "\\",
    "\t",
    "\r\n",
    "\u00e9",
    "\U0001f600",
    "\u2028",
    "\x00",
    "1",
    "1e9",
    "null",
    "&a ",
    "*a",
    "try:\n",
    "except E:\n",
    "  pass\n",
    "# gate-ok: r\n",
    "def f():\n",
    "ktx-gate: ignore=yaml-tag\n",
    '{"path": "a", "message": "m"}\n',
    '{"a": [',
    "]}",
    "0" * 40,
    "f" * 40,
    " refs/heads/a ",
    "# ------------------------ >8 ------------------------\n",
    "source:",
    "table:",
    "fingerprint",
    '"kind": "gate-baseline", ',
    "gates:\n  - gate: schema\n",
    "$ref",
    '"#"',
    "pattern",
    "|-|\n",
    "~~~\n",
    "    ",
]


def anything(chance: random.Random) -> bytes:
    """Mostly small, now and then large; of words that readers know, repeated or mixed; sometimes damaged."""
    size = int(10 ** chance.uniform(1, 4.5 if chance.random() < 0.98 else 5.99))
    words = chance.sample(PIECES, chance.randint(1, 12))
    text, length = [], 0
    while length < size:
        piece = chance.choice(words) * chance.choice([1, 1, 1, 2, 3, chance.randint(1, 200)])
        text.append(piece)
        length += len(piece.encode())
    data = bytearray("".join(text).encode()[:size])
    for _ in range(chance.choice([0, 0, 1, 5]) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


START = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

if __name__ == "__main__":
    main(*sys.argv[1:])
