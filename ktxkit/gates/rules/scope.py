"""Scope: what a change can have made wrong. Its own files, what refers to what it touched, and join neighbours.

The closure is by reverse references: a page that names a touched, renamed or deleted source is in it although nobody
touched the page. What lies outside cannot have a finding that the base did not have.

A change of pages, and of files that are no artifacts: only what refers to what it touched is judged, on both sides.

The semantic layer is the same before and after, so whatever else a page or source has, it has on both sides: all of
that is inherited, and none is told outside of the change's scope. `judge` of both trees as a whole gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ktxkit.base.rules.named import NamedTuple
from ktxkit.gates.rules import model
from ktxkit.gates.rules import targets as links
from ktxkit.gates.rules.groups import concerned, key_of, names_in, special_of
from ktxkit.gates.rules.model import Foldered, GateOptions, Layer
from ktxkit.gates.rules.targets import RawFacts, raw_path

if TYPE_CHECKING:
    from ktxkit.gates.rules.findings import Finding


Facts = dict[str, Any]
Tree = Mapping[bytes, Facts]


class ChangeScope(NamedTuple):
    """`touched` files, the `names` they declare or declared, and the `referrers`: files that use one of the names."""

    touched: frozenset[bytes]
    names: frozenset[str]
    referrers: frozenset[bytes]

    @property
    def files(self) -> frozenset[bytes]:
        return self.touched | self.referrers

    def holds(self, finding: Finding) -> bool:
        """Whether a finding belongs to the change where no base tells: in its files, or about its names."""
        if finding.path in self.touched:
            return True
        return finding.path in self.referrers and bool(self.names & names_in(finding.reference))


def close(touched: Collection[bytes], trees: Collection[Tree], root: bytes = b"") -> ChangeScope:
    """The closure of touched paths over the trees before and after the change."""
    names: set[str] = set()
    for tree in trees:
        for path in touched:
            names |= set(declared(path, tree.get(path), root))
    raw = {_text(path, root) for path in touched}
    folded = {name.casefold() for name in names}
    targets = _targets(touched, trees)
    linked = {name for path in touched for name in links.names_of(path)}
    near = [concerned(tree, names | folded | targets | raw | linked, bool(names)) for tree in trees]
    referrers = {path for tree in near for path, facts in tree.items() if _uses(facts, names, folded, raw | linked)}
    referrers |= _joined(targets, near)
    if names:
        referrers |= {path for tree in near for path, facts in tree.items() if facts["kind"] == "provenance"}
    return ChangeScope(frozenset(touched), frozenset(names), frozenset(referrers) - frozenset(touched))


def _text(path: bytes, root: bytes) -> str:
    return path.removeprefix(root).decode("utf-8", "surrogateescape")


def declared(path: bytes, facts: Facts | None, root: bytes) -> Iterator[str]:
    """The names that others use for what a file declares: source names, tables, a page's key, a connection."""
    where = model.artifact_path(path, root)
    if where.kind == "page":
        yield where.key
    if facts is None or facts["kind"] != "sources":
        return
    yield where.connection
    yield path.rpartition(b"/")[2].rpartition(b".")[0].decode("utf-8", "surrogateescape")
    yield from facts["names"]
    for entry in facts["sources"]:
        yield entry["name"]
        parts = model.plain_table(entry.get("table", "")).split(".")
        yield from (".".join(parts[n:]) for n in range(len(parts)))


def _uses(facts: Facts, names: set[str], folded: set[str], raw: set[str]) -> bool:
    if facts["kind"] == "page":
        if any(text in raw for text, _, _ in facts["comments"]):
            return True
        if any(links.mentioned(text) in raw for text, _, _ in facts["targets"]):
            return True
        lists = ("slRefs", "tables", "spans", "refs", "links", "words")
        return any(names & names_in(text) for key in lists for text, _, _ in facts[key])
    if facts["kind"] == "provenance":
        return any(row.get("rawPath") in raw or row.get("sourcePath") in raw for row, _, _ in facts["rows"])
    return facts["kind"] == "sources" and any(
        join["to"] in names or join["to"].casefold() in folded for entry in facts["sources"] for join in entry["joins"]
    )


def _targets(touched: Collection[bytes], trees: Collection[Tree]) -> set[str]:
    """Names of touched sources, and of what they join."""
    entries = [entry for tree in trees for path in touched for entry in tree.get(path, {}).get("sources", ())]
    return {entry["name"] for entry in entries} | {join["to"] for entry in entries for join in entry["joins"]}


def _joined(targets: Collection[str], near: Collection[Tree]) -> set[bytes]:
    """Files of sources that a touched source joins, or shares its name with."""
    return {
        path
        for tree in near
        for path, facts in tree.items()
        if facts["kind"] == "sources" and any(entry["name"] in targets for entry in facts["sources"])
    }


