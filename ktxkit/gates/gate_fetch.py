"""In a partial clone, the artifacts that gates will read of a tree are fetched at once, not one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktxkit.gates.gate_read import Listed
from ktxkit.gates.rules.model import place_of
from ktxkit.git.promised import promised
from ktxkit.store.world import World


def fetch_listed(world: World, listings: Iterable[Listed], root: bytes) -> None:
    """The same of indexes and trees that git listed. What an index has and HEAD's tree has not was added here."""
    if promised(world.git, world.repository.objects, world.env) is None:
        return
    found = list(listings)
    head = world.git.resolve("HEAD", "tree")
    trees = [tree for tree in (*(one.tree for one in found), head) if tree]
    fetch_artifacts(world, trees, (entry for one in found for entry in one.entries), root)


def fetch_artifacts(world: World, trees: Sequence[str], entries: Iterable[tuple[str, bytes, str]], root: bytes) -> None:
    """Fetch those of the entries (mode, path, blob id) that gates read and the clone lacks; nothing where it is whole.

    `trees` hold the entries. Raises CannotRun where the remote does not give them.
    """
    promise = promised(world.git, world.repository.objects, world.env)
    if promise is None:
        return
    if not trees:
        return
    listed = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--no-walk")  # it asks no remote
    missing = {line[1:] for line in world.git.run(*listed, *trees).lines if line.startswith("?")}
    wanted = [oid for _, path, oid in entries if oid in missing and place_of(path, root).kind]
    if wanted:
        promise.fetch(wanted)
