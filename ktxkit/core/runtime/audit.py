"""The differential: every call that was seen must be in the static map. The reverse is no finding.

A call is in the map where following a change of the callee's body comes to the caller. What does not is told with the
mechanism that hid it, so that a whole kind can be mended at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ktxkit.core.affected import changes
from ktxkit.core.affected.changes import CHANGED, Change
from ktxkit.core.affected.graph import Graph, Unit
from ktxkit.core.affected.sink import MAIN, MODULE
from ktxkit.core.affected.spread import Spread
from ktxkit.core.runtime.join import unit_of

Call = Mapping[str, Any]
Line = Callable[[str, int], str]
PROTOCOLS = ("BINARY", "COMPARE", "CONTAINS", "UNARY", "GET_ITER", "FOR_ITER", "STORE_SUBSCR", "DELETE_SUBSCR", "SEND")
MADE_BY_CALL = ("__init__", "__new__", "__call__", "__post_init__", "__init_subclass__", "__set_name__")
LOOKED_UP = ("__getattr__", "__getattribute__")


class Hidden(NamedTuple):
    """A call that the map lacks. `mechanism` is what hid it."""

    mechanism: str
    caller: Unit
    callee: Unit
    line: int
    how: str
    via: str


class Audit(NamedTuple):
    """`calls`: that were held against the map; `stale`: of files that are otherwise by now, or not tracked."""

    calls: int
    stale: int
    hidden: list[Hidden]


def audit(graph: Graph, calls: Iterable[Call], fresh: Callable[[str], bool], line: Line) -> Audit:
    """Hold calls against the map. `fresh`: whether a file is as it was traced; `line`: the source of one line."""
    by_callee: dict[Unit, dict[Unit, Call]] = defaultdict(dict)
    checked = stale = 0
    for call in calls:
        (above, caller), (path, callee) = call["caller"], call["callee"]
        if not fresh(above) or not fresh(path):
            stale += 1
            continue
        checked += 1
        one, other = known_unit(graph, above, caller), known_unit(graph, path, callee)
        if one != other and not _is_statement(graph, call):
            by_callee[other].setdefault(one, call)
    hidden = [
        Hidden(mechanism(call, line), caller, callee, call["line"], call["how"], call["via"])
        for callee, callers in by_callee.items()
        for caller in unreached(graph, callee, set(callers))
        for call in (callers[caller],)
    ]
    return Audit(checked, stale, sorted(hidden))


def _is_statement(graph: Graph, call: Call) -> bool:
    """Whether what runs is the body of a class, where its statement stands."""
    (above, _), (path, name) = call["caller"], call["callee"]
    return above == path and any(name in facts["classes"] for facts in graph.versions.get(path, ()))


def known_unit(graph: Graph, path: str, name: str) -> Unit:
    """The unit of the map that a definition is in: its own, or one around it."""
    names = {unit[0] for facts in graph.versions.get(path, ()) for unit in facts["units"]}
    unit = unit_of(name)
    while unit and unit not in names:
        unit = unit.rpartition(".")[0]
    return (path, unit)


def unreached(graph: Graph, callee: Unit, callers: set[Unit]) -> set[Unit]:
    """The callers that a change of the callee does not come to."""
    spread = Spread(graph)
    path, name = callee
    kinds = {unit[0]: unit[1] for facts in graph.versions.get(path, ()) for unit in facts["units"]}
    changes.seed(spread, Change(path, name, kinds.get(name, "module"), CHANGED))
    left = {caller for caller in callers if not _is_reached(spread, caller)}
    while left and spread.step():
        left = {caller for caller in left if not _is_reached(spread, caller)} if spread.grew else left
    return left


def _is_reached(spread: Spread, caller: Unit) -> bool:
    """The caller, its class, or the loading of its module (which stands for all that is in it)."""
    path, name = caller
    owners = [name]
    while "." in owners[-1]:
        owners.append(owners[-1].rpartition(".")[0])
    return any((path, one) in spread.why for one in (*owners, MODULE)) or (not name and (path, MAIN) in spread.why)


def mechanism(call: Call, line: Line) -> str:
    """What hid a call: told from the instruction, what stood between, and the source of the caller's line."""
    path, name = call["caller"]
    how, last = call["how"].removeprefix("C:"), call["callee"][1].rpartition(".")[2]
    source = line(path, call["line"])
    if last == "<module>":
        return "import" if how == "IMPORT_NAME" else "dynamic import"
    if last in LOOKED_UP:
        return "attribute hook"
    if "getattr(" in source or "attrgetter" in source or "methodcaller" in source:
        return "getattr"
    if how.startswith(PROTOCOLS) or "WITH" in how:
        return "protocol"
    if how.startswith(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR")):
        return "descriptor"
    if call["via"]:
        return "callback through a library"
    if last in MADE_BY_CALL:
        return "construction"
    if call["how"].startswith("C:"):
        return "callback through C"
    if ".<locals>." in name:
        return "decorator"
    return "registry" if "](" in source or ".get(" in source else "callback"
