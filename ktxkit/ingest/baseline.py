"""What earlier syncs of a connection and source really landed: their journals, and provenance that still waits.

Provenance is written down before a job lands and goes into the journals after it. A process that dies between leaves it
waiting; the next ingestion of the same connection and source puts it in where the job landed, exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.difference import Known, fold
from ktxkit.ingest.rules.provenance import last_artifacts
from ktxkit.ingest.rules.raw_paths import snapshot_root
from ktxkit.ingest.rules.retention import landed, syncs
from ktxkit.store import jobs
from ktxkit.store.journal import Journal
from ktxkit.store.world import World
from ktxkit.work import recover

PENDING = "provenance"
ROWS, STATES = "provenance-row", "raw-state"
TAIL = 64 * 1024  # bytes of a journal's end that hold its last record


@dataclass(frozen=True)
class Baseline:
    """`known`: the last word on each raw path. `last`: the rows of the last sync of each."""

    known: Mapping[str, Known] = field(default_factory=dict)
    last: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def journals(world: World, connection: str, source: str) -> tuple[Journal, Journal]:
    """The rows, and the states of raw files."""
    store, clock = world.store, world.clock
    rows = Journal(store.path(places.rows_journal(connection, source)), ROWS, clock)
    return rows, Journal(store.path(places.states_journal(connection, source)), STATES, clock)


def load(world: World, connection: str, source: str, start: str) -> Baseline:
    """What landed on the branch whose commit is `start`: what landed on another one, or was taken back, did not.

    Raises BrokenContract for a damaged journal: what is unknown must not be taken for new or deleted.
    """
    top = snapshot_root(connection, source, "")
    listed = world.git.at(world.repository.place).run("ls-tree", "-z", "--name-only", start, top).nul
    there = landed(syncs((f"{os.fsdecode(path)}/" for path in listed), connection, source))
    rows, states = journals(world, connection, source)
    return Baseline(
        fold(one for one in states.records() if there(one["syncId"])),
        last_artifacts(one for one in rows.records() if there(one["syncId"])),
    )


def waiting(world: World, connection: str, source: str) -> Iterator[Document]:
    """Provenance that is not in the journals yet."""
    for name in world.store.children(places.pending_dir(connection, source)):
        if name.endswith(".json"):
            yield world.store.read(PENDING, f"{places.pending_dir(connection, source)}/{name}")


def settle(world: World, connection: str, source: str) -> list[str]:
    """Put waiting provenance of landed jobs into the journals, drop that of jobs that ended otherwise; jobs put in."""
    files.sweep_asides(world.store.path(places.pending_dir(connection, source)))  # whoever wrote there is dead
    done = []
    for document in list(waiting(world, connection, source)):
        job = jobs.load(world, document["jobId"])
        recover.recover(world, job)
        job = jobs.load(world, document["jobId"])
        if job["state"] == "landed":
            append(world, document)
            done.append(str(document["jobId"]))
        elif "finishedAt" in job:
            drop(world, document)
    return done


def append(world: World, document: Document) -> None:
    """Put a job's provenance into the journals, unless it is there, and let go of what waited."""
    rows, states = journals(world, document["connectionId"], document["sourceKey"])
    for journal, records in ((rows, document["rows"]), (states, document["states"])):
        files.make_dirs(journal.path.parent)
        if records and _last_job(journal) != document["jobId"]:
            journal.append(records, durable=True)
    drop(world, document)


def drop(world: World, document: Document) -> None:
    world.writable_store.remove(places.pending_doc(document["connectionId"], document["sourceKey"], document["jobId"]))


def _last_job(journal: Journal) -> str:
    """The job of the last whole record: one job's records are appended together, under the lock of its source."""
    try:
        with open(journal.path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            lines = stream.read().rpartition(b"\n")[0].splitlines()
    except FileNotFoundError:
        return ""
    from ktxkit.base import contracts

    return str(contracts.parse(lines[-1], str(journal.path))["jobId"]) if lines else ""
