"""Units that succeeded, found again by all that their work depends on: bytes before and after, never patch text.

Only what a unit did as a whole is kept. An entry whose `before` is not what is there is removed: it would not fit.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit import __version__
from ktxkit.base import files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.digests import digest, digest_of
from ktxkit.git.git import Git
from ktxkit.git.objects import Objects
from ktxkit.ingest.rules import places
from ktxkit.store.world import World
from ktxkit.work.rules.job_file import UnitPlan

if TYPE_CHECKING:
    from ktxkit.base.documents import Patch, PatchPath, UnitCacheFile

CONTRACT = "unit-cache"
PATH_MAX = 4096  # bytes. Source: limits.h
SCRIPT_LIMIT = 1024 * 1024  # bytes; what is larger is a program, and no script of somebody here
SIZE_LIMIT = 8 * 1024 * 1024  # bytes of one entry; larger work is done again
MISSING = "missing"  # stands for a dependency that is not there


def key_of(plan: UnitPlan, facts: Document, digests: Mapping[str, str], programs: Sequence[str]) -> str:
    """Digest of what a unit's work depends on: command, policy, raw files and dependencies, facts, tool version.

    `programs`: what stands in the files that the command names.
    """
    return digest_of(
        {
            "version": __version__,
            "argv": list(plan.step.argv),
            "programs": list(programs),
            "policy": dict(plan.policy),
            "env": dict(plan.env),
            "unit": facts["unitKey"],
            "source": f"{facts['connectionId']}/{facts['sourceKey']}",
            "raw": {raw: digests.get(raw, MISSING) for raw in facts["rawFiles"]},
            "dependencies": {raw: digests.get(raw, MISSING) for raw in facts.get("dependencyPaths", ())},
            "facts": facts.get("facts", {}),
            "prior": [(one["rawPath"], one["artifactPath"]) for one in facts.get("priorArtifacts", ())],
        }
    )


def programs(git: Git, base: str, argv: Sequence[str]) -> list[str]:
    """What stands in the files that a command names: those of the tree that units start from, and scripts elsewhere."""
    inside = [os.path.normpath(word) for word in argv if word and not word.startswith(("/", "-"))]
    inside = [path for path in inside if path.partition("/")[0] != ".." and len(path) < PATH_MAX and "\n" not in path]
    listed = git.run("ls-tree", "-z", "--full-tree", base, "--", *inside).nul if inside else ()
    found = sorted(os.fsdecode(line) for line in listed)
    for word in argv:
        path = Path(word)
        if path.is_absolute() and len(word) < PATH_MAX and path.is_file() and path.stat().st_size <= SCRIPT_LIMIT:
            found.append(f"{word} {digest(path.read_bytes())}")
    return found


def store(world: World, key: str, facts: Document, patch: Patch, actions: Document | None) -> bool:
    """Keep a unit's work. False where it is too large, or holds what is no plain file."""
    found: list[UnitCacheFile] = []
    size = 0
    with Objects(world.git) as objects:
        for entry in patch["paths"]:
            words = {entry.get("oldKind", "absent"), entry["kind"]}
            if "pathB64" in entry or words - {"regular", "executable", "absent"}:
                return False
            size += entry.get("oldSize", 0) + entry.get("newSize", 0)
            if size > SIZE_LIMIT:
                return False
            found.append(_entry(objects, entry))
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": CONTRACT,
        "key": key,
        "jobId": facts["jobId"],
        "unitKey": facts["unitKey"],
        "at": timestamp(world.clock.now()),
        "rawRoot": facts["rawRoot"],
        "files": found,
        **({"actions": actions} if actions is not None else {}),
    }
    world.writable_store.write(CONTRACT, places.cache_doc(key), document, durable=False)
    return True


def _entry(objects: Objects, entry: PatchPath) -> UnitCacheFile:
    made: UnitCacheFile = {"path": entry["path"]}
    if entry.get("oldKind", "absent") != "absent":
        made["before"] = base64.b64encode(objects.read(entry["oldId"])).decode("ascii")
    if entry["kind"] != "absent":
        made["after"] = base64.b64encode(objects.read(entry["newId"])).decode("ascii")
    made |= {"executable": True} if entry["kind"] == "executable" else {}
    return made


def load(world: World, key: str) -> Document | None:
    """The entry of a key. A damaged one is removed: the work is done again."""
    try:
        return world.store.read_optional(CONTRACT, places.cache_doc(key))
    except BrokenContract:
        world.writable_store.remove(places.cache_doc(key))
        return None


def forget(world: World, key: str) -> None:
    world.writable_store.remove(places.cache_doc(key))


def replay(entry: Document, top: Path, raw_root: str) -> bool:
    """Write an entry into a worktree, naming this sync's snapshot where it named its own. False where it does not fit;
    nothing is written then."""
    for one in entry["files"]:
        path = top / one["path"]
        there = _bytes(path) if _inside(path, top) else b"\0outside\0"
        before = base64.b64decode(one["before"]) if "before" in one else None
        if there != before:
            return False
    old, new = entry["rawRoot"].encode(), raw_root.encode()
    for one in entry["files"]:
        path = top / one["path"]
        if "after" not in one:
            files.remove(path)
            continue
        data = base64.b64decode(one["after"]).replace(old, new)
        files.write_atomic(path, data, mode=0o755 if one.get("executable") else 0o644, durable=False)
    return True


def _bytes(path: Path) -> bytes | None:
    """A file's bytes; None where there is none. A link counts as something else: nothing fits it."""
    if os.path.islink(path):  # noqa: PTH114 - never through a link
        return b"\0a link\0"
    try:
        return files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _inside(path: Path, top: Path) -> bool:
    """No directory on the way is a link that leads elsewhere."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(top))


def actions_of(entry: Document) -> Mapping[str, Any] | None:
    found = entry.get("actions")
    return found if isinstance(found, Mapping) else None
