"""Every error text of the library, read from its sources: kind, message, next step, and the file it comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = {"CannotRun": 2, "Refused": 1, "Conflict": 3, "Blocked": 4, "BrokenContract": 5}
TITLES = {
    1: "Refused: the answer is no, nothing was changed",
    2: "Cannot run: usage, configuration, git, permission",
    3: "Conflict: what conflicted is back as it was",
    4: "Blocked: a person must look",
    5: "Broken contract: a document is damaged or unknown",
}


@dataclass(frozen=True, order=True)
class Text:
    """One error as its source writes it; `<name>` stands for what is filled in."""

    status: int
    message: str
    hint: str
    location: bool
    file: str
    line: int = 0


def texts() -> list[Text]:
    """All of them, sorted; the same text of one file once."""
    found: dict[tuple[int, str, str, str], Text] = {}
    for path in sorted([*(ROOT / "ktxkit").rglob("*.py"), *(ROOT / "commands").glob("ktx_*.py")]):
        for text in _of(path):
            found.setdefault((text.status, text.message, text.hint, text.file), text)
    return sorted(found.values())


def _of(path: Path) -> Iterator[Text]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in KINDS:
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        hint = _words(given["hint"]) if "hint" in given else ""
        file = str(path.relative_to(ROOT))
        yield Text(KINDS[name], _words(node.args[0]), hint, "location" in given, file, node.lineno)


def _words(node: ast.expr) -> str:
    """A string expression as text."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"<{_name(node.value)}>"
    if isinstance(node, ast.BinOp):
        return _words(node.left) + _words(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_words(node.body)} | {_words(node.orelse)}"
    return f"<{_name(node)}>"


def _name(node: ast.expr) -> str:
    """What a filled-in value is called."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return (
            str(node.slice.value)
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            else _name(node.value)
        )
    if isinstance(node, ast.Call):
        return _name(node.args[0]) if node.args else _name(node.func)
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "..."


def page() -> str:
    """The list as a page."""
    lines = [
        "# Errors",
        "",
        "Every error that a command can end with, as the sources have it (`<name>` is filled in): one sentence of",
        "what is wrong. Before it a command prints where, below it the next step. A test makes this page anew.",
    ]
    status = 0
    for text in texts():
        if text.status != status:
            status = text.status
            lines += ["", f"## Status {status}: {TITLES[status].partition(': ')[2]}", ""]
            lines += ["| what | next step | from |", "|---|---|---|"]
        lines.append(f"| {_cell(text.message)} | {_cell(text.hint)} | `{text.file}` |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    plain = " ".join(text.split()).replace("|", "\\|")
    return (
        plain.replace("<", "&lt;").replace(">", "&gt;").replace("[", "\\[").replace("*", "\\*").replace("{", "&#123;")
    )
