"""In the index, each run's results in columns (ledger/rules/rows.py), beside the rows of `results`.

`ledger/index.sqlite`: one row for a run and test. Disposable: where it is damaged or foreign it is made again.

It holds a watermark: file, offset and bytes of the last ledger line that went in. What it cannot write it keeps in
memory. Durations are whole microseconds. Of 2,085,069 records of 63 runs: 48 MB, made in 0.8 of the time in which their
JSON is parsed; a question is answered in 0.05 to 0.1 of what DuckDB needs on the same records (`make bench`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from operator import add
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ktxkit.base import files
from ktxkit.base.rules.digests import digest
from ktxkit.ledger.rules import rows as columns

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine, RunEventFixturesRow
    from ktxkit.ledger.rules.fold import TestAttempt


SHAPES = "CREATE TABLE shapes (sid INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, places BLOB NOT NULL)"
COLUMNS = (
    "CREATE TABLE columns (rid INTEGER PRIMARY KEY, attempts INTEGER NOT NULL, total INTEGER NOT NULL,"
    " sid INTEGER NOT NULL, verdicts BLOB NOT NULL, totals BLOB NOT NULL)"
)


def add_columns(
    db: sqlite3.Connection, rid: int, positions: Sequence[int], codes: bytes, totals: Sequence[int]
) -> None:
    """The results of a run: place, verdict and total of each attempt. Runs of the same tests share their places."""
    shape, verdicts, times = columns.packed(positions, codes, totals)
    key = digest(shape)
    db.execute("INSERT OR IGNORE INTO shapes (digest, places) VALUES (?, ?)", (key, shape))
    db.execute(
        "INSERT OR REPLACE INTO columns SELECT ?, ?, ?, sid, ?, ? FROM shapes WHERE digest = ?",
        (rid, len(positions), sum(totals), verdicts, times, key),
    )


def load(db: sqlite3.Connection, rid: int) -> columns.Columns:
    """The results of a run that was ingested."""
    sql = "SELECT places, verdicts, totals FROM columns JOIN shapes USING (sid) WHERE rid = ?"
    return columns.unpacked(*db.execute(sql, (rid,)).fetchone())


def sums(db: sqlite3.Connection, rid: int) -> tuple[int, int]:
    """How many attempts a run has, and the microseconds of all."""
    attempts, total = db.execute("SELECT attempts, total FROM columns WHERE rid = ?", (rid,)).fetchone()
    return attempts, total


VERSION = 8 if sys.byteorder == "little" else 1008  # of the tables and columns; another one is made again
SUFFIX = ".ndjson"  # of event files
GONE = "its events are gone"  # why the tests of a run are not in
FEW = 1000  # tests named in one statement
WAIT = 5.0  # seconds for another process that fills it
OUTCOMES = (
    *("unknown", "passed", "failed", "error", "skipped"),
    *("xfailed", "xpassed", "crashed", "interrupted", "running"),
)
CODE = {word: number for number, word in enumerate(OUTCOMES)}
PASSED = CODE["passed"]

TABLES = """
CREATE TABLE mark (dev INTEGER, ino INTEGER, start INTEGER, size INTEGER, line BLOB, seq INTEGER, hash TEXT);
CREATE TABLE looked (mtime INTEGER);
CREATE TABLE runs (
  rid INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, project TEXT NOT NULL, seq INTEGER NOT NULL,
  closed INTEGER NOT NULL, ingested INTEGER NOT NULL, parent TEXT, started TEXT, scope TEXT, state TEXT, verdict TEXT,
  mode TEXT, commit_id TEXT, tree TEXT, environment TEXT, selection TEXT, workers INTEGER, scheduling TEXT,
  ordering TEXT, generated TEXT, load REAL, why TEXT, record TEXT
);
CREATE INDEX runs_by_tree ON runs (tree);
CREATE TABLE tests (tid INTEGER PRIMARY KEY, project TEXT NOT NULL, test TEXT NOT NULL, bad INTEGER NOT NULL,
  retried INTEGER NOT NULL, UNIQUE (project, test));
