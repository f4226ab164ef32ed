"""All files of two trees as one map: who uses a name, who imports a file, who names one in a string."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from ktxkit.affected.rules.literals import fits, is_pattern
from ktxkit.affected.rules.project import (
    Modules,
    TestProject,
    defined,
    is_hooked,
    parts_of,
    runs_tests,
    starts_programs,
)
from ktxkit.affected.rules.scopes import ANYTHING, MAKE, OWN, Facts

Unit = tuple[str, str]  # path, name
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")


class Graph:
    """`versions`: each Python file with its facts, of both trees where they differ, the new ones last.

    `paths`: every path of either tree; `gone`: those that only the old one has."""

    def __init__(
        self, versions: Mapping[str, list[Facts]], paths: Iterable[str], project: TestProject, gone: Iterable[str] = ()
    ) -> None:
        self.versions = versions
        self.project = project
        self.present = set(versions) - set(gone)
        self.paths = sorted(paths)
        anywhere = any("path" in facts["uses"] and "sys" in facts["uses"]["path"] for _, facts in self.each())
        self.modules = Modules(self.paths, anywhere=anywhere, mapped=project.mapped)

    def each(self) -> Iterator[tuple[str, Facts]]:
        for path, versions in self.versions.items():
            for facts in versions:
                yield path, facts

    @cached_property
    def users(self) -> dict[str, list[tuple[str, Facts]]]:
        """A name to the files that use it."""
        made: dict[str, list[tuple[str, Facts]]] = defaultdict(list)
        for pair in self.each():
            for name in pair[1]["uses"]:
                made[name].append(pair)
        return made

    @cached_property
    def holders(self) -> dict[str, list[tuple[Unit, str]]]:
        """A file to the units that have it as a value, or all of its names, each with its kind."""
        made: dict[str, list[tuple[Unit, str]]] = defaultdict(list)
        tokens = self._tokens()
        for path, facts in self.users.get(ANYTHING, ()):
            for hint, units in facts["uses"][ANYTHING].items():
                targets = self.modules.resolve(path, hint) if self.modules.may_be(hint) else ()
                for target in (path,) if hint == OWN else (*targets, *self.modules.folders(path, hint)):
                    made[target] += [((path, facts["units"][unit][0]), facts["units"][unit][1]) for unit in units]
        for path, facts in self.each():
            for group, units in facts["marks"].get("entries", {}).items():
                for target in self._entries(group):
                    made[target] += [((path, facts["units"][unit][0]), facts["units"][unit][1]) for unit in units]
            words = facts["marks"].get("words", {})
            for word in words.keys() & tokens.keys() if runs_tests(words, facts) else ():
                for target, _ in tokens[word]:
                    made[target] += [((path, facts["units"][unit][0]), facts["units"][unit][1]) for unit in words[word]]
            for script in words.keys() & self.project.scripts.keys():
                for target in self.modules.resolve("", self.project.scripts[script][0]):
                    units = facts["marks"]["words"][script]
                    made[target] += [((path, facts["units"][unit][0]), facts["units"][unit][1]) for unit in units]
        return made

    def _entries(self, group: str) -> set[str]:
        """The files behind a group of the project's own entry points, or of all of them."""
        found = self.project.entries
        names = found.get(group, ()) if group != ANYTHING else [one for names in found.values() for one in names]
        return {path for name in names for path in self.modules.loaded("", name)}

    def holding(self, path: str) -> Iterator[tuple[Unit, str]]:
        """Who has a file's module as a value, or a package around it: what is in a package is reached through it."""
        yield from self.holders.get(path, ())
        while "/" in path:
            path = path.rpartition("/")[0]
            yield from self.holders.get(path, ())

    @cached_property
    def fixtures(self) -> list[tuple[str, Facts, str, int]]:
        """Every fixture: file, facts, the name that it is asked for by, and its unit's number."""
        return [
            (path, facts, given, [unit[0] for unit in facts["units"]].index(name))
            for path, facts in self.each()
            for name, (given, _) in facts["fixtures"].items()
        ]

    def asking(self, names: Iterable[str]) -> set[str]:
        """Names of fixtures, and those of all fixtures that ask for one of them: by whom, depends on the test."""
        found = set(names)
        grew = True
        while grew:
            more = {
                given
                for _, facts, given, number in self.fixtures
                if any(number in facts["marks"].get("parameters", {}).get(name, ()) for name in (*found, ANYTHING))
            }
            grew = not more <= found
            found |= more
        return found

    @cached_property
    def importers(self) -> dict[str, list[Unit]]:
        """A file to the units that import it."""
        made: dict[str, list[Unit]] = defaultdict(list)
        for path, facts in self.each():
            for name, units in facts["marks"].get("imports", {}).items():
                for target in self.modules.loaded(path, name):
                    made[target] += [(path, facts["units"][unit][0]) for unit in units]
            for group, units in facts["marks"].get("entries", {}).items():
                for target in self._entries(group):
                    made[target] += [(path, facts["units"][unit][0]) for unit in units]
        return made

    @cached_property
    def namers(self) -> dict[str, list[tuple[Unit, bool]]]:
        """A file to the units that name it in a string, each with whether it may run it or what is around it.

        As a path, the end of one, a directory around it, a module. A directory in settings says nothing by itself.
        """
        made: dict[str, list[tuple[Unit, bool]]] = defaultdict(list)
        tokens = self._tokens()
        for path, facts in self.each():
            words = facts["marks"].get("words", {})
            starts, settings = starts_programs(path, facts), "text" in facts
            for word in words.keys() & tokens.keys():
                units = [(path, facts["units"][unit][0]) for unit in words[word]]
                for target, folder in tokens[word]:
                    if starts or not folder or not settings:
                        made[target] += [(unit, starts or not folder) for unit in units]
            for name, found in facts["marks"].get("named", {}).items():
                units = [(path, facts["units"][unit][0]) for unit in found]
                for target in (*self.modules.loaded(path, name), *self.modules.resolve(path, f"{name}.__main__")):
                    made[target] += [(unit, True) for unit in units]
        return made

    def _tokens(self) -> dict[str, list[tuple[str, bool]]]:
        """Each word to the files that it names, and whether it names a directory around them, or a plain module."""
        made: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        for path in self.paths:
            parts = path.split("/")
            for start in range(len(parts)):
                made["/".join(parts[start:])].append((path, False))
                for end in range(start + 1, len(parts)):
                    made["/".join(parts[start:end])].append((path, True))
            if path.endswith(".py") and len(parts_of(path)) == 1:
                made[parts_of(path)[0]].append((path, True))
            if path.rpartition("/")[2] in MAKEFILES or path.endswith(".mk"):
                made["make"].append((path, True))
                made["gmake"].append((path, True))
        for script, (module, _) in self.project.scripts.items():
            made[script] += [(path, False) for path in self.modules.resolve("", module)]
        return made

    @cached_property
    def _patterns(self) -> list[tuple[str, str, str, bool]]:
        """Patterns in strings: pattern, path and unit of who has it, and whether programs are started there."""
        return [
            (word, path, facts["units"][unit][0], starts_programs(path, facts))
            for path, facts in self.each()
            for word, units in facts["marks"].get("words", {}).items()
            if is_pattern(word)
            for unit in units
        ]

    @cached_property
    def test_files(self) -> list[str]:
        found = [path for path in self.versions if self.project.is_test_file(path)]
        if self.project.doctests:
            found += [
                p for p, facts in self.each() if facts["marks"].get("does", {}).get("doctests") and p not in found
            ]
        return found

    @cached_property
    def _tests(self) -> set[str]:
        return set(self.test_files)

    def namesakes(self, path: str) -> list[str]:
        """Other test files of the same name: outside of packages only one of them can be imported."""
        last = path.rpartition("/")[2]
        return [
            one for one in self.test_files if one != path and one.rpartition("/")[2] == last and self.is_test_file(path)
        ]

    def is_test_file(self, path: str) -> bool:
        return path in self._tests

    @property
    def present_tests(self) -> list[str]:
        """The files with tests that are in the new tree."""
        return [path for path in self.test_files if path in self.present]

    @cached_property
    def always(self) -> set[str]:
        """Files that pytest's own configuration loads: plugins, settings."""
        places = [self.modules.loaded("", word) for word in self.project.always]
        groups = self.project.entries.get("pytest11", ())
        return {path for found in (*places, *(self.modules.loaded("", one) for one in groups)) for path in found}

    @cached_property
    def warned(self) -> set[Unit]:
        """The definitions that pytest takes from its configuration when it starts: without them no test runs."""
        marked = {one for _, facts in self.each() for one in facts["marks"].get("warned", ())}
        parts = [one.rpartition(".") for one in (*self.project.warned, *marked)]
        return {(path, name) for module, _, name in parts for path in self.modules.resolve("", module)}

    def fixtures_import_from(self, path: str) -> bool:
        """Whether a fixture or hook that its tests may have takes names out of the module of the test."""
        folders = [user.rpartition("/")[0] for user in self._takers if user.endswith("conftest.py")]
        own = any(not folder or path.startswith(f"{folder}/") for folder in folders) or path in self._takers
        return own or any(not (user.endswith("conftest.py") or self.is_test_file(user)) for user in self._takers)

    @cached_property
    def _takers(self) -> set[str]:
        return {path for path, _ in self.marked("does", "takes the test's module")}

    def is_test(self, path: str, owner: str, member: str) -> bool:
        """Whether a member of a class is a test that pytest collects from there."""
        return self.is_test_file(path) and member.startswith("test") and not owner.endswith(MAKE)

    def in_scope(self, path: str) -> list[tuple[str, Facts]]:
        """The files in which a fixture of that file can be asked for."""
        folder, _, last = path.rpartition("/")
        if last == "conftest.py":
            return [pair for pair in self.each() if not folder or pair[0].startswith(f"{folder}/")]
        if self.is_test_file(path):
            return [(path, facts) for facts in self.versions.get(path, ())]
        return list(self.each())

    def tests_in_scope(self, path: str) -> list[str]:
        return sorted({user for user, _ in self.in_scope(path)} & self._tests)

    @cached_property
    def classes(self) -> dict[str, list[dict[str, Any]]]:
        """A name to the classes that have it."""
        made: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for _, facts in self.each():
            for name, about in facts["classes"].items():
                made[name].append(about)
        return made

    def is_kept(self, path: str, name: str) -> bool:
        """Whether something may keep a list of a class: a metaclass, a base that is told of its subclasses."""
        found = [facts["classes"][name] for facts in self.versions.get(path, ()) if name in facts["classes"]]
        return any(is_hooked(about, self.classes, set()) for about in found)

    def naming(self, path: str, *, as_program: bool = False, any_folder: bool | None = None) -> list[Unit]:
        """Every unit that may name a path; `as_program`: to run it, so that what it uses matters as well.

        `any_folder`: a directory around it counts too (None: where the path is of data, and none is run).
        """
        by_pattern = [
            (user, unit)
            for word, user, unit, starts in self._patterns
            if (starts or not as_program) and fits(word, path)
        ]
        if any_folder is None:
            any_folder = not as_program and not path.endswith(".py")
        return [*(unit for unit, near in self.namers.get(path, ()) if near or any_folder), *by_pattern]

    @property
    def here(self) -> list[Unit]:
        """The units that name the directory itself, in files that start programs."""
        return [
            (path, facts["units"][unit][0])
            for path, facts in self.each()
            if starts_programs(path, facts)
            for unit in facts["marks"].get("does", {}).get("here", ())
        ]

    def marked(self, what: str, name: str) -> list[Unit]:
        """The units that do something named so."""
        return [
            (p, facts["units"][u][0]) for p, facts in self.each() for u in facts["marks"].get(what, {}).get(name, ())
        ]

    def accepts(self, user: str, facts: Facts, hint: str, unit: Unit) -> bool:
        """Whether a use with this hint, in this file, may be of that unit."""
        path, name = unit
        if hint in ("", "%"):
            return user == path or (bool(facts["stars"]) and name.rstrip(MAKE) not in defined(facts))
        if hint == "?":
            return True
        targets = self.modules.resolve(user, hint.rstrip("%"))
        return path in targets or any(name not in known for one in targets for known in self.open.get(one, ()))

    @cached_property
    def open(self) -> dict[str, list[set[str]]]:
        """Modules that may have a name from elsewhere, each with the names that its own statements bind."""
        made: dict[str, list[set[str]]] = {}
        for path, facts in self.each():
            if facts["stars"] or "__getattr__" in defined(facts):
                made.setdefault(path, []).append(defined(facts))
        return made
