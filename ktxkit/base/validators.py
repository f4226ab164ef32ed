"""The two engines that judge a value by a JSON Schema, behind one interface: the same verdicts from both.

jsonschema-rs where it is installed; else jsonschema, at a hundred times the time. It has wheels for fewer systems, and
elsewhere needs Rust. `contracts` is the only user.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any, Protocol

from ktxkit.base.rules.named import NamedTuple

RUST = "jsonschema_rs"
FORBIDDEN = "not"  # what a schema that is `false` says of every value: as {"not": {}} would
DRAFT = "https://json-schema.org/draft/2020-12/schema"  # of a schema that names none
INSTALL = "install jsonschema-rs (pip install 'ktxkit[fast]')"
# What the older drafts assert, and the two engines judge differently.
OLDER = frozenset(f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 6, 7))
FORMATS = frozenset(
    ("date", "date-time", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference",
     "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template")
)  # fmt: skip


class Departure(NamedTuple):
    """One departure of a value from a schema, as an engine reports it.

    `holder`: the subschema that has the keyword, None where a reference leads elsewhere. `unexpected`: the keys that
    `additionalProperties` does not allow.
    """

    path: tuple[str | int, ...]
    keyword: str
    holder: Any
    message: str
    unexpected: tuple[str, ...] = ()


class Validator(Protocol):
    """A schema that an engine has read. Raises ValueError for a value that JSON cannot carry."""

    def is_valid(self, value: Any) -> bool:
        """Whether the value is as the schema says."""

    def departures(self, value: Any, limit: int | None = None) -> Iterator[Departure]:
        """Every departure, or at most so many; of one alone no engine holds more."""


class RustValidator:
    """jsonschema-rs. Raises ValueError for what is no schema, or refers to one that is not in it."""

    def __init__(self, engine: ModuleType, rules: Any) -> None:
        self._rules = rules
        self._wrong = engine.ValidationError
        self._judge = engine.validator_for(rules, retriever=_fetches_nothing)
        self.is_valid: Callable[[Any], bool] = self._judge.is_valid

    def departures(self, value: Any, limit: int | None = None) -> Iterator[Departure]:
        """See Validator."""
        if limit != 1:
            yield from map(self._departure, islice(self._judge.iter_errors(value), limit))
            return
        try:
            self._judge.validate(value)
        except self._wrong as error:
            yield self._departure(error)

    def _departure(self, error: Any) -> Departure:
        place = list(error.schema_path)
        holder: Any = self._rules
        for part in place[:-1]:
            holder = step(holder, part)
        keyword = str(place[-1]) if place else FORBIDDEN
        unexpected = tuple(error.kind.unexpected) if keyword == "additionalProperties" else ()
        return Departure(tuple(error.instance_path), keyword, holder, error.message, unexpected)


class PythonValidator:
    """jsonschema, taught what it leaves to Python: patterns are those of ECMA 262, nothing is fetched.

    Raises ValueError for what is no schema, refers to one that is not in it, or asks for what the engines judge
    differently: never another verdict in silence.
    """

    def __init__(self, rules: Any) -> None:
        import copy

        from jsonschema import exceptions, validators

        named = rules.get("$schema", DRAFT) if isinstance(rules, dict) else DRAFT
        draft = validators.validator_for({"$schema": named}, default=None) if isinstance(named, str) else None
        if draft is None or draft is validators.Draft3Validator:
            raise ValueError(f"$schema {named!r} is no draft of JSON Schema that is known")
        try:
            draft.check_schema(rules, format_checker=None)
        except exceptions.SchemaError as error:
            raise ValueError(f"{dotted(error.absolute_path)}: {error.message}") from error
        rules = copy.deepcopy(rules)
        registry = _read_alike(rules, draft.META_SCHEMA["$schema"])
        self._judge = _extended(draft)(rules, registry=registry)

    def is_valid(self, value: Any) -> bool:
        """See Validator."""
        return next(self.departures(value), None) is None

    def departures(self, value: Any, limit: int | None = None) -> Iterator[Departure]:
        """See Validator."""
        try:
            yield from map(_departure, islice(self._judge.iter_errors(value), limit))
        except RecursionError as error:
            raise ValueError(f"nested more deeply than jsonschema follows: {INSTALL}") from error


def _departure(error: Any) -> Departure:
    holder: Any = error.schema if error.validator else None
    unexpected: tuple[str, ...] = ()
    if error.validator == "additionalProperties":
        known, patterns = holder.get("properties", {}), holder.get("patternProperties", {})
        extra = [key for key in error.instance if key not in known]
        unexpected = tuple(key for key in extra if not any(re.search(pattern, key) for pattern in patterns))
    return Departure(tuple(error.absolute_path), error.validator or FORBIDDEN, holder, error.message, unexpected)


def _read_alike(rules: Any, draft: str) -> Any:
    """Makes every subschema (of `rules`, in place) mean what it means to jsonschema-rs; the registry of references."""
    from jsonschema_specifications import REGISTRY
    from referencing import Registry, exceptions, jsonschema

    kind, empty = jsonschema.specification_with(draft), Registry(retrieve=_fetches_nothing)  # type: ignore[call-arg]
    root = kind.create_resource(rules)
    registry = empty.combine(REGISTRY).with_resource(root.id() or "", root)
    ours = {id(part) for part in parts(rules)}
    pending = [(root, registry.resolver(root.id() or ""))]
    while pending:
        resource, resolver = pending.pop()
        subschema = resource.contents
        if id(subschema) not in ours or not isinstance(subschema, dict):
            continue
        ours.remove(id(subschema))
        _require_alike(subschema, draft)
        for reference in [subschema[key] for key in ("$ref", "$dynamicRef", "$recursiveRef") if key in subschema]:
            try:
                target = resolver.lookup(reference)
            except exceptions.Unresolvable as error:
                raise ValueError(f"{reference} is not in the schema itself; nothing is fetched") from error
            pending.append((kind.create_resource(target.contents), target.resolver))
        pending += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]
    return registry


def _require_alike(subschema: dict[str, Any], draft: str) -> None:
    """Its patterns as Python's, in place. Raises ValueError for what jsonschema-rs alone can judge."""
    if draft in OLDER and subschema.get("format") in FORMATS:
        raise ValueError(f"the format {subschema['format']!r} of this draft is not judged by jsonschema: {INSTALL}")
    if draft in OLDER and subschema.keys() & {"contentMediaType", "contentEncoding"}:
        raise ValueError(f"encoded content is not judged by jsonschema: {INSTALL}")
    if isinstance(subschema.get("pattern"), str):
        subschema["pattern"] = _Pattern(subschema["pattern"])
    if isinstance(subschema.get("patternProperties"), dict):
        subschema["patternProperties"] = {_Pattern(key): one for key, one in subschema["patternProperties"].items()}


