"""The rule file of words (contract `lexicon`), the one source of gate, reminder, documentation and rulebase."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ktxkit.base.contracts import Document
from ktxkit.store.settings import read_yaml

CONTRACT = "lexicon"


@cache
def load() -> Document:
    """The rules that come with ktxkit."""
    return read_yaml(Path(__file__).resolve().parent / "rules" / "lexicon.yaml", CONTRACT)


def reminder() -> list[str]:
    """What test-run says before a run: the rules in a few lines."""
    rules = load()
    refused = ", ".join(rule["word"] for rule in rules["refused"])
    earned = ", ".join(rule["word"] for rule in rules["words"])
    return [
        *(f"  - {text}" for text in rules["reminders"]),
        f"  - Words that must be earned (`ledger-query explain`): {earned}.",
        f"  - Words that are refused: {refused}.",
    ]
