"""Whose store it is. One kept elsewhere (`KTX_DIR`) holds the jobs of one repository, and says of which.

Two repositories in one store would mix their jobs, refs and snapshots: a job would land in a repository that never saw
its work. The repository's own `.ktx/` needs no such document: its place tells.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, Refused
from ktxkit.base.identity import Identity, identify, is_private
from ktxkit.base.lock import flocked
from ktxkit.base.rules.text import path_b64, path_bytes, path_text, printable
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import StoreOwner


SAME: Final = ("path", "pathB64", "device", "inode", "birthTimeNs")


def require_ours(world: World) -> None:
    """Before jobs of the store are shown or changed. Raises Refused where they are another repository's."""
    if world.store.root == world.repository.default_store:
        return
    owner = world.store.read_optional(kinds.STORE, names.STORE)
    if owner is not None:
        _require(world, owner, _here(world))


def claim(world: World) -> None:
    """Before a job is made: the store is this repository's from now on. Raises Refused where it is another's.

    A repository that was renamed stays the owner (device, inode and birth time tell it); one that was put back at the
    same path is taken for the same.
    """
    if world.store.root == world.repository.default_store:
        return
    here, common = _here(world), world.repository.common_dir
    lock = world.writable_store.path(names.STORE_LOCK)
    with flocked(lock, clock=world.clock, what="the store's own document"):
        owner = world.store.read_optional(kinds.STORE, names.STORE)
        if owner is not None:
            _require(world, owner, here)
        made: StoreOwner = {
            "schemaVersion": SCHEMA_VERSION,
            "kind": "store",
            "at": timestamp(world.clock.now()),
            "path": path_text(os.fsencode(common)),
            "device": here.device,
            "inode": here.inode,
        }
        exact = path_b64(os.fsencode(common))
        made |= {"pathB64": exact} if exact else {}
        made |= {"birthTimeNs": here.birth_ns} if here.birth_ns is not None else {}
        if owner is None or any(owner.get(key) != made[key] for key in SAME if key in made):
            world.writable_store.write(kinds.STORE, names.STORE, made)


def _here(world: World) -> Identity:
    found = identify(_common_dir(world))
    if found is None:
        where = str(world.repository.common_dir)
        raise Blocked("the repository's git directory is gone", where=where, hint="put it back; nothing was changed")
    return found


def _common_dir(world: World) -> Path:
    """The repository's; for a unit in a repository of its own, that of the repository which this borrows from."""
    found = world.repository.common_dir
    return found.parents[2] if is_private(found) else found


def _require(world: World, owner: StoreOwner, here: Identity) -> None:
    place = Path(os.fsdecode(path_bytes(owner)))
    if here.matches(owner) or place == _common_dir(world):
        return
    hint = "give this repository a store of its own: another KTX_DIR, or none"
    if identify(place) is None:
        document = world.store.path(names.STORE)
        hint = f"if that repository is this one now (it was moved between disks): remove {printable(str(document))}"
    message = f"the store belongs to another repository: {printable(str(place))}"
    raise Refused(message, where=str(world.store.root), hint=hint)
