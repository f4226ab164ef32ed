"""What counts as a claim: a deny corpus and an allow corpus at least as large; both grow with every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.ledger import answers
from ktxkit.ledger.rules import claims

HERE = Path(__file__).resolve().parent


def lines(name: str) -> list[str]:
    found = (HERE / name).read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in found if line and not line.startswith("#")]


ALLOW = lines("allow.txt")
DENY = [tuple(line.split("\t", 1)) for line in lines("deny.txt")]


def claimed(message: str) -> list[tuple[str, str]]:
    return [
        (claim.kind, claim.text) for claim in claims.claims_in(message, answers.load()) if claim.kind != "attribute"
    ]


@pytest.mark.parametrize("message", ALLOW)
def test_no_claim(message: str) -> None:
    assert claimed(message) == []


@pytest.mark.parametrize("message", ALLOW)
def test_no_claim_in_the_body(message: str) -> None:
    assert claimed(f"Change the parser\n\n{message}") == []


@pytest.mark.parametrize(("kind", "message"), DENY)
def test_a_claim(kind: str, message: str) -> None:
    assert kind in [found for found, _ in claimed(message)], claimed(message)


@pytest.mark.parametrize(("kind", "message"), DENY)
def test_a_claim_in_the_body(kind: str, message: str) -> None:
    assert kind in [found for found, _ in claimed(f"Change the parser\n\n{message}")]


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
    assert [claim.full for claim in claims.claims_in(message, answers.load())] == [full]
