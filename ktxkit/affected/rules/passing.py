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


def is_folder(picked: str) -> bool:
    """Whether all that pytest collects in a directory is meant: no list of files is the whole of it."""
    return "::" not in picked and not picked.endswith(".py")


def covers(picked: str, test: str) -> bool:
    """Whether a recorded test is (a case of) what was picked: a test, a class, a file, or a directory."""
    if is_folder(picked):
        return picked == "." or test.startswith(f"{picked}/")
    return test == picked or test.startswith((f"{picked}::", f"{picked}["))


def still_open(picked: Iterable[str], recorded: Mapping[str, str], *, was_full: bool = False) -> list[Open]:
    """What is meant and has no passing result. `recorded`: test to its newest verdict on the very tree; `was_full`:
    everything that there is was run on it once."""
    by_file: dict[str, list[str]] = {}
    for test in recorded:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    found = []
    for one in picked:
        near = recorded if is_folder(one) else by_file.get(one.partition("::")[0], ())
        ran = [test for test in near if covers(one, test)]
        bad = tuple(sorted(test for test in ran if recorded[test] not in GOOD))
        if not ran or (is_folder(one) and not was_full):
            found.append(Open(NOT_RUN, one, ()))
        if ran and bad:
            found.append(Open(NOT_PASSED, one, bad))
    return found
