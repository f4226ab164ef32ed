"""What earlier syncs of a connection and source really landed: their journals, and provenance that still waits.

Provenance is written down before a job lands and goes into the journals after it. A process that dies between leaves it
waiting; the next ingestion of the same connection and source puts it in where the job landed, exactly once.

The provenance of a job: what each unit's patch touched, what its worker said of it, and what is in the tree now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ktxkit.base import files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.rules.digests import digest
from ktxkit.gates import facts as gate_facts
from ktxkit.git.objects import Objects
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.artifacts import (
    REMOVED,
    SOURCE,
    WIKI,
    Artifact,
    ArtifactChange,
    UnitProvenance,
    actions_changes,
    artifact_of,
    last_artifacts,
    rows_of,
)
from ktxkit.ingest.rules.places import landed, snapshot_root, syncs
from ktxkit.ingest.rules.planning import EVICTIONS, SETTLED, Difference, LastSync, fold
from ktxkit.ingest.rules.projection import PROJECT
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work import recover
from ktxkit.work.rules.job_file import RECONCILE
from ktxkit.work.rules.schedule import LANDED

if TYPE_CHECKING:
    from ktxkit.base.documents import Patch, PatchPath, Provenance, ProvenanceRow, RawState
    from ktxkit.base.kinds import D


PENDING = "provenance"
TAIL = 64 * 1024  # bytes of a journal's end that hold its last record


@dataclass(frozen=True)
class Baseline:
    """`known`: the last word on each raw path. `last`: the rows of the last sync of each."""

    known: Mapping[str, LastSync] = field(default_factory=dict)
    last: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def journals(world: World, connection: str, source: str) -> tuple[Journal[ProvenanceRow], Journal[RawState]]:
    """The rows, and the states of raw files."""
    store, clock = world.store, world.clock
    rows = Journal(store.path(places.rows_journal(connection, source)), kinds.PROVENANCE_ROW, clock)
    return rows, Journal(store.path(places.states_journal(connection, source)), kinds.RAW_STATE, clock)


def load(world: World, connection: str, source: str, start: str) -> Baseline:
    """What landed on the branch whose commit is `start`: what landed on another one, or was taken back, did not.

    Raises BrokenContract for a damaged journal: what is unknown must not be taken for new or deleted.
    """
    top = snapshot_root(connection, source, "")
    listed = world.git.at(world.repository.directory).run("ls-tree", "-z", "--name-only", start, top).nul
    there = landed(syncs((f"{os.fsdecode(path)}/" for path in listed), connection, source))
    rows, states = journals(world, connection, source)
    return Baseline(
        fold(one for one in states.records() if there(one["syncId"])),
        last_artifacts(one for one in rows.records() if there(one["syncId"])),
    )


def waiting(world: World, connection: str, source: str) -> Iterator[Provenance]:
    """Provenance that is not in the journals yet."""
    for name in world.store.children(places.pending_dir(connection, source)):
        if name.endswith(".json"):
            yield world.store.read(kinds.PROVENANCE, f"{places.pending_dir(connection, source)}/{name}")


def settle_provenance(world: World, connection: str, source: str) -> list[str]:
    """Put waiting provenance of landed jobs into the journals, drop that of jobs that ended otherwise; jobs put in."""
    # whoever wrote there is dead
    files.sweep_asides(world.store.path(places.pending_dir(connection, source)), world.store.root)
    done = []
    for document in list(waiting(world, connection, source)):
        job = ActiveJob.load(world, document["jobId"])
        recover.recover(job)
        job = ActiveJob.load(world, document["jobId"])
        if job.state == "landed":
            append(world, document)
            done.append(str(document["jobId"]))
        elif "finishedAt" in job.document:
            drop(world, document)
    return done


def append(world: World, document: Provenance) -> None:
    """Put a job's provenance into the journals, unless it is there, and let go of what waited."""
    rows, states = journals(world, document["connectionId"], document["sourceKey"])
    _add(rows, document["rows"], document["jobId"])
    _add(states, document["states"], document["jobId"])
    drop(world, document)


def _add(journal: Journal[D], records: Sequence[D], job_id: str) -> None:
    files.make_dirs(journal.path.parent)
    if records and _last_job(journal.path) != job_id:
        journal.append(records, durable=True)


