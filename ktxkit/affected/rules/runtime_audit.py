"""The two maps, joined: what a run saw gives more beginnings to follow; it never takes one away.

Of a file that differs between the traced tree and the base nothing is used: what ran there was other code.

The differential: every call that was seen must be in the static map. The reverse is no finding.

A call is in the map where following a change of the callee's body comes to the caller. What does not is told with the
mechanism that hid it, so that a whole kind can be mended at once. A callback need not be in it: whoever hands it on is.
So beside that each test that ran a definition must be selected for a change of it; where one is not, that is a hole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ktxkit.affected.rules import decision
from ktxkit.affected.rules.decision import CHANGED, ImpactQuestion, Touched, UnitChange, decide
from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.reach import Reach
from ktxkit.affected.rules.runtime_trace import THROUGH_ANONYMOUS, Trace
from ktxkit.affected.rules.scopes import MAIN, MODULE
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    from ktxkit.affected.rules.runtime_trace import CallRecord
    from ktxkit.base.documents import AffectedSelectionChangeKind

TracedUnit = tuple[str, str]  # path, name; an empty name is what runs when the module is loaded
WHOLE_MODULE = ""
RAN_AT_IMPORT = "<module>"


class Differs(NamedTuple):
    """A path that differs. `units`: the names of what differs in it, where it is Python."""

    path: str
    status: str
    units: tuple[str, ...] = ()


def seeds(
    trace: Trace, ids: Mapping[str, str], differing: Iterable[Differs], environment: Collection[str] = ()
) -> Iterator[tuple[TracedUnit, str]]:
    """Units that a run saw depend on what differs, each with how. `ids`: the git id of each file of the base."""
    run = f"in the traced run {trace.header['run']}"
    for one in differing:
        traced = trace.blob(one.path)
        if one.path in ids and traced is not None and traced != ids[one.path]:
            continue  # stale: it was another file then
        for name in one.units if traced is not None else ():
            ran = RAN_AT_IMPORT if name == WHOLE_MODULE else name
            yield from _tests(trace.tests_of(one.path, ran), f"ran {one.path} {name or '(loading it)'} {run}")
            for module in trace.modules_running(one.path, ran):
                yield (module, WHOLE_MODULE), f"ran {one.path} {name} while it was imported {run}"
        yield from _files(trace, one, run)
    if environment:
        yield from _variables(trace, environment, run)


def running(trace: Trace, ids: Mapping[str, str]) -> Callable[[TracedUnit], list[tuple[TracedUnit, str]]]:
    """The tests that the run saw in a unit, of a file that is as it was then. `ids`: the git id of each file."""
    run = f"in the traced run {trace.header['run']}"

    @cache
    def definitions(path: str) -> dict[str, list[int]]:
        return trace.definitions(path) if path in ids and trace.blob(path) == ids[path] else {}

    def found(unit: TracedUnit) -> list[tuple[TracedUnit, str]]:
        path, name = unit
        numbers = definitions(path).get(name, ())
        return list(_tests(trace.tests(numbers), f"ran {path} {name} {run}")) if name and numbers else []

    return found


def _files(trace: Trace, one: Differs, run: str) -> Iterator[tuple[TracedUnit, str]]:
    """Whoever opened a file; where it came or went, whoever listed its directory too."""
    places = [one.path] if one.status == "changed" else [one.path, one.path.rpartition("/")[0] or "."]
    for place in places:
        said = f"{'opened' if place == one.path else 'listed'} {place} {run}"
        yield from _tests(trace.tests_opening(place) | trace.tests_listing(place), said)
        yield from (((path, unit_of(name)), said) for path, name in trace.readers(place))
        yield from (
            ((module, WHOLE_MODULE), f"{said}, while it was imported") for module in trace.modules_reading(place)
        )


def _variables(trace: Trace, environment: Collection[str], run: str) -> Iterator[tuple[TracedUnit, str]]:
    read = trace.variables()
    for name in environment:
        for path, unit in read.get(name, set()) | read.get("*", set()):
            yield (path, unit_of(unit)), f"read {name} {run}"


def _tests(ids: Iterable[str], said: str) -> Iterator[tuple[TracedUnit, str]]:
    for one in sorted(ids):
        path, _, rest = one.partition("::")
        yield (path, rest.partition("[")[0].replace("::", ".")), said


def unit_of(name: str) -> str:
    """The unit that a definition is: what is inside a function is the function's."""
    plain = name.partition(".<locals>")[0]
    return WHOLE_MODULE if plain == RAN_AT_IMPORT else plain


Line = Callable[[str, int], str]
PROTOCOLS = ("BINARY", "COMPARE", "CONTAINS", "UNARY", "GET_ITER", "FOR_ITER", "STORE_SUBSCR", "DELETE_SUBSCR", "SEND")
RETURNED_BY_CALL = ("__init__", "__new__", "__call__", "__post_init__", "__init_subclass__", "__set_name__")
LOOKED_UP = ("__getattr__", "__getattribute__")


class Hidden(NamedTuple):
    """A call that the map lacks. `mechanism` is what hid it."""

    mechanism: str
    caller: Unit
    callee: Unit
    line: int
    operation: str
    via: str


class Hole(NamedTuple):
    """Tests that ran a definition and would not be selected for a change of it."""

    unit: Unit
    tests: list[str]


