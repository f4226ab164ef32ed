"""What a trace says of time: spans of timed steps, and phases from their first event to their last.

The report of a job: what its documents and its trace say, put together. Pure; the flow of the same name reads them.

Field names are those of the ingestion plan's report body. An absent fact is an absent key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ktxkit.base.rules.text import plural, printable, truncated

SPANS_KEPT = 50_000  # spans of one job; the rest is counted
ENDINGS = ("_finished", "_failed")
Event = Mapping[str, Any]


def milliseconds(at: str) -> float:
    """A timestamp (UTC RFC 3339 with milliseconds) as milliseconds since the epoch. Raises ValueError."""
    return datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp() * 1000


def between(start: str, end: str) -> float:
    """Milliseconds from one timestamp to a later one; never negative, since clocks are set back."""
    return max(0.0, round(milliseconds(end) - milliseconds(start), 3))


def stem(name: str) -> str:
    """The step that an event ends: `apply_patch` of `apply_patch_finished`."""
    for ending in ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def spans(events: Iterable[Event], origin: str) -> list[dict[str, Any]]:
    """Every event that says how long it took, as a span. `startMs` counts from `origin`, a timestamp."""
    zero = milliseconds(origin)
    found = []
    for event in events:
        if "durationMs" not in event:
            continue
        end = milliseconds(event["at"]) - zero
        unit = event.get("data", {}).get("unitKey")
        found.append(
            {
                "phase": event["phase"],
                "name": stem(event["event"]),
                **({"unitKey": unit} if isinstance(unit, str) and unit else {}),
                "startMs": round(max(0.0, end - event["durationMs"]), 3),
                "durationMs": event["durationMs"],
                "ok": event["level"] != "error",
            }
        )
    return sorted(found, key=lambda span: (span["startMs"], -span["durationMs"]))


def phases(events: Iterable[Event], origin: str) -> list[dict[str, Any]]:
    """Each phase in the order of its first event: from when to when (milliseconds from `origin`), events, errors."""
    zero = milliseconds(origin)
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        at = max(0.0, milliseconds(event["at"]) - zero)
        begin = max(0.0, at - event.get("durationMs", 0))
        new = {"phase": event["phase"], "startMs": begin, "endMs": at, "events": 0, "errors": 0}
        phase = found.setdefault(event["phase"], new)
        phase["startMs"] = round(min(phase["startMs"], begin), 3)
        phase["endMs"] = round(max(phase["endMs"], at), 3)
        phase["events"] += 1
        phase["errors"] += event["level"] == "error"
    return list(found.values())


Facts = dict[str, Any]
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
STATUS = {"open": "open", "landed": "completed", "closed": "completed", "failed": "failed", "aborted": "failed"}


@dataclass(frozen=True)
class UnitDocs:
    """The documents of one unit, each None where there is none, and where its files are."""

    position: int
    key: str
    after: Sequence[str] = ()
    lease: Facts | None = None
    patch: Facts | None = None
    receipt: Facts | None = None
    sentinel: Facts | None = None
    result: Facts | None = None
    broken: str = ""  # a document of it that cannot be read, and why
    files: Mapping[str, str] = field(default_factory=dict)  # patchPath, worktreePath, sentinelPath that exist


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


def _of_lease(lease: Facts | None) -> str:
    """How far a unit got of which there is nothing but its lease: what it says, not that it is there."""
    if lease is None or lease.get("state") != "closed":
        return "open" if lease else "pending"
    return str(lease["outcome"]) if lease.get("outcome") in ("crash", "conflict") else "closed"


def reason_of(docs: UnitDocs, outcome: str, left: Mapping[str, str]) -> str:
    """Why, in one sentence."""
    receipt, patch = docs.receipt or {}, docs.patch or {}
    said = docs.broken or _of_findings(receipt, outcome) or _of_conflicts(receipt) or _of_breaches(receipt, patch)
    said = said or str(receipt.get("message", ""))
    if not receipt:  # what stopped an earlier attempt explains nothing once the unit has its receipt
        said = said or left.get("message", "") or _of_result(docs.result)
    return truncated(printable(said or _plain_reason(docs, outcome)), REASON_KEPT)


def _of_findings(receipt: Facts, outcome: str) -> str:
    new = [f for f in receipt.get("findings", ()) if f.get("level") == "error" and not f.get("inherited")]
    if outcome != "semantic_conflict" or not new:
        return ""
    place = ":".join(str(new[0][key]) for key in ("path", "line") if key in new[0])
    return f"{place}: {new[0].get('message', new[0].get('rule', ''))}{_more(new)}"


def _of_conflicts(receipt: Facts) -> str:
    found = receipt.get("conflicts", ())
    if not found:
        return ""
    why = found[0].get("reason", "")
    return f"{found[0]['path']}{f': {why}' if why else ''}{_more(found)}"


def _of_breaches(receipt: Facts, patch: Facts) -> str:
    found = receipt.get("breaches") or patch.get("breaches") or ()
    if not found:
        return ""
    path, message = found[0]["path"], found[0]["message"]
    return f"{message if path in message else f'{path}: {message}'}{_more(found)}"


def _of_result(result: Facts | None) -> str:
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
    count = len((docs.patch or {}).get("paths", ()))
    known = {
        "noop": "it changed nothing",
        "subsumed": "what it changed was there already",
        "pending": "not started",
        "open": "its worktree is open",
        **{word: _closed(docs) for word in ("crash", "conflict", "closed")},
        "finished": "its command ended; not collected yet",
        "collected": f"{plural(count, 'path')} collected, not applied yet",
        "accepted": plural(count, "path") if docs.patch else "applied",
    }
    return known.get(outcome, outcome.replace("_", " "))


def _closed(docs: UnitDocs) -> str:
    why = (docs.sentinel or {}).get("reason", "")
    return f"its worktree was closed as {(docs.lease or {}).get('outcome', 'closed')}{f': {why}' if why else ''}"


def unit_entry(docs: UnitDocs, left: Mapping[str, str], timed: Mapping[str, float]) -> Facts:
    """One unit of `workUnits`. `left` is what the trace says of why it was not integrated; `timed` its spans."""
    outcome = outcome_of(docs, left)
    return {
        "position": docs.position,
        "key": docs.key,
        **({"after": [*docs.after]} if docs.after else {}),
        "outcome": outcome,
        "reason": reason_of(docs, outcome, left),
        **_lease_facts(docs.lease),
        **_patch_facts(docs.patch),
        **_receipt_facts(docs.receipt),
        **_result_facts(docs.result),
        **docs.files,
        **({"durations": durations} if (durations := _durations(docs, timed)) else {}),
    }


def _durations(docs: UnitDocs, timed: Mapping[str, float]) -> dict[str, float]:
    """Milliseconds by step; documents are surer than the trace."""
    run = (docs.result or {}).get("durationMs")
    integrate = (docs.receipt or {}).get("durationMs")
    measured = {"run": run, "integrate": integrate}
    return dict(list(timed.items())[:60]) | {name: ms for name, ms in measured.items() if ms is not None}


def _copied(source: Facts | None, names: Mapping[str, str]) -> Facts:
    return {new: source[old] for old, new in names.items() if source and old in source}


def _lease_facts(lease: Facts | None) -> Facts:
    return _copied(lease, {"attempt": "attempt", "base": "base", "policyDigest": "policyDigest"})


def _patch_facts(patch: Facts | None) -> Facts:
    if patch is None:
        return {"pathCount": 0, "paths": []}
    paths = patch["paths"]
    kept = [{key: p[key] for key in ("path", "pathB64", "change", "binary") if key in p} for p in paths[:PATHS_KEPT]]
    copied = {"commit": "patchCommit", "tree": "patchTree", "base": "base", "patchDigest": "patchDigest"}
    return {
        "pathCount": len(paths),
        "paths": kept,
        "changes": dict(sorted(Counter(p["change"] for p in paths).items())),
        **_copied(patch, copied | {"patchBytes": "patchBytes", "transport": "transport", "breaches": "breaches"}),
        **({"ignoredCount": patch["ignored"]["count"]} if "ignored" in patch else {}),
        **({"leftOut": _named(patch["excluded"])} if patch.get("excluded", {}).get("sample") else {}),
    }


def _named(account: Facts) -> Facts:
    """Count and sample of an account, without the reasons."""
    shown = [{key: item[key] for key in ("path", "pathB64") if key in item} for item in account["sample"]]
    return {"count": account["count"], "sample": shown}


def _receipt_facts(receipt: Facts | None) -> Facts:
    copied = {"at": "integratedAt", "before": "integratedOn", "after": "integratedAs", "conflicts": "conflicts"}
    found = _copied(receipt, copied | {"findings": "findings", "verification": "verification"})
    for key in ("findings", "conflicts"):
        if len(found.get(key, ())) > FINDINGS_KEPT:
            found[key] = found[key][:FINDINGS_KEPT]
    return found


def _result_facts(result: Facts | None) -> Facts:
    copied = {"startedAt": "startedAt", "endedAt": "endedAt", "exitStatus": "exitStatus", "argv": "argv"}
    copied |= {"stdout": "stdoutPath", "stderr": "stderrPath", "stdoutBytes": "stdoutBytes"}
    same = ("stderrBytes", "stdoutCut", "stderrCut", "strays", "touched")
    return _copied(result, copied | {name: name for name in same})


def left_out(events: Sequence[Facts]) -> dict[str, dict[str, str]]:
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


def derived(status: str, entries: Sequence[Facts], *, landed: bool) -> str:
    """`done`, `partial` or `error`; empty while the job is open. Source: the ingestion plan's report."""
    if status == "open":
        return ""
    bad = [entry for entry in entries if entry["outcome"] not in LANDED]
    if status == "failed":
        return "error"
    if not bad:
        return "done"
    return "partial" if landed else "error"


