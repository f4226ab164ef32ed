"""The architecture, kept: directions, sizes, the one list of commands. The lists of exceptions only shrink."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from ktxkit.core.gates import swallow

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "ktxkit").rglob("*.py"))
COMMANDS = sorted((ROOT / "commands").glob("ktx_*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS: dict[str, str] = PYPROJECT["project"]["scripts"]

# What the pure core may import of the standard library: nothing with a clock, file, process or environment.
PURE = {
    "__future__", "array", "ast", "base64", "bisect", "builtins", "collections", "copy", "dataclasses", "difflib",
    "enum",
    "fnmatch", "functools", "graphlib", "hashlib", "heapq", "html", "itertools", "json", "math", "operator", "re",
    "string", "textwrap", "tokenize", "tomllib", "typing", "unicodedata", "warnings", "urllib.parse", "datetime",
    "statistics", "struct",
}  # fmt: skip
PURE_PACKAGES = {"_ruamel_yaml", "blake3", "markdown_it", "mdit_py_plugins", "ruamel", "sqlglot"}
HEAVY = {
    "_ruamel_yaml",
    "jsonschema",
    "jsonschema_rs",
    "jsonschema_specifications",
    "referencing",
    "fastjsonschema",
    "dulwich",
    "ruamel",
    "markdown_it",
    "sqlglot",
    "rich",
}

# Longer than the limits, each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
LONG_FILES: dict[str, str] = {
    "ktxkit/base/documents.py": "written from schemas/; nobody reads it from top to bottom",
}
FUNCTION_LIMIT, COMMAND_LIMIT, FILE_LIMIT = 40, 100, 300


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path, *, top_level: bool = False) -> list[tuple[str, int]]:
    """Every imported module with its line; with `top_level`, only what is imported when the module is."""
    tree = ast.parse(path.read_text())
    lazy = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if top_level and node in lazy:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            found.append((node.module or "", node.lineno))
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def matches(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


@pytest.mark.parametrize("path", [p for p in LIBRARY if "core" in p.parts], ids=name_of)
def test_core_is_pure(path: Path) -> None:
    allowed = PURE | PURE_PACKAGES | {"ktxkit.core", "ktxkit.errors"}
    wrong = [f"{m} (line {n})" for m, n in imports(path) if not matches(m, allowed) and m != "ktxkit"]
    assert not wrong, f"{name_of(path)} imports {wrong}"
    calls = [
        f"{node.func.id} (line {node.lineno})"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}
    ]
    assert not calls, f"{name_of(path)} calls {calls}"


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_direction(path: Path) -> None:
    modules = imports(path)
    banned: set[str] = set()
    if "effects" in path.parts:
        banned = {"ktxkit.flows", "ktxkit.cli", "ktxkit.world", "ktxkit.commands"}
    elif "flows" in path.parts:
        banned = {"ktxkit.cli", "ktxkit.commands"}
    elif "connectors" in path.parts:  # they hand over raw files and values; what is done with them is a flow's
        banned = {"ktxkit.flows", "ktxkit.cli", "ktxkit.world", "ktxkit.commands", "ktxkit.workers"}
    elif "workers" in path.parts:  # each is a program of its own, started as a unit's command
        banned = {
            "ktxkit.flows",
            "ktxkit.effects",
            "ktxkit.cli",
            "ktxkit.world",
            "ktxkit.commands",
            "ktxkit.connectors",
        }
    elif path.name in ("contracts.py", "errors.py", "validators.py"):
        banned = {"ktxkit.flows", "ktxkit.effects", "ktxkit.cli", "ktxkit.world"}
    wrong = [f"{m} (line {n})" for m, n in modules if matches(m, banned) or m.startswith("ktx_")]
    assert not wrong, f"{name_of(path)} imports {wrong}"


@pytest.mark.parametrize("path", LIBRARY + COMMANDS, ids=name_of)
def test_only_two_start_processes_and_one_validates(path: Path) -> None:
    modules = [m for m, _ in imports(path)]
    if name_of(path) not in ("ktxkit/effects/git.py", "ktxkit/effects/process.py"):
        assert not [m for m in modules if matches(m, {"subprocess", "pty", "multiprocessing"})], name_of(path)
    if name_of(path) != "ktxkit/validators.py":
        validators = {"jsonschema", "jsonschema_rs", "fastjsonschema", "jsonschema_specifications", "referencing"}
        assert not [m for m in modules if matches(m, validators)], name_of(path)
    if name_of(path) != "ktxkit/contracts.py":
        assert not [m for m in modules if matches(m, {"ktxkit.validators"})], name_of(path)


@pytest.mark.parametrize("path", LIBRARY + COMMANDS, ids=name_of)
def test_heavy_imports_are_late(path: Path) -> None:
    heavy = [f"{m} (line {n})" for m, n in imports(path, top_level=True) if matches(m, HEAVY)]
    assert not heavy, f"{name_of(path)} imports at its top level {heavy}"


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_commands_are_sentences(path: Path) -> None:
    wrong = [f"{m} (line {n})" for m, n in imports(path) if m.startswith("ktx_") or m in ("os", "time", "subprocess")]
    assert not wrong, f"{name_of(path)} imports {wrong}"
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    for word in ("reads", "writes", "exits", "example"):
        assert f"\n{word}" in doc, f"{name_of(path)}: its docstring does not say what it {word}"


def test_no_exception_is_swallowed() -> None:
    """Our own gate on our own sources, tests and bench included; each waiver has its reason."""
    folders = ("ktxkit", "commands", "tests", "tools", "bench", "hooks")
    places = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(places) > 400
    told = [f"{name_of(path)}:{one.line} {one.rule}" for path in places for one in swallow.judge(path.read_bytes())]
    assert told == []


@pytest.mark.parametrize("path", LIBRARY + COMMANDS, ids=name_of)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    limit = COMMAND_LIMIT if "commands" in path.parts else FILE_LIMIT
    length = text.count("\n")
    assert (length > limit) == (name_of(path) in LONG_FILES), f"{name_of(path)} has {length} lines (limit {limit})"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            key = f"{name_of(path)}:{node.name}"
            assert (lines > FUNCTION_LIMIT) == (key in LONG_FUNCTIONS), f"{key} has {lines} lines"


def test_the_list_of_commands_is_whole() -> None:
    modules = {entry.partition(":")[0] for entry in SCRIPTS.values()}
    assert modules == {path.stem for path in COMMANDS}
    assert modules == set(PYPROJECT["tool"]["setuptools"]["py-modules"])
    packages = {".".join(p.parent.relative_to(ROOT).parts) for p in LIBRARY if p.name == "__init__.py"}
    mapped = {"ktxkit.hooks", "ktxkit.rule_pages", "ktxkit.schemas"}
    assert packages | mapped == set(PYPROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_every_command_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "README.md").read_text(), f"README.md does not name {name}"
    assert (ROOT / "docs" / "commands" / f"{name}.md").is_file(), f"docs/commands/{name}.md is missing"
