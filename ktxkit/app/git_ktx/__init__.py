"""The subcommands of `git ktx`: one module each, shaped like a command (`parser()`, `run(args, world)`).

A module `some_name` here is the subcommand `git ktx some-name`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from ktxkit.app.rules.help_text import summary_of


def names() -> list[str]:
    """All subcommands, sorted. Nothing is imported."""
    return sorted(path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[a-z]*.py"))


def module(name: str) -> ModuleType:
    """The module of a subcommand, whose name is one of `names()`."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def summary(name: str) -> str:
    """The first line of a subcommand's docstring. Nothing is imported."""
    return summary_of((Path(__file__).parent / f"{name.replace('-', '_')}.py").read_text("utf-8"))
