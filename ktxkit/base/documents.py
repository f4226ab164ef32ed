"""The documents, typed: a misspelt key is an error of mypy. For annotations: import it under TYPE_CHECKING only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

# From here on written by `make documents`, from schemas/.


class AffectedAuditHidden(TypedDict):
    mechanism: str
    path: str
    calledPath: str
    caller: str
    callee: str
    how: str
    line: int
    via: NotRequired[str]


class AffectedAuditHole(TypedDict):
    path: str
    unit: str
    count: int
    tests: list[str]


class AffectedAudit(TypedDict):
    """The calls that a traced run made and the static map lacks."""

    schemaVersion: Literal[1]
    kind: Literal["affected-audit"]
    run: str
    tree: str
    calls: int
    stale: int
    missing: int
    mechanisms: Mapping[str, Any]
    hidden: list[AffectedAuditHidden]
    tests: int
    incomplete: int
    holes: list[AffectedAuditHole]


SelectionVerdict = Literal["selected", "unknown"]


class AffectedProofSelection(TypedDict):
    tests: int
    of: int
    verdict: SelectionVerdict


ProofVerdict = Literal["proven", "missed", "nothing"]


class AffectedProofMiss(TypedDict):
    path: str
    unit: str
    kind: str
    line: int
    text: str
    test: str


class AffectedProofSeconds(TypedDict):
    suite: float
    selected: float


class AffectedProof(TypedDict):
    """A mutation proof of the selection of tests for one change."""

    schemaVersion: Literal[1]
    kind: Literal["affected-proof"]
    id: str
    at: str
    project: str
    base: str
    tree: NotRequired[str]
    seed: int
    selection: AffectedProofSelection
    verdict: ProofVerdict
    candidates: int
    mutants: int
    killed: int
    late: int
    survived: int
    missed: int
    misses: list[AffectedProofMiss]
    tests: int
    selected: int
    selectedOfKilled: int
    needed: int
    seconds: AffectedProofSeconds
    unloaded: NotRequired[list[str]]
    arguments: NotRequired[list[str]]


class AffectedTraceHeader(TypedDict):
    record: Literal["header"]
    schemaVersion: Literal[1]
    kind: Literal["affected-trace"]
    run: str
    at: str
    tree: str
    project: str
    python: str
    contexts: int
    tests: int
    definitions: int
    edges: int
    faults: int
    environment: NotRequired[str]


AffectedTraceContextKind = Literal["session", "test", "fixture", "collection"]


class AffectedTraceContext(TypedDict):
    record: Literal["context"]
    number: int
    kind: AffectedTraceContextKind
    name: str
    complete: bool
    uses: NotRequired[list[int]]
    why: NotRequired[list[str]]
    processes: NotRequired[list[list[str]]]
    environment: NotRequired[list[str]]


class AffectedTraceDefinition(TypedDict):
    record: Literal["definition"]
    path: str
    name: str
    line: int
    ran: list[int]


class AffectedTraceFile(TypedDict):
    record: Literal["file"]
    path: str
    blob: NotRequired[str]
    opened: NotRequired[list[int]]
    openedBy: NotRequired[list[list[str]]]
    listed: NotRequired[list[int]]
    listedBy: NotRequired[list[list[str]]]
    importRan: NotRequired[list[list[str]]]
    importOpened: NotRequired[list[str]]
    importListed: NotRequired[list[str]]
    importEnvironment: NotRequired[list[str]]


TracedCall = TypedDict(
    "TracedCall",
    {
        "from": str,
        "path": str,
        "to": str,
        "how": str,
        "line": int,
        "via": NotRequired[str],
    },
)


class AffectedTraceCalls(TypedDict):
    record: Literal["calls"]
    path: str
    calls: list[TracedCall]


class AffectedTraceVariable(TypedDict):
    record: Literal["variable"]
    name: str
    readBy: list[list[str]]


class AffectedTraceEnd(TypedDict):
    record: Literal["end"]
    records: int


AffectedTrace = (
    AffectedTraceHeader
    | AffectedTraceContext
    | AffectedTraceDefinition
    | AffectedTraceFile
    | AffectedTraceCalls
    | AffectedTraceVariable
    | AffectedTraceEnd
)


LedgerAnswerVerdict = Literal["true", "false", "unknown"]


class LedgerAnswer(TypedDict):
    """An answer of ledger-query: three-valued where it has a yes or no, always with the rows that support it."""

    schemaVersion: Literal[1]
    kind: Literal["answer"]
    question: str
    subject: NotRequired[list[str]]
    project: NotRequired[str]
    verdict: NotRequired[LedgerAnswerVerdict]
    reason: NotRequired[str]
    facts: NotRequired[Mapping[str, Any]]
    rows: list[Mapping[str, Any]]


JoinRelationship = Literal["many_to_one", "one_to_many", "one_to_one"]


class ArtifactJoin(TypedDict):
    to: str
    on: str
    relationship: JoinRelationship
    alias: NotRequired[str]
    source: NotRequired[str]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]


class ArtifactMeasure(TypedDict):
    name: str
    expr: str
    filter: NotRequired[str]
    segments: NotRequired[list[str]]
    label: NotRequired[str]
    format: NotRequired[str]
    unit: NotRequired[str]
    tags: NotRequired[Any]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]


class ArtifactSegment(TypedDict):
    name: str
    expr: str
    label: NotRequired[str]
    tags: NotRequired[Any]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]


ColumnType = Literal["string", "number", "time", "boolean"]


ColumnRole = Literal["time", "default"]


ColumnVisibility = Literal["public", "internal", "hidden"]


class ArtifactOverlayColumn(TypedDict):
    name: str
    type: NotRequired[ColumnType]
    expr: str
    role: NotRequired[ColumnRole]
    visibility: NotRequired[ColumnVisibility]
    natural_granularity: NotRequired[str]
    constraints: NotRequired[Mapping[str, Any]]
    enum_values: NotRequired[Any]
    tests: NotRequired[Any]
    tags: NotRequired[Any]
    label: NotRequired[str]
    pk: NotRequired[bool]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]


class ArtifactOverlay(TypedDict):
    """An overlay: it adds to or changes a table of a _schema shard."""

    name: str
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]
    joins: NotRequired[list[ArtifactJoin]]
    measures: NotRequired[list[ArtifactMeasure]]
    segments: NotRequired[list[ArtifactSegment]]
    default_time_dimension: NotRequired[str | dict[str, str]]
    tags: NotRequired[Any]
    freshness: NotRequired[Any]
    usage: NotRequired[Any]
    label: NotRequired[str]
    source_type: NotRequired[str]
    grain: NotRequired[list[str]]
    columns: NotRequired[list[ArtifactOverlayColumn]]
    column_overrides: NotRequired[Mapping[str, Any] | list[Mapping[str, Any]]]
    exclude_columns: NotRequired[list[str]]
    disable_joins: NotRequired[list[str]]


ArtifactPageUsageMode = Literal["always", "auto", "never"]


class ArtifactPage(TypedDict):
    """The front matter of a wiki page."""

    summary: str
    title: NotRequired[str]
    usage_mode: NotRequired[ArtifactPageUsageMode]
    sort_order: NotRequired[float]
    source: NotRequired[Any]
    tags: NotRequired[list[str]]
    refs: NotRequired[list[str]]
    sl_refs: NotRequired[list[str]]
    tables: NotRequired[list[str]]
    intent: NotRequired[str]
    representative_sql: NotRequired[Any]
    usage: NotRequired[Any]
    fingerprints: NotRequired[Any]
    stale_since: NotRequired[Any]
    archived_since: NotRequired[Any]
    external_refs: NotRequired[Any]


ArtifactProvenanceArtifactKind = Literal["sl", "wiki", None]


class ArtifactProvenance(TypedDict):
    """One row of provenance: which raw file an artifact came from."""

    id: NotRequired[str]
    connectionId: NotRequired[str]
    sourceKey: NotRequired[str]
    syncId: NotRequired[str]
    rawPath: NotRequired[str]
    rawContentHash: NotRequired[str]
    artifactKind: ArtifactProvenanceArtifactKind
    artifactKey: NotRequired[str | None]
    targetConnectionId: NotRequired[str | None]
    artifactContentHash: NotRequired[str | None]
    actionType: NotRequired[str]
    sourceKind: NotRequired[str]
    sourcePath: NotRequired[str]
    relationship: NotRequired[str]
    confidence: NotRequired[float]


class ArtifactColumn(TypedDict):
    name: str
    type: ColumnType
    expr: NotRequired[str]
    role: NotRequired[ColumnRole]
    visibility: NotRequired[ColumnVisibility]
    natural_granularity: NotRequired[str]
    constraints: NotRequired[Mapping[str, Any]]
    enum_values: NotRequired[Any]
    tests: NotRequired[Any]
    tags: NotRequired[Any]
    label: NotRequired[str]
    pk: NotRequired[bool]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]


class ArtifactShardTable(TypedDict):
    table: str
    columns: list[ArtifactColumn]
    joins: NotRequired[list[ArtifactJoin]]
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]
    tags: NotRequired[Any]
    usage: NotRequired[Any]
    label: NotRequired[str]
    row_count: NotRequired[int]


class ArtifactShard(TypedDict):
    """A shard of a connection's tables."""

    tables: dict[str, ArtifactShardTable]


class ArtifactSource(TypedDict):
    """A standalone source of the semantic layer."""

    name: str
    description: NotRequired[str]
    descriptions: NotRequired[dict[str, str]]
    joins: NotRequired[list[ArtifactJoin]]
    measures: NotRequired[list[ArtifactMeasure]]
    segments: NotRequired[list[ArtifactSegment]]
    default_time_dimension: NotRequired[str | dict[str, str]]
    tags: NotRequired[Any]
    freshness: NotRequired[Any]
    usage: NotRequired[Any]
    label: NotRequired[str]
    source_type: NotRequired[str]
    table: NotRequired[str]
    sql: NotRequired[str]
    inherits_columns_from: NotRequired[str]
    grain: list[str]
    columns: list[ArtifactColumn]


CheckupFindingCheck = Literal[
    "git",
    "commands",
    "repository",
    "store",
    "disk",
    "isolation",
    "locks",
    "documents",
    "ledger",
    "worktrees",
    "hooks",
    "configuration",
    "environment",
    "ktx-config",
]


CheckupFindingLevel = Literal["ok", "advice", "warning", "error"]


class CheckupFinding(TypedDict):
    check: CheckupFindingCheck
    level: CheckupFindingLevel
    message: str
    hint: NotRequired[str]
    where: NotRequired[str]


class Checkup(TypedDict):
    """What `git ktx doctor` found, worst first."""

    schemaVersion: Literal[1]
    kind: Literal["checkup"]
    at: str
    findings: list[CheckupFinding]


