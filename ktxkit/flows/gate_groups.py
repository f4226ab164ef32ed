"""Facts of a large tree, group by group: from the cache on the disk where a group is as it was, else read and kept."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ktxkit import __version__, contracts
from ktxkit.core import names
from ktxkit.core.digests import digest
from ktxkit.core.gates import groups
from ktxkit.core.gates.groups import Group, Grouped, summary_of
from ktxkit.core.gates.model import place_of
from ktxkit.effects.fact_cache import FactCache
from ktxkit.effects.objects import Objects
from ktxkit.errors import CannotRun
from ktxkit.flows import gate_facts
from ktxkit.world import World

Facts = dict[str, Any]
Entry = tuple[str, bytes, str, str]  # mode, path, object id, kind
Row = tuple[int, str, bytes, bytes]  # number, name, summary, facts
FEWEST = 200  # artifacts of a tree for which a cache is made: fewer are read in no time
PAGES, OTHERS = 64, 16  # groups


def open_cache(world: World, entries: Iterable[tuple[str, bytes, str]], root: bytes) -> FactCache | None:
    """The cache of a repository with many artifacts; None where they are few, or where there is no place for it."""
    count = sum(1 for _, path, _ in entries if place_of(path, root).kind)
    if count < FEWEST:
        return None
    try:
        return FactCache(world.writable_store.path(names.FACTS))
    except CannotRun:  # a store that cannot be made is no reason not to judge
        return None


class Reader:
    """Reads trees by one cache. `memory`: facts by kind and blob id, of this process."""

    def __init__(self, cache: FactCache, objects: Objects, memory: MutableMapping[str, Facts]) -> None:
        self._cache = cache
        self._objects = objects
        self._memory = memory
        self._groups: dict[str, Group] = {}

    def read(self, entries: Iterable[tuple[str, bytes, str]], root: bytes) -> Grouped:
        """The facts of a tree's artifacts. What was read anew is kept."""
        sorted_in: dict[int, list[Entry]] = {}
        for mode, path, oid in entries:
            kind = place_of(path, root).kind
            if kind:
                number = zlib.crc32(path) % PAGES if kind == "page" else PAGES + zlib.crc32(path) % OTHERS
                sorted_in.setdefault(number, []).append((mode, path, oid, kind))
        made: list[Row] = []
        groups = [self._group(number, found, root, made) for number, found in sorted(sorted_in.items())]
        self._cache.keep(made)
        return Grouped(groups)

    def _group(
        self, number: int, entries: list[Entry], root: bytes, made: list[tuple[int, str, bytes, bytes]]
    ) -> Group:
        name = _name(entries, root)
        if name in self._groups:
            return self._groups[name]
        paths = [path for _, path, _, _ in entries]
        summary = _decoded(self._cache.summary(number, name))
        if isinstance(summary, dict):
            group = Group(paths, summary, lambda: self._body(number, name, entries, root))
        else:
            facts = self._anew(number, entries, root)
            summary = summary_of(dict(zip(paths, facts, strict=True)), root)
            body = [[_key(entry), one] for entry, one in zip(entries, facts, strict=True)]
            made.append((number, name, _encoded(summary), _encoded(body)))
            group = Group(paths, summary, lambda: facts)
        self._groups[name] = group
        return group

    def _body(self, number: int, name: str, entries: list[Entry], root: bytes) -> Sequence[Facts]:
        known = _by_key(self._cache.body(number, name))
        return self._anew(number, entries, root) if known is None else self._facts(entries, known, root)

    def _anew(self, number: int, entries: list[Entry], root: bytes) -> list[Facts]:
        """Read what the group of this number did not have when it was kept last."""
        return self._facts(entries, _by_key(self._cache.latest(number)) or {}, root)

    def _facts(self, entries: list[Entry], known: Mapping[str, Facts], root: bytes) -> list[Facts]:
        found = []
        missing = [entry[:3] for entry in entries if _key(entry) not in known]
        gate_facts.remember(missing, root, self._objects.each, self._memory)
        for mode, _, oid, kind in entries:
            if mode in gate_facts.NOT_A_FILE:
                found.append(gate_facts.other(kind, mode))
                continue
            facts = known.get(_key((mode, b"", oid, kind)))
            found.append(gate_facts.kept(kind, oid, self._objects.read, self._memory) if facts is None else facts)
        return found


def _name(entries: list[Entry], root: bytes) -> str:
    """What a group's facts follow from: its files, and the version of the readers."""
    lines = [b" ".join((mode.encode(), oid.encode(), path)) for mode, path, oid, _ in entries]
    return digest(b"\0".join((gate_facts.version().encode(), readers(), root, *lines)))


@lru_cache(maxsize=1)
def readers() -> bytes:
    """What the readers are: their release, their sources and their schemas. Nobody has to remember to count it up."""
    core = Path(groups.__file__).parent
    places = [*core.glob("*.py"), core.parent / "strict_yaml.py", core.parent / "yaml_nodes.py"]
    places += [Path(gate_facts.__file__), *contracts.schema_dir().glob("artifact-*.schema.json")]
    found = [place.read_bytes() for place in sorted(places) if place.is_file()]
    return f"{__version__} {digest(b''.join(found))[3:19]}".encode()


def _key(entry: Entry) -> str:
    mode, _, oid, kind = entry
    return f"{gate_facts.version()} {readers().decode()}:{kind}:{mode if mode in gate_facts.NOT_A_FILE else oid}"


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _decoded(data: bytes | None) -> Any:
    return json.loads(data) if data is not None else None


def _by_key(data: bytes | None) -> dict[str, Facts] | None:
    listed = _decoded(data)
    return dict(listed) if isinstance(listed, list) else None
