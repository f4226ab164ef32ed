"""The path policy of an attempt: taken once, when its worktree is opened, and read by all who ask what counts.

It is made of the lease (deliverables, generated, copied files), the base tree's `.gitignore` files and the repository's
`info/exclude`. A user's own ignore file has no say: it must not make work invisible to others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ktxkit.base import files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract
from ktxkit.git.neutral import open_objects
from ktxkit.store.rules import names
from ktxkit.store.rules.paths_policy import CandidatePathPolicy, IgnoreRules, from_lease, rules_of
from ktxkit.store.world import World

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import JournalPosition, Lease, PathPolicy

    class ObservedFacts(TypedDict):
        """What a lease says of its policy, and of the chain of records under the lease before it."""

        pathPolicyDigest: str
        observedBefore: NotRequired[JournalPosition]


FILE = "policy.json"
LISTED_KEPT = 64
_listed: dict[tuple[str, str], list[tuple[bytes, bytes]]] = {}  # (objects, commit id) to its ignore files
EXCLUDE_LIMIT = 4 * 1024 * 1024  # bytes of an ignore file that are read


def snapshot(world: World, lease: Lease) -> CandidatePathPolicy:
    """Take the policy of a lease and write it down; `lease` need not be written yet."""
    policy = from_lease(lease, ignore_rules(world, lease["base"]))
    _write(world, lease, policy)
    return policy


def _write(world: World, lease: Lease, policy: CandidatePathPolicy) -> None:
    document: PathPolicy = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "path-policy",
        "at": timestamp(world.clock.now()),
        "base": lease["base"],
        "policyDigest": policy.digest,
        "policy": policy.document(),
    }
    world.writable_store.write(kinds.PATH_POLICY, names.observer_file(names.attempt_name(lease), FILE), document)


def opening_facts(world: World, lease: Lease, old: Lease | None) -> ObservedFacts:
    """What a new lease says of its policy, and of what was observed under the lease before it."""
    facts: ObservedFacts = {"pathPolicyDigest": snapshot(world, lease).digest}
    if old is not None and "observer" in old:
        head = old["observer"]
        facts["observedBefore"] = {
            "attempt": names.attempt_name(old),
            "segment": head["segment"],
            "seq": head["seq"],
            "head": head["head"],
        }
    return facts


def of_lease(world: World, lease: Lease) -> CandidatePathPolicy:
    """The policy that a lease was opened with. A lost snapshot is made again where the lease's digest proves it.

    Raises BrokenContract where there is none of that digest any more.
    """
    relative = names.observer_file(names.attempt_name(lease), FILE)
    wanted = lease.get("pathPolicyDigest", "")
    policy, problem = _read(world, relative)
    if policy is not None and wanted in ("", policy.digest):
        return policy
    again = from_lease(lease, ignore_rules(world, lease["base"]))
    if again.digest != wanted and (wanted or problem):
        raise BrokenContract(
            f"the path policy of the lease is lost{f': {problem}' if problem else ''}",
            where=str(world.store.path(relative)),
            hint="open a new attempt",
        )
    _write(world, lease, again)
    return again


def _read(world: World, relative: str) -> tuple[CandidatePathPolicy | None, str]:
    """The snapshot, or what is wrong with it (nothing is, where there is none)."""
    try:
        found = world.store.read_optional(kinds.PATH_POLICY, relative)
        return (None, "") if found is None else (CandidatePathPolicy.of(found["policy"]), "")
    except BrokenContract as error:
        return None, error.message
    except ValueError as error:
        return None, str(error)


def ignore_rules(world: World, base: str) -> IgnoreRules:
    """The ignore rules of a commit and of the repository, as they are now."""
    key = (str(world.repository.objects), base)
    if key not in _listed:
        if len(_listed) >= LISTED_KEPT:
            _listed.clear()
        _listed[key] = _ignore_files(world, base)
    return rules_of(_listed[key], exclude=excluded_here(world))


def as_opened(world: World, base: str, policy: CandidatePathPolicy | None) -> bool:
    """Whether the repository's own ignore rules are still those that the policy was taken with."""
    return policy is None or ignore_rules(world, base).sources == policy.ignore.sources


def _ignore_files(world: World, base: str) -> list[tuple[bytes, bytes]]:
    """Path and content of each `.gitignore` of a commit."""
    with open_objects(world) as objects:
        tree = objects.find(f"{base}^{{tree}}")
        if tree is None:
            raise BrokenContract(f"base {base} is not in this repository", outcome="missing_base", hint="fetch it")
        entries = objects.tree(tree[0])
        found = [e for e in entries if e.path.rpartition(b"/")[2] == b".gitignore" and e.mode.startswith("100")]
        return [(entry.path, objects.read(entry.oid)) for entry in found]


def excluded_here(world: World) -> bytes:
    """The repository's `info/exclude`, which is shared by all its worktrees."""
    path = world.repository.common_dir / "info" / "exclude"
    try:
        return files.read(path, EXCLUDE_LIMIT) if os.path.lexists(path) else b""
    except BrokenContract:
        return b""  # a link, or absurdly long: git does not follow the one, and nobody wrote the other