CleaningItemWhat = Literal["worktree", "temporary", "refs", "records", "cache"]


class PathEntry(TypedDict):
    path: str
    pathB64: NotRequired[str]


class PathAccount(TypedDict):
    count: int
    sample: list[PathEntry]


class KeptFiles(TypedDict):
    path: str
    pathB64: NotRequired[str]
    count: int


class CleaningItem(TypedDict):
    what: CleaningItemWhat
    name: str
    why: str
    count: NotRequired[int]
    bytes: NotRequired[int]
    kept: NotRequired[str]
    atticRef: NotRequired[str]
    ignored: NotRequired[PathAccount]
    ignoredKept: NotRequired[KeptFiles]
    busy: NotRequired[list[int]]


class DamagedDocument(TypedDict):
    where: str
    message: str


class Cleaning(TypedDict):
    """What `git ktx clean` can clear, or has cleared."""

    schemaVersion: Literal[1]
    kind: Literal["cleaning"]
    at: str
    done: bool
    items: list[CleaningItem]
    damaged: NotRequired[list[DamagedDocument]]


class StepCommand(TypedDict):
    run: str | list[str]
    timeLimit: NotRequired[float]


class VerifyCommand(TypedDict):
    run: str | list[str]
    timeLimit: NotRequired[float]
    batch: NotRequired[bool]
    keep: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]


class JobPolicy(TypedDict):
    allow: NotRequired[list[str]]
    deny: NotRequired[list[str]]
    allowControl: NotRequired[list[str]]
    textRoots: NotRequired[list[str]]
    deliverables: NotRequired[list[str]]
    leaveOut: NotRequired[list[str]]
    allowUnpublished: NotRequired[bool]
    slDisallowed: NotRequired[bool]


class UnitLimits(TypedDict):
    memory: NotRequired[int | str]
    processes: NotRequired[int]
    files: NotRequired[int]
    disk: NotRequired[int | str]


class JobGates(TypedDict):
    strictConnections: NotRequired[bool]
    advise: NotRequired[bool]
    config: NotRequired[str]


OnFailure = Literal["continue", "abort"]


OnConflict = Literal["set-aside", "stop", "prune"]


OnSuspect = Literal["report", "stop"]


class KtxConfigJob(TypedDict):
    target: NotRequired[str]
    connectionId: NotRequired[str]
    sourceKey: NotRequired[str]
    message: NotRequired[str]
    project: NotRequired[str | list[str] | StepCommand]
    plan: NotRequired[str | list[str] | StepCommand]
    reconcile: NotRequired[str | list[str] | StepCommand]
    verify: NotRequired[str | list[str] | VerifyCommand]
    setup: NotRequired[str | list[str]]
    policy: NotRequired[JobPolicy]
    timeLimit: NotRequired[float]
    limits: NotRequired[UnitLimits]
    gates: NotRequired[JobGates]
    maxParallel: NotRequired[int]
    onFailure: NotRequired[OnFailure]
    onConflict: NotRequired[OnConflict]
    onSuspect: NotRequired[OnSuspect]
    copy: NotRequired[list[str]]
    sparse: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]


class KtxConfigIngest(TypedDict):
    keepSnapshots: NotRequired[int]


class KtxConfigClaims(TypedDict):
    prose: NotRequired[list[str]]


class KtxConfigAffected(TypedDict):
    inert: NotRequired[list[str]]


class KtxConfigLedgerPrecondition(TypedDict):
    name: str
    run: str | list[str]
    timeLimit: NotRequired[float]


class KtxConfigLedger(TypedDict):
    repetitions: NotRequired[int]
    slowSeconds: NotRequired[float]
    noEventSeconds: NotRequired[float]
    environment: NotRequired[list[str]]
    preconditions: NotRequired[list[KtxConfigLedgerPrecondition]]
    generated: NotRequired[list[str]]


class KtxConfig(TypedDict):
    """What a repository's .ktx-config.yaml may say: defaults for jobs, who is told, what the ledger asks."""

    schemaVersion: NotRequired[Literal[1]]
    job: NotRequired[KtxConfigJob]
    setup: NotRequired[str | list[str]]
    notify: NotRequired[str]
    ingest: NotRequired[KtxConfigIngest]
    claims: NotRequired[KtxConfigClaims]
    affected: NotRequired[KtxConfigAffected]
    ledger: NotRequired[KtxConfigLedger]


class GateBaselineFinding(TypedDict):
    fingerprint: str
    rule: str
    path: str
    pathB64: NotRequired[str]
    reference: NotRequired[str]


class GateBaseline(TypedDict):
    """Findings that were there when the gates were put up: not charged, never forgotten."""

    schemaVersion: Literal[1]
    kind: Literal["gate-baseline"]
    findings: list[GateBaselineFinding]


GateConfigGateOutput = Literal["status", "findings"]


class GateConfigGate(TypedDict):
    gate: str
    name: NotRequired[str]
    files: NotRequired[list[str]]
    schema: NotRequired[str]
    run: NotRequired[str | list[str]]
    output: NotRequired[GateConfigGateOutput]
    timeLimit: NotRequired[float]
    skip: NotRequired[str]
    settings: NotRequired[Mapping[str, Any]]


class GateConfig(TypedDict):
    """Which gates run on a repository, and how."""

    schemaVersion: NotRequired[Literal[1]]
    root: NotRequired[str]
    advise: NotRequired[bool]
    strictConnections: NotRequired[bool]
    dialect: NotRequired[str | dict[str, str]]
    siteUrls: NotRequired[dict[str, str]]
    baseline: NotRequired[str]
    gates: NotRequired[list[GateConfigGate]]
    canonical: NotRequired[dict[str, str]]


class IngestOutcomeDiffSummary(TypedDict):
    added: int
    modified: int
    deleted: int
    unchanged: int


class IngestOutcomeReconciliation(TypedDict):
    outcome: NotRequired[str]
    removed: NotRequired[list[str]]


class NearDuplicate(TypedDict):
    path: str
    other: str
    similarity: NotRequired[float]


ResolutionKind = Literal["merged", "subsumed"]


class ArtifactResolution(TypedDict):
    path: str
    resolution: ResolutionKind
    into: NotRequired[str]
    unitKey: NotRequired[str]


class ProjectionCountsTouchedSource(TypedDict):
    connectionId: str
    sourceName: str


class ProjectionCounts(TypedDict):
    warnings: NotRequired[list[str]]
    touchedSources: NotRequired[list[ProjectionCountsTouchedSource | str]]
    kept: NotRequired[list[str]]
    unresolved: NotRequired[dict[str, str]]


class IngestOutcomeUnmapped(TypedDict):
    rawPath: str
    reason: NotRequired[str]
    unitKey: NotRequired[str]


class IngestOutcomeUnresolved(TypedDict):
    rawPath: str
    reason: NotRequired[str]
    unitKey: NotRequired[str]


class IngestOutcomeConflictsResolved(TypedDict):
    path: str
    resolution: str
    unitKey: NotRequired[str]


class IngestOutcome(TypedDict):
    """What came of an ingestion beside its units; the report carries it."""

    schemaVersion: Literal[1]
    kind: Literal["ingest-outcome"]
    jobId: str
    syncId: NotRequired[str]
    diffSummary: NotRequired[IngestOutcomeDiffSummary]
    reconciliation: NotRequired[IngestOutcomeReconciliation]
    reconciliationSkipped: NotRequired[str]
    evictionsApplied: NotRequired[list[str]]
    evictionInputs: NotRequired[list[str]]
    snapshotsRemoved: NotRequired[list[str]]
    evictionsKept: NotRequired[list[str]]
    provenanceRows: NotRequired[int]
    nearDuplicates: NotRequired[list[NearDuplicate]]
    artifactResolutions: NotRequired[list[ArtifactResolution]]
    warnings: NotRequired[list[str]]
    projectionResult: NotRequired[ProjectionCounts]
    supersededBy: NotRequired[str]
    overrideOf: NotRequired[str]
    unmapped: NotRequired[list[IngestOutcomeUnmapped]]
    unresolved: NotRequired[list[IngestOutcomeUnresolved]]
    conflictsResolved: NotRequired[list[IngestOutcomeConflictsResolved]]


class Isolation(TypedDict):
    write: NotRequired[list[str]]


class Ingest(TypedDict):
    """An ingestion job: where its source is and what its units run."""

    schemaVersion: Literal[1]
    kind: Literal["ingest"]
    jobId: str
    connector: str
    connectionId: str
    sourceKey: str
    place: NotRequired[str]
    url: NotRequired[str]
    worker: NotRequired[list[str]]
    reconcile: NotRequired[list[str]]
    group: NotRequired[str]
    options: NotRequired[dict[str, str]]
    reconciles: NotRequired[bool]
    everything: NotRequired[bool]
    allowEmpty: NotRequired[bool]
    overrideOf: NotRequired[str]
    cache: NotRequired[bool]
    timeLimit: NotRequired[float]
    onConflict: NotRequired[OnConflict]
    isolate: NotRequired[bool | Isolation]
    onFailure: NotRequired[OnFailure]
    verify: NotRequired[list[str]]


IntentStep = Literal["apply", "land", "verify", "apply-file"]


class Intent(TypedDict):
    """That a step has begun: written first. Without its receipt, the next command finishes or forgets the step."""

    schemaVersion: Literal[1]
    kind: Literal["intent"]
    step: IntentStep
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    position: NotRequired[int]
    attempt: NotRequired[int]
    nonce: str
    at: str
    ref: str
    before: str
    commit: NotRequired[str]
    patchDigest: NotRequired[str]
    checkout: NotRequired[str]
    checkoutB64: NotRequired[str]
    prepared: NotRequired[Mapping[str, Any]]


class JobUnit(TypedDict):
    """One unit of a job file, or one line that a plan command prints."""

    key: str
    run: NotRequired[str | list[str]]
    after: NotRequired[list[str]]
    rawFiles: NotRequired[list[str]]
    allow: NotRequired[list[str]]
    deny: NotRequired[list[str]]
    allowControl: NotRequired[list[str]]
    textRoots: NotRequired[list[str]]
    deliverables: NotRequired[list[str]]
    leaveOut: NotRequired[list[str]]
    allowUnpublished: NotRequired[bool]
    slDisallowed: NotRequired[bool]
    timeLimit: NotRequired[float]
    limits: NotRequired[UnitLimits]
    env: NotRequired[dict[str, str]]
    dependencyPaths: NotRequired[list[str]]
    peerFileIndex: NotRequired[list[str]]
    displayName: NotRequired[str]


class JobFileObserve(TypedDict):
    silence: NotRequired[float]
    grace: NotRequired[float]
    cap: NotRequired[float]
    interval: NotRequired[float]


