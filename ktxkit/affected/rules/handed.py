"""What imports, runs, unpickles or reads by a name, as a value: under another name, in a table, given to `map`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ktxkit.affected.rules.dynamic import (
    BY_PATH,
    IMPORTERS,
    OPAQUE,
    PICKLES,
    READERS,
    RUN,
    TAKEN,
    UNPICKLERS,
    name_of,
    origin_of,
)
from ktxkit.affected.rules.scopes import Alias
from ktxkit.affected.rules.sink import Units

if TYPE_CHECKING:
    from ktxkit.affected.rules.visitor import Visitor

RUNNING_MODULES = {"importlib", "runpy", "pkgutil", "imp"}


def handed_on(visitor: Visitor, node: ast.Name | ast.Attribute, aliases: Iterable[Alias], units: Units) -> None:
    """What imports, runs, unpickles or reads by a name, as a value: whoever gets it calls it with any."""
    if hasattr(node, TAKEN):
        return
    name, of = name_of(node), {origin_of(visitor, node)}
    if isinstance(node, ast.Name):
        every = list(aliases)
        of = {alias.module.partition(".")[0] for alias in every}
        name = next((alias.name or alias.module for alias in every), name)
    runs = name in IMPORTERS | BY_PATH | RUN | RUNNING_MODULES and of & (RUNNING_MODULES | {"builtins"})
    if runs or (name in RUN | {"__import__"} and not any(of)):
        visitor.sink.mark(OPAQUE, f"hands on {name}: what it is given is not known", units)
    elif name in UNPICKLERS and of & PICKLES:
        visitor.sink.mark(OPAQUE, "unpickles: what is named is in the bytes", units)
    elif (name == "open" and not any(of)) or (name in READERS - {"open", "files"} and of & {"pathlib", "io"}):
        visitor.sink.mark("does", "reads", units)
