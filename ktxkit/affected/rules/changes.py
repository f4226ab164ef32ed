"""What kind of change lies between two readings of a file, and where following it begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.modules import parts_of
from ktxkit.affected.rules.sink import MAKE, MODULE, Facts
from ktxkit.affected.rules.spread import Spread

ADDED, REMOVED, CHANGED, OTHER_KIND = "added", "removed", "changed", "of another kind"
WORDS = {"": "what runs at import", "<main>": "what runs as a program"}


class Change(NamedTuple):
    """One unit that differs. `kind`: function, class, constant, alias, module, main."""

    path: str
    unit: str
    kind: str
    how: str


def between(path: str, old: Facts | None, new: Facts | None) -> list[Change]:
    """Every unit that is not the same in both. A file that came or went changes with all of its units."""
    before = {unit[0]: unit for unit in (old or {"units": ()})["units"]}
    after = {unit[0]: unit for unit in (new or {"units": ()})["units"]}
    found = []
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        kind = (two or one or ["", "module"])[1]
        if one is None or two is None:
            found.append(Change(path, name, kind, ADDED if one is None else REMOVED))
        elif one[1] != two[1]:
            found.append(Change(path, name, kind, OTHER_KIND))
        elif one[2] != two[2]:
            found.append(Change(path, name, kind, CHANGED))
    moved = {Change(path, owner, after[owner][1], CHANGED) for owner in _moved(before, after) if owner in after}
    return sorted({*found, *moved})


def _moved(before: Iterable[str], after: Iterable[str]) -> set[str]:
    """The module (""), and classes, whose definitions stand in another order: of those that both have.

    What runs over them notices (an enumeration, a registry), although each is what it was.
    """
    orders = [_by_owner(names) for names in (before, after)]
    found = set()
    for owner in orders[0].keys() & orders[1].keys():
        one, two = (order[owner] for order in orders)
        both = set(one) & set(two)
        if [name for name in one if name in both] != [name for name in two if name in both]:
            found.add(owner)
    return found


def _by_owner(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition(".")[0], []).append(name)
    return found


def seed(spread: Spread, change: Change) -> None:
    """Where following a change begins."""
    node = (change.path, change.unit)
    how = f"{WORDS.get(change.unit, change.kind)} {change.how}"
    spread.seed(node, how)
    owner, _, member = change.unit.rpartition(".")
    if change.how in (REMOVED, OTHER_KIND) or change.unit == "__getattr__":
        top = change.unit.partition(".")[0]
        for user in broken(spread.graph, (change.path, top)):
            spread.seed(user, f"evaluates {change.unit} at import, which is {change.how}")
    if change.unit == "__all__" or change.how in (REMOVED, OTHER_KIND):
        for user in _star_importers(spread.graph, change.path):
            spread.seed(user, f"imports all names of it, of which {change.unit} is {change.how}")
    if change.kind == "class":
        spread.seed((change.path, change.unit + MAKE), how)
    elif owner and (change.how != CHANGED or change.kind == "constant") and change.kind != "make":
        spread.seed((change.path, owner + MAKE), f"member {member} {change.how}")


def hidden(graph: Graph, path: str) -> list[str]:
    """The modules of namespace packages that a module of this name stands before, wherever their parts lie."""
    wanted = parts_of(path)
    folders = tuple(f"{one}/" for one in graph.modules.namespaces(wanted[-1])) if wanted else ()
    return [one for one in graph.versions if one != path and one.startswith(folders)] if folders else []


def broken(graph: Graph, unit: Unit) -> Iterable[Unit]:
    """The modules that fail to load where a name is gone."""
    name = unit[1]
    for user, facts in graph.users.get(name, ()):
        for used, hint in facts["eager"]:
            if used == name and graph.accepts(user, facts, hint, unit):
                yield (user, MODULE)


def _star_importers(graph: Graph, path: str) -> Iterable[Unit]:
    for user, facts in graph.each():
        if any(path in graph.modules.resolve(user, star) for star in facts["stars"]):
            yield (user, MODULE)
