"""The message gate `claims`: what a commit's message says of test runs is held against the ledger."""

from __future__ import annotations

from ktxkit.gates.plugin import MESSAGE_PATH, Answer, Finding
from ktxkit.ledger import claims
from ktxkit.ledger.rules.claims.judge import Ruling
from ktxkit.store.world import World


def check(world: World, message: str) -> Answer:
    """Findings on the claims of a message that are not borne out; a message without one is untouched."""
    found = claims.rulings(world, message)
    return Answer([finding(one) for one in found if one.rule], looked=len(found))


def finding(ruling: Ruling) -> Finding:
    """A ruling at its place in the message, with the rows that it rests on."""
    line, column = ruling.claim.sentence.place(ruling.claim.start)
    return Finding(
        rule=ruling.rule,
        path=MESSAGE_PATH,
        message=f"{ruling.claim.text!r}: {ruling.verdict}: {ruling.message}",
        line=line,
        column=column,
        reference=ruling.claim.text,
        searched=ruling.rows,
        hint=ruling.hint,
        level=ruling.level,
        gate="claims",
    )
