"""What counts as a claim: a deny corpus and an allow corpus at least as large; both grow with every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.claims.rules import verdicts
from ktxkit.ledger import answers

HERE = Path(__file__).resolve().parent


def lines(name: str) -> list[str]:
    found = (HERE / name).read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in found if line and not line.startswith("#")]


ALLOW = lines("allow.txt")
DENY = [tuple(line.split("\t", 1)) for line in lines("deny.txt")]


def claimed(message: str) -> list[tuple[str, str]]:
    return [
        (claim.kind, claim.text) for claim in verdicts.claims_in(message, answers.load()) if claim.kind != "attribute"
    ]


LEADS = pytest.mark.parametrize("lead", ["", "Change the parser\n\n"], ids=["subject", "body"])


@LEADS
def test_no_claim(lead: str) -> None:
    assert {message: claims for message in ALLOW if (claims := claimed(lead + message))} == {}


@LEADS
def test_a_claim(lead: str) -> None:
    found = {(kind, message): claimed(lead + message) for kind, message in DENY}
    assert {line: claims for line, claims in found.items() if line[0] not in [kind for kind, _ in claims]} == {}


def test_the_allow_corpus_is_at_least_as_large() -> None:
    assert len(ALLOW) >= len(DENY) >= 100


@pytest.mark.parametrize(
    ("message", "full"),
    [
        ("Zero failures in the full suite", True),
        ("The full suite reports 0 failures.", True),
        ("Zero failures.", False),
    ],
)
def test_what_is_said_of_the_full_suite_asks_for_a_full_run(message: str, full: bool) -> None:
    assert [claim.full for claim in verdicts.claims_in(message, answers.load())] == [full]
