"""What facts and verdicts follow from besides the bytes: the gates' own sources, and what they read with."""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from ktxkit import __version__
from ktxkit.base import contracts, installed
from ktxkit.base.rules.digests import digest

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
    found = [installed.contents(os.path.join(HERE, folder), start, ".py") for folder, start in SOURCES]  # noqa: PTH118
    found += [installed.contents(str(contracts.schema_dir()), start, ".json") for start in SCHEMAS]
    content = digest(b"\0".join(data for listed in found for data in listed))[3:35]
    python = ".".join(map(str, sys.version_info[:3]))
    readers = [installed.version_of("sqlglot") or "no-sql", *installed.distributions(READ_WITH)]
    readers += ["libyaml"] if installed.is_there("_ruamel_yaml") else []
    return f"{__version__} {content} {python} {' '.join(readers)}"
