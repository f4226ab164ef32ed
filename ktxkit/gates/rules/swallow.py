"""Swallowed exceptions in Python: an `except` block whose whole body discards the error.

Discarding is doing nothing, going on, or ending a function that has no answer anyway. In a function that answers,
`return None` is an answer: its caller is told that there is none.

A waiver is a comment `# gate-ok: REASON` on a line of the block or alone on the line above it. One that gives no reason
is refused, and one that waives nothing is told.
"""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ktxkit.base.rules.strict_yaml import YamlProblem

_WAIVER = re.compile(r"#\s*gate-ok\s*(?::\s*(.*)|\Z)")
_LINE_END = re.compile("\r\n?")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_STATEMENTS = ("body", "handlers", "orelse", "finalbody", "cases")  # where statements, and so handlers, can be
_TOKEN = re.compile(rb"\w+|[^\w \t\r\f]")
TOKEN_LIMIT = 150_000  # words, signs and line ends of one file: half a second and 130 MB at the worst
NAME_SHOWN = 200  # characters of a function's dotted name
SIZE_LIMIT = 1024 * 1024  # bytes of one file


@dataclass(slots=True)
class _Waiver:
    line: int
    column: int
    reason: str
    alone: bool
    used: bool = field(default=False)


class Swallow(NamedTuple):
    """A block that discards an error. `reference`: the function and what is caught there, with a number from the second
    on: what stays the same when lines move, and differs for each."""

    problem: YamlProblem
    reference: str
    waived: bool


def judge(data: bytes) -> list[YamlProblem]:
    """What is wrong in one Python source. Never raises."""
    problems, found = look(data)
    told = [*problems, *(one.problem for one in found if not one.waived)]
    return sorted(told, key=lambda one: (one.line, one.column))


def look(data: bytes) -> tuple[list[YamlProblem], list[Swallow]]:
    """What is wrong with a source and its waivers, and each block that discards an error. Never raises."""
    excess = _excess(data)
    if excess:
        hint = "split the file, or name the files of this gate with `files`"
        return [YamlProblem("python-size", 1, 1, excess, hint)], []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a deprecated escape in foreign code is not ours to tell
            tree = ast.parse(data)
    except SyntaxError as error:
        line, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        return [YamlProblem("python-syntax", line, column, f"not Python: {error.msg}")], []
    except (ValueError, RecursionError, MemoryError) as error:
        return [YamlProblem("python-syntax", 1, 1, f"cannot be read: {str(error)[:200] or type(error).__name__}")], []
    waivers = list(_waivers(data))
    by_line: dict[int, list[_Waiver]] = {}
    for waiver in waivers:
        by_line.setdefault(waiver.line, []).append(waiver)
    counts: Counter[str] = Counter()
    found = []
    for node, answers, scope in _handlers(tree):
        if not all(_discards(statement, answers) for statement in node.body):
            continue
        plain = f"{scope}: {_caught(node.type)[:80]}"
        counts[plain] += 1
        reference = f"{plain} #{counts[plain]}" if counts[plain] > 1 else plain
        found.append(Swallow(_problem(node), reference, _waived(node, by_line)))
    return [*_wrong(waivers)], found


def _excess(data: bytes) -> str:
    """Why a file is not read: what its tree would take grows with its tokens. Empty where it is."""
    if len(data) > SIZE_LIMIT:
        return f"{len(data)} bytes are more than the {SIZE_LIMIT} that are read"
    if len(data) > TOKEN_LIMIT and (count := sum(1 for _ in _TOKEN.finditer(data))) > TOKEN_LIMIT:
        return f"{count} words and signs are more than the {TOKEN_LIMIT} that are read"
    return ""


def _wrong(waivers: list[_Waiver]) -> Iterator[YamlProblem]:
    for waiver in waivers:
        if not waiver.reason:
            message = "a waiver without a reason: `# gate-ok: REASON`"
            yield YamlProblem("waiver-without-reason", waiver.line, waiver.column, message, "say why it is right")
        elif not waiver.used:
            message = "this waiver waives nothing"
            yield YamlProblem("waiver-unused", waiver.line, waiver.column, message, "remove the comment")


def _handlers(tree: ast.AST) -> list[tuple[ast.ExceptHandler, bool, str]]:
    """Every handler, in the order of the source, whether the function that it stands in answers, and its name."""
    found: list[tuple[ast.ExceptHandler, ast.AST, str]] = []
    pending: list[tuple[ast.AST, ast.AST, str]] = [(tree, tree, "")]
    while pending:
        node, scope, name = pending.pop()
        if isinstance(node, _SCOPES):
            own = getattr(node, "name", "lambda")
            scope, name = node, f"{name}.{own}" if name else own
        elif isinstance(node, ast.ExceptHandler):
            found.append((node, scope, name[-NAME_SHOWN:] or "the module"))
        pending += [(child, scope, name) for field in _STATEMENTS for child in getattr(node, field, ())]
    answers = {scope: scope is not tree and _answers(scope) for scope in {scope for _, scope, _ in found}}
    found.sort(key=lambda one: (one[0].lineno, one[0].col_offset))
    return [(node, answers[scope], name) for node, scope, name in found]


def _answers(function: ast.AST) -> bool:
    """Whether a function returns anything but None; a generator's return says nothing to who iterates."""
    pending = list(ast.iter_child_nodes(function))
    answers = False
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Return) and not _nothing(node.value):
            answers = True
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return answers


def _nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _waived(node: ast.ExceptHandler, waivers: Mapping[int, list[_Waiver]]) -> bool:
    last = node.end_lineno or node.lineno
    waived = False
    for line in range(node.lineno - 1, last + 1):
        for waiver in waivers.get(line, ()):
            if line >= node.lineno or waiver.alone:
                waiver.used = True
                waived = waived or bool(waiver.reason)
    return waived


def _problem(node: ast.ExceptHandler) -> YamlProblem:
    message = f"this block catches {_caught(node.type)[:80]} and discards it"
    hint = "handle it, log it or let it pass; or `# gate-ok: REASON` on the line"
    return YamlProblem("swallowed-exception", node.lineno, node.col_offset + 1, message, hint)


def _caught(kind: ast.expr | None) -> str:
    try:
        return ast.unparse(kind) if kind is not None else "everything"
    except RecursionError:
        return "what a deep expression names"


def _discards(statement: ast.stmt, answers: bool) -> bool:
    """Whether a statement does nothing with the error. `answers`: the function around it returns more than None."""
    if isinstance(statement, ast.Pass | ast.Continue | ast.Break):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Return) and _nothing(statement.value) and not answers


def _waivers(data: bytes) -> Iterator[_Waiver]:
    if b"gate-ok" not in data:
        return
    try:
        encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
        text = data.decode(encoding, "replace")  # the bytes of a comment may be any
        lines = iter(_LINE_END.sub("\n", text).split("\n"))
        for token in tokenize.generate_tokens(lambda: next(lines) + "\n"):
            found = _WAIVER.match(token.string) if token.type == tokenize.COMMENT else None
            if found:
                alone = not token.line[: token.start[1]].strip()
                yield _Waiver(token.start[0], token.start[1] + 1, (found[1] or "").strip(), alone)
    except (tokenize.TokenError, SyntaxError, StopIteration):
        return  # gate-ok: ast read the file, so that what tokenize stumbles over holds no comment
