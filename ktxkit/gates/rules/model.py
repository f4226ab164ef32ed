"""Names near to one that is not there: for many findings on many names, within a budget.

The measure is difflib's ratio, which takes 10 microseconds a pair and far more for long names: asked for each of ten
thousand findings over ten thousand names it would take minutes. So of many names only those are measured that share
most pairs of letters with the word, and when the budget of one judgement is spent, findings come without near names.

The semantic layer of one tree, joined from the facts of its files: connections, their sources, their tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest

BUDGET = 2_000_000  # pairs of characters compared, about 0.15 microseconds each
FEW = 40  # names that are all measured
LONGEST = 128  # characters of a name that is measured


class Nearness:
    """Answers for one judgement; the names of a group are indexed once."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._groups: dict[Hashable, tuple[list[str], dict[str, list[int]]]] = {}

    def names(
        self, word: str, group: Hashable, known: Callable[[], Iterable[str]], limit: int = 3, cutoff: float = 0.6
    ) -> list[str]:
        """The names nearest to `word`, best first. `known` gives the names of `group` where it was not asked before."""
        if self.budget <= 0 or len(word) > LONGEST:
            return []
        if group not in self._groups:
            self._groups[group] = self._indexed(known())
        names, index = self._groups[group]
        chosen = self._alike(word, names, index) if len(names) > FEW else names
        self.budget -= (len(word) + 8) * sum(len(name) + 8 for name in chosen)
        return nearest(word, chosen, limit, cutoff)

    def _indexed(self, known: Iterable[str]) -> tuple[list[str], dict[str, list[int]]]:
        names = sorted(name for name in set(known) if len(name) <= LONGEST)
        index: dict[str, list[int]] = {}
        for number, name in enumerate(names if len(names) > FEW else ()):
            for pair in _pairs(name.casefold()):
                index.setdefault(pair, []).append(number)
        self.budget -= sum(map(len, names))
        return names, index

    def _alike(self, word: str, names: list[str], index: dict[str, list[int]]) -> list[str]:
        shared: Counter[int] = Counter()
        for pair in _pairs(word.casefold()):
            hits = index.get(pair, ())
            shared.update(hits)
            self.budget -= len(hits) // 2
        self.budget -= 2 * len(shared)
        best = sorted(shared.most_common(5 * FEW), key=lambda one: (-one[1] / (len(names[one[0]]) + len(word)), one[0]))
        return sorted(names[number] for number, _ in best[:FEW])


def _pairs(name: str) -> set[str]:
    folded = f" {name} "
    return {folded[n : n + 2] for n in range(len(folded) - 1)}


Facts = dict[str, Any]

CONFIGURATION = "ktx-gates.yaml"
SEMANTIC_LAYER = b"semantic-layer/"
WIKI = b"wiki/"
EVERYONES = b"wiki/global/"
PROVENANCE = b"links/provenance.json"
TOPS = frozenset(("links", "semantic-layer", "wiki"))  # below the root: the directories of artifacts
_YAML = (b".yaml", b".yml")
_QUOTES = str.maketrans("", "", "\"`'[]")


UNREAD = "unread"  # what stands below a root, and no gate reads
_DOCUMENTS = frozenset((
    "md", "markdown", "mdown", "mkd", "mkdn", "mdwn", "mdx", "rst", "adoc", "org", "txt", "yaml", "yml",
    "bak", "orig", "rej", "tmp", "old",
))  # fmt: skip
_README = re.compile(r"(?:readme|license|licence|notice)(?:\.\w+)?\Z", re.IGNORECASE)


class ArtifactPath(NamedTuple):
    """Which artifact a path is. `kind`: source, shard, page, provenance, UNREAD, or nothing. `key`: a page's key."""

    kind: str = ""
    connection: str = ""
    key: str = ""
    user: str = ""