def drop(world: World, document: Mapping[str, Any]) -> None:
    world.writable_store.remove(places.pending_doc(document["connectionId"], document["sourceKey"], document["jobId"]))


def _last_job(journal: Path) -> str:
    """The job of the last whole record: one job's records are appended together, under the lock of its source."""
    try:
        with files.reading(journal) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            lines = stream.read().rpartition(b"\n")[0].splitlines()
    except FileNotFoundError:
        return ""
    from ktxkit.base import contracts

    return str(contracts.parse(lines[-1], str(journal))["jobId"]) if lines else ""


SHARED: Final = ("jobId", "connectionId", "sourceKey", "syncId")  # keys of a job that its rows have too
CREATED = {SOURCE: "source_created", WIKI: "wiki_written"}


@dataclass
class Account:
    """Everything that a job's provenance is made of. `tree`: path to blob id of the tree that is to land."""

    job: ActiveJob
    snapshot: Document
    difference: Difference
    baseline: Baseline
    projected: Document
    outcomes: Mapping[str, str]
    tree: Mapping[str, str]
    subsumed: dict[str, str] = field(default_factory=dict)  # a path that reconciliation removed: what stands for it
    resolutions: list[Document] = field(default_factory=list)
    written: dict[str, set[str]] = field(default_factory=dict)  # a page that units wrote: the blobs that they left

    def rows(self, objects: Objects) -> list[Document]:
        """Every row of the sync, whole."""
        digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}
        digests |= {raw: self.baseline.known[raw].digest for raw in self.difference.deleted}
        before = {str(row.get("artifactPath", "")): row for known in self.baseline.last.values() for row in known}
        states = self.states()
        settled = [raw for raw, state in states.items() if state["outcome"] in SETTLED]
        works = [self._projection(), *self._units(objects), *self._removed()]
        rows = rows_of([*works, self._carried(works, settled)], settled, digests, self.difference.deleted)
        return [self._whole(row, objects, before) for row in rows]

    def _whole(self, row: Document, objects: Objects, before: Mapping[str, Mapping[str, Any]]) -> Document:
        """The row with what every row shares, and its artifact's content."""
        path = row.get("artifactPath", "")
        content = self._content(path, objects, before.get(path, {})) if path in self.tree else {}
        merged = {"subsumedBy": path} if row["actionType"] == "subsumed" and path else {}
        return {"schemaVersion": SCHEMA_VERSION, "kind": "provenance", **self._shared(), **row, **content, **merged}

    def _content(self, path: str, objects: Objects, before: Mapping[str, Any]) -> Document:
        """Digest and blob of an artifact as we wrote it. A page that a person edits keeps what was written last: else
        the edit would be taken for ours the next time."""
        own = self.written.get(path, set())
        known = {key: before[key] for key in ("artifactContentHash", "artifactBlob") if key in before}
        if path.startswith("wiki/") and not own and known:
            return known
        blob = min(own) if path.startswith("wiki/") and len(own) == 1 else self.tree[path]
        return {"artifactContentHash": digest(objects.read(blob)), "artifactBlob": blob}

    def _shared(self) -> Document:
        return {**{key: self.job.document[key] for key in SHARED}, "at": timestamp(self.job.world.clock.now())}

    def _removed(self) -> Iterator[UnitProvenance]:
        """What went with deleted raw files: by the unit of evictions, or as a projected source."""
        projected = set(self.projected.get("removed", ()))
        for raw in self.difference.deleted:
            for row in self.baseline.last.get(raw, ()):
                path = row.get("artifactPath", "")
                if path and path not in self.tree:
                    artifact = Artifact(
                        row["artifactKind"], row["artifactKey"], path, row.get("targetConnectionId", "")
                    )
                    unit = PROJECT if path in projected else EVICTIONS
                    yield UnitProvenance(unit, (), (ArtifactChange(path, artifact, REMOVED, (raw,)),))

    def _projection(self) -> UnitProvenance:
        """What the projection did: each artifact with the raw files that it comes from."""
        changes = []
        for one in self.projected["changes"]:
            connection = one.get("targetConnectionId", "")
            artifact = Artifact(SOURCE, one["artifactKey"], one["path"], connection)
            changes.append(ArtifactChange(one["path"], artifact, one["actionType"], tuple(one["rawPaths"])))
        return UnitProvenance(PROJECT, (), tuple(one for one in changes if one.path in self.tree))

    def _units(self, objects: Objects) -> Iterator[UnitProvenance]:
        entries = self.job.units
        for unit in reversed(entries):  # reconciliation is the last: what it removed is known first
            if unit.key == RECONCILE and self.outcomes.get(unit.key) in LANDED:
                self._note_removed(unit)
        for unit in entries:
            if self.outcomes.get(unit.key) in LANDED and unit.key != EVICTIONS:
                yield self._unit(objects, unit)

    def _note_removed(self, unit: Unit) -> None:
        for action in self._actions(unit):
            if action.get("actionType") == "subsumed" and "subsumedBy" in action:
                self.subsumed[action["path"]] = action["subsumedBy"]

    def _unit(self, objects: Objects, unit: Unit) -> UnitProvenance:
        patch = self.job.world.store.read(kinds.PATCH, self.job.unit_doc(unit, "patch"))
        raws = tuple(self._told(unit)["rawFiles"])
        touched = dict(self._touched(objects, unit, patch))
        removed = set(self.subsumed) if unit.key == RECONCILE else set()
        said = [one for one in self._actions(unit) if one["path"] not in removed]
        changes = [self._resolved(unit, change) for change in actions_changes(said, touched)]
        kept = [one for one in changes if one.path in self.tree or one.path not in touched]
        return UnitProvenance(unit.key, raws, tuple(kept))

    def _touched(self, objects: Objects, unit: Unit, patch: Patch) -> Iterator[tuple[str, ArtifactChange]]:
        """The artifacts that a patch changes, each with the word for what happened to it."""
        subsumed = self.outcomes[unit.key] == "subsumed"
        for entry in patch["paths"]:
            artifact = artifact_of(entry["path"]) if "pathB64" not in entry else None
            if artifact is None:
                continue
            word = "subsumed" if subsumed else action_of(objects, entry, artifact)
            if not subsumed and entry["change"] != "deleted":
                self.written.setdefault(entry["path"], set()).add(entry["newId"])
            if entry["change"] != "deleted" or entry["path"] in self.subsumed:
                yield entry["path"], ArtifactChange(entry["path"], named(objects, entry, artifact), word)

    def _resolved(self, unit: Unit, change: ArtifactChange) -> ArtifactChange:
        """A change of an artifact that reconciliation merged into another is a change of that one."""
        into = self.subsumed.get(change.path)
        artifact = artifact_of(into) if into else None
        if into is None or artifact is None:
            return change
        if unit.key != RECONCILE:
            self.resolutions.append({"path": change.path, "resolution": "subsumed", "into": into, "unitKey": unit.key})
        return replace(change, path=into, artifact=artifact, action="subsumed")

    def _carried(self, works: Sequence[UnitProvenance], settled: Sequence[str]) -> UnitProvenance:
        """What a raw file led to before, is there still, and was not touched now: it still comes from it."""
        now = {(raw, c.path) for work in works for c in work.changes for raw in c.origins or work.raw_files}
        gone = set(self.difference.deleted)
        changes = []
        for raw in settled:
            for row in self.baseline.last.get(raw, ()) if raw not in gone else ():
                path = row.get("artifactPath", "")
                if path in self.tree and (raw, path) not in now:
                    artifact = Artifact(
                        row["artifactKind"], row["artifactKey"], path, row.get("targetConnectionId", "")
                    )
                    changes.append(ArtifactChange(path, artifact, row["actionType"], (raw,)))
        return UnitProvenance(PROJECT, (), tuple(changes))

    def states(self) -> dict[str, Document]:
        """How the work on each raw file ended that this sync had to look at, by raw path."""
        digests = {one["rawPath"]: one["digest"] for one in self.snapshot["files"]}
        found: dict[str, Document] = {}
        for unit in self.job.units:
            told = self._told(unit)
            outcome = self.outcomes.get(unit.key, "skipped_unit")
            unfinished = set(self._result(unit).get("unfinished", ()))
            for raw in told["rawFiles"]:
                word = "unfinished" if raw in unfinished else outcome
                found[raw] = self._state(raw, digests[raw], _of_unit(word), unit.key, told.get("factsDigest", ""))
        for raw in (*self.difference.added, *self.difference.modified):
            found.setdefault(raw, self._state(raw, digests[raw], "skipped"))
        evicted = self.outcomes.get(EVICTIONS, "skipped")
        for raw in self.difference.deleted:
            found[raw] = self._state(raw, self.baseline.known[raw].digest, _of_unit(evicted)) | {"deleted": True}
        return found

    def _state(self, raw: str, content: str, outcome: str, unit: str = "", facts: str = "") -> Document:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "kind": "raw-state",
            **self._shared(),
            "rawPath": raw,
            "rawContentHash": content,
            "outcome": outcome,
            **({"unitKey": unit} if unit else {}),
            **({"factsDigest": facts} if facts else {}),
        }

    def _told(self, unit: Unit) -> Document:
        return self.job.world.store.read("work-unit", self.job.unit_doc(unit, "work-unit"))

    def _result(self, unit: Unit) -> Document:
        """A unit's account of itself; that of one that is not in counts for nothing, and may be damaged."""
        if self.outcomes.get(unit.key) not in LANDED:
            return {}
        return self.job.world.store.read_optional("unit-actions", self.job.unit_doc(unit, "actions")) or {}

    def _actions(self, unit: Unit) -> list[Document]:
        return list(self._result(unit).get("actions", ()))

    def near_duplicates(self) -> list[Document]:
        return [one for unit in self.job.units for one in self._result(unit).get("nearDuplicates", ())]

    def statements(self, key: str) -> Sequence[Mapping[str, Any]]:
        """What units say under a key of their account (`unmapped`, `conflictsResolved`), each with its unit."""
        return [{**one, "unitKey": u.key} for u in self.job.units for one in self._result(u).get(key, ())]

    def warnings(self) -> list[str]:
        return [f"{u.key}: {one}" for u in self.job.units for one in self._result(u).get("warnings", ())]


