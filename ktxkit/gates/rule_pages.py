"""The pages of the gates' rules: `docs/rules/` in the sources, `ktxkit.rule_pages` when installed."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path


@cache
def directory() -> Path:
    """Where the pages lie."""
    module = importlib.import_module("ktxkit.rule_pages")
    assert module.__file__ is not None
    return Path(module.__file__).parent


def read(rule: str) -> str | None:
    """A rule's page, or None where there is none."""
    path = directory() / f"{rule}.md"
    return path.read_text("utf-8") if path.is_file() else None
