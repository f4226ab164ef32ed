"""The only reader of schemas: a document is valid when it is written and when it is read.

One JSON Schema (2020-12) for each kind of document. Whatever is wrong with one ends as BrokenContract (status 5) that
names file and place; never in a traceback or a guess. The engine is that of `validators`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from ktxkit.base import validators
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules import text as layout
from ktxkit.base.rules.plain_validity import is_plainly_valid

if TYPE_CHECKING:
    from ktxkit.base.kinds import D, Kind
    from ktxkit.base.rules.plain_validity import Violation

    Name: TypeAlias = Kind[Any] | str

Document = dict[str, Any]
SCHEMA_VERSION: Final = 1
VIOLATIONS_LIMIT = 1000  # departures of one value that are looked at
MORE = "more"  # the keyword of what stands for departures that are not told
LARGE = 30_000  # values in a value of which only the first departure is told: the engine holds 7 KB for each
UNLIMITED = 1 << 60
FEW = 200  # documents of one process that are judged without the engine; then its import has paid
VALID_KEPT, VALID_BYTES = 256, 16384  # documents that are remembered as valid, and the size of the largest of them
PATTERN_LIMIT = 64_000  # characters of all patterns in somebody else's schema


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
def _validator(name: Name) -> validators.Validator:
    return validators.validator(schema(name))


def checker(name: Name) -> Callable[[Any], bool]:
    """Whether documents are of a kind, fast: for records by the thousand. `validate` says what is wrong."""
    validator = _validator(name)
    if validators.has_rust():
        return validator.is_valid
    rules = schema(name)
    return lambda document: is_plainly_valid(rules, document, UNLIMITED) or validator.is_valid(document)


_judged = count()


def _is_plainly_valid(name: Name, document: Any, *, few: bool) -> bool:
    """Whether no engine has to be asked: it is worth its import for many documents, jsonschema for an invalid one."""
    if validators.is_loaded():
        return False
    if few:
        return is_plainly_valid(schema(name), document)
    return not validators.has_rust() and is_plainly_valid(schema(name), document, UNLIMITED)


@overload
def validate(name: Kind[D], document: object, location: str = "") -> D: ...
@overload
def validate(name: str, document: object, location: str = "") -> Any: ...
def validate(name: Name, document: Any, location: str = "") -> Any:
    """The document, which is of this kind. Raises BrokenContract where it is not, or is of another version."""
    version = document.get("schemaVersion") if isinstance(document, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version != SCHEMA_VERSION:
        raise BrokenContract(
            f"{name}: schemaVersion {version} is unknown to this version of ktxkit",
            location=location,
            hint="it was written by another version; upgrade, or read it with the one that wrote it",
        )
    if _is_plainly_valid(name, document, few=next(_judged) < FEW and not layout.is_long(document)):
        return document  # a small command is over before an engine would be imported
    validator = _validator(name)
    try:
        problems = [] if validator.is_valid(document) else list(validator.departures(document))
    except ValueError as error:  # what cannot be JSON at all: a lone surrogate, a non-string key
        raise BrokenContract(
            f"{name}: {error}",
            location=location,
            hint=f"`git ktx help {name}` shows the keys",
        ) from error
    if problems:
        first = problems[0]
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BrokenContract(
            f"{name}: {validators.dotted(first.path)}: {first.message[:400]}{rest}",
            location=location,
            hint=f"`git ktx help {name}` shows the keys",
        )
    return document


def violations(name: Name, value: Any) -> list[Violation]:
    """Every departure of a value from a schema, for readers that know places in their file (the gates)."""
    if _is_plainly_valid(name, value, few=True):
        return []
    return _violations(_validator(name), value)


def expect_many() -> None:
    """Many values will be judged: the engine is worth its import."""
    validators.has_rust()


Foreign = Callable[[str, Any], "list[Violation]"]


def foreign(data: bytes, location: str) -> Foreign:
    """A judge by somebody else's JSON Schema; nothing is fetched. Raises CannotRun where it is none."""
    try:
        rules = json.loads(data)
        _require_short_patterns(rules)
        validator = validators.validator(rules)
    except (ValueError, RecursionError) as error:
        raise CannotRun(
            f"no JSON Schema that can be used: {str(error)[:400]}",
            location=location,
            hint="it must be valid against https://json-schema.org/draft/2020-12/schema",
        ) from error

    def judge(_: str, value: Any) -> list[Violation]:
        try:
            return _violations(validator, value)
        except ValueError as error:
            raise CannotRun(
                f"a value that the schema cannot judge: {error}",
                location=location,
                hint="is it what the gate is meant for?",
            ) from error

    return judge


