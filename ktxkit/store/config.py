"""The repository's `.ktx-config.yaml`: read from the checkout we stand in, checked whole, never guessed."""

from __future__ import annotations

from pathlib import Path

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.strict_yaml import Parsed, read
from ktxkit.store.rules.config import FILE, wrong_keys
from ktxkit.store.world import World

CONTRACT = "config"
SIZE_LIMIT = 1024 * 1024  # bytes


def place(world: World) -> Path | None:
    """Where the file is or would be; None in a bare repository."""
    top = world.repository.top
    return top / FILE if top is not None else None


def load(world: World) -> Document:
    """The configuration; empty where there is none. Raises CannotRun that names line, key and the nearest right key."""
    found = problems(world)
    if found:
        first, rest = found[0], len(found) - 1
        more = f" (and {rest} more)" if rest else ""
        hint = "`git ktx doctor` lists all of them; docs/formats/config.md the keys"
        raise CannotRun(f"{first['message']}{more}", where=first["where"], hint=hint)
    path = place(world)
    return _read(path) if path is not None else {}


def problems(world: World) -> list[dict[str, str]]:
    """Everything that is wrong with the file: `where` (file:line:column) and `message`."""
    path = place(world)
    if path is None:
        return []
    parsed = _parsed(path)
    if parsed is None:
        return []
    found = [(problem.line, problem.column, problem.message) for problem in parsed.problems]
    root = parsed.root
    if not found and root is not None and root.kind != "map":
        empty = root.kind == "scalar" and root.plain is None
        found = [] if empty else [(root.line, root.column, "a mapping is expected")]
    elif not found and root is not None:
        found = [
            (named.line, named.column, key.message)
            for key in wrong_keys(root.data(), contracts.schema(CONTRACT))
            for named in [root.at([*key.place, key.key])[1] or root]
        ]
    if found or root is None or root.kind != "map":
        return [{"where": f"{path}:{line}:{column}", "message": message} for line, column, message in found]
    try:
        contracts.validate(CONTRACT, root.data(), str(path))
    except BrokenContract as error:
        return [{"where": error.where, "message": error.message.removeprefix(f"{CONTRACT}: ")}]
    return []


def _read(path: Path) -> Document:
    parsed = _parsed(path)
    document = parsed.root.data() if parsed is not None and parsed.root is not None else None
    return document if isinstance(document, dict) else {}


def _parsed(path: Path) -> Parsed | None:
    """The file, or None where there is none. Raises CannotRun where it cannot be read."""
    try:
        return read(files.read(path, SIZE_LIMIT))
    except FileNotFoundError:
        return None
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint=error.hint) from error
