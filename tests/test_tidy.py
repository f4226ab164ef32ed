"""The architecture, kept: wings and their order, sizes, the one list of commands. The lists of exceptions only shrink.

Each test collects all its offenders and names them; nothing is parametrised over files.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ktxkit.gates.rules import swallow
from ktxkit.ledger.asking import PUBLIC_QUESTIONS

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "ktxkit").rglob("*.py"))
DOCUMENTS = ROOT / "ktxkit" / "base" / "documents.py"
COMMANDS = sorted((ROOT / "commands").glob("ktx_*.py"))
STARTER = "ktx_start"  # what console scripts start; it is no command
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS: dict[str, str] = PYPROJECT["project"]["scripts"]

# The wings, lowest first; a wing imports those on lines above its own, and its own.
WINGS = (
    ("base",),
    ("git",),
    ("store",),
    ("observer", "gates"),
    ("work",),
    ("ledger",),
    ("claims", "affected", "ingest"),
    ("app",),
)
LEVEL = {wing: level for level, wings in enumerate(WINGS) for wing in wings}

# Imports that run up, each with its reason: importing module, imported module.
UPWARD: dict[tuple[str, str], str] = {
    ("ktxkit.git.neutral", "ktxkit.store.store"): "the type of what it is given alone",
    ("ktxkit.ledger.recording.opening", "ktxkit.affected.traced.begin"): "a traced run says so in its record",
    ("ktxkit.observer.observe", "ktxkit.work.attic"): "what a suspended unit has is kept before its lease ends",
}
# Import circles: one module cut in two for a limit of lines.
CIRCLES: set[frozenset[str]] = set()

# What rules may import of the standard library: nothing with a clock, file, process or environment.
PURE = {
    "__future__", "array", "ast", "base64", "bisect", "builtins", "collections", "copy", "dataclasses", "datetime",
    "difflib", "enum", "fnmatch", "functools", "graphlib", "hashlib", "heapq", "html", "itertools", "json", "math",
    "operator", "re", "shlex", "statistics", "string", "struct", "textwrap", "tokenize", "tomllib", "typing",
    "unicodedata", "urllib.parse", "warnings",
}  # fmt: skip
PURE_PACKAGES = {"_ruamel_yaml", "blake3", "markdown_it", "mdit_py_plugins", "ruamel", "sqlglot"}
HEAVY = {
    "_ruamel_yaml", "dulwich", "fastjsonschema", "jsonschema", "jsonschema_rs", "jsonschema_specifications",
    "markdown_it", "referencing", "rich", "ruamel", "sqlglot",
}  # fmt: skip
VALIDATORS = {"jsonschema", "jsonschema_rs", "fastjsonschema", "jsonschema_specifications", "referencing"}
PROCESSES = {"subprocess", "pty", "multiprocessing"}
MAY_START = ("ktxkit/git/git.py", "ktxkit/base/process.py")

# Longer than the limits, each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
LONG_FILES: dict[str, str] = {
    "ktxkit/base/documents.py": "written from schemas/; nobody reads it from top to bottom",
}
# `dict[str, Any]` (and `Document`, which is it) of each file: what no TypedDict tells. Only foreign JSON and rows stay.
DICTS = {
    "ktxkit/affected/configuration.py": 11,
    "ktxkit/affected/proof.py": 3,
    "ktxkit/affected/rules/graph.py": 2,
    "ktxkit/affected/rules/project.py": 1,
    "ktxkit/affected/rules/reach.py": 1,
    "ktxkit/affected/rules/runtime_trace.py": 1,
    "ktxkit/affected/rules/scopes.py": 2,
    "ktxkit/affected/test_run.py": 5,
    "ktxkit/app/banner.py": 3,
    "ktxkit/app/commands.py": 1,
    "ktxkit/app/doctor.py": 1,
    "ktxkit/app/pages.py": 6,
    "ktxkit/app/requests.py": 2,
    "ktxkit/app/running.py": 1,
    "ktxkit/app/spans.py": 7,
    "ktxkit/base/contracts.py": 5,
    "ktxkit/base/errors.py": 1,
    "ktxkit/base/rules/digests.py": 2,
    "ktxkit/base/rules/plain_validity.py": 1,
    "ktxkit/base/validators.py": 1,
    "ktxkit/gates/checking.py": 5,
    "ktxkit/gates/fixing.py": 1,
    "ktxkit/gates/configuration.py": 6,
    "ktxkit/gates/facts.py": 1,
    "ktxkit/gates/hooks.py": 3,
    "ktxkit/gates/judging.py": 7,
    "ktxkit/gates/rules/artifacts.py": 1,
    "ktxkit/gates/rules/findings.py": 5,
    "ktxkit/gates/rules/formats.py": 11,
    "ktxkit/gates/rules/groups.py": 1,
    "ktxkit/gates/rules/markdown.py": 2,
    "ktxkit/gates/rules/model.py": 1,
    "ktxkit/gates/rules/prune.py": 1,
    "ktxkit/gates/rules/scope.py": 3,
    "ktxkit/gates/rules/source.py": 1,
    "ktxkit/gates/rules/sources.py": 1,
    "ktxkit/ingest/account.py": 18,
    "ktxkit/ingest/cache.py": 6,
    "ktxkit/ingest/connectors/metabase.py": 3,
    "ktxkit/ingest/ending.py": 8,
    "ktxkit/ingest/knowledge.py": 3,
    "ktxkit/ingest/planning.py": 13,
    "ktxkit/ingest/projecting.py": 2,
    "ktxkit/ingest/provenance.py": 2,
    "ktxkit/ingest/rules/artifacts.py": 3,
    "ktxkit/ingest/rules/dbt.py": 5,
    "ktxkit/ingest/rules/dbt_sources.py": 2,
    "ktxkit/ingest/rules/metabase_cards.py": 8,
    "ktxkit/ingest/rules/metabase_sources.py": 1,
    "ktxkit/ingest/rules/metabase_units.py": 3,
    "ktxkit/ingest/run.py": 3,
    "ktxkit/ingest/staging.py": 5,
    "ktxkit/ingest/workers/pages.py": 2,
    "ktxkit/ledger/answers.py": 8,
    "ktxkit/ledger/asking.py": 6,
    "ktxkit/claims/gate.py": 1,
    "ktxkit/ledger/exports.py": 7,
    "ktxkit/ledger/importing.py": 4,
    "ktxkit/ledger/index_file.py": 1,
    "ktxkit/ledger/recording/attempts.py": 11,
    "ktxkit/ledger/recording/opening.py": 12,
    "ktxkit/ledger/recording/recorder.py": 2,
    "ktxkit/ledger/recording/selection.py": 3,
    "ktxkit/ledger/rules/evidence.py": 2,
    "ktxkit/ledger/rules/fold.py": 6,
    "ktxkit/ledger/rules/importers.py": 1,
    "ktxkit/ledger/rules/payload.py": 3,
    "ktxkit/ledger/rules/rows.py": 1,
    "ktxkit/observer/attach.py": 3,
    "ktxkit/observer/rules/projection.py": 9,
    "ktxkit/observer/status.py": 1,
    "ktxkit/store/rules/trace.py": 1,
    "ktxkit/store/store.py": 2,
    "ktxkit/store/tracing.py": 2,
    "ktxkit/work/appending.py": 2,
    "ktxkit/work/job/prepare.py": 2,
    "ktxkit/work/job/state.py": 2,
}
# Calls of git (`ok=None`) that take any status for an answer, of each file: a status that git has for a no is named.
ANY_STATUS = {
    "ktxkit/gates/hooks.py": 1,
    "ktxkit/git/checkout.py": 1,
    "ktxkit/git/child.py": 1,
    "ktxkit/git/merging.py": 3,
    "ktxkit/git/neutral.py": 1,
    "ktxkit/git/objects.py": 2,
    "ktxkit/git/repository.py": 2,
    "ktxkit/git/snapshot.py": 3,
    "ktxkit/git/staging.py": 2,
    "ktxkit/store/worktrees.py": 5,
    "ktxkit/work/adhoc.py": 1,
    "ktxkit/work/job/guard.py": 2,
    "ktxkit/work/target.py": 1,
    "ktxkit/work/verification.py": 2,
}
FUNCTION_LIMIT, COMMAND_LIMIT, FILE_LIMIT = 40, 100, 500


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in LIBRARY}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path, *, top_level: bool = False) -> list[tuple[str, int]]:
    """Every imported module with its line; with `top_level`, only what is imported when the module is."""
    tree = tree_of(path)
    lazy = set(_lazy(tree)) if top_level else set()
    found = []
    for node in ast.walk(tree):
        if node in lazy:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            found.append((node.module or "", node.lineno))
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def _lazy(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node):
            yield from ast.walk(node)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def edges(path: Path) -> set[str]:
    """The modules of the library that a file imports, wherever in it."""
    here = module_of(path)
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return {module for module in found if module in MODULES and module != here}


def wing_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def matches(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def wrong_imports(paths: list[Path], names: set[str], *, top_level: bool = False) -> list[str]:
    return [
        f"{name_of(path)}:{line}: {module}"
        for path in paths
        for module, line in imports(path, top_level=top_level)
        if matches(module, names)
    ]


def test_every_file_is_in_a_wing() -> None:
    places = {wing_of(module) for module in MODULES} - {""}
    assert places == set(LEVEL)
    assert [name for name in MODULES if name.count(".") == 1 and MODULES[name].name != "__init__.py"] == []


def test_no_import_runs_up() -> None:
    found = {
        (module, imported)
        for module, path in MODULES.items()
        for imported in edges(path)
        if wing_of(imported)
        and wing_of(module) != wing_of(imported)
        and LEVEL[wing_of(imported)] >= LEVEL[wing_of(module)]
    }
    assert found == set(UPWARD)
    assert len(UPWARD) <= 5


def test_no_import_circle() -> None:
    """Whoever reaches itself through imports, lazy ones included."""
    assert {frozenset(one) for one in circles()} == CIRCLES


def circles() -> list[set[str]]:
    """Strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in edges(MODULES[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            component = set(stack[stack.index(module) :])
            del stack[stack.index(module) :]
            if len(component) > 1:
                found.append(component)

    for module in MODULES:
        if module not in index:
            visit(module)
    return found


def test_no_wing_is_the_house() -> None:
    lines = dict.fromkeys(LEVEL, 0)
    for module, path in MODULES.items():
        if wing_of(module):
            lines[wing_of(module)] += path.read_text().count("\n")
    total = sum(lines.values())
    assert {wing: round(100 * n / total, 1) for wing, n in lines.items() if n > 0.16 * total} == {}


def test_the_house_has_few_rooms() -> None:
    """More files than these, and nobody knows where a thing is: merge what is one thing."""
    assert len(MODULES) <= 260  # only shrinks


def test_rules_are_pure() -> None:
    rules = [path for path in LIBRARY if "rules" in path.parts]
    assert len(rules) > 80
    wrong = [
        f"{name_of(path)}:{line}: {module}"
        for path in rules
        for module, line in imports(path)
        if module != "ktxkit" and not _is_pure(module)
    ]
    wrong += [
        f"{name_of(path)}:{node.lineno}: {node.func.id}()"
        for path in rules
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}
    ]
    assert wrong == []


def _is_pure(module: str) -> bool:
    parts = module.split(".")
    if parts[0] == "ktxkit":
        return matches(module, {"ktxkit.base.errors", "ktxkit.base.documents"}) or parts[2:3] == ["rules"]
    return matches(module, PURE | PURE_PACKAGES)


def test_only_two_start_processes_and_one_validates() -> None:
    assert wrong_imports([p for p in LIBRARY + COMMANDS if name_of(p) not in MAY_START], PROCESSES) == []
    assert wrong_imports([p for p in LIBRARY + COMMANDS if name_of(p) != "ktxkit/base/validators.py"], VALIDATORS) == []
    rest = [p for p in LIBRARY + COMMANDS if name_of(p) != "ktxkit/base/contracts.py"]
    assert wrong_imports(rest, {"ktxkit.base.validators"}) == []


def test_heavy_imports_are_late() -> None:
    assert wrong_imports(LIBRARY + COMMANDS, HEAVY, top_level=True) == []


def test_options_end_in_the_command() -> None:
    below = [path for path in LIBRARY if wing_of(module_of(path)) != "app"]
    assert wrong_imports(below, {"argparse"}) == []


def test_a_job_is_not_its_document_beside_a_world() -> None:
    """Whatever works on a job takes the `ActiveJob`; what holds its branch is not handed on beside it."""
    pairs = [{"World", "Job"}, {"World", "ActiveJob"}, {"World", "HeldBranch"}, {"World", "IntegrationBranch"}]
    found = {
        f"{name_of(path)}:{node.name}"
        for path in LIBRARY + COMMANDS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
        and any(pair <= _types_of(node) for pair in (*pairs, {"ActiveJob", "IntegrationBranch"}))
    }
    assert found == {"ktxkit/store/active.py:__init__", "ktxkit/work/recover.py:holding"}


def _types_of(function: ast.FunctionDef) -> set[str]:
    arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return {word for one in arguments if one.annotation for word in ast.unparse(one.annotation).split(" | ")}


def test_gates_remember_nothing_in_a_module() -> None:
    """What they know of a repository lives in the command's GateCache; what is kept for the process is listed."""
    kept = {
        "ktxkit/gates/plugin.py:named": "what is installed",
        "ktxkit/gates/checking.py:directory": "the package's own pages",
        "ktxkit/gates/version.py:version_of": "what is installed",
        "ktxkit/gates/version.py:distributions": "what is installed",
        "ktxkit/gates/version.py:version": "what is installed",
    }
    found = set()
    for path in LIBRARY:
        if wing_of(module_of(path)) != "gates" or "rules" in path.parts:
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.List | ast.Set):
                found |= set() if ast.unparse(node.value) not in ("{}", "[]") else {f"{name_of(path)}:{node.lineno}"}
        for function in ast.walk(tree_of(path)):
            if isinstance(function, ast.FunctionDef) and "cache" in " ".join(map(ast.unparse, function.decorator_list)):
                found |= set() if _is_property(function) else {f"{name_of(path)}:{function.name}"}
    assert found == set(kept)


