"""Gates over a tree of the object store; no checkout is needed. The one seam for everybody who asks for a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktxkit.contracts import Document
from ktxkit.core.gates import scope as scoping
from ktxkit.core.gates import verdict as core_verdict
from ktxkit.core.gates.artifacts import Judged, Options, judge
from ktxkit.core.gates.findings import Finding, mark_inherited
from ktxkit.effects.objects import Objects
from ktxkit.flows import gate_facts
from ktxkit.world import World

CONTRACT = "verdict"
FACTS_KEPT = 200_000  # facts held in memory
Entries = Sequence[tuple[str, bytes, str]]  # mode, path, object id

_memory: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class Read:
    """A tree with its facts: `files` by path (mode and object id), `facts` of the artifacts among them."""

    files: Mapping[bytes, tuple[str, str]]
    facts: Mapping[bytes, dict[str, Any]]


def check_tree(
    world: World,
    tree: str,
    *,
    base_tree: str | None = None,
    touched: Sequence[bytes] | None = None,
    everything: bool = False,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Document:
    """The verdict (contract `verdict`) on a tree.

    `base_tree`: findings that it has too are inherited, never charged. `touched`: paths of the change; without them
    they are what differs from the base, and without a base everything is looked at. Raises BrokenContract where an
    object is missing.
    """
    how = options_of({**(options or {}), **more})
    with Objects(world.git) as objects:
        after = read_tree(tree, objects, how.root)
        before = read_tree(base_tree, objects, how.root) if base_tree else None
    return verdict(after, before, touched, how, everything=everything, tree=tree, base_tree=base_tree or "")


def options_of(options: Mapping[str, Any]) -> Options:
    """The gates' options from a document's keys (`strictConnections`, `advise`, `root`, `rawCurrent`, `rawDeleted`)."""
    root = str(options.get("root", "")).strip("/")
    current = options.get("rawCurrent")
    return Options(
        root=f"{root}/".encode("utf-8", "surrogateescape") if root not in ("", ".") else b"",
        advise=bool(options.get("advise", False)),
        strict=bool(options.get("strictConnections", False)),
        raw_current=None if current is None else frozenset(current),
        raw_deleted=frozenset(options.get("rawDeleted", ())),
    )


def read_tree(tree: str, objects: Objects, root: bytes) -> Read:
    """The facts of a tree of the object store. Raises BrokenContract where an object is missing."""
    return read_entries([(e.mode, e.path, e.oid) for e in objects.tree(tree)], objects, root)


def read_entries(entries: Entries, objects: Objects, root: bytes) -> Read:
    """A tree's facts, from memory where its blobs were read before."""
    cache = _memory.setdefault(gate_facts.version(), {})
    if len(cache) > FACTS_KEPT:
        cache.clear()
    facts = gate_facts.of_tree(entries, root, objects.read, cache)
    return Read({path: (mode, oid) for mode, path, oid in entries}, facts)


def verdict(
    after: Read,
    before: Read | None,
    touched: Sequence[bytes] | None,
    how: Options,
    *,
    everything: bool = False,
    tree: str = "",
    base_tree: str = "",
    also: Sequence[Read] = (),
) -> Document:
    """Judge what was read. `also`: other bases beside `before`, the other sides of a merge."""
    judged = judge(after.facts, after.files, how)
    found: list[Finding] = list(judged.findings)
    looked = dict(judged.looked)
    if before is not None:
        for one in (before, *also):
            base = judge(one.facts, one.files, replace(how, raw_current=None))
            found = mark_inherited(found, base.findings, moved(one, after))
        touched = touched if touched is not None else changed(before, after)
    scope = None
    if touched is not None and not everything:
        trees = [after.facts] if before is None else [after.facts, before.facts]
        scope = scoping.close(touched, trees, how.root)
        if before is None:
            found = [one for one in found if scope.holds(one)]
        else:
            found = [one for one in found if not one.inherited or one.path in scope.files]
        looked = _within(judged, after, scope)
    return core_verdict.build(
        found,
        looked,
        tree=tree,
        base_tree=base_tree,
        scope="all" if scope is None else "change",
        gates=[{"name": "artifacts"}],
        suppressed=judged.suppressed,
    )


def _within(judged: Judged, after: Read, scope: scoping.Scope) -> dict[str, int]:
    """What was looked at of a scope."""
    from ktxkit.core.gates.artifacts import looked_at

    return looked_at({path: facts for path, facts in after.facts.items() if path in scope.files})


def changed(before: Read, after: Read) -> list[bytes]:
    """Paths that differ between two trees."""
    paths = set(before.files) | set(after.files)
    return sorted(path for path in paths if before.files.get(path) != after.files.get(path))


def moved(before: Read, after: Read) -> dict[bytes, bytes]:
    """New path to old path of each file that only moved."""
    gone: dict[str, bytes] = {}
    for path, (_, oid) in before.files.items():
        if path not in after.files:
            gone.setdefault(oid, path)
    return {path: gone[oid] for path, (_, oid) in after.files.items() if path not in before.files and oid in gone}
