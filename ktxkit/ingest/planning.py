"""From a snapshot to a plan: what changed, which units that needs, and a job file of them.

What an ingestion was asked for, as a value and as the document that a resumed one reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit import __file__ as package
from ktxkit.base import contracts
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Refused
from ktxkit.base.rules.digests import digest
from ktxkit.gates import configuration
from ktxkit.git.objects import Objects
from ktxkit.ingest.account import Baseline
from ktxkit.ingest.connectors.interface import Reading, Setting, connector
from ktxkit.ingest.knowledge import Knowledge
from ktxkit.ingest.rules import planning
from ktxkit.ingest.rules.places import check_name, snapshot_root, syncs
from ktxkit.ingest.rules.planning import EVICTIONS, Difference, Evictions, Selected, difference
from ktxkit.ingest.rules.projection import Applied, apply
from ktxkit.ingest.staging import StagedFiles
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.rules.job_file import RECONCILE, isolate_of

if TYPE_CHECKING:
    from ktxkit.base.documents import Ingest, UnitEntry


@dataclass(frozen=True)
class Planned:
    """A plan: the difference, the projection and what it does to the tree, the units that run, what goes."""

    difference: Difference
    reading: Reading
    applied: Applied
    selected: Sequence[Selected]
    evictions: Evictions

    @property
    def nothing(self) -> bool:
        return not (self.difference.changed or self.applied.changes or self.selected or self.evictions.paths)


def read_snapshot(request: IngestRequest, staged: StagedFiles, known: Knowledge) -> Reading:
    """The connector's reading of a snapshot. Raises KtxError."""
    taken, readers = known.declared(request.connection, request.owner)
    setting = Setting(request.connection, request.options, taken, readers)
    return connector(request.connector).read(staged, setting)


def differ(
    world: World, request: IngestRequest, snapshot: Document, reading: Reading, base: Baseline, known: Knowledge
) -> Difference:
    """The difference to what landed. What could not be fetched, or is out of scope, is not deleted.

    Raises Refused where the source is empty although it was not: a wrong address must not remove what is known.
    """
    current = {one["rawPath"]: one["digest"] for one in snapshot["files"]}
    alive = [path for path, one in base.known.items() if not one.deleted]
    if not current and alive and not request.allow_empty:
        raise Refused(
            f"the source is empty, {len(alive)} raw files of it are known",
            location=request.path or request.url,
            hint="is it the right place? --allow-empty means that everything was deleted",
        )
    unfetched = set(snapshot.get("unfetched", ()))
    with Objects(world.git) as objects:

        def before(path: str) -> bytes | None:
            blob = _before(request, base, known, path)
            return objects.read(blob) if blob else None

        def in_scope(path: str) -> bool:
            return path not in unfetched and reading.in_scope(path, lambda: before(path))

        return difference(current, base.known, in_scope, set(snapshot.get("carried", ())))


def not_looked_at(
    request: IngestRequest, snapshot: Document, difference: Difference, base: Baseline, known: Knowledge
) -> dict[str, str]:
    """Raw files that this sync had not (out of scope, or not to be had) and that are not deleted: path to blob in the
    last snapshot with them. What they led to stays only where they are read with the rest."""
    there = {one["rawPath"] for one in snapshot["files"]} | set(difference.deleted)
    absent = [path for path, one in base.known.items() if path not in there and not one.deleted]
    return {path: blob for path in absent if (blob := _before(request, base, known, path))}


def _before(request: IngestRequest, base: Baseline, known: Knowledge, path: str) -> str:
    """The blob of a raw file in the snapshot that its last unit had, or in the newest that has it; empty for none."""
    kept = [base.known[path].sync_id, *reversed(syncs(known.files, request.connection, request.source))]
    places = (f"{snapshot_root(request.connection, request.source, sync)}/{path}" for sync in kept)
    return next((known.files[place] for place in places if place in known.files), "")


def plan(
    world: World,
    request: IngestRequest,
    snapshot: Document,
    reading: Reading,
    base: Baseline,
    known: Knowledge,
    difference: Difference,
) -> Planned:
    """The plan. Raises CannotRun for a connector's plan that no job can be made of, KtxError for one that fails."""
    paths = {one["rawPath"] for one in snapshot["files"]}
    proposals = planning.unit_order(list(reading.plan()))
    planning.check_proposals(proposals, paths)
    projection = reading.project()
    gone = planning.evictions(base.last, difference.deleted, _artifacts(world, base, known, difference.deleted))
    applied = apply(projection, request.owner, known.texts)
    removed = {path for path, text in applied.changes.items() if text is None}
    gone = planning.Evictions(tuple(p for p in gone.paths if p not in removed), gone.kept, gone.retried)
    again = paths - set(snapshot.get("carried", ())) if request.everything else gone.retried
    return Planned(difference, reading, applied, planning.select(proposals, difference, base.known, again), gone)