def _is_property(function: ast.FunctionDef) -> bool:
    return [ast.unparse(one) for one in function.decorator_list] == ["cached_property"]


def test_no_library_file_imports_a_command() -> None:
    assert [
        f"{name_of(path)}:{line}: {module}"
        for path in LIBRARY
        for module, line in imports(path)
        if module.startswith("ktx_")
    ] == []


def test_commands_are_sentences() -> None:
    wrong = []
    for path in COMMANDS:
        if path.stem == STARTER:
            continue
        wrong += [
            f"{name_of(path)}:{line}: {module}"
            for module, line in imports(path)
            if module.startswith("ktx_") or module in ("os", "time", "subprocess")
        ]
        doc = ast.get_docstring(tree_of(path)) or ""
        wrong += [
            f"{name_of(path)}: its docstring does not say what it {word}"
            for word in ("reads", "writes", "exits", "example")
            if f"\n{word}" not in doc
        ]
    assert wrong == []


def test_no_exception_is_swallowed() -> None:
    """Our own gate on our own sources, tests and bench included; each waiver has its reason."""
    folders = ("ktxkit", "commands", "tests", "tools", "bench", "hooks")
    places = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(places) > 300
    told = [f"{name_of(path)}:{one.line} {one.rule}" for path in places for one in swallow.judge(path.read_bytes())]
    assert told == []


