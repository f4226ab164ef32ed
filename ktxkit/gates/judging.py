"""The gate of artifacts on what was asked for: the whole of both trees, or what a change concerns.

Gates over a tree of the object store; no checkout is needed. The one seam for everybody who asks for a verdict.

Repair: what cannot be loaded is dropped, what dangles is taken out, twice; then every gate confirms it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.contracts import Document
from ktxkit.base.rules.named import NamedTuple
from ktxkit.gates import configuration
from ktxkit.gates import facts as gate_facts
from ktxkit.gates.configuration import ARTIFACTS, Config, options_of
from ktxkit.gates.facts import NOT_A_FILE, FactReader, GateCache, open_cache
from ktxkit.gates.inputs import Comments, FileListing, Files, fetch_artifacts, path_of
from ktxkit.gates.rules import findings as core_verdict
from ktxkit.gates.rules import model
from ktxkit.gates.rules import scope as narrow
from ktxkit.gates.rules.groups import looked_at
from ktxkit.gates.rules.model import GateOptions, kind_of, top_named
from ktxkit.git.neutral import open_neutral, open_objects
from ktxkit.git.objects import TREE, Objects, TreeFiles
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.gates.plugin import Subject
    from ktxkit.gates.rules.findings import Finding
    from ktxkit.gates.rules.prune import Pruned


SLASH = ord("/")
GateFindings = tuple[list["Finding"], dict[str, int], int]  # findings, what was looked at, how many are suppressed


def findings(request: JudgeRequest, touched: Sequence[bytes] | None, options: GateOptions) -> GateFindings:
    """What is told of what was asked for. `touched` None: everything."""
    after, before = request.after, request.before
    if not any(one.facts for one in (after, before, *request.also, request.earlier) if one is not None):
        return [], looked_at({}), 0  # no artifact anywhere: what judges them is not even loaded
    if touched is not None and before is not None and not request.also and request.earlier is None:
        differ = changed(before, after)
        if differ == sorted(touched) and narrow.applies(differ, after.files, before.files, options):
            return _narrow(request, before, differ, options)
    return _whole(request, touched, options)


def _narrow(request: JudgeRequest, before: TreeFacts, touched: Sequence[bytes], options: GateOptions) -> GateFindings:
    after, kept = request.after, request.after.kept
    fine = kept.fine(after.facts, options.answers) if kept else None
    sides = (after.facts, after.files), (before.facts, before.files)
    part = narrow.judged(*sides, touched, options, fine, own_comments=request.own_comments)
    if kept:
        kept.keep_fine(after.facts, options.answers, part.fine)
    return part.findings, _looked(after, part.scope), part.suppressed


def _whole(request: JudgeRequest, touched: Sequence[bytes] | None, options: GateOptions) -> GateFindings:
    from ktxkit.gates.rules.artifacts import judge
    from ktxkit.gates.rules.findings import grouped, mark_inherited
    from ktxkit.gates.rules.suppressions import exempted

    after, before = request.after, request.before
    trees = [one for one in (before, *request.also) if before is not None and one is not None]
    bases = [judge(one.facts, one.files, options._replace(raw_current=None)) for one in trees]
    past = [one for one in (*trees, request.earlier) if one is not None]
    former = frozenset(name for base in bases for name in base.layer.homes)
    if request.earlier is not None:
        former |= judge(request.earlier.facts, request.earlier.files, options).layer.homes.keys()
    judged = judge(after.facts, after.files, options, former)
    if after.kept:
        after.kept.keep_fine(after.facts, options.answers, judged.fine)
    before_too = [one for base in bases for one in base.covered] if trees else None
    gone = moved(trees[0], after) if trees else {}
    comments = {"own_comments": request.own_comments, "advise": options.advise}
    more = exempted(judged.covered, before_too, gone, **comments)
    found = grouped([*judged.findings, *more.charged, *more.said]) if any(more) else list(judged.findings)
    suppressed = judged.suppressed - sum(len(one.places) for one in more.charged)
    own = model.CONFIGURATION.encode() if request.own_comments else None
    for one, base in zip(trees, bases, strict=True):
        is_new = own is not None and one.files.get(own) != after.files.get(own)  # what it pins, the change brings
        known = [each for each in base.findings if not (is_new and each.path == own)]
        found = mark_inherited(found, known, moved(one, after))
    if touched is None:
        return found, dict(judged.looked), suppressed
    scope = narrow.close(touched, [after.facts, *(one.facts for one in past)], options.root)
    if before is None:
        found = [one for one in found if scope.holds(one)]
    else:
        found = [one for one in found if not one.inherited or one.path in scope.files]
    return found, _looked(after, scope), suppressed


def hidden(request: JudgeRequest, touched: Sequence[bytes] | None, root: bytes) -> list[Finding]:
    """A finding for each link or submodule that the change puts in the place of a directory of artifacts: who reads
    there gets what nobody looked at. `touched` None: what differs from the base is meant."""
    from ktxkit.gates.rules.findings import Finding

    after = request.after
    if touched is None:
        touched = changed(request.before, after) if request.before is not None else ()
    gone = [path for path in touched if kind_of(path, root) and not _mode(after, path)]
    above = {path[:at] for path in gone for at, sign in enumerate(path) if sign == SLASH}
    odd = {path: _mode(after, path) for path in sorted(above.intersection(touched))}
    said = "stands where a directory of artifacts was: what it leads to was not looked at"
    return [
        Finding("not-a-file", path, f"{NOT_A_FILE[mode]} {said}", hint="commit plain files", inherited=known)
        for path, mode in odd.items()
        if mode in NOT_A_FILE
        for known in [any(_mode(one, path) in NOT_A_FILE for one in request.also)]
    ]


def _with_hidden(found: list[Finding], replaced: list[Finding]) -> list[Finding]:
    """One finding on what stands in a directory's place; that no gate reads it, is said by that."""
    places = {one.path for one in replaced}
    return [*(one for one in found if one.rule != "not-read" or one.path not in places), *replaced]


