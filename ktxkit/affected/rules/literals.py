"""What a string in a program may name: files, modules, patterns of either. `*` stands for what is only known later."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase

HOLE = "*"
TEXT_MAKERS = {"format", "format_map", "join", "replace", "removesuffix", "removeprefix"}
LONGEST = 20_000  # characters of a string that are looked at
_FORMAT = re.compile(r"\{[^{}]*\}")
_PERCENT = re.compile(r"%(?:\([^)]*\))?[-#0 +]*[\d*]*(?:\.\d+)?[a-zA-Z]")
_PLAIN = re.compile(r"[^\s\"'<>|;,=:()&`]+\Z")
_WORD = re.compile(r"[\w.*?/\[\]~+-]+")
_IMPORTED = re.compile(r"\b(?:import|from)\s+([\w.]+)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*:[A-Za-z_]\w*\Z")
_ENDING = re.compile(r"\*[\w.]*\.([A-Za-z_]\w*)\Z")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_OF_EXPRESSIONS = "\\^$+|({"  # a text with one of these is no pattern of file names
_SUFFIX = re.compile(r"\.\w{1,12}\Z")


def pattern(node: ast.AST) -> str:
    """The text of an expression, with `*` for each part that is not written there."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else HOLE
    if isinstance(node, ast.JoinedStr):
        return "".join(pattern(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return pattern(node.left) + pattern(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return f"{pattern(node.left)}/{pattern(node.right)}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        return _PERCENT.sub(HOLE, pattern(node.left))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _FORMAT.sub(HOLE, pattern(node.func.value)) if _is_text(node.func.value) else HOLE
    return HOLE


def is_composed(node: ast.AST) -> bool:
    """Whether an expression puts a text together, of parts that are not all written there."""
    made = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod))
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_MAKERS
    return (made or called) and HOLE in pattern(node)


def is_open(text: str) -> bool:
    """Whether nothing of a pattern is known."""
    return not text.strip("*./ \\-_")


def words(text: str) -> set[str]:
    """The words of a string that may name a file, a directory or a module."""
    text = text[:LONGEST]
    if _PLAIN.match(text):
        found = {text}
    else:
        found = {word for word in _WORD.findall(text) if "." in word or "/" in word}
        found |= set(_IMPORTED.findall(text))
        found |= set(_WORD.findall(text)) if len(text) <= 200 else set()
    made = {normal(word) for word in found}
    expression = any(char in text for char in _OF_EXPRESSIONS)
    return {word for word in made if _says(word, expression)}


def _says(word: str, expression: bool) -> bool:
    """Whether a word is enough to tell files by. What stands in a regular expression is no pattern of names."""
    if not is_pattern(word):
        return bool(word.strip(".-_/~+"))
    written = _BRACKETS.sub("", word)
    return not expression and (
        sum(map(str.isalnum, written)) > 1 or ("." in written and bool(written.strip("*?./-_~+")))
    )


def normal(word: str) -> str:
    """A word as a path from nowhere in particular; a bare suffix stands for every file that has it."""
    while word.startswith(("./", "../", "/", "*/")):
        word = word.partition("/")[2]
    word = word.rstrip("/.,")
    word = re.sub(r"/(?:\./)+", "/", word)
    while "/../" in word:
        word = word.rpartition("/../")[2]
    if word == ".py":
        return ""  # asked of a name, by itself: with a beginning it is a pattern
    return f"*{word}" if _SUFFIX.match(word) else word


def dotted(word: str) -> str:
    """A word as a dotted name; empty where it is none."""
    return word if _DOTTED.match(word) else ""


def reference(text: str) -> tuple[str, str, str]:
    """Module, colon and name of `module:name`, as entry points have it; empty where it is none."""
    return text.partition(":") if _REFERENCE.match(text) else ("", "", "")


def ending(text: str) -> str:
    """The name behind a part that is only known later: `name` of `*.name`; empty where there is none."""
    found = _ENDING.search(text)
    return found[1] if found else ""


def is_pattern(word: str) -> bool:
    return any(char in word for char in "*?[")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def fits(word: str, path: str) -> bool:
    """Whether a pattern in a string may stand for a path, or the end of one."""
    last = word.rpartition("/")[2]
    if not fnmatchcase(path.rpartition("/")[2], last):
        return False
    if "/" not in word:
        return bool(word.strip("*?"))
    return fnmatchcase(path, word) or fnmatchcase(path, f"*/{word}") or fnmatchcase(path, word.replace("**/", ""))
