"""A selection as text: the ids on stdout; counts, what could not be bounded and how many are meant beside it."""

from __future__ import annotations

from collections.abc import Collection

from ktxkit.affected.rules import collected
from ktxkit.affected.rules.graph import Graph
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest, plural, printable

REASONS_SHOWN = 5
UNIT_WORDS = {"": "(loading it)", "<main>": "(run as a program)"}


def only(document: Document, test: str) -> Document:
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
    if path not in graph.versions or collected.beyond(graph):
        return
    if not graph.is_test_file(path):
        raise CannotRun(f"no file of tests: {printable(path)}", hint="pytest's python_files and testpaths tell")
    tests = collected.tests_of(path, graph.versions[path][-1], graph.project)
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


def chains(document: Document) -> list[str]:
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


def notes(document: Document) -> list[str]:
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