def _mode(read: TreeFacts, path: bytes) -> str:
    return read.files[path][0] if path in read.files else ""


def _looked(after: TreeFacts, scope: narrow.ChangeScope) -> dict[str, int]:
    return looked_at({path: after.facts[path] for path in scope.files if path in after.facts})


def changed(before: TreeFacts, after: TreeFacts) -> list[bytes]:
    """Paths that differ between two trees."""
    if isinstance(after.files, TreeFiles) and isinstance(before.files, TreeFiles):
        return after.files.differing(before.files)
    if isinstance(before.files, Files) and isinstance(after.files, Files):
        one, two = before.files.listed, after.files.listed
        return sorted({path_of(line) for line in (*one.without(two), *two.without(one))})
    return sorted({path for path, _ in before.files.items() ^ after.files.items()})


def moved(before: TreeFacts, after: TreeFacts) -> dict[bytes, bytes]:
    """New path to old path of each file that only moved."""
    return narrow.moved(before.files, after.files, changed(before, after))


__all__ = [
    "CONTRACT", "JudgeRequest", "TreeFacts", "changed", "check_tree",
    "options_of", "read_beside", "read_entries",
    "read_listed", "read_tree", "reader", "verdict",
]  # fmt: skip

CONTRACT = "verdict"
Entries = Sequence[tuple[str, bytes, str]]  # mode, path, object id


class TreeFacts(NamedTuple):
    """A tree with its facts: `files` by path (mode and object id), `facts` of the artifacts among them, its id."""

    files: Mapping[bytes, tuple[str, str]]
    facts: Mapping[bytes, dict[str, Any]]
    tree: str = ""
    kept: FactReader | None = None  # what read it, where it keeps facts


