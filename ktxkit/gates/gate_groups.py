"""Facts of a large tree, group by group: from the cache on the disk where a group is as it was, else read and kept."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any
from zlib import crc32

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.gates import gate_facts, gate_read, gate_version
from ktxkit.gates.fact_cache import FactCache, Row
from ktxkit.gates.gate_read import Listed, parsed, path_of
from ktxkit.gates.rules import model
from ktxkit.gates.rules.groups import Group, Grouped, marks_of, said_of
from ktxkit.gates.rules.model import kind_of
from ktxkit.git.objects import Objects
from ktxkit.store.rules import names
from ktxkit.store.world import World

Facts = dict[str, Any]
Entry = tuple[str, str, gate_read.Entry]  # what its facts follow from, kind, file
FEWEST = 200  # artifacts of a tree for which a cache is made: fewer are read in no time
PAGES, OTHERS = 64, 16  # groups


def open_cache(world: World, listed: Listed, root: bytes) -> FactCache | None:
    """The cache of a repository with many artifacts; None where they are few, or where there is no place for it."""
    artifacts = (path for path in map(path_of, listed.lines) if kind_of(path, root))
    if next(islice(artifacts, FEWEST - 1, None), None) is None:
        return None
    try:
        return FactCache(world.writable_store.path(names.FACTS))
    except CannotRun:  # a store that cannot be made is no reason not to judge
        return None


@dataclass(frozen=True)
class Slot:
    """The files of one group, in order, as git lists them."""

    lines: list[bytes] = field(default_factory=list)

    @cached_property
    def paths(self) -> list[bytes]:
        return list(map(path_of, self.lines))

    def name(self, root: bytes) -> str:
        """What the group's facts follow from: its files, and the version of the readers."""
        return digest(b"\0".join((gate_version.version().encode(), root, *self.lines)))

    def changed(self, gone: Slot, new: Slot) -> Slot:
        """Without some of its files, and with others."""
        return Slot(sorted(set(self.lines).difference(gone.lines).union(new.lines), key=path_of))


