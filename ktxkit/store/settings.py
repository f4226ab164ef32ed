"""`.ktx-config.yaml` at the top of the checkout (contract `config`): what a repository asks of the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError
from ktxkit.store import config
from ktxkit.store.world import World

SIZE_LIMIT = 1024 * 1024  # bytes


def load(world: World) -> Document:
    """The configuration of the checkout that we stand in; empty where there is none. Raises CannotRun."""
    try:
        assert world.repository
    except KtxError:
        return {}  # a store outside any repository
    return config.load(world)


def ledger(world: World) -> dict[str, Any]:
    """Its part about the ledger."""
    found: dict[str, Any] = load(world).get("ledger", {})
    return found


def read_yaml(path: Path, contract: str) -> Document:
    """A YAML file that must be of a contract. Raises CannotRun: it is a person who writes it."""
    from ktxkit.base.rules.strict_yaml import read

    parsed = read(files.read(path, SIZE_LIMIT))
    if parsed.problems:
        first = parsed.problems[0]
        raise CannotRun(f"not YAML: {first.message}", where=f"{path}:{first.line}:{first.column}", hint=first.hint)
    value = parsed.root.data() if parsed.root is not None else None
    try:
        contracts.validate(contract, value if value is not None else {}, str(path))
    except BrokenContract as error:
        raise CannotRun(error.message, where=error.where, hint=f"the contract `{contract}` lists its keys") from error
    return value or {}
