"""What the facts of one file say of it as a whole.

Which files a dotted name may mean: every one that some `sys.path` inside the project could give it to.

A file answers to each end of its path whose beginning is no package, because any such directory may be on the path:
the project's root, `src`, a directory of tests, a part of a namespace package. Where programs change `sys.path`, to
each end.

Which classes are told of, or kept in a list, when they are made: through them a class is found without its name.

What a project's own configuration says about its tests and its modules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ktxkit.affected.rules.scopes import Facts

RUNNERS = {"pytest", "unittest", "doctest"}
PROGRAMS = (".sh", ".bash", ".zsh", ".mk", ".bat", ".cmd")


def starts_programs(path: str, facts: Facts) -> bool:
    """Whether a file starts programs, so that a directory or a pattern in it may be of what they run."""
    return "starts" in facts["marks"].get("does", ()) or (
        "text" in facts and ("." not in path.rpartition("/")[2] or path.endswith(PROGRAMS))
    )


def runs_tests(words: Iterable[str], facts: Facts) -> bool:
    """Whether a file hands files to pytest, unittest or doctest: what they are given is used whole."""
    return not RUNNERS.isdisjoint(words) or "pytest" in facts["uses"].get("main", ())


def defined(facts: Facts) -> set[str]:
    """The names that a module binds by its own statements."""
    known: set[str] | None = facts.get("defined")
    if known is None:
        known = {unit[0] for unit in facts["units"]} | set(facts["marks"].get("binds", ()))
        facts["defined"] = known
    return known


INIT = "__init__"


def parts_of(path: str) -> tuple[str, ...]:
    """`a/b/__init__.py` is `a.b`."""
    parts = tuple(path.removesuffix(".py").split("/"))
    return parts[:-1] if parts[-1] == INIT else parts


class Modules:
    """The modules among the paths of a project. `mapped`: dotted prefixes that lie in another directory."""

    def __init__(
        self, paths: Iterable[str], *, anywhere: bool = False, mapped: Mapping[str, str] | None = None
    ) -> None:
        self.paths = [path for path in paths if path.endswith(".py")]
        self.packages = {path.removesuffix(f"/{INIT}.py") for path in self.paths if path.endswith(f"/{INIT}.py")}
        self.anywhere = anywhere
        self.mapped = dict(mapped or {})
        self._known = set(self.paths)
        self._by_last_folder: dict[str, list[str]] = defaultdict(list)
        for folder in {path[:at] for path in self.paths for at, char in enumerate(path) if char == "/"}:
            self._by_last_folder[folder.rpartition("/")[2]].append(folder)
        self._last: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for path in self.paths:
            parts = parts_of(path)
            if parts:
                self._last[parts[-1]].append((parts, path))
        self._found: dict[tuple[str, str], frozenset[str]] = {}

    def resolve(self, user: str, name: str) -> frozenset[str]:
        """The files that `name` may mean in a file: empty where it is no module of the project."""
        folder = user.rpartition("/")[0]
        key = (folder, name)
        if key not in self._found:
            self._found[key] = frozenset(self._resolved(folder, name))
        return self._found[key]

    def may_be(self, name: str) -> bool:
        """Whether a name could be a module of the project: a quick no for most."""
        last = name.rpartition(".")[2]
        return (
            "*" in name
            or name.startswith(".")
            or last in self._last
            or last in self._by_last_folder
            or bool(self.mapped)
        )

    def folders(self, user: str, name: str) -> list[str]:
        """The directories that a name may mean as a package, one without `__init__.py` included."""
        if name.startswith("."):
            found = self.resolve(user, name)
            return [path.removesuffix(f"/{INIT}.py") for path in found if path.endswith(f"/{INIT}.py")]
        wanted = name.replace(".", "/")
        return [
            one for one in self._by_last_folder.get(wanted.rpartition("/")[2], ()) if f"/{one}".endswith(f"/{wanted}")
        ]

    def loaded(self, user: str, name: str) -> frozenset[str]:
        """What importing a dotted name runs: it, or the longest beginning of it that is a module."""
        while name.strip("."):
            found = self.resolve(user, name)
            if found or (name.startswith(".") and "." not in name.lstrip(".")):
                return found
            name = name.rpartition(".")[0]
        return self.resolve(user, name) if name else frozenset()

    def namespaces(self, name: str) -> list[str]:
        """The directories of that name that are no packages, and may be parts of a namespace package."""
        return [one for one in self._by_last_folder.get(name, ()) if one not in self.packages]

    def _resolved(self, folder: str, name: str) -> Iterable[str]:
        if name.startswith("."):
            return self._relative(folder, name)
        if "*" in name or "?" in name:
            wanted = name.replace(".", "/")
            return [path for path in self.paths if fnmatchcase("/" + "/".join(parts_of(path)), f"*/{wanted}")]
        found = self._absolute(folder, tuple(name.split(".")))
        for prefix, place in self.mapped.items():
            if name == prefix or name.startswith(prefix + "."):
                inside = name.removeprefix(prefix).replace(".", "/")
                found += self._at((place + inside).strip("/"))
        return found

    def _relative(self, folder: str, name: str) -> Iterable[str]:
        rest = name.lstrip(".")
        up = len(name) - len(rest) - 1
        parts = folder.split("/") if folder else []
        if up > len(parts):
            return []
        base = "/".join(parts[: len(parts) - up])
        place = f"{base}/{rest.replace('.', '/')}".strip("/")
        if "*" in place:
            return [path for path in self.paths if fnmatchcase("/".join(parts_of(path)), place)]
        return self._at(place)

    def _at(self, place: str) -> list[str]:
        both = (f"{place}.py", f"{place}/{INIT}.py" if place else f"{INIT}.py")
        return [path for path in both if path in self._known]

    def _absolute(self, folder: str, wanted: tuple[str, ...]) -> list[str]:
        found = []
        for parts, path in self._last.get(wanted[-1], ()):
            if parts[-len(wanted) :] != wanted:
                continue
            root = "/".join(parts[: -len(wanted)])
            if self.anywhere or root == folder or root not in self.packages:
                found.append(path)
        return found


About = dict[str, Any]
# Bases of the standard library that keep no list by which a subclass could be found.
SILENT_BASES = {
    "object", "dict", "list", "set", "frozenset", "tuple", "str", "int", "float", "bytes", "bool", "type", "NamedTuple",
    "TypedDict", "Protocol", "Generic", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ABC", "Thread", "Process",
    "UserDict", "UserList", "UserString", "OrderedDict", "defaultdict", "Counter", "deque", "Mapping", "MutableMapping",
    "Sequence", "Iterator", "Iterable", "Callable", "NodeVisitor", "NodeTransformer", "HTMLParser", "ArgumentParser",
    "JSONEncoder", "JSONDecoder", "Action", "Formatter", "Handler", "Logger", "StringIO", "BytesIO", "RawIOBase",
    "Number", "Complex", "Real", "Rational", "Integral", "date", "time", "datetime", "timedelta", "tzinfo", "timezone",
    "Decimal", "Fraction", "MutableSequence", "MutableSet", "Set", "Collection", "Container", "Sized", "Hashable",
    "Reversible", "Generator", "Awaitable", "Coroutine", "AsyncIterator", "AsyncIterable", "AsyncGenerator", "Path",
    "PurePath", "ChainMap", "TextIOBase", "TextIOWrapper", "BufferedIOBase", "IOBase", "IO", "complex",
    "bytearray", "slice", "range", "PathLike", "AbstractContextManager", "ExitStack", "Queue", "Random",
    "Template", "Filter", "StreamHandler", "FileHandler", "LoggerAdapter", "HelpFormatter", "Namespace", "Text",
    "contextmanager", "ContextDecorator", "SimpleNamespace", "local", "property", "namedtuple",
}  # fmt: skip


def is_hooked(about: About, classes: Mapping[str, list[About]], searched: set[str]) -> bool:
    """Whether making a class tells someone: a metaclass, a base with `__init_subclass__`, a base that is not known."""
    if any(last_name(one) != "ABCMeta" for one in about["made_by"]):
        return True
    for base in about["origins"]:
        if base in searched:
            continue
        searched.add(base)
        known = classes.get(base, ())
        silent = base in SILENT_BASES or base.endswith(("Error", "Exception", "Warning", "TestCase"))
        if not (known or silent) or any(
            "__init_subclass__" in one["members"] or is_hooked(one, classes, searched) for one in known
        ):
            return True
    return False


def last_name(text: str) -> str:
    """`ABCMeta` of `abc.ABCMeta`."""
    return text.rpartition(".")[2]


SKIPPED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")


@dataclass(frozen=True)
class TestProject:
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
