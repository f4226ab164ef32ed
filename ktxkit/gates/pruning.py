"""Repair: what cannot be loaded is dropped, what dangles is taken out, twice; then every gate confirms it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Refused
from ktxkit.gates import configuration, judging
from ktxkit.gates.configuration import Config
from ktxkit.gates.judging import JudgeRequest, TreeFacts
from ktxkit.gates.rules.prune import Pruned, prune
from ktxkit.git.git import Git
from ktxkit.git.neutral import open_neutral
from ktxkit.git.objects import Objects
from ktxkit.store.world import World

PASSES = 2  # what the first drops or prunes can leave others dangling; what the second leaves is told


def prune_tree(
    world: World,
    tree: str,
    *,
    base_tree: str | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Document:
    """The verdict on the tree after repair. `prunedTree` is its id (the tree's own where nothing was taken out),
    `pruned` has a record for each thing that was. Findings that the base has too are left alone.

    Writes objects and nothing else; no stored patch is touched. Raises BrokenContract where an object is missing.
    """
    with Objects(world.git) as objects:
        trusted = {path: oid for _, path, oid in judging.entries_of(objects, base_tree or tree)}
        config = configuration.make(
            {**(options or {}), **more}, lambda path: objects.read(trusted[path]) if path in trusted else None
        )
        root = config.options.root
        before = judging.read_tree(world, base_tree, objects, root) if base_tree else None
        asked = JudgeRequest(judging.read_tree(world, tree, objects, root), before)
        return mended(world, objects, asked, config)[0]


def mended(world: World, objects: Objects, request: JudgeRequest, config: Config) -> tuple[Document, TreeFacts]:
    """The confirming verdict, and the files after repair (their tree written to the object store)."""
    current, removals = request.after, []
    for _ in range(PASSES):
        found = judging.charged(request._replace(after=current), config)
        made = prune(found, current.facts, _reader(objects, current), drop=True)
        if not made.files:
            break
        removals += made.removals
        current = _with(world, objects, current, made, config)
    tree = _write_tree(world, current) if removals or not current.tree else current.tree
    current = current._replace(tree=tree)
    confirmed = judging.verdict(world, objects, request._replace(after=current, touched=None, everything=True), config)
    return {**confirmed, "pruned": [one.document() for one in removals], "prunedTree": tree}, current


def _reader(objects: Objects, read: TreeFacts) -> Any:
    return lambda path: objects.read(read.files[path][1])


def _with(world: World, objects: Objects, read: TreeFacts, made: Pruned, config: Config) -> TreeFacts:
    """The files with new content in place."""
    listed = dict(read.files)
    for path, data in made.files.items():
        if data is None:
            del listed[path]
        else:
            listed[path] = (listed[path][0], world.git.run("hash-object", "-w", "--stdin", stdin=data).text)
    entries = [(mode, path, oid) for path, (mode, oid) in listed.items()]
    return judging.read_entries(world, entries, objects, config.options.root)


def _write_tree(world: World, read: TreeFacts) -> str:
    with open_neutral(world) as neutral:
        git = neutral.index("prune")
        listed = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for path, (mode, oid) in read.files.items())
        git.run("update-index", "-z", "--index-info", stdin=listed)
        return git.text("write-tree")


def into_checkout(world: World, objects: Objects, before: TreeFacts, after: TreeFacts) -> list[bytes]:
    """Write a repair into the files of the checkout; nothing is staged. Returns the paths, sorted.

    Raises Refused, and writes nothing, where a file is not as it was judged: what only lies there would be lost.
    """
    changed = judging.changed(before, after)
    top = world.repository.top or world.cwd
    places = {path: top / os.fsdecode(path) for path in changed}
    plain = {path for path, place in places.items() if _bytes(place) == objects.read(before.files[path][1])}
    git = world.inherited.at(top)
    dirty = [path for path in places if path not in plain and _cleaned(git, path) != before.files[path][1]]
    if dirty:
        shown = ", ".join(os.fsdecode(path) for path in dirty[:5])
        hint = "stage or put back what was changed there, then prune again"
        raise Refused(f"not as they were judged: {shown}", hint=hint, outcome="dirty_target")
    for path, place in places.items():
        if path in after.files:
            mode = place.stat().st_mode & 0o777
            oid = after.files[path][1]
            data = objects.read(oid) if path in plain else _smudged(git, path, oid)
            files.write_atomic(place, data, mode=mode, durable=False)
        else:
            files.remove(place)
    return changed


def _cleaned(git: Git, path: bytes) -> str:
    """The blob that git would stage of a file as it lies there (line ends, filters); "" where it is no file."""
    place = Path(os.fsdecode(os.fsencode(git.cwd) + b"/" + path))
    if place.is_symlink() or not place.is_file():
        return ""
    return git.text("hash-object", b"--path=" + path, "--", path)


def _smudged(git: Git, path: bytes, oid: str) -> bytes:
    """A blob as git would write it at that path."""
    return git.run("cat-file", "--filters", b"--path=" + path, oid).out


def _bytes(place: Path) -> bytes | None:
    try:
        return files.read(place)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