class _Pattern(str):
    """A pattern as Python reads it, shown as it was written."""

    original: str

    def __new__(cls, original: str) -> _Pattern:
        """Raises ValueError for a pattern that Python does not have."""
        from ktxkit.base.rules import patterns as ecma_patterns

        pattern = super().__new__(cls, ecma_patterns.translated(original))
        pattern.original = original
        return pattern

    def __repr__(self) -> str:
        return repr(self.original)


def parts(value: Any) -> Iterator[Any]:
    """A value, and every value in it; no depth is too deep."""
    pending = [value]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part


def _extended(draft: Any) -> Any:
    """The draft, of which no text is matched, and no key, that UTF-8 cannot carry; and infinite is no number."""
    from jsonschema import validators

    def is_number(checker: Any, value: Any) -> bool:
        return bool(draft.TYPE_CHECKER.is_type(value, "number")) and math.isfinite(value)

    types = {"array": lambda _, value: isinstance(value, list | tuple), "number": is_number}
    looks = ("pattern", "enum", "const", "properties", "patternProperties", "additionalProperties", "propertyNames")
    strict = {keyword: _strict(draft.VALIDATORS[keyword]) for keyword in looks if keyword in draft.VALIDATORS}
    return validators.extend(draft, strict, type_checker=draft.TYPE_CHECKER.redefine_many(types))


def _strict(judge: Any) -> Any:
    """A keyword's judge that raises ValueError for text with a lone surrogate, and for a key that is no text."""

    def judged(validator: Any, wanted: Any, value: Any, subschema: Any) -> Iterator[Any]:
        for text in (value,) if isinstance(value, str) else value if isinstance(value, dict) else ():
            if not isinstance(text, str):
                raise ValueError(f"the key {text!r} is no text")
            text.encode()
        yield from judge(validator, wanted, value, subschema) or ()

    return judged


@cache
def _rust() -> ModuleType | None:
    """jsonschema-rs, or None where it is not installed: not every system has a wheel of it, or Rust."""
    try:
        return importlib.import_module(RUST)
    except ImportError:
        return None


def validator(rules: Any) -> Validator:
    """The schema in the engine that there is. Raises ValueError for one that cannot be used."""
    engine = _rust()
    return PythonValidator(rules) if engine is None else RustValidator(engine, rules)


def has_rust() -> bool:
    """Whether jsonschema-rs judges; it is imported then."""
    return _rust() is not None


def is_loaded() -> bool:
    """Whether jsonschema-rs is imported already, so that it costs nothing to ask it."""
    return sys.modules.get(RUST) is not None


def _fetches_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is not in the schema itself; nothing is fetched")


def step(holder: Any, part: str | int) -> Any:
    """One step into a schema; None where a reference leads elsewhere."""
    if isinstance(holder, dict):
        return holder.get(str(part))
    return holder[part] if isinstance(holder, list) and isinstance(part, int) and part < len(holder) else None


def dotted(path: Iterable[str | int]) -> str:
    """A place in a value, as `units[3].key`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".") or "document"
