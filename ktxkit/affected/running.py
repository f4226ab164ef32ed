"""A selection as text: the ids on stdout; counts, what could not be bounded and how many are meant beside it.

`test-run --scope affected`: the arguments for pytest that run what is meant, and nothing that is not.

`test-select --audit`: the newest runtime map held against the static one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.affected import proof as proofs
from ktxkit.affected import select, trees
from ktxkit.affected.rules import reach
from ktxkit.affected.rules.graph import Graph
from ktxkit.affected.rules.runtime_audit import Hidden, Hole, audit
from ktxkit.affected.runtime import HINT, latest
from ktxkit.affected.test_run import RunArguments
from ktxkit.base import files
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest, plural, printable
from ktxkit.gates.facts import no_collection
from ktxkit.git.objects import Objects
from ktxkit.ledger import asking
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        AffectedAudit,
        AffectedAuditHidden,
        AffectedAuditHole,
        AffectedSelection,
        RunnerSelection,
    )

REASONS_SHOWN = 5
UNIT_WORDS = {"": "(loading it)", "<main>": "(run as a program)"}


def only(document: AffectedSelection, test: str) -> AffectedSelection:
    """The same answer for one test: what names it, its class or its file."""
    return {**document, "tests": [one for one in document["tests"] if covers(one["id"], test)]}


def require_there(test: str, files: Collection[str], graph: Graph) -> None:
    """Raises CannotRun for a test that the tree does not have: it is not "not selected"."""
    path = test.partition("::")[0]
    if path in files:
        _require_test(test, path, graph)
        return
    near = nearest(path, [name for name in files if name.endswith(".py")])
    hint = f"did you mean {near[0]}?" if near else "a test's id begins with its file's path from the top"
    raise CannotRun(f"no such file in the tree: {printable(path)}", hint=hint)


def _require_test(test: str, path: str, graph: Graph) -> None:
    """A test of a file whose tests can be told one by one."""
    if path not in graph.versions or reach.beyond(graph):
        return
    if not graph.is_test_file(path):
        raise CannotRun(f"no file of tests: {printable(path)}", hint="pytest's python_files and testpaths tell")
    tests = reach.tests_of(path, graph.versions[path][-1], graph.project)
    plain = test.partition("[")[0]
    there = any(one == plain or one.startswith(f"{plain}::") for one in tests.ids.values())
    owner = graph.versions[path][-1]["classes"].get(plain.split("::")[1] if "::" in plain else "", {})
    if there or "::" not in test or tests.coarse or owner.get("bases"):
        return
    near = nearest(test, list(tests.ids.values()))
    hint = f"did you mean {near[0]}?" if near else "pytest --collect-only lists those that there are"
    raise CannotRun(f"no such test in {printable(path)}: {printable(test.partition('::')[2])}", hint=hint)


def is_all_below(picked: str, test: str) -> bool:
    """Whether a directory is meant that a test is in."""
    return picked == "." or ("::" not in picked and test.startswith(f"{picked}/"))


def covers(picked: str, test: str) -> bool:
    """Whether running what was picked runs that test."""
    plain = test.partition("[")[0]
    return (
        is_all_below(picked, plain)
        or picked == plain
        or plain.startswith(f"{picked}::")
        or picked.startswith(f"{plain}::")
    )


def chains(document: AffectedSelection) -> list[str]:
    """Each id with the steps from the change to it, indented."""
    made: list[str] = []
    for one in document["tests"]:
        made.append(f"{printable(one['id'])} {one['verdict']}")
        if one.get("why"):
            made.append(f"  {printable(one['why'])}")
        for step in one["chain"]:
            made.append(f"  {printable(step['path'])} {_unit(step['unit'])}: {printable(step['how'])}")
    return made or ["not selected: no chain of uses leads from the change to it"]


def _unit(name: str) -> str:
    if name.endswith("!"):
        return f"{name[:-1]} (making a subclass)"
    return UNIT_WORDS.get(name, name.rstrip("%^"))


def notes_of(document: AffectedSelection) -> list[str]:
    """Counts, and what is not bounded."""
    counts = document["counts"]
    change = f"{plural(counts['paths'], 'path')} changed, {plural(counts['changes'], 'unit')} in them"
    made = [f"test-select: {counts['selected']} of {plural(counts['total'], 'test')} selected; {change}"]
    if document["verdict"] == "unknown":
        why = [f"{printable(one['path'])}: {one['why']}" for one in document["unbounded"][:REASONS_SHOWN]]
        if not counts["total"]:
            why.append("no test was found in the tree (pytest's testpaths, python_files?)")
        elif not why:
            why = [f"{counts['unknown']} cannot be ruled out (--why TEST says what they do)"]
        made += [f"test-select: unknown: {one}" for one in why]
        more = len(document["unbounded"]) - REASONS_SHOWN
        made += [f"test-select: unknown: and {plural(more, 'other path')}"] if more > 0 else []
    return [*made, *(f"test-select: {note}" for note in document["notes"])]


ARGUMENT_BYTES = 100_000  # of ids; more are given as their files, which runs more than is meant


def arguments(world: World, base: str) -> RunArguments:
    """What pytest is to run for the change from `base` to the checkout. Raises CannotRun where the base is none."""
    made = select.select(world, select.SelectionRequest(base=base))
    document = made.document
    counts = document["counts"]
    said, proof = proofs.of_change(world, document["base"])
    facts: RunnerSelection = {
        "base": document["base"],
        "verdict": document["verdict"],
        "selected": counts["selected"],
        "total": counts["total"],
        **proof,
    }
    notes = [*notes_of(document), said]
    if made.decision.unbounded or not made.decision.total:
        return RunArguments((), False, facts, notes)
    ids = [one.id for one in made.decision.tests]
    if sum(map(len, ids)) > ARGUMENT_BYTES:
        ids = list(dict.fromkeys(one.partition("::")[0] for one in ids))
        notes.append(f"test-run: too many to name: the {len(ids)} files they are in are run whole")
    if sum(map(len, ids)) > ARGUMENT_BYTES:
        return RunArguments((), False, facts, [*notes, "test-run: too many to name: everything is run"])
    return RunArguments(tuple(from_here(world, one) for one in ids), not ids, facts, notes)


def from_here(world: World, name: str) -> str:
    """A node id as pytest takes it where we stand; from the top in a bare repository."""
    if world.repository.top is None:
        return name
    path, sep, rest = name.partition("::")
    top = Path(os.path.realpath(world.repository.top))
    return os.path.relpath(top / path, os.path.realpath(world.cwd)) + sep + rest


def from_top(world: World, name: str, known: Collection[str]) -> str:
    """A node id from the top, of one that is written from where we stand; one of a known file is taken as it is."""
    path, sep, rest = name.partition("::")
    if path in known or world.repository.top is None:
        return name
    place = os.path.realpath(world.cwd / path)
    there = os.path.relpath(place, os.path.realpath(world.repository.top))
    return (there if there in known else path) + sep + rest


SHOWN, TESTS_SHOWN = 10_000, 10


def differential(world: World) -> AffectedAudit:
    """What the newest traced run called and the map of the checkout lacks. Raises CannotRun where none was traced."""
    trace = latest(world, asking.resolve(world))
    if trace is None:
        raise CannotRun("no run was traced", hint=HINT)
    with Objects(world.git.at(world.repository.directory)) as objects, no_collection():
        now = trees.worktree(world)
        graph = select.between(world, objects, now, now).graph
    top = world.repository.top
    assert top is not None, "a worktree was read"

    @cache
    def fresh(path: str) -> bool:
        return path in graph.versions and trace.blob(path) == now.entries[path][1]

    @cache
    def lines(path: str) -> list[str]:
        return files.read(top / path).decode("utf-8", "replace").splitlines()

    def line(path: str, number: int) -> str:
        return lines(path)[number - 1] if 0 < number <= len(lines(path)) else ""

    ran = ((path, name, trace.tests(numbers)) for path, name, numbers in trace.ran())
    made = audit(graph, trace.calls(), ran, fresh, line)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "affected-audit",
        "run": trace.header["run"],
        "tree": trace.header["tree"],
        "calls": made.calls,
        "stale": made.stale,
        "missing": len(made.hidden),
        "mechanisms": dict(sorted(Counter(one.mechanism for one in made.hidden).items())),
        "hidden": [_hidden(one) for one in made.hidden[:SHOWN]],
        "holes": [_hole(one) for one in made.holes[:SHOWN]],
        "tests": trace.header["tests"],
        "incomplete": len(trace.incomplete),
    }


def _hole(one: Hole) -> AffectedAuditHole:
    path, unit = one.unit
    return {"path": path, "unit": unit, "count": len(one.tests), "tests": one.tests[:TESTS_SHOWN]}


def _hidden(one: Hidden) -> AffectedAuditHidden:
    made: AffectedAuditHidden = {
        "mechanism": one.mechanism,
        "path": one.caller[0],
        "calledPath": one.callee[0],
        "caller": one.caller[1],
        "callee": one.callee[1],
        "how": one.operation,
        "line": one.line,
    }
    made |= {"via": one.via} if one.via else {}
    return made


def lines(document: AffectedAudit) -> list[str]:
    """The audit as text: by mechanism."""
    made: list[str] = []
    for name, count in document["mechanisms"].items():
        made.append(f"{name}: {count}")
        for one in document["hidden"]:
            if one["mechanism"] == name:
                where = f"{one['path']}:{one['line']} {one['caller'] or '(loading it)'}"
                made.append(f"  {where} -> {one['calledPath']} {one['callee'] or '(loading it)'}")
    for hole in document["holes"]:
        where = f"{hole['path']} {hole['unit'] or '(loading it)'}"
        made.append(f"hole: {where}: {plural(hole['count'], 'test')} ran it, left out:")
        made += [f"  {test}" for test in hole["tests"]]
    return made


def notes(document: AffectedAudit) -> list[str]:
    """Counts."""
    holes = plural(len(document["holes"]), "hole")
    counts = f"{document['calls']} calls of run {document['run']}, {document['missing']} not in the map, {holes}"
    stale = f", {document['stale']} of files that are otherwise by now" if document["stale"] else ""
    missed = f"; {document['incomplete']} of {document['tests']} tests were not seen completely"
    return [f"test-select: {counts}{stale}{missed if document['incomplete'] else ''}"]
