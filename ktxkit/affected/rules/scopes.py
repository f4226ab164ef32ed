"""Which names a function binds: any other is the module's, or a builtin one. Lexical, as Python is.

What the units of one Python file use, as it is collected, and as the document that is kept.

A unit is what can change alone: a function, a method, a class's own statement, a constant, an imported name, the rest
of the module (unit 0, what runs when it is imported). `EAGER` stands for what is evaluated at import besides.

Changes that reading Python cannot bound: after one, every test may be meant, and the answer is `unknown`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ktxkit.base.rules.named import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Alias(NamedTuple):
    """An imported name: a module (`name` empty), or a name of one."""

    module: str
    name: str = ""


Aliases = dict[str, tuple[Alias, ...]]  # several where it depends which import succeeds


class FunctionNames(NamedTuple):
    """What one function binds, what it imports, and what it says is the module's."""

    names: frozenset[str]
    aliases: Aliases
    outside: frozenset[str]
    shared: frozenset[str] = frozenset()  # names of a function around it that it binds


Scope = tuple[FunctionNames, ...]


def joined(module: str, name: str) -> str:
    """A dotted name one further in: `.` and `x` are `.x`."""
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


def origin(node: ast.ImportFrom) -> str:
    """The module of `from ... import`, with its leading dots."""
    return "." * node.level + (node.module or "")


def add_aliases(known: Aliases, node: ast.Import | ast.ImportFrom) -> None:
    """Put the names that an import binds to those that are known."""
    for one in node.names:
        if isinstance(node, ast.ImportFrom):
            bound, alias = one.asname or one.name, Alias(origin(node), one.name)
        else:
            first = one.name.partition(".")[0]
            bound, alias = one.asname or first, Alias(one.name if one.asname else first)
        if bound != "*" and alias not in known.get(bound, ()):
            known[bound] = (*known.get(bound, ()), alias)


def layer(parameters: ast.arguments, body: Iterable[ast.AST]) -> FunctionNames:
    """What a function binds in its own body; functions inside it are looked at when they are come to."""
    names, outside, nonlocals = set(argument_names(parameters)), set[str](), set[str]()
    aliases: Aliases = {}
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Lambda | Comprehension):
            continue
        elif isinstance(node, ast.Import | ast.ImportFrom):
            add_aliases(aliases, node)
        elif isinstance(node, ast.Global):
            outside.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            nonlocals.update(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        else:
            names.update(_matched(node))
            todo += ast.iter_child_nodes(node)
    return FunctionNames(frozenset(names - outside - nonlocals), aliases, frozenset(outside), frozenset(nonlocals))


def imports_in(node: ast.AST) -> Aliases:
    """The names that a class's body imports, or a statement of it; what stands in its methods is theirs."""
    aliases: Aliases = {}
    todo = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Import | ast.ImportFrom):
            add_aliases(aliases, one)
        elif not isinstance(one, Function | ast.Lambda | Comprehension):
            todo += ast.iter_child_nodes(one)
    return aliases


def bound_globally(tree: ast.AST) -> Aliases:
    """The names of the module that functions import, by `global`."""
    aliases: Aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            inside = layer(node.args, node.body)
            for name in inside.outside & inside.aliases.keys():
                aliases[name] = tuple(dict.fromkeys((*aliases.get(name, ()), *inside.aliases[name])))
    return aliases


def argument_names(parameters: ast.arguments) -> list[str]:
    every = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
    return [one.arg for one in every if one is not None]


def _matched(node: ast.AST) -> list[str]:
    """Names that a pattern or an exception handler binds."""
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return [node.name] if node.name else []
    return [node.rest] if isinstance(node, ast.MatchMapping) and node.rest else []


def targets(node: Comprehension) -> frozenset[str]:
    """The names that a comprehension binds for itself."""
    return frozenset(one.id for gen in node.generators for one in ast.walk(gen.target) if isinstance(one, ast.Name))


def aliases_of(scope: Scope, name: str) -> tuple[Alias, ...] | bool | None:
    """Aliases made in a function, True where the name is a function's own, None where it is the module's."""
    for one in reversed(scope):
        if name in one.outside:
            return None
        if name in one.aliases:
            return one.aliases[name]
        if name in one.names:
            return True
    return None


Units = tuple[int, ...]
Facts = dict[str, Any]
EAGER = -1
MODULE, MAIN = "", "<main>"
ANYTHING = "*"  # every name of a module
OWN, BASE_ONLY = "", "%"  # hints of a use: a name of this module; the same, only with an attribute behind it
MAKE = "!"  # suffix of what runs when a subclass is made
VERSION = 19  # counted up whenever a reader finds something else in the same bytes


