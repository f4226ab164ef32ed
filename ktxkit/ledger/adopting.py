"""Runs that nobody here opened: reports of others, and events that lie in the store and have no line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract
from ktxkit.ledger import chain, ledger
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine

YOUNG = 3600.0  # seconds in which a run of which nothing is known may still begin, or go on elsewhere
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def enter(world: World, run: str, project: str) -> LedgerLine | None:
    """The lines of a run that nobody here opened; None where it has them."""
    with chain.locked(world):
        if ledger.is_closed(world, run):
            return None
        if run not in ledger.open_runs(world):
            chain.append(world, {"kind": "run-opened", "run": run, "project": project})
    return ledger.settle(world, run)


def adopt(world: World, run: str) -> LedgerLine | None:
    """Enter a run that has events in the store and no line: whoever recorded it was killed before it wrote one, or the
    line is lost. None where its recorder may live, or the file is none of a run.
    """
    path = world.store.path(names.events_file(run))
    try:
        data = files.read(path, ledger.SIZE_LIMIT)
        age = world.clock.now().timestamp() - path.stat().st_mtime
    except (OSError, BrokenContract):
        return None  # told by `git ktx doctor`
    fold = ledger.fold_of(data)
    if fold.start.get("run", run) != run or not RUN_ID.fullmatch(run):
        return None
    life = ledger.life_of(world, fold)
    if life == "alive" or ledger.runner_lives(world, fold) or (not fold.end and life == "unknown" and age < YOUNG):
        return None
    return enter(world, run, fold.start.get("project", "unknown"))
