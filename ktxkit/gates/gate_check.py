"""What `gate-check` looks at: the index as git's environment has it, a tree, everything or a change of it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import plural
from ktxkit.gates import gate_config, gate_facts, gate_fetch, gate_read, gates
from ktxkit.gates.gate_again import Standing
from ktxkit.gates.gate_read import Listed
from ktxkit.gates.gates import Asked, Read
from ktxkit.gates.rules.formats import Content
from ktxkit.gates.rules.formats.common import no_content
from ktxkit.git.objects import Objects
from ktxkit.store.world import World


def check(world: World, args: Namespace, standing: Standing | None) -> tuple[Document, Content, bool]:
    """The verdict that the command line asks for, the content of what was judged, and whether it follows from both.

    `standing`: what is being committed, where it was looked at. Raises CannotRun for a revision or file that is none.
    """
    if args.all and args.files:
        raise CannotRun(f"--all is everything, {args.files[0]} is a part", hint="leave out one of them")
    if _of_messages(args.gate) and args.message is None and len(args.files) == 1:
        args.message = args.files[0]  # `--gate claims FILE`: a text, not a file of the tree
    if args.message is not None:
        from ktxkit.gates import gate_message

        return gate_message.check(world, args.message, args.gate), no_content, False
    if args.pushed is not None:
        from ktxkit.gates import gate_pushes

        return gate_pushes.check(world, args.pushed, args.stdin, options_of(args)), no_content, False
    return _check(world, args, standing)


def _of_messages(names: Sequence[str]) -> bool:
    if not names:
        return False
    from ktxkit.gates import registry
    from ktxkit.gates.plugin import MESSAGE_GATES

    return set(names) <= registry.named(MESSAGE_GATES).keys()


def _check(world: World, args: Namespace, standing: Standing | None) -> tuple[Document, Content, bool]:
    _from_manager(world, args)
    reader = standing.objects if standing is not None else None
    with gate_facts.no_collection(), reader or Objects(world.git) as objects:
        now = standing or _standing_at(world, args)
        which = gate_config.BEFORE if args.tree is None else gate_config.HERE
        config = gate_config.make(options_of(args), _load(world, objects, args, now.listed), trusted_name=which)
        root = config.options.root
        others = (gate_read.tree(world, tree) for tree in (now.base, *now.heads) if tree)
        gate_fetch.fetch_listed(world, chain([now.listed], others), root)
        kept = gates.reader(world, objects, now.listed, root)
        after = gates.read_listed(now.listed, objects, root, kept)
        asked = _asked(world, objects, args, now, after, root)
        if args.prune:
            from ktxkit.gates import gate_prune

            verdict, after = gate_prune.mended(world, objects, asked, config)
            if verdict["outcome"] == "done" and args.tree is None:
                gate_prune.into_checkout(world, objects, asked.after, after)
        else:
            verdict = gates.verdict(world, objects, asked, config)
    return (
        verdict,
        content_of(world, after.files),
        all(entry["gate"] == gate_config.ARTIFACTS for entry in config.gates),
    )


def _asked(world: World, objects: Objects, args: Namespace, now: Standing, after: Read, root: bytes) -> Asked:
    """What is judged, beside what."""
    kept = after.kept
    before = gates.read_beside(gate_read.tree(world, now.base), after, objects, root) if now.base else None
    also = [gates.read_listed(gate_read.tree(world, head), objects, root, kept) for head in now.heads]
    touched, earlier = _named(world, args, after, objects, root) if args.files else (None, None)
    unchanged = touched is None and before is not None and not args.changed_since
    unchanged = unchanged and before is not None and not gates.changed(before, after)
    if unchanged and not args.index and "GIT_INDEX_FILE" not in world.env:  # git names it to its hooks
        before = None  # nothing is staged: an empty check would pass for an answer, so everything is charged
    everything = args.all or unchanged or (before is None and touched is None)
    return Asked(after, before, touched, everything, also, earlier)


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


def options_of(args: Namespace) -> dict[str, Any]:
    """What the command line says over the configuration file."""
    said: dict[str, Any] = {}
    if args.root:
        said["root"] = args.root
    if args.advise:
        said["advise"] = True
    if args.strict_connections:
        said["strictConnections"] = True
    for key in ("config", "baseline"):
        if getattr(args, key):
            said[key] = getattr(args, key)
    if args.update_baseline:
        said["baseline"] = args.update_baseline
    if args.write_baseline is not None:
        said["baseline"] = ""  # every finding is written, those that are known among them
    if args.gate:
        said["only"] = args.gate
    return said


def _load(world: World, objects: Objects, args: Namespace, listed: Listed) -> gate_config.Load:
    """The files that configure the gates: of what is being committed, or of where we stand where --tree names another.

    A configuration may name commands. Asking about a tree must not run what that tree says.
    """
    known = (listed if args.tree is None else _standing(world)).files
    said = {os.fsencode(name) for name in (args.config, args.baseline, args.update_baseline) if name}

    def load(path: bytes) -> bytes | None:
        if path in known:
            staged = objects.read(known[path][1])
            if path in said and beside(world, path) not in (staged, None):
                name = os.fsdecode(path)
                args.notes = [*args.notes, f"gate-check: {name} is read as it is staged; the file there is another one"]
            return staged
        return beside(world, path) if path in said else None

    return load


def _standing(world: World) -> Listed:
    """The index; nothing in a bare repository without a commit."""
    if world.repository.top is None and world.git.resolve("HEAD", "tree") is None:
        return Listed(b"")
    return gate_read.index(world)


def beside(world: World, path: bytes) -> bytes | None:
    """A file that is named on the command line and not in the tree: as it lies there."""
    try:
        return files.read(Path(os.path.realpath(world.cwd / os.fsdecode(path))))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _listed(world: World, revision: str | None) -> Listed:
    """The files of a tree, or of the index that git's environment names."""
    return gate_read.index(world) if revision is None else gate_read.tree(world, gate_read.resolved(world, revision))


