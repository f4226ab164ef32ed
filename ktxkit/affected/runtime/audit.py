"""`test-select --audit`: the newest runtime map held against the static one."""

from __future__ import annotations

from collections import Counter
from functools import cache

from ktxkit.affected import select, trees
from ktxkit.affected.rules.runtime.audit import Hidden, Hole, audit
from ktxkit.affected.runtime.read import HINT, latest
from ktxkit.base import files
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import plural
from ktxkit.gates.gate_facts import no_collection
from ktxkit.git.objects import Objects
from ktxkit.ledger import projects
from ktxkit.store.world import World

SHOWN, TESTS_SHOWN = 10_000, 10


def differential(world: World) -> Document:
    """What the newest traced run called and the map of the checkout lacks. Raises CannotRun where none was traced."""
    trace = latest(world, projects.resolve(world))
    if trace is None:
        raise CannotRun("no run was traced", hint=HINT)
    with Objects(world.git.at(world.repository.place)) as objects, no_collection():
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


def _hole(one: Hole) -> Document:
    path, unit = one.unit
    return {"path": path, "unit": unit, "count": len(one.tests), "tests": one.tests[:TESTS_SHOWN]}


def _hidden(one: Hidden) -> Document:
    names = {"caller": one.caller[1], "callee": one.callee[1], "how": one.how, "line": one.line}
    made: Document = {"mechanism": one.mechanism, "path": one.caller[0], "calledPath": one.callee[0], **names}
    return made | ({"via": one.via} if one.via else {})


def lines(document: Document) -> list[str]:
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


def notes(document: Document) -> list[str]:
    """Counts."""
    holes = plural(len(document["holes"]), "hole")
    counts = f"{document['calls']} calls of run {document['run']}, {document['missing']} not in the map, {holes}"
    stale = f", {document['stale']} of files that are otherwise by now" if document["stale"] else ""
    missed = f"; {document['incomplete']} of {document['tests']} tests were not seen completely"
    return [f"test-select: {counts}{stale}{missed if document['incomplete'] else ''}"]
