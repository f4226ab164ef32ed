"""The message of a commit, as it will be committed, before the gates that judge messages.

What a push sends, ref by ref, against what the other side has. Source: githooks(5), pre-push.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktxkit.base import files, process
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.gates import configuration, inputs, judging, plugin
from ktxkit.gates.judging import JudgeRequest
from ktxkit.gates.plugin import MESSAGE_GATES
from ktxkit.gates.rules import findings
from ktxkit.gates.rules.findings import Finding, grouped
from ktxkit.gates.rules.hooks import Push, cleanup_mode, cleanup_of, cut, read_pushes
from ktxkit.git.git import version
from ktxkit.git.objects import Objects
from ktxkit.store.world import World

KEYS = "^(core[.]comment(char|string)|commit[.]cleanup)$"


def check_messages(world: World, messages: Iterable[tuple[str, str]], only: Sequence[str] = ()) -> Document:
    """One verdict on messages, each with its commit, by all gates of messages or `only` these.

    A finding's path is the commit's id; of a message whose commit is still to be made (``) it is MESSAGE_PATH.
    """
    gates = list(only or plugin.named(MESSAGE_GATES))
    looked = dict.fromkeys(gates, 0)
    found: list[Finding] = []
    count = 0
    for commit, message in messages:
        count += 1
        for gate in gates:
            answer = plugin.ask_of_message(gate, world, message, commit)
            looked[gate] += answer.looked
            found += [one._replace(path=commit[:12].encode()) if commit else one for one in answer.findings]
    asked = [{"name": gate, "looked": looked[gate]} for gate in gates]
    return findings.build(grouped(found), {"messages": count if gates else 0}, scope="message", gates=asked)


def message_in(world: World, name: str) -> tuple[str, str]:
    """The message in a file, of no commit yet; `-` is standard input, as it stands. Raises CannotRun where it cannot be
    read.
    """
    if name == "-":
        return "", sys.stdin.buffer.read().decode("utf-8", "replace")
    return "", committed(world, world.cwd / name).decode("utf-8", "replace")


def messages_of(world: World, wanted: str) -> Iterator[tuple[str, str]]:
    """The commits of a range (`A..B`, or all that one revision has), oldest first, with their messages.

    Raises CannotRun for a range that git does not know.
    """
    for commit in _commits(world, wanted):
        shown = world.git.run("show", "-s", "--no-show-signature", "--format=%B", commit)
        yield commit, shown.out.decode("utf-8", "replace")


def _commits(world: World, wanted: str) -> list[str]:
    """The commits of a range, oldest first."""
    hint = "gate-check --messages origin/main..HEAD"
    if wanted.startswith("-") or not wanted:
        raise CannotRun(f"no range of commits: {wanted!r}", hint=hint)
    listed = world.git.run("rev-list", "--reverse", "--topo-order", wanted, "--", ok=None)
    if listed.status != 0:
        shallow = " (a shallow clone may lack it: fetch-depth: 0)"
        raise CannotRun(f"git knows no range {wanted!r}{shallow}", hint=hint)
    return listed.lines


def committed(world: World, path: Path) -> bytes:
    """The message without what git will drop: what stands under the scissors line, and its comments."""
    try:
        message = files.read(path)
    except FileNotFoundError as error:
        raise CannotRun(
            "no such file", where=os.fsdecode(path), hint="commit-msg is given the message's file"
        ) from error
    told = world.inherited.run("config", "-z", "--get-regexp", KEYS, ok=(0, 1)).nul
    settings = [(key.decode("ascii"), value) for key, _, value in (item.partition(b"\n") for item in told)]
    settings += [("commit.cleanup", mode.encode()) for mode in [cleanup_mode(process.words_of(os.getppid()))] if mode]
    edited = world.env.get("GIT_EDITOR") != ":"  # git says so to its hooks where it opens no editor
    return cut(message, cleanup_of(settings, version(world.env), edited=edited))


def check_pushes(world: World, remote: str, lines: bytes, options: Mapping[str, Any]) -> Document:
    """One verdict on all that is pushed; what is deleted needs none. Raises CannotRun for input that is not git's."""
    pairs = {pair for push in read_pushes(lines) if not push.deletes for pair in [trees(world, push, remote)] if pair}
    with Objects(world.git) as objects:
        return findings.together([_judged(world, objects, tree, base, options) for tree, base in sorted(pairs)])


def _judged(world: World, objects: Objects, tree: str, base: str, options: Mapping[str, Any]) -> Document:
    """By the configuration of what the other side has: a push of foreign work must not run what that work says."""
    known = inputs.tree(world, base or tree).files
    config = configuration.make(options, lambda path: objects.read(known[path][1]) if path in known else None)
    root = config.options.root
    listed = inputs.tree(world, tree)
    trees = (inputs.tree(world, one) for one in (tree, base) if one)
    inputs.fetch_listed(world, trees, root)
    after = judging.read_listed(world, listed, objects, root, judging.reader(world, objects, listed, root))
    before = judging.read_beside(world, inputs.tree(world, base), after, objects, root) if base else None
    return judging.verdict(world, objects, JudgeRequest(after, before, everything=before is None), config)


def trees(world: World, push: Push, remote: str) -> tuple[str, str] | None:
    """The tree that is pushed and the one that the other side has, empty where it has none; None for a lone blob."""
    tree = world.git.resolve(push.local, "tree")
    if tree is None:
        if world.git.run("cat-file", "-e", push.local, ok=(0, 1, 128), twice=(128,)).status != 0:
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
