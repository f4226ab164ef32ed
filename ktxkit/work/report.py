"""A failure after a branch has moved says that it has moved: what landed is never hidden behind a full disk.

What could not be written then is written by the next command on that branch (`flows.recover`), exactly once.

What a person should know of a change that lands, and no reason to refuse it.

The report of a job, read from its documents and its trace. What cannot be read is named in it, never fatal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar, cast

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, KtxError
from ktxkit.base.rules.text import path_fields, printable
from ktxkit.git.git import Git
from ktxkit.git.rules.patch import Entry, entries_of
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work.rules.reasons import UnitDocs, UnitOutput, reason_of
from ktxkit.work.rules.report import assemble
from ktxkit.work.verification import end_of

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        Intent,
        Job,
        JobLanded,
        Patch,
        Receipt,
        Report,
        ReportProblem,
        TraceEvent,
        UnitActions,
        UnitResult,
    )
    from ktxkit.base.kinds import D, Kind
    from ktxkit.work.rules.reasons import UnitFiles


Whose = TypeVar("Whose")


@contextmanager
def naming_what_moved(held: HeldBranch, intent_name: str, what: str, command: str) -> Iterator[None]:
    """For a block that moves a branch by the intent at `intent_name`; a failure after it names commit and `command`.

    `what` begins the sentence ("job j1 has landed"), `command` is the command that completes the record.
    """
    try:
        yield
    except (OSError, KtxError) as error:
        intent = _ours(held, intent_name)
        if intent is None:
            raise
        raise _told(error, intent, what, command) from error


def _ours(held: HeldBranch, intent_name: str) -> Intent | None:
    """The intent of this holding, where its commit is on the branch."""
    try:
        intent = held.world.store.read_optional(kinds.INTENT, intent_name)
    except BrokenContract:
        return None
    if intent is None or intent["nonce"] != held.nonce:
        return None
    return intent if has_moved(held.git, intent) else None


def has_moved(git: Git, intent: Intent) -> bool:
    """Whether the branch has the journalled commit: it is there, or somebody went on from it."""
    return "commit" in intent and git.is_ancestor(intent["commit"], intent["ref"])


def is_in(git: Git, target: str, commit: str, before: str) -> bool:
    """Whether a landing is in its target now: contained in it, or a commit since `before` has exactly its tree (an
    amended message, a squash). A document does not say so, the branch does."""
    head = git.resolve(target)
    if head is None:
        return False
    if head == commit or git.is_ancestor(commit, target):
        return True
    tree = git.resolve(commit, "tree")
    since = [f"^{before}"] if git.resolve(before) is not None else []
    return tree is not None and tree in git.run("log", "--format=%T", target, *since, "--").lines


def no_longer_in(job: ActiveJob) -> str:
    """What a job landed as and where it is not any more, in words; empty where it is in, or never landed.

    Raises BrokenContract for a damaged landing document.
    """
    landing = job.read(kinds.LANDING, "landing")
    if landing is None or "commit" not in landing:
        return ""
    git, target = job.git, landing["target"]
    if is_in(git, target, landing["commit"], landing["before"]):
        return ""
    return f"landed as {landing['commit'][:12]}, no longer on {target.removeprefix('refs/heads/')}"


def landed_of(job: ActiveJob, problems: list[ReportProblem]) -> JobLanded | None:
    """What landed of a job whose own document does not say so (yet): by its receipt, or by the target itself.

    None where nothing did. A damaged document is named in `problems`.
    """
    try:
        landing = job.read(kinds.LANDING, "landing")
        if landing is not None and "commit" in landing:
            return {"commit": landing["commit"], "at": landing["at"]}
    except BrokenContract as error:
        problems.append({"where": error.location, "message": error.message})
    try:
        intent = job.read(kinds.INTENT, "landing-intent")
        if intent is not None and has_moved(job.git, intent):
            return {"commit": intent["commit"], "at": intent["at"]}
    except BrokenContract as error:
        problems.append({"where": error.location, "message": error.message})
    return None


def _told(error: OSError | KtxError, intent: Intent, what: str, again: str) -> KtxError:
    done = f"{what} as {intent['commit']} on {intent['ref']}"
    data = {"landed": {"commit": intent["commit"], "ref": intent["ref"], "before": intent["before"]}}
    if isinstance(error, OSError):
        where = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
        return CannotRun(
            f"{done}, but its record could not be completed: {error.strerror or error}",
            location=where,
            hint=f"put that right, then {again}: it completes the record and moves nothing",
            data=data,
        )
    hint = f"{error.hint}; then {again}: it completes the record and moves nothing" if error.hint else again
    kind = Blocked if isinstance(error, Blocked) else CannotRun
    message = f"{done}, but {error.message}"
    return kind(message, location=error.location, hint=hint, outcome=error.outcome, data={**error.data, **data})


CONTRACT = "report"
WARNINGS_KEPT = 10_000
OF_INGESTION: Final = (
    "diffSummary", "reconciliation", "reconciliationSkipped", "evictionsApplied", "evictionInputs", "snapshotsRemoved",
    "evictionsKept", "provenanceRows", "projectionResult", "supersededBy", "overrideOf", "unmapped", "unresolved",
    "conflictsResolved",
)  # fmt: skip


def build(job: ActiveJob) -> Report:
    """The report of a job as it stands.

    A damaged document or trace line is in `problems`, and its unit's outcome is `broken_contract`: a job that failed
    must still leave a report. Raises OSError.
    """
    problems: list[ReportProblem] = []
    landed = None if "landed" in job.document else landed_of(job, problems)
    document: Job = {**job.document, "landed": landed} if landed else job.document
    units = [_unit(job, unit, problems) for unit in job.units]
    events = events_of(job, problems)
    trace = str(job.world.store.path(names.trace_file(job.id)))
    report = assemble(document, units, events, at=timestamp(job.world.clock.now()), trace=trace)
    report["traceEvents"] = len(events)
    stored = names.report_doc(job.id)
    report |= {"reportPath": str(job.world.store.path(stored))} if job.world.store.exists(stored) else {}
    _add_difference(report, events)
    _add_ingestion(report, job, problems)
    cut = [one for unit in units if unit.receipt for one in unit.receipt.get("pruned", ())]
    pruned = [*document.get("pruned", ()), *cut]
    report |= {"prunedReferences": pruned} if pruned else {}
    gone = _gone(job, problems)
    if gone:
        earlier = report.get("warnings", job.document.get("warnings", []))
        report["warnings"] = [*earlier, f"{gone}: job-land --job {job.id} lands it again"]
    report |= {"problems": problems} if problems else {}
    if job.world.store.exists(names.integration_dir(job.id)):
        place = job.world.store.path(names.integration_dir(job.id))
        report["isolatedDiff"]["integrationWorktreePath"] = str(place)
    return report


def _gone(job: ActiveJob, problems: list[ReportProblem]) -> str:
    """`no_longer_in`; a damaged landing document is named in `problems`."""
    try:
        return no_longer_in(job)
    except BrokenContract as error:
        if error.location not in [problem["where"] for problem in problems]:
            problems.append({"where": error.location, "message": error.message})
        return ""


def _add_ingestion(report: Report, job: ActiveJob, problems: list[ReportProblem]) -> None:
    """What an ingestion wrote down beside its units; nothing for another job."""
    try:
        outcome = job.read(kinds.INGEST_OUTCOME, "ingest-outcome")
    except BrokenContract as error:
        problems.append({"where": error.location, "message": error.message})
        return
    for key in OF_INGESTION:
        if outcome is not None and key in outcome:
            report[key] = outcome[key]
    if outcome is not None and outcome.get("warnings"):
        warnings = dict.fromkeys([*job.document.get("warnings", ()), *outcome["warnings"]])
        report["warnings"] = list(warnings)[:WARNINGS_KEPT]
    if outcome is not None and "nearDuplicates" in outcome:
        report["nearDuplicates"] = [*outcome["nearDuplicates"]]
    if outcome is not None and "artifactResolutions" in outcome:
        report["artifactResolutions"] = [*outcome["artifactResolutions"]]


def latest(world: World) -> str | None:
    """The id of the job that was created last; damaged ones are passed over."""
    found = [(str(job.document["createdAt"]), job.id) for job in jobs.readable(world)]
    return max(found)[1] if found else None


def _unit(job: ActiveJob, unit: Unit, problems: list[ReportProblem]) -> UnitDocs:
    broken = ""

    def read(kind: Kind[D], name: str) -> D | None:
        nonlocal broken
        try:
            return job.read(kind, name, unit)
        except BrokenContract as error:
            broken = broken or f"{name}.json: {error.message}"
            problems.append({"where": error.location, "message": error.message, "unitKey": unit.key})
            return None

    receipt, result = read(kinds.RECEIPT, "receipt"), read(kinds.UNIT_RESULT, "result")
    return UnitDocs(
        unit.position,
        unit.key,
        unit.after,
        lease=read(kinds.LEASE, "lease"),
        patch=_as_received(job, read(kinds.PATCH, "patch"), receipt),
        receipt=receipt,
        sentinel=read(kinds.SENTINEL, "sentinel"),
        result=result,
        broken=broken,
        files=_files(job, unit),
        printed=_printed(job, unit, result, receipt),
        work=read(kinds.WORK_UNIT, "work-unit"),
        actions=_actions(job, unit),
    )


def _actions(job: ActiveJob, unit: Unit) -> UnitActions | None:
    """What the unit's worker says it did. One that is damaged is a claim that nobody can read, and no problem here."""
    try:
        return job.read(kinds.UNIT_ACTIONS, "actions", unit)
    except BrokenContract:
        return None


