"""Whose store it is. One kept elsewhere (`KTX_DIR`) holds the jobs of one repository, and says of which.

Two repositories in one store would mix their jobs, refs and snapshots: a job would land in a repository that never saw
its work. The repository's own `.ktx/` needs no such document: its place tells.
"""

from __future__ import annotations

import os
from pathlib import Path

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Blocked, Refused
from ktxkit.base.identity import Identity, identify
from ktxkit.base.lock import flocked
from ktxkit.base.rules.text import path_bytes, path_fields, printable
from ktxkit.store.rules import names
from ktxkit.store.world import World

CONTRACT = "store"


def require_ours(world: World) -> None:
    """Before jobs of the store are shown or changed. Raises Refused where they are another repository's."""
    if world.store.root == world.repository.default_store:
        return
    owner = world.store.read_optional(CONTRACT, names.STORE)
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
        owner = world.store.read_optional(CONTRACT, names.STORE)
        if owner is not None:
            _require(world, owner, here)
        wanted = {**path_fields(os.fsencode(common)), **here.document()}
        if owner is None or any(owner.get(key) != value for key, value in wanted.items()):
            made = {"schemaVersion": SCHEMA_VERSION, "kind": CONTRACT, "at": timestamp(world.clock.now()), **wanted}
            world.writable_store.write(CONTRACT, names.STORE, made)


def _here(world: World) -> Identity:
    found = identify(world.repository.common_dir)
    if found is None:
        where = str(world.repository.common_dir)
        raise Blocked("the repository's git directory is gone", where=where, hint="put it back; nothing was changed")
    return found


def _require(world: World, owner: Document, here: Identity) -> None:
    place = Path(os.fsdecode(path_bytes(owner)))
    if here.matches(owner) or place == world.repository.common_dir:
        return
    hint = "give this repository a store of its own: another KTX_DIR, or none"
    if identify(place) is None:
        document = world.store.path(names.STORE)
        hint = f"if that repository is this one now (it was moved between disks): remove {printable(str(document))}"
    message = f"the store belongs to another repository: {printable(str(place))}"
    raise Refused(message, where=str(world.store.root), hint=hint)
