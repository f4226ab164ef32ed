"""A job's report as OpenTelemetry spans (OTLP/HTTP, JSON encoding): the job, its units, their steps.

Ids are digests of what they name: exporting twice gives the same spans, never new ones. Source: the OTLP specification,
"JSON Protobuf Encoding"; attribute names from the semantic conventions (`service.*`, `vcs.*`), ours begin with `ktx.`.

Sending spans to an OpenTelemetry collector by HTTP: standard library only, no redirect followed, a time limit.

A job's report, or events as they are appended, to an OpenTelemetry collector.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ktxkit import __version__
from ktxkit.base import kinds
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal, Tracer
from ktxkit.store.world import World
from ktxkit.work.rules.report import milliseconds, stem

if TYPE_CHECKING:
    from ktxkit.base.documents import Report, ReportWorkUnit, TraceEvent


Facts = Mapping[str, Any]
INTERNAL = 1  # SPAN_KIND_INTERNAL
OK, ERROR = 1, 2  # STATUS_CODE_*
IN = ("accepted", "subsumed", "noop")


def trace_id(job: str, created: str) -> str:
    """32 hex digits that name the job; `created` is its timestamp, empty for a trace that belongs to no job here."""
    return digest(f"{job}\0{created}".encode())[3:35]


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
    return str(round(ms * 1000) * 1000)  # whole microseconds: more is beyond a float's precision


class _Maker:
    """Makes the spans of one job; times are milliseconds since the epoch."""

    def __init__(self, job: str, created: str) -> None:
        self.job = job
        self.trace = trace_id(job, created)
        self.root = _span_id(self.job, "job")
        self._seen: Counter[tuple[object, ...]] = Counter()

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

    def step(
        self, name: str, phase: str, key: str, times: tuple[float, float], bad: str, parent: str
    ) -> dict[str, Any]:
        """A step of the job or a unit. Its id is of what it is and when it ended, so that whoever sends it first and
        whoever sends it again make one span of it."""
        what = (key, phase, name, round(times[1]), round(1000 * (times[1] - times[0])))
        self._seen[what] += 1
        ident = _span_id(self.job, "step", *what, self._seen[what])
        return self(ident, name, times, bad, {"ktx.phase": phase, "ktx.unit.key": key}, parent)


def of_events(events: Sequence[TraceEvent], created: str) -> Iterator[dict[str, Any]]:
    """Events of one job's trace as they are appended: below the job or their unit, whose own spans come later."""
    make = _Maker(str(events[0]["jobId"]), created)
    for event in events:
        end = milliseconds(event["at"])
        key = event.get("data", {}).get("unitKey", "")
        parent = _unit_id(make, key) if key else make.root
        error = event.get("error", {})
        bad = "" if event["level"] != "error" else error.get("message", "") or "failed"
        name = stem(event["event"]) if "durationMs" in event else event["event"]
        yield make.step(name, event["phase"], key, (end - event.get("durationMs", 0), end), bad, parent)


def spans(report: Report) -> Iterator[dict[str, Any]]:
    """Every span: the job first, then each unit, then the steps of both."""
    make, origin = _Maker(str(report["jobId"]), report["createdAt"]), milliseconds(report["timeline"]["origin"])
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
    for step, times in at:
        key = step.get("unitKey", "")
        parent = _unit_id(make, key) if key in keys else make.root
        yield make.step(step["name"], step["phase"], key, times, "" if step["ok"] else "failed", parent)


def _unit_id(make: _Maker, key: str) -> str:
    return _span_id(make.job, "unit", key)


def _ran(unit: ReportWorkUnit) -> list[tuple[float, float]]:
    """When the unit's own command ran."""
    if "startedAt" not in unit or "endedAt" not in unit:
        return []
    return [(milliseconds(unit["startedAt"]), milliseconds(unit["endedAt"]))]


def _job_facts(report: Report) -> Facts:
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