def _artifacts(world: World, base: Baseline, known: Knowledge, deleted: Sequence[str]) -> dict[str, str]:
    """Digest of each artifact that a deleted raw file led to and that is there."""
    wanted = {row["artifactPath"] for raw in deleted for row in base.last.get(raw, ()) if "artifactPath" in row}
    with Objects(world.git) as objects:
        return {path: digest(objects.read(known.files[path])) for path in sorted(wanted) if path in known.files}


def job_file(request: IngestRequest, job: ActiveJob, planned: Planned) -> Document:
    """The job file: evictions first, then the units in the order of what they build on, then reconciliation."""
    root = snapshot_root(request.connection, request.source, job.document["syncId"])
    limit = {"timeLimit": request.time_limit} if request.time_limit else {}
    units: list[Document] = []
    if planned.evictions.paths:
        units.append({"key": EVICTIONS, "run": [*built_in("pages"), "evict"], "displayName": "Evictions"})
    for one in planned.selected:
        units.append(
            {
                "key": one.proposal.key,
                "displayName": one.proposal.title or one.proposal.key,
                "rawFiles": [f"{root}/{raw}" for raw in one.proposal.raw_files],
                "dependencyPaths": [f"{root}/{raw}" for raw in one.proposal.dependency_paths],
                **limit,
            }
        )
    reconcile = [*request.reconcile] or built_in_module("reconcile")
    made: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "job": job.id,
        "connectionId": request.connection,
        "sourceKey": request.source,
        "syncId": job.document["syncId"],
        "run": request.work_argv,
        "policy": POLICY,
        "onFailure": request.on_failure,
        "onConflict": request.on_conflict,
        "units": units,
        "message": message(request, job, planned),
        **({"reconcile": {"run": reconcile, "timeLimit": RECONCILE_LIMIT}} if units and request.reconciles else {}),
        **({"verify": {"run": [*request.verify]}} if request.verify else {}),
        **({} if request.isolate is None else {"isolate": {"write": list(request.isolate)}}),
    }
    contracts.validate("job-file", made, "the planned job")
    return made


def message(request: IngestRequest, job: ActiveJob, planned: Planned) -> str:
    """The landing commit's message."""
    told = planned.difference.summary()
    counts = ", ".join(f"{count} {word}" for word, count in told.items() if count and word != "unchanged")
    subject = f"Ingest {request.connection} from {request.source}: {counts or 'nothing new'}"
    return f"{subject}\n\nSync {job.document['syncId']}\n"


def _evicted(planned: Planned) -> dict[str, list[str]]:
    """What the unit that removes pages is told: which, and for which raw files."""
    deleted = planned.difference.document()["deleted"][:REASONS_SHOWN]
    return {"evictions": list(planned.evictions.paths), "reasons": [f"{raw} deleted" for raw in deleted]}


def work_unit(
    request: IngestRequest, job: ActiveJob, planned: Planned, base: Baseline, key: str, now: Callable[[str], str]
) -> Document:
    """What the worker of a unit is told. `key`: a selected unit's, the evictions' or the reconciliation's.

    `now`: the digest of what is at a path, empty where nothing is.
    """
    one = next((one for one in planned.selected if one.proposal.key == key), None)
    common: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "work-unit",
        "jobId": job.id,
        "unitKey": key,
        "connectionId": request.connection,
        "sourceKey": request.source,
        "syncId": job.document["syncId"],
        "rawRoot": snapshot_root(request.connection, request.source, job.document["syncId"]),
        "rawFiles": [],
    }
    if one is None:
        return common | (_evicted(planned) if key == EVICTIONS else {})
    proposal, raws = one.proposal, (*one.proposal.raw_files, *one.proposal.dependency_paths)
    inside = {name: [p for p in paths if p in raws] for name, paths in planned.difference.document().items()}
    return common | {
        "displayName": proposal.title or key,
        "rawFiles": list(proposal.raw_files),
        "dependencyPaths": list(proposal.dependency_paths),
        "peerFileIndex": list(proposal.peers),
        "peerCount": len(proposal.peers),
        "reasons": list(one.reasons),
        "difference": inside,
        "priorArtifacts": prior(base, raws, now),
        "factsDigest": proposal.facts_digest,
        "facts": dict(proposal.facts),
    }


_ARTIFACT = ("artifactKind", "artifactKey", "artifactPath", "targetConnectionId", "artifactContentHash")


def prior(base: Baseline, raws: Sequence[str], now: Callable[[str], str]) -> list[Document]:
    """What these raw files led to when they were last taken; `edited` where somebody changed it since."""
    found = [
        {"rawPath": raw, **{key: row[key] for key in _ARTIFACT if key in row}, **_edited(row, now)}
        for raw in raws
        for row in base.last.get(raw, ())
        if "artifactPath" in row
    ]
    return found[:100_000]


def _edited(row: Mapping[str, Any], now: Callable[[str], str]) -> Document:
    there = now(row["artifactPath"]) if "artifactContentHash" in row else ""
    return {"edited": True} if there and there != row["artifactContentHash"] else {}


def due(planned: Planned, base: Baseline) -> set[str]:
    """Artifacts that the units of a plan wrote before, and those that it removes."""
    raws = [raw for one in planned.selected for raw in one.proposal.raw_files]
    found = {str(row["artifactPath"]) for raw in raws for row in base.last.get(raw, ()) if "artifactPath" in row}
    return found | set(planned.evictions.paths)


