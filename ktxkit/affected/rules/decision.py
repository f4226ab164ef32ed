"""What kind of change lies between two readings of a file, and where following it begins.

The decision: which tests a change can reach, each with the chain of reasons, and what could not be bounded.

`selected`: a chain of uses leads from the change to the test. `unknown`: the test cannot be left out, because the
change or the test is of a kind that reading does not bound; it is meant as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ktxkit.affected.rules import scopes
from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.project import parts_of
from ktxkit.affected.rules.reach import Reach, Tests, beyond, tests_of
from ktxkit.affected.rules.scopes import MAKE, MODULE, Facts
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        AffectedSelectionChangeHow,
        AffectedSelectionChangeKind,
        AffectedSelectionPathHow,
        SelectionVerdict,
    )

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
OTHER_KIND: Final = "of another kind"
DOC = "__doc__"
WORDS = {"": "what runs at import", "<main>": "what runs as a program"}


class UnitChange(NamedTuple):
    """One unit that differs. `kind`: function, class, constant, alias, module, main."""

    path: str
    unit: str
    kind: AffectedSelectionChangeKind
    status: AffectedSelectionChangeHow


def between(path: str, old: Facts | None, new: Facts | None) -> list[UnitChange]:
    """Every unit that is not the same in both. A file that came or went changes with all of its units."""
    before = {unit[0]: unit for unit in (old or {"units": ()})["units"]}
    after = {unit[0]: unit for unit in (new or {"units": ()})["units"]}
    found = []
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        kind = (two or one or ["", "module"])[1]
        if one is None or two is None:
            found.append(UnitChange(path, name, kind, ADDED if one is None else REMOVED))
        elif one[1] != two[1]:
            found.append(UnitChange(path, name, kind, OTHER_KIND))
        elif one[2] != two[2]:
            found.append(UnitChange(path, name, kind, CHANGED))
    moved = {UnitChange(path, owner, after[owner][1], CHANGED) for owner in _moved(before, after) if owner in after}
    return sorted({*found, *moved, *_docs(path, old, new)})


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


def is_doc(change: UnitChange) -> bool:
    """Whether it is what a docstring says, which matters to who reads docstrings."""
    return change.unit.rpartition(".")[2] == DOC


def _docs(path: str, old: Facts | None, new: Facts | None) -> set[UnitChange]:
    """The docstrings that differ, of units that are in both."""
    both = [{unit[0] for unit in (facts or {"units": ()})["units"]} for facts in (old, new)]
    before, after = ((facts or {}).get("docs", {}) for facts in (old, new))
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return {UnitChange(path, f"{name}.{DOC}", "constant", CHANGED) for name in names & both[0] & both[1]}


def seed(reach: Reach, change: UnitChange) -> None:
    """Where following a change begins."""
    node = (change.path, change.unit)
    how = f"{WORDS.get(change.unit, change.kind)} {change.status}"
    reach.seed(node, how)
    owner, _, member = change.unit.rpartition(".")
    if change.status in (REMOVED, OTHER_KIND) or change.unit == "__getattr__":
        top = change.unit.partition(".")[0]
        for user in broken(reach.graph, (change.path, top)):
            reach.seed(user, f"evaluates {change.unit} at import, which is {change.status}")
    if change.unit == "__all__" or change.status in (REMOVED, OTHER_KIND):
        for user in _star_importers(reach.graph, change.path):
            reach.seed(user, f"imports all names of it, of which {change.unit} is {change.status}")
    if change.kind == "class":
        reach.seed((change.path, change.unit + MAKE), how)
    elif owner and (change.status != CHANGED or change.kind == "constant") and change.kind != "make":
        reach.seed((change.path, owner + MAKE), f"member {member} {change.status}")


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


ABSENT = "000000"
SELECTED: Final = "selected"
UNKNOWN: Final = "unknown"
LOCATED = "knows the place"
Ran = Callable[[Unit], Iterable[tuple[Unit, str]]]
Chain = list[tuple[Unit, str]]


@dataclass(frozen=True)
class Touched:
    """A path that differs between the two trees. `modes`: old and new, `000000` where it is absent."""

    path: str
    modes: tuple[str, str] = ("100644", "100644")

    @property
    def status(self) -> AffectedSelectionPathHow:
        old, new = self.modes
        return ADDED if old == ABSENT else REMOVED if new == ABSENT else CHANGED

    @property
    def is_edited(self) -> bool:
        """Whether only its content differs: who lists names does not notice that."""
        return self.modes[0] == self.modes[1]


@dataclass
class Picked:
    """One test, or a whole file of them, that is meant."""

    id: str
    verdict: SelectionVerdict
    chain: Chain
    why: str = ""


@dataclass
class Decision:
    """`tests`: what is meant, in order. `total`: all tests that were found. `unbounded`: path to why.

    `furniture`: paths that reach no test because of what they are."""

    tests: list[Picked] = field(default_factory=list)
    total: int = 0
    selected: int = 0
    unbounded: dict[str, str] = field(default_factory=dict)
    changes: list[UnitChange] = field(default_factory=list)
    furniture: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> SelectionVerdict:
        """Where no test was found at all, it is not known what would notice: a pattern may be misspelt."""
        bounded = self.total and not self.unbounded
        return SELECTED if bounded and all(one.verdict == SELECTED for one in self.tests) else UNKNOWN


@dataclass(frozen=True)
class ImpactQuestion:
    """What is asked. `links`: symbolic links and where they lead; `environment`: variables that differ; `observed`:
    units that a traced run saw depend on what differs, each with how; `ran`: the tests that it saw run a unit."""

    graph: Graph
    touched: Collection[Touched]
    changed: Collection[UnitChange]
    links: Mapping[str, str] = field(default_factory=dict)
    environment: Collection[str] = ()
    unbounded: Mapping[str, str] = field(default_factory=dict)
    observed: Collection[tuple[Unit, str]] = ()
    ran: Ran | None = None


def decide(question: ImpactQuestion) -> Decision:
    """Follow every change to the tests; what cannot be followed means all of them."""
    graph = question.graph
    every = [tests_of(path, graph.versions[path][-1], graph.project) for path in graph.present_tests]
    made = Decision(total=sum(_count(tests) for tests in every), changes=sorted(question.changed))
    made.furniture = [one.path for one in question.touched if _furniture(graph, one)]
    aside = set(made.furniture)
    followed = [one for one in question.touched if one.path not in aside and not graph.project.is_inert(one.path)]
    made.unbounded = dict(question.unbounded) | _unbounded(question, followed)
    spread = Reach(graph)
    for change in question.changed:
        if not is_doc(change):
            seed(spread, change)
    _seed_files(graph, followed, spread)
    for variable in question.environment:
        for unit in (*graph.marked("environment", variable), *graph.marked("environment", "*")):
            spread.seed(unit, f"reads {variable} from the environment, which is changed")
    for unit, how in question.observed:
        spread.seed(_there(graph, unit), how)
    spread.run()
    _ran(question, spread)
    made.tests = merged(_picked(every, spread, SELECTED), _picked_by_all(question, followed, every))
    if question.touched or question.environment:
        made.tests = _with_unknown(question, every, made)
    made.selected = _counted(every, made.tests)
    made.total = max(made.total, made.selected)
    return made


def _there(graph: Graph, unit: Unit) -> Unit:
    """A test as the map has it: one that a class takes over is its class's, one that is made its file's."""
    path, name = unit
    names = {one[0] for facts in graph.versions.get(path, ()) for one in facts["units"]}
    while name and name not in names:
        name = name.rpartition(".")[0]
    return path, name


def _ran(question: ImpactQuestion, reach: Reach) -> None:
    """Tests that a traced run saw in what was reached: they are reached, whatever reading says."""
    asked: set[Unit] = set()
    if question.ran is None:
        return
    while todo := [node for node in reach.why if node not in asked]:
        asked.update(todo)
        for node in todo:
            for unit, how in question.ran(node):
                reach.seed(_there(question.graph, unit), how)
        reach.run()


def _unbounded(question: ImpactQuestion, followed: Iterable[Touched]) -> dict[str, str]:
    """Each path whose change may reach any test, with why."""
    found: dict[str, str] = {}
    graph = question.graph
    for one in followed:
        said = scopes.why(one.path, one.modes) or scopes.through_links(one.path, dict(question.links))
        bad = [facts["bad"] for facts in graph.versions.get(one.path, ()) if "bad" in facts]
        said = said or _anywhere(graph, one)
        if not said and bad:
            said = f"it cannot be read as Python: {bad[0]}"
        if not said and not one.path.endswith(".py") and not graph.naming(one.path):
            said = "no string in any program names it: who reads it is not known"
        if said:
            found[one.path] = said
    return found


def _furniture(graph: Graph, one: Touched) -> bool:
    """Whether a file is there for people, forges or editors, and no program, script or test names it."""
    if scopes.why(one.path, one.modes) or beyond(graph) or not scopes.is_furniture(one.path):
        return False
    plain = ("100644", "100644")
    return all(scopes.why(user, plain) or scopes.is_furniture(user) for user, _ in graph.naming(one.path))


def _anywhere(graph: Graph, one: Touched) -> str:
    """Why tests that no file is known to hold, or code outside of the tree, may notice a change."""
    if any_kind := beyond(graph):
        return any_kind
    parts = parts_of(one.path) if one.path.endswith(".py") else ()
    if not parts or "/".join(parts[:-1]) in graph.modules.packages:
        return ""
    if parts[-1] in graph.project.standard:
        return f"it may stand in the place of the standard library's {parts[-1]}"
    if parts[-1] in graph.project.installed and one.status != CHANGED:
        return f"it may stand in the place of the installed {parts[-1]}"
    return ""


def _seed_files(graph: Graph, touched: Sequence[Touched], reach: Reach) -> None:
    """Whoever names a changed file, lists directories, or reads files that are named elsewhere."""
    for one in touched:
        for other in graph.namesakes(one.path):
            reach.seed((other, MODULE), f"has the file name of {one.path}, which is {one.status}")
        for unit in graph.naming(one.path):
            reach.seed(unit, f"names {one.path}, which is {one.status}")
        for other in hidden(graph, one.path) if one.path.endswith(".py") and one.status != CHANGED else ():
            reach.seed((other, MODULE), f"lies in a namespace package of the name of {one.path}, which is {one.status}")
    names = [one for one in touched if not one.is_edited]
    for unit in graph.marked("does", "lists") if names else ():
        reach.seed(unit, f"looks through directories; {names[0].path} is {names[0].status}")
    if touched:
        for unit in graph.here:
            reach.seed(unit, f"hands the whole directory to a program; {touched[0].path} is {touched[0].status}")
        for unit in graph.marked("does", "reads source"):
            reach.seed(unit, f"reads source; {touched[0].path} is {touched[0].status}")
        for unit in graph.marked("does", "tells lines"):
            if graph.is_test_file(unit[0]):
                reach.seed(unit, f"tells lines of a source; {touched[0].path} is {touched[0].status}")
    data = [one for one in touched if not one.path.endswith(".py")]
    for unit in graph.marked("does", "reads") if data else ():
        reach.seed(unit, f"reads files that it is told of; {data[0].path} is {data[0].status}")


def _picked_by_all(question: ImpactQuestion, followed: Iterable[Touched], every: Iterable[Tests]) -> dict[str, Picked]:
    """Tests that notice a change only through several things together, and reach each of these.

    The content of a file that was edited: who lists directories, and knows where the tree is or names a directory
    around the file. The place of a line, or its text: who formats a traceback, and looks at a text that may be one. A
    docstring: who has the definition, and reads docstrings.
    """
    graph = question.graph
    edited = [one for one in followed if one.is_edited]
    docs = [one for one in question.changed if is_doc(one)]
    found: dict[str, Picked] = {}
    tests = list(every)
    if edited:
        around = [unit for one in edited for unit in graph.naming(one.path, any_folder=True)]
        said = f"looks through directories; {edited[0].path} is {edited[0].status}"
        found |= _by_all(graph, tests, said, graph.marked("does", "lists"), [*around, *graph.marked("does", LOCATED)])
    if any(one.path.endswith(".py") for one in edited):
        said = f"tells lines of a source; {edited[0].path} is {edited[0].status}"
        found |= _by_all(
            graph, tests, said, graph.marked("does", "tells where"), graph.marked("does", "looks at a traceback")
        )
    if docs:
        owners = [(one.path, one.unit if one.unit == DOC else one.unit.removesuffix(f".{DOC}")) for one in docs]
        said = f"{docs[0].unit} of {docs[0].path} is {docs[0].status}"
        found |= _by_all(graph, tests, said, owners, graph.marked("does", "reads docs"))
    return found


def _by_all(
    graph: Graph, every: Iterable[Tests], said: str, first: Collection[Unit], second: Collection[Unit]
) -> dict[str, Picked]:
    """The tests that reach a unit of both."""
    if not first or not second:
        return {}
    reaches = [Reach(graph), Reach(graph)]
    for reach, units in zip(reaches, (first, second), strict=True):
        for unit in units:
            reach.seed(unit, said)
        reach.run()
    found = {}
    for tests in every:
        one, two = ({picked.id: picked for picked in _picked([tests], reach, SELECTED)} for reach in reaches)
        for name in _leaves(tests) or [tests.path]:
            owner = name.rpartition("::")[0]
            ways = [
                next((picks[key] for key in (name, owner, tests.path) if key in picks), None) for picks in (one, two)
            ]
            if ways[0] is not None and ways[1] is not None:
                key = tests.path if tests.coarse else name
                found[key] = replace(ways[0], id=key)
    return found


def _picked(every: Iterable[Tests], reach: Reach, verdict: SelectionVerdict) -> list[Picked]:
    """The tests that were reached: the file where all of it is, or cannot be taken apart; else class or function."""
    found: list[Picked] = []
    for tests in every:
        whole = (tests.path, MODULE)
        inside = [node for node in reach.of(tests.path) if tests.coarse]
        if whole in reach.why or inside:
            node = whole if whole in reach.why else inside[0]
            found.append(Picked(tests.path, verdict, reach.chain(node), tests.coarse))
            continue
        for unit, name in tests.ids.items():
            owner = unit.partition(".")[0]
            if (tests.path, unit) in reach.why and (owner == unit or (tests.path, owner) not in reach.why):
                found.append(Picked(name, verdict, reach.chain((tests.path, unit))))
    return found


def _with_unknown(question: ImpactQuestion, every: list[Tests], made: Decision) -> list[Picked]:
    """What is meant besides: everything after a change without bounds; always those that nothing bounds."""
    graph = question.graph
    if made.unbounded:
        path, said = next(iter(made.unbounded.items()))
        if beyond(graph):  # no list of files is the whole
            return [Picked(place, UNKNOWN, [], f"{path}: {said}") for place in graph.project.places]
        return [Picked(tests.path, UNKNOWN, [], f"{path}: {said}") for tests in every if tests.ids or tests.coarse]
    spread = Reach(graph)
    for path, facts in graph.each():
        for said, units in facts["marks"].get("opaque", {}).items():
            for unit in units:
                spread.seed((path, facts["units"][unit][0]), said)
        if "bad" in facts:
            spread.seed((path, MODULE), f"it cannot be read: {facts['bad']}")
    spread.run()
    unknown = {one.id: one for one in _picked(every, spread, UNKNOWN)}
    for tests in every:
        facts = graph.versions[tests.path][-1]
        if graph.project.doctests and facts["marks"].get("does", {}).get("doctests"):
            said = "its examples are tests, and are not followed"  # nobody runs them who imports it
            unknown.setdefault(tests.path, Picked(tests.path, UNKNOWN, [], said))
    return merged(made.tests, unknown)


def merged(known: list[Picked], more: Mapping[str, Picked]) -> list[Picked]:
    """Tests that are meant, each once: a whole file stands for what is in it."""
    files = {one.id for one in (*known, *more.values()) if "::" not in one.id}
    kept = {one.id: one for one in known}
    for name, one in more.items():
        kept.setdefault(name, one)
    made = []
    for name, one in kept.items():
        path, _, rest = name.partition("::")
        owner = f"{path}::{rest.partition('::')[0]}"
        if (rest and path in files) or (owner != name and owner in kept):
            continue
        made.append(one)
    return sorted(made, key=lambda one: one.id)


def _leaves(tests: Tests) -> list[str]:
    """The ids of single tests; a class without tests of its own counts as one."""
    owners = {unit.partition(".")[0] for unit in tests.ids if "." in unit}
    return [name for unit, name in tests.ids.items() if unit not in owners]


def _count(tests: Tests) -> int:
    return max(len(_leaves(tests)), 1 if tests.coarse else 0)


def _counted(every: list[Tests], picked: list[Picked]) -> int:
    ids = {one.id for one in picked}
    if any(one.verdict == UNKNOWN and "::" not in one.id and not one.id.endswith(".py") for one in picked):
        return sum(_count(tests) for tests in every)  # a directory: all that is below it
    number = 0
    for tests in every:
        if tests.path in ids:
            number += max(1, _count(tests))  # it is meant whole: what it holds may be made as it is loaded
        else:
            leaves = _leaves(tests)
            number += sum(1 for name in leaves if name in ids or name.rpartition("::")[0] in ids)
    return number
