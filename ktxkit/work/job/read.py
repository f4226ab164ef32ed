"""Reading a job file: strict YAML, then the contract, then what the command line says instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.store import config
from ktxkit.store.world import World

SIZE_LIMIT = 1024 * 1024  # bytes; a job with more units has a plan command that prints them


def job_file(world: World, name: str, given: Mapping[str, Any]) -> Document:
    """The valid document of a job file: `given` over it, the repository's defaults (`.ktx-config.yaml`) under it.

    Raises CannotRun where it is missing or not valid.
    """
    path = world.cwd / name
    try:
        data = files.read(path, SIZE_LIMIT)
    except FileNotFoundError as error:
        raise CannotRun("no such job file", where=str(path), hint="job-run takes the path of a job file") from error
    except IsADirectoryError as error:
        raise CannotRun("a directory is no job file", where=str(path), hint="name the file in it") from error
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint="job-run takes the path of a job file") from error
    document = {**config.load(world).get("job", {}), **_yaml(data, str(path)), **given}
    try:
        contracts.validate("job-file", document, str(path))
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint="docs/formats/job-file.md lists its keys") from error
    return document


def _yaml(data: bytes, where: str) -> Document:
    from ktxkit.base.rules.strict_yaml import read

    parsed = read(data)
    if parsed.problems:
        first = parsed.problems[0]
        more = f" (and {len(parsed.problems) - 1} more)" if len(parsed.problems) > 1 else ""
        place = f"{where}:{first.line}:{first.column}"
        raise CannotRun(f"{first.message}{more}", where=place, hint=first.hint or "see docs/formats/job-file.md")
    value = parsed.root.data() if parsed.root is not None else None
    if not isinstance(value, dict):
        raise CannotRun("a job file is a mapping", where=where, hint="see docs/formats/job-file.md")
    return value