def _standing_at(world: World, args: Namespace) -> Standing:
    """What is looked at, and beside what."""
    base = _base(world, args)
    heads = gate_read.merge_heads(world) if base and not args.changed_since else []
    return Standing(_listed(world, args.tree), base, tuple(gate_read.resolved(world, head) for head in heads))


def _base(world: World, args: Namespace) -> str | None:
    """The tree whose findings are inherited; none where everything is asked for, or there is none yet."""
    if args.changed_since:
        return gate_read.resolved(world, args.changed_since)
    if args.all or args.files or args.tree:
        return None
    return world.git.resolve("HEAD", "tree")


def _named(
    world: World, args: Namespace, after: Read, objects: Objects, root: bytes
) -> tuple[list[bytes], Read | None]:
    """Files named on the command line, from the top of the checkout, those below a directory each; and HEAD's tree
    where one of them was there and is being deleted. Raises CannotRun for a name that is none of them.
    """
    top = world.repository.top or world.cwd
    found: list[bytes] = []
    earlier: Read | None = None
    for name in args.files:
        inside = os.path.relpath(os.path.normpath(world.cwd / name), top)
        if inside == ".." or inside.startswith("../"):
            raise CannotRun(f"{name} is outside this repository", where=str(top), hint="-C DIR names another one")
        path = os.fsencode(inside)
        below = _below(after, path)
        if not below and args.tree is None and world.git.resolve("HEAD", "tree") is not None:
            earlier = earlier or gates.read_listed(
                gate_read.tree(world, gate_read.resolved(world, "HEAD")), objects, root, after.kept
            )
            below = _below(earlier, path)
        if not below:
            raise _no_file(name, args.tree, os.path.lexists(world.cwd / name))
        found += below
    return found, earlier


def _below(read: Read, path: bytes) -> list[bytes]:
    """The file at a path, or all files below it where it is a directory."""
    if path in read.files:
        return [path]
    inside = b"" if path == b"." else path + b"/"
    return [name for name in read.files if name.startswith(inside)]


def _no_file(name: str, revision: str | None, exists: bool) -> CannotRun:
    if revision is not None:
        return CannotRun(f"{revision} has no file {name}", hint="files are named from where you stand")
    if exists:
        return CannotRun(f"{name} is not in the index", hint="git add it: what is being committed is judged")
    return CannotRun(f"no such file: {name}", hint="files are named from where you stand")


def content_of(world: World, listed: Mapping[bytes, tuple[str, str]]) -> Content:
    """Bytes of a path that was judged, for formats whose columns count bytes."""

    def content(path: bytes) -> bytes | None:
        if path not in listed or listed[path][0] not in ("100644", "100755"):
            return None
        with Objects(world.git) as objects:
            return objects.read(listed[path][1])

    return content


def told(verdict: Document, tree: str | None) -> list[str]:
    """What a repair took out, and where its result is."""
    said = [
        f"gate-check: pruned {one['kind']} {one['artifact']}: {one['removedRef']}" for one in verdict.get("pruned", ())
    ]
    if "pruned" in verdict and verdict["outcome"] == "findings":
        said.append("gate-check: the repair is not complete; nothing was written")
    elif said and tree is not None:
        said.append(f"gate-check: the repaired tree is {verdict['prunedTree']}")
    return said


def update_baseline(world: World, name: str, verdict: Document) -> str:
    """Take the debts that are paid out of a baseline; says how many."""
    old = files.read(Path(os.path.realpath(world.cwd / name)))
    new = gate_config.left_of(old, name, verdict)
    if verdict["scope"] != "all":
        raise CannotRun("--update-baseline needs a look at everything", hint="add --all")
    files.write_named(world.cwd, name, new)
    count = sum(1 for one in verdict["findings"] if one["rule"] == "baseline-paid")
    return f"gate-check: took {plural(count, 'paid debt')} out of {name}"


def write_baseline(world: World, name: str, verdict: Document) -> Path:
    """Write the baseline that has every finding of the verdict."""
    return files.write_named(world.cwd, name, gate_config.baseline_of(verdict))
