"""A class in facts. Its members belong to it: who can make an instance can call any of them, by any name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ktxkit.affected.rules import purity
from ktxkit.affected.rules.scopes import Function, imports_in
from ktxkit.affected.rules.sink import EAGER, MAKE, OWN

if TYPE_CHECKING:
    from ktxkit.affected.rules.reading import _Reader


PLAIN = {"object", "ABC", "Protocol", "Generic", "Exception"}
MADE_WITH = {"__init__", "__new__", "_generate_next_value_", "__set_name__"}  # run for each value of an enumeration


def read_class(reader: _Reader, node: ast.ClassDef, owner: str) -> None:
    """Its statement, its bases, its members. A nested class is a unit whole."""
    name = f"{owner}.{node.name}" if owner else node.name
    unit = reader.sink.unit(name, "class", node.lineno)
    visitor, sink = reader.visitor, reader.sink
    heads = [*node.decorator_list, *node.bases, *(one.value for one in node.keywords)]
    sink.part(unit, "".join([*map(ast.dump, heads), *(str(one.arg) for one in node.keywords)]))
    for head in heads:  # bases that do not fit together fail here
        reader.stated(head)
    visitor.all(heads, (unit, EAGER))
    if owner:
        sink.part(unit, ast.dump(node))
        visitor.handed_on(imports_in(node), (unit,))
        visitor.all(node.body, (unit,))
        _runs_at_import(reader, node)
        return
    reader._decorated(node, name, unit)
    _bases(reader, node, name)
    decorated = any(purity.root_of(one) != "pytest" for one in node.decorator_list)
    sink.classes[name] = {
        "bases": [ast.unparse(one) for one in node.bases],
        "origins": [_origin(reader, one) for one in node.bases],
        "members": [],
        "decorated": decorated,
        "made_by": [ast.unparse(one.value) for one in node.keywords],
    }
    for one in node.body:
        _member(reader, one, name, unit)
    _made_at_import(reader, node, name)


def _made_at_import(reader: _Reader, node: ast.ClassDef, name: str) -> None:
    """What may fail as the class is made: fields in the wrong order, a value twice, a constructor of an enumeration."""
    bases = {ast.unparse(one).rpartition(".")[2] for one in node.bases}
    members = {one.name for one in node.body if isinstance(one, Function)}
    plain = [one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    slots = any(_constant(one) == "__slots__" for one in plain)
    if node.decorator_list or slots or bases - PLAIN:
        reader.sink.part(reader.zero, f"{name}: {[_shape(one) for one in plain]}")
    if any(purity.root_of(one) in ("unique", "enum", "verify") for one in node.decorator_list):
        reader.sink.part(reader.zero, f"{name}: {[ast.dump(one) for one in plain]}")
    if any(one.endswith(("Enum", "Flag")) for one in bases):
        for base in node.bases:
            reader.visitor.visit(base, (reader.zero,))
        if members & MADE_WITH:
            reader.sink.use(name, OWN, (reader.zero,))


def _shape(node: ast.Assign | ast.AnnAssign) -> tuple[str, str]:
    """A field by its name, and of which sort its value is."""
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target), type(node.value).__name__


def _origin(reader: _Reader, base: ast.expr) -> str:
    """The name that a base has where it is defined; empty where it is computed."""
    inner = base.value if isinstance(base, ast.Subscript) else base
    if isinstance(inner, ast.Attribute):
        return inner.attr
    if not isinstance(inner, ast.Name):
        return ""
    return next((alias.name or alias.module for alias in reader.aliases.get(inner.id, ())), inner.id)


def _bases(reader: _Reader, node: ast.ClassDef, name: str) -> None:
    """What runs when a subclass is made runs where it is made: the bases' `__init_subclass__`, a metaclass."""
    make = reader.sink.unit(name + MAKE, "make", node.lineno)
    zero = reader.zero
    for one in node.keywords:
        reader.visitor.visit(one.value, (zero, make))
    for base in node.bases:
        if isinstance(base, ast.Name | ast.Attribute):
            _made_by(reader, base, (zero, make))
        else:
            reader.visitor.visit(base, (zero, make) if purity.has_call(base) or isinstance(base, ast.Call) else (make,))


def _made_by(reader: _Reader, base: ast.Name | ast.Attribute, units: tuple[int, ...]) -> None:
    last = base.attr if isinstance(base, ast.Attribute) else base.id
    if isinstance(base, ast.Name) and base.id in reader.aliases:
        for alias in reader.aliases[base.id]:
            reader.sink.use((alias.name or alias.module) + MAKE, alias.module, units)
    elif isinstance(base, ast.Name):
        reader.sink.use(last + MAKE, OWN, units)
    else:
        reader.sink.use(last + MAKE, "?", units)  # wherever it is from: any of that name


def _member(reader: _Reader, node: ast.AST, name: str, unit: int) -> None:
    visitor, sink = reader.visitor, reader.sink
    members = sink.classes[name]["members"]
    if isinstance(node, Function):
        members.append(node.name)
        reader._function(node, name)
    elif isinstance(node, ast.ClassDef):
        members.append(node.name)
        reader._class(node, name)
    elif _constant(node):
        made = sink.unit(f"{name}.{_constant(node)}", "constant", node.lineno)  # type: ignore[attr-defined]
        members.append(_constant(node))
        sink.part(made, ast.dump(node))
        reader.may_fail(node, members[:-1])
        visitor.visit(node, (made, EAGER))
    else:
        sink.part(unit, ast.dump(node))
        visitor.visit(node, (unit, EAGER))
        visitor.handed_on(imports_in(node), (unit,))
        reader.may_fail(node)
        if isinstance(node, ast.Import | ast.ImportFrom) or not _is_still(node):
            visitor.visit(node, (reader.zero,))
            reader.stated(node)


def _constant(node: ast.AST) -> str:
    """The name that a pure assignment binds in a class."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id if purity.is_pure(node.value) else ""
    return ""


def _is_still(node: ast.AST) -> bool:
    """Whether a statement of a class body does nothing: a docstring, `pass`, an annotation, a pure default."""
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return True
    return isinstance(node, ast.AnnAssign) and (node.value is None or purity.is_pure(node.value))


def _runs_at_import(reader: _Reader, node: ast.ClassDef) -> None:
    still = (Function, ast.ClassDef)
    if (
        node.decorator_list
        or node.keywords
        or any(not (isinstance(one, still) or _constant(one) or _is_still(one)) for one in node.body)
    ):
        reader.visitor.visit(node, (reader.zero,))
        reader.stated(node)
