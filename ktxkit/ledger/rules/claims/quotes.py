"""Error texts that a message quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktxkit.ledger.rules.claims.grammar import Claim
from ktxkit.ledger.rules.claims.text import Sentence

_QUOTED = re.compile(
    r"[`\"“']+(?P<text>(?:[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)|assert)\b[^`\"”\n]{4,400}?)[`\"”']+"
)


def quotes(sentence: Sentence) -> Iterator[Claim]:
    """Quoted texts that begin like an error or an assertion."""
    for found in _QUOTED.finditer(sentence.text):
        yield Claim("quote", sentence, *found.span(), outcome=found["text"].strip())
