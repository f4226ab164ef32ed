"""The list of commands, read from the installed distribution: pyproject.toml is its only source."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from ktxkit.app.rules.help_text import summary_of
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest

Main = Callable[[Sequence[str] | None], int]


def scripts() -> dict[str, str]:
    """Console script name to module name, sorted. Raises CannotRun where ktxkit is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entries = distribution("ktxkit").entry_points.select(group="console_scripts")
    except PackageNotFoundError as error:
        raise CannotRun("ktxkit is not installed", hint="pip install ktxkit, or `make demo` in a clone") from error
    return {entry.name: entry.module for entry in sorted(entries, key=lambda entry: entry.name)}


def listing() -> list[tuple[str, str]]:
    """Each command with the first line of its help, without importing it."""
    return [(name, _summary(module)) for name, module in scripts().items()]


def _summary(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return "(not installed)"
    return summary_of(Path(spec.origin).read_text("utf-8"))


def load(name: str, others: Sequence[str] = ()) -> Main:
    """The `main` of a command. Raises CannotRun where there is none of that name (`others` may have been meant)."""
    known = scripts()
    if name not in known or name == "git-ktx":
        near = nearest(name, [*others, *(other for other in known if other != "git-ktx")])
        hint = f"did you mean {' or '.join(near)}?" if near else "`git ktx` lists the commands"
        raise CannotRun(f"no command named {name!r}", hint=hint)
    return cast(Main, importlib.import_module(known[name]).main)
