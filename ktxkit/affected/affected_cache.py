"""`cache/affected.sqlite`: facts of Python files, by the id of their bytes. It may be deleted at any moment.

A row carries the digest of its content: one that is damaged is no row. A file that is no database, or of another
version of the readers, is made again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ktxkit.base.cache_file import CacheFile
from ktxkit.base.rules.digests import digest

ASKED_AT_ONCE = 500  # ids in one question
ROWS_KEPT = 100_000
_TABLES = """
DROP TABLE IF EXISTS facts;
CREATE TABLE facts (id TEXT PRIMARY KEY, body BLOB, digest TEXT);
"""
_PROBE = "SELECT id, body, digest FROM facts LIMIT 1"


class AffectedCache(CacheFile):
    """The rows. Where the file is lost every file is read anew."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(path, version, _TABLES, _PROBE)

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
            self._lose(error)
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
            self._lose(error)
