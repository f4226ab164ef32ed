"""A failure after a branch has moved says that it has moved: what landed is never hidden behind a full disk.

What could not be written then is written by the next command on that branch (`flows.recover`), exactly once.

The report of a job, read from its documents and its trace. What cannot be read is named in it, never fatal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, KtxError
from ktxkit.base.rules.text import path_fields, printable
from ktxkit.git.git import Git
from ktxkit.store import jobs
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.tracing import CONTRACT as TRACE
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work.rules.report import UnitDocs, assemble


@contextmanager
def naming_what_moved(world: World, held: HeldBranch, place: str, what: str, again: str) -> Iterator[None]:
    """For a block that moves a branch by the intent at `place`. A failure after the move names the commit and `again`.

    `what` begins the sentence ("job j1 has landed"), `again` is the command that completes the record.
    """
    try:
        yield
    except (OSError, KtxError) as error:
        intent = _ours(world, held, place)
        if intent is None:
            raise
        raise _told(error, intent, what, again) from error


def _ours(world: World, held: HeldBranch, place: str) -> Document | None:
    """The intent of this holding, where its commit is on the branch."""
    try:
        intent = world.store.read_optional("intent", place)
    except BrokenContract:
        return None
    if intent is None or intent["nonce"] != held.nonce:
        return None
    return intent if has_moved(held.git, intent) else None


def has_moved(git: Git, intent: Document) -> bool:
    """Whether the branch has the journalled commit: it is there, or somebody went on from it."""
    return "commit" in intent and git.ok("merge-base", "--is-ancestor", intent["commit"], intent["ref"])


def is_in(git: Git, target: str, commit: str, before: str) -> bool:
    """Whether a landing is in its target now: contained in it, or a commit since `before` has exactly its tree (an
    amended message, a squash). A document does not say so, the branch does."""
    if git.resolve(target) is None:
        return False
    if git.ok("merge-base", "--is-ancestor", commit, target):
        return True
    tree = git.resolve(commit, "tree")
    since = [f"^{before}"] if git.resolve(before) is not None else []
    return tree is not None and tree in git.run("log", "--format=%T", target, *since, "--").lines


def no_longer_in(world: World, job: Document) -> str:
    """What a job landed as and where it is not any more, in words; empty where it is in, or never landed.

    Raises BrokenContract for a damaged landing document.
    """
    landing = world.store.read_optional("landing", names.job_part(job["jobId"], "landing"))
    if landing is None or "commit" not in landing:
        return ""
    git, target = world.git.at(world.repository.place), landing["target"]
    if is_in(git, target, landing["commit"], landing["before"]):
        return ""
    return f"landed as {landing['commit'][:12]}, no longer on {target.removeprefix('refs/heads/')}"


def landed_of(world: World, job: Document, problems: list[Document]) -> Document:
    """What landed of a job whose own document does not say so (yet): by its receipt, or by the target itself.

    Empty where nothing did. A damaged document is named in `problems`.
    """
    for contract, name in (("landing", "landing"), ("intent", "landing-intent")):
        try:
            found = world.store.read_optional(contract, names.job_part(job["jobId"], name))
        except BrokenContract as error:
            problems.append({"where": error.where, "message": error.message})
            continue
        if found is None or "commit" not in found:
            continue
        if contract == "landing" or has_moved(world.git.at(world.repository.place), found):
            return {"commit": found["commit"], "at": found["at"]}
    return {}


def _told(error: OSError | KtxError, intent: Document, what: str, again: str) -> KtxError:
    done = f"{what} as {intent['commit']} on {intent['ref']}"
    data = {"landed": {"commit": intent["commit"], "ref": intent["ref"], "before": intent["before"]}}
    if isinstance(error, OSError):
        where = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
        return CannotRun(
            f"{done}, but its record could not be completed: {error.strerror or error}",
            where=where,
            hint=f"put that right, then {again}: it completes the record and moves nothing",
            data=data,
        )
    hint = f"{error.hint}; then {again}: it completes the record and moves nothing" if error.hint else again
    kind = Blocked if isinstance(error, Blocked) else CannotRun
    message = f"{done}, but {error.message}"
    return kind(message, where=error.where, hint=hint, outcome=error.outcome, data={**error.data, **data})


CONTRACT = "report"
WARNINGS_KEPT = 10_000
UNIT_DOCS = {"lease": "lease", "patch": "patch", "receipt": "receipt", "sentinel": "sentinel", "result": "unit-result"}


def build(world: World, job: Document, more: Mapping[str, Any] | None = None) -> Document:
    """The report of a job as it stands; `more` are facts of whoever ran it (`provenanceRows` and the like).

    A damaged document or trace line is in `problems`, and its unit's outcome is `broken_contract`: a job that failed
    must still leave a report. Raises OSError.
    """
    problems: list[Document] = []
    landed = {} if "landed" in job else landed_of(world, job, problems)
    job = {**job, "landed": landed} if landed else job
    units = [_unit(world, str(job["jobId"]), unit, problems) for unit in jobs.units(job)]
    trace = Journal(world.store.path(names.trace_file(job["jobId"])), TRACE, world.clock)
    events = _events(trace, problems)
    facts: Document = {
        "generatedAt": timestamp(world.clock.now()),
        "tracePath": str(trace.path),
        "traceEvents": len(events),
        **_stored(world, job),
        **_summary(events),
        **_ingestion(world, job, problems),
        **(more or {}),
    }
    pruned = [one for unit in units if unit.receipt for one in unit.receipt.get("pruned", ())]
    if pruned:
        facts["prunedReferences"] = pruned
    gone = _gone(world, job, problems)
    if gone:
        told: list[str] = facts.get("warnings") or job.get("warnings") or []
        facts["warnings"] = [*told, f"{gone}: job-land --job {job['jobId']} lands it again"]
    if problems:
        facts["problems"] = problems
    if world.store.exists(names.integration_dir(job["jobId"])):
        facts["isolatedDiff"] = {"integrationWorktreePath": str(world.store.path(names.integration_dir(job["jobId"])))}
    return assemble(job, units, events, facts)


def _gone(world: World, job: Document, problems: list[Document]) -> str:
    """`no_longer_in`; a damaged landing document is named in `problems`."""
    try:
        return no_longer_in(world, job)
    except BrokenContract as error:
        if error.where not in [problem["where"] for problem in problems]:
            problems.append({"where": error.where, "message": error.message})
        return ""


def _ingestion(world: World, job: Document, problems: list[Document]) -> Document:
    """What an ingestion wrote down beside its units; nothing for another job."""
    try:
        found = world.store.read_optional("ingest-outcome", names.job_part(job["jobId"], "ingest-outcome"))
    except BrokenContract as error:
        problems.append({"where": error.where, "message": error.message})
        return {}
    own = ("schemaVersion", "kind", "jobId", "syncId")
    told = {key: value for key, value in (found or {}).items() if key not in own}
    if told.get("warnings"):
        told["warnings"] = list(dict.fromkeys([*job.get("warnings", ()), *told["warnings"]]))[:WARNINGS_KEPT]
    return told


def _stored(world: World, job: Document) -> Document:
    place = names.report_doc(job["jobId"])
    return {"reportPath": str(world.store.path(place))} if world.store.exists(place) else {}


def latest(world: World) -> str | None:
    """The id of the job that was created last; damaged ones are passed over."""
    found = [(str(job["createdAt"]), str(job["jobId"])) for job in jobs.readable(world)]
    return max(found)[1] if found else None


def _unit(world: World, job: str, unit: jobs.Unit, problems: list[Document]) -> UnitDocs:
    read: dict[str, Document | None] = {}
    broken = ""
    for name, contract in UNIT_DOCS.items():
        if contract not in contracts.names():
            continue
        try:
            read[name] = world.store.read_optional(contract, names.unit_doc(job, unit.position, unit.key, name))
        except BrokenContract as error:
            broken = broken or f"{name}.json: {error.message}"
            problems.append({"where": error.where, "message": error.message, "unitKey": unit.key})
    read["patch"] = _as_received(world, read["patch"], read["receipt"])
    return UnitDocs(unit.position, unit.key, unit.after, broken=broken, files=_files(world, job, unit), **read)


CHANGES = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "typechange"}


def _as_received(world: World, patch: Document | None, receipt: Document | None) -> Document | None:
    """The patch that the receipt speaks of. Where the unit was collected again after it was accepted, its paths are
    those of the commit that was made of it."""
    if patch is None or receipt is None or receipt["outcome"] != "accepted" or "commit" not in receipt:
        return patch
    if receipt.get("patchTree", patch["tree"]) == patch["tree"]:
        return patch
    git, commit = world.git.at(world.repository.place), receipt["commit"]
    found = git.run("diff-tree", "-r", "-z", "--no-renames", "--name-status", f"{commit}^", commit, ok=None)
    told = found.nul if found.status == 0 else []
    paths = [{**path_fields(path), "change": CHANGES[word]} for word, path in zip(told[::2], told[1::2], strict=True)]
    kept = {key: patch[key] for key in ("base",) if key in patch}
    return {**kept, "paths": paths, "tree": receipt["patchTree"]}


def _files(world: World, job: str, unit: jobs.Unit) -> dict[str, str]:
    places = {
        "patchPath": names.patch_file(job, unit.position, unit.key),
        "worktreePath": names.worktree_dir(job, unit.position, unit.key),
        "sentinelPath": names.unit_doc(job, unit.position, unit.key, "sentinel"),
    }
    return {key: str(world.store.path(place)) for key, place in places.items() if world.store.exists(place)}


def _events(trace: Journal, problems: list[Document]) -> list[Document]:
    events: list[Document] = []
    try:
        for event in trace.records():
            events.append(event)  # one by one: what stands before a damaged line is kept
    except BrokenContract as error:
        problems.append({"where": error.where, "message": error.message})
    return events


def _summary(events: list[Document]) -> Document:
    """What the snapshot said of its difference to the last one."""
    for event in events:
        found = event.get("data", {}).get("diffSummary")
        if event["event"] in ("input_snapshot", "compute_diff_set_finished") and isinstance(found, dict):
            return {"diffSummary": found}
    return {}
