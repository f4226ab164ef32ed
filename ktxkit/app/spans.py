"""A job's report, or events as they are appended, to an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ktxkit import __version__
from ktxkit.app import collector
from ktxkit.app.rules import otlp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.store.journal import Journal
from ktxkit.store.rules import names
from ktxkit.store.tracing import CONTRACT as TRACE
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World

AT_ONCE = 2000  # spans of one request
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def export(world: World, report: Document, url: str) -> int:
    """Send every span of a job; returns how many. Raises CannotRun where the collector does not take them."""
    return _send(world, otlp.spans(report), url)


def _send(world: World, rest: Iterator[dict[str, Any]], url: str) -> int:
    place, sent = collector.endpoint(url), 0
    headers = collector.headers_of(world.env.get(HEADERS, ""))
    while batch := list(islice(rest, AT_ONCE)):
        collector.send(place, otlp.request(batch, __version__), headers)
        sent += len(batch)
    return sent


class _Kept(Journal):
    """A journal that remembers what went through it."""

    kept: list[Document]

    def append(self, records: Sequence[Document], *, durable: bool = False, validated: bool = False) -> int:
        torn = super().append(records, durable=durable, validated=validated)
        self.kept.extend(records)
        return torn


class Sending:
    """A tracer whose events are sent once they are in the trace. Raises CannotRun at once for no address."""

    def __init__(self, to: Tracer, url: str) -> None:
        self.url = url
        collector.endpoint(url)
        self._journal = _Kept(to.path, TRACE, to.clock)
        self._journal.kept = []
        self.to = to._replace(journal=self._journal)

    def send(self, world: World, *, must: bool) -> str:
        """Send them, and say so. Raises CannotRun where the collector does not take what it `must`."""
        events = [event for event in self._journal.kept if not event["event"].endswith("_started")]
        if not events:
            return f"no spans for {self.url}"
        job = world.store.read_optional("job", names.job_doc(events[0]["jobId"])) if self._of_store(world) else None
        try:
            sent = _send(world, otlp.of_events(events, job["createdAt"] if job else ""), self.url)
        except CannotRun as error:
            said = f"{len(self._journal.kept)} events are in the trace, and not sent: {error.message}"
            if must:
                raise CannotRun(said, where=error.where, hint=error.hint) from error
            return said
        return f"sent {sent} spans to {self.url}"

    def _of_store(self, world: World) -> bool:
        """Whether the trace is one of this store's jobs; a loose one needs no repository."""
        return self._journal.path.name == "trace.jsonl" and self._journal.path.is_relative_to(world.store.root)
