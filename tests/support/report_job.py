"""A report with everything in it, made by the real assembly from real documents, of any number of units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ktxkit.work.rules.reasons import UnitDocs
from ktxkit.work.rules.report import assemble

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, Report, TraceEvent

A, B, C = "a" * 40, "b" * 40, "c" * 40
AT = "2026-05-17T12:00:00.000Z"
WORDS = (
    "accepted",
    "accepted",
    "accepted",
    "noop",
    "textual_conflict",
    "accepted",
    "semantic_conflict",
    "policy_rejected",
)


def at(ms: float) -> str:
    """A timestamp `ms` milliseconds after the start."""
    s, milli = divmod(int(ms), 1000)
    return f"2026-05-17T12:{s // 60:02d}:{s % 60:02d}.{milli:03d}Z"


def event(name: str, ms: float, phase: str, **more: Any) -> TraceEvent:
    base = {"schemaVersion": 1, "at": at(ms), "level": "debug", "phase": phase, "event": name}
    whole = {**base, "jobId": "nightly", "connectionId": "warehouse", "sourceKey": "metabase", **more}
    return cast("TraceEvent", whole)


def unit(position: int, key: str, word: str, begin: float) -> tuple[UnitDocs, list[TraceEvent]]:
    """One unit that ran for a while and ended in this word, with its events."""
    ran = 400 + (position * 137) % 900
    paths = [{"path": f"wiki/global/{key}-{n}.md", "change": "modified"} for n in range(1 + position % 3)]
    receipt: dict[str, Any] = {"outcome": word, "at": at(begin + ran + 200), "before": B, "durationMs": 60.0}
    receipt |= {"conflicts": [], "findings": []}
    patch: dict[str, Any] = {
        "outcome": "collected",
        "base": A,
        "commit": C,
        "tree": B,
        "paths": paths,
        "patchBytes": 900,
    }
    if word == "textual_conflict":
        receipt["conflicts"] = [{"path": paths[0]["path"], "stages": [1, 2, 3], "reason": "both sides changed line 4"}]
    if word == "semantic_conflict":
        receipt["findings"] = [
            {
                "rule": "page.reference", "level": "error", "path": "wiki/global/arr.md", "line": 12, "column": 7,
                "message": "mart_arr_daily.total_arr_cents names no measure, column or segment",
                "searched": "warehouse/mart_arr_daily", "nearest": ["total_arr"],
                "hint": "rename it there, or keep the measure",
            }
        ]  # fmt: skip
    if word == "policy_rejected":
        breach = {"rule": "slDisallowed", "path": "semantic-layer/warehouse/orders.yaml"}
        patch |= {"outcome": word, "breaches": [{**breach, "message": "slDisallowed unit touched semantic-layer"}]}
    if word == "noop":
        patch |= {"outcome": "noop", "paths": []}
    result = {
        "outcome": "finished",
        "startedAt": at(begin),
        "endedAt": at(begin + ran),
        "durationMs": ran,
        "exitStatus": 0,
    }
    result |= {"argv": ["sh", "-c", f"agent --unit {key}"]}
    data = {"unitKey": key}
    events = [
        event("work_unit_patch_collected", begin + ran + 90, "collect", data=data, durationMs=80),
        event(f"patch_{word}", begin + ran + 200, "integration", data=data, durationMs=60),
    ]
    settled = None if word in ("noop", "policy_rejected") else receipt
    documents: Any = {"lease": {"attempt": 1, "base": A}, "patch": patch, "receipt": settled, "result": result}
    return UnitDocs(position, key, **documents), events


def report(count: int, parallel: int = 8) -> Report:
    """A partial job of `count` units, `parallel` at a time."""
    units, events = (
        [],
        [
            event("ingest_started", 0, "run", level="info"),
            event("projection_finished", 900, "projection", durationMs=700),
        ],
    )
    for number in range(count):
        word = WORDS[number % len(WORDS)]
        made, said = unit(number + 1, f"pages/topic-{number + 1:04d}", word, 1000 + (number // parallel) * 1500)
        units.append(made)
        events += said
    last = 1000 + (count // parallel + 1) * 1500
    events.append(event("final_artifact_gates_finished", last + 400, "gates", durationMs=380))
    events.append(event("landing_finished", last + 600, "landing", durationMs=150))
    job: Job = {
        "schemaVersion": 1, "kind": "job", "jobId": "nightly-20260517", "connectionId": "warehouse",
        "sourceKey": "metabase", "createdAt": AT, "startedAt": AT, "finishedAt": at(last + 700),
        "objectFormat": "sha1", "target": "refs/heads/main",
        "targetAtStart": A, "base": B, "projection": B, "integrationRef": "refs/ktx/jobs/nightly/integration",
        "state": "landed", "landed": {"commit": C, "at": AT}, "units": [], "warnings": ["2 cards have no owner"],
    }  # fmt: skip
    trace = "/repo/.ktx/ingest-traces/nightly-20260517/trace.jsonl"
    return assemble(job, units, sorted(events, key=lambda e: e["at"]), at=at(last + 800), trace=trace)
