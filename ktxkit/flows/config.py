"""The repository's `.ktx-config.yaml`: read from the checkout we stand in, checked whole, never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktxkit import contracts
from ktxkit.contracts import Document
from ktxkit.core.config import FILE, wrong_keys
from ktxkit.effects import files
from ktxkit.errors import BrokenContract, CannotRun
from ktxkit.world import World

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
    return _read(path)[1] if path is not None else {}


def problems(world: World) -> list[dict[str, str]]:
    """Everything that is wrong with the file: `where` (file:line) and `message`."""
    path = place(world)
    if path is None:
        return []
    try:
        marked, plain = _read(path)
    except CannotRun as error:
        return [{"where": error.where, "message": error.message}]
    wrong = list(wrong_keys(plain, contracts.schema(CONTRACT)))
    if wrong:
        return [{"where": f"{path}:{_line(marked, (*key.place, key.key))}", "message": key.message} for key in wrong]
    try:
        contracts.validate(CONTRACT, plain, str(path))
    except BrokenContract as error:
        return [{"where": error.where, "message": error.message.removeprefix(f"{CONTRACT}: ")}]
    return []


def _read(path: Path) -> tuple[Any, Document]:
    """The file's mapping with positions, and without."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        data = files.read(path, SIZE_LIMIT)
        marked = YAML(typ="rt", pure=True).load(data)
        plain = YAML(typ="safe", pure=True).load(data)
    except FileNotFoundError:
        return {}, {}
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise CannotRun(f"not YAML: {error.problem or error.context}", where=f"{path}{line}") from error
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CannotRun(f"not YAML: {error}", where=str(path)) from error
    if plain is None:
        return {}, {}
    if not isinstance(plain, dict):
        raise CannotRun("a mapping is expected", where=f"{path}:1")
    return marked, plain


def _line(marked: Any, keys: tuple[str | int, ...]) -> int:
    """The line of a key, counted from 1."""
    for key in keys[:-1]:
        marked = marked[key]
    line: int = marked.lc.key(keys[-1])[0]
    return line + 1
