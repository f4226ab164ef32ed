"""What names cannot tell: imports by a string, source that is run, processes, files, the environment.

What is written as a literal is taken from it; a pattern is kept as one; the rest is marked `opaque`, with what it does:
whoever reaches it can never be left out.

What imports, runs, unpickles or reads by a name, as a value: under another name, in a table, given to `map`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import pairwise
from typing import Protocol

from ktxkit.affected.rules import literals
from ktxkit.affected.rules.scopes import ANYTHING, OWN, Alias, Aliases, Scope, Units, UsageSink, aliases_of

IMPORTERS = {
    "import_module", "__import__", "run_module", "find_spec", "import_string", "resolve_name", "importorskip",
    "find_module", "load_module", "import_object", "import_by_path", "autodiscover_modules",
}  # fmt: skip
BY_PATH = {"run_path", "spec_from_file_location", "SourceFileLoader", "load_source", "execfile", "ExtensionFileLoader"}
RUN = {"exec", "eval"}
LISTERS = {"listdir", "scandir", "iterdir", "copytree", "fwalk"}
GLOBS = {"glob", "iglob", "rglob"}
READERS = {"open", "read_text", "read_bytes", "open_text", "open_binary", "get_data", "files", "joinpath", "FileIO"}
STARTERS = {
    "Popen", "check_call", "check_output", "system", "popen", "getoutput", "getstatusoutput", "posix_spawn", "spawn",
    "spawnv", "spawnl", "spawnvp", "spawnlp", "execv", "execve", "execvp", "execvpe", "execl", "execlp", "run_module",
    "create_subprocess_exec", "create_subprocess_shell", "compile_dir", "compile_path", "pytester", "runpytest",
    "runpytest_inprocess", "runpytest_subprocess", "inline_run", "inline_runsource", "runpython", "runpython_c",
}  # fmt: skip
RUNNERS, RUN_BY = {"run", "call", "main", "cmd"}, {"subprocess", "pytest", "invoke", "sh", "pexpect", "plumbum", "nox"}
OF_SOURCE = {
    "getsource", "getsourcelines", "findsource", "getsourcefile", "getlines", "getcomments", "getblock", "getline",
    "getfile", "getabsfile", "co_filename", "co_code",
}  # fmt: skip
# What tells on which line something stands or runs, and with it the text of that line.
OF_LINES = {
    "tb_lineno", "co_firstlineno", "f_lineno", "extract_stack", "extract_tb", "currentframe", "getframeinfo",
    "co_lines", "co_positions", "walk_stack", "walk_tb", "format_exc", "format_tb", "format_exception", "format_stack",
    "print_exc", "print_exception", "print_stack", "print_tb", "TracebackException", "StackSummary",
    "getouterframes", "getinnerframes",
}  # fmt: skip
NUMBERS = {"lineno", "tb_lineno", "f_lineno", "co_firstlineno", "co_lines", "co_positions"}
OF_DOCS = {"getdoc", "render_doc"}
# Packages that make something of the docstrings of what they are given: help, schemas, descriptions.
DOC_READERS = {
    "fire", "typer", "click", "docopt", "argh", "plac", "cyclopts", "defopt", "pydantic", "fastapi", "strawberry",
    "graphene", "apispec", "sphinx", "griffe", "pydoc", "cmd", "cmd2", "mcp", "fastmcp", "langchain", "openai",
    "doctest", "rich_click", "cloup", "clize", "invoke", "flask_restx", "docstring_parser", "numpydoc", "cappa", "tyro",
}  # fmt: skip
# Of these a lone dot is no directory.
OF_TEXTS = {
    "split", "rsplit", "join", "partition", "rpartition", "replace", "startswith", "endswith", "strip", "lstrip",
    "rstrip", "count", "index", "find", "rfind", "append", "add", "removeprefix", "removesuffix", "print", "write",
}  # fmt: skip
# What knows where the tree is: listings may begin there.
PLACES = {
    "getcwd", "getcwdb", "cwd", "curdir", "pardir", "rootpath", "rootdir", "startpath", "invocation_dir", "fspath",
    "invocation_params", "__path__", "submodule_search_locations", "files", "resource_listdir", "contents", "inipath",
    "iter_modules", "walk_packages",
}  # fmt: skip
SOURCE_MODULES = {"inspect", "linecache", "traceback"}  # where the names of calls among them are imported from
FOLDERS = {"dirname", "with_name", "with_suffix"}  # of `__file__` they take no content
PATCHERS, PATCHED_BY = {"patch"}, {"mock", "unittest", "pytest_mock", "mocker", "asynctest"}
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "jsonpickle"}
UNPICKLERS = {"load", "loads", "Unpickler", "open", "decode"}
FIXTURES = {"usefixtures", "getfixturevalue", "getfuncargvalue", "lazy_fixture", "lf"}
ENTRIES = {"entry_points", "iter_entry_points"}
OF_TEST = {"request", "metafunc", "item", "pyfuncitem", "_pyfuncitem", "collector"}
CONDITIONS = {"skipif", "xfail"}
TEXT_EXAMPLES = {"testfile", "DocFileSuite", "DocFileTest"}
OWN_NAMES = {"__name__", "__package__", "__file__"}
OPAQUE = "opaque"
CONSUMED = "ktx_taken"  # on a node whose parent said what is taken of it


class Walker(Protocol):
    """What these need of a `Visitor`."""

    sink: UsageSink
    aliases: Aliases

    def all(self, nodes: Iterable[ast.AST | None], units: Units, scope: Scope = ()) -> None: ...

    def annotation(self, node: ast.AST | None, units: Units, scope: Scope) -> None: ...


def name_of(node: ast.AST) -> str:
    """The last name of what is called or subscripted."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def call(visitor: Walker, node: ast.Call, units: Units, scope: Scope) -> None:
    """What a call does besides using its parts."""
    name = _called(visitor, node.func, scope)
    setattr(node.func, CONSUMED, True)
    if name in IMPORTERS:
        _import(visitor, node, units)
    elif name in BY_PATH:
        _opaque_unless_named(visitor, node, units, "runs a file of a computed name")
    elif name in RUN and (isinstance(node.func, ast.Name) or origin_of(visitor, node.func) == "builtins"):
        _run_source(visitor, node, units)
    elif name in LISTERS or (name == "walk" and _walks_files(visitor, node)):
        visitor.sink.mark("does", "lists", units)
    elif name in GLOBS:
        if literals.is_open(_first(node)):
            visitor.sink.mark("does", "lists", units)
    elif name in READERS:
        _read(visitor, node, units)
    elif name in FIXTURES:
        for argument in node.args:
            visitor.sink.mark("parameters", _constant(argument) or ANYTHING, units)
            visitor.sink.mark("asks", _constant(argument) or ANYTHING, units)
    elif name in ENTRIES:
        groups = [_constant(one.value) for one in node.keywords if one.arg == "group"] or [""]
        visitor.sink.mark("entries", groups[0] or ANYTHING, units)
    elif name == "vars" and not node.args:
        visitor.sink.use(ANYTHING, OWN, units)
    elif name in FOLDERS:
        _only_place(node)
    elif name == "getmodule":
        visitor.sink.mark(OPAQUE, "takes the module of a value", units)
    elif name in ("runsource", "runcode"):
        visitor.sink.mark(OPAQUE, "runs source that it is given", units)
    _named_by_text(visitor, node, units, name)
    if name in STARTERS or name in BY_PATH or (name in RUNNERS and origin_of(visitor, node.func) in RUN_BY):
        visitor.sink.mark("does", "starts", units)
    of_environ = _is_environ(getattr(node.func, "value", None))
    if name in ("getenv", "getenvb") or of_environ:
        if isinstance(node.func, ast.Attribute):
            setattr(node.func.value, CONSUMED, True)
        visitor.sink.mark("environment", (_constant(node.args[0]) if node.args else "") or ANYTHING, units)


