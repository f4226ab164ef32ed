"""The newest runtime map of a project, read under its contract."""

from __future__ import annotations

from pathlib import Path

from ktxkit.affected.rules.runtime.trace import Trace
from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.store.rules import names
from ktxkit.store.world import World

CONTRACT = "affected-trace"
HINT = "make it anew: test-run --trace --scope full"


def latest(world: World, project: str | None = None) -> Trace | None:
    """The newest map, of the project where one is named; None where there is none. Raises BrokenContract."""
    for name in reversed(world.store.children(names.AFFECTED_TRACES)):
        found = load(world.store.path(f"{names.AFFECTED_TRACES}/{name}"))
        if project in (None, found.header["project"]):
            return found
    return None


def load(path: Path) -> Trace:
    """A map whole; its records are judged when they are looked at. Raises BrokenContract where it is torn."""
    lines = files.read(path, limit=1 << 40).split(b"\n")
    lines.pop()
    end = contracts.loads(CONTRACT, lines[-1], str(path)) if lines else {}
    if end.get("record") != "end" or end["records"] != len(lines) - 1:
        raise BrokenContract("the runtime map is not whole", where=str(path), hint=HINT)
    return Trace(lines, lambda line: _parse(line, path))


def _parse(line: bytes, path: Path) -> Document:
    return contracts.loads(CONTRACT, line, str(path))
