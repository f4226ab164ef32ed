"""Mutants of data: one value of a file that tests may read made another, its form kept.

Mutants of a Python file: each one place replaced by another text, so that everything else stays byte for byte.

They reach what is not inside a function too: constants, entries of dictionaries, class attributes, defaults, arguments
of decorators (annotations are left alone). There selections of tests go wrong. A place is given by bytes of the file.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple

_JSON = re.compile(r'"(?:\\.|[^"\\\n])*"(?P<key>\s*:)?|(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])|\b(?:true|false)\b')
_LINE = re.compile(  # `key: value`, `key = value`, `- value`
    r"""^[ \t]*(?:-[ ]|["']?[\w.][\w. "'-]*?[ \t]*[:=][ \t]*)"""
    r"""(?P<value>"[^"\n]*"|'[^'\n]*'|-?\d+(?:\.\d+)?|[A-Za-z_/][^#\n:"'{}\[\]]*?)[ \t]*(?:\#.*)?$""",
    re.MULTILINE,
)
_CELL = re.compile(r'(?:^|(?<=[,;\t]))(?P<value>[^,;\t"\r\n]+)', re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
FORMS = {
    ".json": _JSON, ".yaml": _LINE, ".yml": _LINE, ".toml": _LINE, ".ini": _LINE, ".cfg": _LINE, ".csv": _CELL,
    ".tsv": _CELL,
}  # fmt: skip
HEADED = (".csv", ".tsv")  # the first line names columns


def is_data(path: str) -> bool:
    """Whether values of a file can be told from what is around them, by its name."""
    return _suffix(path) in FORMS


def values(path: str, data: bytes) -> list[Mutant]:
    """One mutant for each value of a data file; none where it is not UTF-8. A few may break its form."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return []
    form = FORMS.get(_suffix(path))
    return list(_each(path, text, form)) if form is not None else []


def valid(path: str, data: bytes) -> bool:
    """Whether a mutated file still is what its name says."""
    try:
        if path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml"):
            tomllib.loads(data.decode("utf-8"))
        return is_data(path) or parses(data)
    except (ValueError, RecursionError):
        return False


def _each(path: str, text: str, form: re.Pattern[str]) -> Iterator[Mutant]:
    for found in form.finditer(text):
        group = "value" if "value" in form.groupindex else 0
        line = text.count("\n", 0, found.start(group)) + 1
        if (line == 1 and path.endswith(HEADED)) or found.groupdict().get("key"):
            continue
        start, end = (len(text[: found.span(group)[at]].encode("utf-8")) for at in (0, 1))
        yield Mutant(path, "", "value", line, start, end, _other(found[group]))


def _other(value: str) -> str:
    if value.lower() in ("true", "false"):
        other = "false" if value.lower() == "true" else "true"
        return other.capitalize() if value[0].isupper() else other
    if _NUMBER.match(value):
        return str(float(value) + 1) if "." in value else str(int(value) + 1)
    quote = value[-1:] if value[-1:] in "\"'" else ""
    return value.removesuffix(quote) + SUFFIX + quote


def _suffix(path: str) -> str:
    last = path.rpartition("/")[2]
    return f".{last.rpartition('.')[2].lower()}" if "." in last else ""


COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.BitOr: "&", ast.BitAnd: "|", ast.BitXor: "|", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef
SUFFIX = "_mutated"


class Mutant(NamedTuple):
    """One wrong change. `unit`: the definition that it is in (empty: what runs at import); `start`, `end`: bytes."""

    path: str
    unit: str
    kind: str
    line: int
    start: int
    end: int
    text: str

    def apply(self, data: bytes) -> bytes:
        return data[: self.start] + self.text.encode("utf-8") + data[self.end :]

    @property
    def location(self) -> str:
        return f"{self.path}:{self.line}"


def mutants(path: str, data: bytes) -> list[Mutant]:
    """All mutants of a file, in its order; none where it cannot be read or is not UTF-8. A few may not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        data.decode("utf-8")
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = _Finder(path, data)
    found.walk(tree, "")
    return sorted(found.mutants)


def sample(
    mutants: Iterable[Mutant],
    contents: Mapping[str, bytes],
    count: int,
    seed: int,
    may_be: Callable[[str, bytes], bool] = lambda _, data: parses(data),
) -> list[Mutant]:
    """`count` of them that `may_be` (that parse), the same for the same seed.

    Units take turns: a large one crowds no other out.
    """

    def turn(*parts: object) -> str:
        return digest("\0".join(map(str, (seed, *parts))).encode("utf-8", "surrogatepass"))

    by_unit: dict[tuple[str, str], list[Mutant]] = {}
    for one in sorted(mutants):
        by_unit.setdefault((one.path, one.unit), []).append(one)
    groups = [
        sorted(by_unit[unit], key=lambda one: turn(*one)) for unit in sorted(by_unit, key=lambda unit: turn(*unit))
    ]
    picked: list[Mutant] = []
    while groups and len(picked) < count:
        for group in groups:
            one = group.pop()
            if len(picked) < count and may_be(one.path, one.apply(contents[one.path])):
                picked.append(one)
        groups = [group for group in groups if group]
    return sorted(picked)


def parses(data: bytes) -> bool:
    """Whether a mutated file is Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except (SyntaxError, ValueError):
        return False
    return True


class _Finder:
    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data = path, data
        self.mutants: list[Mutant] = []
        self.starts = [0]
        for line in data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end = self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.at(node.lineno, node.col_offset), end

    def source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode("utf-8")

    def put(self, unit: str, kind: str, node: ast.expr | ast.stmt, text: str) -> None:
        self.mutants.append(Mutant(self.path, unit, kind, node.lineno, *self.span(node), text))

    def between(self, unit: str, kind: str, left: ast.expr, right: ast.expr, text: str) -> None:
        """What stands between two expressions: an operator, with the space around it."""
        start, end = self.span(left)[1], self.span(right)[0]
        held = self.data[start:end]
        if b"(" in held or b")" in held or b"#" in held or b"\\" in held or b"\n" in held:
            return  # parentheses or a line's end between them: it would take a tokenizer
        self.mutants.append(Mutant(self.path, unit, kind, left.lineno, start, end, f" {text} "))

    def walk(self, node: ast.AST, unit: str, inside: bool = False) -> None:
        """Every place below a node. `unit`: the definition around it; `inside`: that is a function."""
        if isinstance(node, Function | ast.ClassDef):
            self._definition(node, unit, inside)
            return
        if not inside and isinstance(node, ast.Assign | ast.AnnAssign):
            unit = _bound(node, unit)
        for kind, change in CHANGES:
            if isinstance(node, kind):
                change(self, node, unit)
        for child in self._children(node):
            self.walk(child, unit, inside)

    def _definition(self, node: Function | ast.ClassDef, unit: str, inside: bool) -> None:
        """A definition in a function is a part of it."""
        inner = unit if inside else f"{unit}.{node.name}".lstrip(".")
        function = isinstance(node, Function)
        if isinstance(node, Function):
            self._bodies(node, inner)
            more: list[ast.AST] = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
        else:
            more = list(node.keywords)
        for child in (*node.decorator_list, *more):
            self.walk(child, inner, True)
        for child in _without_docstring(node.body):
            self.walk(child, inner, inside or function)

    def _bodies(self, node: Function, unit: str) -> None:
        """A whole body away: what a function that is taken out would do."""
        body = _without_docstring(node.body)
        if body and not (len(body) == 1 and isinstance(body[0], ast.Pass | ast.Return)):
            start, end = self.span(body[0])[0], self.span(body[-1])[1]
            if self.data.rfind(b"\n", 0, start) > self.at(node.lineno, 0) or len(body) == 1:
                self.mutants.append(Mutant(self.path, unit, "body", node.lineno, start, end, "pass"))

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_params") or isinstance(node, ast.JoinedStr):
                continue
            body = value if isinstance(value, list) else [value]
            if isinstance(node, ast.Module) and field == "body":
                body = _without_docstring(body)
            yield from (one for one in body if isinstance(one, ast.AST))


def _bound(node: ast.Assign | ast.AnnAssign, unit: str) -> str:
    """The name that an assignment of a module or class binds is a unit of its own."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    only = targets[0]
    return f"{unit}.{only.id}".lstrip(".") if len(targets) == 1 and isinstance(only, ast.Name) else unit


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    plain = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return body[1:] if plain else body


def _compare(found: _Finder, node: ast.Compare, unit: str) -> None:
    if len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        found.between(unit, "comparison", node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])


def _binary(found: _Finder, node: ast.BinOp, unit: str) -> None:
    if type(node.op) in OPERATORS:
        found.between(unit, "operator", node.left, node.right, OPERATORS[type(node.op)])


def _boolean(found: _Finder, node: ast.BoolOp, unit: str) -> None:
    if len(node.values) == 2:
        left, right = node.values
        found.between(unit, "boolean", left, right, "or" if isinstance(node.op, ast.And) else "and")


def _unary(found: _Finder, node: ast.UnaryOp, unit: str) -> None:
    if isinstance(node.op, ast.Not):
        found.put(unit, "boolean", node, f"({found.source(node.operand)})")


def _constant(found: _Finder, node: ast.Constant, unit: str) -> None:
    value = node.value
    if isinstance(value, bool):
        found.put(unit, "constant", node, str(not value))
    elif isinstance(value, int | float):
        found.put(unit, "constant", node, f"({found.source(node)} + 1)")
    elif isinstance(value, str | bytes):
        source = found.source(node)
        quote = source[-1:]
        if node.lineno == node.end_lineno and source.endswith(quote) and not source.endswith(quote * 3):
            found.put(unit, "text", node, source[:-1] + SUFFIX + quote)


def _return(found: _Finder, node: ast.Return, unit: str) -> None:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        found.put(unit, "return", node, "return None")


def _raise(found: _Finder, node: ast.Raise, unit: str) -> None:
    found.put(unit, "raise", node, "pass")


def _statement(found: _Finder, node: ast.Expr, unit: str) -> None:
    if isinstance(node.value, ast.Call):
        found.put(unit, "call", node, "pass")


def _condition(found: _Finder, node: ast.If | ast.While | ast.IfExp, unit: str) -> None:
    if not isinstance(node.test, ast.Compare | ast.UnaryOp):
        found.put(unit, "condition", node.test, f"(not ({found.source(node.test)}))")


CHANGES: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., None]], ...] = (
    (ast.Compare, _compare),
    (ast.BinOp, _binary),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _unary),
    (ast.Constant, _constant),
    (ast.Return, _return),
    (ast.Raise, _raise),
    (ast.Expr, _statement),
    ((ast.If, ast.While, ast.IfExp), _condition),
)
