"""All claims of a message, with the rulings on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit.ledger.rules.claims.grammar import Claim, claims
from ktxkit.ledger.rules.claims.judge import Facts, Ruling, judge
from ktxkit.ledger.rules.claims.quotes import quotes
from ktxkit.ledger.rules.claims.text import sentences
from ktxkit.ledger.rules.claims.words import words
from ktxkit.ledger.rules.lexicon import all_forms


def found(message: str, lexicon: Mapping[str, Any]) -> Iterator[Claim]:
    """Everything in a message that could be held against a ledger."""
    forms = all_forms(lexicon)
    for sentence in sentences(message):
        yield from claims(sentence)
        yield from words(sentence, forms)
        yield from quotes(sentence)


def rulings(message: str, facts: Facts) -> list[Ruling]:
    """The ruling on each claim of a message, in order; claims that the ledger has nothing to say to are left out."""
    judged = (judge(claim, facts) for claim in found(message, facts.lexicon))
    return [ruling for ruling in judged if ruling is not None]
