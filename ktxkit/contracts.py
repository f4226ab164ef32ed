"""The only reader of schemas: a document is valid when it is written and when it is read.

One JSON Schema (2020-12) for each kind of document. Whatever is wrong with one ends as BrokenContract (status 5) that
names file and place; never in a traceback or a guess.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, overload

from ktxkit.core import layout
from ktxkit.core.plain_validity import is_plainly_valid
from ktxkit.errors import BrokenContract, CannotRun

if TYPE_CHECKING:
    from ktxkit.base.kinds import D, Kind
    from ktxkit.core.violations import Violation

    Name: TypeAlias = Kind[Any] | str

Document = dict[str, Any]
SCHEMA_VERSION: Final = 1
ENGINE = "jsonschema_rs"
VIOLATIONS_LIMIT = 1000  # departures of one value that are looked at
MORE = "more"  # the keyword of what stands for departures that are not told
LARGE = 30_000  # values in a value of which only the first departure is told: the engine holds 7 KB for each
FEW = 200  # documents of one process that are judged without the engine; then its import has paid
PATTERN_LIMIT = 64_000  # characters of all patterns in somebody else's schema
ENUM_SHOWN = 12  # values of an enum that a message lists


@cache
def schema_dir() -> Path:
    """Where the schemas lie: beside the sources, or in the installed package."""
    module = importlib.import_module("ktxkit.schemas")
    assert module.__file__ is not None
    return Path(module.__file__).parent


@cache
def names() -> tuple[str, ...]:
    """All kinds of documents."""
    return tuple(sorted(path.name.removesuffix(".schema.json") for path in schema_dir().glob("*.schema.json")))


@cache
def schema(name: Name) -> Document:
    """The schema of a kind. Raises KeyError for a kind that is none."""
    path = schema_dir() / f"{name}.schema.json"
    if not path.is_file():
        raise KeyError(f"no contract named {name}")
    loaded: Document = json.loads(path.read_bytes())
    return loaded


@cache
def _validator(name: Name) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(schema(name))


def checker(name: Name) -> Callable[[Any], bool]:
    """Whether documents are of a kind, fast: for records by the thousand. `validate` says what is wrong."""
    return cast(Callable[[Any], bool], _validator(name).is_valid)


_judged = count()


@overload
def validate(name: Kind[D], document: object, where: str = "") -> D: ...
@overload
def validate(name: str, document: object, where: str = "") -> Any: ...
def validate(name: Name, document: Any, where: str = "") -> Any:
    """The document, which is of this kind. Raises BrokenContract where it is not, or is of another version."""
    version = document.get("schemaVersion") if isinstance(document, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version != SCHEMA_VERSION:
        raise BrokenContract(
            f"{name}: schemaVersion {version} is unknown to this version of ktxkit",
            where=where,
            hint="it was written by another version; upgrade, or read it with the one that wrote it",
        )
    few = ENGINE not in sys.modules and next(_judged) < FEW and not layout.is_long(document)
    if few and is_plainly_valid(schema(name), document):
        return document  # a small command is over before an engine would be imported
    validator = _validator(name)
    try:
        problems = [] if validator.is_valid(document) else list(validator.iter_errors(document))
    except ValueError as error:  # what cannot be JSON at all: a lone surrogate, a non-string key
        raise BrokenContract(
            f"{name}: {error}",
            where=where,
            hint=f"docs/formats has the keys of the contract {name}",
        ) from error
    if problems:
        first = problems[0]
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BrokenContract(
            f"{name}: {_place(first)}: {first.message[:400]}{rest}",
            where=where,
            hint=f"docs/formats has the keys of the contract {name}",
        )
    return document


def violations(name: Name, value: Any) -> list[Violation]:
    """Every departure of a value from a schema, for readers that know places in their file (the gates)."""
    if ENGINE not in sys.modules and is_plainly_valid(schema(name), value):
        return []
    return _violations(_validator(name), schema(name), value)


def expect_many() -> None:
    """Many values will be judged: the engine is worth its import."""
    importlib.import_module(ENGINE)


Foreign = Callable[[str, Any], "list[Violation]"]


def foreign(data: bytes, where: str) -> Foreign:
    """A judge by somebody else's JSON Schema; nothing is fetched. Raises CannotRun where it is none."""
    import jsonschema_rs

    try:
        rules = json.loads(data)
        _require_short_patterns(rules)
        validator = jsonschema_rs.validator_for(rules, retriever=_fetches_nothing)
    except (ValueError, RecursionError) as error:
        raise CannotRun(
            f"no JSON Schema that can be used: {str(error)[:400]}",
            where=where,
            hint="it must be valid against https://json-schema.org/draft/2020-12/schema",
        ) from error
    return lambda _, value: _violations(validator, rules, value)


def _require_short_patterns(rules: Any) -> None:
    """A regular expression takes 500 times its length in memory: 1 MB of it half a gigabyte. Raises ValueError."""
    pending, total = [rules], 0
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            named = one.get("patternProperties")
            patterns = [one.get("pattern"), *(named if isinstance(named, dict) else ())]
            total += sum(len(pattern) for pattern in patterns if isinstance(pattern, str))
            if total > PATTERN_LIMIT:
                raise ValueError(f"its patterns are longer than the {PATTERN_LIMIT} characters that are taken together")
            pending += one.values()
        elif isinstance(one, list):
            pending += one


