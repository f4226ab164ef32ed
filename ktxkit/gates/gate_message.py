"""The message of a commit, as it will be committed, before the gates that judge messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ktxkit.base import files, process
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.gates import registry
from ktxkit.gates.plugin import MESSAGE_GATES
from ktxkit.gates.rules import verdict as core_verdict
from ktxkit.gates.rules.findings import Finding, grouped
from ktxkit.gates.rules.hooks import cleanup_asked, cleanup_of, cut
from ktxkit.git.git import version
from ktxkit.store.world import World

KEYS = "^(core[.]comment(char|string)|commit[.]cleanup)$"


def check(world: World, name: str, only: Sequence[str] = ()) -> Document:
    """The verdict on the message in a file (what commit-msg is given), by all gates of messages or `only` these.

    Raises CannotRun where it cannot be read.
    """
    message = committed(world, world.cwd / name).decode("utf-8", "replace")
    found: list[Finding] = []
    asked = []
    for gate in only or registry.named(MESSAGE_GATES):
        answer = registry.ask(MESSAGE_GATES, gate, world, message)
        found += answer.findings
        asked.append({"name": gate, "looked": answer.looked})
    return core_verdict.build(grouped(found), {"messages": 1 if asked else 0}, scope="message", gates=asked)


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
    settings += [("commit.cleanup", mode.encode()) for mode in [cleanup_asked(process.words_of(os.getppid()))] if mode]
    edited = world.env.get("GIT_EDITOR") != ":"  # git says so to its hooks where it opens no editor
    return cut(message, cleanup_of(settings, version(world.env), edited=edited))
