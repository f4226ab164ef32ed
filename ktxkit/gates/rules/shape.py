"""The shape of an artifact: what its JSON Schema says about it, told with the places that the YAML reader knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ktxkit.base.rules.text import nearest
from ktxkit.base.rules.violations import Violation
from ktxkit.base.rules.yaml_nodes import Node, Problem

PAGE_DATES = frozenset({"stale_since", "archived_since", "usage", "fingerprints", "external_refs"})
SOURCE_DATES = frozenset({"usage", "freshness", "tests", "enum_values"})
GATED_KEYS = frozenset({"refs", "sl_refs", "tables", "summary"})
TOLD = 200  # departures of one file; the rest is counted
SHOWN = 200  # characters of a name or a place
_NAMES = {"null": "nothing", "map": "a map", "list": "a list", "str": "text", "bool": "true or false"}


Judge = Callable[[str, Any], Sequence[Violation]]


def judged(contract: str, root: Node, judge: Judge, dates: frozenset[str] = frozenset()) -> list[Problem]:
    """All departures from a contract, with places; and dates where text is expected. `dates`: keys that take one."""
    found = judge(contract, root.data())
    problems = [_told(violation, root) for violation in found[:TOLD]]
    if len(found) > TOLD:
        problems.append(
            Problem(
                "schema-value", 1, 1, f"{len(found) - TOLD} and perhaps more departures from the schema are not told"
            )
        )
    if root.kind == "map":
        for key, value in root.items:
            if key is not None and key.plain not in dates:
                problems += _dates(value)
    return problems


def _dates(node: Node) -> Iterator[Problem]:
    if node.dateish:
        message = f"{node.plain} is a date to many readers where text is expected"
        yield Problem("schema-type", node.line, node.column, message, "quote it")
    for _, value in node.items:
        yield from _dates(value)


def scalars(node: Node) -> list[tuple[int, int]]:
    """The offsets of all scalars below a node."""
    if node.kind == "scalar":
        return [(node.start, node.end)]
    found = []
    for key, value in node.items:
        if key is not None:
            found.append((key.start, key.end))
        found += scalars(value)
    return found


def _told(violation: Violation, root: Node) -> Problem:
    if violation.keyword == "more":
        return Problem("schema-value", 1, 1, "of a file this large only the first departure from the schema is told")
    node, key = root.at(list(violation.path))
    place = key if key is not None and violation.keyword == "additionalProperties" else node
    name = _dotted(violation.path)
    if violation.keyword == "additionalProperties":
        return _unknown_key(violation, root, name)
    if violation.keyword == "required":
        return Problem("schema-required", node.line, node.column, f"{violation.detail!r} is missing{_in(name)}")
    if violation.keyword == "type":
        return _wrong_type(violation, node, name)
    if violation.keyword in ("not", "pattern") and violation.path and violation.path[-1] == "name":
        message = f"the name {str(node.plain)[:SHOWN]!r} holds what a reference cannot spell"
        return Problem("entity-name", place.line, place.column, message, "no dots, slashes or control characters")
    return Problem("schema-value", place.line, place.column, f"{name or 'the file'}: {_said(violation, node)}")


def _unknown_key(violation: Violation, root: Node, name: str) -> Problem:
    node, _ = root.at(list(violation.path))
    key = next((k for k, _ in node.items if k is not None and k.plain == violation.detail), None)
    near = nearest(violation.detail[:SHOWN], list(violation.known), 1)
    hint = f"did you mean {near[0]!r}?" if near else "remove it, or begin it with x-"
    place = key or node
    return Problem(
        "schema-unknown-key", place.line, place.column, f"{violation.detail[:SHOWN]!r} is no known key{_in(name)}", hint
    )


def _wrong_type(violation: Violation, node: Node, name: str) -> Problem:
    wanted = violation.wanted if isinstance(violation.wanted, list) else [violation.wanted]
    words = {"array": "a list", "object": "a map", "string": "text", "integer": "a whole number", "number": "a number"}
    expected = " or ".join(words.get(str(word), str(word)) for word in wanted)
    is_plain = node.kind == "scalar" and not isinstance(node.plain, str) and node.plain is not None
    hint = "quote it" if "string" in wanted and is_plain else ""
    if not hint and "array" in wanted and node.kind == "scalar":
        hint = (
            "write a list: [...] or one `- ` line for each" if node.plain is not None else "write [] or remove the key"
        )
    if not hint and "string" in wanted and node.kind == "map":
        hint = "a colon and a space make a map; write `a:b`, or quote it"
    return Problem(
        "schema-type", node.line, node.column, f"{name or 'the file'}: {_kind(node)} where {expected} is expected", hint
    )


def _kind(node: Node) -> str:
    if node.kind != "scalar":
        return _NAMES[node.kind]
    if node.plain is None:
        return _NAMES["null"]
    if isinstance(node.plain, str):
        return _NAMES["str"]
    if isinstance(node.plain, dict | list):
        return _NAMES["map" if isinstance(node.plain, dict) else "list"]
    return f"{'true or false' if isinstance(node.plain, bool) else 'the number'} ({str(node.plain)[:SHOWN]})"


def _said(violation: Violation, node: Node) -> str:
    shown = f"a {node.kind} of {len(node.items)}"
    if node.kind == "scalar":
        shown = _kind(node) if isinstance(node.plain, dict | list) else repr(node.plain)[:80]
    if violation.keyword == "enum":
        return f"{shown} is none of {', '.join(map(str, violation.wanted))}"
    limits = {
        "minItems": "fewer than",
        "minLength": "shorter than",
        "maxItems": "more than",
        "maxLength": "longer than",
    }
    if violation.keyword in limits:
        return f"{limits[violation.keyword]} {violation.wanted}"
    return f"{shown} is not allowed ({violation.keyword})"


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part[:SHOWN]}" for part in path).lstrip(".")


def _in(name: str) -> str:
    return f" in {name}" if name else ""