@lru_cache(maxsize=1 << 16)
def artifact_path(path: bytes, root: bytes = b"") -> ArtifactPath:
    """The artifact at a path below `root` (which is empty or ends in `/`)."""
    if not path.startswith(root):
        return ArtifactPath()
    inner = path[len(root) :]
    if inner == PROVENANCE:
        return ArtifactPath("provenance")
    if inner.startswith(SEMANTIC_LAYER) and inner.endswith(_YAML):
        parts = inner.decode("utf-8", "surrogateescape").split("/")
        if len(parts) == 3:
            return ArtifactPath("source", parts[1])
        if len(parts) > 3 and parts[2] == "_schema":
            return ArtifactPath("shard", parts[1])
    parts = inner.decode("utf-8", "surrogateescape").split("/")
    found = _page(parts) if inner.startswith(WIKI) and inner.endswith(b".md") else ArtifactPath()
    return found if found.kind or not (_is_unread(parts) or _intended(parts)) else ArtifactPath(UNREAD)


@lru_cache(maxsize=1 << 10)
def top_named(name: str) -> str:
    """The directory of artifacts that a name looks like, but for upper and lower case; empty if none."""
    seen = re.sub("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]", "-", _seen(name))  # other dashes
    return seen if seen in TOPS else ""


def _intended(parts: list[str]) -> str:
    """The path as it would be read in the letters that are read; empty where it would not, or has them."""
    top = top_named(parts[0]) if len(parts) > 1 else ""
    if not top:
        return ""
    if top == "links":
        right = PROVENANCE.decode()
        return right if [top, *map(_seen, parts[1:])] == right.split("/") and parts != right.split("/") else ""
    right = "/".join([top, *parts[1:]])
    return right if top != parts[0] and artifact_path(right.encode("utf-8", "surrogateescape")).kind else ""


def _is_unread(parts: list[str]) -> bool:
    """Whether a file looks as if it were to be read: of a wiki what is no attachment, of a semantic layer anything."""
    if len(parts) < 2 or any(part.startswith(".") for part in parts) or _README.match(parts[-1]):
        return False
    stem, dot, extension = parts[-1].rstrip("~").rpartition(".")
    if parts[0] == "semantic-layer":
        return True
    return parts[0] == "wiki" and (not dot or not stem or _seen(extension) in _DOCUMENTS)


def _seen(extension: str) -> str:
    """A suffix as a reader takes it: blanks, hidden characters and look-alikes make no other one of it."""
    if not extension.isascii():
        from ktxkit.gates.rules.spelling import folded  # late: its patterns are of no use to most jobs

        extension = folded(extension)
    return extension.strip().casefold()


def why_unread(path: bytes, root: bytes) -> tuple[str, str]:
    """Why no gate reads a file below a root, and what to do about it."""
    parts = path[len(root) :].decode("utf-8", "replace").split("/")
    if intended := _intended(parts):
        return "no gate reads a file here: names are read in small letters", f"rename it to {intended}"
    stem, _, extension = parts[-1].rpartition(".")
    is_wiki = parts[0] == "wiki"
    right = {"md", "markdown"} if is_wiki else {"yaml", "yml"}
    wanted = "md" if is_wiki else "yaml"
    if _seen(extension) in right and extension not in ("md", "yaml", "yml"):
        return f"a file that ends in .{extension} is not read", f"rename it to {stem}.{wanted}"
    if extension not in right or (is_wiki and extension != "md"):
        return (
            f"no gate reads a file that ends in {'.' + extension if stem else 'nothing'}",
            "take it elsewhere, or away",
        )
    if is_wiki:
        return "no gate reads a page here", "pages are wiki/global/KEY.md and wiki/user/NAME/KEY.md"
    return "no gate reads a source here", "sources are semantic-layer/CONNECTION/NAME.yaml, shards .../_schema/*.yaml"


def _page(parts: list[str]) -> ArtifactPath:
    if len(parts) >= 3 and parts[1] == "global":
        return ArtifactPath("page", key="/".join(parts[2:])[: -len(".md")])
    if len(parts) >= 4 and parts[1] == "user":
        return ArtifactPath("page", key="/".join(parts[3:])[: -len(".md")], user=parts[2])
    return ArtifactPath()


@runtime_checkable
class Foldered(Protocol):
    """Files that can tell whether one lies below a directory, which ends in `/`."""

    def has_folder(self, folder: bytes) -> bool: ...


def kind_of(path: bytes, root: bytes) -> str:
    """`place_of(path, root).kind`; of a page of everyone's, and of a source, without the rest."""
    if path.startswith(root + EVERYONES) and path.endswith(b".md"):
        return "page"
    if path.startswith(root + SEMANTIC_LAYER) and path.endswith(_YAML) and path.count(b"/", len(root)) == 2:
        return "source"
    return artifact_path(path, root).kind


