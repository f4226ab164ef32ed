"""`cache/facts.sqlite`: facts of files, by group of files. It may be deleted at any moment.

A row is named by a digest of what is in the group and of the readers' version, and carries digests of its own content:
one that is damaged is no row. A file that is no database, or of another version, is made again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ktxkit.core.digests import digest
from ktxkit.effects import files
from ktxkit.errors import CannotRun

VERSION = 1  # of the table
WAIT = 2.0  # seconds for another process that writes
KEPT = 4  # rows of one group: of the index, of HEAD, of another branch
_COLUMNS = ("number", "name", "summary", "summary_digest", "body", "body_digest")
_TABLE = """
CREATE TABLE facts (number INTEGER, name TEXT, summary BLOB, summary_digest TEXT, body BLOB, body_digest TEXT,
  PRIMARY KEY (number, name));
"""


class FactCache:
    """The rows. `note` says why there is none to read or write, where that is so; then every group is read anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note = ""
        self._db: sqlite3.Connection | None = None
        try:
            self._db = self._opened()
        except (sqlite3.Error, OSError, CannotRun) as error:
            self.note = f"facts are not kept: {error}"

    def _opened(self) -> sqlite3.Connection:
        files.make_dirs(self.path.parent)
        try:
            return self._checked()
        except sqlite3.Error as error:
            if not is_damaged(error):
                raise
            files.remove(self.path)
            return self._checked()

    def _checked(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        try:
            made.execute("PRAGMA synchronous = OFF")
            if made.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                made.executescript(f"BEGIN IMMEDIATE; {_TABLE} PRAGMA user_version = {VERSION}; COMMIT")
            made.execute(
                "SELECT number, name, summary, summary_digest, body, body_digest FROM facts LIMIT 1"
            ).fetchone()
        except sqlite3.Error:
            made.close()
            raise
        return made

    def summary(self, number: int, name: str) -> bytes | None:
        """The summary of a group, if it is there and whole."""
        return self._whole("summary", "number = ? AND name = ?", number, name)

    def body(self, number: int, name: str) -> bytes | None:
        """The facts of a group, if they are there and whole."""
        return self._whole("body", "number = ? AND name = ?", number, name)

    def latest(self, number: int) -> bytes | None:
        """The facts of the group of that number that was written last: most of its files are the same."""
        return self._whole("body", "number = ? ORDER BY rowid DESC LIMIT 1", number)

    def _whole(self, what: str, where: str, *values: object) -> bytes | None:
        if self._db is None:
            return None
        try:
            row = self._db.execute(f"SELECT {what}, {what}_digest FROM facts WHERE {where}", values).fetchone()
        except sqlite3.Error as error:
            self._lost(error)
            return None
        if row is None or not isinstance(row[0], bytes) or digest(row[0]) != row[1]:
            return None
        return row[0]

    def keep(self, rows: Iterable[tuple[int, str, bytes, bytes]]) -> None:
        """Write groups: number, name, summary, facts. What cannot be written is read anew next time."""
        made = [(number, name, one, digest(one), two, digest(two)) for number, name, one, two in rows]
        if self._db is None or not made:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?, ?)", made)
            for number in {row[0] for row in made}:
                old = "SELECT rowid FROM facts WHERE number = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
                self._db.execute(f"DELETE FROM facts WHERE rowid IN ({old})", (number, KEPT))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._lost(error)

    def _lost(self, error: sqlite3.Error) -> None:
        """No more of this file in this process; one that is damaged goes, so that the next one makes it again."""
        self.note = f"facts are not kept: {error}"
        if self._db is not None:
            self._db.close()
            self._db = None
        if is_damaged(error):
            files.remove(self.path)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether a file is to blame, and not a lock, a full disk or a directory that cannot be written."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)