def test_sizes_of_files() -> None:
    long = {
        name_of(path): lines
        for path in LIBRARY + COMMANDS
        if (lines := path.read_text().count("\n")) > (COMMAND_LIMIT if path in COMMANDS else FILE_LIMIT)
    }
    assert set(long) == set(LONG_FILES), long


def test_sizes_of_functions() -> None:
    long = {
        f"{name_of(path)}:{node.name}": lines
        for path in LIBRARY + COMMANDS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LIMIT
    }
    assert set(long) == set(LONG_FUNCTIONS), long


def test_open_dicts_only_shrink() -> None:
    """A file has no more of them than are listed; who takes one out lowers its number."""
    found = {name_of(path): sum(map(_is_open_dict, ast.walk(tree_of(path)))) for path in LIBRARY if path != DOCUMENTS}
    assert {name: count for name, count in found.items() if count > DICTS.get(name, 0)} == {}
    assert set(DICTS) - {name for name, count in found.items() if count} == set()


def _is_open_dict(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return ast.unparse(node) == "dict[str, Any]"
    return isinstance(node, ast.Name) and node.id == "Document" and isinstance(node.ctx, ast.Load)


def test_what_takes_any_status_of_git_for_an_answer_only_shrinks() -> None:
    """A failed git is no verdict and no absence: `ok` names the statuses that are, `twice` those that may be either."""
    found = {name_of(path): sum(map(_takes_any_status, ast.walk(tree_of(path)))) for path in LIBRARY}
    assert {name: count for name, count in found.items() if count > ANY_STATUS.get(name, 0)} == {}
    assert set(ANY_STATUS) - {name for name, count in found.items() if count} == set()


def _takes_any_status(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return any(word.arg == "ok" and "None" in ast.unparse(word.value) for word in node.keywords)


def test_the_list_of_commands_is_whole() -> None:
    assert {name: f"{STARTER}:{name.replace('-', '_')}" for name in SCRIPTS} == SCRIPTS
    modules = {STARTER, *(f"ktx_{name.replace('-', '_')}" for name in SCRIPTS)}
    assert modules == {path.stem for path in COMMANDS}
    assert modules == set(PYPROJECT["tool"]["setuptools"]["py-modules"])
    packages = {".".join(p.parent.relative_to(ROOT).parts) for p in LIBRARY if p.name == "__init__.py"}
    mapped = {"ktxkit.doc_pages", "ktxkit.hooks", "ktxkit.rule_pages", "ktxkit.schemas"}
    assert packages | mapped == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_every_entry_point_leads_somewhere() -> None:
    for group in PYPROJECT["project"]["entry-points"].values():
        for target in group.values():
            assert target.partition(":")[0] in MODULES, target


def test_every_command_is_documented() -> None:
    readme = (ROOT / "README.md").read_text()
    missing = [f"README.md does not name {name}" for name in SCRIPTS if f"`{name}`" not in readme]
    missing += [
        f"docs/commands/{name}.md is missing"
        for name in SCRIPTS
        if not (ROOT / "docs" / "commands" / f"{name}.md").is_file()
    ]
    assert missing == []


def test_what_comes_with_it_is_documented() -> None:
    """The gates, connectors and questions that docs/design.md says where to add: each is named in its page."""
    groups = PYPROJECT["project"]["entry-points"]
    pages = {
        "docs/gates-config.md": groups["ktxkit.gates"],
        "docs/commands/ingest-run.md": groups["ktxkit.connectors"],
        "docs/commands/ledger-query.md": PUBLIC_QUESTIONS,
    }
    missing = [
        f"{page} does not name {name}"
        for page, named in pages.items()
        for name in named
        if not re.search(rf"[` ]{re.escape(name)}[` ]", (ROOT / page).read_text())
    ]
    assert missing == []
