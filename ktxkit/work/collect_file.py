"""Collecting by hand, outside any job: a checkout's change as a file and its document."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.git.rules.child import Expected
from ktxkit.store import jobs
from ktxkit.store.world import World
from ktxkit.work.collect import CONTRACT, Request, collect

# By hand these two are ordinary files and a link's target is data; what runs code still has to be allowed by name.
CONTROL_BY_HAND = (".gitattributes", "**/.gitattributes", ".gitignore", "**/.gitignore")


def policy_by_hand(args: Namespace) -> dict[str, Any]:
    """The policy that the options of a command line make."""
    made: dict[str, Any] = {"allowControl": list(CONTROL_BY_HAND), "foreignLinks": not args.inside_links}
    lists = {"allow": "allow", "deny": "deny", "text_root": "textRoots"}
    made |= {key: getattr(args, name) for name, key in lists.items() if getattr(args, name, None)}
    limits = {"max_file_bytes": "maxFileBytes", "max_patch_bytes": "maxPatchBytes"}
    made |= {key: getattr(args, name) for name, key in limits.items() if getattr(args, name, None) is not None}
    if getattr(args, "sl_disallowed", False):
        made["slDisallowed"] = True
    return made


def _why(document: Document) -> Document:
    return {"transportReason": document["transportReason"]} if "transportReason" in document else {}


def _output(named: str) -> Path:
    """Where the patch goes; no directory is made for it. Raises CannotRun where it cannot be written there."""
    path = Path(os.path.realpath(named))
    if not path.parent.is_dir():
        raise CannotRun(f"there is no directory {path.parent}", where=named, hint="make it first, or give another -o")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise CannotRun("a FIFO or device takes no patch", where=named, hint="name a file with -o")
    if path.is_dir():
        raise CannotRun("a directory stands where the patch would be written", where=named, hint="name a file with -o")
    return path


def collect_by_hand(world: World, args: Namespace) -> Document:
    """The document of `patch-collect -C CHILD --base REV -o FILE`, written beside FILE."""
    top = world.repository.top
    if not args.output or not args.base:
        raise CannotRun("--base and -o go together", hint="patch-collect -C CHILD --base REV -o FILE")
    if top is None:
        raise CannotRun("there is no checkout here", hint="-C names the worktree to collect from")
    base = jobs.commit_of(world, args.base)
    branch = args.expect_branch
    full = f"refs/heads/{branch}" if branch and not branch.startswith("refs/") else branch
    request = Request(
        top=top,
        base=base,
        expected=Expected(branch=full, any_branch=branch is None, require_clean=args.require_clean),
        policy=policy_by_hand(args),
        integration=args.integration,
    )
    path = _output(args.output)
    document = collect(world, request, path)
    if document["transport"] != "patch" and os.path.lexists(path):
        raise Refused(
            "this change has no patch, and an earlier file stands where it would be",
            where=str(path),
            hint="it was left as it is; move it away, or give another -o",
            data={"outcome": document["outcome"], **_why(document)},
        )
    beside = path.with_name(path.name + ".json")
    files.write_named(beside.parent, beside.name, contracts.dumps(CONTRACT, document, str(beside)))
    return document
