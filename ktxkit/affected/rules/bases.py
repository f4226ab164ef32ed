"""Which classes are told of, or kept in a list, when they are made: through them a class is found without its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

About = dict[str, Any]
# Bases of the standard library that keep no list by which a subclass could be found.
SILENT_BASES = {
    "object", "dict", "list", "set", "frozenset", "tuple", "str", "int", "float", "bytes", "bool", "type", "NamedTuple",
    "TypedDict", "Protocol", "Generic", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ABC", "Thread", "Process",
    "UserDict", "UserList", "UserString", "OrderedDict", "defaultdict", "Counter", "deque", "Mapping", "MutableMapping",
    "Sequence", "Iterator", "Iterable", "Callable", "NodeVisitor", "NodeTransformer", "HTMLParser", "ArgumentParser",
    "JSONEncoder", "JSONDecoder", "Action", "Formatter", "Handler", "Logger", "StringIO", "BytesIO", "RawIOBase",
    "Number", "Complex", "Real", "Rational", "Integral", "date", "time", "datetime", "timedelta", "tzinfo", "timezone",
    "Decimal", "Fraction", "MutableSequence", "MutableSet", "Set", "Collection", "Container", "Sized", "Hashable",
    "Reversible", "Generator", "Awaitable", "Coroutine", "AsyncIterator", "AsyncIterable", "AsyncGenerator", "Path",
    "PurePath", "ChainMap", "TextIOBase", "TextIOWrapper", "BufferedIOBase", "IOBase", "IO", "complex",
    "bytearray", "slice", "range", "PathLike", "AbstractContextManager", "ExitStack", "Queue", "Random",
    "Template", "Filter", "StreamHandler", "FileHandler", "LoggerAdapter", "HelpFormatter", "Namespace", "Text",
    "contextmanager", "ContextDecorator", "SimpleNamespace", "local", "property", "namedtuple",
}  # fmt: skip


def is_hooked(about: About, classes: Mapping[str, list[About]], seen: set[str]) -> bool:
    """Whether making a class tells someone: a metaclass, a base with `__init_subclass__`, a base that is not known."""
    if any(last_name(one) != "ABCMeta" for one in about["made_by"]):
        return True
    for base in about["origins"]:
        if base in seen:
            continue
        seen.add(base)
        known = classes.get(base, ())
        silent = base in SILENT_BASES or base.endswith(("Error", "Exception", "Warning", "TestCase"))
        if not (known or silent) or any(
            "__init_subclass__" in one["members"] or is_hooked(one, classes, seen) for one in known
        ):
            return True
    return False


def last_name(text: str) -> str:
    """`ABCMeta` of `abc.ABCMeta`."""
    return text.rpartition(".")[2]
