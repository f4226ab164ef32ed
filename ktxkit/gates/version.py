"""What is installed beside us, asked without importing it: sqlglot alone takes a tenth of a second.

What facts and verdicts follow from besides the bytes: the gates' own sources, and what they read with.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from ktxkit import __version__
from ktxkit.base import contracts, files
from ktxkit.base.rules.digests import digest

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


HERE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - a look at a hundred files is to take a millisecond
SOURCES = (
    ("gates", ""), ("gates/rules", ""), ("base/rules", ""), ("git/rules", ""), ("store/rules", ""),
    ("base", "contracts"), ("base", "validators"),
)  # fmt: skip  # folder, what names in it begin with
SCHEMAS = ("artifact-", "gate-", "verdict")
READ_WITH = ("sqlglot", "ruamel", "markdown_it", "mdit_py", "mdurl", "jsonschema", "referencing")  # jsonschema_rs, too


@lru_cache(maxsize=1)
def version() -> str:
    """The release, the sources and schemas of the gates, and what is installed that they read with.

    Nobody has to remember to count it up.
    """
    found = [contents(os.path.join(HERE, folder), start, ".py") for folder, start in SOURCES]  # noqa: PTH118
    found += [contents(str(contracts.schema_dir()), start, ".json") for start in SCHEMAS]
    content = digest(b"\0".join(data for listed in found for data in listed))[3:35]
    python = ".".join(map(str, sys.version_info[:3]))
    readers = [version_of("sqlglot") or "no-sql", *distributions(READ_WITH)]
    readers += ["libyaml"] if is_there("_ruamel_yaml") else []
    return f"{__version__} {content} {python} {' '.join(readers)}"
