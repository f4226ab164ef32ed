"""What may stand at the top of a module without doing anything: its value matters only to those who use it."""

from __future__ import annotations

import ast
import re
import warnings

from ktxkit.affected.rules.scopes import Alias, Aliases

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
