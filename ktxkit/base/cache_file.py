"""A SQLite file of what can be found out again: it may be deleted at any moment, and no command fails for it.

A file that is no database, or of another version, is made again. What cannot be opened, read or written is done
without, in this process; `lost` says why.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import CannotRun

WAIT = 2.0  # seconds for another process that writes


class CacheFile:
    """The file, open. `tables` makes its tables, `probes` ask for every column; `version` is that of both."""

    def __init__(self, path: Path, version: int, tables: str, *probes: str) -> None:
        self.path = path
        self.lost = ""
        self._db: sqlite3.Connection | None = None
        try:
            self._db = self._opened(version, tables, probes)
        except (sqlite3.Error, OSError, CannotRun) as error:
            self.lost = f"facts are not kept: {error}"

    def _opened(self, version: int, tables: str, probes: tuple[str, ...]) -> sqlite3.Connection:
        files.make_dirs(self.path.parent)
        try:
            return self._checked(version, tables, probes)
        except sqlite3.Error as error:
            if not is_damaged(error):
                raise
            files.remove(self.path)
            return self._checked(version, tables, probes)

    def _checked(self, version: int, tables: str, probes: tuple[str, ...]) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        try:
            made.execute("PRAGMA synchronous = OFF")
            if made.execute("PRAGMA user_version").fetchone()[0] != version:
                made.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = {version}; COMMIT")
            for probe in probes:
                made.execute(probe).fetchone()
        except sqlite3.Error:
            made.close()
            raise
        return made

    def _lose(self, error: sqlite3.Error) -> None:
        """No more of this file in this process; one that is damaged goes, so that the next one makes it again."""
        self.lost = f"facts are not kept: {error}"
        self.close()
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