def _of_unit(word: str) -> str:
    """A unit that never ran is no reason to take its raw files for looked at."""
    return word if word in LANDED or word != "skipped" else "not_run"


def action_of(objects: Objects, entry: PatchPath, artifact: Artifact) -> str:
    """What a change of an artifact's file is: a creation, a measure or join more, or something merged in."""
    if artifact.kind == WIKI or entry["change"] == "added":
        return CREATED.get(artifact.kind, "merged")
    if entry["change"] != "modified" or artifact.kind != SOURCE:
        return "merged"
    old, new = (_entities(objects, entry, name) for name in ("oldId", "newId"))
    if new["measures"] - old["measures"]:
        return "measure_added"
    return "join_added" if new["joins"] - old["joins"] else "merged"


def _entities(objects: Objects, entry: PatchPath, which: Literal["oldId", "newId"]) -> dict[str, set[str]]:
    facts = gate_facts.read(_kind(entry["path"]), objects.read(entry[which]))
    sources: Sequence[Mapping[str, Any]] = facts.get("sources", ())
    return {
        "measures": {f"{s['name']}.{name}" for s in sources for name, _, _ in s["measures"]},
        "joins": {f"{s['name']} {j['to']} {j.get('on', '')}" for s in sources for j in s["joins"]},
    }


def _kind(path: str) -> str:
    return "shard" if "/_schema/" in path else "source"


def named(objects: Objects, entry: PatchPath, artifact: Artifact) -> Artifact:
    """A source is named by what its file says, not by the file's name."""
    if artifact.kind != SOURCE or "newId" not in entry or _kind(entry["path"]) == "shard":
        return artifact
    if entry["kind"] not in ("regular", "executable"):
        return artifact
    sources = gate_facts.read("source", objects.read(entry["newId"])).get("sources", ())
    return replace(artifact, key=f"{artifact.connection}/{sources[0]['name']}") if sources else artifact


def pending(job: ActiveJob, tree: str, rows: list[Document], states: Mapping[str, Document]) -> Document:
    """The document that waits for the landing."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "provenance-of-job",
        **{key: job.document[key] for key in SHARED},
        "tree": tree,
        "rows": rows,
        "states": [states[raw] for raw in sorted(states, key=str.encode)],
    }


def pending_document(job: ActiveJob) -> str:
    return places.pending_doc(job.connection, job.source, job.id)
