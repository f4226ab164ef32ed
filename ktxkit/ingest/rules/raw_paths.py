"""Raw paths: where a source's raw files are named, in one normal form, and where their snapshots lie in the tree.

A raw path is relative to its snapshot (`card/27.json`). Its normal form has no leading slash, no backslash, no empty,
`.` or `..` segment, no control character, and is composed (NFC); other spellings are refused, never taken for it.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable
from ktxkit.store.rules.names import slug

ROOT = "raw-sources"
LENGTH_LIMIT = 1024  # bytes of a raw path
SEGMENT_LIMIT = 255  # bytes of one segment: what file systems take


def departure(path: str) -> str:
    """What is wrong with the form of a raw path; empty where nothing is."""
    try:
        data = path.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if not data or len(data) > LENGTH_LIMIT:
        return f"it has {len(data)} bytes; 1 to {LENGTH_LIMIT} are possible"
    if "\\" in path:
        return "it has a backslash; segments are parted by /"
    if path.startswith("/"):
        return "it begins with a slash; raw paths are relative to their snapshot"
    if unicodedata.normalize("NFC", path) != path:
        return "it is not composed (Unicode NFC)"
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in path):
        return "it has a control character"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"it has the segment {part!r}"
        if part.lower() == ".git":
            return "git takes no .git in a path"
        if len(part.encode("utf-8")) > SEGMENT_LIMIT:
            return f"a segment has more than {SEGMENT_LIMIT} bytes"
    return ""


def check(path: str) -> str:
    """The raw path itself. Raises CannotRun where it is not in its normal form."""
    wrong = departure(path)
    if wrong:
        raise CannotRun(
            f"raw path '{printable(path)}' is not in its normal form: {wrong}",
            hint="a fault of the connector: raw paths are relative, single slashes, no dot components",
        )
    return path


def sort_key(path: str) -> bytes:
    """Raw paths are sorted by their bytes, as git sorts."""
    return path.encode("utf-8")


def sync_id(now: datetime, job_id: str) -> str:
    """`YYYY-MM-DD-HHMMSS-<job>`, UTC."""
    return f"{now.astimezone(UTC):%Y-%m-%d-%H%M%S}-{job_id}"


def check_name(what: str, name: str) -> str:
    """A connection or source key that can be a directory. Raises CannotRun."""
    if not name or name != slug(name) or name.startswith((".", "-")) or name.endswith((".", ".lock")) or ".." in name:
        raise CannotRun(
            f"{what} '{printable(name)}' cannot name a directory",
            hint="letters, digits, '_', '-' and '.'; it begins with a letter, a digit or '_'",
        )
    return name


def snapshot_root(connection: str, source: str, sync: str) -> str:
    """Where a snapshot lies in the tree."""
    return f"{ROOT}/{connection}/{source}/{sync}"


def journal_name(connection: str, source: str) -> str:
    """The name of a connection and source's journals under the store; the pair is told apart by its digest."""
    return f"{slug(connection)}-{slug(source)}-{digest(f'{connection}/{source}'.encode())[3:11]}"
