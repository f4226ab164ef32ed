"""Edits of a program, as a person's slips and changes are: one place of one file, drawn by number."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

Site = tuple[int, str, int]  # number of the node as `ast.walk` comes to it, the edit, a place in its body
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Gt: ast.LtE, ast.Eq: ast.NotEq}
BROKEN: Site = (-1, "no Python", 0)


def sites(text: str) -> list[Site]:
    """Every place of a program where an edit may be made."""
    found = [BROKEN]
    for number, node in enumerate(ast.walk(ast.parse(text))):
        found += [(number, name, 0) for name in EDITS if isinstance(node, EDITS[name][0])]
        body = getattr(node, "body", None)
        if isinstance(body, list):
            found += [(number, word, at) for at in range(len(body)) for word in ("delete", "exchange")]
    return found


def edited(text: str, site: Site) -> str:
    """The program with one edit; the same one where nothing is to be done there."""
    number, name, at = site
    if site == BROKEN:
        return text + "\ndef (:\n"
    tree = ast.parse(text)
    node: Any = list(ast.walk(tree))[number]
    if name == "delete":
        node.body[at] = ast.Pass()
    elif name == "exchange":
        node.body[at - 1], node.body[at] = node.body[at], node.body[at - 1]
    elif not EDITS[name][1](node):
        return text
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _constant(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    value = node.value
    node.value = value + "x" if isinstance(value, str) else 7 if value is None or value is ... else int(value) + 1  # type: ignore[arg-type]
    return True


def _operator(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()  # type: ignore[assignment]
        return True
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        node.ops[0] = OPERATORS[type(node.ops[0])]()  # type: ignore[call-overload]
        return True
    return False


def _renamed(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        node.name += "_renamed"
    elif isinstance(node, ast.Name):
        node.id += "_gone"
    elif isinstance(node, ast.Attribute):
        node.attr += "_gone"
    else:
        return False
    return True


def _parent(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        node.bases = [] if node.bases else [ast.Name("dict", ast.Load())]
        return True
    return False


def _undecorated(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
        del node.decorator_list[0]
        return True
    return False


def _without_name(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        node.names[0].name += "_gone"
    elif isinstance(node, ast.Import):
        node.names[0].name = "no_such_module_at_all"
    else:
        return False
    return True


def _first_raises(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        node.body.insert(0, ast.parse("raise RuntimeError").body[0])
        return True
    return False


def _new_member(node: ast.AST) -> bool:
    """A member that hides one of a base, or of object."""
    if isinstance(node, ast.ClassDef):
        node.body += ast.parse(
            "def value(self): return 99\nsuffix = None\ndef __init_subclass__(cls): cls.known = 1"
        ).body
        return True
    return False


Applies = Callable[[Any], bool]
EDITS: dict[str, tuple[tuple[type[ast.AST], ...], Applies]] = {
    "constant": ((ast.Constant,), _constant),
    "operator": ((ast.BinOp, ast.AugAssign, ast.Compare), _operator),
    "rename": ((ast.FunctionDef, ast.ClassDef, ast.Name, ast.Attribute), _renamed),
    "parent": ((ast.ClassDef,), _parent),
    "undecorate": ((ast.FunctionDef, ast.ClassDef), _undecorated),
    "import": ((ast.ImportFrom, ast.Import), _without_name),
    "raise": ((ast.FunctionDef,), _first_raises),
    "member": ((ast.ClassDef,), _new_member),
}