def _begins_here(visitor: Walker, node: ast.Call, name: str) -> bool:
    """Whether a listing, or a path, begins in the directory that the program runs in."""
    if name not in LISTERS | GLOBS | {"walk", "Path", "PurePath", "abspath", "realpath", "chdir"}:
        return False
    if not node.args:
        return name in ("Path", "PurePath") or origin_of(visitor, node.func) == "os"
    written = not any(isinstance(one, ast.Name | ast.Attribute) for one in ast.walk(node.args[0]))
    of_a_path = isinstance(node.func, ast.Attribute) and origin_of(visitor, node.func) not in ("os", "glob")
    return written and not (name in GLOBS and of_a_path)


def _called(visitor: Walker, node: ast.expr, scope: Scope) -> str:
    """What is called, by the name that it has where it is from."""
    if isinstance(node, ast.Name):
        known = aliases_of(scope, node.id)
        aliases = known if isinstance(known, tuple) else visitor.aliases.get(node.id, ()) if known is None else ()
        return next((alias.name for alias in aliases if alias.name), node.id)
    return name_of(node)


def _named_by_text(visitor: Walker, node: ast.Call, units: Units, name: str) -> None:
    """What a string names that is put together, what bytes name, and a place that is written nowhere."""
    if name in PLACES or _begins_here(visitor, node, name):
        visitor.sink.mark("does", "knows the place", units)
    first = node.args[0] if node.args else next((one.value for one in node.keywords if one.arg == "target"), None)
    root = literals.root_of(node.func)
    origin = origin_of(visitor, node.func)
    patches = name in PATCHERS and (origin in PATCHED_BY or root in PATCHED_BY)
    replaces = name in ("setattr", "delattr") and isinstance(node.func, ast.Attribute)
    if (patches or replaces) and first is not None and literals.is_composed(first):
        visitor.sink.mark(OPAQUE, "replaces something of a computed name", units)
    elif name in TEXT_EXAMPLES:
        visitor.sink.mark(OPAQUE, "runs the examples of a text", units)
    elif name == "DocTestSuite" and first is not None and _constant(first):
        visitor.sink.use(ANYTHING, _constant(first), units)
    elif name == "filterwarnings" and first is not None and ":" in _constant(first):
        for part in _constant(first).split(":"):  # without its category no test of the session is run
            if literals.dotted(part.strip()):
                visitor.sink.mark("warned", part.strip(), units)
    elif name in CONDITIONS and first is not None and _constant(first):
        visitor.annotation(first, units, ())  # evaluated among the names of the test's module
    elif name == "multiple" and (origin in PATCHED_BY or root in PATCHED_BY) and first is not None and _constant(first):
        visitor.sink.use(ANYTHING, _constant(first), units)
        for one in node.keywords:
            visitor.sink.use(one.arg or ANYTHING, _constant(first), units)
    elif name == "locate" and origin == "pydoc" and literals.is_open(_first(node)):
        visitor.sink.mark(OPAQUE, "imports a module of a computed name", units)
    elif name == "dictConfig" and any(literals.is_composed(part) for one in node.args for part in ast.walk(one)):
        visitor.sink.mark(OPAQUE, "configures logging with a computed name", units)
    elif name in UNPICKLERS and origin in PICKLES:
        visitor.sink.mark(OPAQUE, "unpickles: what is named is in the bytes", units)


