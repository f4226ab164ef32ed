"""What is installed beside us, asked without importing it: sqlglot alone takes a tenth of a second."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ktxkit.effects import files

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


def is_there(module: str) -> bool:
    """Whether a module can be found."""
    return find_spec(module) is not None
