"""What a project's own configuration says about its tests and its modules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

SKIPPED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")


@dataclass(frozen=True)
class Project:
    """pytest's choice of files and names (its defaults here), where packages lie, what is started by which name."""

    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    python_classes: tuple[str, ...] = ("Test",)
    python_functions: tuple[str, ...] = ("test",)
    testpaths: tuple[str, ...] = ()
    norecursedirs: tuple[str, ...] = SKIPPED
    doctests: bool = False
    text_tests: bool = False  # text files are tests, by --doctest-glob
    standard: frozenset[str] = frozenset()  # names of modules of the standard library
    root: str = ""  # the directory of pytest's configuration, from the top
    mapped: dict[str, str] = field(default_factory=dict)  # dotted prefix to directory
    scripts: dict[str, tuple[str, str]] = field(default_factory=dict)  # console script to module and function
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)  # group of entry points to modules
    always: tuple[str, ...] = ()  # words of pytest's configuration: plugins, settings modules
    warned: tuple[str, ...] = ()  # dotted names of warnings' categories in pytest's configuration
    usefixtures: tuple[str, ...] = ()  # fixtures that every test has, by pytest's configuration
    named: tuple[str, ...] = ()  # files and directories that addopts hands to pytest
    below: tuple[str, ...] = ()  # directories with a configuration of pytest's own
    unread: str = ""  # why not every test can be told by the configuration; empty where it can
    installed: frozenset[str] = frozenset()  # names of modules that the environment has
    inert: tuple[str, ...] = ()  # patterns of paths that are declared to reach no test

    def is_test_file(self, path: str) -> bool:
        """Whether pytest would collect a file on its own."""
        parts = path.split("/")
        if path.endswith(".py") and path in self.named:
            return True
        if not path.endswith(".py") or not any(
            fnmatchcase(parts[-1], one.rpartition("/")[2]) for one in self.python_files
        ):
            return False
        own = any(path.startswith(f"{one}/") for one in self.below)
        if (
            self.testpaths
            and not own
            and not any(fnmatchcase(path, f"{one.strip('/')}/*") or path == one for one in self._places())
        ):
            return False
        inside = next((path[len(one) + 1 :] for one in self._places() if path.startswith(f"{one}/")), path)
        return not any(fnmatchcase(part, one) for part in inside.split("/")[:-1] for one in self.norecursedirs)

    @property
    def places(self) -> list[str]:
        """What pytest is to be given for all that it would collect."""
        return [one for one in self._places() if one != "*" and not re.search(r"[*?\[]", one)] or [self.root or "."]

    def _places(self) -> list[str]:
        return [
            f"{self.root}/{one.removeprefix('./').rstrip('/')}".strip("/")
            if one not in (".", "./")
            else (self.root or "*")
            for one in (*self.testpaths, *(name for name in self.named if self.testpaths and not name.endswith(".py")))
        ]

    def is_test_function(self, name: str) -> bool:
        return any(_fits(name, one) for one in self.python_functions) or name.startswith("test")

    def is_test_class(self, name: str) -> bool:
        return any(_fits(name, one) for one in self.python_classes)

    def is_inert(self, path: str) -> bool:
        return any(fnmatchcase(path, one) for one in self.inert)


def _fits(name: str, wanted: str) -> bool:
    """As pytest does: a beginning, or a pattern."""
    return name.startswith(wanted) or (bool(re.search(r"[*?\[]", wanted)) and fnmatchcase(name, wanted))
