"""The facts of one Python file: its units, each with a digest that ignores layout and comments, and what each uses.

What runs at import and may fail or do something is unit 0; a definition, a pure assignment or an imported name is a
unit of its own, because nothing notices a change of it but those who use it.

A class in facts. Its members belong to it: who can make an instance can call any of them, by any name.
"""

from __future__ import annotations

import ast
import builtins
import tokenize
import warnings
from collections.abc import Sequence

from ktxkit.affected.rules import literals
from ktxkit.affected.rules.scopes import (
    EAGER,
    MAIN,
    MAKE,
    MODULE,
    OWN,
    Aliases,
    Facts,
    Function,
    Units,
    UsageSink,
    add_aliases,
    bound_globally,
    imports_in,
    origin,
)
from ktxkit.affected.rules.visitor import Visitor

Blocks = ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While | ast.AsyncWith | ast.AsyncFor | ast.Match
BUILT_INS = frozenset((*dir(builtins), "__name__", "__file__", "__doc__"))
XUNIT = {
    "setup_module", "teardown_module", "setup_function", "teardown_function", "setUpModule", "tearDownModule",
    "setup", "teardown", "load_tests",
}  # fmt: skip


def read(data: bytes) -> Facts:
    """The facts. A file that is no Python that we can read has `bad`, with why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data.decode(tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)[0])
            tree = ast.parse(data)
            compile(tree, "<source>", "exec", dont_inherit=True)  # finds what parsing does not
        return _Reader(tree).facts()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        empty = UsageSink()
        empty.unit(MODULE, "module", 0)
        return empty.document() | {"bad": f"{type(error).__name__}: {error}"[:200]}


def dump(node: ast.AST) -> str:
    return ast.dump(node)


def docstring(node: ast.AST) -> ast.Expr | None:
    """The statement that is the docstring of a definition; None where it has none, or one with examples (tests)."""
    body = node.body if isinstance(node, Function | ast.ClassDef) else []
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first if ">>>" not in first.value.value else None
    return None


def without_docstrings(node: ast.AST) -> tuple[str, list[str]]:
    """A definition as text without the docstrings in it, and these: what they say no call of it notices."""
    said = []
    for one in [*ast.walk(node)]:
        found = docstring(one)
        if found is not None and isinstance(one, Function | ast.ClassDef):
            said.append(ast.literal_eval(found.value))
            one.body = one.body[1:] or [ast.copy_location(ast.Pass(), found)]
    return dump(node), said


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.sink = UsageSink()
        self.zero = self.sink.unit(MODULE, "module", 1)
        self.defined: set[str] = set()
        self.typing = False
        self.postponed = any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.names[0].name == "annotations"
            for node in tree.body
        )
        self.aliases: Aliases = {}
        for node in self._module_level(tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                add_aliases(self.aliases, node)
        self.lazy = bound_globally(tree)
        for name, found in self.lazy.items():
            self.aliases[name] = tuple(dict.fromkeys((*self.aliases.get(name, ()), *found)))
        self.visitor = Visitor(self.sink, self.aliases)

    def _module_level(self, body: Sequence[ast.AST]) -> list[ast.AST]:
        found: list[ast.AST] = []
        for node in body:
            found.append(node)
            if isinstance(node, Blocks | ast.ExceptHandler | ast.match_case):
                found += self._module_level(
                    [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
                )
        return found

    def facts(self) -> Facts:
        body = list(self.tree.body)
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if ">>>" in str(body[0].value.value):
                self.sink.mark("does", "doctests", (self.zero,))
            self._constant("__doc__", body.pop(0), ())
        self._statements(body)
        for name, aliases in self.lazy.items():
            unit = self.sink.unit(name, "alias", 1)
            self.sink.part(unit, repr(aliases))
            self.visitor.aliases_escape({name: aliases}, (unit,))
        self._future()
        return self.sink.document()

    def _future(self) -> None:
        """A future import changes how all of the file is compiled."""
        every = [node for node in self.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        names = sorted({one.name for node in every for one in node.names})
        for number, unit in enumerate(self.sink.units):
            if names and unit[1] != "alias":
                self.sink.part(number, f"compiled with {names}")

    def _statements(self, body: Sequence[ast.AST], *, nested: bool = False) -> None:
        for node in body:
            if isinstance(node, Function):
                self._function(node, "")
            elif isinstance(node, ast.ClassDef):
                self._class(node, "")
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node, nested)
            elif isinstance(node, Blocks | ast.ExceptHandler | ast.match_case):
                self._block(node)
            elif not nested and _assigned(node):
                self._constant(_assigned(node), node, (EAGER,))
            else:
                self._runs(node)

    def may_fail(self, node: ast.AST, beside: Sequence[str] = ()) -> None:
        """What is evaluated at import is harmless only where every name of it is there by then, and is all of it.

        `beside`: the members of the class that are there by then.
        """
        for one in ast.walk(node):
            unknown = isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in self.defined
            if isinstance(one, ast.Attribute) or (unknown and one.id not in BUILT_INS):  # type: ignore[attr-defined]
                self.stated(node, beside)
                return

    def stated(self, node: ast.AST, beside: Sequence[str] = ()) -> None:
        """What is evaluated at import is part of it, with the names that it finds defined by then."""
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        self.sink.part(self.zero, f"{dump(node)}{sorted(names & (self.defined | set(beside)))}")

    def _runs(self, node: ast.AST) -> None:
        """A statement that does something at import."""
        self.stated(node)
        self.visitor.visit(node, self._module_units())
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                self._bound(one.id)
                if one.id == "pytest_plugins":
                    self._plugins(node)

    def _plugins(self, node: ast.AST) -> None:
        for one in ast.walk(node):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                self.sink.mark("imports", one.value, (self.zero,))

    def _bound(self, name: str) -> None:
        self.defined.add(name)
        self.sink.mark("binds", name, (self.zero,))

    def _again(self, name: str) -> None:
        """A name that is bound once more: what stood between may have taken the first value."""
        if name in self.defined:
            self.sink.part(self.zero, f"{name} again after {sorted(self.defined)}")
        self.defined.add(name)

    def _module_units(self) -> Units:
        return () if self.typing else (self.zero,)

    def _block(self, node: ast.AST) -> None:
        """A statement with statements in it: its own expressions run, and what it holds is as at the top."""
        if isinstance(node, ast.If) and _is_main(node.test):
            main = self.sink.unit(MAIN, "main", node.lineno)
            self.sink.part(main, dump(node))
            self.visitor.all(node.body, (main,))
            self._statements(node.orelse, nested=True)
            return
        self.sink.part(self.zero, f"<{type(node).__name__}")
        before, typed = self.typing, isinstance(node, ast.If) and self._never_runs(node.test)
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.expr | ast.withitem | ast.pattern):
                self._runs(one)
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            self.typing = before or (typed and field == "body")
            self.sink.part(self.zero, field)
            self._statements(getattr(node, field, None) or [], nested=True)
        self.typing = before
        self.sink.part(self.zero, ">")

    def _never_runs(self, test: ast.expr) -> bool:
        """Whether a condition is typing's TYPE_CHECKING."""
        name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
        origins = {alias.module for alias in self.aliases.get(literals.root_of(test), ())}
        return name == "TYPE_CHECKING" and bool(origins) and origins <= {"typing", "typing_extensions"}

    def _import(self, node: ast.Import | ast.ImportFrom, nested: bool) -> None:
        made: Aliases = {}
        add_aliases(made, node)
        for name, aliases in made.items():
            unit = self.sink.unit(name, "alias", node.lineno)
            self.sink.part(unit, repr(aliases))
            for alias in aliases:
                self.visitor.whole(alias, (unit,) if self.typing else (unit, EAGER))
            self.defined.add(name)
        if self.typing:
            return
        self.visitor.imported(node, (self.zero,))
        module = origin(node) if isinstance(node, ast.ImportFrom) else ""
        quiet = literals.QUIET if not nested else set()
        roots = {(module or one.name).partition(".")[0] for one in node.names}
        if not roots <= quiet or (isinstance(node, ast.ImportFrom) and module != "__future__"):
            self.sink.part(self.zero, dump(node))

    def _constant(self, name: str, node: ast.AST, also: Units) -> None:
        unit = self.sink.unit(name, "constant", getattr(node, "lineno", 1))
        self.sink.part(unit, dump(node))
        self.may_fail(node)
        value = getattr(node, "value", None)
        self.visitor.all([value, getattr(node, "annotation", None)], (unit, *also))
        self.visitor.annotation(getattr(node, "annotation", None), (unit,), ())
        self._again(name)

    def _function(self, node: Function, owner: str) -> None:
        """A function or method: a unit; its header is evaluated at import."""
        name = f"{owner}.{node.name}" if owner else node.name
        unit = self.sink.unit(name, "function", node.lineno)
        examples = ">>>" in (ast.get_docstring(node, clean=False) or "")
        if all(literals.only_wraps(one, self.aliases) for one in node.decorator_list):
            text, said = without_docstrings(node)
            self.sink.part(unit, text)
            self.sink.documented(name, said)
        else:  # it may be read by who registers it: the help of a command
            self.sink.part(unit, dump(node))
        self.visitor.header(node, (unit, EAGER), ())
        self.visitor.body(node, (unit,), ())
        if examples:
            self.sink.mark("does", "doctests", (self.zero,))
        self._decorated(node, name, unit)
        self._evaluated(node)
        if not owner:
            self._again(node.name)
            if node.name.startswith("pytest_") or node.name in XUNIT:
                self.sink.use(node.name, OWN, (self.zero,))

    def _evaluated(self, node: Function) -> None:
        """What is evaluated where a function is defined, and may fail there."""
        for decorator in node.decorator_list:
            self.stated(decorator)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is None:
                continue
            self.may_fail(default)
            if not literals.is_pure(default):
                self.stated(default)
                self.visitor.visit(default, (self.zero,))
        if self.postponed:
            return
        annotations = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        for annotation in (*annotations, node.returns):
            if annotation is not None:
                computed = any(isinstance(one, ast.BinOp | ast.Subscript | ast.Call) for one in ast.walk(annotation))
                (self.stated if computed else self.may_fail)(annotation)

    def _decorated(self, node: Function | ast.ClassDef, name: str, unit: int) -> None:
        """A decorator runs at import; one that may keep what it decorates hands it on to whoever imports the module."""
        for one in node.decorator_list:
            if literals.is_fixture(one):
                autouse = [kw.value for kw in getattr(one, "keywords", ()) if kw.arg == "autouse"]
                always = bool(autouse) and not (isinstance(autouse[0], ast.Constant) and not autouse[0].value)
                called = [kw.value for kw in getattr(one, "keywords", ()) if kw.arg == "name"]
                given = called[0].value if called and isinstance(called[0], ast.Constant) else node.name
                computed = bool(called) and not isinstance(called[0], ast.Constant)
                self.sink.fixtures[name] = [str(given), always or computed]
            if not literals.only_wraps(one, self.aliases):
                self.visitor.visit(one, (self.zero,))
                if node.name.lower().startswith("test"):
                    self.sink.mark("does", "renames", (unit,))
                else:
                    self.sink.use(name.partition(".")[0], OWN, (self.zero,))
            if literals.has_call(one):
                self.visitor.visit(one, (self.zero,))
            self.visitor.visit(one, (unit,))
            for part in ast.walk(one) if node.name.lower().startswith("test") else ():  # it may ask for a fixture so
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
                    self.sink.mark("parameters", part.value, (unit,))

    def _class(self, node: ast.ClassDef, owner: str) -> None:
        """A class: its statement is one unit, and each member another."""
        read_class(self, node, owner)
        if not owner:
            self._again(node.name)


