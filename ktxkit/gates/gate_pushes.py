"""What a push sends, ref by ref, against what the other side has. Source: githooks(5), pre-push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.gates import gate_config, gate_fetch, gate_read, gates
from ktxkit.gates.gates import Asked
from ktxkit.gates.rules import verdict as core_verdict
from ktxkit.gates.rules.hooks import Push, read_pushes
from ktxkit.git.objects import Objects
from ktxkit.store.world import World


def check(world: World, remote: str, lines: bytes, options: Mapping[str, Any]) -> Document:
    """One verdict on all that is pushed; what is deleted needs none. Raises CannotRun for input that is not git's."""
    pairs = {pair for push in read_pushes(lines) if not push.deletes for pair in [trees(world, push, remote)] if pair}
    with Objects(world.git) as objects:
        return core_verdict.together([_judged(world, objects, tree, base, options) for tree, base in sorted(pairs)])


def _judged(world: World, objects: Objects, tree: str, base: str, options: Mapping[str, Any]) -> Document:
    """By the configuration of what the other side has: a push of foreign work must not run what that work says."""
    known = gate_read.tree(world, base or tree).files
    config = gate_config.make(options, lambda path: objects.read(known[path][1]) if path in known else None)
    root = config.options.root
    listed = gate_read.tree(world, tree)
    trees = (gate_read.tree(world, one) for one in (tree, base) if one)
    gate_fetch.fetch_listed(world, trees, root)
    after = gates.read_listed(listed, objects, root, gates.reader(world, objects, listed, root))
    before = gates.read_beside(gate_read.tree(world, base), after, objects, root) if base else None
    return gates.verdict(world, objects, Asked(after, before, everything=before is None), config)


def trees(world: World, push: Push, remote: str) -> tuple[str, str] | None:
    """The tree that is pushed and the one that the other side has, empty where it has none; None for a lone blob."""
    tree = world.git.resolve(push.local, "tree")
    if tree is None:
        if world.git.run("cat-file", "-e", push.local, ok=None).status != 0:
            raise CannotRun(f"{push.local} is pushed but is not in this repository", hint="git fsck tells more")
        return None
    known = None if push.creates else world.git.resolve(push.remote, "tree")
    return tree, known or _published(world, push.local, remote)


def _published(world: World, local: str, remote: str) -> str:
    """The newest commit below that the remote is known to have, as a tree: a new branch is judged against it."""
    commit = world.git.resolve(local)
    if commit is None:
        return ""
    new = world.git.run("rev-list", "--boundary", commit, "--not", f"--remotes={remote}").lines
    edge = [line[1:] for line in new if line.startswith("-")]
    if not new:
        return world.git.resolve(commit, "tree") or ""  # the other side has it under another name
    if not edge:
        return ""
    best = world.git.run("merge-base", commit, *edge, ok=(0, 1))
    return world.git.resolve(best.lines[0], "tree") or "" if best.lines else ""