class JobFile(TypedDict):
    """What a job is to do: target, units and the steps around them."""

    schemaVersion: NotRequired[Literal[1]]
    job: NotRequired[str]
    target: NotRequired[str]
    connectionId: NotRequired[str]
    sourceKey: NotRequired[str]
    syncId: NotRequired[str]
    message: NotRequired[str]
    isolate: NotRequired[bool | Isolation]
    project: NotRequired[str | list[str] | StepCommand]
    plan: NotRequired[str | list[str] | StepCommand]
    reconcile: NotRequired[str | list[str] | StepCommand]
    verify: NotRequired[str | list[str] | VerifyCommand]
    run: NotRequired[str | list[str]]
    setup: NotRequired[str | list[str]]
    units: NotRequired[list[JobUnit]]
    policy: NotRequired[JobPolicy]
    timeLimit: NotRequired[float]
    limits: NotRequired[UnitLimits]
    gates: NotRequired[JobGates]
    maxParallel: NotRequired[int]
    onFailure: NotRequired[OnFailure]
    onConflict: NotRequired[OnConflict]
    onSuspect: NotRequired[OnSuspect]
    copy: NotRequired[list[str]]
    sparse: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]
    observe: NotRequired[bool | JobFileObserve]


ObjectFormat = Literal["sha1", "sha256"]


class JobFileSource(TypedDict):
    path: str
    pathB64: NotRequired[str]
    digest: str


class JobCaughtUp(TypedDict):
    commit: str
    target: str


JobState = Literal["open", "landed", "failed", "aborted", "closed"]


class JobLanded(TypedDict):
    commit: str
    at: str


class UnitEntry(TypedDict):
    position: int
    key: str
    after: NotRequired[list[str]]


class JobFailure(TypedDict):
    phase: str
    message: str
    outcome: NotRequired[str]
    details: NotRequired[Mapping[str, Any]]


class JobProjectionResultTouchedSource(TypedDict):
    connectionId: str
    sourceName: str


class JobProjectionResult(TypedDict):
    warnings: NotRequired[list[str]]
    touchedSources: NotRequired[list[JobProjectionResultTouchedSource | str]]
    changedWikiPageKeys: NotRequired[list[str]]


class Job(TypedDict):
    """A job: its base, target, units in order and state."""

    schemaVersion: Literal[1]
    kind: Literal["job"]
    jobId: str
    connectionId: str
    sourceKey: str
    syncId: NotRequired[str]
    createdAt: str
    objectFormat: ObjectFormat
    target: str
    targetAtStart: str
    base: NotRequired[str]
    projection: NotRequired[str]
    integrationRef: str
    policyDigest: NotRequired[str]
    jobFileDigest: NotRequired[str]
    jobFileSource: NotRequired[JobFileSource]
    caughtUp: NotRequired[list[JobCaughtUp]]
    state: JobState
    landed: NotRequired[JobLanded]
    units: list[UnitEntry]
    startedAt: NotRequired[str]
    finishedAt: NotRequired[str]
    outcome: NotRequired[str]
    failure: NotRequired[JobFailure]
    projectionResult: NotRequired[JobProjectionResult]
    warnings: NotRequired[list[str]]
    head: NotRequired[str]
    unitBase: NotRequired[str]
    pruned: NotRequired[list[Mapping[str, Any]]]


class KnowledgeIndexPage(TypedDict):
    key: str
    path: str
    summary: NotRequired[str]
    tags: NotRequired[list[str]]


class KnowledgeIndexSource(TypedDict):
    connection: str
    name: str
    path: str
    table: NotRequired[str]
    measures: NotRequired[list[str]]
    columns: NotRequired[list[str]]


class KnowledgeIndex(TypedDict):
    """The pages and sources that were there when a job's units began."""

    schemaVersion: Literal[1]
    kind: Literal["knowledge-index"]
    jobId: str
    tree: str
    pages: list[KnowledgeIndexPage]
    sources: list[KnowledgeIndexSource]
    unreadable: NotRequired[list[str]]


LandingReceiptOutcome = Literal["done", "noop"]


ReceiptOutcome = Literal[
    "accepted",
    "subsumed",
    "noop",
    "policy_rejected",
    "refused",
    "textual_conflict",
    "semantic_conflict",
    "suspect_revert",
    "verification_failed",
]


class LandedUnit(TypedDict):
    unitKey: str
    position: int
    outcome: ReceiptOutcome
    commit: NotRequired[str]
    replayed: NotRequired[str]


class CheckoutState(TypedDict):
    head: str
    branch: NotRequired[str]
    headTree: str
    indexTree: str
    statusDigest: str
    untracked: int


class LeftOutPath(TypedDict):
    path: str
    pathB64: NotRequired[str]
    reason: NotRequired[str]


class LeftOutPaths(TypedDict):
    count: int
    sample: list[LeftOutPath]


class IgnoredPathChanges(TypedDict):
    added: int
    changed: int
    removed: int
    sample: list[LeftOutPath]


class VerificationRun(TypedDict):
    argv: list[str]
    status: int
    timedOut: NotRequired[bool]
    durationMs: NotRequired[float]
    tree: str
    commandDigest: NotRequired[str]
    environmentDigest: NotRequired[str]
    logDigest: NotRequired[str]
    logBytes: NotRequired[int]
    log: NotRequired[str]
    before: NotRequired[CheckoutState]
    after: NotRequired[CheckoutState]
    stateChanged: NotRequired[bool]
    changed: NotRequired[list[str]]
    quarantined: NotRequired[LeftOutPaths]
    quarantine: NotRequired[str]
    ignoredChanges: NotRequired[IgnoredPathChanges]
    reused: NotRequired[bool]
    batch: NotRequired[list[str]]
    evidenceDigest: NotRequired[str]


class LandingReceipt(TypedDict):
    """That a job's accepted change is on its target: written last."""

    schemaVersion: Literal[1]
    kind: Literal["landing"]
    jobId: str
    outcome: LandingReceiptOutcome
    at: str
    nonce: str
    target: str
    before: str
    after: str
    commit: NotRequired[str]
    tree: NotRequired[str]
    integrationHead: NotRequired[str]
    rebased: NotRequired[bool]
    signed: NotRequired[bool]
    checkout: NotRequired[str]
    checkoutB64: NotRequired[str]
    message: NotRequired[str]
    units: list[LandedUnit]
    paths: NotRequired[list[PathEntry]]
    verification: NotRequired[VerificationRun]
    durationMs: float


WorktreeMode = Literal["unit", "new-branch", "ref", "pr", "detach", "in-place"]


class OwnerProcess(TypedDict):
    bootId: str
    pid: int
    startTime: int
    machine: NotRequired[str]
    pidNamespace: NotRequired[str]


class LeasePolicy(TypedDict):
    allow: NotRequired[list[str]]
    deny: NotRequired[list[str]]
    allowControl: NotRequired[list[str]]
    textRoots: NotRequired[list[str]]
    allowUnpublished: NotRequired[bool]
    slDisallowed: NotRequired[bool]
    deliverables: NotRequired[list[str]]
    generated: NotRequired[list[str]]
    leaveOut: NotRequired[list[str]]
    maxFileBytes: NotRequired[int]
    maxPatchBytes: NotRequired[int]


LeaseState = Literal["open", "closed"]


LeaseOutcome = Literal["success", "empty", "conflict", "crash"]


class WorktreeLanding(TypedDict):
    jobId: str
    target: str
    commit: str
    head: str
    tree: str


class LeaseObserver(TypedDict):
    segment: int
    seq: int
    head: str
    epoch: int


class JournalPosition(TypedDict):
    attempt: str
    segment: int
    seq: int
    head: str


class Lease(TypedDict):
    """Who may work where: job, unit, attempt, fence, worktree identity."""

    schemaVersion: Literal[1]
    kind: Literal["lease"]
    leaseId: str
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    position: NotRequired[int]
    generation: int
    attempt: int
    fence: int
    leaseEpoch: int
    mode: WorktreeMode
    base: str
    target: NotRequired[str]
    branch: NotRequired[str]
    detached: NotRequired[bool]
    createdBranch: NotRequired[bool]
    worktreeId: NotRequired[str]
    path: str
    pathB64: NotRequired[str]
    adminDir: str
    adminDirB64: NotRequired[str]
    device: int
    inode: int
    birthTimeNs: NotRequired[int]
    nonce: str
    owner: NotRequired[OwnerProcess]
    policy: NotRequired[LeasePolicy]
    policyDigest: NotRequired[str]
    pathPolicyDigest: NotRequired[str]
    copied: NotRequired[list[str]]
    copyUnmatched: NotRequired[list[str]]
    openedAt: str
    state: LeaseState
    closedAt: NotRequired[str]
    outcome: NotRequired[LeaseOutcome]
    atticRef: NotRequired[str]
    branchKept: NotRequired[bool]
    leftOut: NotRequired[PathAccount]
    ignored: NotRequired[PathAccount]
    ignoredKept: NotRequired[KeptFiles]
    landing: NotRequired[WorktreeLanding]
    busy: NotRequired[list[int]]
    processEpoch: NotRequired[int]
    observer: NotRequired[LeaseObserver]
    observedBefore: NotRequired[JournalPosition]


class LedgerHead(TypedDict):
    """The end of the ledger of test runs: how many lines it has at least, and the digest of the last of them."""

    schemaVersion: Literal[1]
    kind: Literal["ledger-head"]
    lines: int
    hash: str
    at: str


LedgerLineKind = Literal["run-opened", "run-closed", "affected-proof"]


class RunOwner(TypedDict):
    bootId: str
    pid: int
    startTime: int
    machine: str
    pidNamespace: NotRequired[str]


class LedgerLineEvents(TypedDict):
    bytes: int
    digest: str
    records: NotRequired[int]
    torn: NotRequired[int]


RunMode = Literal["run", "collect", "plan", "setup"]


ArgsSource = Literal["args", "addopts", "testpaths", "invocation_dir", "unknown"]


class RunNarrowing(TypedDict):
    option: str
    value: str


class RunSelection(TypedDict):
    argsSource: ArgsSource
    args: list[str]
    paths: NotRequired[list[str]]
    narrowing: list[RunNarrowing]
    configured: NotRequired[list[RunNarrowing]]
    changing: NotRequired[list[RunNarrowing]]
    declared: NotRequired[str]


class RunEnvironment(TypedDict):
    python: NotRequired[str]
    implementation: NotRequired[str]
    platform: NotRequired[str]
    host: NotRequired[str]
    processors: NotRequired[int]
    packages: NotRequired[str]
    variables: NotRequired[Mapping[str, Any]]
    profile: NotRequired[str]
    digest: str


class RunOrder(TypedDict):
    by: NotRequired[str]
    seed: NotRequired[str]


