"""What is going on now: runs that were opened and not closed, folded as far as their events go."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.ledger import ledger
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.picking import find, running
from ktxkit.ledger.rules.answers import Row, answer
from ktxkit.ledger.rules.fold import Fold
from ktxkit.ledger.rules.rows import tally
from ktxkit.ledger.rules.scope import asked
from ktxkit.store.rules import names
from ktxkit.store.world import World

FLYING_SHOWN = 20


def live(world: World, ask: Ask) -> Document:
    """Each run that goes on: scope asked for, elapsed time, tests done of the total, tallies, tests in flight.

    Raises CannotRun where a run is named that there is none of.
    """
    index = ensure(world)
    found = [run for run in running(index, ask) if not ask.subject or run.startswith(ask.subject[0])]
    if ask.subject and not found:
        find(index, ask, ask.subject[0])
    now = world.clock.now()
    rows = [row for run in found if (row := live_row(world, run, now))]
    reason = "" if rows else "no run is going on"
    return answer("live", rows, subject=ask.subject, project=ask.project, reason=reason, facts={"at": timestamp(now)})


def live_row(world: World, run: str, now: datetime) -> Row:
    """One run in mid-run: neither complete nor aborted, whatever its file looks like."""
    path = ledger.events_path(world, run)
    if not path.exists():
        return {"run": run, "state": "unknown", "why": "its events are gone", "source": names.LEDGER}
    fold = ledger.fold_events(world, run, ledger.whole_size(path))
    life = ledger.life_of(fold)
    row = row_of(fold, now)
    state = {"alive": "running", "dead": "ending"}.get(life, "unknown")
    why = "it runs on another machine, which cannot be seen from here" if life == "unknown" else None
    return {"run": run, **row, "state": state, "why": why, "source": names.events_file(run)}


def row_of(fold: Fold, now: datetime) -> dict[str, Any]:
    """What a fold in mid-run says; `elapsed` and `since` are seconds."""
    started = fold.start.get("at")
    elapsed = (now - datetime.fromisoformat(started)).total_seconds() if started else None
    counts = fold.counts(ended=False)
    flying = fold.flying()
    wanted = asked(fold.start)
    done = len(fold.last) - len({(one.test, one.occurrence) for one in flying})
    workers = fold.start.get("workers", 0)
    return {
        "asked": " ".join([wanted["kind"], *wanted.get("paths", []), *wanted.get("why", [])]),
        "started": started,
        "elapsed": None if elapsed is None else round(max(0.0, elapsed), 1),
        "phase": next((name for name, edges in reversed(fold.phases.items()) if len(edges) % 2), None),
        "done": done,
        "total": counts.get("selected"),
        "tests": tally({key: value for key, value in counts.items() if key != "selected"}),
        "workers": workers or None,
        "busy": min(len(flying), workers) if workers else min(len(flying), 1),
        "inFlight": [
            {"test": one.test, "since": round(max(0.0, (elapsed or fold.t) - (one.started or 0.0)), 1)}
            for one in flying[:FLYING_SHOWN]
        ],
    }