class Reader:
    """Reads trees by one cache. `memory`: facts by kind and blob id, of this process."""

    def __init__(self, cache: FactCache, objects: Objects, memory: MutableMapping[str, Facts], root: bytes) -> None:
        self._cache = cache
        self._objects = objects
        self._memory = memory
        self._root = root
        self._groups: dict[str, Group] = {}
        self._slots: dict[int, Slot] = {}
        self._known: dict[int, tuple[Slot, str, Group]] = {}  # slots that were looked up, by number

    def read(self, listed: Listed) -> Grouped:
        """The facts of a tree's artifacts. What was read anew is kept."""
        self._slots = _slots(listed.lines, self._root)
        return self._grouped()

    def beside(self, gone: Iterable[bytes], new: Iterable[bytes]) -> Grouped:
        """The facts of the tree that differs in these lines from the one that was read last."""
        less, more = _slots(gone, self._root), _slots(new, self._root)
        for number in less.keys() | more.keys():
            old = self._slots.get(number, Slot())
            self._slots[number] = old.changed(less.get(number, Slot()), more.get(number, Slot()))
        return self._grouped()

    def _grouped(self) -> Grouped:
        made: list[Row] = []
        groups, layer = [], [gate_version.version()]
        for number, slot in sorted(self._slots.items()):
            if slot.lines:
                name, group = self._looked_up(number, slot, made)
                groups.append(group)
                layer += [name] if number >= PAGES else []
        self._cache.keep(made)
        home = {number: self._known[number][2] for number, slot in self._slots.items() if slot.lines}
        return Grouped(groups, digest("\0".join(layer).encode("ascii")), lambda path: home.get(self._number(path)))

    def _number(self, path: bytes) -> int:
        """The group that a path belongs to; none has the number -1."""
        kind = kind_of(path, self._root)
        return _number(path, kind) if kind else -1

    def _looked_up(self, number: int, slot: Slot, made: list[Row]) -> tuple[str, Group]:
        if number in self._known and self._known[number][0] is slot:
            return self._known[number][1:]
        name = slot.name(self._root)
        if name not in self._groups:
            self._groups[name] = self._group(number, name, slot, made)
        self._known[number] = (slot, name, self._groups[name])
        return name, self._groups[name]

    def _group(self, number: int, name: str, slot: Slot, made: list[Row]) -> Group:
        outline = self._cache.outline(number, name)
        if outline is not None:
            return Group(slot.paths, *outline, lambda: self._body(number, name, slot))
        entries = _entries(slot, self._root)
        keys = [key for key, _, _ in entries]
        latest = _Latest.of(*(self._cache.latest(number) or (b"", b"")))
        lines = self._lines(entries, latest.lines)
        whole = Group(slot.paths, b"", b"", lambda: lines)
        said, marked = said_of(whole.facts, self._root), marks_of(whole.facts, [latest.names.get(key) for key in keys])
        made.append(Row(number, name, said, marked, b"\n".join([_encoded([gate_version.version(), *keys]), *lines])))
        return Group(slot.paths, said, marked, lambda: lines)

    def _body(self, number: int, name: str, slot: Slot) -> Sequence[bytes]:
        """The facts of a group; where they are not whole, read again what the latest of that number does not have."""
        body = self._cache.body(number, name)
        if body is not None:  # its name says that it is of these files, in this order
            return body.split(b"\n")[1:]
        return self._lines(_entries(slot, self._root), _Latest.of((self._cache.latest(number) or (b"",))[0]).lines)

    def _lines(self, entries: Sequence[Entry], known: Mapping[str, bytes]) -> list[bytes]:
        missing = [(key, kind, entry) for key, kind, entry in entries if key not in known]
        gate_facts.remember([entry for _, _, entry in missing], self._root, self._objects.each, self._memory)
        new = {key: _encoded(self._fact(kind, entry)) for key, kind, entry in missing}
        return [new[key] if key in new else known[key] for key, _, _ in entries]

    def _fact(self, kind: str, entry: gate_read.Entry) -> Facts:
        mode, _, oid = entry
        if mode in gate_facts.NOT_A_FILE:
            return gate_facts.other(kind, mode)
        return gate_facts.kept(kind, oid, self._objects.read, self._memory)

    def fine(self, facts: Mapping[bytes, Facts], strict: bool) -> dict[str, set[str]] | None:
        """Texts that the semantic layer is known to answer, by kind."""
        assert isinstance(facts, Grouped)
        note = self._cache.note("fine", f"{facts.layer} {strict}")
        return {kind: set(texts) for kind, texts in json.loads(note).items()} if note is not None else None

    def keep_fine(self, facts: Mapping[bytes, Facts], strict: bool, found: Mapping[str, Collection[str]]) -> None:
        """Keep more of these texts."""
        assert isinstance(facts, Grouped)
        known = (self.fine(facts, strict) or {}) if any(found.values()) else {}
        more = {kind: sorted({*texts, *known.get(kind, ())}) for kind, texts in found.items()}
        if any(len(texts) > len(known.get(kind, ())) for kind, texts in more.items()):
            self._cache.keep_note("fine", f"{facts.layer} {strict}", _encoded(more))


@dataclass(frozen=True)
class _Latest:
    """What a group held when it was kept last, by what facts follow from: the facts as JSON, and the names in them."""

    lines: Mapping[str, bytes] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, body: bytes, marked: bytes = b"") -> _Latest:
        head, *lines = body.split(b"\n")
        version, *keys = json.loads(head or b'[""]')
        if version != gate_version.version():
            return cls()  # other readers read it
        names: dict[str, list[str]] = {key: [] for key in keys} if marked else {}
        for name, numbers in (json.loads(marked)["names"] if marked else {}).items():
            for key in {keys[n] for n in numbers}:
                names[key].append(name)
        return cls(dict(zip(keys, lines, strict=True)), names)


def _entries(slot: Slot, root: bytes) -> list[Entry]:
    """The files of a slot, each after what its facts follow from, and its kind."""
    found = []
    for line in slot.lines:
        path, (mode, oid) = parsed(line)
        kind = kind_of(path, root)
        found.append((f"{kind}:{mode if mode in gate_facts.NOT_A_FILE else oid}", kind, (mode, path, oid)))
    return found


def _number(path: bytes, kind: str) -> int:
    return crc32(path) % PAGES if kind == "page" else PAGES + crc32(path) % OTHERS


def _slots(lines: Iterable[bytes], root: bytes) -> dict[int, Slot]:
    """The artifacts among files by the number of their group, in their order."""
    found: dict[int, list[bytes]] = defaultdict(list)
    everyones = root + model.EVERYONES
    for line in lines:
        path = line[line.index(b"\t") + 1 :]
        if path.startswith(everyones) and path.endswith(b".md"):
            found[crc32(path) % PAGES].append(line)
        elif kind := kind_of(path, root):
            found[_number(path, kind)].append(line)
    return {number: Slot(listed) for number, listed in found.items()}


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