class RunTools(TypedDict):
    pytest: NotRequired[str]
    ktxkit: NotRequired[str]
    plugins: NotRequired[list[str]]
    format: NotRequired[str]
    name: NotRequired[str]


class RunPrecondition(TypedDict):
    name: str
    verified: bool
    status: NotRequired[int]
    said: NotRequired[str]


class RunnerSelection(TypedDict):
    base: str
    verdict: SelectionVerdict
    selected: int
    total: int
    proof: NotRequired[str]
    missed: NotRequired[int]


class SuiteRunner(TypedDict):
    name: str
    version: str
    owner: NotRequired[RunOwner]
    cprofile: NotRequired[bool]
    affected: NotRequired[RunnerSelection]


class RunTree(TypedDict):
    commit: NotRequired[str]
    tree: NotRequired[str]
    dirty: bool
    generated: NotRequired[str]
    changed: NotRequired[list[str]]
    changedCount: NotRequired[int]
    why: NotRequired[str]


RunRecordState = Literal[
    "running",
    "finished",
    "planned",
    "no_tests",
    "stopped_early",
    "interrupted",
    "exited",
    "collection_error",
    "internal_error",
    "usage_error",
    "incomplete",
    "killed",
    "damaged",
    "unknown",
]


RunRecordVerdict = Literal["passed", "failed", "incomplete", "planned", "no_tests", "running"]


class RunRecordCounts(TypedDict):
    collected: NotRequired[int]
    selected: NotRequired[int]
    deselected: NotRequired[int]
    removed: NotRequired[int]
    deselectedByConfiguration: NotRequired[int]
    passed: NotRequired[int]
    failed: NotRequired[int]
    errors: NotRequired[int]
    skipped: NotRequired[int]
    xfailed: NotRequired[int]
    xpassed: NotRequired[int]
    interrupted: NotRequired[int]
    crashed: NotRequired[int]
    unknown: NotRequired[int]
    running: NotRequired[int]
    notRun: NotRequired[int]
    collectionErrors: NotRequired[int]
    collectionSkips: NotRequired[int]
    subtests: NotRequired[int]
    subtestsFailed: NotRequired[int]
    passedOnRetry: NotRequired[int]
    retries: NotRequired[int]


class RunRecordReported(TypedDict):
    passed: NotRequired[int]
    failed: NotRequired[int]
    errors: NotRequired[int]
    skipped: NotRequired[int]
    xfailed: NotRequired[int]
    xpassed: NotRequired[int]
    rerun: NotRequired[int]


class RunRecordInFlight(TypedDict):
    test: str
    since: float
    cause: NotRequired[str]
    attempt: NotRequired[int]


class RunRecordFailure(TypedDict):
    test: str
    outcome: str
    message: NotRequired[str]
    cause: NotRequired[str]
    worker: NotRequired[str]


class RunRecordCollectError(TypedDict):
    node: str
    message: NotRequired[str]


class RunRecordDuplicate(TypedDict):
    path: str
    name: str
    line: int


class RunRecordLost(TypedDict):
    dropped: NotRequired[int]
    faults: NotRequired[int]
    fault: NotRequired[str]
    unkept: NotRequired[int]
    forks: NotRequired[int]
    torn: NotRequired[int]
    damaged: NotRequired[int]


RunRecordScopeKind = Literal["full", "modules", "module", "affected", "partial", "none"]


class RunRecordScope(TypedDict):
    kind: RunRecordScopeKind
    why: NotRequired[list[str]]
    paths: NotRequired[list[str]]


class RunRecord(TypedDict):
    run: str
    project: NotRequired[str]
    trigger: NotRequired[str]
    managed: NotRequired[bool]
    mode: NotRequired[RunMode]
    argv: NotRequired[list[str]]
    directory: NotRequired[str]
    selection: NotRequired[RunSelection]
    environment: NotRequired[RunEnvironment]
    workers: NotRequired[int]
    scheduling: NotRequired[str]
    order: NotRequired[RunOrder]
    owner: NotRequired[RunOwner]
    load: NotRequired[float]
    tools: NotRequired[RunTools]
    declared: NotRequired[str]
    preconditions: NotRequired[list[RunPrecondition]]
    runner: NotRequired[SuiteRunner]
    parent: NotRequired[str]
    tree: NotRequired[RunTree]
    startedAt: NotRequired[str]
    finishedAt: NotRequired[str]
    wallSeconds: NotRequired[float]
    phases: NotRequired[Mapping[str, Any]]
    state: RunRecordState
    verdict: RunRecordVerdict
    exitStatus: NotRequired[int]
    signal: NotRequired[str]
    peakRssBytes: NotRequired[int]
    stop: NotRequired[str]
    counts: RunRecordCounts
    reported: NotRequired[RunRecordReported]
    ids: NotRequired[str]
    orderDigest: NotRequired[str]
    inFlight: NotRequired[list[RunRecordInFlight]]
    notRun: NotRequired[list[str]]
    failures: NotRequired[list[RunRecordFailure]]
    collectErrors: NotRequired[list[RunRecordCollectError]]
    crashedWorkers: NotRequired[list[str]]
    duplicates: NotRequired[list[RunRecordDuplicate]]
    warnings: NotRequired[int]
    treeAfter: NotRequired[RunTree]
    unversioned: NotRequired[list[str]]
    lost: NotRequired[RunRecordLost]
    transportDegraded: NotRequired[Literal[True]]
    scope: RunRecordScope
    authoritative: bool
    against: NotRequired[list[str]]


class LedgerLine(TypedDict):
    """One line of the ledger of test runs: a run was opened, or closed with its record; or a proof of a selection."""

    schemaVersion: Literal[1]
    kind: LedgerLineKind
    run: str
    seq: int
    at: str
    project: str
    parent: NotRequired[str]
    owner: NotRequired[RunOwner]
    events: NotRequired[LedgerLineEvents]
    record: NotRequired[RunRecord]
    proof: NotRequired[AffectedProof]
    prev: NotRequired[str]
    hash: str


LexiconWordNeed = Literal[
    "flaky",
    "passed_on_retry",
    "order_dependent",
    "concurrency_dependent",
    "environment_dependent_failure",
    "load_dependent",
    "failing",
    "measured_slow",
]


class LexiconWord(TypedDict):
    word: str
    also: NotRequired[list[str]]
    needs: list[LexiconWordNeed]
    means: str
    instead: NotRequired[list[str]]


class LexiconRefused(TypedDict):
    word: str
    also: NotRequired[list[str]]
    say: str
    why: str


class Lexicon(TypedDict):
    """The words that may be said of test runs, and what each needs."""

    schemaVersion: Literal[1]
    words: list[LexiconWord]
    refused: list[LexiconRefused]
    reminders: list[str]


BranchLockPhase = Literal[
    "idle",
    "held",
    "preflight",
    "policy",
    "merging",
    "gates",
    "verifying",
    "committing",
    "moving",
    "checkout",
    "landing",
    "blocked",
]


class BranchLockPending(TypedDict):
    step: IntentStep
    intent: str
    nonce: str


class BranchLockVerification(TypedDict):
    pgid: int
    startTime: int
    bootId: str
    machine: NotRequired[str]
    pidNamespace: NotRequired[str]


class BranchLock(TypedDict):
    """Who holds a branch, how far they are, and the head that the last one left."""

    schemaVersion: Literal[1]
    kind: Literal["lock"]
    ref: str
    nonce: str
    phase: BranchLockPhase
    owner: OwnerProcess
    since: str
    head: NotRequired[str]
    blocked: NotRequired[str]
    pending: NotRequired[BranchLockPending]
    verification: NotRequired[BranchLockVerification]


NoticeEvent = Literal["job_ended", "suspect", "blocked"]


JobOutcome = Literal["done", "partial", "error"]


class Notice(TypedDict):
    """What the notify command is told, on its standard input."""

    schemaVersion: Literal[1]
    kind: Literal["notice"]
    at: str
    event: NoticeEvent
    jobId: str
    unitKey: NotRequired[str]
    outcome: NotRequired[JobOutcome]
    commit: NotRequired[str]
    message: NotRequired[str]
    outcomes: NotRequired[Mapping[str, Any]]
    trace: NotRequired[str]
    report: NotRequired[str]


ActivityRecordEvent = Literal[
    "baseline",
    "attach",
    "activity",
    "proof",
    "fence",
    "reap",
    "late",
    "stale",
    "hold",
    "suspect",
    "preserved",
]


class ObserverDomain(TypedDict):
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    leaseId: str
    generation: int
    attempt: int
    fence: int
    leaseEpoch: int
    processEpoch: int
    observerEpoch: int
    worktreeId: NotRequired[str]
    path: str
    pathB64: NotRequired[str]
    adminDir: str
    adminDirB64: NotRequired[str]
    device: int
    inode: int
    birthTimeNs: NotRequired[int]
    nonce: str


class ObserverClock(TypedDict):
    boot: str
    bootNs: int
    wallNs: int


ReconcileSource = Literal[
    "event",
    "periodic",
    "startup",
    "before-decision",
    "overflow",
    "manual",
    "receipt",
    "lifecycle",
]


ScanLevel = Literal["hint", "stat", "content"]


ChangeClass = Literal["deliverable", "tracked", "untracked"]


ChangeOperation = Literal[
    "create",
    "delete",
    "content-change",
    "mode-change",
    "symlink-target-change",
    "gitlink-change",
    "atomic-replacement",
]


ActivityChange = TypedDict(
    "ActivityChange",
    {
        "path": str,
        "pathB64": NotRequired[str],
        "class": ChangeClass,
        "operation": ChangeOperation,
        "before": NotRequired[str],
        "after": NotRequired[str],
        "beforeMode": NotRequired[str],
        "afterMode": NotRequired[str],
        "byteDelta": int,
        "flags": NotRequired[list[str]],
    },
)


class ActivityRecordDeadline(TypedDict):
    lastProvenNs: int
    proofSeq: int
    proofDeadlineNs: int
    suspectAtNs: int
    capConsumedNs: int
    lastObservedNs: NotRequired[int]
    observedUnder: NotRequired[int]


class ActivityRecordReceipt(TypedDict):
    id: str
    what: NotRequired[str]
    phase: NotRequired[str]


class ObserverSettings(TypedDict):
    silenceMs: int
    graceMs: int
    capMs: int
    intervalMs: int
    debounceMs: int
    contentEvery: int
    maxFileBytes: int


BaselineTime = Literal["known", "unknown"]


LateKind = Literal["late-worktree-mutation-observed", "late-write-after-reap"]