class UsageSink:
    """Names, imports, words and what else units refer to, each with the units that do."""

    def __init__(self) -> None:
        self.units: list[list[Any]] = []  # name, kind, parts of the digest, line
        self.numbers: dict[str, int] = {}
        self.uses: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.marks: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.classes: dict[str, dict[str, Any]] = {}
        self.fixtures: dict[str, list[Any]] = {}
        self.stars: set[str] = set()
        self.docs: dict[str, list[str]] = defaultdict(list)

    def unit(self, name: str, kind: str, line: int) -> int:
        """The number of a unit; the same one where a name is defined twice."""
        if name not in self.numbers:
            self.numbers[name] = len(self.units)
            self.units.append([name, kind, [], line])
        number = self.numbers[name]
        if self.units[number][1] != kind:
            self.units[number][1] = "mixed"
        return number

    def part(self, number: int, text: str) -> None:
        """More of what makes up a unit."""
        self.units[number][2].append(text)

    def documented(self, name: str, docstrings: Iterable[str]) -> None:
        """What docstrings say of a unit: no part of it."""
        self.docs[name] += docstrings

    def use(self, name: str, hint: str, units: Units) -> None:
        """Units use a name: of a module that `hint` names, or of this one."""
        self.uses[name][hint].update(units)

    def mark(self, what: str, name: str, units: Units) -> None:
        """Units do `what` with something named so: import, say a word, read a variable of the environment."""
        self.marks[what][name].update(unit for unit in units if unit != EAGER)

    def document(self) -> Facts:
        """The facts, as JSON has them."""
        from blake3 import blake3

        def digest(parts: Iterable[str]) -> str:
            return blake3("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest(12)

        eager = [[n, h] for n, hints in self.uses.items() for h, units in hints.items() if EAGER in units]
        uses = {n: {h: sorted(units - {EAGER}) for h, units in hints.items()} for n, hints in self.uses.items()}
        return {
            "version": VERSION,
            "units": [[name, kind, digest(parts), line] for name, kind, parts, line in self.units],
            "uses": uses,
            "eager": sorted(eager),
            "marks": {what: {n: sorted(units) for n, units in named.items()} for what, named in self.marks.items()},
            "aliases": sorted(unit[0] for unit in self.units if unit[1] in ("alias", "mixed")),
            "classes": self.classes,
            "fixtures": self.fixtures,
            "stars": sorted(self.stars),
            "docs": {name: digest(said) for name, said in self.docs.items() if said},
        }


CONFIGURATION = (
    "pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "setup.py",
    "noxfile.py",
    "*requirements*.txt", "*requirements*.in", "constraints*.txt", "*.lock", "Pipfile", "pylock*.toml",
    "environment*.yml", "environment*.yaml", "conda*.yml", ".coveragerc", ".python-version", "MANIFEST.in", ".env",
    ".ktx-config.yaml",
)  # fmt: skip
# What a repository has for people, forges and editors, by default: it reaches no test unless a program names it.
FURNITURE = (
    ".github/*", ".gitlab/*", ".gitlab-ci.yml", ".circleci/*", ".travis.yml", "azure-pipelines.yml", "*appveyor.yml",
    ".readthedocs.yml", ".readthedocs.yaml", ".pre-commit-config.yaml", ".editorconfig", ".gitignore", "*/.gitignore",
    ".mailmap", ".git-blame-ignore-revs", ".vscode/*", ".idea/*", ".devcontainer/*", "codecov.yml", ".codecov.yml",
    "renovate.json", ".dockerignore", "CODEOWNERS", ".coderabbit.yaml", "CITATION.cff",
)  # fmt: skip
FOR_PEOPLE = (
    "CHANGE*", "HISTORY*", "NEWS*", "RELEASE*", "LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "AUTHORS*", "CONTRIBUT*",
    "CODE_OF_CONDUCT*", "SECURITY*", "README*", "TODO*", "ROADMAP*", "MAINTAIN*", "GOVERNANCE*", "SUPPORT*",
    "changelog.d/*", "changelog/*", "changes/*", "news/*", "newsfragments/*", "doc/*", "docs/*",
)  # fmt: skip
TEXTS = ("", ".md", ".rst", ".txt", ".adoc")  # suffixes of texts for people
PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".ico", ".webp")


def is_furniture(path: str) -> bool:
    """Whether a file is there for people, forges or editors, by its name."""
    if any(fnmatchcase(path, one) for one in FURNITURE):
        return True
    name = path.rpartition("/")[2]
    suffix = name[name.rindex(".") :].lower() if "." in name[1:] else ""
    kinds = (*TEXTS, *PICTURES) if path.startswith(("doc/", "docs/")) else TEXTS
    return suffix in kinds and any(fnmatchcase(path, one) for one in FOR_PEOPLE)


AT_START = ("*.pth", "sitecustomize.py", "usercustomize.py", "*.dist-info/*", "*.egg-info/*")
COMPILED = (
    "*.so", "*.pyd", "*.dll", "*.dylib", "*.pyx", "*.pxd", "*.pxi", "*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hpp",
    "*.rs", "*.f", "*.f90", "*.pyc", "*.o", "*.a", "CMakeLists.txt", "meson.build", "Cargo.toml",
)  # fmt: skip
OF_GIT = (".gitattributes", ".gitmodules")
LINK, SUBMODULE = "120000", "160000"


def why(path: str, modes: tuple[str, str]) -> str:
    """Why a change of a path may reach any test; empty where it can be followed."""
    name = path.rpartition("/")[2]
    if SUBMODULE in modes:
        return "a submodule: what is in it is not read"
    if LINK in modes:
        return "a symbolic link: what is found through it is not followed"
    if any("\udc80" <= char <= "\udcff" for char in path):
        return "its name is not UTF-8"
    for patterns, said in (
        (CONFIGURATION, "configuration: it may change how anything is built, found or run"),
        (AT_START, "read when Python starts"),
        (COMPILED, "compiled code, or source of it: who uses it cannot be read"),
        (OF_GIT, "it changes what git checks out"),
    ):
        if any(fnmatchcase(name, one) or ("/" in one and fnmatchcase(path, f"*{one}")) for one in patterns):
            return said
    return ""


def through_links(path: str, links: dict[str, str]) -> str:
    """Why a change below the target of a symbolic link may be seen under another name. `links`: path to target."""
    for link, target in links.items():
        if path == target or path.startswith(f"{target}/") or target == "":
            return f"it is also {link}, by a symbolic link"
    return ""
