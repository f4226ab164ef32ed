"""`cache/facts.sqlite`: facts of files, by group of files. It may be deleted at any moment.

A row is named by a digest of what is in the group and of the readers' version, and carries seals of its own content:
one that is damaged is no row. Notes (verdicts, texts that are answered) are named and sealed likewise. A file that is
no database, or of another version, is made again.

Facts of a tree's artifacts: read from the object store, kept by blob id and version of the readers.

Facts of a large tree, group by group: from the cache on the disk where a group is as it was, else read and kept.
"""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.files import CacheFile
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.gates import inputs
from ktxkit.gates import version as gate_version
from ktxkit.gates.inputs import FileListing, parsed, path_of
from ktxkit.gates.rules import model
from ktxkit.gates.rules.groups import Group, Grouped, marks_of, others_of, texts_of
from ktxkit.gates.rules.model import artifact_path, kind_of
from ktxkit.git.objects import Objects
from ktxkit.store.rules import names
from ktxkit.store.world import World

VERSION = 2  # of the table
KEPT = 4  # rows of one group: of the index, of HEAD, of another branch
_FACTS = "SELECT number, name,"
_GROUP = "number = ? AND name = ?"
_LATEST = "number = ? ORDER BY rowid DESC LIMIT 1"
NOTES = {"verdict": 8, "fine": 4}  # rows kept of a kind
LARGEST = 4 * 1024 * 1024  # bytes of a note that is kept
_TABLES = """
CREATE TABLE facts (number INTEGER, name TEXT, summary BLOB, summary_seal TEXT, marks BLOB, marks_seal TEXT,
  body BLOB, body_seal TEXT, PRIMARY KEY (number, name));
CREATE TABLE notes (kind TEXT, name TEXT, body BLOB, body_seal TEXT, PRIMARY KEY (kind, name));
"""
_PROBES = (
    "SELECT number, name, summary, summary_seal, marks, marks_seal, body, body_seal FROM facts LIMIT 1",
    "SELECT kind, name, body, body_seal FROM notes LIMIT 1",
)


Values = tuple[object, ...]


class Row(NamedTuple):
    """A group: its number and name, what its files say together, which mention what, and their facts."""

    number: int
    name: str
    summary: bytes
    marks: bytes
    body: bytes


class FactCache(CacheFile):
    """The rows. Where the file is lost every group is read anew."""

    def __init__(self, path: Path, wait: float) -> None:
        super().__init__(path, VERSION, _TABLES, *_PROBES, wait=wait)

    def outline(self, number: int, name: str) -> tuple[bytes, bytes] | None:
        """The summary and the marks of a group, if they are there and whole."""
        found = self._whole(
            f"{_FACTS} summary, summary_seal, marks, marks_seal FROM facts WHERE {_GROUP}", number, name
        )
        return (found[0], found[1]) if found is not None else None

    def body(self, number: int, name: str) -> bytes | None:
        """The facts of a group, if they are there and whole."""
        found = self._whole(f"{_FACTS} body, body_seal FROM facts WHERE {_GROUP}", number, name)
        return found[0] if found is not None else None

    def latest(self, number: int) -> tuple[bytes, bytes] | None:
        """The facts and marks of the group of that number that was written last: most of its files are the same."""
        found = self._whole(f"{_FACTS} body, body_seal, marks, marks_seal FROM facts WHERE {_LATEST}", number)
        return (found[0], found[1]) if found is not None else None

    def note(self, kind: str, name: str) -> bytes | None:
        """A note of a kind of NOTES, if it is there and whole."""
        found = self._whole("SELECT kind, name, body, body_seal FROM notes WHERE kind = ? AND name = ?", kind, name)
        return found[0] if found is not None else None

    def _whole(self, query: str, *asked: object) -> list[bytes] | None:
        """Contents after the two parts of their key, each before its seal; None where one is not as it was written."""
        if self._db is None:
            return None
        import sqlite3  # late: only a large tree has its facts kept

        try:
            row = self._db.execute(query, asked).fetchone()
        except sqlite3.Error as error:
            self._lose(error)
            return None
        if row is None or row[: len(asked)] != asked:
            return None
        pairs = list(zip(row[2::2], row[3::2], strict=True))
        if not all(isinstance(data, bytes) and _seal(row[0], row[1], data) == seal for data, seal in pairs):
            return None
        return [data for data, _ in pairs]

    def keep(self, rows: Iterable[Row]) -> None:
        """Write groups. What cannot be written is read anew next time."""
        made = [
            (*one[:2], *(part for data in one[2:] for part in (data, _seal(one.number, one.name, data))))
            for one in rows
        ]
        old = "SELECT rowid FROM facts WHERE number = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
        limits = [(number, KEPT) for number in {row[0] for row in made}]
        self._written("facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", made, f"facts WHERE rowid IN ({old})", limits)

    def keep_note(self, kind: str, name: str, body: bytes) -> None:
        """Write a note; of its kind only the last few are kept, and none that is too large."""
        made = [(kind, name, body, _seal(kind, name, body))] if len(body) <= LARGEST else []
        old = "SELECT rowid FROM notes WHERE kind = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
        self._written("notes VALUES (?, ?, ?, ?)", made, f"notes WHERE rowid IN ({old})", [(kind, NOTES[kind])])

    def _written(self, into: str, rows: Sequence[Values], out: str, limits: Sequence[Values]) -> None:
        if self._db is None or not rows:
            return
        import sqlite3

        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(f"INSERT OR REPLACE INTO {into}", rows)
            self._db.executemany(f"DELETE FROM {out}", limits)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._lose(error)


