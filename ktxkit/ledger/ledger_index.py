"""The index, as new as the ledger. Where nothing is new, what would read it in is not even loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.ledger.index_file import Index
from ktxkit.store.rules import names

if TYPE_CHECKING:
    from ktxkit.store.world import World


def ensure(world: World, *, settle: bool = True) -> Index:
    """The index, as new as the ledger. Raises BrokenContract where a line is broken."""
    place = world.store.path(names.LEDGER_INDEX)
    index = Index(place if place.parent.is_dir() else Path(":memory:"))  # a question makes no store
    if not index.holds(world.store.path(names.LEDGER)):
        from ktxkit.ledger import indexing

        indexing.update(world, index)
    if settle and index.db.execute("SELECT 1 FROM runs WHERE closed = 0 LIMIT 1").fetchone():
        from ktxkit.ledger import indexing, ledger

        if ledger.writable(world):
            indexing.close_ended(world, index)
        indexing.update(world, index)
    return index
