"""What is installed beside us, asked without importing it: sqlglot alone takes a tenth of a second."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ktxkit.base import files

_SAID = re.compile(rb"^__version__\b.*= *['\"]([^'\"\n]+)['\"]", re.MULTILINE)


@cache
def version_of(package: str) -> str:
    """The version that a package states of itself in its `_version.py`; "unknown" where it does not, "" if absent."""
    found = find_spec(package)
    if found is None or found.origin is None:
        return ""
    path = Path(found.origin).parent / "_version.py"
    said = _SAID.search(files.read(path)) if path.is_file() else None
    return said.group(1).decode("utf-8", "replace") if said else "unknown"


def contents(folder: str, start: str, end: str) -> list[bytes]:
    """The files of a folder whose names begin and end so, in the order of their names: name and content."""
    found = []
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        if name.startswith(start) and name.endswith(end):
            found += [name.encode(), Path(folder, name).read_bytes()]  # an installer may have left links
    return found


@cache
def distributions(prefixes: tuple[str, ...]) -> list[str]:
    """Name and version of what is installed whose name begins so, by the directories that installers leave."""
    places = {part for part in sys.path if part.endswith("-packages") and os.path.isdir(part)}  # noqa: PTH112
    names = {name for place in places for name in os.listdir(place) if name.startswith(prefixes)}  # noqa: PTH208
    return sorted(name for name in names if name.endswith("-info"))


def is_there(module: str) -> bool:
    """Whether a module can be found."""
    return find_spec(module) is not None