def _seal(first: object, second: object, data: bytes) -> str:
    """What a content is known by: a damaged index can lead to the content of another key."""
    return digest(f"{first} {second}\0".encode("utf-8", "surrogatepass") + data)


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
    from ktxkit.gates.rules import markdown, source

    if kind == "page":
        return markdown.facts_of(data, contracts.violations)
    if kind == "provenance":
        return rows(data)
    return source.read_source(data, contracts.violations, shard=kind == "shard")


def rows(data: bytes) -> Facts:
    """The rows of a provenance file: a JSON array of objects."""
    from ktxkit.base import contracts
    from ktxkit.base.rules import strict_yaml
    from ktxkit.base.rules.strict_yaml import YamlProblem
    from ktxkit.gates.rules import source

    parsed = strict_yaml.read_document(data)
    facts: Facts = {"kind": "provenance", "rows": [], "ignores": []}
    problems = list(parsed.problems)
    root = parsed.root
    if root is not None and root.kind != "list":
        problems.append(YamlProblem("schema-type", root.line, root.column, "a list of rows is expected"))
    for node in root.values() if root is not None else ():
        wrong = source.judged("artifact-provenance", node, contracts.violations, dates=frozenset(("id",)))
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
        kind = artifact_path(path, root).kind
        if not kind:
            continue
        if mode in NOT_A_FILE or kind == model.UNREAD:
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
        kind = artifact_path(path, root).kind
        if kind not in ("", model.UNREAD) and mode not in NOT_A_FILE and f"{kind}:{oid}" not in cache:
            wanted[f"{kind}:{oid}"] = (kind, oid)
    if len(wanted) > FEW:
        from ktxkit.base import contracts

        contracts.expect_many()
    for (key, (kind, _)), data in zip(wanted.items(), each([oid for _, oid in wanted.values()]), strict=True):
        cache[key] = read(kind, data)


def unread_expressions(facts: Mapping[bytes, Facts]) -> int:
    """How many expressions of a tree's sources were not read, since what reads them is not installed."""
    if gate_version.version_of("sqlglot") not in ("", "unknown"):
        return 0  # it states its version: it is there, and need not be imported to know
    entries = (entry for one in others_of(facts).values() for entry in one.get("sources", ()))
    count = sum(len(entry["expressions"]) for entry in entries)
    if not count:
        return 0
    from ktxkit.gates.rules.expressions import available

    return 0 if available() else count


def kept(kind: str, oid: str, load: Callable[[str], bytes], cache: MutableMapping[str, Facts]) -> Facts:
    """The facts of a blob, from `cache` where they are there, else read and put there."""
    key = f"{kind}:{oid}"
    facts = cache.get(key)
    if facts is None:
        facts = read(kind, load(oid))
        cache[key] = facts
    return facts


def other(kind: str, mode: str) -> Facts:
    """The facts of what is no file (a mode of NOT_A_FILE), or is not read."""
    if kind == model.UNREAD:
        return {"kind": kind, "problems": [], "ignores": []}
    message = f"{NOT_A_FILE[mode]} stands where an artifact is expected"
    facts: Facts = {"problems": [["not-a-file", 0, 0, message, "commit a plain file", ""]], "ignores": []}
    if kind in ("source", "shard"):  # what it declares cannot be known: references to it are not charged
        return {**facts, "kind": "sources", "form": "broken", "sources": [], "names": []}
    return {**facts, "kind": "other"}


Entry = tuple[str, str, inputs.Entry]  # what its facts follow from, kind, file
FACTS_KEPT = 200_000  # facts held in memory
PAGES, OTHERS = 64, 16  # groups


