"""The subcommands of `git ktx`: one module each, shaped like a command (`parser()`, `run(args, world)`).

A module `some_name` here is the subcommand `git ktx some-name`.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType


def names() -> list[str]:
    """All subcommands, sorted. Nothing is imported."""
    return sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__))


def module(name: str) -> ModuleType:
    """The module of a subcommand, whose name is one of `names()`."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def summary(name: str) -> str:
    """The first line of a subcommand's docstring. Nothing is imported."""
    text = ast.get_docstring(ast.parse((Path(__file__).parent / f"{name.replace('-', '_')}.py").read_bytes())) or ""
    return text.partition("\n")[0]
