"""What `gate-check` looks at: the index as git's environment has it, a tree, everything or a change of it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ktxkit.contracts import Document
from ktxkit.effects.objects import Objects
from ktxkit.errors import CannotRun
from ktxkit.flows import gates
from ktxkit.world import World


def check(world: World, args: Namespace) -> Document:
    """The verdict that the command line asks for. Raises CannotRun for a revision or file that is none."""
    how = gates.options_of({"root": args.root, "advise": args.advise, "strictConnections": args.strict_connections})
    with Objects(world.git) as objects:
        entries, tree = _entries(world, objects, args.tree)
        base = _base(world, args)
        after = gates.read_entries(entries, objects, how.root)
        before = None
        if base:
            files = [(e.mode, e.path, e.oid) for e in objects.tree(base)]
            before = gates.read_entries(files, objects, how.root)
    touched = _touched(world, args, after) if args.files else None
    if touched is None and before is not None and not args.changed_since and not gates.changed(before, after):
        before = None  # nothing is staged: an empty check would pass for an answer, so everything is looked at
    everything = args.all or (before is None and touched is None)
    document = gates.verdict(after, before, touched, how, everything=everything, tree=tree, base_tree=base or "")
    if args.require_input and not any(document["looked"].values()):
        raise CannotRun("nothing was looked at", hint="no semantic-layer/ or wiki/ here? --root names their place")
    return document


def _entries(world: World, objects: Objects, revision: str | None) -> tuple[gates.Entries, str]:
    """The files of a tree, or of the index that git's environment names; and the tree's id where there is one."""
    if revision is not None:
        tree = _tree(world, revision)
        return [(e.mode, e.path, e.oid) for e in objects.tree(tree)], tree
    top = world.repository.top
    if top is None:
        tree = _tree(world, "HEAD")
        return [(e.mode, e.path, e.oid) for e in objects.tree(tree)], tree
    found = []
    for line in world.inherited.at(top).run("ls-files", "-s", "-z", "--full-name").nul:
        head, _, path = line.partition(b"\t")
        mode, oid, stage = head.decode("ascii").split(" ")
        if stage == "0":
            found.append((mode, path, oid))
    return found, ""


def _tree(world: World, revision: str) -> str:
    found = world.git.resolve(revision, "tree")
    if found is None:
        raise CannotRun(f"no commit or tree named {revision!r}", hint="`git rev-parse REV^{tree}` must answer")
    return found


def _base(world: World, args: Namespace) -> str | None:
    """The tree whose findings are inherited; none where everything is asked for, or there is none yet."""
    if args.changed_since:
        return _tree(world, args.changed_since)
    if args.all or args.files or args.tree:
        return None
    return world.git.resolve("HEAD", "tree")


def _touched(world: World, args: Namespace, after: gates.Read) -> list[bytes]:
    """Files named on the command line, from the top of the checkout."""
    top = world.repository.top or world.cwd
    paths: Sequence[str] = args.files
    found = []
    for name in paths:
        inside = os.path.relpath(os.path.normpath(world.cwd / name), top)
        if inside.startswith("../"):
            raise CannotRun(f"{name} is outside this repository", where=str(top))
        found.append(os.fsencode(Path(inside)))
    return found
