"""The pages of the gates' rules: `docs/rules/` in the sources, `ktxkit.rule_pages` when installed.

The pages of rules, for `gate-check --explain`.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules.findings import RULES


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


def explain(rule: str) -> list[str]:
    """A rule's page; of `list`, every rule in a line. Raises CannotRun for a rule that is none."""
    if rule == "list":
        width = max(map(len, RULES))
        return [f"{name:<{width}}  {level:<7}  {said}" for name, (level, said) in RULES.items()]
    if rule not in RULES:
        near = nearest(rule, list(RULES))
        hint = f"did you mean {near[0]}?" if near else "`gate-check --explain list` shows them"
        raise CannotRun(f"there is no rule {rule!r}", hint=hint)
    page = read(rule)
    if page is None:
        raise BrokenContract(f"the page of the rule {rule} is not installed", hint="install ktxkit again")
    return page.rstrip("\n").split("\n")
