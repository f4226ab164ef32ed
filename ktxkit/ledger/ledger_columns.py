"""In the index, each run's results in columns (ledger/rules/columns.py), beside the rows of `results`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ktxkit.base.rules.digests import digest
from ktxkit.ledger.rules import columns

SHAPES = "CREATE TABLE shapes (sid INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, places BLOB NOT NULL)"
COLUMNS = (
    "CREATE TABLE columns (rid INTEGER PRIMARY KEY, attempts INTEGER NOT NULL, total INTEGER NOT NULL,"
    " sid INTEGER NOT NULL, verdicts BLOB NOT NULL, totals BLOB NOT NULL)"
)


def add(db: sqlite3.Connection, rid: int, places: Sequence[int], codes: bytes, totals: Sequence[int]) -> None:
    """The results of a run: place, verdict and total of each attempt. Runs of the same tests share their places."""
    shape, verdicts, times = columns.packed(places, codes, totals)
    key = digest(shape)
    db.execute("INSERT OR IGNORE INTO shapes (digest, places) VALUES (?, ?)", (key, shape))
    db.execute(
        "INSERT OR REPLACE INTO columns SELECT ?, ?, ?, sid, ?, ? FROM shapes WHERE digest = ?",
        (rid, len(places), sum(totals), verdicts, times, key),
    )


def load(db: sqlite3.Connection, rid: int) -> columns.Columns:
    """The results of a run that was ingested."""
    sql = "SELECT places, verdicts, totals FROM columns JOIN shapes USING (sid) WHERE rid = ?"
    return columns.unpacked(*db.execute(sql, (rid,)).fetchone())


def sums(db: sqlite3.Connection, rid: int) -> tuple[int, int]:
    """How many attempts a run has, and the microseconds of all."""
    attempts, total = db.execute("SELECT attempts, total FROM columns WHERE rid = ?", (rid,)).fetchone()
    return attempts, total
