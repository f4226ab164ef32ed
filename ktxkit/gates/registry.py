"""Gates by name, from the entry points of what is installed. None is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.text import nearest
from ktxkit.gates.plugin import Answer


@cache
def named(group: str) -> dict[str, EntryPoint]:
    """The gates of a group, sorted by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def load(group: str, name: str) -> Callable[..., Answer]:
    """A gate. Raises CannotRun where there is none of that name, or it cannot be imported."""
    known = named(group)
    if name not in known:
        near = nearest(name, list(known))
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known) or 'none'}"
        raise CannotRun(f"no gate named {name!r}", hint=hint)
    entry = known[name]
    try:
        loaded: Callable[..., Answer] = entry.load()
    except (ImportError, AttributeError) as error:
        raise CannotRun(
            f"the gate {name} cannot be imported: {error}",
            where=entry.value,
            hint="install what it needs, or take it out of ktx-gates.yaml",
        ) from error
    return loaded


def ask(group: str, name: str, *given: Any) -> Answer:
    """Ask a gate. Raises CannotRun where it fails: a gate that broke has not passed anything."""
    gate = load(group, name)
    try:
        return gate(*given)
    except (KtxError, OSError):
        raise
    except Exception as error:  # foreign code: whatever it raises is an answer that is missing
        what = f"{type(error).__name__}: {error}"
        raise CannotRun(
            f"the gate {name} failed: {what[:400]}",
            where=named(group)[name].value,
            hint="a fault of the gate: take it to its author, or take it out of ktx-gates.yaml",
        ) from error