def why(
    job: ActiveJob, unit: Unit, outcome: str, left: Mapping[str, str], changed_by: Mapping[str, Sequence[str]]
) -> tuple[str, float | None]:
    """Why a unit has its outcome, in a sentence, and how long its command ran (milliseconds; None: it did not).

    `left`: what the job knows of it, as `left_out` has it; `changed_by`: of each path the units that changed it and
    were accepted.
    """
    docs = _unit(job, unit, [])._replace(rivals=changed_by)
    ran = docs.result.get("durationMs") if docs.result is not None else None
    return reason_of(docs, outcome, left), ran


def _printed(job: ActiveJob, unit: Unit, result: UnitResult | None, receipt: Receipt | None) -> UnitOutput:
    """The ends of what a command without a receipt printed: a reason may repeat them."""
    if result is None or receipt is not None or "stdout" not in result:
        return UnitOutput()
    logs = (f"{job.unit_dir(unit)}/{name}.log" for name in ("stdout", "stderr"))
    return UnitOutput(*(end_of(job.world.store.path(log)) for log in logs))


CHANGES = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "typechange"}


def _as_received(job: ActiveJob, patch: Patch | None, receipt: Receipt | None) -> Patch | None:
    """The patch that the receipt speaks of. Where the unit was collected again after it was accepted, its paths are
    those of the commit that was made of it."""
    if patch is None or receipt is None or receipt["outcome"] != "accepted" or "commit" not in receipt:
        return patch
    if receipt.get("patchTree", patch["tree"]) == patch["tree"]:
        return patch
    git, commit = job.git, receipt["commit"]
    words = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", f"{commit}^", commit)
    found = git.run(*words, ok=(0, 128), twice=(128,))
    told = found.nul if found.status == 0 else []
    paths = [{**path_fields(path), "change": CHANGES[word]} for word, path in zip(told[::2], told[1::2], strict=True)]
    kept = {key: patch[key] for key in ("base",) if key in patch}
    return cast(
        "Patch", {**kept, "paths": paths, "tree": receipt["patchTree"]}
    )  # what else it says is of the later one