def attribute(visitor: Walker, node: ast.Attribute, units: Units) -> None:
    """Attributes that reach further than their value."""
    if node.attr.startswith("test"):
        visitor.sink.mark("tests", node.attr, units)
    if node.attr == "__subclasses__":
        visitor.sink.mark(OPAQUE, "asks a class for its subclasses", units)
    elif node.attr in ("__globals__", "f_globals"):
        visitor.sink.mark(OPAQUE, "takes the names of a function's module", units)
    elif node.attr in ("parent", "parents"):
        _only_place(node)
    elif node.attr in ("__file__", "__spec__", "__loader__") and not hasattr(node, CONSUMED):
        visitor.sink.mark("does", "reads source", units)
    elif node.attr == "lineno":
        visitor.sink.mark("does", "tells lines", units)
    elif node.attr == "module" and name_of(node.value) in OF_TEST:
        visitor.sink.mark("does", "takes the test's module", units)
    elif node.attr in ("doctestmodules", "doctestglob"):
        visitor.sink.mark("does", "collects otherwise", units)
    elif node.attr == "entry_points":
        visitor.sink.mark("entries", ANYTHING, units)
    elif node.attr == "fixturenames":
        visitor.sink.mark("parameters", ANYTHING, units)
    elif node.attr in OF_SOURCE:
        visitor.sink.mark("does", "reads source", units)
    elif node.attr in OF_LINES:
        visitor.sink.mark("does", "tells where", units)
    elif node.attr == "__doc__" or node.attr in OF_DOCS:
        visitor.sink.mark("does", "reads docs", units)
    if node.attr in PLACES or node.attr in ("__file__", "__spec__", "__loader__"):
        visitor.sink.mark("does", "knows the place", units)
    if node.attr in NUMBERS:
        visitor.sink.mark("does", "looks at a traceback", units)
    elif _is_environ(node) and not hasattr(node, CONSUMED):
        visitor.sink.mark("environment", ANYTHING, units)


