"""A selection as text: the ids on stdout; counts, what could not be bounded and how many are meant beside it."""

from __future__ import annotations

from collections.abc import Collection

from ktxkit.contracts import Document
from ktxkit.core.text import nearest, plural, printable
from ktxkit.errors import CannotRun

REASONS_SHOWN = 5
UNIT_WORDS = {"": "(loading it)", "<main>": "(run as a program)"}


def only(document: Document, test: str) -> Document:
    """The same answer for one test: what names it, its class or its file."""
    return {**document, "tests": [one for one in document["tests"] if covers(one["id"], test)]}


def require_there(test: str, files: Collection[str]) -> None:
    """Raises CannotRun for a test of a file that the tree does not have: it is not "not selected"."""
    path = test.partition("::")[0]
    if path in files:
        return
    near = nearest(path, [name for name in files if name.endswith(".py")])
    hint = f"did you mean {near[0]}?" if near else "a test's id begins with its file's path from the top"
    raise CannotRun(f"no such file in the tree: {printable(path)}", hint=hint)


def covers(picked: str, test: str) -> bool:
    """Whether running what was picked runs that test."""
    plain = test.partition("[")[0]
    return picked == plain or plain.startswith(f"{picked}::") or picked.startswith(f"{plain}::")


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
