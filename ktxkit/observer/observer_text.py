"""What the observer's two commands share: settings from options, a result from a status, a line for a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.observer.observer_status import CONTRACT
from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.settings import Settings
from ktxkit.observer.rules.status import lines, record_line
from ktxkit.store.leases import LEASE, Place

BLOCKING = ("root_", "control_")


def lease_of(place: Place) -> Document:
    """Raises CannotRun where there is none."""
    lease = place.read(LEASE)
    if lease is None:
        raise CannotRun(f"{place.name} has no worktree", hint="open it with worktree-open")
    return lease


def settings(seconds: Mapping[str, float | None]) -> Settings | None:
    """From options in seconds, defaults for the others; None where none is given. Raises CannotRun out of range."""
    given = {name: round(value * 1000) for name, value in seconds.items() if value is not None}
    return Settings(**given) if given else None


def outcome(status: Document) -> str:
    """The outcome word of a status: what cannot be trusted or is quarantined is for a person to look at."""
    journal = status["journal"]
    if journal.get("problem") or journal.get("lost", {}).get("foundNow"):
        return "broken_contract"
    foreign = any(hold.startswith(BLOCKING) for hold in status.get("attemptHolds", ()))
    return "blocked" if foreign or status["lateWrites"]["quarantined"] else "done"


def facts(status: Document, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a command's result."""
    return {
        "outcome": outcome(status),
        "document": status,
        "contract": CONTRACT,
        "lines": lines(status),
        "notes": list(notes),
    }


def teller(stream: IO[str] | None) -> Callable[[Document], None]:
    """Writes one line for each record that a person would want to see, at once."""

    def tell(record: Document) -> None:
        if stream is not None and record["event"] not in (r.BASELINE, r.ATTACH):
            stream.write(f"{record['at']} {record_line(record)}\n")
            stream.flush()

    return tell
