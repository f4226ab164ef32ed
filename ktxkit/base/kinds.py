"""The kinds of documents, each with the type of its documents: `store.read(kinds.JOB, path)` is a Job.

At run time a kind is its name, a plain string, and the types cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

D = TypeVar("D", bound="Mapping[str, object]")  # the type of a document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktxkit.base import documents

    class Kind(Generic[D]):
        """A kind whose documents are of the type D."""

        def __init__(self, name: str) -> None: ...

else:
    Kind = str

# From here on written by `make documents`, from schemas/.
AFFECTED_AUDIT: Kind[documents.AffectedAudit] = Kind("affected-audit")
AFFECTED_PROOF: Kind[documents.AffectedProof] = Kind("affected-proof")
AFFECTED_TRACE: Kind[documents.AffectedTrace] = Kind("affected-trace")
ANSWER: Kind[documents.LedgerAnswer] = Kind("answer")
ARTIFACT_OVERLAY: Kind[documents.ArtifactOverlay] = Kind("artifact-overlay")
ARTIFACT_PAGE: Kind[documents.ArtifactPage] = Kind("artifact-page")
ARTIFACT_PROVENANCE: Kind[documents.ArtifactProvenance] = Kind("artifact-provenance")
ARTIFACT_SHARD: Kind[documents.ArtifactShard] = Kind("artifact-shard")
ARTIFACT_SOURCE: Kind[documents.ArtifactSource] = Kind("artifact-source")
CHECKUP: Kind[documents.Checkup] = Kind("checkup")
CLEANING: Kind[documents.Cleaning] = Kind("cleaning")
CONFIG: Kind[documents.KtxConfig] = Kind("config")
GATE_BASELINE: Kind[documents.GateBaseline] = Kind("gate-baseline")
GATE_CONFIG: Kind[documents.GateConfig] = Kind("gate-config")
INGEST_OUTCOME: Kind[documents.IngestOutcome] = Kind("ingest-outcome")
INGEST: Kind[documents.Ingest] = Kind("ingest")
INTENT: Kind[documents.Intent] = Kind("intent")
JOB_FILE: Kind[documents.JobFile] = Kind("job-file")
JOB_UNIT: Kind[documents.JobUnit] = Kind("job-unit")
JOB: Kind[documents.Job] = Kind("job")
KNOWLEDGE_INDEX: Kind[documents.KnowledgeIndex] = Kind("knowledge-index")
LANDING: Kind[documents.LandingReceipt] = Kind("landing")
LEASE: Kind[documents.Lease] = Kind("lease")
LEDGER_HEAD: Kind[documents.LedgerHead] = Kind("ledger-head")
LEDGER_LINE: Kind[documents.LedgerLine] = Kind("ledger-line")
LEXICON: Kind[documents.Lexicon] = Kind("lexicon")
LOCK: Kind[documents.BranchLock] = Kind("lock")
NOTICE: Kind[documents.Notice] = Kind("notice")
OBSERVATION: Kind[documents.ActivityRecord] = Kind("observation")
OBSERVER_BASELINE: Kind[documents.ObserverBaseline] = Kind("observer-baseline")
OBSERVER_STATE: Kind[documents.ObserverState] = Kind("observer-state")
OBSERVER_STATUS: Kind[documents.ObserverStatus] = Kind("observer-status")
OPENING: Kind[documents.WorktreeOpening] = Kind("opening")
OVERVIEW: Kind[documents.Overview] = Kind("overview")
PATCH: Kind[documents.Patch] = Kind("patch")
PATH_POLICY: Kind[documents.PathPolicy] = Kind("path-policy")
PREVIEW: Kind[documents.Preview] = Kind("preview")
PROJECTED: Kind[documents.ProjectionRecord] = Kind("projected")
PROJECTION: Kind[documents.ProjectionOutput] = Kind("projection")
PROVENANCE_ROW: Kind[documents.ProvenanceRow] = Kind("provenance-row")
PROVENANCE: Kind[documents.Provenance] = Kind("provenance")
RAW_SNAPSHOT: Kind[documents.RawSnapshot] = Kind("raw-snapshot")
RAW_STATE: Kind[documents.RawState] = Kind("raw-state")
RECEIPT: Kind[documents.Receipt] = Kind("receipt")
REPORT: Kind[documents.Report] = Kind("report")
RESULT: Kind[documents.CommandResult] = Kind("result")
RUN_EVENT: Kind[documents.RunEvent] = Kind("run-event")
SELECTION: Kind[documents.AffectedSelection] = Kind("selection")
SENTINEL: Kind[documents.Sentinel] = Kind("sentinel")
STORE: Kind[documents.StoreOwner] = Kind("store")
TRACE_EVENT: Kind[documents.TraceEvent] = Kind("trace-event")
UNIT_ACTIONS: Kind[documents.UnitActions] = Kind("unit-actions")
UNIT_CACHE: Kind[documents.UnitCache] = Kind("unit-cache")
UNIT_RESULT: Kind[documents.UnitResult] = Kind("unit-result")
VERDICT: Kind[documents.Verdict] = Kind("verdict")
VERIFICATION: Kind[documents.Verification] = Kind("verification")
WORK_UNIT: Kind[documents.WorkUnit] = Kind("work-unit")
WORKTREES: Kind[documents.WorktreeList] = Kind("worktrees")
