"""From what changed to everything that may notice: along uses, imports, strings, fixtures. Each step keeps its why.

A node is a file and a unit of it. Some stand for more: `` (loading the module), `C!` (making a subclass of C), `C^`
(only tests of class C changed), `m%` (an imported module, of which only the content changed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ktxkit.affected.rules import collected
from ktxkit.affected.rules.filefacts import defined
from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.sink import ANYTHING, BASE_ONLY, MAIN, MAKE, MODULE, OWN, Facts

TESTS = "^"
AT_MAKING = {"__init_subclass__", "__class_getitem__", "__mro_entries__", "__slots__", "__set_name__"}


class Spread:
    """What is reached from seeds. `why`: each node with the node it was reached from (None: a seed) and how."""

    def __init__(self, graph: Graph, *, is_inner: bool = False) -> None:
        self.graph = graph
        self.is_inner = is_inner  # asked by another for a part of its way
        self.why: dict[Unit, tuple[Unit | None, str]] = {}
        self._todo: deque[Unit] = deque()
        self._by_path: dict[str, list[Unit]] = {}
        self._counted = 0
        self._held: set[str] = set()
        self._asking: dict[frozenset[str], Spread] = {}
        self.grew = False

    def seed(self, node: Unit, how: str) -> None:
        self._reach(node, None, how)

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
            if self.graph.is_test_file(path) and self.graph.taken_by_fixtures(path):
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
            inner = Spread(self.graph, is_inner=True)
            for one in collected.askers(self.graph, asked):
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
                        if not bound:
                            self._users(user, facts, units, node, "asks its module")
