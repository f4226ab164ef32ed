"""job-report --otlp and trace-append --otlp against a local collector."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ktxkit.app import spans as otlp
from tests.support.commands import call, spawn
from tests.support.report_job import report
from tests.support.repos import Repo


class Collector(HTTPServer):
    """Takes exports on the loopback address; answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.taken: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append(
            (self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(body))
        )
        self.send_response(self.server.status)
        self.send_header("Location", self.server.url)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def job(repo: Repo) -> Repo:
    """A job with one unit that landed and one that failed."""
    units = "[{key: a, run: 'echo a > a'}, {key: b, run: 'exit 3'}]"
    text = f"schemaVersion: 1\nconnectionId: c\nsourceKey: s\nunits: {units}\n"
    (repo.path / "job.yaml").write_text(text)
    assert call("job-run", "job.yaml", "--job", "j1", "--quiet", cwd=repo.path).status == 3
    return repo


def spans(collector: Collector) -> list[Any]:
    scopes = [scope for _, _, body in collector.taken for scope in body["resourceSpans"][0]["scopeSpans"]]
    return [span for scope in scopes for span in scope["spans"]]


def facts(span: Any) -> dict[str, Any]:
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


def test_a_job_is_sent(job: Repo, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret,x-more=1")
    done = call("job-report", "j1", "--otlp", collector.url, cwd=job.path)
    assert done.status == 0, done
    path, headers, _ = collector.taken[0]
    assert path == "/v1/traces" and headers["api-key"] == "secret"
    sent = spans(collector)
    assert f"sent {len(sent)} spans" in done.err
    root = sent[0]
    assert root["name"] == "job j1" and "parentSpanId" not in root
    assert facts(root)["ktx.outcome"] == "partial" and facts(root)["vcs.ref.head.revision"] == job.head
    units = {facts(span)["ktx.unit.key"]: span for span in sent if span["name"].startswith("unit ")}
    assert units["a"]["status"] == {"code": otlp.OK} and units["b"]["status"]["code"] == otlp.ERROR
    assert units["b"]["status"]["message"] == "it ended with status 3 and printed nothing"
    assert {span["traceId"] for span in sent} == {root["traceId"]} and len({span["spanId"] for span in sent}) == len(
        sent
    )
    known = {span["spanId"] for span in sent}
    assert all(span.get("parentSpanId", root["spanId"]) in known for span in sent)
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in sent)
    call("job-report", "j1", "--otlp", f"{collector.url}/v1/traces", cwd=job.path)
    assert [s["spanId"] for s in spans(collector)] == [s["spanId"] for s in sent] * 2, "the same spans again"


def test_many_are_sent_in_parts() -> None:
    made = list(otlp.spans(report(2000)))
    assert len(made) > 6000
    assert len(made[0]["traceId"]) == 32 and all(len(span["spanId"]) == 16 for span in made)


@pytest.mark.parametrize("status", [302, 404, 503])
def test_a_collector_that_does_not_take_them(job: Repo, collector: Collector, status: int) -> None:
    collector.status = status
    done = call("job-report", "j1", "--otlp", collector.url, cwd=job.path)
    assert done.status == 2 and f"the collector answered {status}" in done.err and len(collector.taken) == 1


@pytest.mark.parametrize("url", ["localhost:4318", "file:///etc/passwd", "http://127.0.0.1:1", "http://"])
def test_an_address_that_is_none(job: Repo, url: str) -> None:
    done = call("job-report", "j1", "--otlp", url, cwd=job.path)
    assert done.status == 2 and "hint: the address of an OTLP/HTTP receiver" in done.err and "Traceback" not in done.err


def test_events_are_sent_as_they_are_appended(job: Repo, collector: Collector) -> None:
    words = ("--job", "j1", "--unit", "a", "--phase", "gates", "--otlp", collector.url)
    done = call("trace-append", *words, "--event", "lint_finished", "--duration-ms", "60250", cwd=job.path)
    assert done.status == 0 and f"sent 1 spans to {collector.url}" in done.err
    (sent,) = spans(collector)
    assert sent["name"] == "lint" and facts(sent)["ktx.unit.key"] == "a" and facts(sent)["ktx.phase"] == "gates"
    assert int(sent["endTimeUnixNano"]) - int(sent["startTimeUnixNano"]) == 60_250_000_000, (
        "it began before the job was made"
    )
    done = call("trace-append", *words, "--event", "unit_tests", "--", "sh", "-c", "exit 3", cwd=job.path)
    assert done.status == 3, "the command's own"
    failed = spans(collector)[1]
    assert (failed["name"], failed["status"]["code"]) == ("unit_tests", otlp.ERROR)
    assert failed["status"]["message"] == "sh ended with status 3"
    collector.taken.clear()
    call("job-report", "j1", "--otlp", collector.url, cwd=job.path)
    whole = {span["spanId"]: span for span in spans(collector)}
    for one in (sent, failed):
        again = whole[one["spanId"]]
        assert [again[key] for key in ("traceId", "parentSpanId", "name")] == [
            one[key] for key in ("traceId", "parentSpanId", "name")
        ], "the report sends the same spans, not new ones"
        assert again["parentSpanId"] in whole


def test_a_collector_that_is_away_loses_no_event(job: Repo, collector: Collector) -> None:
    collector.status = 503
    trace = job.path / ".ktx/ingest-traces/j1/trace.jsonl"
    before = len(trace.read_bytes().splitlines())
    words = ("--job", "j1", "--phase", "x", "--otlp", collector.url, "--event")
    done = call("trace-append", *words, "e", cwd=job.path)
    assert done.status == 2 and "1 events are in the trace, and not sent: the collector answered 503" in done.err
    done = call("trace-append", *words, "true_thing", "--", "true", cwd=job.path)
    assert done.status == 0 and "not sent" in done.err
    assert len(trace.read_bytes().splitlines()) == before + 3
    assert (
        call("trace-append", "--job", "j1", "--phase", "x", "--event", "e", "--otlp", "x:1", cwd=job.path).status == 2
    )
    assert len(trace.read_bytes().splitlines()) == before + 3, "no address: nothing is appended"


def test_a_trace_without_a_job_is_sent_too(tmp_path: Any, collector: Collector) -> None:
    line = json.dumps({"phase": "p", "event": "e", "data": {"unitKey": "u"}}) + "\n"
    done = spawn("trace-append", "--trace", "t", "--stdin", "--otlp", collector.url, cwd=tmp_path, stdin=line.encode())
    assert done.status == 0 and len(spans(collector)) == 1, done.err
