"""`cache/facts.sqlite`: facts of files, by group of files. It may be deleted at any moment.

A row is named by a digest of what is in the group and of the readers' version, and carries seals of its own content:
one that is damaged is no row. Notes (verdicts, texts that are answered) are named and sealed likewise. A file that is
no database, or of another version, is made again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ktxkit.base.cache_file import CacheFile
from ktxkit.base.rules.digests import digest

VERSION = 2  # of the table
KEPT = 4  # rows of one group: of the index, of HEAD, of another branch
_FACTS = "SELECT number, name,"
_GROUP = "number = ? AND name = ?"
_LATEST = "number = ? ORDER BY rowid DESC LIMIT 1"
NOTES = {"verdict": 8, "fine": 4}  # rows kept of a kind
LARGEST = 4 * 1024 * 1024  # bytes of a note that is kept
_TABLES = """
CREATE TABLE facts (number INTEGER, name TEXT, summary BLOB, summary_seal TEXT, marks BLOB, marks_seal TEXT,
  body BLOB, body_seal TEXT, PRIMARY KEY (number, name));
CREATE TABLE notes (kind TEXT, name TEXT, body BLOB, body_seal TEXT, PRIMARY KEY (kind, name));
"""
_PROBES = (
    "SELECT number, name, summary, summary_seal, marks, marks_seal, body, body_seal FROM facts LIMIT 1",
    "SELECT kind, name, body, body_seal FROM notes LIMIT 1",
)


Values = tuple[object, ...]


class Row(NamedTuple):
    """A group: its number and name, what its files say together, which mention what, and their facts."""

    number: int
    name: str
    summary: bytes
    marks: bytes
    body: bytes


class FactCache(CacheFile):
    """The rows. Where the file is lost every group is read anew."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, VERSION, _TABLES, *_PROBES)

    def outline(self, number: int, name: str) -> tuple[bytes, bytes] | None:
        """The summary and the marks of a group, if they are there and whole."""
        found = self._whole(
            f"{_FACTS} summary, summary_seal, marks, marks_seal FROM facts WHERE {_GROUP}", number, name
        )
        return (found[0], found[1]) if found is not None else None

    def body(self, number: int, name: str) -> bytes | None:
        """The facts of a group, if they are there and whole."""
        found = self._whole(f"{_FACTS} body, body_seal FROM facts WHERE {_GROUP}", number, name)
        return found[0] if found is not None else None

    def latest(self, number: int) -> tuple[bytes, bytes] | None:
        """The facts and marks of the group of that number that was written last: most of its files are the same."""
        found = self._whole(f"{_FACTS} body, body_seal, marks, marks_seal FROM facts WHERE {_LATEST}", number)
        return (found[0], found[1]) if found is not None else None

    def note(self, kind: str, name: str) -> bytes | None:
        """A note of a kind of NOTES, if it is there and whole."""
        found = self._whole("SELECT kind, name, body, body_seal FROM notes WHERE kind = ? AND name = ?", kind, name)
        return found[0] if found is not None else None

    def _whole(self, query: str, *asked: object) -> list[bytes] | None:
        """Contents after the two parts of their key, each before its seal; None where one is not as it was written."""
        if self._db is None:
            return None
        try:
            row = self._db.execute(query, asked).fetchone()
        except sqlite3.Error as error:
            self._lose(error)
            return None
        if row is None or row[: len(asked)] != asked:
            return None
        pairs = list(zip(row[2::2], row[3::2], strict=True))
        if not all(isinstance(data, bytes) and _seal(row[0], row[1], data) == seal for data, seal in pairs):
            return None
        return [data for data, _ in pairs]

    def keep(self, rows: Iterable[Row]) -> None:
        """Write groups. What cannot be written is read anew next time."""
        made = [
            (*one[:2], *(part for data in one[2:] for part in (data, _seal(one.number, one.name, data))))
            for one in rows
        ]
        old = "SELECT rowid FROM facts WHERE number = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
        limits = [(number, KEPT) for number in {row[0] for row in made}]
        self._written("facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", made, f"facts WHERE rowid IN ({old})", limits)

    def keep_note(self, kind: str, name: str, body: bytes) -> None:
        """Write a note; of its kind only the last few are kept, and none that is too large."""
        made = [(kind, name, body, _seal(kind, name, body))] if len(body) <= LARGEST else []
        old = "SELECT rowid FROM notes WHERE kind = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
        self._written("notes VALUES (?, ?, ?, ?)", made, f"notes WHERE rowid IN ({old})", [(kind, NOTES[kind])])

    def _written(self, into: str, rows: Sequence[Values], out: str, limits: Sequence[Values]) -> None:
        if self._db is None or not rows:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(f"INSERT OR REPLACE INTO {into}", rows)
            self._db.executemany(f"DELETE FROM {out}", limits)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._lose(error)


def _seal(first: object, second: object, data: bytes) -> str:
    """What a content is known by: a damaged index can lead to the content of another key."""
    return digest(f"{first} {second}\0".encode("utf-8", "surrogatepass") + data)
