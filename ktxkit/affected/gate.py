"""Whether what a change reaches has passed: each test that is meant, held against what is recorded of a tree.

Gate `affected`: what the change can reach has passed, in a run on this very tree that the ledger has.

It runs nothing. Without a base (everything is asked for) every test is meant. A run on another tree says nothing about
this one; where none is recorded that is the finding: whether the tests pass is unknown.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ktxkit.affected import proof as kept
from ktxkit.affected import select
from ktxkit.affected.trees import TreeSnapshot
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.gates.facts import no_collection
from ktxkit.gates.plugin import Answer, Finding, Subject
from ktxkit.git.objects import Objects
from ktxkit.git.rules.patch import tree_id
from ktxkit.ledger import asking
from ktxkit.ledger.asking import ensure
from ktxkit.ledger.index_file import OUTCOMES
from ktxkit.ledger.rules.evidence import blind_outcomes
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import AffectedProofMiss, RunRecord

GOOD = ("passed", "xpassed", "xfailed", "skipped")
NOT_RUN, NOT_PASSED = "affected-not-run", "affected-not-passed"


class UnpassedTest(NamedTuple):
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


def still_open(picked: Iterable[str], recorded: Mapping[str, str], *, was_full: bool = False) -> list[UnpassedTest]:
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
            found.append(UnpassedTest(NOT_RUN, one, ()))
        if ran and bad:
            found.append(UnpassedTest(NOT_PASSED, one, bad))
    return found


SHOWN = 5
RUNS = (
    "SELECT rid, record, ingested FROM runs"
    " WHERE tree = ? AND project = ? AND closed = 1 AND parent IS NULL AND rid >= ? ORDER BY rid"
)
RESULTS = "SELECT test, verdict FROM results JOIN tests USING (tid) WHERE rid = ? AND verdict IS NOT NULL"


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """A finding for each file with affected tests that did not pass, or of which no run on this tree is recorded."""
    if subject.is_base:
        return Answer()
    world = subject.world
    kind = world.repository.object_format
    target, base = _snapshot(subject.files, kind), _snapshot(subject.base_files or {}, kind)
    with Objects(world.git.at(world.repository.directory)) as objects, no_collection():
        made = select.between(world, objects, base, target)
    picked = [one.id for one in made.decision.tests]
    recorded, was_full = recorded_on(world, target.name)
    left = still_open(picked, recorded, was_full=was_full)
    found = list(_findings(left, bool(recorded), base.name if subject.base_files else ""))
    proof = kept.newest(world, base.name, target.name)
    if proof is not None and proof["missed"]:
        found += [_missed(one, proof["id"]) for one in proof["misses"][:SHOWN]]
    return Answer(found, len(picked), _looked_at(made, is_known=bool(subject.base_files)))


def _looked_at(made: select.Selection, *, is_known: bool) -> str:
    """What was asked for, in words: nothing affected is another thing than nothing known."""
    total = plural(made.decision.total, "test")
    if not made.decision.total:
        return "no test was found in this tree: whether it passes is unknown"
    if not is_known:
        return f"no base is known: all of the {total} are meant"
    change = plural(len(made.touched), "changed path")
    if not made.decision.selected:
        return f"none of {total} is affected by {change}"
    return f"{made.decision.selected} of {total} affected by {change}"


def _snapshot(files: Mapping[bytes, tuple[str, str]], kind: str) -> TreeSnapshot:
    return TreeSnapshot("tree", {os.fsdecode(path): entry for path, entry in files.items()}, tree_id(files, kind))


def recorded_on(world: World, tree: str) -> tuple[dict[str, str], bool]:
    """Each test's newest verdict in the runs on a tree that was the same at their end, and whether one was full."""
    found: dict[str, str] = {}
    was_full = False
    index = ensure(world)
    project = asking.resolve(world)
    since = asking.gap(index, asking.LedgerQuery(projects=(project,))).get("rid", 0)
    for run in index.rows(RUNS, tree, project, since):
        record: RunRecord = json.loads(run["record"])
        if record.get("treeAfter", {}).get("tree") == tree:
            was_full = was_full or (record["scope"]["kind"] == "full" and bool(run["ingested"]))
            found |= {row["test"]: OUTCOMES[row["verdict"]] for row in index.rows(RESULTS, run["rid"])}
            found |= {} if run["ingested"] else blind_outcomes(record)
    return found, was_full


def _findings(left: list[UnpassedTest], ran: bool, base: str) -> Iterator[Finding]:
    hint = f"test-run --scope affected --base {base[:12]}" if base else "test-run --scope full"
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in left:
        groups[one.rule, one.picked.partition("::")[0]] += one.tests or (one.picked,)
    for (rule, path), tests in groups.items():
        shown = ", ".join(printable(one) for one in tests[:SHOWN])
        more = f" and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
        have = "has" if len(tests) == 1 else "have"
        what = "did not pass on this tree" if rule != NOT_RUN else f"{have} no run on this tree"
        word = "" if rule != NOT_RUN or ran else "; no run on it is recorded at all: whether they pass is unknown"
        message = f"{plural(len(tests), 'affected test')} {what}: {shown}{more}{word}"
        if rule == NOT_RUN and is_folder(path):
            message = f"all below {printable(path)} is meant, and no full run on this tree is recorded"
            hint = "test-run --scope full"
        yield Finding(rule, os.fsencode(path), message, reference=path, hint=hint, gate="affected")


def _missed(miss: AffectedProofMiss, proof: str) -> Finding:
    message = (
        f"{printable(miss['test'])} notices a change of {miss['unit'] or 'it'} and is not selected (proof {proof})"
    )
    hint = "test-run --scope full: the selection is not to be relied on for this change"
    return Finding(
        "affected-missed",
        os.fsencode(miss["path"]),
        message,
        miss["line"],
        reference=miss["test"][:500],
        hint=hint,
        gate="affected",
    )
