"""Reading a job file: strict YAML, then the contract, then what the command line says instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit import contracts
from ktxkit.contracts import Document
from ktxkit.effects import files
from ktxkit.errors import BrokenContract, CannotRun
from ktxkit.world import World

SIZE_LIMIT = 16 * 1024 * 1024  # bytes


def job_file(world: World, name: str, given: Mapping[str, Any]) -> Document:
    """The valid document of a job file, with `given` over it. Raises CannotRun where it is missing or not valid."""
    path = world.cwd / name
    try:
        data = files.read(path, SIZE_LIMIT)
    except FileNotFoundError as error:
        raise CannotRun("no such job file", where=str(path), hint="job-run takes the path of a job file") from error
    document = {**_yaml(data, str(path)), **given}
    try:
        contracts.validate("job-file", document, str(path))
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint="docs/formats/job-file.md lists its keys") from error
    return document


def _yaml(data: bytes, where: str) -> Document:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        value = YAML(typ="safe", pure=True).load(data)
    except (YAMLError, UnicodeDecodeError) as error:
        raise CannotRun(f"not YAML: {error}", where=where) from error
    if not isinstance(value, dict):
        raise CannotRun("a job file is a mapping", where=where)
    return value
