"""What a trace says of time: spans of timed steps, and phases from their first event to their last.

The report of a job: what its documents and its trace say, put together. Pure; the flow of the same name reads them.

Field names are those of the ingestion plan's report body. An absent fact is an absent key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

from ktxkit.base.rules.text import path_bytes, path_fields
from ktxkit.work.rules.reasons import UnitDocs, reason_of

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
    from ktxkit.base.documents import (
        Job,
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
        TraceEvent,
        UnitResult,
    )

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
WHY_KEPT = ACTIONS_KEPT = 1000
STATUS: dict[JobState, ReportStatus] = {
    "open": "open",
    "landed": "completed",
    "closed": "completed",
    "failed": "failed",
    "aborted": "failed",
}


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
    if docs.work is not None and docs.work.get("reasons"):
        entry["why"] = [_said_why(one) for one in docs.work["reasons"][:WHY_KEPT]]
    if docs.actions is not None and docs.actions.get("actions"):
        entry["actions"] = [{**one} for one in docs.actions["actions"][:ACTIONS_KEPT]]
    durations = _durations(docs, timed)
    entry |= {"durations": durations} if durations else {}
    return {**entry, **docs.files}


def _said_why(reason: str) -> str:
    """`cards/1.json changed`: a reason of the plan, the file first."""
    word, colon, path = reason.partition(": ")
    said = {"changed": "changed", "dependency": "changed, on which it builds"}.get(word)
    return f"{path} {said}" if colon and said else reason


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
            left = {"outcome": str(data.get("reason", "")), "message": str(data.get("message", "") or error)}
            found[key] = left_out_again(found.get(key), left) if data.get("started") is False else left
        elif event["event"] == "patch_refused":
            found[key] = {"outcome": str(data.get("outcome", "")), "message": error}
        elif event["event"] == "work_unit_reused":
            found.pop(key, None)
    return found


def left_out_again(earlier: Mapping[str, str] | None, left: dict[str, str]) -> dict[str, str]:
    """What is known of a unit that an execution did not start: what an earlier one found of it stays, and `again` says
    why it was not tried again."""
    if earlier is None or earlier["outcome"] == "skipped":
        return left
    return {**earlier, "again": left["message"].replace("not started", "not started again", 1)}


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


def _with_rivals(units: Sequence[UnitDocs]) -> list[UnitDocs]:
    """The units, each that conflicted with those before it that changed its paths: whom it lost to."""
    accepted: dict[str, list[str]] = {}
    found = []
    for docs in units:
        clashed = {item["path"] for item in docs.receipt["conflicts"]} if docs.receipt else set()
        found.append(docs._replace(rivals={path: [*accepted[path]] for path in clashed if path in accepted}))
        if docs.receipt and docs.patch and docs.receipt["outcome"] == "accepted":
            for item in docs.patch["paths"]:
                accepted.setdefault(item["path"], []).append(docs.key)
    return found


def assemble(job: Job, units: Sequence[UnitDocs], events: Sequence[TraceEvent], *, at: str, trace: str) -> Report:
    """The report, but for what is in none of the documents. `at`: when it is made; `trace`: the path of the trace."""
    origin = _origin(job, events)
    units = _with_rivals(units)
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