def _require_short_patterns(rules: Any) -> None:
    """A regular expression takes 500 times its length in memory: 1 MB of it half a gigabyte. Raises ValueError."""
    total = 0
    for part in validators.parts(rules):
        if isinstance(part, dict):
            named = part.get("patternProperties")
            patterns = [part.get("pattern"), *(named if isinstance(named, dict) else ())]
            total += sum(len(pattern) for pattern in patterns if isinstance(pattern, str))
            if total > PATTERN_LIMIT:
                raise ValueError(f"its patterns are longer than the {PATTERN_LIMIT} characters that are taken together")


def _violations(validator: validators.Validator, value: Any) -> list[Violation]:
    from ktxkit.base.rules.plain_validity import Violation

    found: list[Violation] = []
    large = _is_large(value)
    for departure in validator.departures(value, 1 if large else VIOLATIONS_LIMIT):
        path, keyword, holder = departure.path, departure.keyword, departure.holder
        known = tuple(holder.get("properties", ())) if isinstance(holder, dict) else ()
        if keyword == "additionalProperties":
            found += [Violation(path, keyword, None, key, known) for key in departure.unexpected]
        elif keyword == "required":
            here = value
            for part in path:
                here = here[part]
            missing = [key for key in validators.step(holder, keyword) or () if key not in here]
            found += [Violation(path, keyword, None, key, known) for key in missing]
        else:
            found.append(Violation(path, keyword, validators.step(holder, keyword)))
    if found and large:
        found.append(Violation((), MORE))
    return list({(v.path, v.keyword, v.detail): v for v in found}.values())


def _is_large(value: Any) -> bool:
    left, pending = LARGE, [value]
    while pending and left > 0:
        one = pending.pop()
        if isinstance(one, dict | list):
            left -= len(one)
            pending += one.values() if isinstance(one, dict) else one
    return left <= 0


_valid: set[tuple[Name, bytes]] = set()  # bytes that were found to be of a kind: they need not be judged twice


def _found_valid(name: Name, data: bytes) -> None:
    """Remember a small document: a job reads again and again what it wrote itself."""
    if len(_valid) >= VALID_KEPT:
        _valid.clear()
    if len(data) <= VALID_BYTES:
        _valid.add((name, data))


@overload
def dumps(name: Kind[D], document: D, location: str = "") -> bytes: ...
@overload
def dumps(name: str, document: Mapping[str, Any], location: str = "") -> bytes: ...
def dumps(name: Name, document: Any, location: str = "") -> bytes:
    """The document as indented ASCII JSON with a last newline, after it was validated."""
    validate(name, document, location)
    data = (layout.indented(document) + "\n").encode("ascii")
    _found_valid(name, data)
    return data


@overload
def line(name: Kind[D], document: D, location: str = "") -> bytes: ...
@overload
def line(name: str, document: Mapping[str, Any], location: str = "") -> bytes: ...
def line(name: Name, document: Any, location: str = "") -> bytes:
    """The document as one line of ASCII JSON with its newline, after it was validated."""
    validate(name, document, location)
    return compact(document)


def compact(document: Mapping[str, Any]) -> bytes:
    """One line of ASCII JSON with its newline, of a document that was validated."""
    return (layout.COMPACT.encode(document) + "\n").encode("ascii")


@overload
def loads(name: Kind[D], data: bytes, location: str = "") -> D: ...
@overload
def loads(name: str, data: bytes, location: str = "") -> Document: ...
def loads(name: Name, data: bytes, location: str = "") -> Any:
    """Read and validate. Raises BrokenContract for anything but one whole valid document of this kind."""
    document = parse(data, location or str(name))
    if (name, data) not in _valid:
        validate(name, document, location)
        _found_valid(name, data)
    if not isinstance(document, dict):
        raise BrokenContract(
            f"{name}: an object is expected",
            location=location,
            hint=f"`git ktx help {name}` shows the keys",
        )
    return document


def parse(data: bytes, location: str) -> Any:
    """Strict JSON: UTF-8, no duplicate keys, no NaN, bounded nesting. Raises BrokenContract."""
    try:
        text = data.decode("utf-8")
        return _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise BrokenContract(
            f"not UTF-8 at byte {error.start}",
            location=location,
            hint="the file may be truncated, foreign, or in another encoding",
        ) from error
    except json.JSONDecodeError as error:
        raise BrokenContract(
            f"not JSON: {error.msg}, line {error.lineno} column {error.colno}",
            location=location,
            hint="the file may be truncated or foreign",
        ) from error
    except RecursionError as error:
        raise BrokenContract(
            "nested too deeply", location=location, hint="no document of ours is: the file may be foreign"
        ) from error
    except ValueError as error:
        raise BrokenContract(
            f"not JSON: {error}", location=location, hint="the file may be truncated or foreign"
        ) from error


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