class JudgeRequest(NamedTuple):
    """What is to be judged. `before`: whose findings are inherited; `also`: the other sides of a merge, likewise.

    `touched` None: what differs from `before`. `everything`: what is inherited elsewhere is told too. `earlier`: what
    declares the files that are named and gone; nothing of it is inherited. `own_comments`: comments that suppress count
    although the change brings them, as they do for a person who commits them.
    """

    after: TreeFacts
    before: TreeFacts | None = None
    touched: Sequence[bytes] | None = None
    everything: bool = False
    also: Sequence[TreeFacts] = ()
    earlier: TreeFacts | None = None
    own_comments: bool = True


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

    `base_tree`: findings that it has too are inherited, never charged; the configuration is the base's, and comments
    that suppress count for what they suppress there, so that no change can loosen its own gates. `touched`: paths of
    the change; without them they are what differs from the base, and without a base everything is looked at. Raises
    BrokenContract where an object is missing, CannotRun where `everything` is below a root that neither tree has.
    """
    with open_objects(world) as objects:
        config = configuration.make({**(options or {}), **more}, lambda path: _file(objects, base_tree or tree, path))
        root, trees = config.options.root, [tree, *([base_tree] if base_tree else [])]
        if everything:
            configuration.check_root_in(objects, root, trees)
        fetch_artifacts(world, trees, (entry for one in trees for entry in artifacts_of(objects, one, root)), root)
        after = read_tree(world, tree, objects, root)
        before = _base(world, base_tree, objects, root) if base_tree else None
        asked = JudgeRequest(after, before, touched, everything, own_comments=before is None)
        return verdict(world, objects, asked, config)


def _file(objects: Objects, tree: str, path: bytes) -> bytes | None:
    """A file of a tree, or None where there is none."""
    found = objects.entry(tree, path)
    return objects.read(found.oid) if found is not None and found.mode not in ("040000", "160000") else None


def _base(world: World, tree: str, objects: Objects, root: bytes) -> TreeFacts:
    """A base tree, from memory where the candidate before this one was judged against it too."""
    facts = world.shared(GateCache).base(root, tree, lambda: read_tree(world, tree, objects, root).facts)
    return TreeFacts(TreeFiles(objects, tree), facts, tree)


def read_tree(world: World, tree: str, objects: Objects, root: bytes) -> TreeFacts:
    """The facts of a tree of the object store. Raises BrokenContract where an object is missing."""
    read = read_entries(world, artifacts_of(objects, tree, root), objects, root, tree)
    return read._replace(files=TreeFiles(objects, tree))


def reader(world: World, objects: Objects, listed: FileListing, root: bytes) -> FactReader | None:
    """A reader that keeps the facts of a repository with many artifacts on the disk; None where they are few."""
    cache = open_cache(world, listed, root)
    return FactReader(cache, objects, world.shared(GateCache).facts, root) if cache is not None else None


def artifacts_of(objects: Objects, tree: str, root: bytes) -> Entries:
    """The files of a tree where artifacts can be; the rest of it is not listed."""
    top = objects.entry(tree, root.rstrip(b"/")) if root else None
    if root and (top is None or top.mode != TREE):
        return []
    found: list[tuple[str, bytes, str]] = []
    for mode, name, oid in objects.level(top.oid if top is not None else tree):
        if top_named(os.fsdecode(name)):  # in letters of any case: what stands there unread is told
            found += objects.below(oid, root + name + b"/") if mode == TREE else [(mode, root + name, oid)]
    return found


def read_entries(world: World, entries: Entries, objects: Objects, root: bytes, tree: str = "") -> TreeFacts:
    """A tree's facts, from memory where its blobs were read before."""
    known = world.shared(GateCache).facts
    gate_facts.remember(entries, root, objects.each, known)
    facts = gate_facts.of_tree(entries, root, objects.read, known)
    return TreeFacts({path: (mode, oid) for mode, path, oid in entries}, facts, tree)


def read_listed(
    world: World, listed: FileListing, objects: Objects, root: bytes, reader: FactReader | None
) -> TreeFacts:
    """The facts of an index or tree that git listed, from what `reader` keeps where there is such."""
    if reader is None:
        return read_entries(world, listed.entries, objects, root, listed.tree)
    return TreeFacts(listed.files, reader.read(listed), listed.tree, reader)


def read_beside(world: World, listed: FileListing, after: TreeFacts, objects: Objects, root: bytes) -> TreeFacts:
    """The facts of a tree beside the one that was read last: of what is the same in both nothing is looked at again."""
    if after.kept is None or not isinstance(after.files, Files):
        return read_entries(world, listed.entries, objects, root, listed.tree)
    there = after.files.listed
    return TreeFacts(
        listed.files, after.kept.beside(there.without(listed), listed.without(there)), listed.tree, after.kept
    )


