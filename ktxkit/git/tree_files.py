"""The files of a tree by path, without a listing: what a small change of a large tree asks for is a few of them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping

from ktxkit.git.objects import Objects

LOOKED_UP = 2_000  # paths that are looked up one by one; then all are listed
TREE = "040000"


class TreeFiles(Mapping[bytes, tuple[str, str]]):
    """Path to mode and object id, read through `objects` while that is open."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self._objects, self.id = objects, tree
        self._looked_up = 0
        self._differing: tuple[str, list[bytes]] | None = None
        self._listed: dict[bytes, tuple[str, str]] | None = None

    def _all(self) -> dict[bytes, tuple[str, str]]:
        if self._listed is None:
            self._listed = {path: (mode, oid) for mode, path, oid in self._objects.tree(self.id)}
        return self._listed

    def __getitem__(self, path: bytes) -> tuple[str, str]:
        self._looked_up += 1
        if self._listed is not None or self._looked_up > LOOKED_UP:
            return self._all()[path]
        found = self._objects.entry(self.id, path)
        if found is None or found.mode == TREE:
            raise KeyError(path)
        return found.mode, found.oid

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> ItemsView[bytes, tuple[str, str]]:
        return self._all().items()

    def has_folder(self, folder: bytes) -> bool:
        """Whether a directory, which ends in `/`, is there."""
        found = self._objects.entry(self.id, folder.removesuffix(b"/"))
        return found is not None and found.mode == TREE

    def differing(self, before: TreeFiles) -> list[bytes]:
        """The files that differ from those of another tree, sorted; what both have under one id is not looked at."""
        if self._differing is None or self._differing[0] != before.id:
            found: list[bytes] = []
            _differing(self._objects, before.id, self.id, b"", found)
            self._differing = before.id, sorted(found)
        return self._differing[1]


def _differing(objects: Objects, before: str, after: str, prefix: bytes, found: list[bytes]) -> None:
    if before == after:
        return
    sides: dict[bytes, list[tuple[str, str] | None]] = {}
    for side, tree in enumerate((before, after)):
        for mode, name, oid in objects.level(tree) if tree else ():
            sides.setdefault(name, [None, None])[side] = mode, oid
    for name, (old, new) in sides.items():
        if old == new:
            continue
        below = [one[1] if one is not None and one[0] == TREE else "" for one in (old, new)]
        if any(below):
            _differing(objects, below[0], below[1], prefix + name + b"/", found)
        if any(one is not None and one[0] != TREE for one in (old, new)):
            found.append(prefix + name)