def _only_place(node: ast.AST) -> None:
    """Below a node `__file__` says where something is, not what is in it."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and one.attr == "__file__":
            setattr(one, CONSUMED, True)


def subscript(visitor: Walker, node: ast.Subscript, units: Units) -> None:
    """`os.environ[...]` and `sys.modules[...]`."""
    if _is_environ(node.value):
        setattr(node.value, CONSUMED, True)
        visitor.sink.mark("environment", _constant(node.slice) or ANYTHING, units)
    elif name_of(node.value) == "modules" and isinstance(node.ctx, ast.Load):
        named = _constant(node.slice)
        if named:
            visitor.sink.use(ANYTHING, named, units)
            visitor.sink.mark("imports", named, units)
        elif name_of(node.slice) in OWN_NAMES:
            visitor.sink.use(ANYTHING, OWN, units)
        else:
            visitor.sink.mark(OPAQUE, "takes a module of a computed name", units)


def started_module(visitor: Walker, elements: list[ast.expr], units: Units) -> None:
    """`-m` and what follows: a module that runs as a program; `-p`: a plugin of pytest's."""
    if any(_constant(one) in (".", "./") for one in elements):
        visitor.sink.mark("does", "here", units)
    for flag, named in pairwise(elements):
        if _constant(flag) not in ("-m", "-p") or (_constant(flag) == "-p" and not _constant(named)):
            continue
        text = _constant(named)
        if text and _constant(flag) == "-p":  # its fixtures and hooks are used by name
            visitor.sink.mark("imports", text, units)
            visitor.sink.use(ANYTHING, text, units)
        elif text:
            visitor.sink.mark("named", text, units)
        elif name_of(named) not in OWN_NAMES:
            visitor.sink.mark(OPAQUE, "starts a module of a computed name", units)


def _import(visitor: Walker, node: ast.Call, units: Units) -> None:
    first = _first(node)
    packages = [*node.args[1:2], *(one.value for one in node.keywords if one.arg == "package")]
    if first.startswith(".") and packages:
        if _constant(packages[0]):
            first = _constant(packages[0]) + first
        elif name_of(packages[0]) not in OWN_NAMES:
            first = literals.HOLE
    if not node.args and not node.keywords:
        return
    if name_of(node.args[0] if node.args else node) in OWN_NAMES:
        visitor.sink.use(ANYTHING, OWN, units)
    elif literals.is_open(first) or first.startswith("*"):
        if first.endswith("*.") or not first.startswith("."):
            visitor.sink.mark(OPAQUE, "imports a module of a computed name", units)
        else:  # f".{name}" of this package
            visitor.sink.mark("named", ".*", units)
            visitor.sink.use(ANYTHING, ".*", units)
    else:
        visitor.sink.mark("named", first, units)
        visitor.sink.use(ANYTHING, first, units)