def units_of(document: Document) -> list[UnitEntry]:
    """Units of a job in order, as its document lists them."""
    keys = [str(one["key"]) for one in document["units"]]
    units: list[UnitEntry] = [{"position": number, "key": key} for number, key in enumerate(keys, start=1)]
    if "reconcile" in document:
        units.append({"position": len(units) + 1, "key": RECONCILE, "after": keys})
    return units


def write_units(request: IngestRequest, job: ActiveJob, planned: Planned, base: Baseline, known: Knowledge) -> None:
    """The document of each unit, in its directory. One by one: no two are in memory."""
    with Objects(job.world.git) as objects:

        def now(path: str) -> str:
            return digest(objects.read(known.files[path])) if path in known.files else ""

        pins = _pins(objects, known)
        for entry in job.document["units"]:
            place = names.unit_doc(job.id, entry["position"], entry["key"], "work-unit")
            made = {**work_unit(request, job, planned, base, entry["key"], now), **pins}
            job.world.writable_store.write("work-unit", place, made, durable=False)


def _pins(objects: Objects, known: Knowledge) -> Mapping[str, Any]:
    """What people chose as canonical: each worker is told, and the gates hold it."""

    def load(path: bytes) -> bytes | None:
        blob = known.files.get(path.decode("utf-8", "surrogateescape"))
        return objects.read(blob) if blob is not None else None

    config = configuration.make({}, load)
    pins = [{"contestedKey": topic, "canonicalArtifactKey": place} for topic, place in config.options.pins]
    return {"canonicalPins": pins} if pins else {}


CONTRACT = "ingest"
POLICY: Document = {"allow": ["wiki", "semantic-layer"], "textRoots": ["wiki", "semantic-layer"]}
REASONS_SHOWN = 100
RECONCILE_LIMIT = 3600.0  # seconds for the built-in reconciliation


@dataclass(frozen=True)
class IngestRequest:
    """One ingestion: which source, where, who works, how."""

    connector: str
    connection: str
    source: str
    path: str = ""
    url: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    worker: tuple[str, ...] = ()
    reconcile: tuple[str, ...] = ()
    reconciles: bool = True
    verify: tuple[str, ...] = ()
    time_limit: float | None = None
    on_failure: str = "continue"
    everything: bool = False
    allow_empty: bool = False
    cache: bool = True
    on_conflict: str = "set-aside"
    isolate: tuple[str, ...] | None = None  # as in a job file

    @property
    def owner(self) -> str:
        """Whose projected files are."""
        return f"{self.connection}/{self.source}"

    @property
    def work_argv(self) -> list[str]:
        return [*self.worker] or built_in("pages")

    def check(self) -> None:
        """Raises CannotRun for names that cannot be directories, and an address that must not be kept."""
        check_name("connection", self.connection)
        check_name("source", self.source)
        if self.url:
            from ktxkit.ingest.connectors.http import check_address

            check_address(self.url)

    def document(self, job_id: str, override: str) -> Document:
        """What is kept of it. Credentials are in the environment and never here."""
        optional = {
            "place": self.path,
            "url": self.url,
            "worker": list(self.worker),
            "reconcile": list(self.reconcile),
            "verify": list(self.verify),
            "options": dict(self.options),
            "timeLimit": self.time_limit,
            "overrideOf": override,
        }
        return {
            "schemaVersion": SCHEMA_VERSION,
            "kind": CONTRACT,
            "jobId": job_id,
            "connector": self.connector,
            "connectionId": self.connection,
            "sourceKey": self.source,
            **{key: value for key, value in optional.items() if value},
            "reconciles": self.reconciles,
            "onFailure": self.on_failure,
            "onConflict": self.on_conflict,
            "everything": self.everything,
            "allowEmpty": self.allow_empty,
            "cache": self.cache,
            **({} if self.isolate is None else {"isolate": {"write": list(self.isolate)}}),
        }

    @classmethod
    def of(cls, document: Ingest) -> IngestRequest:
        return cls(
            document["connector"],
            document["connectionId"],
            document["sourceKey"],
            document.get("place", ""),
            document.get("url", ""),
            document.get("options", {}),
            tuple(document.get("worker", ())),
            tuple(document.get("reconcile", ())),
            document.get("reconciles", True),
            tuple(document.get("verify", ())),
            document.get("timeLimit"),
            document.get("onFailure", "continue"),
            document.get("everything", False),
            document.get("allowEmpty", False),
            document.get("cache", True),
            on_conflict=document.get("onConflict", "set-aside"),
            isolate=isolate_of(document),
        )


def built_in(name: str) -> list[str]:
    """A worker that comes with ingestion, started without anything that its directory or the user's could bring in."""
    return [sys.executable, "-I", "-S", str(Path(package).parent / "ingest" / "workers" / f"{name}.py")]


def built_in_module(name: str) -> list[str]:
    """One that needs the library."""
    return [sys.executable, "-P", "-m", f"ktxkit.ingest.workers.{name}"]