FactsByPath = Mapping[bytes, dict[str, Any]]
Files = Mapping[bytes, Any]
Side = tuple[FactsByPath, Files]
Fine = Mapping[str, Set[str]]
IsPage = Callable[[bytes], bool]
LAYERED = ("spans", "slRefs", "tables")  # kinds of text that the semantic layer answers


class Narrow(NamedTuple):
    """What is told, of what scope, how many are suppressed; and the texts that the layer was found to answer."""

    findings: list[Finding]
    scope: ChangeScope
    suppressed: int
    fine: Fine


def applies(touched: Collection[bytes], after: Files, before: Files, options: GateOptions) -> bool:
    """Whether a change leaves the semantic layer alone, and every directory in its place."""
    if options.advise or options.raw_current is not None:
        return False
    if options.pins and model.CONFIGURATION.encode() in touched:
        return False  # the change may bring the pin
    if any(place.startswith("wiki/") for _, place in options.pins):
        return False  # a page that goes may be the one that was chosen
    if any(model.kind_of(path, options.root) in ("source", "shard") for path in touched):
        return False
    new = [path for path in touched if path not in before]
    gone = [path for path in touched if path not in after]
    return _stand(new, before) and _stand(gone, after)


def _stand(paths: Sequence[bytes], files: Files) -> bool:
    """Whether a file lies below each directory that these paths lie in."""
    folders = {path[: path.rfind(b"/") + 1] for path in paths} - {b""}
    if isinstance(files, Foldered):
        return all(map(files.has_folder, folders))
    return all(any(path.startswith(folder) for path in files) for folder in folders)


def judged(
    after: Side,
    before: Side,
    touched: Collection[bytes],
    options: GateOptions,
    fine: Fine | None = None,
    *,
    own_comments: bool = True,
) -> Narrow:
    """The findings of a change that `applies`, with those in scope that are inherited; how many are suppressed.

    `fine`: texts that the semantic layer is known to answer, by kind. Where these are all, it is not even built.
    """
    scope = close(touched, [after[0], before[0]], options.root)
    if fine is not None and all(_silent(side, scope, options, fine) for side in (after, before)):
        return Narrow([], scope, 0, {})
    from ktxkit.gates.rules.artifacts import judge
    from ktxkit.gates.rules.findings import grouped, mark_inherited
    from ktxkit.gates.rules.suppressions import exempted

    base = judge(*before, options, only=scope.files)
    layer = base.layer.forgetful()  # the pages' names, which it remembers too, may differ
    new = judge(*after, options, only=scope.files, layer=layer)
    gone = moved(before[1], after[1], touched)
    more = exempted(new.covered, base.covered, gone, own_comments=own_comments, advise=False)
    every = grouped([*new.findings, *more.charged, *more.said]) if any(more) else new.findings
    found = mark_inherited(every, base.findings, gone)
    told = [one for one in found if not one.inherited or one.path in scope.files]
    return Narrow(
        told,
        scope,
        new.suppressed - sum(len(one.places) for one in more.charged),
        {kind: {*base.fine[kind], *new.fine[kind]} for kind in LAYERED},
    )


def _silent(side: Side, scope: ChangeScope, options: GateOptions, fine: Fine) -> bool:
    """Whether there is no finding on what is in scope, and nothing that is suppressed anywhere."""
    facts, files = side
    if special_of(facts):
        return False
    known = RawFacts(files, frozenset(), Layer(), options.root, None, options.raw_deleted)

    def is_page(path: bytes) -> bool:
        return path in files and files[path][0] not in ("120000", "160000")

    return all(_is_silent(path, facts[path], is_page, known, fine) for path in scope.files if path in facts)


def _is_silent(path: bytes, page: dict[str, Any], is_page: IsPage, known: RawFacts, fine: Fine) -> bool:
    where = model.artifact_path(path, known.root)
    if page["kind"] != "page" or page["problems"] or page["ignores"] or not model.PAGE_KEY.match(where.key):
        return False
    keys = {*(text for text, _, _ in page["refs"]), *(key_of(text) for text, _, _ in page["links"] if key_of(text))}
    homes = [b"wiki/global/", *([f"wiki/user/{where.user}/".encode("utf-8", "surrogateescape")] if where.user else [])]
    return (
        all(text in fine[kind] for kind in LAYERED for text, _, _ in page[kind])
        and all(model.PAGE_KEY.match(key) for key in keys)
        and all(any(is_page(b"%b%b%b.md" % (known.root, home, key.encode())) for home in homes) for key in keys)
        and all(raw_path(text, known) is None for text, _, _ in page["comments"])
        and not page["targets"]
    )


def moved(before: Files, after: Files, touched: Collection[bytes]) -> dict[bytes, bytes]:
    """New path to old path of each file that only moved. `touched`: the paths that differ, in order."""
    gone: dict[str, bytes] = {}
    for path in touched:
        if path in before and path not in after:
            gone.setdefault(before[path][1], path)
    new = (path for path in touched if path in after and path not in before)
    return {path: gone[after[path][1]] for path in new if after[path][1] in gone}