def verdict(world: World, objects: Objects, request: JudgeRequest, config: Config) -> Document:
    """Judge what was asked for, by every gate that is configured."""
    touched = request.touched
    if touched is None and request.before is not None:
        touched = changed(request.before, request.after)
    if request.everything:
        touched = None
    found: list[Finding] = []
    gates: list[Document] = []
    looked: dict[str, int] = {}
    suppressed = 0
    comments = Comments(request.after.files, objects)
    for entry in config.gates:
        if entry["gate"] == ARTIFACTS:
            more, looked, suppressed = findings(request, touched, config.options)
            more = _with_hidden(more, hidden(request, touched, config.options.root))
            name, count, said = ARTIFACTS, looked["files"], ""
        else:
            more, count, said = _other(world, objects, request, touched, config, entry, comments)
            name = str(entry.get("name") or entry["gate"])
        charged = any(one.severity == "error" and not one.inherited for one in more)
        gates.append({"name": name, "outcome": "findings" if charged else "done", "looked": count})
        gates[-1] |= {"message": said[:8000]} if said else {}
        found += [*more, *configuration.idle_settings(config, entry, request.after.files, count)]
    found = [*comments.agreed(found), *comments.idle(request.after.facts)]
    kept = [one for one in found if one.fingerprint not in config.baseline]
    known = len(found) - len(kept)
    if touched is None and config.whole:
        kept += configuration.paid(config, found)
    return core_verdict.build(
        sorted(kept, key=lambda one: one.order),
        looked,
        tree=request.after.tree,
        base_tree=request.before.tree if request.before is not None else "",
        scope="all" if touched is None else "change",
        gates=gates,
        suppressed=suppressed + comments.count,
        baselined=known,
        unread=gate_facts.unread_expressions(request.after.facts) if looked else 0,
    )


def charged(request: JudgeRequest, config: Config) -> list[Finding]:
    """The errors of the artifacts that are charged: neither inherited nor known debts."""
    return [one for one in own_findings(request, config) if one.severity == "error"]


def own_findings(request: JudgeRequest, config: Config) -> list[Finding]:
    """The findings of the artifacts that are neither inherited nor known debts."""
    touched = request.touched
    if touched is None and request.before is not None:
        touched = changed(request.before, request.after)
    found, _, _ = findings(request, None if request.everything else touched, config.options)
    return [one for one in found if not one.inherited and one.fingerprint not in config.baseline]


def _other(
    world: World,
    objects: Objects,
    request: JudgeRequest,
    touched: Sequence[bytes] | None,
    config: Config,
    entry: Mapping[str, Any],
    comments: Comments,
) -> tuple[list[Finding], int, str]:
    from dataclasses import replace

    from ktxkit.gates import plugin
    from ktxkit.gates.plugin import TREE_GATES
    from ktxkit.gates.rules.findings import grouped, mark_inherited
    from ktxkit.gates.rules.suppressions import exempted

    subject = _subject(world, objects, request.after, request.before, touched, config)
    subject = replace(subject, read=comments.read, read_each=comments.each)
    answer = plugin.ask(TREE_GATES, entry["gate"], subject, entry)
    done = comments.split(grouped(answer.findings))
    waived = grouped(answer.waived)
    comments.count += sum(len(one.places) for one in waived)
    found, covered = done.kept, [*done.covered, *waived]
    sides = [one for one in (request.before, *request.also) if one is not None and request.before is not None]
    answers = []
    for one in sides if found or covered else ():
        base = _subject(world, objects, one, None, touched, config, is_base=True)
        answers.append(plugin.ask(TREE_GATES, entry["gate"], base, entry))
    known = [grouped(one.findings) for one in answers]
    if covered:
        before_too = [*chain(*(one.waived for one in answers))]
        for one, there in zip(sides, known, strict=True):
            before_too += Comments(one.files, objects).split(there).covered
        gone = moved(sides[0], request.after) if sides else {}
        owned = {"own_comments": request.own_comments, "advise": config.options.advise}
        more = exempted(covered, before_too if sides else None, gone, **owned)
        found = grouped([*found, *comments.refused(more.charged), *more.said])
    for one, there in zip(sides, known, strict=bool(known)):
        found = mark_inherited(found, there, moved(one, request.after))
    return found, answer.looked, answer.message