def assemble(job: Facts, units: Sequence[UnitDocs], events: Sequence[Facts], facts: Facts) -> Facts:
    """The whole report. `facts` are those that only a flow can know: generatedAt, tracePath, problems and the like."""
    origin = events[0]["at"] if events else job["createdAt"]
    made = spans(events, origin)
    timed: dict[str, dict[str, float]] = {}
    for span in made:
        if "unitKey" in span:
            mine = timed.setdefault(span["unitKey"], {})
            mine[span["name"]] = round(mine.get(span["name"], 0) + span["durationMs"], 3)
    left = left_out(events)
    entries = [unit_entry(docs, left.get(docs.key, {}), timed.get(docs.key, {})) for docs in units]
    status = STATUS[job["state"]]
    outcome = derived(status, entries, landed="landed" in job)
    bad = [entry for entry in entries if entry["outcome"] not in (*LANDED, *WAITING)]
    return {
        "schemaVersion": 1,
        "kind": "report",
        **{key: job[key] for key in _FROM_JOB if key in job},
        "status": status,
        **({"outcome": outcome} if outcome else {}),
        **({"commitSha": job["landed"]["commit"], "landedAt": job["landed"]["at"]} if "landed" in job else {}),
        **({"durationMs": between(job["startedAt"], job["finishedAt"])} if _ended(job) else {}),
        **({"failure": failure} if (failure := _failure(job)) else {}),
        **facts,
        "isolatedDiff": {"enabled": True, **_isolated(job, entries), **facts.get("isolatedDiff", {})},
        "workUnits": entries,
        "failedWorkUnits": [{key: entry[key] for key in ("position", "key", "outcome", "reason")} for entry in bad],
        "phases": phases(events, origin),
        "timeline": {"origin": origin, "spans": made[:SPANS_KEPT], "dropped": max(0, len(made) - SPANS_KEPT)},
    }


_FROM_JOB = (
    "jobId", "connectionId", "sourceKey", "syncId", "createdAt", "startedAt", "finishedAt", "target", "targetAtStart",
    "state", "warnings", "projectionResult",
)  # fmt: skip


def _ended(job: Facts) -> bool:
    return "startedAt" in job and "finishedAt" in job


def _failure(job: Facts) -> Facts | None:
    if "failure" not in job:
        return None
    failure = job["failure"]
    details = {**failure.get("details", {}), **({"outcome": failure["outcome"]} if "outcome" in failure else {})}
    return {"phase": failure["phase"], "message": failure["message"], **({"details": details} if details else {})}


def _isolated(job: Facts, entries: Sequence[Facts]) -> Facts:
    words = Counter(entry["outcome"] for entry in entries)
    return {
        "integrationRef": job["integrationRef"],
        **({"ingestionBaseSha": job["base"]} if "base" in job else {}),
        **({"projectionSha": job["projection"]} if "projection" in job else {}),
        **{name: words[word] for word, name in COUNTED.items()},
        "waiting": sum(words[word] for word in WAITING),
        "outcomes": dict(sorted(words.items())),
    }