class ActivityRecord(TypedDict):
    """One record of an attempt's activity journal."""

    schemaVersion: Literal[1]
    kind: Literal["observation"]
    segment: int
    seq: int
    prev: NotRequired[str]
    hash: str
    event: ActivityRecordEvent
    domain: ObserverDomain
    at: str
    timelineNs: int
    clock: ObserverClock
    clockDiscontinuity: NotRequired[bool]
    source: ReconcileSource
    level: NotRequired[ScanLevel]
    contentSeq: NotRequired[int]
    before: NotRequired[str]
    after: NotRequired[str]
    changedCount: NotRequired[int]
    changes: NotRequired[list[ActivityChange]]
    byteDelta: NotRequired[int]
    pathsApproximate: NotRequired[bool]
    partial: NotRequired[bool]
    counted: NotRequired[bool]
    reason: NotRequired[str]
    deadline: NotRequired[ActivityRecordDeadline]
    receipt: NotRequired[ActivityRecordReceipt]
    settings: NotRequired[ObserverSettings]
    baselineTime: NotRequired[BaselineTime]
    pathPolicyDigest: NotRequired[str]
    trackedDigest: NotRequired[str]
    entries: NotRequired[int]
    holds: NotRequired[list[str]]
    lateKind: NotRequired[LateKind]
    notBeforeNs: NotRequired[int]
    atticRef: NotRequired[str]
    previous: NotRequired[JournalPosition]


class ObserverBaselineGitlink(TypedDict):
    path: str
    pathB64: NotRequired[str]
    commit: str


class HeldPath(TypedDict):
    path: str
    pathB64: NotRequired[str]
    reason: str


class ObserverBaselineAdmin(TypedDict):
    device: int
    inode: int
    birthTimeNs: NotRequired[int]


class ObserverBaseline(TypedDict):
    """What an attempt's worktree was when its observer attached, before its command might start."""

    schemaVersion: Literal[1]
    kind: Literal["observer-baseline"]
    at: str
    timelineNs: int
    clock: ObserverClock
    domain: ObserverDomain
    settings: ObserverSettings
    pathPolicyDigest: str
    manifest: str
    entries: int
    trackedDigest: str
    tracked: int
    gitlinks: list[ObserverBaselineGitlink]
    baselineTime: BaselineTime
    partial: NotRequired[bool]
    unstable: NotRequired[list[PathEntry]]
    holds: NotRequired[list[HeldPath]]
    admin: NotRequired[ObserverBaselineAdmin]


ObserverStateMode = Literal["event+reconcile", "poll-only", "once"]


class HeldPaths(TypedDict):
    count: int
    paths: list[HeldPath]


class UnstablePaths(TypedDict):
    count: int
    paths: list[PathEntry]
    sinceNs: int
    scans: int


class ChurnCount(TypedDict):
    count: int
    atLeast: NotRequired[bool]


class ObserverState(TypedDict):
    """What the observer saw last: derived, and disposable."""

    schemaVersion: Literal[1]
    kind: Literal["observer-state"]
    segment: int
    seq: int
    head: str
    manifest: NotRequired[str]
    observerEpoch: int
    owner: NotRequired[OwnerProcess]
    mode: ObserverStateMode
    modeReason: NotRequired[str]
    timelineNs: int
    clock: ObserverClock
    lastReconcileNs: NotRequired[int]
    lastLevel: NotRequired[ScanLevel]
    scans: int
    sinceContent: NotRequired[int]
    overflows: NotRequired[int]
    entries: NotRequired[int]
    holds: NotRequired[HeldPaths]
    unstable: NotRequired[UnstablePaths]
    excluded: NotRequired[dict[str, int]]
    churn: NotRequired[dict[str, ChurnCount]]
    drift: NotRequired[list[str]]


ObserverStatusVerdict = Literal["working", "suspect", "unknown"]


ObserverStatusAuthority = Literal["current", "revoked", "reaped"]


ObserverStatusStanding = Literal["current", "stale_observer_epoch", "lease_revoked", "lease_superseded"]


class ObserverStatusActivity(TypedDict):
    contentSeq: int
    at: NotRequired[str]
    agoMs: NotRequired[int]
    label: NotRequired[Literal["observed/unproven"]]
    changedCount: NotRequired[int]
    changes: NotRequired[list[ActivityChange]]
    byteDelta: NotRequired[int]
    counted: NotRequired[bool]
    reason: NotRequired[str]
    source: NotRequired[ReconcileSource]


class ObserverStatusProven(TypedDict):
    proofSeq: int
    at: NotRequired[str]
    agoMs: NotRequired[int]
    what: NotRequired[str]
    receipt: NotRequired[str]
    label: NotRequired[Literal["proven"]]


class ObserverStatusDeadlines(TypedDict):
    silenceMs: int
    graceMs: int
    capMs: int
    proofDeadline: NotRequired[str]
    suspectAt: NotRequired[str]
    proofInMs: NotRequired[int]
    suspectInMs: NotRequired[int]
    capConsumedMs: NotRequired[int]
    suspectSince: NotRequired[str]


ObserverStatusObserverHealth = Literal["healthy", "degraded", "unwatched"]


ObserverStatusObserverMode = Literal["event+reconcile", "poll-only"]


class ObserverStatusObserver(TypedDict):
    health: ObserverStatusObserverHealth
    mode: ObserverStatusObserverMode
    reason: NotRequired[str]
    epoch: NotRequired[int]
    lastReconcileAt: NotRequired[str]
    lastReconcileAgoMs: NotRequired[int]
    lastLevel: NotRequired[ScanLevel]
    pid: NotRequired[int]
    overflows: NotRequired[int]
    unstable: NotRequired[UnstablePaths]
    holds: NotRequired[HeldPaths]
    excluded: NotRequired[dict[str, int]]
    churn: NotRequired[dict[str, ChurnCount]]
    drift: NotRequired[list[str]]
    entries: NotRequired[int]


class LateWrite(TypedDict):
    lateKind: LateKind
    at: str
    notBefore: NotRequired[str]
    changedCount: NotRequired[int]
    changes: NotRequired[list[ActivityChange]]
    seq: NotRequired[int]


class ObserverStatusLateWrites(TypedDict):
    quarantined: bool
    count: int
    late: NotRequired[list[LateWrite]]
    preservedRef: NotRequired[str]


class ObserverStatusProcess(TypedDict):
    alive: bool
    count: NotRequired[int]
    cpuMs: NotRequired[int]


class ObserverStatusNext(TypedDict):
    action: str
    command: NotRequired[str]


class ObserverStatusJournalLost(TypedDict):
    segment: int
    why: str
    at: str
    foundNow: NotRequired[bool]


class ObserverStatusJournal(TypedDict):
    segment: int
    seq: int
    head: NotRequired[str]
    problem: NotRequired[str]
    lost: NotRequired[ObserverStatusJournalLost]
    attempt: NotRequired[str]


class ObserverStatusBaseline(TypedDict):
    baselineTime: BaselineTime
    at: NotRequired[str]


class ObserverStatus(TypedDict):
    """What is known of an attempt."""

    schemaVersion: Literal[1]
    kind: Literal["observer-status"]
    at: str
    verdict: ObserverStatusVerdict
    because: NotRequired[str]
    authority: ObserverStatusAuthority
    standing: NotRequired[ObserverStatusStanding]
    domain: ObserverDomain
    activity: ObserverStatusActivity
    proven: ObserverStatusProven
    deadlines: ObserverStatusDeadlines
    observer: ObserverStatusObserver
    lateWrites: ObserverStatusLateWrites
    process: NotRequired[ObserverStatusProcess]
    attemptHolds: NotRequired[list[str]]
    next: ObserverStatusNext
    journal: ObserverStatusJournal
    baseline: NotRequired[ObserverStatusBaseline]
    manifest: NotRequired[str]
    pathPolicyDigest: NotRequired[str]


class WorktreeOpening(TypedDict):
    """A worktree is being opened: what must be undone where its lease never came."""

    schemaVersion: Literal[1]
    kind: Literal["opening"]
    nonce: str
    mode: WorktreeMode
    base: str
    path: str
    pathB64: NotRequired[str]
    branch: NotRequired[str]
    createsBranch: NotRequired[bool]
    at: str


class OverviewJob(TypedDict):
    jobId: str
    state: JobState
    running: bool
    createdAt: str
    target: str
    units: int
    outcomes: Mapping[str, Any]
    outcome: NotRequired[JobOutcome]
    endedIn: NotRequired[str]
    next: NotRequired[str]
    retry: NotRequired[str]


OverviewWorktreesRowState = Literal["opening", "open", "closed"]


class OverviewWorktreesRow(TypedDict):
    path: str
    pathB64: NotRequired[str]
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    state: NotRequired[OverviewWorktreesRowState]
    outcome: NotRequired[str]
    why: NotRequired[str]
    busy: bool


class OverviewWorktrees(TypedDict):
    open: int
    kept: int
    dead: int
    next: NotRequired[str]
    rows: list[OverviewWorktreesRow]


OverviewBranchStanding = Literal["held", "blocked", "interrupted"]


class OverviewBranch(TypedDict):
    ref: str
    phase: str
    since: str
    where: str
    standing: OverviewBranchStanding
    pid: NotRequired[int]
    why: NotRequired[str]
    next: str


class OverviewSuspect(TypedDict):
    jobId: str
    position: int
    key: str
    outcome: str
    reason: str
    next: str


class Overview(TypedDict):
    """What is going on in a store, and the next safe step for what waits."""

    schemaVersion: Literal[1]
    kind: Literal["overview"]
    at: str
    store: str
    present: bool
    jobs: list[OverviewJob]
    worktrees: OverviewWorktrees
    branches: list[OverviewBranch]
    suspects: list[OverviewSuspect]
    damaged: NotRequired[list[DamagedDocument]]


PatchOutcome = Literal["collected", "noop", "policy_rejected"]


PatchTransport = Literal["patch", "objects", "none"]


PathChange = Literal["added", "modified", "deleted", "typechange"]


FileMode = Literal["000000", "100644", "100755", "120000", "160000", "040000"]


PathKind = Literal["regular", "executable", "symlink", "gitlink", "absent"]


class PatchPath(TypedDict):
    path: str
    pathB64: NotRequired[str]
    change: PathChange
    oldMode: FileMode
    newMode: FileMode
    oldId: str
    newId: str
    kind: PathKind
    oldKind: NotRequired[PathKind]
    binary: NotRequired[bool]
    oldSize: NotRequired[int]
    newSize: NotRequired[int]
    digest: NotRequired[str]


class PathBreach(TypedDict):
    rule: str
    path: str
    pathB64: NotRequired[str]
    message: str


class PatchCollision(TypedDict):
    path: str
    pathB64: NotRequired[str]
    other: str
    otherB64: NotRequired[str]