def _unit_facts(unit: ReportWorkUnit) -> Facts:
    return {
        "ktx.unit.key": unit["key"],
        "ktx.unit.position": unit["position"],
        "ktx.outcome": unit["outcome"],
        "ktx.paths": unit["pathCount"],
        "process.exit.code": unit.get("exitStatus"),
        "vcs.ref.head.revision": unit.get("patchCommit", ""),
    }


def request(spans: Sequence[Facts], version: str) -> dict[str, Any]:
    """The body of one export of these spans."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "ktxkit", "service.version": version})},
                "scopeSpans": [{"scope": {"name": "ktxkit", "version": version}, "spans": list(spans)}],
            }
        ]
    }


TIME_LIMIT = 30.0  # seconds for one request
PATH = "/v1/traces"
HINT = "the address of an OTLP/HTTP receiver, as in http://localhost:4318"


def endpoint(url: str) -> str:
    """The address that takes traces. Raises CannotRun where it is no http address."""
    if not url.startswith(("http://", "https://")):
        raise CannotRun(f"{url} is no http address", hint=HINT)
    return url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH


def headers_of(text: str) -> dict[str, str]:
    """`k=v,k2=v2` as OTEL_EXPORTER_OTLP_HEADERS has it."""
    pairs = [part.partition("=") for part in text.split(",") if "=" in part]
    return {key.strip(): value.strip() for key, _, value in pairs}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def send(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """One export. Raises CannotRun where it is not taken."""
    data = json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.build_opener(_NoRedirect).open(asked, timeout=TIME_LIMIT) as answer:
            answer.read(65536)
    except urllib.error.HTTPError as error:
        said = error.read(400).decode("utf-8", "replace").strip()
        raise CannotRun(f"the collector answered {error.code}: {said}", location=url, hint=HINT) from error
    except (OSError, ValueError) as error:
        raise CannotRun(f"the collector cannot be reached: {error}", location=url, hint=HINT) from error


AT_ONCE = 2000  # spans of one request
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def export(world: World, report: Report, url: str) -> int:
    """Send every span of a job; returns how many. Raises CannotRun where the collector does not take them."""
    return _send(world, spans(report), url)


def _send(world: World, rest: Iterator[dict[str, Any]], url: str) -> int:
    place, sent = endpoint(url), 0
    headers = headers_of(world.env.get(HEADERS, ""))
    while batch := list(islice(rest, AT_ONCE)):
        send(place, request(batch, __version__), headers)
        sent += len(batch)
    return sent


class _RecordingJournal(Journal["TraceEvent"]):
    """A journal that remembers what went through it."""

    kept: list[TraceEvent]

    def append(self, records: Sequence[TraceEvent], *, durable: bool = False, validated: bool = False) -> int:
        torn = super().append(records, durable=durable, validated=validated)
        self.kept.extend(records)
        return torn


class Sending:
    """A tracer whose events are sent once they are in the trace. Raises CannotRun at once for no address."""

    def __init__(self, to: Tracer, url: str) -> None:
        self.url = url
        endpoint(url)
        self._journal = _RecordingJournal(to.path, kinds.TRACE_EVENT, to.clock)
        self._journal.kept = []
        self.to = to._replace(journal=self._journal)

    def send(self, world: World, *, must: bool) -> str:
        """Send them, and say so. Raises CannotRun where the collector does not take what it `must`."""
        events = [event for event in self._journal.kept if not event["event"].endswith("_started")]
        if not events:
            return f"no spans for {self.url}"
        job = world.store.read_optional(kinds.JOB, names.job_doc(events[0]["jobId"])) if self._of_store(world) else None
        try:
            sent = _send(world, of_events(events, job["createdAt"] if job else ""), self.url)
        except CannotRun as error:
            said = f"{len(self._journal.kept)} events are in the trace, and not sent: {error.message}"
            if must:
                raise CannotRun(said, location=error.location, hint=error.hint) from error
            return said
        return f"sent {sent} spans to {self.url}"

    def _of_store(self, world: World) -> bool:
        """Whether the trace is one of this store's jobs; a loose one needs no repository."""
        return self._journal.path.name == "trace.jsonl" and self._journal.path.is_relative_to(world.store.root)
