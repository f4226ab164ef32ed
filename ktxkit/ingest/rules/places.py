"""Raw paths: where a source's raw files are named, in one normal form, and where their snapshots lie in the tree.

A raw path is relative to its snapshot (`card/27.json`). Its normal form has no leading slash, no backslash, no empty,
`.` or `..` segment, no control character, and is composed (NFC); other spellings are refused, never taken for it.

Where ingestion's documents lie under `.ktx/`; beside `ktxkit.store.rules.names`, which has those of every job.

How long snapshots stay in the tree: the newest of a source, as many as the repository's configuration says.

A snapshot goes as a whole, in the commit of a later sync. History still has it, and provenance names its raw files by
path and digest for ever.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable
from ktxkit.store.rules import names
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


def ingest_doc(job: str) -> str:
    return names.job_part(job, "ingest")


def snapshot_doc(job: str) -> str:
    return names.job_part(job, "raw-snapshot")


def raw_dir(job: str) -> str:
    """The staged raw files; they go when their snapshot has landed."""
    return f"{names.job_dir(job)}/raw"


def index_doc(job: str) -> str:
    return names.job_part(job, "knowledge-index")


def projected_doc(job: str) -> str:
    return names.job_part(job, "projected")


def outcome_doc(job: str) -> str:
    return names.job_part(job, "ingest-outcome")


def job_file(job: str) -> str:
    return names.job_part(job, "job-file")


def rows_journal(connection: str, source: str) -> str:
    return f"provenance/{journal_name(connection, source)}/rows.jsonl"


def states_journal(connection: str, source: str) -> str:
    return f"provenance/{journal_name(connection, source)}/raw.jsonl"


def pending_dir(connection: str, source: str) -> str:
    """Provenance that is written down before its job lands, and goes into the journals after it."""
    return f"provenance/{journal_name(connection, source)}/pending"


def pending_doc(connection: str, source: str, job: str) -> str:
    return f"{pending_dir(connection, source)}/{job}.json"


def lock(connection: str, source: str) -> str:
    """One ingestion of a connection and source at a time."""
    return f"locks/ingest-{journal_name(connection, source)}.lock"


def cache_doc(key: str) -> str:
    """A cached unit. `key`: its content digest."""
    return f"ingest-cache/{key[3:5]}/{key[3:]}.json"


def unit_base_ref(job: str) -> str:
    """Keeps the commit that units start from: the job's base without raw files."""
    return f"refs/ktx/jobs/{job}/unit-base"


TIME = len("YYYY-MM-DD-HHMMSS")
_SYNC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{6}-")


def syncs(paths: Iterable[str], connection: str, source: str) -> dict[str, list[str]]:
    """The paths of each snapshot that a tree keeps of a source, oldest first (their names begin with their time)."""
    top = f"{ROOT}/{connection}/{source}/"
    found: dict[str, list[str]] = {}
    for path in paths:
        name = path[len(top) :].partition("/")[0] if path.startswith(top) else ""
        if _SYNC.match(name):
            found.setdefault(name, []).append(path)
    return dict(sorted(found.items()))


def landed(there: Collection[str]) -> Callable[[str], bool]:
    """Whether what is known of a sync is true of a tree. `there`: the snapshots that the tree has; older ones may have
    gone, a newer one that it has not landed elsewhere, or was taken back."""
    oldest = min(there, default="")[:TIME]
    return lambda sync: sync in there or sync[:TIME] <= oldest


def to_remove(paths: Iterable[str], connection: str, source: str, keep: int) -> dict[str, list[str]]:
    """The snapshots that go when one more lands and `keep` (1 or more) are to be there then."""
    assert keep >= 1
    kept = syncs(paths, connection, source)
    return dict(list(kept.items())[: max(0, len(kept) - (keep - 1))])
