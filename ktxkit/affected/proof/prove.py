"""The mutation proof: definitions of the change are made wrong, one at a time; what notices must have been selected.

Each mutant meets the selected tests; one that they let live meets the whole suite. A mutant that only the suite kills
is a miss: a test that was needed and not selected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ktxkit.affected.proof.copy import Copy, Outcome
from ktxkit.affected.rules.mutants import Mutant, mutants, sample
from ktxkit.affected.rules.values import valid, values
from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun

LIMIT_LEAST, LIMIT_TIMES = 30.0, 4.0  # seconds; times the suite without a mutant
MISSES_SHOWN = 200
PROVEN, MISSED, NOTHING = "proven", "missed", "nothing"
Tests = Callable[[Mutant], Sequence[str]]
Told = Callable[[str], None]


class Met(NamedTuple):
    """What became of one mutant. `suite` is None where the selected tests had killed it."""

    mutant: Mutant
    selected: Outcome
    suite: Outcome | None

    @property
    def missed(self) -> bool:
        return self.suite is not None and self.suite.noticed


@dataclass
class Account:
    """A proof as it goes."""

    candidates: int
    baseline: Outcome
    met: list[Met] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if any(one.missed for one in self.met):
            return MISSED
        return PROVEN if any(one.selected.noticed for one in self.met) else NOTHING

    def document(self) -> Document:
        """The numbers, and every miss with its mutant and the first test that noticed."""
        killed = [one.selected for one in self.met if one.selected.noticed]
        whole = [one for one in killed if not one.late and one.failed]
        suites = [one.suite for one in self.met if one.suite is not None]
        missed = [one for one in self.met if one.missed]
        made: Document = {
            "verdict": self.verdict,
            "candidates": self.candidates,
            "mutants": len(self.met),
            "killed": len(killed),
            "late": sum(1 for one in killed if one.late),
            "survived": sum(1 for one in suites if not one.noticed),
            "missed": len(missed),
            "misses": [_miss(one) for one in missed[:MISSES_SHOWN]],
            "tests": self.baseline.ran,
            "selected": sum(one.selected.ran for one in self.met),
            "selectedOfKilled": sum(one.ran for one in whole),
            "needed": sum(one.failed for one in whole),
            "seconds": {
                "suite": round(self.baseline.seconds, 3),
                "selected": round(sum(one.selected.seconds for one in self.met), 3),
            },
        }
        return made | ({"unloaded": self.unloaded[:MISSES_SHOWN]} if self.unloaded else {})


def _miss(one: Met) -> Document:
    assert one.suite is not None
    made = {"path": one.mutant.path, "unit": one.mutant.unit, "kind": one.mutant.kind, "line": one.mutant.line}
    return made | {"text": one.mutant.text[:200], "test": one.suite.first[:4000] or "the suite as a whole"}


def prove(copy: Copy, candidates: Sequence[Mutant], count: int, seed: int, tests: Tests, told: Told) -> Account:
    """Meet `count` of the candidates. Raises CannotRun where the suite does not pass as it is, or loads no copy."""
    contents = {path: copy.read(path) for path in {one.path for one in candidates}}
    picked = sample(candidates, contents, count, seed, valid)
    baseline, unloaded = _baseline(copy, {path: contents[path] for path in {one.path for one in picked}})
    account = Account(len(candidates), baseline, unloaded=unloaded)
    limit = max(LIMIT_LEAST, baseline.seconds * LIMIT_TIMES)
    for number, mutant in enumerate(picked, start=1):
        copy.write(mutant.path, mutant.apply(contents[mutant.path]))
        try:
            selected = copy.run(tests(mutant), limit)
            suite = None if selected.noticed else copy.run(None, limit, first=True)
        finally:
            copy.write(mutant.path, contents[mutant.path])
        account.met.append(Met(mutant, selected, suite))
        word = "missed" if account.met[-1].missed else "survived" if suite is not None else "killed"
        told(f"{number} of {len(picked)}: {mutant.where} {mutant.kind}: {word}")
    return account


def _baseline(copy: Copy, contents: dict[str, bytes]) -> tuple[Outcome, list[str]]:
    """The suite without a mutant; each module to be mutated leaves a mark where it is loaded."""
    marks = copy.top.parent / "marks"
    files.make_dirs(marks)
    paths = sorted(path for path in contents if path.endswith(".py"))
    for number, path in enumerate(paths):
        mark = os.fsencode(repr(str(marks / str(number))))
        copy.write(path, contents[path].rstrip(b"\n") + b"\n__import__('builtins').open(" + mark + b", 'a').close()\n")
    try:
        outcome = copy.run(None)
    finally:
        for path in paths:
            copy.write(path, contents[path])
    if outcome.noticed:
        raise CannotRun(
            f"the suite does not pass without a mutant: {outcome.failed} failed, first {outcome.first or outcome.said}",
            hint="mend what fails; what is deselected behind `--` instead is not covered by the proof",
        )
    unloaded = [path for number, path in enumerate(paths) if not (marks / str(number)).exists()]
    if paths and len(unloaded) == len(paths):
        raise CannotRun(
            "the suite loads none of the files that would be mutated from the copy",
            where=", ".join(unloaded[:5]),
            hint="is an installed copy imported? install the project in editable form",
        )
    return outcome, unloaded


def candidates(copy: Copy, changed: Sequence[tuple[str, str]], data: Sequence[str] = ()) -> list[Mutant]:
    """The mutants in changed units (path, name; empty: what runs at import), in those around and inside them; and
    one for each value of the data files."""
    by_path: dict[str, set[str]] = {}
    for path, unit in changed:
        by_path.setdefault(path, set()).add(unit)
    found = [one for path, units in by_path.items() for one in mutants(path, copy.read(path)) if _in(one, units)]
    return sorted([*found, *(one for path in data for one in values(path, copy.read(path)))])


def _in(mutant: Mutant, units: set[str]) -> bool:
    return any(
        mutant.unit == unit or (unit and (mutant.unit.startswith(f"{unit}.") or unit.startswith(f"{mutant.unit}.")))
        for unit in units
    )