FORBIDDEN = "not"  # what a schema that is `false` says of every value: as {"not": {}} would


def _fetches_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is not in the schema itself; nothing is fetched")


def _violations(validator: Any, rules: Any, value: Any) -> list[Violation]:
    from ktxkit.core.violations import Violation

    found: list[Violation] = []
    for problem in islice(_errors(validator, value), VIOLATIONS_LIMIT):
        path, place = tuple(problem.instance_path), list(problem.schema_path)
        holder: Any = rules
        for part in place[:-1]:
            holder = _step(holder, part)
        keyword, here = str(place[-1]) if place else FORBIDDEN, value
        for part in path:
            here = here[part]
        known = tuple(holder.get("properties", ())) if isinstance(holder, dict) else ()
        if keyword == "additionalProperties":
            patterns = holder.get("patternProperties", ()) if isinstance(holder, dict) else ()
            extra = [key for key in here if key not in known and not any(re.search(one, key) for one in patterns)]
            found += [Violation(path, keyword, None, key, known) for key in extra]
        elif keyword == "required":
            missing = [key for key in _step(holder, keyword) or () if key not in here]
            found += [Violation(path, keyword, None, key, known) for key in missing]
        else:
            found.append(Violation(path, keyword, _step(holder, keyword)))
    if found and _is_large(value):
        found.append(Violation((), MORE))
    return list({(v.path, v.keyword, v.detail): v for v in found}.values())


def _errors(validator: Any, value: Any) -> Iterable[Any]:
    if not _is_large(value):
        return cast(Iterable[Any], validator.iter_errors(value))
    try:
        validator.validate(value)
    except _engine().ValidationError as error:
        return [error]
    return []


def _engine() -> Any:
    import jsonschema_rs

    return jsonschema_rs


def _is_large(value: Any) -> bool:
    left, pending = LARGE, [value]
    while pending and left > 0:
        one = pending.pop()
        if isinstance(one, dict | list):
            left -= len(one)
            pending += one.values() if isinstance(one, dict) else one
    return left <= 0


def _step(holder: Any, part: str | int) -> Any:
    """One step into a schema; None where a reference leads elsewhere."""
    if isinstance(holder, dict):
        return holder.get(str(part))
    return holder[part] if isinstance(holder, list) and isinstance(part, int) and part < len(holder) else None


def _place(problem: Any) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem.instance_path).lstrip(".") or "document"


@overload
def dumps(name: Kind[D], document: D, where: str = "") -> bytes: ...
@overload
def dumps(name: str, document: Mapping[str, Any], where: str = "") -> bytes: ...
def dumps(name: Name, document: Any, where: str = "") -> bytes:
    """The document as indented ASCII JSON with a last newline, after it was validated."""
    validate(name, document, where)
    return (layout.indented(document) + "\n").encode("ascii")


@overload
def line(name: Kind[D], document: D, where: str = "") -> bytes: ...
@overload
def line(name: str, document: Mapping[str, Any], where: str = "") -> bytes: ...
def line(name: Name, document: Any, where: str = "") -> bytes:
    """The document as one line of ASCII JSON with its newline, after it was validated."""
    validate(name, document, where)
    return compact(document)


def compact(document: Mapping[str, Any]) -> bytes:
    """One line of ASCII JSON with its newline, of a document that was validated."""
    return (layout.COMPACT.encode(document) + "\n").encode("ascii")


@overload
def loads(name: Kind[D], data: bytes, where: str = "") -> D: ...
@overload
def loads(name: str, data: bytes, where: str = "") -> Document: ...
def loads(name: Name, data: bytes, where: str = "") -> Any:
    """Read and validate. Raises BrokenContract for anything but one whole valid document of this kind."""
    document = parse(data, where or str(name))
    validate(name, document, where)
    if not isinstance(document, dict):
        raise BrokenContract(
            f"{name}: an object is expected", where=where, hint=f"docs/formats has the keys of the contract {name}"
        )
    return document


def parse(data: bytes, where: str) -> Any:
    """Strict JSON: UTF-8, no duplicate keys, no NaN, bounded nesting. Raises BrokenContract."""
    try:
        text = data.decode("utf-8")
        return _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise BrokenContract(
            f"not UTF-8 at byte {error.start}",
            where=where,
            hint="the file may be truncated, foreign, or in another encoding",
        ) from error
    except json.JSONDecodeError as error:
        raise BrokenContract(
            f"not JSON: {error.msg}, line {error.lineno} column {error.colno}",
            where=where,
            hint="the file may be truncated or foreign",
        ) from error
    except RecursionError as error:
        raise BrokenContract(
            "nested too deeply", where=where, hint="no document of ours is: the file may be foreign"
        ) from error
    except ValueError as error:
        raise BrokenContract(f"not JSON: {error}", where=where, hint="the file may be truncated or foreign") from error


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
