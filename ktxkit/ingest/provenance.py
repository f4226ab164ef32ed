"""What raw files led to, and what artifacts come from: both directions of the provenance journals.

Where something comes from: a run, a commit or tree, an artifact, a job's unit. Only what is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.errors import KtxError
from ktxkit.ingest.rules.places import snapshot_root
from ktxkit.ledger import event_log
from ktxkit.ledger.asking import LedgerQuery, ensure, source
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.rules.rows import Row, answer, run_row
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, Provenance, ProvenanceRow


TOP = "provenance"


def provenance_rows(world: World, what: str) -> list[Row]:
    """Every row whose raw file or artifact is meant, oldest first.

    `what`: a raw path, also with its snapshot's directory, an artifact's key (a page's, `connection/source`), its path
    in the tree, or the digest of a raw file's or an artifact's content. Raises BrokenContract for a damaged journal.
    """
    found: list[Row] = []
    for name in world.store.children(TOP):
        journal = Journal(world.store.path(f"{TOP}/{name}/rows.jsonl"), kinds.PROVENANCE_ROW, world.clock)
        for number, row in enumerate(journal.records(), start=1):
            found += _row(row, what, f"{TOP}/{name}/rows.jsonl:{number}")
        for place, document in _landed(world, name):
            found += [one for row in document["rows"] for one in _row(row, what, place)]
    return found


def _landed(world: World, name: str) -> Iterator[tuple[str, Provenance]]:
    """Provenance of jobs that landed, but were cut off before it was in the journal."""
    for waiting in world.store.children(f"{TOP}/{name}/pending"):
        place = f"{TOP}/{name}/pending/{waiting}"
        document = world.store.read_optional(kinds.PROVENANCE, place) if waiting.endswith(".json") else None
        if document is not None and ActiveJob.load(world, document["jobId"]).state == "landed":
            yield place, document


def _row(row: ProvenanceRow, what: str, source: str) -> list[Row]:
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


SHORTEST = 7  # hex digits of an abbreviated id


def provenance(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Every record that names X: what a raw file led to, what an artifact comes from; runs, jobs and receipts, events
    of a run, a commit or revision, a tree, a digest."""
    (asked,) = ask.subject
    index = ensure(world)
    what = _resolved(world, asked)
    rows = [*provenance_rows(world, asked), *_runs(index, ask, what), *_jobs(world, what), *_artifacts(world, what)]
    reason = "" if rows else "no record names it"
    return answer("provenance", rows, subject=[what], project=ask.project, reason=reason, facts={"records": len(rows)})


def _resolved(world: World, what: str) -> str:
    """A revision's commit; anything else as it is."""
    try:
        return world.git.resolve(what) or what
    except KtxError:
        return what  # no repository, or a name that git refuses: then it is not a revision


def _runs(index: Index, ask: LedgerQuery, what: str) -> list[Row]:
    """Runs that are it, or that ran on it."""
    marks = ", ".join("?" for _ in ask.projects)
    found = index.rows(f"SELECT * FROM runs WHERE project IN ({marks}) AND closed = 1 ORDER BY seq", *ask.projects)
    rows: list[Row] = []
    for run in found:
        record = json.loads(run["record"])
        tools = record.get("tools", {})
        how = "is" if run["run"] == what else _names(what, {"commit": run["commit_id"], "tree": run["tree"]})
        if how:
            line = run_row(record, source(run))
            kept = {key: line[key] for key in ("run", "started", "scope", "verdict", "trigger", "source")}
            rows.append(
                {"kind": "run", "how": how, **kept, "imported": tools.get("name"), "format": tools.get("format")}
            )
    return rows


def _names(what: str, ids: dict[str, Any]) -> str:
    """Which of some git ids are meant: whole, or abbreviated to at least SHORTEST digits."""
    meant = [key for key, value in ids.items() if value and (value == what or _abbreviates(what, value))]
    return f"ran on its {' and '.join(meant)}" if meant else ""


def _abbreviates(what: str, whole: str) -> bool:
    return len(what) >= SHORTEST and whole.startswith(what)


def _jobs(world: World, what: str) -> list[Row]:
    """Jobs that started from it or landed as it, and units whose receipt or patch names it."""
    rows: list[Row] = []
    for job_id in jobs.begun(world):
        job = ActiveJob.load(world, job_id)
        ids = {
            "base": job.document.get("base"),
            "target at start": job.document["targetAtStart"],
            "landed": job.document.get("landed", {}).get("commit"),
        }
        rows += [_job_row(job_id, f"{key} of the job", names.job_doc(job_id)) for key in _matching(what, ids)]
        for unit in job.units:
            for kind in ("patch", "receipt"):
                place = names.unit_doc(job_id, unit.position, unit.key, kind)
                document = world.store.read_optional(kind, place)
                if document is not None:
                    found = {key: document.get(key) for key in ("commit", "tree", "patchDigest", "digest", "base")}
                    rows += [
                        _job_row(job_id, f"{key} of the {kind}", place, unit.key) for key in _matching(what, found)
                    ]
    return rows


def _matching(what: str, ids: dict[str, Any]) -> list[str]:
    return [
        key for key, value in ids.items() if isinstance(value, str) and (value == what or _abbreviates(what, value))
    ]


def _job_row(job_id: str, how: str, place: str, unit: str = "") -> Row:
    return {"kind": "job", "how": how, "job": job_id, "unit": unit or None, "source": place}


def _artifacts(world: World, what: str) -> list[Row]:
    """Events that refer to a kept body."""
    if not what.startswith("b3:"):
        return []
    rows: list[Row] = []
    for name in world.store.children("ledger/events"):
        place = f"ledger/events/{name}"
        for number, event in event_log.read(world.store.path(place)):
            if event is not None and what in json.dumps(event):
                about = {key: event[key] for key in ("event", "test") if key in event}
                rows.append({"kind": "artifact", "how": "referred to", **about, "source": f"{place}:{number}"})
    return rows
