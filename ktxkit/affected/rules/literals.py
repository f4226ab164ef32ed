"""What a string in a program may name: files, modules, patterns of either. `*` stands for what is only known later.

What may stand at the top of a module without doing anything: its value matters only to those who use it.
"""

from __future__ import annotations

import ast
import re
import warnings
from fnmatch import fnmatchcase

from ktxkit.affected.rules.scopes import Alias, Aliases

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
_TRACEBACK = re.compile(
    r"Traceback|\bline\b|\blineno\b|File \"|\w\(|\w\\\(|\s=\s|:\d|\.py\b|\braise\b|\breturn\b", re.I
)
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


def of_a_traceback(text: str) -> bool:
    """Whether a text may be compared with a traceback, or a place in a file: it has a line, a number or code in it."""
    return _TRACEBACK.search(text[:LONGEST]) is not None


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


TOTAL = {"frozenset", "set", "dict", "tuple", "list", "object", "TypeVar", "NewType", "getLogger", "ParamSpec"}
# Decorators from these only wrap: they keep no list of what they were put on.
WRAPPERS = {
    "functools", "contextlib", "pytest", "typing", "typing_extensions", "abc", "dataclasses", "enum", "hypothesis",
    "unittest", "mock", "asyncio", "attr", "attrs", "warnings", "pytest_asyncio",
}  # fmt: skip
BUILT_IN = {"staticmethod", "classmethod", "property"}
ACCESSORS = {"setter", "getter", "deleter"}
# Importing them does nothing that could fail, so that an import that comes or goes changes no one else.
QUIET = {
    "__future__", "abc", "argparse", "array", "ast", "asyncio", "base64", "bisect", "calendar", "cmath", "collections",
    "concurrent", "configparser", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "errno", "fnmatch", "fractions", "functools", "gc", "getpass", "glob", "gzip", "hashlib", "heapq", "hmac", "html",
    "importlib", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "logging", "math", "mimetypes",
    "multiprocessing", "numbers", "operator", "os", "pathlib", "pickle", "platform", "pprint", "queue", "random", "re",
    "secrets", "shlex", "shutil", "signal", "socket", "sqlite3", "statistics", "stat", "string", "struct", "subprocess",
    "sys", "tempfile", "textwrap", "threading", "time", "timeit", "tokenize", "tomllib", "traceback", "types", "typing",
    "unicodedata", "unittest", "urllib", "uuid", "warnings", "weakref", "xml", "zipfile", "zlib", "zoneinfo", "pytest",
}  # fmt: skip
SPECIAL = {
    "pytestmark",
    "pytest_plugins",
    "collect_ignore",
    "collect_ignore_glob",
    "__test__",
    "__path__",
    "__getattr__",
}


def is_pure(node: ast.AST) -> bool:
    """Whether evaluating it can neither fail (unless a name is gone) nor do anything."""
    if isinstance(node, ast.Constant | ast.Lambda):
        return True
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Attribute):
        return is_pure(node.value) and not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Tuple | ast.List):
        return all(is_pure(one) and not isinstance(one, ast.Starred) for one in node.elts)
    if isinstance(node, ast.Set):
        return all(isinstance(one, ast.Constant) for one in node.elts)
    if isinstance(node, ast.Dict):
        keys = all(isinstance(one, ast.Constant) for one in node.keys)
        return keys and all(is_pure(one) for one in node.values)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int | float)
    if isinstance(node, ast.BinOp):
        return _pure_operation(node)
    return isinstance(node, ast.Call) and _is_total(node)


def _pure_operation(node: ast.BinOp) -> bool:
    kinds = {type(one.value) for one in (node.left, node.right) if isinstance(one, ast.Constant)}
    both = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
    if not both or not isinstance(node.op, ast.Add | ast.Mult | ast.Sub):
        return False
    return kinds <= {int, float} or (kinds == {str} and isinstance(node.op, ast.Add))


def _is_total(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "compile" and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "re":
        return len(node.args) == 1 and not node.keywords and _compiles(node.args[0])
    plain = all(is_pure(one) for one in (*node.args, *(named.value for named in node.keywords)))
    if name in ("dict", "list", "tuple", "set", "frozenset"):
        return plain and all(isinstance(one, ast.Tuple | ast.List | ast.Set | ast.Dict) for one in node.args)
    return name in TOTAL and plain


def _compiles(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes) or len(node.value) > 2000:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(node.value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def root_of(node: ast.AST) -> str:
    """The first name of a decorator or a base."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def only_wraps(node: ast.AST, aliases: Aliases) -> bool:
    """Whether a decorator is known to keep no list of what it decorates."""
    if isinstance(node, ast.Attribute) and node.attr in ACCESSORS:
        return True
    root = root_of(node)
    if root in aliases:
        return all(_is_wrapper(alias) for alias in aliases[root])
    return root in BUILT_IN


def _is_wrapper(alias: Alias) -> bool:
    return alias.module.partition(".")[0] in WRAPPERS


def is_fixture(node: ast.AST) -> bool:
    """Whether a decorator makes a fixture: pytest's, or one that is called like it."""
    inner = node.func if isinstance(node, ast.Call) else node
    last = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
    return "fixture" in last.lower()


def has_call(node: ast.AST) -> bool:
    """Whether something is called inside: the decorator's or the expression's parts, not itself."""
    parts = [*node.args, *(one.value for one in node.keywords)] if isinstance(node, ast.Call) else [node]
    return any(isinstance(one, ast.Call | ast.Await | ast.comprehension) for part in parts for one in ast.walk(part))
