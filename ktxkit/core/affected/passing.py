"""Whether what a change reaches has passed: each test that is meant, held against what is recorded of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

GOOD = ("passed", "xpassed", "xfailed", "skipped")
NOT_RUN, NOT_PASSED = "affected-not-run", "affected-not-passed"


class Open(NamedTuple):
    """A test that is meant and has not passed. `rule`: it never ran, or it ran and did not pass; `tests`: which."""

    rule: str
    picked: str
    tests: tuple[str, ...]


def covers(picked: str, test: str) -> bool:
    """Whether a recorded test is (a case of) what was picked: a test, a class, or a file."""
    return test == picked or test.startswith((f"{picked}::", f"{picked}["))


def still_open(picked: Iterable[str], recorded: Mapping[str, str]) -> list[Open]:
    """What is meant and has no passing result. `recorded`: test to its newest verdict on the very tree."""
    by_file: dict[str, list[str]] = {}
    for test in recorded:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    found = []
    for one in picked:
        ran = [test for test in by_file.get(one.partition("::")[0], ()) if covers(one, test)]
        bad = tuple(sorted(test for test in ran if recorded[test] not in GOOD))
        if not ran:
            found.append(Open(NOT_RUN, one, ()))
        elif bad:
            found.append(Open(NOT_PASSED, one, bad))
    return found