def _assigned(node: ast.AST) -> str:
    """The one name that a pure assignment binds; empty where it is none."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.simple:
        target = node.target
    else:
        return ""
    if not isinstance(target, ast.Name) or target.id in literals.SPECIAL:
        return ""
    return target.id if node.value is None or literals.is_pure(node.value) else ""


def _is_main(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1 or not isinstance(node.ops[0], ast.Eq):
        return False
    sides = [node.left, node.comparators[0]]
    named = any(isinstance(one, ast.Name) and one.id == "__name__" for one in sides)
    return named and any(isinstance(one, ast.Constant) and one.value == "__main__" for one in sides)


PLAIN = {"object", "ABC", "Protocol", "Generic", "Exception"}
CLASS_FACTORIES = {
    "__init__",
    "__new__",
    "_generate_next_value_",
    "__set_name__",
}  # run for each value of an enumeration


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
        text, said = without_docstrings(node)
        sink.part(unit, text)
        sink.documented(name, said)
        visitor.aliases_escape(imports_in(node), (unit,))
        visitor.all(node.body, (unit,))
        _runs_at_import(reader, node)
        return
    reader._decorated(node, name, unit)
    _bases(reader, node, name)
    decorated = any(literals.root_of(one) != "pytest" for one in node.decorator_list)
    sink.classes[name] = {
        "bases": [ast.unparse(one) for one in node.bases],
        "origins": [_origin(reader, one) for one in node.bases],
        "members": [],
        "decorated": decorated,
        "made_by": [ast.unparse(one.value) for one in node.keywords],
    }
    about = docstring(node) if all(literals.only_wraps(one, reader.aliases) for one in node.decorator_list) else None
    if about is not None:
        sink.documented(name, [ast.literal_eval(about.value)])
    for one in node.body:
        if one is not about:
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
    if any(literals.root_of(one) in ("unique", "enum", "verify") for one in node.decorator_list):
        reader.sink.part(reader.zero, f"{name}: {[ast.dump(one) for one in plain]}")
    if any(one.endswith(("Enum", "Flag")) for one in bases):
        for base in node.bases:
            reader.visitor.visit(base, (reader.zero,))
        if members & CLASS_FACTORIES:
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
            reader.visitor.visit(
                base, (zero, make) if literals.has_call(base) or isinstance(base, ast.Call) else (make,)
            )


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
        visitor.aliases_escape(imports_in(node), (unit,))
        reader.may_fail(node)
        if isinstance(node, ast.Import | ast.ImportFrom) or not _is_still(node):
            visitor.visit(node, (reader.zero,))
            reader.stated(node)


def _constant(node: ast.AST) -> str:
    """The name that a pure assignment binds in a class."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id if literals.is_pure(node.value) else ""
    return ""


def _is_still(node: ast.AST) -> bool:
    """Whether a statement of a class body does nothing: a docstring, `pass`, an annotation, a pure default."""
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return True
    return isinstance(node, ast.AnnAssign) and (node.value is None or literals.is_pure(node.value))


def _runs_at_import(reader: _Reader, node: ast.ClassDef) -> None:
    still = (Function, ast.ClassDef)
    if (
        node.decorator_list
        or node.keywords
        or any(not (isinstance(one, still) or _constant(one) or _is_still(one)) for one in node.body)
    ):
        reader.visitor.visit(node, (reader.zero,))
        reader.stated(node)