def _subject(
    world: World,
    objects: Objects,
    tree: TreeFacts,
    base: TreeFacts | None,
    touched: Iterable[bytes] | None,
    config: Config,
    *,
    is_base: bool = False,
) -> Subject:
    from ktxkit.gates.plugin import Subject

    under = base.tree if base is not None else tree.tree

    def checkout() -> AbstractContextManager[Path]:
        from ktxkit.git import neutral

        return neutral.checkout(world, [(mode, path, oid) for path, (mode, oid) in tree.files.items()], under)

    chosen = None if touched is None else frozenset(touched)
    read: Callable[[bytes], bytes] = lambda path: objects.read(tree.files[path][1])  # noqa: E731
    each: Callable[[Sequence[bytes]], Iterator[bytes]] = lambda paths: objects.each(  # noqa: E731
        [tree.files[path][1] for path in paths]
    )
    before = base.files if base is not None else None
    trusted = config.trusted, config.trusted_name
    return Subject(world, tree.files, chosen, read, checkout, is_base, each, before, *trusted)


PASSES = 2  # what the first drops or prunes can leave others dangling; what the second leaves is told


def prune_tree(
    world: World,
    tree: str,
    *,
    base_tree: str | None = None,
    options: Mapping[str, Any] | None = None,
    kept: Collection[bytes] = (),
    **more: Any,
) -> Document:
    """The verdict on the tree after repair; files in `kept` are left as they are. `prunedTree` is its id (the tree's
    own where nothing was taken out), `pruned` has a record for each thing that was. Findings that the base has too are
    left alone.

    Writes objects and nothing else; no stored patch is touched. Raises BrokenContract where an object is missing.
    """
    with Objects(world.git) as objects:
        trusted = {path: oid for _, path, oid in objects.tree(base_tree or tree)}
        config = configuration.make(
            {**(options or {}), **more}, lambda path: objects.read(trusted[path]) if path in trusted else None
        )
        root = config.options.root
        before = read_tree(world, base_tree, objects, root) if base_tree else None
        asked = JudgeRequest(read_tree(world, tree, objects, root), before, own_comments=before is None)
        return mended(world, objects, asked, config, kept)[0]


def mended(
    world: World, objects: Objects, request: JudgeRequest, config: Config, left: Collection[bytes] = ()
) -> tuple[Document, TreeFacts]:
    """The confirming verdict, and the files after repair (their tree written to the object store)."""
    from ktxkit.gates.rules.prune import prune  # with the readers of Markdown

    current, removals = request.after, []
    for _ in range(PASSES):
        found = [one for one in charged(request._replace(after=current), config) if one.path not in left]
        made = prune(found, current.facts, _reader(objects, current), drop=True)
        if not made.files:
            break
        removals += made.removals
        current = with_content(world, objects, current, made, config)
    tree = _write_tree(world, current) if removals or not current.tree else current.tree
    current = current._replace(tree=tree)
    confirmed = verdict(world, objects, request._replace(after=current, touched=None, everything=True), config)
    return {**confirmed, "pruned": [one.document() for one in removals], "prunedTree": tree}, current


def _reader(objects: Objects, read: TreeFacts) -> Any:
    return lambda path: objects.read(read.files[path][1])


def with_content(world: World, objects: Objects, read: TreeFacts, pruned: Pruned, config: Config) -> TreeFacts:
    """The files with new content in place."""
    listed = dict(read.files)
    for path, data in pruned.files.items():
        if data is None:
            del listed[path]
        else:
            listed[path] = (listed[path][0], world.git.run("hash-object", "-w", "--stdin", stdin=data).text)
    entries = [(mode, path, oid) for path, (mode, oid) in listed.items()]
    return read_entries(world, entries, objects, config.options.root)


def _write_tree(world: World, read: TreeFacts) -> str:
    with open_neutral(world) as neutral:
        git = neutral.index("prune")
        listed = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for path, (mode, oid) in read.files.items())
        git.run("update-index", "-z", "--index-info", stdin=listed)
        return git.text("write-tree")