def page_keys(pages: Iterable[bytes], root: bytes) -> dict[str, set[str]]:
    """Page keys that each user sees; those of nobody ("") are everyone's."""
    prefix = root + EVERYONES
    start = len(prefix)
    everyones: set[str] = set()
    keys: dict[str, set[str]] = {"": everyones}
    for path in pages:
        if path.startswith(prefix):
            everyones.add(path[start:-3].decode("utf-8", "surrogateescape"))
        else:
            where = artifact_path(path, root)
            keys.setdefault(where.user, set()).add(where.key)
    for user in keys.keys() - {""}:
        keys[user] |= everyones
    return keys


class GateOptions(NamedTuple):
    """How a tree is judged. `root`: where the artifacts lie in it, empty or ending in `/`. `sites`: what addresses of
    the web begin with that lead to files of the tree, and the directory these are in. `dialects`: of the SQL of each
    connection, of all others under an empty name. `pins`: of a topic, which may be a source's name, the canonical
    artifact (`CONNECTION/SOURCE`, `CONNECTION/SOURCE.ENTITY`, `wiki/KEY`).
    """

    root: bytes = b""
    advise: bool = False
    strict: bool = False
    raw_current: Collection[str] | None = None
    raw_deleted: Collection[str] = frozenset()
    sites: tuple[tuple[str, str], ...] = ()
    dialects: tuple[tuple[str, str], ...] = ()
    pins: tuple[tuple[str, str], ...] = ()

    @property
    def answers(self) -> str:
        """What the answers to references follow from beside the semantic layer."""
        return f"{self.strict} {self.pins}" if self.pins else str(self.strict)


class Source:
    """One source: where it is declared (one file; two where an overlay changes a table), and what it has."""

    __slots__ = ("aliases", "columns", "connection", "declared", "folded", "measures", "name", "segments", "table")

    def __init__(self, connection: str, name: str) -> None:
        self.connection = connection
        self.name = name
        self.declared: list[tuple[bytes, str, Facts]] = []  # path, form, facts
        self.columns: set[str] = set()
        self.measures: set[str] = set()
        self.segments: set[str] = set()
        self.table = ""
        self.folded: frozenset[str] = frozenset()  # its columns and measures as SQL compares them
        self.aliases: dict[str, str] = {}  # of its joins: what they join

    def has(self, entity: str) -> bool:
        return entity in self.columns or entity in self.measures or entity in self.segments

    def names(self) -> set[str]:
        return self.columns | self.measures | self.segments

    @property
    def entities(self) -> list[str]:
        return sorted(self.names())

    @property
    def based(self) -> bool:
        """Whether its columns are known: an overlay alone has none of its own."""
        return any(form in ("standalone", "shard") for _, form, _ in self.declared)


class Layer:
    """All sources of a tree. `unreadable`: names that a file declares which cannot be read, by connection."""

    __slots__ = ("connections", "folded", "folds", "homes", "near", "odd", "tables", "unreadable")

    def __init__(self) -> None:
        self.connections: dict[str, dict[str, Source]] = {}
        self.unreadable: dict[str, set[str]] = {}
        self.tables: dict[str, set[str]] = {}
        self.homes: dict[str, list[str]] = {}  # source name: its connections
        self.folded: dict[str, dict[str, str]] = {}  # by connection: a source by its name in lower case
        self.folds: dict[str, list[str]] = {}  # source names of all connections by their name in lower case
        self.odd: list[str] = []  # source names with blanks or signs in them
        self.near = Nearness()

    def forgetful(self) -> Layer:
        """The same sources, and nothing remembered of which names are near."""
        same = copy(self)
        same.near = Nearness()
        return same

    def find(self, name: str) -> list[Source]:
        """The source of that name in every connection that has it."""
        return [self.connections[connection][name] for connection in self.homes.get(name, ())]

    def is_unreadable(self, name: str, connection: str = "") -> bool:
        places = [connection] if connection else list(self.unreadable)
        return any(name in self.unreadable.get(place, ()) for place in places)

    def names(self, connection: str = "") -> list[str]:
        return sorted(self.connections.get(connection, {})) if connection else sorted(self.homes)

    def near_source(self, name: str, connection: str = "", limit: int = 3, cutoff: float = 0.6) -> list[str]:
        """The sources whose names are nearest to one that is none."""
        return self.near.names(name, ("sources", connection), lambda: self.names(connection), limit, cutoff)

    def near_entity(self, name: str, sources: list[Source], limit: int = 3, cutoff: float = 0.6) -> list[str]:
        """The entities of some sources whose names are nearest to one that is none."""
        group = ("entities", *sorted((one.connection, one.name) for one in sources))
        return self.near.names(
            name, group, lambda: {entity for one in sources for entity in one.entities}, limit, cutoff
        )

    def knows_table(self, reference: str, connection: str = "") -> bool:
        """Quotes and case do not count; a table's last parts name it."""
        wanted = plain_table(reference)
        places = [connection] if connection else list(self.tables)
        return any(wanted in self.tables.get(place, ()) for place in places)


