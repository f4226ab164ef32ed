"""Trace events, as the ingestion plan fixed them; timed steps emit `X_started`, then `X_finished` or `X_failed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import truncated

if TYPE_CHECKING:
    from ktxkit.base.documents import TraceEvent, TraceEventLevel

LEVELS = {"error": 0, "info": 1, "debug": 2, "trace": 3}
DEFAULT_LEVEL = "debug"
DEFAULT_CONNECTION = "local"  # whose data it is, where nobody says
DEFAULT_SOURCE = "manual"
LIST_SHOWN = 1000  # entries of a list in an event's data; the rest is counted
MESSAGE_SHOWN = 8000  # characters of an error's message


class TraceContext(NamedTuple):
    """What every event of a job says."""

    job_id: str
    connection_id: str
    source_key: str
    run_id: str = ""
    sync_id: str = ""


def wanted(level: str, threshold: str) -> bool:
    """Whether an event of `level` is written at `threshold` (KTX_TRACE_LEVEL); unknown: the default."""
    return LEVELS[level] <= LEVELS.get(threshold, LEVELS[DEFAULT_LEVEL])


def event(
    context: TraceContext,
    at: str,
    level: TraceEventLevel,
    phase: str,
    name: str,
    data: Mapping[str, Any],
    *,
    duration_ms: float | None = None,
    error: BaseException | None = None,
) -> TraceEvent:
    """One event. `at` is RFC 3339 UTC with milliseconds; `duration_ms` is milliseconds."""
    made: TraceEvent = {
        "schemaVersion": 1,
        "at": at,
        "level": level,
        "jobId": context.job_id,
        "connectionId": context.connection_id,
        "sourceKey": context.source_key,
        "phase": phase,
        "event": name,
    }
    if context.run_id:
        made["runId"] = context.run_id
    if context.sync_id:
        made["syncId"] = context.sync_id
    if duration_ms is not None:
        made["durationMs"] = round(duration_ms, 3)
    if data:
        made["data"] = {key: _bounded(value) for key, value in data.items() if value is not None}
    if error is not None:
        made["error"] = {"name": type(error).__name__, "message": plain(truncated(str(error), MESSAGE_SHOWN))}
    return made


def completed(raw: Any, context: TraceContext, at: str, extra: Mapping[str, Any]) -> Any:
    """An event that somebody else wrote, with what they left out: version, time, level, whose it is, the unit.

    What is not an object comes back as it is; the contract refuses it.
    """
    if not isinstance(raw, Mapping):
        return raw
    made: dict[str, Any] = {
        "schemaVersion": 1,
        "at": at,
        "level": DEFAULT_LEVEL,
        "jobId": context.job_id,
        "connectionId": context.connection_id,
        "sourceKey": context.source_key,
        **({"runId": context.run_id} if context.run_id else {}),
        **({"syncId": context.sync_id} if context.sync_id else {}),
        **raw,
    }
    if extra and isinstance(made.get("data", {}), Mapping):
        made["data"] = {**extra, **made.get("data", {})}
    return made


def _bounded(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) > LIST_SHOWN:
        return [*map(_bounded, value[:LIST_SHOWN]), f"... {len(value) - LIST_SHOWN} more"]
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _bounded(item) for key, item in value.items()}
    return plain(value) if isinstance(value, str) else value


def plain(text: str) -> str:
    """Lone surrogates (bytes that were not UTF-8) as escapes: strict readers refuse them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