class GateCache:
    """What a command or job remembers for its gates (`world.shared`): facts by kind and blob id, the facts of the base
    that was judged last, and the file of facts and verdicts, opened once.
    """

    def __init__(self) -> None:
        self._facts: dict[str, Facts] = {}
        self._base: tuple[tuple[bytes, str], Mapping[bytes, Facts]] | None = None  # replaced whole: threads ask
        self._table: FactCache | None = None

    @property
    def facts(self) -> MutableMapping[str, Facts]:
        if len(self._facts) > FACTS_KEPT:
            self._facts.clear()
        return self._facts

    def base(self, root: bytes, tree: str, read: Callable[[], Mapping[bytes, Facts]]) -> Mapping[bytes, Facts]:
        """The facts of a base tree: candidates are judged against the same one, one after the other."""
        known = self._base
        if known is None or known[0] != (root, tree):
            self._base = known = ((root, tree), read())
        return known[1]

    def table(self, path: Path, wait: float) -> FactCache:
        """The file, made if absent; one that was lost is opened again. `wait`: seconds for another that writes."""
        if self._table is None or self._table.lost or self._table.path != path:
            self.close()
            self._table = FactCache(path, wait)
        return self._table

    def close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def open_cache(world: World, listed: FileListing, root: bytes) -> FactCache | None:
    """The cache of a repository with many artifacts; None where they are few, or where there is no place for it."""
    artifacts = (path for path in map(path_of, listed.lines) if kind_of(path, root))
    if next(islice(artifacts, world.limits.cached_artifacts - 1, None), None) is None:
        return None
    try:
        return world.shared(GateCache).table(world.writable_store.path(names.FACTS), world.limits.cache_wait)
    except (CannotRun, BrokenContract):  # a store that cannot be made, or a link in it, is no reason not to judge
        return None


class Slot:
    """The files of one group, in order, as git lists them."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self.lines = lines

    @cached_property
    def paths(self) -> list[bytes]:
        return list(map(path_of, self.lines))

    def name(self, root: bytes) -> str:
        """What the group's facts follow from: its files, and the version of the readers."""
        return digest(b"\0".join((gate_version.version().encode(), root, *self.lines)))

    def changed(self, gone: Slot, new: Slot) -> Slot:
        """Without some of its files, and with others."""
        return Slot(sorted(set(self.lines).difference(gone.lines).union(new.lines), key=path_of))


class FactReader:
    """Reads trees by one cache. `memory`: facts by kind and blob id, of this process."""

    def __init__(self, cache: FactCache, objects: Objects, memory: MutableMapping[str, Facts], root: bytes) -> None:
        self._cache = cache
        self._objects = objects
        self._memory = memory
        self._root = root
        self._groups: dict[str, Group] = {}
        self._slots: dict[int, Slot] = {}
        self._known: dict[int, tuple[Slot, str, Group]] = {}  # slots that were looked up, by number

    def read(self, listed: FileListing) -> Grouped:
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
        said, marked = texts_of(whole.facts, self._root), marks_of(whole.facts, [latest.names.get(key) for key in keys])
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
        remember([entry for _, _, entry in missing], self._root, self._objects.each, self._memory)
        new = {key: _encoded(self._fact(kind, entry)) for key, kind, entry in missing}
        return [new[key] if key in new else known[key] for key, _, _ in entries]

    def _fact(self, kind: str, entry: inputs.Entry) -> Facts:
        mode, _, oid = entry
        if mode in NOT_A_FILE or kind == model.UNREAD:
            return other(kind, mode)
        return kept(kind, oid, self._objects.read, self._memory)

    def fine(self, facts: Mapping[bytes, Facts], strict: str) -> dict[str, set[str]] | None:
        """Texts that the semantic layer is known to answer, by kind."""
        assert isinstance(facts, Grouped)
        note = self._cache.note("fine", f"{facts.layer} {strict}")
        return {kind: set(texts) for kind, texts in json.loads(note).items()} if note is not None else None

    def keep_fine(self, facts: Mapping[bytes, Facts], strict: str, fine: Mapping[str, Collection[str]]) -> None:
        """Keep more of these texts."""
        assert isinstance(facts, Grouped)
        known = (self.fine(facts, strict) or {}) if any(fine.values()) else {}
        more = {kind: sorted({*texts, *known.get(kind, ())}) for kind, texts in fine.items()}
        if any(len(texts) > len(known.get(kind, ())) for kind, texts in more.items()):
            self._cache.keep_note("fine", f"{facts.layer} {strict}", _encoded(more))


class _Latest(NamedTuple):
    """What a group held when it was kept last, by what facts follow from: the facts as JSON, and the names in them."""

    lines: Mapping[str, bytes] = {}
    names: Mapping[str, Sequence[str]] = {}

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
        found.append((f"{kind}:{mode if mode in NOT_A_FILE else oid}", kind, (mode, path, oid)))
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
