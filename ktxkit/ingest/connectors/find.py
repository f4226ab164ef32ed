"""Finding a connector by its name, through entry points: those of this project and those of others are found alike."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest
from ktxkit.ingest.connectors.interface import Connector

GROUP = "ktxkit.connectors"


def found() -> dict[str, EntryPoint]:
    """Every connector that is installed, by name."""
    return {one.name: one for one in entry_points(group=GROUP)}


def connector(name: str) -> Connector:
    """Raises CannotRun where there is none of that name, or it cannot be loaded."""
    known = found()
    if name not in known:
        near = nearest(name, list(known), 1)
        hint = f"did you mean {near[0]}?" if near else f"installed: {', '.join(sorted(known)) or 'none'}"
        raise CannotRun(f"no connector named {name!r}", hint=hint)
    try:
        loaded = known[name].load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise CannotRun(
            f"connector {name} cannot be loaded: {error}",
            where=known[name].value,
            hint="install what it needs, or the connector again",
        ) from error
    missing = [part for part in ("detect", "stage", "read") if not callable(getattr(loaded, part, None))]
    if missing:
        raise CannotRun(
            f"connector {name} has no {', '.join(missing)}",
            where=known[name].value,
            hint="install another version of it, or take it to its author",
        )
    return cast(Connector, loaded)