def _run_source(visitor: Walker, node: ast.Call, units: Units) -> None:
    source = node.args[0] if node.args else node
    text = _constant(source)
    if not text:
        visitor.sink.mark(OPAQUE, f"runs computed source by {name_of(node.func)}", units)
        return
    try:
        visitor.all(ast.parse(text).body, units)
    except (SyntaxError, ValueError, RecursionError):
        visitor.sink.mark(OPAQUE, "runs source that cannot be read", units)


def _read(visitor: Walker, node: ast.Call, units: Units) -> None:
    """A file that is read. What is named is among the words; what is not may be any."""
    place = [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    inside = [part for one in place for part in ast.walk(one)]
    if any(isinstance(part, ast.Name) and part.id == "__file__" for part in inside):
        visitor.sink.mark("does", "reads source" if not _texts(inside) else "reads", units)
    elif not _texts(inside):
        visitor.sink.mark("does", "reads", units)


def _texts(nodes: list[ast.AST]) -> list[str]:
    texts = [one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [text for text in texts if "." in text or "/" in text]


def _opaque_unless_named(visitor: Walker, node: ast.Call, units: Units, what: str) -> None:
    parts = [part for one in node.args for part in ast.walk(one)]
    if not _texts(parts):
        visitor.sink.mark(OPAQUE, what, units)


def origin_of(visitor: Walker, node: ast.AST) -> str:
    """The package that the first name of a call was imported from; empty where it was not."""
    while isinstance(node, ast.Attribute):
        node = node.value
    name = node.id if isinstance(node, ast.Name) else ""
    return next((one.module.partition(".")[0] for one in visitor.aliases.get(name, ())), "")


def _walks_files(visitor: Walker, node: ast.Call) -> bool:
    """Whether a `walk` is through directories: `os.walk`, or that of a path."""
    origin = origin_of(visitor, node.func)
    known = {alias.module.partition(".")[0] for aliases in visitor.aliases.values() for alias in aliases}
    return origin == "os" or (not origin and not node.args and "pathlib" in known)


def _first(node: ast.Call) -> str:
    every = [*node.args[:1], *(one.value for one in node.keywords if one.arg in ("name", "pattern", "modname"))]
    return literals.pattern(every[0]) if every else literals.HOLE


def _constant(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_environ(node: ast.AST | None) -> bool:
    return node is not None and name_of(node) in ("environ", "environb")


RUNNING_MODULES = {"importlib", "runpy", "pkgutil", "imp"}


def passed_on(visitor: Walker, node: ast.Name | ast.Attribute, aliases: Iterable[Alias], units: Units) -> None:
    """What imports, runs, unpickles or reads by a name, as a value: whoever gets it calls it with any."""
    if hasattr(node, CONSUMED):
        return
    name, of = name_of(node), {origin_of(visitor, node)}
    if isinstance(node, ast.Name):
        every = list(aliases)
        of = {alias.module.partition(".")[0] for alias in every}
        name = next((alias.name or alias.module for alias in every), name)
    runs = name in IMPORTERS | BY_PATH | RUN | RUNNING_MODULES and of & (RUNNING_MODULES | {"builtins"})
    if runs or (name in RUN | {"__import__"} and not any(of)):
        visitor.sink.mark(OPAQUE, f"hands on {name}: what it is given is not known", units)
    elif name in UNPICKLERS and of & PICKLES:
        visitor.sink.mark(OPAQUE, "unpickles: what is named is in the bytes", units)
    elif (name == "open" and not any(of)) or (name in READERS - {"open", "files"} and of & {"pathlib", "io"}):
        visitor.sink.mark("does", "reads", units)
