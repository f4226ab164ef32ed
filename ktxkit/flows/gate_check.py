"""What `gate-check` looks at: the index as git's environment has it, a tree, everything or a change of it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ktxkit.contracts import Document
from ktxkit.core.gates.artifacts import Options
from ktxkit.effects.objects import Objects
from ktxkit.errors import CannotRun
from ktxkit.flows import gate_message, gate_pushes, gates
from ktxkit.world import World


def check(world: World, args: Namespace) -> Document:
    """The verdict that the command line asks for. Raises CannotRun for a revision or file that is none."""
    how = gates.options_of({"root": args.root, "advise": args.advise, "strictConnections": args.strict_connections})
    if args.message is not None:
        document = gate_message.check(world, args.message)
    elif args.pushed is not None:
        document = gate_pushes.check(world, args.pushed, args.stdin, how)
    else:
        document = _check(world, args, how)
    if args.require_input and not any(document["looked"].values()):
        raise CannotRun("nothing was looked at", hint="no semantic-layer/ or wiki/ here? --root names their place")
    return document


def _check(world: World, args: Namespace, how: Options) -> Document:
    _from_manager(world, args)
    with Objects(world.git) as objects:
        entries, tree = _entries(world, objects, args.tree)
        base = _base(world, args)
        after = gates.read_entries(entries, objects, how.root)
        before = gates.read_tree(base, objects, how.root) if base else None
        heads = merge_heads(world) if base and not args.changed_since else []
        also = [gates.read_tree(_tree(world, head), objects, how.root) for head in heads]
    touched = _touched(world, args, after) if args.files else None
    unchanged = touched is None and before is not None and not args.changed_since and not gates.changed(before, after)
    if unchanged and not args.index:
        before = None  # nothing is staged: an empty check would pass for an answer, so everything is charged
    everything = args.all or unchanged or (before is None and touched is None)
    return gates.verdict(
        after,
        before,
        touched,
        how,
        everything=everything,
        tree=tree,
        base_tree=base if before and base else "",
        also=also,
    )


def _from_manager(world: World, args: Namespace) -> None:
    """The range that pre-commit and prek tell their hooks of, where nothing was asked for: a push, or two revisions.

    Files are chosen by FROM...TO there, so what was there where TO left FROM is inherited.
    """
    if args.all or args.index or args.tree or args.changed_since or args.files:
        return
    start, end = world.env.get("PRE_COMMIT_FROM_REF"), world.env.get("PRE_COMMIT_TO_REF")
    if start and end:
        fork = world.git.run("merge-base", "--end-of-options", start, end, ok=None)
        args.tree, args.changed_since = end, fork.text if fork.status == 0 else start
    elif world.env.get("PRE_COMMIT_LOCAL_BRANCH"):
        args.tree = world.env["PRE_COMMIT_LOCAL_BRANCH"]  # a branch with no history in common: all of it is new


def merge_heads(world: World) -> list[str]:
    """The other sides of a merge that is about to be committed: what one of them has too is not this merge's doing.

    git names them in MERGE_HEAD once it stopped, and before that, in pre-merge-commit, only in GITHEAD_<id>.
    """
    named = [name.removeprefix("GITHEAD_") for name in world.env if name.startswith("GITHEAD_")]
    place = Path(world.inherited.text("rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD"))
    written = place.read_text("ascii").split() if place.is_file() else []
    return sorted({head for head in (*named, *written) if world.git.resolve(head) is not None})


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
