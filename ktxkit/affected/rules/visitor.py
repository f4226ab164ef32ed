"""What expressions and statements use. Names are resolved as Python does, lexically; nothing is guessed from a name.

An attribute of a value needs no entry: whoever has an instance has it through someone who named its class, and all of
a class's members count as used where the class is. A module that is passed on as a value counts as used whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ktxkit.affected.rules import dynamic, literals
from ktxkit.affected.rules.scopes import (
    ANYTHING,
    BASE_ONLY,
    OWN,
    Alias,
    Aliases,
    Comprehension,
    Function,
    FunctionNames,
    Scope,
    Units,
    UsageSink,
    aliases_of,
    argument_names,
    imports_in,
    joined,
    layer,
    origin,
    targets,
)

DEEPEST = 6  # attributes behind a module that are followed


class Visitor:
    """Walks expressions for `units` in a scope, into a sink. `aliases`: what the module itself imports."""

    def __init__(self, sink: UsageSink, aliases: Aliases) -> None:
        self.sink = sink
        self.aliases = aliases

    def all(self, nodes: Iterable[ast.AST | None], units: Units, scope: Scope = ()) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, units, scope)

    def visit(self, node: ast.AST, units: Units, scope: Scope = ()) -> None:
        """Everything below a node. What binds names is looked at with the names it binds."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._name(node, units, scope)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, units, scope)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.text(node.value, units)
        elif isinstance(node, ast.JoinedStr | ast.BinOp):
            self._composed(node, units, scope)
        elif isinstance(node, ast.Call):
            self._call(node, units, scope)
        elif isinstance(node, Function | ast.Lambda):
            self.function(node, units, scope)
        elif isinstance(node, Comprehension):
            self._comprehension(node, units, scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imported(node, units)
            if scope and scope[-1].shared:
                self.aliases_escape({n: a for n, a in imports_in(node).items() if n in scope[-1].shared}, units)
        elif isinstance(node, ast.ClassDef):
            self.aliases_escape(imports_in(node), units)
            self._other(node, units, scope)
        else:
            self._other(node, units, scope)

    def _other(self, node: ast.AST, units: Units, scope: Scope) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.Subscript):
            dynamic.subscript(self, node, units)
        elif isinstance(node, ast.List | ast.Tuple):
            dynamic.started_module(self, node.elts, units)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            self.annotation(node.annotation, units, scope)
        self.all(ast.iter_child_nodes(node), units, scope)

    def _name(self, node: ast.Name, units: Units, scope: Scope) -> None:
        """A name by itself: what it stands for may go anywhere."""
        name = node.id
        known = aliases_of(scope, name)
        if known is True:
            return
        dynamic.passed_on(self, node, known if isinstance(known, tuple) else self.aliases.get(name, ()), units)
        if isinstance(known, tuple):
            for alias in known:
                self.whole(alias, units)
            return
        if name == "globals":
            self.sink.use(ANYTHING, OWN, units)
        elif name == "__doc__":
            self.sink.mark("does", "reads docs", units)
        elif name == "__file__":
            self.sink.mark("does", "knows the place", units)
        self.sink.use(name, OWN, units)

    def whole(self, alias: Alias, units: Units) -> None:
        """A name of a module, or a module as a value."""
        if alias.name:
            self._source(alias, units)
            self.sink.use(alias.name, alias.module, units)
            self.sink.use(ANYTHING, joined(alias.module, alias.name), units)
        else:
            self.sink.use(ANYTHING, alias.module, units)

    def _source(self, alias: Alias, units: Units) -> None:
        """What reads sources is imported by its name: whoever has it may."""
        if alias.module in dynamic.SOURCE_MODULES:
            if alias.name in dynamic.OF_SOURCE:
                self.sink.mark("does", "reads source", units)
            elif alias.name in dynamic.OF_LINES:
                self.sink.mark("does", "tells where", units)
            elif alias.name in dynamic.OF_DOCS:
                self.sink.mark("does", "reads docs", units)

    def _attribute(self, node: ast.Attribute, units: Units, scope: Scope) -> None:
        dynamic.attribute(self, node, units)
        dynamic.passed_on(self, node, (), units)
        chain, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            dynamic.attribute(self, base, units)
            chain.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            self.visit(base, units, scope)
            return
        known = aliases_of(scope, base.id)
        if known is True:
            return
        if known is None and base.id not in self.aliases:
            self.sink.use(base.id, OWN, units)
            return
        if known is None:
            self.sink.use(base.id, BASE_ONLY, units)
        aliases = known if isinstance(known, tuple) else self.aliases[base.id]
        for alias in aliases:
            self._through(alias, chain[::-1][:DEEPEST], units)

    def _through(self, alias: Alias, attributes: list[str], units: Units) -> None:
        """Attributes of what an import bound: names of a module, as far as it is one."""
        place = alias.module
        if alias.name:
            self.sink.use(alias.name, place + BASE_ONLY, units)
            place = joined(place, alias.name)
        for attribute in attributes:
            if attribute == "__dict__":
                break  # the module as a value
            self.sink.use(attribute, place, units)
            place = joined(place, attribute)
        self.sink.use(ANYTHING, place, units)

    def aliases_escape(self, aliases: Aliases, units: Units) -> None:
        """Imported names that are found as something else than a name: an attribute, another function's."""
        for one in aliases.values():
            for alias in one:
                self.whole(alias, units)

    def text(self, text: str, units: Units) -> None:
        """A string: words that may name files, and dotted names that may be imported."""
        if text == "__doc__":
            self.sink.mark("does", "reads docs", units)
        if literals.of_a_traceback(text):
            self.sink.mark("does", "looks at a traceback", units)
        module, _, name = literals.reference(text)
        if name:  # "module:name"
            self.sink.mark("named", module, units)
            self.sink.use(name, module, units)
            self.sink.use(ANYTHING, module, units)
        ending = literals.ending(text)
        if ending:  # f"{module}.name"
            self.sink.use(ending, "?", units)
        for word in literals.words(text):
            if "pytest_plugins" in text:
                self.sink.mark("imports", word, units)
                self.sink.use(ANYTHING, word, units)
            self.sink.mark("words", word, units)
            parts = literals.dotted(word).split(".")
            for end in range(1, len(parts)):
                self.sink.mark("named", ".".join(parts[: end + 1]), units)
                self.sink.use(parts[end], ".".join(parts[:end]), units)
            if len(parts) > 1:
                self.sink.mark("named", parts[0], units)
                self.sink.use(ANYTHING, word, units)  # where it is a module, someone may make it a value

    def _composed(self, node: ast.JoinedStr | ast.BinOp, units: Units, scope: Scope) -> None:
        made = literals.pattern(node)
        if not literals.is_open(made):
            self.text(made, units)
        self.all(ast.iter_child_nodes(node), units, scope)

    def _call(self, node: ast.Call, units: Units, scope: Scope) -> None:
        made = literals.pattern(node)
        if not literals.is_open(made):
            self.text(made, units)
        dynamic.call(self, node, units, scope)
        if dynamic.name_of(node.func) not in dynamic.OF_TEXTS:
            dynamic.started_module(self, node.args, units)
        self.all([node.func, *node.args, *(one.value for one in node.keywords)], units, scope)

    def annotation(self, node: ast.AST | None, units: Units, scope: Scope) -> None:
        """An annotation that is a string is an expression."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                self.visit(ast.parse(node.value, mode="eval").body, units, scope)
            except (SyntaxError, ValueError, RecursionError):
                return  # gate-ok: a string and no expression; its words are taken with the rest

    def header(self, node: Function | ast.Lambda, units: Units, scope: Scope) -> None:
        """What is evaluated where a function is defined: decorators, defaults, annotations."""
        if not isinstance(node, ast.Lambda):
            self.all(node.decorator_list, units, scope)
            self.all([node.returns], units, scope)
            self.annotation(node.returns, units, scope)
        self.visit(node.args, units, scope)

    def function(self, node: Function | ast.Lambda, units: Units, scope: Scope) -> None:
        """A function wherever it stands: its header where it is defined, its body with what it binds."""
        self.header(node, units, scope)
        self.body(node, units, scope)

    def body(self, node: Function | ast.Lambda, units: Units, scope: Scope) -> None:
        inside = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.all(inside, units, (*scope, layer(node.args, inside)))
        if not isinstance(node, ast.Lambda):
            for name in argument_names(node.args):
                self.sink.mark("parameters", name, units)

    def _comprehension(self, node: Comprehension, units: Units, scope: Scope) -> None:
        self.visit(node.generators[0].iter, units, scope)
        self.all(ast.iter_child_nodes(node), units, (*scope, FunctionNames(targets(node), {}, frozenset())))

    def imported(self, node: ast.Import | ast.ImportFrom, units: Units) -> None:
        """An import, run by these units."""
        roots = {one.name.partition(".")[0] for one in node.names} if isinstance(node, ast.Import) else {origin(node)}
        if any(root.partition(".")[0] in dynamic.DOC_READERS for root in roots):
            self.sink.mark("does", "reads docs", units)
        if isinstance(node, ast.Import):
            for one in node.names:
                self.sink.mark("imports", one.name, units)
            return
        module = origin(node)
        self.sink.mark("imports", module, units)
        for one in node.names:
            if one.name == "*":
                self.sink.stars.add(module)
                self.sink.use(ANYTHING, module, (self.sink.unit(ANYTHING, "star", node.lineno),))
            else:
                self.sink.mark("imports", joined(module, one.name), units)
