"""The pages of rules, for `gate-check --explain`."""

from __future__ import annotations

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.text import nearest
from ktxkit.gates import rule_pages
from ktxkit.gates.rules.rules import RULES


def explain(rule: str) -> list[str]:
    """A rule's page; of `list`, every rule in a line. Raises CannotRun for a rule that is none."""
    if rule == "list":
        width = max(map(len, RULES))
        return [f"{name:<{width}}  {level:<7}  {said}" for name, (level, said) in RULES.items()]
    if rule not in RULES:
        near = nearest(rule, list(RULES))
        hint = f"did you mean {near[0]}?" if near else "`gate-check --explain list` shows them"
        raise CannotRun(f"there is no rule {rule!r}", hint=hint)
    page = rule_pages.read(rule)
    if page is None:
        raise BrokenContract(f"the page of the rule {rule} is not installed", hint="install ktxkit again")
    return page.rstrip("\n").split("\n")
