"""How long snapshots stay in the tree: the newest of a source, as many as the repository's configuration says.

A snapshot goes as a whole, in the commit of a later sync. History still has it, and provenance names its raw files by
path and digest for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from ktxkit.ingest.rules.raw_paths import ROOT

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
