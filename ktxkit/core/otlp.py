"""A job's report as OpenTelemetry spans (OTLP/HTTP, JSON encoding): the job, its units, their steps.

Ids are digests of what they name: exporting twice gives the same spans, never new ones. Source: the OTLP specification,
"JSON Protobuf Encoding"; attribute names from the semantic conventions (`service.*`, `vcs.*`), ours begin with `ktx.`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktxkit.core.digests import digest
from ktxkit.core.timeline import milliseconds

Facts = Mapping[str, Any]
INTERNAL = 1  # SPAN_KIND_INTERNAL
OK, ERROR = 1, 2  # STATUS_CODE_*
IN = ("accepted", "subsumed", "noop")


def trace_id(report: Facts) -> str:
    """32 hex digits that name the job."""
    return digest(f"{report['jobId']}\0{report['createdAt']}".encode())[3:35]


def _span_id(*parts: object) -> str:
    return digest("\0".join(map(str, parts)).encode("utf-8", "surrogateescape"))[3:19]


def _attributes(facts: Facts) -> list[dict[str, Any]]:
    found = []
    for key, value in facts.items():
        if isinstance(value, bool):
            found.append({"key": key, "value": {"boolValue": value}})
        elif isinstance(value, int):
            found.append({"key": key, "value": {"intValue": str(value)}})
        elif isinstance(value, str) and value:
            found.append({"key": key, "value": {"stringValue": value}})
    return found


def _nanoseconds(ms: float) -> str:
    return str(int(ms * 1_000_000))


class _Maker:
    """Makes the spans of one job; times are milliseconds since the epoch."""

    def __init__(self, report: Facts) -> None:
        self.job = str(report["jobId"])
        self.trace = trace_id(report)
        self.root = _span_id(self.job, "job")

    def __call__(
        self, ident: str, name: str, times: tuple[float, float], bad: str, facts: Facts, parent: str = ""
    ) -> dict[str, Any]:
        begin, end = times
        return {
            "traceId": self.trace,
            "spanId": ident,
            **({"parentSpanId": parent} if parent else {}),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": _nanoseconds(begin),
            "endTimeUnixNano": _nanoseconds(max(begin, end)),
            "attributes": _attributes({"ktx.job.id": self.job, **facts}),
            "status": {"code": ERROR, "message": bad} if bad else {"code": OK},
        }


def spans(report: Facts) -> Iterator[dict[str, Any]]:
    """Every span: the job first, then each unit, then the steps of both."""
    make, origin = _Maker(report), milliseconds(report["timeline"]["origin"])
    at = [(s, (origin + s["startMs"], origin + s["startMs"] + s["durationMs"])) for s in report["timeline"]["spans"]]
    begin = milliseconds(report["startedAt"]) if "startedAt" in report else origin
    end = milliseconds(report["finishedAt"]) if "finishedAt" in report else max([origin, *(t[1] for _, t in at)])
    failed = report.get("failure", {}).get("message", "") or ("error" if report.get("outcome") == "error" else "")
    yield make(make.root, f"job {make.job}", (begin, end), failed, _job_facts(report))
    mine: dict[str, list[tuple[float, float]]] = {}
    for step, times in at:
        mine.setdefault(step.get("unitKey", ""), []).append(times)
    keys = set()
    for unit in report["workUnits"]:
        every = [*mine.get(unit["key"], ()), *_ran(unit)]
        keys.add(unit["key"])
        if every:
            whole = (min(t[0] for t in every), max(t[1] for t in every))
            bad = "" if unit["outcome"] in IN else unit["reason"] or unit["outcome"]
            yield make(_unit_id(make, unit["key"]), f"unit {unit['key']}", whole, bad, _unit_facts(unit), make.root)
    for number, (step, times) in enumerate(at):
        key = step.get("unitKey", "")
        facts = {"ktx.phase": step["phase"], "ktx.unit.key": key}
        parent = _unit_id(make, key) if key in keys else make.root
        ident = _span_id(make.job, "step", number, step["name"])
        yield make(ident, step["name"], times, "" if step["ok"] else "failed", facts, parent)


def _unit_id(make: _Maker, key: str) -> str:
    return _span_id(make.job, "unit", key)


def _ran(unit: Facts) -> list[tuple[float, float]]:
    """When the unit's own command ran."""
    if "startedAt" not in unit or "endedAt" not in unit:
        return []
    return [(milliseconds(unit["startedAt"]), milliseconds(unit["endedAt"]))]


def _job_facts(report: Facts) -> Facts:
    isolated = report["isolatedDiff"]
    return {
        "ktx.outcome": report.get("outcome", report["status"]),
        "ktx.connection": report["connectionId"],
        "ktx.source": report["sourceKey"],
        "ktx.units": len(report["workUnits"]),
        "ktx.units.accepted": isolated["acceptedPatches"],
        "vcs.ref.head.name": report["target"],
        "vcs.ref.head.revision": report.get("commitSha", ""),
        "vcs.ref.base.revision": isolated.get("ingestionBaseSha", ""),
    }


def _unit_facts(unit: Facts) -> Facts:
    return {
        "ktx.unit.key": unit["key"],
        "ktx.unit.position": unit["position"],
        "ktx.outcome": unit["outcome"],
        "ktx.paths": unit["pathCount"],
        "process.exit.code": unit.get("exitStatus"),
        "vcs.ref.head.revision": unit.get("patchCommit", ""),
    }


def request(found: Sequence[Facts], version: str) -> dict[str, Any]:
    """The body of one export of these spans."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "ktxkit", "service.version": version})},
                "scopeSpans": [{"scope": {"name": "ktxkit", "version": version}, "spans": list(found)}],
            }
        ]
    }
