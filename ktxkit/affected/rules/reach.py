"""Which tests a file holds, by the names that pytest has for them; and where only the whole file can be named.

From what changed to everything that may notice: along uses, imports, strings, fixtures. Each step keeps its why.

A node is a file and a unit of it. Some stand for more: `` (loading the module), `C!` (making a subclass of C), `C^`
(only tests of class C changed), `m%` (an imported module, of which only the content changed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.project import TestProject, defined
from ktxkit.affected.rules.scopes import ANYTHING, BASE_ONLY, MAIN, MAKE, MODULE, OWN, Facts, joined
from ktxkit.base.rules.named import NamedTuple

PLAIN_BASES = {
    "object", "dict", "list", "set", "tuple", "str", "int", "float", "bytes", "NamedTuple", "TypedDict", "Protocol",
    "Generic", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ABC", "Thread", "Exception", "BaseException",
}  # fmt: skip


class Tests(NamedTuple):
    """`ids`: unit to node id, in the order of the file. `coarse`: why the file can only be taken whole."""

    path: str
    ids: dict[str, str]
    coarse: str


def tests_of(path: str, facts: Facts, project: TestProject) -> Tests:
    """The tests of a file. Each class stands for its tests as well."""
    ids: dict[str, str] = {}
    for name, kind, _, _ in facts["units"]:
        if "." not in name and project.is_test_function(name) and kind in ("function", "mixed"):
            ids[name] = f"{path}::{name}"
        elif kind == "class" and "." not in name and _collected(name, facts, project):
            ids[name] = f"{path}::{name}"
            for member in facts["classes"].get(name, {}).get("members", ()):
                if project.is_test_function(member):
                    ids[f"{name}.{member}"] = f"{path}::{name}::{member}"
    return Tests(path, ids, coarse(facts, project))


def askers(graph: Graph, names: Iterable[str]) -> Iterator[Unit]:
    """The tests and fixtures, wherever they stand, that have one of these as a parameter; and who asks by name."""
    for path, facts in graph.each():
        for name in (*names, ANYTHING):
            for unit in facts["marks"].get("asks", {}).get(name, ()):
                yield path, facts["units"][unit][0]
            for unit in facts["marks"].get("parameters", {}).get(name, ()):
                own = facts["units"][unit][0]
                if own in facts["fixtures"] or graph.project.is_test_function(own.rpartition(".")[2]):
                    yield path, own


NAMING = {"python_files", "python_classes", "python_functions"}
HOOKS = (
    "pytest_collect_file", "pytest_collect_directory", "pytest_pycollect_makemodule", "pytest_pycollect_makeitem",
)  # fmt: skip


def _collects_otherwise(facts: Facts) -> bool:
    """Whether a conftest changes what pytest takes for a test."""
    marks = facts["marks"]
    return "collects otherwise" in marks.get("does", ()) or not NAMING.isdisjoint(marks.get("words", ()))


def beyond(graph: Graph) -> str:
    """Why there may be tests that no Python file is known to hold; empty where there are none."""
    if graph.project.text_tests:
        return "text files are tests (--doctest-glob), and are not followed"
    own = next((path for path, facts in graph.each() if any(hook in defined(facts) for hook in HOOKS)), "")
    other = (path for path, facts in graph.each() if path.endswith("conftest.py") and _collects_otherwise(facts))
    own = own or next(other, "")
    return f"{own} collects tests of its own kind" if own else graph.project.unread


def _collected(name: str, facts: Facts, project: TestProject) -> bool:
    """A class that pytest collects: by its name, or as a TestCase by its base."""
    about = facts["classes"].get(name, {"bases": [], "members": []})
    tests = any(project.is_test_function(member) for member in about["members"])
    if not project.is_test_class(name):
        return any(last(base).endswith("TestCase") for base in about["bases"])
    return tests or not _plain(about["bases"])


def last(base: str) -> str:
    """The last name of a base as it is written."""
    return base.partition("[")[0].rpartition(".")[2]


def _plain(bases: list[str]) -> bool:
    """Whether no base brings tests along."""
    return all(last(base) in PLAIN_BASES or last(base).endswith(("Error", "Exception", "Warning")) for base in bases)


def coarse(facts: Facts, project: TestProject) -> str:
    """Why the tests of a file cannot be told one by one; empty where they can."""
    if facts.get("bad"):
        return "it cannot be read"
    if project.doctests and facts["marks"].get("does", {}).get("doctests"):
        return "examples in it are tests"
    if facts["stars"]:
        return "it imports all names of another module"
    if "" in facts["uses"].get("*", {}) or "__getattr__" in defined(facts):
        return "its names are computed"
    if facts["marks"].get("does", {}).get("renames"):
        return "a decorator may give its tests other names"
    kinds = {unit[0]: unit[1] for unit in facts["units"]}
    for name in defined(facts):
        test = project.is_test_function(name) or project.is_test_class(name)
        if test and "." not in name and not name.endswith("!") and kinds.get(name) not in ("function", "class"):
            return f"{name} is no definition of its own"
    for name, kind in kinds.items():
        inner = name.rpartition(".")[2]
        if kind == "class" and "." in name and project.is_test_class(inner):
            return f"{name} is a class of tests in another"
    found = [_odd(name, facts["classes"][name], facts, project) for name in facts["classes"]]
    return next((one for one in found if one), "")


def _odd(name: str, about: dict[str, Any], facts: Facts, project: TestProject) -> str:
    """Why pytest may see other tests in a class than are written there."""
    members = set(about["members"])
    if _collected(name, facts, project):
        hidden = sorted({"__init__", "__new__", "__test__", "__getattr__"} & members)
        return f"{name} has {hidden[0]}" if hidden else f"{name} is decorated" if about["decorated"] else ""
    if not _plain(about["bases"]) and not project.is_test_class(name):
        return f"{name} may be a TestCase by its base"
    return ""


TESTS = "^"
AT_MAKING = {"__init_subclass__", "__class_getitem__", "__mro_entries__", "__slots__", "__set_name__"}


class Reach:
    """What is reached from seeds. `why`: each node with the node it was reached from (None: a seed) and how."""

    def __init__(self, graph: Graph, *, is_inner: bool = False) -> None:
        self.graph = graph
        self.is_inner = is_inner  # asked by another for a part of its way
        self.why: dict[Unit, tuple[Unit | None, str]] = {}
        self._todo: deque[Unit] = deque()
        self._by_path: dict[str, list[Unit]] = {}
        self._counted = 0
        self._held: set[str] = set()
        self._asking: dict[frozenset[str], Reach] = {}
        self.grew = False

    def seed(self, node: Unit, reason: str) -> None:
        self._reach(node, None, reason)

    def run(self) -> None:
        """Follow everything to its end."""
        while self._todo:
            self._follow(self._todo.popleft())

    def step(self) -> bool:
        """Follow one node; False where there is none left. `grew` tells whether it led to more."""
        before = len(self.why)
        if self._todo:
            self._follow(self._todo.popleft())
        self.grew = len(self.why) != before
        return bool(self._todo) or self.grew

    def chain(self, node: Unit) -> list[tuple[Unit, str]]:
        """The steps from a seed to a node."""
        steps: list[tuple[Unit, str]] = []
        at: Unit | None = node
        while at is not None:
            cause, how = self.why[at]
            steps.append((at, how))
            at = cause
        return steps[::-1]

    def of(self, path: str) -> list[Unit]:
        """What was reached in a file."""
        if self._counted != len(self.why):
            self._counted = len(self.why)
            self._by_path = {}
            for node in self.why:
                self._by_path.setdefault(node[0], []).append(node)
        return self._by_path.get(path, [])

    def _reach(self, node: Unit, cause: Unit | None, how: str) -> None:
        if node not in self.why:
            self.why[node] = (cause, how)
            self._todo.append(node)

    def _each(self, nodes: Iterable[Unit], cause: Unit, how: str) -> None:
        for node in nodes:
            self._reach(node, cause, how)

    def _follow(self, node: Unit) -> None:
        path, name = node
        if name == MODULE:
            self._module(node)
        elif name == MAIN:
            self._each(self.graph.naming(path, as_program=True), node, "names it")
        elif name.endswith(TESTS):
            self._uses((path, name[:-1]), node)
        elif "." in name:
            self._member(node)
        else:
            self._uses((path, name.rstrip(BASE_ONLY)), node)
            self._fixture(path, name)
            if self.graph.is_test_file(path) and self.graph.fixtures_import_from(path):
                self._reach((path, MODULE), node, "a fixture or hook takes names of the test's module")
            if node in self.graph.warned:
                self._each(
                    [(other, MODULE) for other in self.graph.test_files], node, "pytest's configuration names it"
                )
            if self.graph.is_kept(path, name):
                self._reach((path, MODULE), node, "something keeps a list of it")
            if name == "__getattr__":
                self._any_attribute(node)

    def _module(self, node: Unit) -> None:
        """A module that is loaded: by whoever imports it, what lies in its package, or names it as a program."""
        path = node[0]
        graph = self.graph
        self._each(graph.importers.get(path, ()), node, "imports it")
        self._each(graph.naming(path, as_program=True), node, "names it")
        folder, _, last = path.rpartition("/")
        if last == "__init__.py":
            below = [other for other in graph.versions if other.startswith(f"{folder}/") and other.endswith(".py")]
            self._each([(other, MODULE) for other in below if other != path], node, "lies in that package")
        elif last == "conftest.py":
            self._each([(other, MODULE) for other in self._tests_below(path)], node, "lies below that conftest")
        if path in graph.always:
            self._each([(other, MODULE) for other in graph.test_files], node, "pytest's configuration names it")

    def _tests_below(self, path: str) -> list[str]:
        folder = path.rpartition("/")[0]
        return [other for other in self.graph.test_files if not folder or other.startswith(f"{folder}/")]

    def _member(self, node: Unit) -> None:
        """A member belongs to its class; a test of a class matters to those who take it over."""
        path, name = node
        owner, _, member = name.rpartition(".")
        if "." not in owner and self.graph.is_test(path, owner, member):
            self._reach((path, owner + TESTS), node, "belongs to it")
            for facts in self.graph.versions.get(path, ()):
                callers = facts["marks"].get("tests", {}).get(member, ())
                self._each([(path, facts["units"][unit][0]) for unit in callers], node, "calls a test of that name")
        else:
            self._reach((path, owner), node, "belongs to it")
        if member in AT_MAKING:
            self._reach((path, owner + MAKE), node, "runs when a subclass is made")
        self._fixture(path, name)

    def _uses(self, unit: Unit, node: Unit) -> None:
        """Every unit that uses this one."""
        path, name = unit
        passed_on = node[1].endswith(BASE_ONLY)
        for user, facts in self.graph.users.get(name, ()):
            for hint, units in facts["uses"][name].items():
                own = hint == OWN and user == path
                if not own and not self.graph.accepts(user, facts, hint, unit):
                    continue
                if not passed_on or not self._beside(user, hint, node):
                    self._users(user, facts, units, node, "uses it")
        if name.endswith(MAKE):
            self._made_through(path, name, node)
            return
        if path in self._held:
            return  # whoever has the module was reached from another name of it
        self._held.add(path)
        for (user, holder), kind in self.graph.holding(path):  # an import only hands it on
            self._reach((user, holder + BASE_ONLY if kind == "alias" else holder), node, "has its module")

    def _users(self, user: str, facts: Facts, units: Iterable[int], node: Unit, how: str) -> None:
        inside = node[1][:-1] + "." if node[1].endswith(TESTS) else ""
        for number in units:
            name = facts["units"][number][0]
            if inside and user == node[0] and name.startswith(inside):
                continue  # other tests of the class
            if node[1].endswith(BASE_ONLY) and facts["units"][number][1] == "alias":
                name += BASE_ONLY
            self._reach((user, name), node, how)

    def _beside(self, user: str, hint: str, node: Unit) -> bool:
        """Whether a use takes only an attribute of an imported module, which has an entry of its own."""
        if not hint.endswith(BASE_ONLY):
            return False
        if hint == BASE_ONLY:
            return True
        modules = self.graph.modules
        name = node[1].rstrip(BASE_ONLY)
        through = modules.resolve(
            user, f"{hint[:-1].rstrip('.')}.{name}" if hint[:-1].strip(".") else f"{hint[:-1]}{name}"
        )
        cause = self.why[node][0]
        return cause is not None and cause[0] in through

    def _made_through(self, path: str, name: str, node: Unit) -> None:
        """Bases are found through modules that hand them on."""
        base = name.removesuffix(MAKE)
        for user, facts in self.graph.users.get(base, ()):
            for hint, units in facts["uses"][base].items():
                if self.graph.accepts(user, facts, hint, (path, base)):
                    aliases = [facts["units"][unit][0] for unit in units if facts["units"][unit][1] == "alias"]
                    self._each([(user, one + MAKE) for one in aliases], node, "hands it on")

    def _fixture(self, path: str, name: str) -> None:
        """Fixtures are used by the names of parameters, below their conftest or in their own file."""
        node, own = (path, name), name.rstrip(BASE_ONLY)
        versions = self.graph.versions.get(path, ())
        named = {one["fixtures"][name][0]: one["fixtures"][name][1] for one in versions if name in one["fixtures"]}
        near = path.endswith("conftest.py") or self.graph.is_test_file(path)
        if near and any(own in one["aliases"] for one in versions):
            named.setdefault(own, False)
        if not named:
            return
        asked = self.graph.asking(named)
        self._asked_elsewhere(node, asked)
        for user, facts in self.graph.in_scope(path):
            parameters = facts["marks"].get("parameters", {})
            for wanted in (*asked, ANYTHING):
                self._each([(user, facts["units"][u][0]) for u in parameters.get(wanted, ())], node, "asks for it")
        always = any(
            given in asked and facts["fixtures"][facts["units"][number][0]][1]
            for _, facts, given, number in self.graph.fixtures
        )
        if always or any(named.values()) or asked & set(self.graph.project.usefixtures):
            self._each([(other, MODULE) for other in self.graph.tests_in_scope(path)], node, "has it always")

    def _asked_elsewhere(self, node: Unit, asked: set[str]) -> None:
        """Tests and bases that stand elsewhere and are collected in the fixture's scope: by a subclass, an import."""
        if self.is_inner:
            return
        key = frozenset(asked)
        if key not in self._asking:
            inner = Reach(self.graph, is_inner=True)
            for one in askers(self.graph, asked):
                inner.seed(one, "")
            inner.run()
            self._asking[key] = inner
        inner, path = self._asking[key], node[0]
        if path.endswith("conftest.py"):
            folder = path.rpartition("conftest.py")[0]
            near = [one for one in inner.why if one[0].startswith(folder)] if folder else []
        else:
            near = inner.of(path) if self.graph.is_test_file(path) else []
        self._each(near, node, "takes what asks for it from elsewhere")

    def _any_attribute(self, node: Unit) -> None:
        """A module's `__getattr__` answers for every name that it does not bind."""
        for user, facts in self.graph.each():
            for name, hints in facts["uses"].items():
                for hint, units in hints.items():
                    if hint.strip("%?") and node[0] in self.graph.modules.resolve(user, hint.rstrip("%")):
                        bound = any(name in defined(one) for one in self.graph.versions[node[0]])
                        if not bound and not self.graph.modules.resolve(user, joined(hint.rstrip("%"), name)):
                            self._users(user, facts, units, node, "asks its module")