class Patch(TypedDict):
    """What one unit hands over: its change, named path by path, and where its bytes are."""

    schemaVersion: Literal[1]
    kind: Literal["patch"]
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    position: NotRequired[int]
    generation: NotRequired[int]
    attempt: NotRequired[int]
    fence: NotRequired[int]
    outcome: PatchOutcome
    objectFormat: ObjectFormat
    base: str
    baseTree: str
    commit: NotRequired[str]
    tree: str
    ref: NotRequired[str]
    head: NotRequired[str]
    mergedFrom: NotRequired[str]
    transport: PatchTransport
    transportReason: NotRequired[str]
    patchDigest: NotRequired[str]
    patchBytes: NotRequired[int]
    paths: list[PatchPath]
    policyDigest: NotRequired[str]
    unpublished: NotRequired[list[PathEntry]]
    breaches: NotRequired[list[PathBreach]]
    uncommitted: NotRequired[bool]
    excluded: NotRequired[LeftOutPaths]
    ignored: NotRequired[LeftOutPaths]
    collectedAt: str
    collisions: NotRequired[list[PatchCollision]]


class PathPolicyRulesIgnore(TypedDict):
    directoryB64: str
    textB64: str


class PathPolicyRules(TypedDict):
    version: int
    deliverables: list[str]
    generated: list[str]
    copiedB64: list[str]
    ignore: list[PathPolicyRulesIgnore]


class PathPolicy(TypedDict):
    """The path policy of an attempt: a snapshot of everything that says which paths could become source."""

    schemaVersion: Literal[1]
    kind: Literal["path-policy"]
    at: str
    base: str
    policyDigest: str
    policy: PathPolicyRules


VerdictOutcome = Literal["done", "findings"]


PreviewUnitState = Literal["live", "collected"]


PreviewUnitOutcome = Literal[
    "candidate",
    "noop",
    "subsumed",
    "policy_rejected",
    "textual_conflict",
    "semantic_conflict",
    "suspect_revert",
    "unreadable",
]


class PathConflict(TypedDict):
    path: str
    pathB64: NotRequired[str]
    reason: str
    stages: NotRequired[list[int]]


class PreviewUnit(TypedDict):
    unitKey: str
    position: int
    state: PreviewUnitState
    outcome: PreviewUnitOutcome
    tree: NotRequired[str]
    paths: int
    conflicts: NotRequired[list[PathConflict]]
    findings: NotRequired[list[Mapping[str, Any]]]
    message: NotRequired[str]


PreviewClashKind = Literal["textual", "semantic"]


class PreviewClash(TypedDict):
    first: str
    second: str
    kind: PreviewClashKind
    conflicts: NotRequired[list[PathConflict]]
    findings: NotRequired[list[Mapping[str, Any]]]


class Preview(TypedDict):
    """Which units of a job will clash, before they finish."""

    schemaVersion: Literal[1]
    kind: Literal["preview"]
    jobId: str
    at: str
    head: str
    outcome: VerdictOutcome
    units: list[PreviewUnit]
    clashes: list[PreviewClash]
    pairsMet: int
    durationMs: NotRequired[float]


ProjectionRecordChangeActionType = Literal[
    "source_created",
    "measure_added",
    "join_added",
    "merged",
    "subsumed",
    "wiki_written",
    "skipped",
]


class ProjectionRecordChange(TypedDict):
    path: str
    artifactKey: str
    targetConnectionId: NotRequired[str]
    actionType: ProjectionRecordChangeActionType
    rawPaths: list[str]


class ProjectionRecord(TypedDict):
    """What a projection did to the tree, and from which raw files each artifact comes."""

    schemaVersion: Literal[1]
    kind: Literal["projected"]
    jobId: str
    changes: list[ProjectionRecordChange]
    removed: NotRequired[list[str]]
    kept: NotRequired[list[str]]
    warnings: NotRequired[list[str]]
    unresolved: NotRequired[dict[str, str]]


class ProjectionOutputTouchedSource(TypedDict):
    connectionId: str
    sourceName: str


class ProjectionOutput(TypedDict):
    """What a projection command prints: what it noticed and what it touched."""

    warnings: NotRequired[list[str]]
    errors: NotRequired[list[str]]
    touchedSources: NotRequired[list[ProjectionOutputTouchedSource | str]]
    changedWikiPageKeys: NotRequired[list[str]]


ArtifactKind = Literal["sl", "wiki", "other"]


ActionType = Literal[
    "removed",
    "source_created",
    "measure_added",
    "join_added",
    "merged",
    "subsumed",
    "wiki_written",
    "skipped",
]


class ProvenanceRow(TypedDict):
    """What a raw file led to in one sync, or that it led to nothing."""

    schemaVersion: Literal[1]
    kind: Literal["provenance"]
    jobId: str
    unitKey: NotRequired[str]
    connectionId: str
    sourceKey: str
    syncId: str
    rawPath: str
    rawContentHash: NotRequired[str]
    artifactKind: NotRequired[ArtifactKind]
    artifactKey: NotRequired[str]
    artifactPath: NotRequired[str]
    targetConnectionId: NotRequired[str]
    artifactBlob: NotRequired[str]
    artifactContentHash: NotRequired[str]
    actionType: ActionType
    subsumedBy: NotRequired[str]
    deleted: NotRequired[bool]
    at: NotRequired[str]


class RawState(TypedDict):
    """How the work on a raw file ended in a sync that landed; the next sync compares with it."""

    schemaVersion: Literal[1]
    kind: Literal["raw-state"]
    jobId: str
    unitKey: NotRequired[str]
    connectionId: str
    sourceKey: str
    syncId: str
    rawPath: str
    rawContentHash: str
    outcome: str
    factsDigest: NotRequired[str]
    deleted: NotRequired[bool]
    at: NotRequired[str]


class Provenance(TypedDict):
    """The provenance of a job, validated before it lands and written to the journals after it."""

    schemaVersion: Literal[1]
    kind: Literal["provenance-of-job"]
    jobId: str
    connectionId: str
    sourceKey: str
    syncId: str
    tree: NotRequired[str]
    rows: list[ProvenanceRow]
    states: list[RawState]


class RawSnapshotFile(TypedDict):
    rawPath: str
    digest: str
    blob: str
    bytes: int


class RawSnapshotTold(TypedDict):
    warnings: list[str]
    evictions: list[str]
    evictionsKept: list[str]
    snapshotsRemoved: list[str]


class RawDifference(TypedDict):
    added: list[str]
    modified: list[str]
    deleted: list[str]
    unchanged: list[str]


class RawSnapshot(TypedDict):
    """A source's raw files as one sync found them, and what differs from what landed before."""

    schemaVersion: Literal[1]
    kind: Literal["raw-snapshot"]
    jobId: str
    connector: str
    connectionId: str
    sourceKey: str
    syncId: str
    root: str
    at: NotRequired[str]
    files: list[RawSnapshotFile]
    notRead: NotRequired[list[str]]
    scope: NotRequired[str]
    warnings: NotRequired[list[str]]
    unfetched: NotRequired[list[str]]
    carried: NotRequired[list[str]]
    told: NotRequired[RawSnapshotTold]
    difference: NotRequired[RawDifference]


class ReceiptFollowed(TypedDict):
    path: str
    pathB64: NotRequired[str]
    newPath: str
    newPathB64: NotRequired[str]


class ReceiptGates(TypedDict):
    looked: NotRequired[Mapping[str, Any]]
    inherited: NotRequired[int]
    warnings: NotRequired[int]
    advice: NotRequired[int]


class ReceiptBlame(TypedDict):
    alone: bool
    together: list[str]


class PrunedReference(TypedDict):
    kind: str
    artifact: str
    removedRef: str
    absentTarget: str


class Receipt(TypedDict):
    """That a unit's integration is done, and how it ended: written last."""

    schemaVersion: Literal[1]
    kind: Literal["receipt"]
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    position: NotRequired[int]
    attempt: NotRequired[int]
    outcome: ReceiptOutcome
    at: str
    integrationRef: str
    before: str
    after: NotRequired[str]
    commit: NotRequired[str]
    tree: NotRequired[str]
    patchDigest: NotRequired[str]
    transport: NotRequired[Literal["objects"]]
    patchTree: NotRequired[str]
    nonce: str
    paths: list[PathEntry]
    conflicts: list[PathConflict]
    findings: list[Mapping[str, Any]]
    breaches: NotRequired[list[PathBreach]]
    followed: NotRequired[list[ReceiptFollowed]]
    gates: NotRequired[ReceiptGates]
    verification: NotRequired[VerificationRun]
    message: NotRequired[str]
    remarks: NotRequired[list[str]]
    durationMs: float
    blame: NotRequired[ReceiptBlame]
    pruned: NotRequired[list[PrunedReference]]


ReportStatus = Literal["open", "completed", "failed"]


class ReportFailure(TypedDict):
    phase: str
    message: str
    details: NotRequired[Mapping[str, Any]]


class ReportProblem(TypedDict):
    where: str
    message: str
    unitKey: NotRequired[str]


class ReportIsolatedDiff(TypedDict):
    enabled: bool
    integrationRef: NotRequired[str]
    integrationWorktreePath: NotRequired[str]
    ingestionBaseSha: NotRequired[str]
    projectionSha: NotRequired[str]
    acceptedPatches: int
    subsumed: int
    noops: int
    textualConflicts: int
    semanticConflicts: int
    policyRejected: int
    suspectReverts: NotRequired[int]
    verificationFailed: NotRequired[int]
    invalidPatches: NotRequired[int]
    missingBases: NotRequired[int]
    blocked: NotRequired[int]
    failed: NotRequired[int]
    skipped: NotRequired[int]
    waiting: NotRequired[int]
    outcomes: Mapping[str, Any]


class ReportWorkUnitPath(TypedDict):
    path: str
    pathB64: NotRequired[str]
    change: PathChange
    binary: NotRequired[bool]


class ReportWorkUnit(TypedDict):
    position: int
    key: str
    after: NotRequired[list[str]]
    outcome: str
    reason: str
    attempt: NotRequired[int]
    base: NotRequired[str]
    policyDigest: NotRequired[str]
    pathCount: int
    paths: list[ReportWorkUnitPath]
    changes: NotRequired[Mapping[str, Any]]
    patchCommit: NotRequired[str]
    patchTree: NotRequired[str]
    patchDigest: NotRequired[str]
    patchBytes: NotRequired[int]
    transport: NotRequired[PatchTransport]
    breaches: NotRequired[list[Mapping[str, Any]]]
    ignoredCount: NotRequired[int]
    leftOut: NotRequired[PathAccount]
    integratedAt: NotRequired[str]
    integratedOn: NotRequired[str]
    integratedAs: NotRequired[str]
    conflicts: NotRequired[list[Mapping[str, Any]]]
    findings: NotRequired[list[Mapping[str, Any]]]
    verification: NotRequired[Mapping[str, Any]]
    startedAt: NotRequired[str]
    endedAt: NotRequired[str]
    exitStatus: NotRequired[int]
    argv: NotRequired[list[str]]
    stdoutPath: NotRequired[str]
    stderrPath: NotRequired[str]
    stdoutBytes: NotRequired[int]
    stdoutCut: NotRequired[int]
    stderrCut: NotRequired[int]
    stderrBytes: NotRequired[int]
    strays: NotRequired[list[str]]
    touched: NotRequired[list[Mapping[str, Any]]]
    patchPath: NotRequired[str]
    worktreePath: NotRequired[str]
    sentinelPath: NotRequired[str]
    durations: NotRequired[Mapping[str, Any]]
    why: NotRequired[list[str]]
    actions: NotRequired[list[Mapping[str, Any]]]


