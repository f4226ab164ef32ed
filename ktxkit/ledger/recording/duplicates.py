"""Tests that can never run: a second definition of the same name in one scope hides the first, and pytest sees one."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ktxkit.ledger.rules.payload import clean

_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)
SOURCE_LIMIT = 2 * 1024 * 1024  # bytes of a file that is looked at
SHOWN = 1000


def shadowed(items: Iterable[Any], root: Path) -> list[dict[str, Any]]:
    """Each hidden test function: `path`, `name`, `line` of the hidden one. Only files with a surplus are parsed."""
    functions: dict[tuple[Path, str], set[str]] = defaultdict(set)
    parent: Any = None  # module or class: what is asked for each test is not asked of it each time
    names: set[str] = set()
    for item in items:
        function = getattr(item, "originalname", None)
        if function:
            if item.parent is not parent:
                parent = item.parent
                names = functions[getattr(parent, "path", None) or Path(), getattr(parent, "nodeid", "")]
            names.add(function)
    seen: Counter[Path] = Counter()
    for (path, _), names in functions.items():
        seen[path] += len(names)
    found: list[dict[str, Any]] = []
    for path, collected in sorted(seen.items(), key=lambda pair: str(pair[0])):
        if path.suffix == ".py" and len(found) < SHOWN:
            found += _of_file(path, collected, root)
    return found[:SHOWN]


def _of_file(path: Path, collected: int, root: Path) -> Iterator[dict[str, Any]]:
    try:
        source = path.read_bytes()
        if len(source) > SOURCE_LIMIT or len(_DEF.findall(source)) <= collected:
            return
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # gate-ok: what cannot be read here was collected some other way
    name = clean(str(path.relative_to(root) if path.is_relative_to(root) else path))[0]
    classes: list[ast.Module | ast.ClassDef] = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for scope in [*classes, tree]:
        plain = [node for node in scope.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        counts = Counter(node.name for node in plain if node.name.startswith("test") and not node.decorator_list)
        for node in plain:
            if counts[node.name] > 1 and not node.decorator_list:
                counts[node.name] -= 1
                yield {"path": name, "name": node.name[:500], "line": node.lineno}
