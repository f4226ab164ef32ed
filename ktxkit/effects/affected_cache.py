"""`cache/affected.sqlite`: facts of Python files, by the id of their bytes. It may be deleted at any moment.

A row carries the digest of its content: one that is damaged is no row. A file that is no database, or of another
version of the readers, is made again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ktxkit.core.digests import digest
from ktxkit.effects import files
from ktxkit.effects.fact_cache import WAIT, is_damaged
from ktxkit.errors import CannotRun

ASKED_AT_ONCE = 500  # ids in one question
ROWS_KEPT = 100_000


class AffectedCache:
    """The rows. `note` says why there is none to read or write, where that is so; then every file is read anew."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version
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
            if made.execute("PRAGMA user_version").fetchone()[0] != self.version:
                made.executescript(
                    "BEGIN IMMEDIATE; DROP TABLE IF EXISTS facts;"
                    " CREATE TABLE facts (id TEXT PRIMARY KEY, body BLOB, digest TEXT);"
                    f" PRAGMA user_version = {self.version}; COMMIT"
                )
            made.execute("SELECT id, body, digest FROM facts LIMIT 1").fetchone()
        except sqlite3.Error:
            made.close()
            raise
        return made

    def known(self, ids: Iterable[str]) -> dict[str, bytes]:
        """The facts of those ids that are there and whole."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, bytes] = {}
        if self._db is None:
            return found
        try:
            for start in range(0, len(wanted), ASKED_AT_ONCE):
                part = wanted[start : start + ASKED_AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(f"SELECT id, body, digest FROM facts WHERE id IN ({marks})", part)
                found |= {key: body for key, body, told in rows if isinstance(body, bytes) and digest(body) == told}
        except sqlite3.Error as error:
            self._lost(error)
        return found

    def keep(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Write facts by id. What cannot be written is read anew next time."""
        made = [(key, body, digest(body)) for key, body in rows]
        if self._db is None or not made:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", made)
            old = "SELECT rowid FROM facts ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._db.execute(f"DELETE FROM facts WHERE rowid IN ({old})", (ROWS_KEPT,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._lost(error)

    def _lost(self, error: sqlite3.Error) -> None:
        """No more of this file in this process; one that is damaged goes, so that the next one makes it again."""
        self.note = f"facts are not kept: {error}"
        self.close()
        if is_damaged(error):
            files.remove(self.path)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