class ReportFailedWorkUnit(TypedDict):
    position: int
    key: str
    outcome: str
    reason: str


class ReportPhase(TypedDict):
    phase: str
    startMs: float
    endMs: float
    events: int
    errors: int


class ReportTimelineSpan(TypedDict):
    phase: str
    name: str
    unitKey: NotRequired[str]
    startMs: float
    durationMs: float
    ok: bool


class ReportTimeline(TypedDict):
    origin: str
    dropped: int
    spans: list[ReportTimelineSpan]


class ReportUnmapped(TypedDict):
    rawPath: str
    reason: NotRequired[str]
    unitKey: NotRequired[str]


class ReportUnresolved(TypedDict):
    rawPath: str
    reason: NotRequired[str]
    unitKey: NotRequired[str]


class ReportConflictsResolved(TypedDict):
    path: str
    resolution: str
    unitKey: NotRequired[str]


class Report(TypedDict):
    """The report of a job: what happened to it and to each unit, and why."""

    schemaVersion: Literal[1]
    kind: Literal["report"]
    jobId: str
    connectionId: str
    sourceKey: str
    syncId: NotRequired[str]
    createdAt: str
    startedAt: NotRequired[str]
    finishedAt: NotRequired[str]
    generatedAt: str
    landedAt: NotRequired[str]
    durationMs: NotRequired[float]
    target: str
    targetAtStart: str
    state: JobState
    status: ReportStatus
    outcome: NotRequired[JobOutcome]
    next: NotRequired[str]
    commitSha: NotRequired[str]
    tracePath: str
    traceEvents: NotRequired[int]
    reportPath: NotRequired[str]
    diffSummary: NotRequired[Mapping[str, Any]]
    failure: NotRequired[ReportFailure]
    problems: NotRequired[list[ReportProblem]]
    warnings: NotRequired[list[str]]
    projectionResult: NotRequired[Mapping[str, Any]]
    isolatedDiff: ReportIsolatedDiff
    workUnits: list[ReportWorkUnit]
    failedWorkUnits: list[ReportFailedWorkUnit]
    reconciliation: NotRequired[Mapping[str, Any]]
    reconciliationSkipped: NotRequired[str]
    evictionsApplied: NotRequired[list[str]]
    provenanceRows: NotRequired[int]
    prunedReferences: NotRequired[list[Mapping[str, Any]]]
    nearDuplicates: NotRequired[list[Mapping[str, Any]]]
    artifactResolutions: NotRequired[list[Mapping[str, Any]]]
    supersededBy: NotRequired[str]
    overrideOf: NotRequired[str]
    phases: list[ReportPhase]
    timeline: ReportTimeline
    evictionInputs: NotRequired[list[str]]
    snapshotsRemoved: NotRequired[list[str]]
    evictionsKept: NotRequired[list[str]]
    unmapped: NotRequired[list[ReportUnmapped]]
    unresolved: NotRequired[list[ReportUnresolved]]
    conflictsResolved: NotRequired[list[ReportConflictsResolved]]


class CommandResultError(TypedDict):
    kind: str
    message: str
    where: NotRequired[str]
    hint: NotRequired[str]


class CommandResult(TypedDict):
    """What --json prints: the outcome of one command, with its document or its error."""

    schemaVersion: Literal[1]
    kind: Literal["result"]
    command: str
    outcome: str
    status: int
    contract: NotRequired[str]
    document: NotRequired[Mapping[str, Any]]
    data: NotRequired[Mapping[str, Any]]
    error: NotRequired[CommandResultError]


class RunEventTestStarted(TypedDict):
    event: Literal["test_started"]
    t: float
    test: str
    escaped: NotRequired[Literal[True]]
    occurrence: NotRequired[int]
    attempt: NotRequired[int]


CaseOutcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "crashed", "unknown"]


RunEventTestResultCause = Literal["timeout", "crash"]


class CapturedPart(TypedDict):
    text: str


class CapturedReference(TypedDict):
    ref: str


class CapturedText(TypedDict):
    head: str
    bytes: int
    escaped: NotRequired[Literal[True]]
    digest: NotRequired[str]
    parts: NotRequired[list[CapturedPart | CapturedReference]]
    manifest: NotRequired[str]


class ErrorSection(TypedDict):
    name: str
    text: CapturedText


class RunError(TypedDict):
    message: NotRequired[str]
    path: NotRequired[str]
    line: NotRequired[int]
    text: NotRequired[CapturedText]
    sections: NotRequired[list[ErrorSection]]


class RunEventTestResultProperty(TypedDict):
    name: str
    value: Any


class RunEventTestResult(TypedDict):
    event: Literal["test_result"]
    t: float
    test: str
    escaped: NotRequired[Literal[True]]
    occurrence: NotRequired[int]
    attempt: NotRequired[int]
    outcome: CaseOutcome
    setup: NotRequired[float]
    call: NotRequired[float]
    teardown: NotRequired[float]
    worker: NotRequired[str]
    retried: NotRequired[Literal[True]]
    teardownFailed: NotRequired[Literal[True]]
    cause: NotRequired[RunEventTestResultCause]
    reason: NotRequired[str]
    error: NotRequired[RunError]
    teardownError: NotRequired[RunError]
    properties: NotRequired[list[RunEventTestResultProperty]]


class RunEventRunStarted(TypedDict):
    event: Literal["run_started"]
    t: float
    schemaVersion: Literal[1]
    run: str
    at: str
    project: str
    trigger: str
    managed: bool
    mode: RunMode
    argv: NotRequired[list[str]]
    directory: NotRequired[str]
    selection: NotRequired[RunSelection]
    environment: NotRequired[RunEnvironment]
    workers: NotRequired[int]
    scheduling: NotRequired[str]
    order: NotRequired[RunOrder]
    owner: NotRequired[RunOwner]
    load: NotRequired[float]
    tools: NotRequired[RunTools]
    declared: NotRequired[str]
    preconditions: NotRequired[list[RunPrecondition]]
    runner: NotRequired[SuiteRunner]
    parent: NotRequired[str]
    tree: NotRequired[RunTree]


RunEventPhaseEdge = Literal["start", "end"]


class RunEventPhase(TypedDict):
    event: Literal["phase"]
    t: float
    phase: str
    edge: RunEventPhaseEdge


class RunEventCollected(TypedDict):
    event: Literal["collected"]
    t: float
    collected: NotRequired[int]
    selected: int
    deselected: NotRequired[int]
    removed: NotRequired[int]
    deselectedByConfiguration: NotRequired[int]
    ids: NotRequired[str]
    orderDigest: NotRequired[str]


RunEventCollectReportOutcome = Literal["error", "skipped"]


class RunEventCollectReport(TypedDict):
    event: Literal["collect_report"]
    t: float
    node: str
    escaped: NotRequired[Literal[True]]
    outcome: RunEventCollectReportOutcome
    error: NotRequired[RunError]
    reason: NotRequired[str]


class RunEventDuplicate(TypedDict):
    event: Literal["duplicate"]
    t: float
    path: str
    name: str
    line: int


class RunEventTimer(TypedDict):
    event: Literal["timer"]
    t: float
    seconds: float
    method: str


class RunEventWarning(TypedDict):
    event: Literal["warning"]
    t: float
    category: str
    message: str
    when: NotRequired[str]
    path: NotRequired[str]
    line: NotRequired[int]


RunEventWorkerWhat = Literal["ready", "collected", "down", "crashed"]


class RunEventWorker(TypedDict):
    event: Literal["worker"]
    t: float
    worker: str
    what: RunEventWorkerWhat
    pid: NotRequired[int]
    selected: NotRequired[int]
    collected: NotRequired[int]
    deselected: NotRequired[int]
    removed: NotRequired[int]
    deselectedByConfiguration: NotRequired[int]


class RunEventSubtestResult(TypedDict):
    event: Literal["subtest_result"]
    t: float
    test: str
    escaped: NotRequired[Literal[True]]
    label: str
    outcome: CaseOutcome
    call: NotRequired[float]
    worker: NotRequired[str]
    error: NotRequired[RunError]


class RunEventFixturesRow(TypedDict):
    base: str
    fixture: str
    scope: str
    count: int
    total: float
    longest: float


class RunEventFixtures(TypedDict):
    event: Literal["fixtures"]
    t: float
    rows: list[RunEventFixturesRow]


class RunEventInternalError(TypedDict):
    event: Literal["internal_error"]
    t: float
    text: CapturedText


class RunEventInterrupted(TypedDict):
    event: Literal["interrupted"]
    t: float
    by: str
    message: NotRequired[str]


class RunEventRunFinished(TypedDict):
    event: Literal["run_finished"]
    t: float
    at: NotRequired[str]
    exitStatus: int
    stop: NotRequired[str]
    warnings: NotRequired[int]
    dropped: NotRequired[int]
    faults: NotRequired[int]
    fault: NotRequired[str]
    unkept: NotRequired[int]
    forks: NotRequired[int]
    transportDegraded: NotRequired[Literal[True]]
    mirrored: NotRequired[int]
    unversioned: NotRequired[list[str]]
    treeAfter: NotRequired[RunTree]
    mac: NotRequired[str]


class RunEventRunnerEnded(TypedDict):
    event: Literal["runner_ended"]
    t: float
    at: NotRequired[str]
    exitStatus: NotRequired[int]
    signal: NotRequired[str]
    peakRssBytes: NotRequired[int]
    said: NotRequired[str]
    mac: NotRequired[str]


RunEvent = (
    RunEventTestStarted
    | RunEventTestResult
    | RunEventRunStarted
    | RunEventPhase
    | RunEventCollected
    | RunEventCollectReport
    | RunEventDuplicate
    | RunEventTimer
    | RunEventWarning
    | RunEventWorker
    | RunEventSubtestResult
    | RunEventFixtures
    | RunEventInternalError
    | RunEventInterrupted
    | RunEventRunFinished
    | RunEventRunnerEnded
)


AffectedSelectionTargetKind = Literal["worktree", "index", "tree"]


