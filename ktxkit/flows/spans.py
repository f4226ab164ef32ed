"""A job's report to an OpenTelemetry collector."""

from __future__ import annotations

from itertools import islice

from ktxkit import __version__
from ktxkit.contracts import Document
from ktxkit.core import otlp
from ktxkit.effects import collector
from ktxkit.world import World

AT_ONCE = 2000  # spans of one request
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def export(world: World, report: Document, url: str) -> int:
    """Send every span of a job; returns how many. Raises CannotRun where the collector does not take them."""
    place = collector.endpoint(url)
    headers = collector.headers_of(world.env.get(HEADERS, ""))
    rest, sent = otlp.spans(report), 0
    while batch := list(islice(rest, AT_ONCE)):
        collector.send(place, otlp.request(batch, __version__), headers)
        sent += len(batch)
    return sent