@lru_cache(maxsize=1 << 14)
def plain_table(name: str) -> str:
    return name.translate(_QUOTES).strip().casefold()


def build(files: Mapping[bytes, Facts], root: bytes = b"") -> Layer:
    """Join the facts of a tree's semantic-layer files."""
    layer = Layer()
    for path in sorted(files):
        where = artifact_path(path, root)
        if where.kind in ("source", "shard"):
            layer.connections.setdefault(where.connection, {})
            _add(layer, path, where, files[path])
    for connection, sources in layer.connections.items():
        layer.folded[connection] = {name.casefold(): name for name in sorted(sources, reverse=True)}
        for name, source in sources.items():
            _gather(source, sources)
            layer.homes.setdefault(name, []).append(connection)
            _tables(layer.tables.setdefault(connection, set()), source)
    layer.odd = _odd(layer.homes) if layer.homes else []
    for name in sorted(layer.homes):
        layer.folds.setdefault(name.casefold(), []).append(name)
    return layer


def _odd(names: Iterable[str]) -> list[str]:
    from ktxkit.gates.rules.spelling import SIMPLE

    return [name for name in sorted(names) if not SIMPLE.match(name)]


def _add(layer: Layer, path: bytes, where: ArtifactPath, facts: Facts) -> None:
    if facts["form"] == "broken":
        stem = path.rpartition(b"/")[2].rpartition(b".")[0].decode("utf-8", "surrogateescape")
        layer.unreadable.setdefault(where.connection, set()).update(facts["names"] or [stem])
        return
    sources = layer.connections[where.connection]
    for entry in facts["sources"]:
        source = sources.setdefault(entry["name"], Source(where.connection, entry["name"]))
        source.declared.append((path, facts["form"], entry))


def _gather(source: Source, siblings: Mapping[str, Source]) -> None:
    """What a source has: its own and its table's; an overlay's exclusions taken off."""
    for _, _, entry in source.declared:
        source.columns.update(name for name, _, _ in entry["columns"])
        source.measures.update(name for name, _, _ in entry["measures"])
        source.segments.update(name for name, _, _ in entry["segments"])
        source.table = source.table or entry.get("table", "")
        parent = siblings.get(str(entry.get("inherits_columns_from", "")).rpartition(".")[2])
        for _, _, inherited in parent.declared if parent is not None else ():
            source.columns.update(name for name, _, _ in inherited["columns"])
    for _, form, entry in source.declared:
        if form == "overlay":
            own = {name for name, _, _ in entry["columns"]}
            source.columns -= {name for name, _, _ in entry["excluded"]} - own
    source.folded = frozenset(name.casefold() for name in (*source.columns, *source.measures))
    source.aliases = {
        join.get("alias", join["to"]): join["to"] for _, _, one in source.declared for join in one["joins"]
    }


def _tables(known: set[str], source: Source) -> None:
    known.add(plain_table(source.name))
    parts = plain_table(source.table).split(".") if source.table else []
    known.update(".".join(parts[n:]) for n in range(len(parts)))


def entries(layer: Layer) -> Iterator[tuple[Source, bytes, str, Facts]]:
    """Every declaration of every source."""
    for connection in sorted(layer.connections):
        for name in sorted(layer.connections[connection]):
            source = layer.connections[connection][name]
            for path, form, entry in source.declared:
                yield source, path, form, entry


PAGE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}\Z")
RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
