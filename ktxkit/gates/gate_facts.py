"""Facts of a tree's artifacts: read from the object store, kept by blob id and version of the readers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from ktxkit.gates.rules.model import place_of

Facts = dict[str, Any]
FEW = 8  # artifacts that are judged by their schemas without an engine
NOT_A_FILE = {"120000": "a symbolic link", "160000": "a submodule"}


def read(kind: str, data: bytes) -> Facts:
    """The facts of one artifact. Never raises."""
    with no_collection():
        return _read(kind, data)


@contextmanager
def no_collection() -> Iterator[None]:
    """No search for cycles while trees of a hundred thousand nodes grow, which have none: a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read(kind: str, data: bytes) -> Facts:
    from ktxkit.base import contracts
    from ktxkit.gates.rules import page, source

    if kind == "page":
        return page.read(data, contracts.violations)
    if kind == "provenance":
        return rows(data)
    return source.read(data, contracts.violations, shard=kind == "shard")


def rows(data: bytes) -> Facts:
    """The rows of a provenance file: a JSON array of objects."""
    from ktxkit.base import contracts
    from ktxkit.base.rules import strict_yaml
    from ktxkit.base.rules.yaml_nodes import Problem
    from ktxkit.gates.rules import shape

    parsed = strict_yaml.read(data)
    facts: Facts = {"kind": "provenance", "rows": [], "ignores": []}
    problems = list(parsed.problems)
    root = parsed.root
    if root is not None and root.kind != "list":
        problems.append(Problem("schema-type", root.line, root.column, "a list of rows is expected"))
    for node in root.values() if root is not None else ():
        wrong = shape.judged("artifact-provenance", node, contracts.violations, dates=frozenset(("id",)))
        problems += wrong
        if not wrong:
            facts["rows"].append([node.data(), node.line, node.column])
    facts["problems"] = [[p.rule, p.line, p.column, p.message, p.hint, p.level] for p in problems]
    return facts


def of_tree(
    entries: Iterable[tuple[str, bytes, str]],
    root: bytes,
    load: Callable[[str], bytes],
    cache: MutableMapping[str, Facts],
) -> dict[bytes, Facts]:
    """The facts of every artifact among (mode, path, blob id). New ones are put into `cache`, by kind and blob id."""
    found: dict[bytes, Facts] = {}
    for mode, path, oid in entries:
        kind = place_of(path, root).kind
        if not kind:
            continue
        if mode in NOT_A_FILE:
            found[path] = other(kind, mode)
            continue
        found[path] = kept(kind, oid, load, cache)
    return found


def remember(
    entries: Iterable[tuple[str, bytes, str]],
    root: bytes,
    each: Callable[[Sequence[str]], Iterator[bytes]],
    cache: MutableMapping[str, Facts],
) -> None:
    """Read the blobs that are not in `cache` in exchanges of many; `each` gives their bytes in order."""
    wanted: dict[str, tuple[str, str]] = {}
    for mode, path, oid in entries:
        kind = place_of(path, root).kind
        if kind and mode not in NOT_A_FILE and f"{kind}:{oid}" not in cache:
            wanted[f"{kind}:{oid}"] = (kind, oid)
    if len(wanted) > FEW:
        from ktxkit.base import contracts

        contracts.expect_many()
    for (key, (kind, _)), data in zip(wanted.items(), each([oid for _, oid in wanted.values()]), strict=True):
        cache[key] = read(kind, data)


def kept(kind: str, oid: str, load: Callable[[str], bytes], cache: MutableMapping[str, Facts]) -> Facts:
    """The facts of a blob, from `cache` where they are there, else read and put there."""
    key = f"{kind}:{oid}"
    facts = cache.get(key)
    if facts is None:
        facts = read(kind, load(oid))
        cache[key] = facts
    return facts


def other(kind: str, mode: str) -> Facts:
    """The facts of what is no file: a mode of NOT_A_FILE."""
    message = f"{NOT_A_FILE[mode]} stands where an artifact is expected"
    facts: Facts = {"problems": [["not-a-file", 0, 0, message, "commit a plain file", ""]], "ignores": []}
    if kind in ("source", "shard"):  # what it declares cannot be known: references to it are not charged
        return {**facts, "kind": "sources", "form": "broken", "sources": [], "names": []}
    return {**facts, "kind": "other"}
