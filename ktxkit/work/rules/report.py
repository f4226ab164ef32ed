"""What a trace says of time: spans of timed steps, and phases from their first event to their last.

The report of a job: what its documents and its trace say, put together. Pure; the flow of the same name reads them.

Field names are those of the ingestion plan's report body. An absent fact is an absent key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, path_fields, plural, printable, truncated

if TYPE_CHECKING:
    from ktxkit.base.documents import LeftOutPaths, PathAccount, ReportPhase, ReportTimelineSpan, TraceEvent


SPANS_KEPT = 50_000  # spans of one job; the rest is counted
ENDINGS = ("_finished", "_failed")


def milliseconds(at: str) -> float:
    """A timestamp (UTC RFC 3339 with milliseconds) as milliseconds since the epoch. Raises ValueError."""
    return datetime.fromisoformat(at).timestamp() * 1000


def between(start: str, end: str) -> float:
    """Milliseconds from one timestamp to a later one; never negative, since clocks are set back."""
    return max(0.0, round(milliseconds(end) - milliseconds(start), 3))


def stem(name: str) -> str:
    """The step that an event ends: `apply_patch` of `apply_patch_finished`."""
    for ending in ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def spans(events: Iterable[TraceEvent], origin: str) -> list[ReportTimelineSpan]:
    """Every event that says how long it took, as a span. `startMs` counts from `origin`, a timestamp."""
    zero = milliseconds(origin)
    found: list[ReportTimelineSpan] = []
    for event in events:
        if "durationMs" not in event:
            continue
        end = milliseconds(event["at"]) - zero
        unit = event.get("data", {}).get("unitKey")
        span: ReportTimelineSpan = {
            "phase": event["phase"],
            "name": stem(event["event"]),
            "startMs": round(max(0.0, end - event["durationMs"]), 3),
            "durationMs": event["durationMs"],
            "ok": event["level"] != "error",
        }
        span |= {"unitKey": unit} if isinstance(unit, str) and unit else {}
        found.append(span)
    return sorted(found, key=lambda span: (span["startMs"], -span["durationMs"]))


def phases(events: Iterable[TraceEvent], origin: str) -> list[ReportPhase]:
    """Each phase in the order of its first event: from when to when (milliseconds from `origin`), events, errors."""
    zero = milliseconds(origin)
    found: dict[str, ReportPhase] = {}
    for event in events:
        at = max(0.0, milliseconds(event["at"]) - zero)
        begin = max(0.0, at - event.get("durationMs", 0))
        new: ReportPhase = {"phase": event["phase"], "startMs": begin, "endMs": at, "events": 0, "errors": 0}
        phase = found.setdefault(event["phase"], new)
        phase["startMs"] = round(min(phase["startMs"], begin), 3)
        phase["endMs"] = round(max(phase["endMs"], at), 3)
        phase["events"] += 1
        phase["errors"] += event["level"] == "error"
    return list(found.values())


if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import (
        JobOutcome,
        JobState,
        Lease,
        Patch,
        PatchPath,
        Receipt,
        Report,
        ReportFailedWorkUnit,
        ReportFailure,
        ReportIsolatedDiff,
        ReportStatus,
        ReportWorkUnit,
        ReportWorkUnitPath,
        Sentinel,
        UnitResult,
    )

    class UnitFiles(TypedDict, total=False):
        """Where the files of a unit are."""

        patchPath: str
        worktreePath: str
        sentinelPath: str

    from ktxkit.base.documents import Job, TraceEvent

LANDED = ("accepted", "subsumed", "noop")
WAITING = ("pending", "open", "collected", "finished")  # neither in nor out yet
COUNTED = {
    "accepted": "acceptedPatches",
    "subsumed": "subsumed",
    "noop": "noops",
    "textual_conflict": "textualConflicts",
    "semantic_conflict": "semanticConflicts",
    "policy_rejected": "policyRejected",
    "suspect_revert": "suspectReverts",
    "verification_failed": "verificationFailed",
    "invalid_patch": "invalidPatches",
    "missing_base": "missingBases",
    "blocked": "blocked",
    "failed": "failed",
    "skipped": "skipped",
}
PATHS_KEPT = 1000  # paths of one unit; `pathCount` has them all
FINDINGS_KEPT = 1000
REASON_KEPT = 2000  # characters
STATUS: dict[JobState, ReportStatus] = {
    "open": "open",
    "landed": "completed",
    "closed": "completed",
    "failed": "failed",
    "aborted": "failed",
}


class UnitDocs(NamedTuple):
    """The documents of one unit, each None where there is none, and where its files are."""

    position: int
    key: str
    after: Sequence[str] = ()
    lease: Lease | None = None
    patch: Patch | None = None
    receipt: Receipt | None = None
    sentinel: Sentinel | None = None
    result: UnitResult | None = None
    broken: str = ""  # a document of it that cannot be read, and why
    files: UnitFiles = cast("UnitFiles", {})  # those that exist


def outcome_of(docs: UnitDocs, left: Mapping[str, str]) -> str:
    """The unit's outcome word: the receipt's, else why it was left out (the trace), else how far it got."""
    if docs.broken:
        return "broken_contract"
    if docs.receipt:
        return str(docs.receipt["outcome"])
    if left.get("outcome"):
        return left["outcome"]
    ended = str(docs.result["outcome"]) if docs.result else ""
    if ended and ended != "finished":
        return ended
    if docs.patch:
        return str(docs.patch["outcome"])
    return ended or _of_lease(docs.lease)


def _of_lease(lease: Lease | None) -> str:
    """How far a unit got of which there is nothing but its lease: what it says, not that it is there."""
    if lease is None or lease.get("state") != "closed":
        return "open" if lease else "pending"
    return str(lease["outcome"]) if lease.get("outcome") in ("crash", "conflict") else "closed"


def reason_of(docs: UnitDocs, outcome: str, left: Mapping[str, str]) -> str:
    """Why, in one sentence."""
    receipt, patch = docs.receipt, docs.patch
    said = docs.broken or _of_findings(receipt, outcome) or _of_conflicts(receipt) or _of_breaches(receipt, patch)
    said = said or (receipt.get("message", "") if receipt else "")
    if not receipt:  # what stopped an earlier attempt explains nothing once the unit has its receipt
        said = said or left.get("message", "") or _of_result(docs.result)
    return truncated(printable(said or _plain_reason(docs, outcome)), REASON_KEPT)


def _of_findings(receipt: Receipt | None, outcome: str) -> str:
    found = receipt.get("findings", ()) if receipt else ()
    new = [f for f in found if f.get("level") == "error" and not f.get("inherited")]
    if outcome != "semantic_conflict" or not new:
        return ""
    place = ":".join(str(new[0][key]) for key in ("path", "line") if key in new[0])
    return f"{place}: {new[0].get('message', new[0].get('rule', ''))}{_more(new)}"


def _of_conflicts(receipt: Receipt | None) -> str:
    found = receipt.get("conflicts", ()) if receipt else ()
    return f"{found[0]['path']}: {found[0]['reason']}{_more(found)}" if found else ""


def _of_breaches(receipt: Receipt | None, patch: Patch | None) -> str:
    found = (receipt.get("breaches") if receipt else None) or (patch.get("breaches") if patch else None) or ()
    if not found:
        return ""
    path, message = found[0]["path"], found[0]["message"]
    return f"{message if path in message else f'{path}: {message}'}{_more(found)}"


def _of_result(result: UnitResult | None) -> str:
    if not result or result["outcome"] == "finished":
        return ""
    if result.get("message"):
        return str(result["message"])
    if result["outcome"] == "failed" and "exitStatus" in result:
        status = result["exitStatus"]
        return f"its command was ended by signal {-status}" if status < 0 else f"its command ended with status {status}"
    return ""


def _more(found: Sequence[Any]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _plain_reason(docs: UnitDocs, outcome: str) -> str:
    count = len(docs.patch["paths"]) if docs.patch else 0
    known = {
        "noop": _nothing(docs.result),
        "subsumed": "what it changed was there already",
        "pending": "not started",
        "open": "its worktree is open",
        **{word: _closed(docs) for word in ("crash", "conflict", "closed")},
        "finished": "its command ended; not collected yet",
        "collected": f"{plural(count, 'path')} collected, not applied yet",
        "accepted": plural(count, "path") if docs.patch else "applied",
    }
    return known.get(outcome, outcome.replace("_", " "))


def _nothing(result: UnitResult | None) -> str:
    """A unit without a change; its work may lie in the stash, which all worktrees share."""
    changes = result.get("touched", ()) if result is not None else ()
    if any(item["what"].startswith("stash ") for item in changes):
        return "it changed nothing; the shared stash changed while it ran: `git stash list` shows it"
    return "it changed nothing"


def _closed(docs: UnitDocs) -> str:
    why = docs.sentinel.get("reason", "") if docs.sentinel else ""
    outcome = docs.lease.get("outcome", "closed") if docs.lease else "closed"
    return f"its worktree was closed as {outcome}{f': {why}' if why else ''}"


def unit_entry(docs: UnitDocs, left: Mapping[str, str], timed: Mapping[str, float]) -> ReportWorkUnit:
    """One unit of `workUnits`. `left` is what the trace says of why it was not integrated; `timed` its spans."""
    outcome = outcome_of(docs, left)
    entry: ReportWorkUnit = {
        "position": docs.position,
        "key": docs.key,
        "outcome": outcome,
        "reason": reason_of(docs, outcome, left),
        "pathCount": 0,
        "paths": [],
    }
    entry |= {"after": [*docs.after]} if docs.after else {}
    if docs.lease is not None:
        _add_lease(entry, docs.lease)
    if docs.patch is not None:
        _add_patch(entry, docs.patch)
    if docs.receipt is not None:
        _add_receipt(entry, docs.receipt)
    if docs.result is not None:
        _add_result(entry, docs.result)
    durations = _durations(docs, timed)
    entry |= {"durations": durations} if durations else {}
    return {**entry, **docs.files}


def _durations(docs: UnitDocs, timed: Mapping[str, float]) -> dict[str, float]:
    """Milliseconds by step; documents are surer than the trace."""
    measured = dict(list(timed.items())[:60])
    if docs.result is not None:
        measured |= {"run": docs.result["durationMs"]} if "durationMs" in docs.result else {}
    if docs.receipt is not None:
        measured |= {"integrate": docs.receipt["durationMs"]} if "durationMs" in docs.receipt else {}
    return measured


OF_LEASE: Final = ("attempt", "base", "policyDigest")
OF_PATCH: Final = ("base", "patchDigest", "patchBytes", "transport")
OF_PATH: Final = ("pathB64", "binary")
OF_RESULT: Final = (
    "startedAt", "endedAt", "exitStatus", "argv", "stdoutBytes", "stderrBytes", "stdoutCut", "stderrCut", "strays",
)  # fmt: skip


def _add_lease(entry: ReportWorkUnit, lease: Lease) -> None:
    for key in OF_LEASE:
        if key in lease:
            entry[key] = lease[key]


def _add_patch(entry: ReportWorkUnit, patch: Patch) -> None:
    paths = patch["paths"]
    entry["pathCount"], entry["paths"] = len(paths), [_path(item) for item in paths[:PATHS_KEPT]]
    entry["changes"] = dict(sorted(Counter(item["change"] for item in paths).items()))
    entry |= {"patchCommit": patch["commit"]} if "commit" in patch else {}
    entry["patchTree"] = patch["tree"]
    for key in OF_PATCH:
        if key in patch:
            entry[key] = patch[key]
    entry |= {"breaches": [*patch["breaches"]]} if "breaches" in patch else {}
    entry |= {"ignoredCount": patch["ignored"]["count"]} if "ignored" in patch else {}
    if "excluded" in patch and patch["excluded"]["sample"]:
        entry["leftOut"] = _named(patch["excluded"])


def _named(account: LeftOutPaths) -> PathAccount:
    """Count and sample of an account, without the reasons."""
    return {"count": account["count"], "sample": [path_fields(path_bytes(item)) for item in account["sample"]]}


def _path(item: PatchPath) -> ReportWorkUnitPath:
    shown: ReportWorkUnitPath = {"path": item["path"], "change": item["change"]}
    for key in OF_PATH:
        if key in item:
            shown[key] = item[key]
    return shown


def _add_receipt(entry: ReportWorkUnit, receipt: Receipt) -> None:
    entry["integratedAt"], entry["integratedOn"] = receipt["at"], receipt["before"]
    entry |= {"integratedAs": receipt["after"]} if "after" in receipt else {}
    entry["conflicts"] = [*receipt["conflicts"][:FINDINGS_KEPT]]
    entry["findings"] = receipt["findings"][:FINDINGS_KEPT]
    entry |= {"verification": receipt["verification"]} if "verification" in receipt else {}


def _add_result(entry: ReportWorkUnit, result: UnitResult) -> None:
    for key in OF_RESULT:
        if key in result:
            entry[key] = result[key]
    entry |= {"touched": [*result["touched"]]} if "touched" in result else {}
    entry |= {"stdoutPath": result["stdout"]} if "stdout" in result else {}
    entry |= {"stderrPath": result["stderr"]} if "stderr" in result else {}


def left_out(events: Sequence[TraceEvent]) -> dict[str, dict[str, str]]:
    """For each unit that was not integrated, the outcome word and the message that the trace has for it."""
    found: dict[str, dict[str, str]] = {}
    for event in events:
        data = event.get("data", {})
        key = data.get("unitKey")
        if not isinstance(key, str):
            continue
        error = event.get("error", {}).get("message", "")
        if event["event"] == "work_unit_not_integrated":
            found[key] = {"outcome": str(data.get("reason", "")), "message": str(data.get("message", "") or error)}
        elif event["event"] == "patch_refused":
            found[key] = {"outcome": str(data.get("outcome", "")), "message": error}
        elif event["event"] == "work_unit_reused":
            found.pop(key, None)
    return found


def derived(status: ReportStatus, entries: Sequence[ReportWorkUnit], *, landed: bool) -> JobOutcome | None:
    """`done`, `partial` or `error`; None while the job is open. Source: the ingestion plan's report."""
    if status == "open":
        return None
    bad = [entry for entry in entries if entry["outcome"] not in LANDED]
    if status == "failed":
        return "error"
    if not bad:
        return "done"
    return "partial" if landed else "error"


