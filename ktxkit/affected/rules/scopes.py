"""Which names a function binds: any other is the module's, or a builtin one. Lexical, as Python is."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Alias(NamedTuple):
    """An imported name: a module (`name` empty), or a name of one."""

    module: str
    name: str = ""


Aliases = dict[str, tuple[Alias, ...]]  # several where it depends which import succeeds


class Layer(NamedTuple):
    """What one function binds, what it imports, and what it says is the module's."""

    names: frozenset[str]
    aliases: Aliases
    outside: frozenset[str]
    shared: frozenset[str] = frozenset()  # names of a function around it that it binds


Scope = tuple[Layer, ...]


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


def layer(parameters: ast.arguments, body: Iterable[ast.AST]) -> Layer:
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
    return Layer(frozenset(names - outside - nonlocals), aliases, frozenset(outside), frozenset(nonlocals))


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


def found(scope: Scope, name: str) -> tuple[Alias, ...] | bool | None:
    """Aliases made in a function, True where the name is a function's own, None where it is the module's."""
    for one in reversed(scope):
        if name in one.outside:
            return None
        if name in one.aliases:
            return one.aliases[name]
        if name in one.names:
            return True
    return None
