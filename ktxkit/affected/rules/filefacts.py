"""What the facts of one file say of it as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from ktxkit.affected.rules.sink import Facts

RUNNERS = {"pytest", "unittest", "doctest"}
PROGRAMS = (".sh", ".bash", ".zsh", ".mk", ".bat", ".cmd")


def starts_programs(path: str, facts: Facts) -> bool:
    """Whether a file starts programs, so that a directory or a pattern in it may be of what they run."""
    return "starts" in facts["marks"].get("does", ()) or (
        "text" in facts and ("." not in path.rpartition("/")[2] or path.endswith(PROGRAMS))
    )


def runs_tests(words: Iterable[str], facts: Facts) -> bool:
    """Whether a file hands files to pytest, unittest or doctest: what they are given is used whole."""
    return not RUNNERS.isdisjoint(words) or "pytest" in facts["uses"].get("main", ())


def defined(facts: Facts) -> set[str]:
    """The names that a module binds by its own statements."""
    known: set[str] | None = facts.get("defined")
    if known is None:
        known = {unit[0] for unit in facts["units"]} | set(facts["marks"].get("binds", ()))
        facts["defined"] = known
    return known