def _origin(job: Job, events: Sequence[TraceEvent]) -> str:
    """When the first step began: a step that was measured before the job was made starts before it."""
    begun = [milliseconds(event["at"]) - event.get("durationMs", 0) for event in events]
    if not begun:
        return job["createdAt"]
    return datetime.fromtimestamp(min(begun) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def assemble(job: Job, units: Sequence[UnitDocs], events: Sequence[TraceEvent], *, at: str, trace: str) -> Report:
    """The report, but for what is in none of the documents. `at`: when it is made; `trace`: the path of the trace."""
    origin = _origin(job, events)
    made = spans(events, origin)
    timed: dict[str, dict[str, float]] = {}
    for span in made:
        if "unitKey" in span:
            mine = timed.setdefault(span["unitKey"], {})
            mine[span["name"]] = round(mine.get(span["name"], 0) + span["durationMs"], 3)
    left = left_out(events)
    entries = [unit_entry(docs, left.get(docs.key, {}), timed.get(docs.key, {})) for docs in units]
    report: Report = {
        "schemaVersion": 1,
        "kind": "report",
        "jobId": job["jobId"],
        "connectionId": job["connectionId"],
        "sourceKey": job["sourceKey"],
        "createdAt": job["createdAt"],
        "generatedAt": at,
        "tracePath": trace,
        "target": job["target"],
        "targetAtStart": job["targetAtStart"],
        "state": job["state"],
        "status": STATUS[job["state"]],
        "isolatedDiff": _isolated(job, entries),
        "workUnits": entries,
        "failedWorkUnits": [_failed(entry) for entry in entries if entry["outcome"] not in (*LANDED, *WAITING)],
        "phases": phases(events, origin),
        "timeline": {"origin": origin, "spans": made[:SPANS_KEPT], "dropped": max(0, len(made) - SPANS_KEPT)},
    }
    _add_end(report, job, entries)
    return report


_FROM_JOB: Final = ("syncId", "startedAt", "finishedAt", "warnings", "projectionResult")


def _add_end(report: Report, job: Job, entries: Sequence[ReportWorkUnit]) -> None:
    """How the job ended, as far as it has."""
    for key in _FROM_JOB:
        if key in job:
            report[key] = job[key]
    outcome, failure = derived(report["status"], entries, landed="landed" in job), _failure(job)
    report |= {"outcome": outcome} if outcome else {}
    report |= {"failure": failure} if failure else {}
    if "landed" in job:
        report |= {"commitSha": job["landed"]["commit"], "landedAt": job["landed"]["at"]}
    if "startedAt" in job and "finishedAt" in job:
        report["durationMs"] = between(job["startedAt"], job["finishedAt"])


def _failed(entry: ReportWorkUnit) -> ReportFailedWorkUnit:
    return {
        "position": entry["position"],
        "key": entry["key"],
        "outcome": entry["outcome"],
        "reason": entry["reason"],
    }


def _failure(job: Job) -> ReportFailure | None:
    if "failure" not in job:
        return None
    failure = job["failure"]
    details = {**failure.get("details", {}), **({"outcome": failure["outcome"]} if "outcome" in failure else {})}
    made: ReportFailure = {"phase": failure["phase"], "message": failure["message"]}
    made |= {"details": details} if details else {}
    return made


def _isolated(job: Job, entries: Sequence[ReportWorkUnit]) -> ReportIsolatedDiff:
    words = Counter(entry["outcome"] for entry in entries)
    counts = cast("ReportIsolatedDiff", {name: words[word] for word, name in COUNTED.items()})
    made: ReportIsolatedDiff = {
        **counts,
        "enabled": True,
        "integrationRef": job["integrationRef"],
        "waiting": sum(words[word] for word in WAITING),
        "outcomes": dict(sorted(words.items())),
    }
    made |= {"ingestionBaseSha": job["base"]} if "base" in job else {}
    made |= {"projectionSha": job["projection"]} if "projection" in job else {}
    return made