def _files(job: ActiveJob, unit: Unit) -> UnitFiles:
    def there(relative: str) -> str:
        return str(job.world.store.path(relative)) if job.world.store.exists(relative) else ""

    paths: UnitFiles = {}
    if patch := there(job.patch_file(unit)):
        paths["patchPath"] = patch
    if worktree := there(names.worktree_dir(job.id, unit.position, unit.key)):
        paths["worktreePath"] = worktree
    if sentinel := there(job.unit_doc(unit, "sentinel")):
        paths["sentinelPath"] = sentinel
    return paths


def events_of(job: ActiveJob, problems: list[ReportProblem]) -> list[TraceEvent]:
    """The trace of a job; where a line is damaged, what stands before it, and `problems` has it."""
    trace = Journal(job.world.store.path(names.trace_file(job.id)), kinds.TRACE_EVENT, job.world.clock)
    events: list[TraceEvent] = []
    try:
        for event in trace.records():
            events.append(event)  # one by one: what stands before a damaged line is kept
    except BrokenContract as error:
        problems.append({"where": error.location, "message": error.message})
    return events


def _add_difference(report: Report, events: list[TraceEvent]) -> None:
    """What the snapshot said of its difference to the last one."""
    for event in events:
        found = event.get("data", {}).get("diffSummary")
        if event["event"] in ("input_snapshot", "compute_diff_set_finished") and isinstance(found, dict):
            report["diffSummary"] = found
            return