class AffectedSelectionTarget(TypedDict):
    kind: AffectedSelectionTargetKind
    tree: NotRequired[str]


class AffectedSelectionCounts(TypedDict):
    selected: int
    total: int
    unknown: int
    paths: int
    changes: int


class AffectedSelectionTestChain(TypedDict):
    path: str
    unit: str
    how: str


class AffectedSelectionTest(TypedDict):
    id: str
    verdict: SelectionVerdict
    why: NotRequired[str]
    chain: list[AffectedSelectionTestChain]


AffectedSelectionPathHow = Literal["added", "removed", "changed"]


class AffectedSelectionPath(TypedDict):
    path: str
    pathB64: NotRequired[str]
    how: AffectedSelectionPathHow


AffectedSelectionChangeKind = Literal[
    "module",
    "main",
    "function",
    "class",
    "make",
    "constant",
    "alias",
    "star",
    "mixed",
]


AffectedSelectionChangeHow = Literal["added", "removed", "changed", "of another kind"]


class AffectedSelectionChange(TypedDict):
    path: str
    unit: str
    kind: AffectedSelectionChangeKind
    how: AffectedSelectionChangeHow


class AffectedSelectionUnbounded(TypedDict):
    path: str
    pathB64: NotRequired[str]
    why: str


class AffectedSelectionRead(TypedDict):
    files: int
    known: int


class AffectedSelection(TypedDict):
    """Which tests a change can reach, each with the chain of reasons."""

    schemaVersion: Literal[1]
    kind: Literal["selection"]
    verdict: SelectionVerdict
    base: str
    target: AffectedSelectionTarget
    counts: AffectedSelectionCounts
    tests: list[AffectedSelectionTest]
    paths: list[AffectedSelectionPath]
    changes: list[AffectedSelectionChange]
    unbounded: list[AffectedSelectionUnbounded]
    read: AffectedSelectionRead
    notes: list[str]


SentinelOutcome = Literal["conflict", "crash"]


class Sentinel(TypedDict):
    """Why a worktree was kept: it stands beside the lease of a unit that ended in conflict or crash."""

    schemaVersion: Literal[1]
    kind: Literal["sentinel"]
    outcome: SentinelOutcome
    at: str
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    position: NotRequired[int]
    attempt: int
    base: str
    path: str
    pathB64: NotRequired[str]
    head: NotRequired[str]
    branch: NotRequired[str]
    reason: NotRequired[str]
    conflictPaths: NotRequired[list[PathEntry]]


class StoreOwner(TypedDict):
    """Whose store it is: the git directory of the one repository whose jobs a store kept elsewhere (KTX_DIR) holds."""

    schemaVersion: Literal[1]
    kind: Literal["store"]
    at: str
    path: str
    pathB64: NotRequired[str]
    device: int
    inode: int
    birthTimeNs: NotRequired[int]


TraceEventLevel = Literal["error", "info", "debug", "trace"]


class TraceEventError(TypedDict):
    name: str
    message: str
    stack: NotRequired[str]


class TraceEvent(TypedDict):
    """One line of a job's trace."""

    schemaVersion: Literal[1]
    at: str
    level: TraceEventLevel
    jobId: str
    connectionId: str
    sourceKey: str
    runId: NotRequired[str]
    syncId: NotRequired[str]
    phase: str
    event: str
    durationMs: NotRequired[float]
    data: NotRequired[Mapping[str, Any]]
    error: NotRequired[TraceEventError]


UnitActionType = Literal["source_created", "measure_added", "join_added", "merged", "subsumed", "wiki_written"]


class UnitAction(TypedDict):
    path: str
    actionType: NotRequired[UnitActionType]
    rawPaths: NotRequired[list[str]]
    detail: NotRequired[str]
    subsumedBy: NotRequired[str]


class UnitActionsUnmapped(TypedDict):
    rawPath: str
    reason: NotRequired[str]
    unitKey: NotRequired[str]


class UnitActionsConflictsResolved(TypedDict):
    path: str
    resolution: str
    unitKey: NotRequired[str]


class UnitActions(TypedDict):
    """What a worker says it did ($KTX_RESULT): which raw files each artifact comes from."""

    schemaVersion: Literal[1]
    actions: NotRequired[list[UnitAction]]
    unfinished: NotRequired[list[str]]
    nearDuplicates: NotRequired[list[NearDuplicate]]
    warnings: NotRequired[list[str]]
    unmapped: NotRequired[list[UnitActionsUnmapped]]
    conflictsResolved: NotRequired[list[UnitActionsConflictsResolved]]


class UnitCacheFile(TypedDict):
    path: str
    before: NotRequired[str]
    after: NotRequired[str]
    executable: NotRequired[bool]


class UnitCache(TypedDict):
    """A unit that succeeded: the bytes before and after of each path, found by all that its work depends on."""

    schemaVersion: Literal[1]
    kind: Literal["unit-cache"]
    key: str
    jobId: str
    unitKey: str
    at: str
    rawRoot: str
    files: list[UnitCacheFile]
    actions: NotRequired[Mapping[str, Any]]


UnitResultOutcome = Literal["finished", "failed", "timed_out", "not_started", "interrupted", "skipped"]


class UnitResultTouched(TypedDict):
    what: str
    message: str
    putBack: NotRequired[Literal[True]]
    running: NotRequired[list[str]]


class UnitResult(TypedDict):
    """How a unit's command ended, and what it ran on."""

    schemaVersion: Literal[1]
    kind: Literal["unit-result"]
    jobId: str
    unitKey: str
    position: int
    attempt: int
    outcome: UnitResultOutcome
    exitStatus: NotRequired[int]
    argv: NotRequired[list[str]]
    startedAt: str
    endedAt: str
    durationMs: NotRequired[float]
    message: NotRequired[str]
    inputsDigest: NotRequired[str]
    base: NotRequired[str]
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    stdoutBytes: NotRequired[int]
    stdoutCut: NotRequired[int]
    stderrCut: NotRequired[int]
    stderrBytes: NotRequired[int]
    strays: NotRequired[list[str]]
    touched: NotRequired[list[UnitResultTouched]]


class VerdictCounts(TypedDict):
    error: int
    warning: int
    advice: int
    inherited: int
    suppressed: int
    baselined: int


class VerdictGate(TypedDict):
    name: str
    outcome: NotRequired[str]
    looked: NotRequired[int]
    message: NotRequired[str]


VerdictFindingLevel = Literal["error", "warning", "advice"]


class VerdictFindingPosition(TypedDict):
    line: int
    column: int


class VerdictFinding(TypedDict):
    rule: str
    level: VerdictFindingLevel
    gate: str
    path: str
    pathB64: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    message: str
    reference: NotRequired[str]
    searched: NotRequired[list[str]]
    nearest: NotRequired[list[str]]
    hint: NotRequired[str]
    fingerprint: str
    inherited: NotRequired[Literal[True]]
    count: NotRequired[int]
    positions: NotRequired[list[VerdictFindingPosition]]


class Verdict(TypedDict):
    """What gates looked at and what they found."""

    schemaVersion: Literal[1]
    kind: Literal["verdict"]
    outcome: VerdictOutcome
    tree: NotRequired[str]
    baseTree: NotRequired[str]
    scope: str
    looked: dict[str, int]
    unread: NotRequired[dict[str, int]]
    counts: VerdictCounts
    gates: list[VerdictGate]
    findings: list[VerdictFinding]
    pruned: NotRequired[list[PrunedReference]]
    prunedTree: NotRequired[str]


VerificationState = Literal["attempt", "receipt"]


VerificationOutcome = Literal["done", "verification_failed"]


class VerificationAccepted(TypedDict):
    unitKey: str
    position: int
    commit: str


class Verification(TypedDict):
    """The plan-wide verification of a job: its attempt, and its receipt."""

    schemaVersion: Literal[1]
    kind: Literal["verification"]
    jobId: str
    state: VerificationState
    nonce: str
    startedAt: str
    completedAt: NotRequired[str]
    integrationRef: str
    head: str
    outcome: NotRequired[VerificationOutcome]
    summary: NotRequired[str]
    accepted: list[VerificationAccepted]
    run: NotRequired[VerificationRun]
    evidenceDigest: NotRequired[str]
    durationMs: NotRequired[float]


class PriorArtifact(TypedDict):
    rawPath: str
    artifactKind: NotRequired[ArtifactKind]
    artifactKey: NotRequired[str]
    artifactPath: str
    targetConnectionId: NotRequired[str]
    edited: NotRequired[Literal[True]]
    artifactContentHash: NotRequired[str]


class WorkUnitCanonicalPin(TypedDict):
    contestedKey: str
    canonicalArtifactKey: str


class WorkUnit(TypedDict):
    """What a unit's worker is told: its raw files, what they depend on, and what they led to before."""

    schemaVersion: Literal[1]
    kind: Literal["work-unit"]
    jobId: str
    unitKey: str
    displayName: NotRequired[str]
    connectionId: str
    sourceKey: str
    syncId: str
    rawRoot: str
    rawFiles: list[str]
    dependencyPaths: NotRequired[list[str]]
    peerFileIndex: NotRequired[list[str]]
    factsDigest: NotRequired[str]
    peerCount: NotRequired[int]
    reasons: NotRequired[list[str]]
    difference: NotRequired[RawDifference]
    evictions: NotRequired[list[str]]
    slDisallowed: NotRequired[bool]
    slDisallowedReason: NotRequired[str]
    priorArtifacts: NotRequired[list[PriorArtifact]]
    facts: NotRequired[Mapping[str, Any]]
    canonicalPins: NotRequired[list[WorkUnitCanonicalPin]]


WorktreeRowKind = Literal["main", "linked", "unit", "adhoc", "in-place", "trash"]


WorktreeRowState = Literal["open", "closed", "opening"]


class WorktreeRow(TypedDict):
    path: str
    pathB64: NotRequired[str]
    kind: WorktreeRowKind
    jobId: NotRequired[str]
    unitKey: NotRequired[str]
    attempt: NotRequired[int]
    head: NotRequired[str]
    branch: NotRequired[str]
    state: NotRequired[WorktreeRowState]
    outcome: NotRequired[LeaseOutcome]
    present: bool
    busy: NotRequired[list[int]]
    dead: NotRequired[str]
    pruned: NotRequired[bool]
    atticRef: NotRequired[str]
    ignored: NotRequired[PathAccount]
    ignoredKept: NotRequired[KeptFiles]
    kept: NotRequired[str]
    leftOut: NotRequired[int]


class WorktreeList(TypedDict):
    """The worktrees of a repository, which of them are dead and why, and what was cleared."""

    schemaVersion: Literal[1]
    kind: Literal["worktrees"]
    worktrees: list[WorktreeRow]
    damaged: NotRequired[list[DamagedDocument]]
