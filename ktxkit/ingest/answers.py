"""What raw files led to, and what artifacts come from: both directions of the provenance journals."""

from __future__ import annotations

from collections.abc import Iterator

from ktxkit.base.contracts import Document
from ktxkit.ingest.baseline import PENDING, ROWS
from ktxkit.ingest.rules.raw_paths import snapshot_root
from ktxkit.ledger.rules.answers import Row
from ktxkit.store import jobs
from ktxkit.store.journal import Journal
from ktxkit.store.world import World

TOP = "provenance"


def rows(world: World, what: str) -> list[Row]:
    """Every row whose raw file or artifact is meant, oldest first.

    `what`: a raw path, also with its snapshot's directory, an artifact's key (a page's, `connection/source`), its path
    in the tree, or the digest of a raw file's or an artifact's content. Raises BrokenContract for a damaged journal.
    """
    found: list[Row] = []
    for name in world.store.children(TOP):
        journal = Journal(world.store.path(f"{TOP}/{name}/rows.jsonl"), ROWS, world.clock)
        for number, row in enumerate(journal.records(), start=1):
            found += _row(row, what, f"{TOP}/{name}/rows.jsonl:{number}")
        for place, document in _landed(world, name):
            found += [one for row in document["rows"] for one in _row(row, what, place)]
    return found


def _landed(world: World, name: str) -> Iterator[tuple[str, Document]]:
    """Provenance of jobs that landed, but were cut off before it was in the journal."""
    for waiting in world.store.children(f"{TOP}/{name}/pending"):
        place = f"{TOP}/{name}/pending/{waiting}"
        document = world.store.read_optional(PENDING, place) if waiting.endswith(".json") else None
        if document is not None and jobs.load(world, document["jobId"])["state"] == "landed":
            yield place, document


def _row(row: Document, what: str, source: str) -> list[Row]:
    root = snapshot_root(row["connectionId"], row["sourceKey"], row["syncId"])
    if what in (row["rawPath"], f"{root}/{row['rawPath']}"):
        how = "raw file"
    elif what in (row.get("artifactKey"), row.get("artifactPath")):
        how = "artifact"
    elif what in (row.get("rawContentHash"), row.get("artifactContentHash")):
        how = "digest"
    else:
        return []
    return [
        {
            "kind": "provenance",
            "how": how,
            "rawPath": row["rawPath"],
            "artifact": row.get("artifactKey"),
            "path": row.get("artifactPath"),
            "action": row["actionType"],
            "sync": row["syncId"],
            "job": row["jobId"],
            "unit": row.get("unitKey"),
            "source": source,
        }
    ]