RESTORES = "restores_old_content"
UNPUBLISHED = "unpublished_submodule"
REMARKS = (RESTORES, UNPUBLISHED)
PATHS_LOOKED_AT = 500  # of one change or job: the history of each is walked
KEPT = 10_000


def remark(job: ActiveJob, units: Sequence[Unit]) -> list[str]:
    """What a person should know of units that are about to land, said in the job's warnings and its trace.

    An old blob that comes back: a unit that was made from a stale copy takes a fix back, and looks like any other
    change. A submodule at a commit that no remote of it has, where the job allows that. Raises GitFailed.
    """
    told = [*_unpublished(job, units), *_restored(job, units)]
    known = job.document.get("warnings", [])
    if set(told) - set(known):
        said = list(dict.fromkeys([*known, *told]))[:KEPT]
        job.change(lambda document: document.update({"warnings": said}))
    return told


def _unpublished(job: ActiveJob, units: Sequence[Unit]) -> Iterator[str]:
    for unit in units:
        patch = job.read(kinds.PATCH, "patch", unit)
        for item in patch.get("unpublished", ()) if patch is not None else ():
            facts = {"unitKey": unit.key, "path": item["path"]}
            job.tracer.emit("integration", UNPUBLISHED, facts, level="info")
            yield f"{unit.key}: submodule {item['path']} is at a commit that no remote of it has ({UNPUBLISHED})"


def _restored(job: ActiveJob, units: Sequence[Unit]) -> Iterator[str]:
    patches = [(unit, job.read(kinds.PATCH, "patch", unit)) for unit in units]
    changed = [(unit, entry) for unit, patch in patches if patch is not None for entry in entries_of(patch)]
    for unit, entry, commit in restored(job.git, job.document["targetAtStart"], changed):
        path = printable(entry.path)
        facts = {"unitKey": unit.key, "path": path, "blob": entry.new.oid, "replacedBy": commit}
        job.tracer.emit("integration", RESTORES, facts, level="info")
        yield f"{unit.key}: {put_back(entry, commit)}"


def put_back(entry: Entry, commit: str) -> str:
    """That a change makes a file again what it was, for people."""
    return f"{printable(entry.path)} is again as it was before commit {commit[:12]} changed it ({RESTORES})"


def restored(git: Git, commit: str, changed: Iterable[tuple[Whose, Entry]]) -> Iterator[tuple[Whose, Entry, str]]:
    """The entries whose new blob stood at their path before some commit of a branch replaced it, and that commit."""
    found = [(w, e) for w, e in changed if e.new.kind in ("regular", "executable") and e.new.oid != e.old.oid]
    earlier = replaced(git, commit, [entry.path for _, entry in found[:PATHS_LOOKED_AT]])
    for whose, entry in found:
        if by := earlier.get((entry.path, entry.new.oid)):
            yield whose, entry, by


def replaced(git: Git, commit: str, paths: Sequence[bytes]) -> dict[tuple[bytes, str], str]:
    """For each path and blob that a branch once had there and has no more: the newest commit that replaced it.

    By first parents: what came in by a merge is the merge's. Raises GitFailed.
    """
    found: dict[tuple[bytes, str], str] = {}
    if not paths:
        return found
    how = ("--first-parent", "-m", "--raw", "-z", "--no-renames", "--no-abbrev", "--format=commit %H")
    at, fields = "", iter(git.run("log", *how, commit, "--", *sorted(set(paths))).nul)
    for field in fields:
        line = field.lstrip(b"\n")
        if line.startswith(b"commit "):
            at = line[7:].decode("ascii")
        elif line.startswith(b":"):
            old = line.split(b" ")[2].decode("ascii")
            found.setdefault((next(fields), old), at)
    return found
