"""Planted claims of both kinds, held against ledgers whose content is known: every lie is found, no truth accused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktxkit.claims.rules.verdicts import ClaimEvidence, claims_in, rulings
from ktxkit.ledger import answers

HERE, THERE = "a" * 40, "b" * 40


def run(name: str, tree: str | None, *, scope: str = "full", state: str = "finished", **counts: int) -> dict[str, Any]:
    bad = sum(counts.get(key, 0) for key in ("failed", "errors", "crashed"))
    unfinished = state != "finished"
    verdict = "failed" if bad else ("incomplete" if unfinished else "passed")
    known = {"tree": {"tree": tree}, "treeAfter": {"tree": tree}} if tree else {}
    reported = {key: n for key, n in counts.items() if key in ("passed", "failed", "errors", "skipped")}
    why = {} if scope == "full" else {"why": ["-k x"]}
    return {
        "run": name, "startedAt": "2026-01-02T03:04:05.678Z", "state": state, "verdict": verdict, "counts": counts,
        "reported": reported, "scope": {"kind": scope, **why}, **known,
    }  # fmt: skip


def failures(*tests: str) -> dict[str, Any]:
    return {"failures": [{"test": test, "outcome": "failed"} for test in tests]}


NODES = ["tests/test_a.py::test_login", "tests/test_a.py::TestUser::test_name", "tests/test_b.py::test_slow",
         "t.py::test_p[a]", "t.py::test_p[b]", "t.py::test_q[a]", "t.py::test_q[b]"]  # fmt: skip
STATES: dict[str, dict[str, Any]] = {
    "green": {"runs": [run("r1", HERE, selected=120, passed=118, skipped=2)]},
    "red": {"runs": [run("r1", HERE, selected=120, passed=115, failed=3, errors=2)]},
    "skipped": {"runs": [run("r1", HERE, selected=3, skipped=3)]},
    "none passed": {"runs": [run("r1", HERE, selected=3, skipped=1, xfailed=2)]},
    "skipped before": {"runs": [run("r1", THERE, selected=3, skipped=3)], "changed": ["src/a.py"]},
    "xpassed": {"runs": [run("r1", HERE, selected=3, skipped=2, xpassed=1)]},
    "stale": {"runs": [run("r1", THERE, selected=120, passed=120)], "changed": ["src/a.py", "src/b.py"]},
    "prose": {"runs": [run("r1", THERE, selected=120, passed=120)], "changed": ["README.md", "docs/x.rst"]},
    "partly": {"runs": [run("r1", THERE, selected=120, passed=120)], "changed": ["notes"], "uncommitted": {"notes"}},
    "fragment": {"runs": [run("r1", HERE, scope="partial", selected=17, passed=17)]},
    "deselected": {
        "runs": [
            run("r1", HERE, scope="partial", selected=8, passed=8, deselected=1)
            | {"scope": {"kind": "partial", "why": ["--deselect t.py::test_name", "1 deselected"]}}
        ]
    },
    "killed": {
        "runs": [run("r1", HERE, scope="partial", state="killed", selected=120, passed=80, notRun=39, interrupted=1)]
    },
    "newer red": {"runs": [run("r2", HERE, selected=9, passed=8, failed=1), run("r1", HERE, selected=9, passed=9)]},
    "old full": {
        "runs": [run("r2", HERE, scope="module", selected=17, passed=17), run("r1", THERE, selected=120, passed=120)],
        "changed": ["src/a.py"],
    },
    "empty": {"runs": []},
    "no tree": {"runs": [run("r1", None, selected=120, passed=120)]},
    "one red": {
        "runs": [run("r1", HERE, selected=9, passed=8, failed=1) | failures("tests/test_a.py::TestUser::test_name")]
    },
    "two red": {
        "runs": [
            run("r1", HERE, selected=9, passed=7, failed=2)
            | failures("tests/test_a.py::TestUser::test_name", "tests/test_b.py::test_slow")
        ]
    },
}
OUTCOMES = {
    "tests/test_a.py::test_login": "passed", "tests/test_a.py::TestUser::test_name": "failed",
    "t.py::test_p[a]": "passed", "t.py::test_p[b]": "passed", "t.py::test_q[a]": "passed", "t.py::test_q[b]": "failed",
}  # fmt: skip
WORDS = {("flaky", "tests/test_a.py::test_login"), ("order_dependent", "tests/test_b.py::test_slow")}
ERRORS = ["ValueError: the port 8080 is taken by another process", "assert response.status == 200\nE  more"]


def facts(state: Mapping[str, Any]) -> ClaimEvidence:
    def tests(name: str) -> Sequence[str]:
        ids = {node: node.partition("[")[0] if "[" not in name else node for node in NODES}
        return [node for node, said in ids.items() if name and f"/{said}".endswith(("::" + name, "/" + name))]

    def outcomes(test: str) -> Sequence[tuple[Mapping[str, Any], str]]:
        return [(found, OUTCOMES[test]) for found in state["runs"] if test in OUTCOMES]

    def module(path: str) -> Sequence[tuple[Mapping[str, Any], frozenset[str]]]:
        said = frozenset(word for node, word in OUTCOMES.items() if f"/{node}".partition("::")[0].endswith(f"/{path}"))
        return [(found, said) for found in state["runs"] if said]

    return ClaimEvidence(
        tree=HERE,
        runs=state["runs"],
        changed=lambda tree: state.get("changed"),
        tests=tests,
        outcomes=outcomes,
        word=lambda predicate, test: "true" if (predicate, test) in WORDS else "unknown",
        errors=ERRORS,
        uncommitted=frozenset(state.get("uncommitted", ())),
        lexicon=answers.load(),
        module=module,
        skipped=lambda name: state.get("skipped", ()),
    )


CASES = Path(__file__).resolve().parents[1] / "cases" / "claims"
PLACED = [
    line.replace("\\n", "\n")
    for line in (CASES / "placed.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("# ")
]
QUALIFIED = [
    "All tests pass on Python 3.11", "All tests passed locally on Python 3.11", "All tests pass on Linux",
    "All tests pass under xdist", "All tests pass with -n 2", "All tests pass on top of main",
    "All tests pass in CI and locally", "All tests pass here and in CI", "Make sure tests pass (they do)",
    "Under Linux all tests pass", "With xdist, on 3.11, every test passes", "All tests pass, including the slow ones",
    "All tests pass on Windows", "All tests pass regardless of the order",
]  # fmt: skip
EXCEPTING = [
    f"{said.format(name)}"
    for name in ("test_name", "`test_name`", "TestUser::test_name", "tests/test_a.py", "the old test_name")
    for said in (
        "All tests pass except {}", "All tests pass, except for {}.", "All tests but {} pass",
        "Every test passes apart from {}", "All tests pass with the exception of {}", "The suite is green (except {})",
        "All tests pass; only {} fails", "All tests pass but {} still fails", "All tests pass, {} aside",
        "I ran all tests; all but {} pass", "No test fails except {}",
    )
] + [
    "All but one test pass", "All tests pass except one",
    "All tests pass, with one exception", "All but 1 of the tests pass",
]  # fmt: skip
UNNAMED = [
    "All tests pass except the flaky ones", "All tests pass except for known failures",
    "All tests but the network ones pass", "All tests pass save some slow tests",
]  # fmt: skip
BESIDE = [  # a clause beside the claim speaks of something else
    "CI passes and all unit tests pass locally", "CI is green, and all tests pass here", "All tests pass and CI passes",
    "CI fails but all tests pass locally", "The docs are untested but all tests pass",
    "Our CI is red; the suite is green",
    "All tests pass, but I have not checked the docs", "All tests pass and only the docs changed",
    "Upstream is broken but all tests pass here", "All tests pass, though upstream is broken",
    "Fixed the crash on Windows and all tests pass", "Drop support for Python 3.8 and all tests pass",
    "All tests pass, and I fixed a bug on Windows", "All tests pass and the docs build in CI",
    "We removed the Windows job in CI, and all tests pass", "All tests pass; the page was not verified",
]  # fmt: skip
OF_THEM = [
    "All tests pass, {} of them", "All tests pass, all {} of them.", "The tests pass ({} of them)",
    "All tests ({}) pass",
    "All tests pass ({} tests)", "All tests pass, {} in total", "All tests pass: {} tests",
    "All tests, {} of them, pass",
    "The suite passes with {} tests", "All tests pass - {} in all",
]  # fmt: skip
NOTHING_PASSED = [
    "All tests pass", "Tests pass", "The suite is green", "Tests: green", "pytest passes", "pytest: 3/3",
    "Ran the full suite, everything passes", "100% of tests pass", "The suite finished successfully",
]  # fmt: skip
LIES: list[tuple[str, str, str]] = [
    ("green", "test_unheard_of passes", "claim-unknown"),
    ("green", "test_login and test_unheard_of pass", "claim-unknown"),
    ("green", "test_login and test_name pass", "claim-false"),
    ("green", "test_q passes", "claim-false"),
    ("green", "test_q[b] passes", "claim-false"),
    ("green", "tests/test_unheard_of.py passes", "claim-unknown"),
    ("green", "t.py::test_unheard_of passes on Linux", "claim-unknown"),
    ("green", "tests/test_a.py passes", "claim-false"),
    ("stale", "tests/test_b.py passes", "claim-unknown"),
    ("empty", "test_login passes", "claim-false"),
    *[("red", said, "claim-false") for said in QUALIFIED],
    *[("stale", said, "claim-stale") for said in QUALIFIED],
    *[
        ("fragment", f"All tests pass{said}", "claim-false")
        for said in (" on Linux", " under xdist", " in CI and here")
    ],
    *[("two red", said, "claim-false") for said in EXCEPTING],
    *[("stale", said, "claim-stale") for said in [*EXCEPTING, *UNNAMED, *BESIDE] if not said.startswith("No test")],
    *[("fragment", said, "claim-false") for said in EXCEPTING if not said.startswith("No test")],
    *[("skipped", said, "claim-false") for said in UNNAMED],
    *[("red", said, "claim-false") for said in BESIDE],
    *[("green", said.format(12), "claim-false") for said in OF_THEM],
    ("two red", "7 tests passed, 1 failed", "claim-false"),
    ("two red", "Seven tests pass and one fails", "claim-false"),
    ("partly", "All tests pass", "claim-uncommitted"),
    ("green", "120 passed", "claim-false"),
    ("green", "All 120 tests pass", "claim-false"),
    ("green", "118 passed, 3 skipped", "claim-false"),
    ("green", "118 passed, 1 failed", "claim-false"),
    ("green", "1,118 tests pass", "claim-false"),
    ("green", "118 of 125 tests pass", "claim-false"),
    ("green", "3 tests fail", "claim-false"),
    ("green", "No tests were skipped... 118 passed, 0 skipped", "claim-false"),
    ("red", "All tests pass", "claim-false"),
    ("red", "All tests pass.", "claim-false"),
    ("red", "The full test suite is green", "claim-false"),
    ("red", "Tests pass", "claim-false"),
    ("red", "Tests: all green", "claim-false"),
    ("red", "pytest passes", "claim-false"),
    ("red", "120 passed, 0 failed", "claim-false"),
    ("red", "115 passed, 0 failed", "claim-false"),
    ("red", "115 passed, 2 failed", "claim-false"),
    ("red", "No test failures", "claim-false"),
    ("red", "Full run without failures", "claim-false"),
    ("red", "All unit tests pass", "claim-false"),
    ("red", "Fixed the parser and all tests pass", "claim-false"),
    ("red", "I ran the tests and all of them pass", "claim-false"),
    ("red", "Verified that all tests pass", "claim-false"),
    ("red", "Every test passes", "claim-false"),
    ("red", "test_name passes", "claim-false"),
    ("red", "test_login failed", "claim-false"),
    *[(state, said, "claim-false") for state in ("skipped", "none passed") for said in NOTHING_PASSED],
    ("skipped", "All 3 tests pass", "claim-false"),
    ("skipped before", "All tests pass", "claim-false"),
    ("stale", "All tests pass", "claim-stale"),
    ("stale", "All 120 tests pass", "claim-stale"),
    ("stale", "120 passed, 0 failed", "claim-stale"),
    ("stale", "The suite is green", "claim-stale"),
    ("stale", "Tests pass", "claim-stale"),
    ("stale", "Ran the full test suite", "claim-stale"),
    ("stale", "test_login passes", "claim-stale"),
    ("stale", "119 passed", "claim-false"),
    ("fragment", "All tests pass", "claim-false"),
    ("fragment", "The full suite passes", "claim-false"),
    ("fragment", "Ran the full test suite", "claim-false"),
    ("fragment", "The test suite is green", "claim-false"),
    ("fragment", "Ran all tests", "claim-false"),
    ("fragment", "All 17 tests pass", "claim-false"),
    ("killed", "All tests pass", "claim-false"),
    ("killed", "Tests pass", "claim-false"),
    ("killed", "The whole test suite passed", "claim-false"),
    ("killed", "120 passed", "claim-false"),
    ("newer red", "All tests pass", "claim-false"),
    ("newer red", "Tests are green", "claim-false"),
    ("old full", "All tests pass", "claim-false"),
    ("old full", "The full suite is green", "claim-false"),
    ("empty", "All tests pass", "claim-unknown"),
    ("empty", "120 passed", "claim-unknown"),
    ("empty", "Ran the full test suite", "claim-unknown"),
    ("no tree", "All tests pass", "claim-unknown"),
    ("green", "test_name is flaky", "word-unearned"),
    ("green", "test_login is order-dependent", "word-unearned"),
    ("green", "The failure is flaky", "word-unearned"),
    ("green", "Rerun the flaky test_name", "word-unearned"),
    ("green", "test_slow is slow", "word-unearned"),
    ("green", "The failure was transient", "word-refused"),
    ("green", "test_login hung", "word-refused"),
    ("green", "The tests should pass now", "word-refused"),
    ("green", "The suite is mostly green", "word-refused"),
    ("green", "The failures are intermittent", "word-refused"),
    ("green", 'It fails with "ValueError: port 8080 is taken by some other process"', "quote-altered"),
    ("green", "It fails with `assert response.status == 201`", "quote-altered"),
]
TRUTHS: list[tuple[str, str]] = [
    ("green", "118 passed"),
    ("green", "118 passed, 2 skipped"),
    ("green", "118 passed, 2 skipped, 0 failed in 3.2s"),
    ("green", "All tests pass"),
    ("green", "All tests pass."),
    ("green", "All 118 tests pass"),
    ("green", "118 of 120 tests pass"),
    ("green", "The full test suite passes"),
    ("green", "The suite is green"),
    ("green", "Tests: green"),
    ("green", "Tests pass"),
    ("green", "pytest passes"),
    ("green", "Ran the full suite, everything passes"),
    ("green", "Ran all tests"),
    ("green", "No tests fail"),
    ("green", "No test failures"),
    ("green", "Full run without failures: 118 passed"),
    ("green", "I ran the tests and all of them pass"),
    ("green", "test_login passes"),
    ("green", "tests/test_a.py::test_login passes"),
    ("green", "test_login is flaky"),
    ("green", "Quarantine the flaky test_login"),
    ("green", "test_slow is order-dependent"),
    ("green", "test_slow is slow: it takes 4.2 s"),
    ("green", 'It fails with "ValueError: the port 8080 is taken by another process"'),
    ("green", 'It fails with "ValueError: the port 8080 is..."'),
    ("green", "It fails with `assert response.status == 200`"),
    ("green", 'It raises "ValueError: bad length" for an empty list'),
    ("green", "test_p passes"),
    ("green", "Fix the flaky test_unheard_of"),
    *[(state, said) for state in ("green", "one red") for said in [*EXCEPTING, *UNNAMED]],
    *[("green", said) for said in BESIDE],
    *[("green", said.format(118)) for said in OF_THEM],
    ("deselected", "All tests pass except test_name"),
    ("two red", "7 tests passed, 2 failed"),
    ("two red", "2 tests failed, 7 passed"),
    ("two red", "Seven tests pass and two fail"),
    ("red", "115 passed, 5 failed"),
    ("red", "115 passed, 3 failed, 2 errors"),
    ("red", "3 tests fail"),
    ("red", "115 of 120 tests pass"),
    ("red", "test_name fails"),
    ("red", "Ran the full test suite: 115 passed, 5 failed"),
    ("red", "Tests were not run"),
    ("red", "It is unknown whether the tests pass"),
    ("red", "Make all tests pass"),
    ("stale", "Tests have not been run on this change"),
    ("stale", "Previously all tests passed"),
    ("stale", "Untested"),
    ("stale", "test_login fails"),
    ("fragment", "17 passed"),
    ("fragment", "17 tests pass"),
    ("fragment", "Tests pass"),
    ("fragment", "All new tests pass"),
    ("killed", "80 passed"),
    ("newer red", "8 passed, 1 failed"),
    ("newer red", "9 passed"),
    ("old full", "17 passed"),
    ("skipped", "3 skipped"),
    ("skipped", "No test failed"),
    ("skipped", "0 passed, 3 skipped"),
    ("skipped", "Ran the full test suite"),
    ("none passed", "1 skipped, 2 xfailed, no failures"),
    ("xpassed", "All tests pass"),
    ("xpassed", "Tests pass"),
    ("empty", "Tests were not run"),
    ("empty", "Fix a typo"),
    ("empty", "All tests pass in CI"),
]
WARNED = [
    ("red", "115 passed", "claim-partial"),
    *[("one red", said, "claim-partial") for said in UNNAMED],
    ("skipped", "pytest exits 0", "claim-partial"),
    ("skipped", "The suite finished with no errors", "claim-partial"),
    ("skipped", "`make test` passes", "claim-partial"),
    ("prose", "All tests pass", "claim-stale"),
    ("prose", "120 passed", "claim-stale"),
]


LINUX = {
    "environment": {"python": "3.11.7", "implementation": "CPython", "platform": "linux-x86_64"}, "workers": 0,
}  # fmt: skip
OTHERS = {
    "environment": {"python": "3.12.1", "implementation": "CPython", "platform": "win-amd64"}, "workers": 2,
}  # fmt: skip
GREEN, RED = run("r1", HERE, selected=9, passed=9), run("r2", HERE, selected=9, passed=8, failed=1)


TRUE_HERE = [
    "on Python 3.11", "under CPython 3.11.7", "on Linux", "on Ubuntu", "on x86_64", "serially", "with pytest 8.3",
    "under coverage", "locally", "in 2.7 s", "on top of main", "in CI and here", "with and without coverage",
]  # fmt: skip
FALSE_HERE = [
    "on Python 3.12", "on 3.13", "on py312", "under PyPy", "on Windows", "on macOS", "on arm64", "under xdist",
    "with -n 2", "in parallel", "on 3.11 and 3.12", "on Linux and Windows", "locally and on Python 3.12",
    "with 4 workers", "on FreeBSD", "on Python 2.7",
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "true"),
    [
        *[(said, True) for said in TRUE_HERE],
        *[(said, False) for said in FALSE_HERE],
    ],
)
def test_what_a_record_tells_of_a_qualifier(said: str, true: bool) -> None:
    """A run on one interpreter or platform, or without workers, bears out none on another."""
    state = {"runs": [GREEN | LINUX]}
    for message in (f"All tests pass {said}.", f"{said.capitalize()}, all tests pass.", f"The suite is green {said}"):
        found = [(one.rule, one.level) for one in rulings(message, facts(state)) if one.rule]
        assert found == ([] if true else [("claim-unknown", "error")]), message


def test_each_of_several_is_asked_for() -> None:
    """Each of the interpreters that are named needs a run that passed on it, and no more than that."""
    two = {"runs": [RED | OTHERS, GREEN | LINUX]}
    for message, rule in (
        ("All tests pass on 3.11", ""), ("All tests pass on 3.12", "claim-false"), ("Tests pass on Linux", ""),
        ("All tests pass on 3.11 and 3.12", "claim-false"), ("All tests pass with -n 2", "claim-false"),
        ("All tests pass on 3.13", "claim-false"), ("All tests pass", "claim-false"),
    ):  # fmt: skip
        assert [one.rule for one in rulings(message, facts(two))] == [rule], message


def test_a_record_that_does_not_tell_makes_no_difference() -> None:
    state = {"runs": [GREEN]}
    assert [one.rule for one in rulings("All tests pass on Windows with -n 2 under PyPy", facts(state))] == [""]


@pytest.mark.parametrize(
    "message", ["All tests pass in CI", "On CI: 9 passed", "The suite is green on the build server"]
)
def test_what_a_server_saw_is_in_no_ledger(message: str) -> None:
    """A warning where nothing is known of it; an error where this very content failed here."""
    for name, expected in (("empty", "warning"), ("stale", "warning"), ("fragment", "warning"), ("red", "error")):
        levels = [one.level for one in rulings(message, facts(STATES[name])) if one.rule]
        assert levels in ([expected], []), (name, levels)
        assert levels or "9 passed" not in message
    assert [one.rule for one in rulings(message, facts({"runs": [GREEN]}))] == [""]


MORE = [
    ", including the slow ones", ", even the slow ones", ", slow tests included", " (slow ones too)", " with --runslow",
    " with the slow tests enabled", ", nothing deselected", ", including those marked slow", " with slow tests on",
]  # fmt: skip
SLOW = {"scope": {"kind": "full", "why": ["as addopts has it: not slow"]}}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("All tests pass", ""),
        ("All tests pass, including the new ones", ""),
        ("All tests pass, including the network tests", ""),
        *[(f"All tests pass{said}", "claim-unknown") for said in MORE],
        ("With the slow tests enabled, all tests pass", "claim-unknown"),
        ("All tests including slow ones pass", "claim-unknown"),
        ("The full suite, slow tests and all, passes", "claim-unknown"),
    ],
)
def test_more_than_the_project_calls_full(message: str, rule: str) -> None:
    """What addopts leave out did not run, whatever is full by them."""
    assert [one.rule for one in rulings(message, facts({"runs": [GREEN | SLOW]}))] == [rule]
    plain = {"runs": [GREEN]}
    assert [one.rule for one in rulings(message, facts(plain))] == [""], "a run that leaves nothing out"


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("All tests pass, including the slow ones", "claim-unknown"),
        ("All tests pass, including the new ones", ""),
        ("All tests pass, none skipped", "claim-false"),
        ("All tests pass", ""),
    ],
)
def test_what_was_skipped_is_not_included(message: str, rule: str) -> None:
    state = {"runs": [run("r1", HERE, selected=9, passed=8, skipped=1)], "skipped": ["t.py::test_w: slow: --runslow"]}
    assert [one.rule for one in rulings(message, facts(state))] == [rule]


RIGHT = [
    "9 tests, 9 passes", "9 tests, 9 passes, 0 failures", "9/9 tests green", "9 of 9 green", "0 failures in 9 tests",
    "9 ok, 0 not ok", "Test suite: 9/9", "Ran 9 tests, all OK",
]  # fmt: skip
WRONG = [
    "6 tests, 6 passes", "6 tests, 6 passes, 0 failures", "6/6 tests green", "6 of 6 green", "0 failures in 120 tests",
    "6 ok, 0 not ok", "Test suite: 6/6", "9 tests, 8 passes",
]  # fmt: skip


@pytest.mark.parametrize(("message", "right"), [*((one, True) for one in RIGHT), *((one, False) for one in WRONG)])
def test_counts_in_other_shapes(message: str, right: bool) -> None:
    found = rulings(message, facts({"runs": [GREEN]}))
    assert [one.rule for one in found] == (["" if right else "claim-false"]), found


def test_every_claim_about_a_server_is_known() -> None:
    """The file holds messages that an empty ledger never refuses, and that are held against a failed run."""
    for message in PLACED:
        for lead in ("", "Change the parser\n\n"):
            assert rules("red", lead + message) == ["claim-false"], message
            assert rules("empty", lead + message) == [] == rules("stale", lead + message), message


def rules(state: str, message: str, level: str = "error") -> list[str]:
    return [one.rule for one in rulings(message, facts(STATES[state])) if one.rule and one.level == level]


@pytest.mark.parametrize("lead", ["", "Change the parser\n\n"], ids=["subject", "body"])
def test_every_lie_is_found(lead: str) -> None:
    assert [lie for lie in LIES if lie[2] not in rules(lie[0], lead + lie[1])] == []


@pytest.mark.parametrize("lead", ["", "Change the parser\n\n"], ids=["subject", "body"])
def test_no_truth_is_accused(lead: str) -> None:
    assert {truth: accused for truth in TRUTHS if (accused := rules(truth[0], lead + truth[1]))} == {}


@pytest.mark.parametrize(("state", "message", "rule"), WARNED)
def test_what_is_told_but_not_held_against(state: str, message: str, rule: str) -> None:
    assert rules(state, message) == [] and rules(state, message, "warning") == [rule]


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("1 test failed, 1 passed", {"failed": 1, "passed": 1}),
        ("1 test failed and 3 passed", {"failed": 1, "passed": 3}),
        ("3 passed, 1 test failed", {"failed": 1, "passed": 3}),
        ("Two tests pass; one fails", {"failed": 1, "passed": 2}),
        ("2 tests passed, 1 was skipped and 3 failed", {"failed": 3, "passed": 2, "skipped": 1}),
    ],
)
def test_counts_in_one_sentence_are_one_claim(message: str, numbers: Mapping[str, int]) -> None:
    assert [claim.numbers for claim in claims_in(message, answers.load())] == [numbers]


def test_there_are_a_hundred() -> None:
    assert len(LIES) >= 50 and len(TRUTHS) >= 50


def test_a_ruling_names_its_rows() -> None:
    (one,) = rulings("All tests pass", facts(STATES["red"]))
    assert one.rows and "r1" in one.rows[0] and "3 failed" in one.message


def test_a_green_suite_in_which_nothing_passed_is_told_so() -> None:
    """A service that is missing skips every test: the run ended well and shows nothing."""
    (one,) = rulings("All tests pass", facts(STATES["skipped"]))
    assert one.message == "the ledger has 3 skipped of 3 (finished, scope full); no test passed"
