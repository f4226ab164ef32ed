"""How many wordings are recognised, and how many innocent sentences are accused, as docs/claims-measured.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ktxkit.claims.rules import verdicts
from ktxkit.ledger import answers
from tests.claims.test_planted import HERE, THERE, facts, run

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases" / "claims"
LEADS = ("", "Change the parser\n\n")  # as a subject, and as a body


def messages(name: str) -> list[str]:
    lines = (CASES / f"{name}.txt").read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("# ")]


def claimed(message: str) -> list[str]:
    found = verdicts.claims_in(message, answers.load())
    return [claim.text for claim in found if claim.kind != "attribute"]


def recall(name: str) -> float:
    """The share of a corpus that is taken for a claim."""
    found = [bool(claimed(lead + message)) for message in messages(name) for lead in LEADS]
    return sum(found) / len(found)


CORPORA = {name: messages(name) for name in ("claims", "held_claims", "innocent", "held_innocent")}


def test_the_corpora_are_as_large_as_they_must_be() -> None:
    texts = [text for found in CORPORA.values() for text in found]
    assert len(texts) == len(set(texts))
    assert len(CORPORA["claims"]) + len(CORPORA["held_claims"]) >= 400
    assert len(CORPORA["innocent"]) + len(CORPORA["held_innocent"]) >= 2000
    assert 5 * len(CORPORA["held_claims"]) >= len(CORPORA["claims"])


@pytest.mark.parametrize("name", ["claims", "held_claims"])
def test_recall_is_what_the_page_says(name: str) -> None:
    page = (ROOT / "docs" / "claims-measured.md").read_text("utf-8")
    row = re.search(rf"^\| `{name}` \| (\d+) \| recall (0\.\d+) \|$", page, re.MULTILINE)
    found = recall(name)
    assert row is not None and (int(row[1]), float(row[2])) == (len(CORPORA[name]), round(found, 3)), found
    assert found >= 0.9


@pytest.mark.parametrize("name", ["innocent", "held_innocent"])
def test_nobody_is_accused(name: str) -> None:
    page = (ROOT / "docs" / "claims-measured.md").read_text("utf-8")
    row = re.search(rf"^\| `{name}` \| (\d+) \| accused 0 \|$", page, re.MULTILINE)
    accused = {message: found for message in CORPORA[name] for lead in LEADS if (found := claimed(lead + message))}
    assert accused == {}
    assert row is not None and int(row[1]) == len(CORPORA[name])


def red(*failures: str, passed: int = 5) -> dict[str, Any]:
    made = run("r1", HERE, selected=passed + len(failures), passed=passed, failed=len(failures))
    return {"runs": [made | {"failures": [{"test": test, "outcome": "failed"} for test in failures]}]}


@pytest.mark.parametrize(
    ("message", "rule", "level"),
    [
        ("The parser tests pass.", "claim-false", "error"),
        ("All tests of the parser pass.", "claim-false", "error"),
        ("The store tests pass.", "claim-partial", "warning"),
        ("The new tests pass.", "claim-partial", "warning"),
        ("The tests I added pass.", "claim-partial", "warning"),
        ("Unit tests pass.", "claim-false", "error"),
        ("I ran the tests. They all pass.", "claim-false", "error"),
        ("Tests run: 6, Failures: 0", "claim-false", "error"),
        ("\u0410ll t\u0435sts pass", "claim-false", "error"),
    ],
)
def test_some_of_the_tests(message: str, rule: str, level: str) -> None:
    """Where the run failed, those that are meant may have passed: no accusation of what is not known."""
    found = verdicts.rulings(message, facts(red("tests/test_parser.py::test_x")))
    assert [(one.rule, one.level) for one in found if one.rule] == [(rule, level)]


def test_some_of_the_tests_of_other_content() -> None:
    state = {"runs": [run("r1", THERE, selected=5, passed=5)], "changed": ["src/a.py"]}
    assert [one.rule for one in verdicts.rulings("The parser tests pass.", facts(state))] == ["claim-stale"]


@pytest.mark.parametrize(
    "message", ["Tests run: 6, Failures: 1, Errors: 0", "Passed: 5, Failed: 1", "There is one failing test."]
)
def test_a_tally_that_is_true(message: str) -> None:
    assert [one.rule for one in verdicts.rulings(message, facts(red("tests/test_parser.py::test_x")))] == [""]