class Audit(NamedTuple):
    """`calls`: that were held against the map; `stale`: of files that are otherwise by now, or not tracked."""

    calls: int
    stale: int
    hidden: list[Hidden]
    holes: list[Hole]


def audit(
    graph: Graph,
    calls: Iterable[CallRecord],
    ran: Iterable[tuple[str, str, set[str]]],
    fresh: Callable[[str], bool],
    line: Line,
) -> Audit:
    """Hold what ran against the map.

    `ran`: definitions (path, name) with the tests that ran them; `fresh`: whether a file is as it was traced; `line`:
    the source of one line.
    """
    by_callee: dict[Unit, dict[Unit, CallRecord]] = defaultdict(dict)
    checked = stale = 0
    for call in calls:
        (above, caller), (path, called) = call["caller"], call["callee"]
        if not fresh(above) or not fresh(path):
            stale += 1
            continue
        checked += 1
        one, other = known_unit(graph, above, caller), known_unit(graph, path, called)
        if one != other and not (above == path and _is_class(graph, path, called)):
            by_callee[other].setdefault(one, call)
    tests: dict[Unit, set[str]] = defaultdict(set)
    for path, name, found in ran:
        if fresh(path) and not _is_class(graph, path, name):
            tests[known_unit(graph, path, name)] |= found
    hidden: list[Hidden] = []
    holes: list[Hole] = []
    for callee in by_callee.keys() | tests.keys():
        callers = by_callee.get(callee, {})
        names = {unit_of_test(test): test for test in tests.get(callee, ())}
        for unit in (left := unreached(graph, callee, callers.keys() | names.keys())) & callers.keys():
            one_call = callers[unit]
            how = one_call["line"], one_call["how"], one_call["via"]
            hidden.append(Hidden(mechanism(one_call, line), unit, callee, *how))
        if missing := sorted(_left_out(graph, callee, left & names.keys())):
            holes.append(Hole(callee, [names[unit] for unit in missing]))
    return Audit(checked, stale, sorted(hidden), sorted(holes))


def unit_of_test(nodeid: str) -> Unit:
    """The unit that a test is, its parameters left out."""
    path, _, rest = nodeid.partition("::")
    return (path, rest.partition("[")[0].replace("::", "."))


def _left_out(graph: Graph, callee: Unit, tests: set[Unit]) -> set[Unit]:
    """Which of the tests the whole selection leaves out where that one definition changes."""
    if not tests:
        return tests
    path, name = callee
    question = ImpactQuestion(graph, [Touched(path)], [UnitChange(path, name, _kind(graph, callee), CHANGED)])
    picked = {one.id for one in decide(question).tests}

    def is_picked(unit: Unit) -> bool:
        ids = [unit[0], *(f"{unit[0]}::{part}" for part in _beginnings(unit[1]))]
        return any(one in picked for one in ids)

    return {unit for unit in tests if not is_picked(unit)}


def _beginnings(name: str) -> list[str]:
    parts = name.split(".")
    return ["::".join(parts[: number + 1]) for number in range(len(parts))]


def _is_class(graph: Graph, path: str, name: str) -> bool:
    """Whether what ran is the body of a class: a statement of its module, which no caller calls."""
    return any(name in facts["classes"] for facts in graph.versions.get(path, ()))


def known_unit(graph: Graph, path: str, name: str) -> Unit:
    """The unit of the map that a definition is in: its own, or one around it."""
    names = {unit[0] for facts in graph.versions.get(path, ()) for unit in facts["units"]}
    unit = unit_of(name)
    while unit and unit not in names:
        unit = unit.rpartition(".")[0]
    return (path, unit)


def unreached(graph: Graph, callee: Unit, callers: Collection[Unit]) -> set[Unit]:
    """The callers, and tests, that a change of the callee does not come to."""
    spread = Reach(graph)
    path, name = callee
    decision.seed(spread, UnitChange(path, name, _kind(graph, callee), CHANGED))
    left = {caller for caller in callers if not _is_reached(spread, caller)}
    while left and spread.step():
        left = {caller for caller in left if not _is_reached(spread, caller)} if spread.grew else left
    return left


def _kind(graph: Graph, unit: Unit) -> AffectedSelectionChangeKind:
    found: dict[str, AffectedSelectionChangeKind] = {
        one[0]: one[1] for facts in graph.versions.get(unit[0], ()) for one in facts["units"]
    }
    return found.get(unit[1], "module")


def _is_reached(reach: Reach, caller: Unit) -> bool:
    """The caller, its class, or the loading of its module (which stands for all that is in it)."""
    path, name = caller
    owners = [name]
    while "." in owners[-1]:
        owners.append(owners[-1].rpartition(".")[0])
    return any((path, one) in reach.why for one in (*owners, MODULE)) or (not name and (path, MAIN) in reach.why)


def mechanism(call: CallRecord, line: Line) -> str:
    """What hid a call: told from the instruction, what stood between, and the source of the caller's line."""
    path, name = call["caller"]
    how, last = call["how"].removeprefix("C:"), call["callee"][1].rpartition(".")[2]
    source = line(path, call["line"])
    if call["via"] == THROUGH_ANONYMOUS:
        return "callback"
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
    if last in RETURNED_BY_CALL:
        return "construction"
    if call["how"].startswith("C:"):
        return "callback through C"
    if ".<locals>." in name:
        return "decorator"
    return "registry" if "](" in source or ".get(" in source else "callback"