CREATE INDEX tests_suspect ON tests (project) WHERE bad > 0 OR retried > 0;
CREATE TABLE results (
  rid INTEGER NOT NULL, tid INTEGER NOT NULL, occurrence INTEGER NOT NULL, attempt INTEGER NOT NULL,
  outcome INTEGER NOT NULL, verdict INTEGER, setup INTEGER, call INTEGER, teardown INTEGER, total INTEGER NOT NULL,
  worker TEXT, cause TEXT, message TEXT, PRIMARY KEY (rid, tid, occurrence, attempt)
) WITHOUT ROWID;
CREATE TABLE fixtures (rid INTEGER NOT NULL, base TEXT, fixture TEXT, scope TEXT, count INTEGER, total INTEGER,
  longest INTEGER);
CREATE INDEX fixtures_by_run ON fixtures (rid);
"""

# Of a test, in each run: a look-up by primary key, in the order that CROSS JOIN fixes. An index by test answered no
# sooner (both are one look-up for each run) and took a quarter of what adding a run costs.
# A plan, or a setup without its tests, executes nothing.
EXECUTIONS = (
    "FROM tests t CROSS JOIN runs CROSS JOIN results r ON r.rid = runs.rid AND r.tid = t.tid AND runs.mode = 'run'"
)
RESULT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PLAIN = f"INSERT OR REPLACE INTO results VALUES (?1, ?2, 1, 1, {PASSED}, {PASSED}, ?3, ?4, ?5, ?6, NULL, NULL, NULL)"
NONE: Mapping[bytes, tuple[bytes, bytes, bytes]] = MappingProxyType({})


class Index:
    """The tables, open. `note` says what is wrong with the file, where anything is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note = ""
        self.outdated = False
        self._project = ""
        self._tests: TestNumbers | None = None
        try:
            self.db = self._open(str(path))
        except (sqlite3.Error, OSError) as error:
            self.note = f"the index is kept in memory: {error}"
            self.db = self._made(sqlite3.connect(":memory:", isolation_level=None))

    def _open(self, name: str) -> sqlite3.Connection:
        db = sqlite3.connect(name, timeout=WAIT, isolation_level=None)
        try:
            if db.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                db.execute("PRAGMA synchronous = OFF")
                db.execute("SELECT * FROM mark").fetchone()
                return db
        except sqlite3.DatabaseError:
            db.close()
            os.unlink(name)  # noqa: PTH108
            db = sqlite3.connect(name, timeout=WAIT, isolation_level=None)
        return self._made(db)

    def _made(self, db: sqlite3.Connection) -> sqlite3.Connection:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:  # nobody else made it meanwhile
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            for (table,) in tables.fetchall():
                db.execute(f'DROP TABLE "{table}"')
            for statement in (*TABLES.split(";\n"), SHAPES, COLUMNS):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
        return db

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """All rows of a query, by column name."""
        found = self.db.execute(sql, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    # -- the watermark

    def unread(self, ledger: Path) -> tuple[int, Mapping[str, Any] | None] | None:
        """Where to read on, with the last line that went in; None where the index does not fit the ledger."""
        mark = self.db.execute("SELECT dev, ino, start, size, line, seq, hash FROM mark").fetchone()
        if mark is None:
            return 0, None
        dev, ino, start, size, line, seq, line_hash = mark
        try:
            info = ledger.lstat()  # a link is no ledger
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(info.st_mode) or (info.st_dev, info.st_ino) != (dev, ino) or info.st_size < size:
            return None
        with files.reading(ledger) as stream:
            stream.seek(start)
            if stream.read(size - start) != line:
                return None
        return size, {"seq": seq, "hash": line_hash}

    def last(self) -> Mapping[str, Any] | None:
        """Number and digest of the last line that went in."""
        found = self.db.execute("SELECT seq, hash FROM mark").fetchone()
        return found and {"seq": found[0], "hash": found[1]}

    def strays(self, events: Path) -> list[str]:
        """Runs with an event file and no line. Remembered where there is none, until a file comes or goes; `outdated`
        tells then whether files are gone whose tests are in, or are back.
        """
        self.outdated = False
        try:
            now = events.stat().st_mtime_ns
            if (now,) in self.db.execute("SELECT mtime FROM looked").fetchall():
                return []
            there = {name.removesuffix(SUFFIX) for name in os.listdir(events) if name.endswith(SUFFIX)}  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            now, there = 0, set()
        found = set(there)
        for run, ingested, why in self.db.execute("SELECT run, ingested, why FROM runs"):
            self.outdated = self.outdated or (bool(ingested) and run not in there) or (why == GONE and run in there)
            found.discard(run)
        if not found and not self.outdated and now:
            self.db.execute("DELETE FROM looked")
            self.db.execute("INSERT INTO looked VALUES (?)", (now,))
        return sorted(found)

    def holds(self, ledger: Path) -> bool:
        """Whether all of the ledger is in, to its last byte."""
        place = self.unread(ledger)
        try:
            return place is not None and place[0] == ledger.stat().st_size
        except FileNotFoundError:
            return place is not None and place[0] == 0

    def set_mark(self, ledger: Path, start: int, raw: bytes, line: LedgerLine) -> None:
        info = ledger.stat()
        self.db.execute("DELETE FROM mark")
        values = (info.st_dev, info.st_ino, start, start + len(raw), raw, line["seq"], line["hash"])
        self.db.execute("INSERT INTO mark VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def clear(self) -> None:
        for table in ("mark", "looked", "runs", "tests", "results", "shapes", "columns", "fixtures"):
            self.db.execute(f"DELETE FROM {table}")

    # -- filling

    def open_run(self, line: LedgerLine) -> None:
        values = (line["run"], line["project"], line["seq"], line.get("parent"))
        self.db.execute(
            "INSERT OR IGNORE INTO runs (run, project, seq, parent, closed, ingested) VALUES (?, ?, ?, ?, 0, 0)", values
        )

    def close_run(self, line: LedgerLine, key: Mapping[str, Any], ingested: bool, why: str) -> int:
        """The closing line; `key` are the parts of an execution's identity. Returns the run's row id."""
        import json

        record = line["record"]
        self.open_run(line)
        columns = {
            "seq": line["seq"],
            "closed": 1,
            "parent": record.get("parent"),
            "started": record.get("startedAt"),
            "scope": record["scope"]["kind"],
            "state": record["state"],
            "verdict": record["verdict"],
            "mode": record.get("mode"),
            "commit_id": record.get("tree", {}).get("commit"),
            "ingested": int(ingested),
            "why": why or None,
            "record": json.dumps(record, separators=(",", ":")),
            **key,
        }
        names = ", ".join(f"{name} = ?" for name in columns)
        self.db.execute(f"UPDATE runs SET {names} WHERE run = ?", (*columns.values(), line["run"]))
        return int(self.db.execute("SELECT rid FROM runs WHERE run = ?", (line["run"],)).fetchone()[0])

    def add_results(
        self,
        rid: int,
        project: str,
        attempts: Iterable[tuple[TestAttempt, str | None]],
        plain: Mapping[bytes, tuple[bytes, bytes, bytes]] = NONE,
    ) -> None:
        """One row for each attempt, with the verdict beside the last one of a test.

        `plain` are first and only attempts that passed: seconds of setup, call and teardown, with six decimals.
        """
        known = self._known(project)
        counts: dict[int, list[int]] = {}
        rows = []
        for one, verdict in attempts:
            tid = known[one.test]
            bad = one.outcome in columns.BAD or one.teardown_failed
            if bad or one.retried:
                count = counts.setdefault(tid, [0, 0])
                count[0] += bad
                count[1] += one.retried
            rows.append((rid, tid, *_row(one, verdict)))
        # In bulk: neither a test's id nor a number has a space or a line break in it.
        spans = list(map(int, b" ".join(chain.from_iterable(plain.values())).replace(b".", b"").split()))
        setups, calls, teardowns = spans[0::3], spans[1::3], spans[2::3]
        tids = list(map(known.__getitem__, b"\n".join(plain).decode("ascii").split("\n"))) if plain else []
        totals = list(map(add, map(add, setups, calls), teardowns))
        self.db.executemany(PLAIN, zip(repeat(rid), tids, setups, calls, teardowns, totals, strict=False))
        self.db.executemany(RESULT, rows)
        places = [tid << columns.SHIFT | 1 for tid in tids] + [row[1] << columns.SHIFT | row[2] for row in rows]
        codes = bytes([PASSED]) * len(tids) + bytes(columns.NO_VERDICT if row[5] is None else row[5] for row in rows)
        add_columns(self.db, rid, places, codes, totals + [row[9] for row in rows])
        self.db.executemany("INSERT INTO tests VALUES (?, ?, ?, 0, 0)", known.drain())
        self.db.executemany(
            "UPDATE tests SET bad = bad + ?, retried = retried + ? WHERE tid = ?",
            ((*count, tid) for tid, count in counts.items()),
        )

    def names(self, tids: Iterable[int]) -> dict[int, str]:
        """The ids of tests by their number."""
        asked = sorted(tids)
        found: dict[int, str] = {}
        for start in range(0, len(asked), FEW):
            some = ", ".join(map(str, asked[start : start + FEW]))
            found.update(self.db.execute(f"SELECT tid, test FROM tests WHERE tid IN ({some})"))
        return found

    def _known(self, project: str) -> TestNumbers:
        """The numbers of a project's tests, kept for the next run that is added."""
        if self._project != project or self._tests is None:
            found = self.db.execute("SELECT test, tid FROM tests WHERE project = ?", (project,))
            top = self.db.execute("SELECT coalesce(max(tid), 0) FROM tests").fetchone()[0]
            self._project, self._tests = project, TestNumbers(project, top, found)
        return self._tests

    def fill(self) -> None:
        """Before lines go in."""
        self._tests = None
        self.db.execute("PRAGMA cache_size = -65536")

    def add_fixtures(self, rid: int, rows: Iterable[RunEventFixturesRow]) -> None:
        self.db.executemany(
            "INSERT INTO fixtures VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((rid, r["base"], r["fixture"], r["scope"], r["count"], us(r["total"]), us(r["longest"])) for r in rows),
        )


class TestNumbers(dict[str, int]):
    """Tests by their number; one that is asked for and new gets the next."""

    def __init__(self, project: str, top: int, found: Iterable[tuple[str, int]]) -> None:
        super().__init__(found)
        self._new: list[tuple[int, str, str]] = []
        self._project, self._top = project, top

    def __missing__(self, test: str) -> int:
        self._top += 1
        self[test] = self._top
        self._new.append((self._top, self._project, test))
        return self._top

    def drain(self) -> list[tuple[int, str, str]]:
        """What is new since the last time this was asked."""
        new, self._new = self._new, []
        return new


def us(seconds: float | None) -> int | None:
    """Whole microseconds."""
    return None if seconds is None else round(seconds * 1e6)


def _row(one: TestAttempt, verdict: str | None) -> tuple[Any, ...]:
    total = (one.setup or 0.0) + (one.call or 0.0) + (one.teardown or 0.0)
    return (
        one.occurrence,
        one.attempt,
        CODE.get(one.outcome, 0),
        None if verdict is None else CODE.get(verdict, 0),
        us(one.setup),
        us(one.call),
        us(one.teardown),
        us(total),
        one.worker or None,
        one.cause or None,
        one.message or None,
    )
