"""Which files of a checkout stand in the way of a change to it, by names alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktxkit.git.rules.patch import Entry
from ktxkit.git.rules.status import Status


@dataclass(frozen=True, order=True)
class Obstacle:
    """A path that the change needs and that is not as the index has it."""

    path: bytes
    reason: str


def parents(path: bytes) -> Iterable[bytes]:
    """Every directory on the way to a path, the top left out."""
    parts = path.split(b"/")
    return (b"/".join(parts[:depth]) for depth in range(1, len(parts)))


def touched(entries: Sequence[Entry]) -> tuple[set[bytes], set[bytes]]:
    """The paths of a change, and every directory on the way to them."""
    paths = {entry.path for entry in entries}
    return paths, {parent for path in paths for parent in parents(path)}


def meets(path: bytes, paths: set[bytes], above: set[bytes]) -> bool:
    """Whether a path is one of the change's, above one, or below one."""
    bare = path.rstrip(b"/")
    return bare in paths or bare in above or any(parent in paths for parent in parents(bare))


def obstacles(
    entries: Sequence[Entry],
    dirty: Iterable[bytes],
    there: Mapping[bytes, str],
    inside: Mapping[bytes, Sequence[bytes]],
) -> list[Obstacle]:
    """What is in the way.

    `dirty`: paths with uncommitted or hidden work; `there`: for paths the change adds and the directories above them,
    what stands in the checkout (`file`, `directory`); `inside`: for directories where the change puts a file, the files
    that are in them.
    """
    paths, above = touched(entries)
    leaving = {entry.path for entry in entries if entry.change in ("deleted", "typechange")}
    found = {Obstacle(path, "uncommitted work") for path in dirty if meets(path, paths, above)}
    for entry in entries:
        if entry.change != "added":
            continue
        if there.get(entry.path) == "file":
            found.add(Obstacle(entry.path, "an untracked or ignored file is in the way"))
        found |= {
            Obstacle(path, "an untracked or ignored file is in the way")
            for path in inside.get(entry.path, ())
            if path not in leaving
        }
        found |= {
            Obstacle(parent, "a file is where a directory is needed")
            for parent in parents(entry.path)
            if there.get(parent) == "file" and parent not in leaving
        }
    return sorted({item.path: item for item in sorted(found, reverse=True)}.values())


def near(entries: Sequence[Entry], status: Status) -> tuple[frozenset[object], ...]:
    """What a status says of the paths of a change: what is at them, above them or below them.

    Anything else in the checkout is another's, and may come and go while the change lands. A submodule that is only at
    another commit than its gitlink is no dirt of the change.
    """
    paths, above = touched(entries)
    links = {entry.path for entry in entries if entry.new.kind == "gitlink"}
    changed = (item for item in status.changed if item.path not in links and meets(item.path, paths, above))
    return (
        frozenset(changed),
        *(
            frozenset(path for path in some if meets(path, paths, above))
            for some in (status.unmerged, status.untracked)
        ),
    )
