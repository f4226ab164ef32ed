"""How much is going on where nothing counts: events under pruned directories are counted, in a queue of their own.

A flood there can overflow this queue and nothing else; the count is then a lower bound, and said to be one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ktxkit.base.reading import OPEN_DIRECTORY
from ktxkit.observer.watch import IN_CREATE, IN_IGNORED, IN_ISDIR, IN_MOVED_TO, IN_Q_OVERFLOW, Inotify, WatchFailed

WATCHES = 256  # directories under pruned ones that are watched; deeper or more are not counted
READS = 64  # reads of the queue at one look: the rest waits, or overflows


@dataclass
class Count:
    """Events under one reason."""

    count: int = 0
    at_least: bool = False


class Churn:
    """Counts events by reason."""

    def __init__(self) -> None:
        self.queue = Inotify()
        self.counts: dict[str, Count] = {}
        self._reasons: dict[bytes, str] = {}  # pruned directory: reason

    def on_pruned(self, path: bytes, parent: int, reason: str) -> None:
        """To be called by a scan with each directory that it does not go into; `parent` holds it."""
        self._reasons.setdefault(path, reason)
        self.counts.setdefault(reason, Count())
        if path not in self.queue.numbers:
            self._watch(path, path.rpartition(b"/")[2], parent)

    def _watch(self, path: bytes, name: bytes, parent: int) -> None:
        if len(self.queue.numbers) >= WATCHES:
            return
        try:
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except OSError:
            return  # gate-ok: a link, or gone
        try:
            self.queue.add(path, fd)
            with os.scandir(fd) as listing:
                inside = [os.fsencode(entry.name) for entry in listing if entry.is_dir(follow_symlinks=False)]
            for child in inside:
                self._watch(path + b"/" + child, child, fd)
        except (OSError, WatchFailed):
            self._count(path).at_least = True
        finally:
            os.close(fd)

    def look(self, root: int) -> None:
        """Count what is in the queue. `root` is the open root, to watch directories that are new."""
        for _ in range(READS):
            found = self.queue.events()
            if not found:
                return
            for number, mask, name in found:
                self._event(root, number, mask, name)
        self._lower_bound()

    def _event(self, root: int, number: int, mask: int, name: bytes) -> None:
        if mask & IN_Q_OVERFLOW:
            self._lower_bound()
            return
        path = self.queue.paths.get(number)
        if mask & IN_IGNORED:
            self.queue.ignored(number)
            return
        if path is None:
            return
        self._count(path).count += 1
        if mask & IN_ISDIR and mask & (IN_CREATE | IN_MOVED_TO) and len(self.queue.numbers) < WATCHES:
            self._watch_below(root, path, name)

    def _watch_below(self, root: int, path: bytes, name: bytes) -> None:
        """Open the directory part by part, following no link, and watch the new one in it."""
        opened = []
        at = root
        try:
            for part in path.split(b"/"):
                at = os.open(part, OPEN_DIRECTORY, dir_fd=at)
                opened.append(at)
            self._watch(path + b"/" + name, name, at)
        except OSError:
            self._count(path).at_least = True  # it is gone already: what happened in it is not counted
        finally:
            for fd in opened:
                os.close(fd)

    def _count(self, path: bytes) -> Count:
        top = next((d for d in self._reasons if path == d or path.startswith(d + b"/")), b"")
        return self.counts.setdefault(self._reasons.get(top, "volatile_build"), Count())

    def _lower_bound(self) -> None:
        for count in self.counts.values():
            count.at_least = True

    def close(self) -> None:
        self.queue.close()
