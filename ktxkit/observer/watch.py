"""inotify as a wake-up. What is there now is the scan's to say; events only name directories to look into.

Source: inotify(7). Names are bytes; links are not followed; opening and reading are no events; an overflow is told, and
so is every other way to miss something. Watches are put on open descriptors, so that no path can lead them elsewhere.

How much is going on where nothing counts: events under pruned directories are counted, in a queue of their own.

A flood there can overflow this queue and nothing else; the count is then a lower bound, and said to be one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ktxkit.base.reading import OPEN_DIRECTORY
from ktxkit.observer.scan import Hints

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED, IN_ONLYDIR, IN_ISDIR = 0x2000, 0x4000, 0x8000, 0x1000000, 0x40000000
_IN_NONBLOCK, _IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
MASK = (
    IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF
    | IN_MOVE_SELF | IN_ONLYDIR
)  # fmt: skip
_HEAD = struct.Struct("=iIII")  # watch, mask, cookie, length of the name
READ = 256 * 1024  # bytes of events read at once
HINTED = 4_096  # directories that are remembered one by one; with more, everything is looked at

Counts = Callable[[bytes, bool], str]  # reason why an event at a path (a directory?) is churn, or ""


class WatchFailed(Exception):
    """Native watching is not available: the message says why."""


@dataclass
class Wake:
    """What has happened since the last look. `everything`: something was missed, or there was too much."""

    shallow: set[bytes] = field(default_factory=set)
    deep: set[bytes] = field(default_factory=set)
    everything: bool = False
    overflow: bool = False
    gone: bool = False  # the root itself moved, was deleted or unmounted

    def __bool__(self) -> bool:
        return bool(self.shallow or self.deep or self.everything or self.gone)

    def hints(self) -> Hints | None:
        """Where to look, or None: everywhere."""
        if self.everything or self.gone or len(self.shallow) + len(self.deep) > HINTED:
            return None
        return Hints(frozenset(self.shallow), frozenset(self.deep))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class Inotify:
    """One queue of the kernel, and the paths that its watches stand for."""

    def __init__(self) -> None:
        self._libc = _libc()
        self.fd = self._libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if self.fd < 0:
            raise WatchFailed(f"inotify is not available: {os.strerror(ctypes.get_errno())}")
        self.paths: dict[int, bytes] = {}
        self.numbers: dict[bytes, int] = {}

    def add(self, path: bytes, directory: int) -> None:
        """Watch an open directory. Raises WatchFailed where the limit of watches is reached."""
        number = self._libc.inotify_add_watch(self.fd, f"/proc/self/fd/{directory}".encode(), MASK)
        if number < 0:
            code = ctypes.get_errno()
            if code in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                return  # it went away, or cannot be read: the scan says so
            hint = "; see fs.inotify.max_user_watches in sysctl(8)" if code == errno.ENOSPC else ""
            raise WatchFailed(f"a directory cannot be watched: {os.strerror(code)}{hint}")
        old = self.paths.get(number)
        if old is not None and old != path:  # the same directory under another name
            self.numbers.pop(old, None)
        self.paths[number], self.numbers[path] = path, number

    def forget_below(self, path: bytes) -> None:
        """Drop the watches of a directory that moved away, and of all below it."""
        prefix = path + b"/"
        for known in [p for p in self.numbers if p == path or p.startswith(prefix)]:
            number = self.numbers.pop(known)
            self.paths.pop(number, None)
            self._libc.inotify_rm_watch(self.fd, number)

    def events(self) -> list[tuple[int, int, bytes]]:
        """What is in the queue now: watch, mask, name."""
        try:
            data = os.read(self.fd, READ)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            number, mask, _cookie, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            found.append((number, mask, data[at : at + length].rstrip(b"\0")))
            at += length
        return found

    def ignored(self, number: int) -> None:
        """The kernel dropped a watch."""
        path = self.paths.pop(number, None)
        if path is not None and self.numbers.get(path) == number:
            del self.numbers[path]

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Watcher:
    """Watches the directories that a scan walks. One pending wake, however many events there are."""

    def __init__(self, churn_of: Counts) -> None:
        self.queue = Inotify()
        self.churn_of = churn_of
        self.pending = Wake()
        self.churn: dict[str, int] = {}
        self.overflows = 0

    def on_directory(self, path: bytes, fd: int) -> None:
        """To be called by a scan with each directory it walks, before it lists it."""
        if path not in self.queue.numbers:
            self.queue.add(path, fd)

    def wait(self, seconds: float) -> bool:
        """Whether something is pending, after at most so many seconds."""
        if not self.pending:
            ready = select.poll()
            ready.register(self.queue.fd, select.POLLIN)
            if ready.poll(max(0.0, seconds) * 1000):
                self.drain()
        return bool(self.pending)

    def drain(self) -> None:
        """Take everything out of the queue."""
        while found := self.queue.events():
            for number, mask, name in found:
                self._event(number, mask, name)

    def take(self) -> Wake:
        """What is pending, which is nothing then."""
        self.drain()
        taken, self.pending = self.pending, Wake()
        return taken

    def _event(self, number: int, mask: int, name: bytes) -> None:
        if mask & IN_Q_OVERFLOW:
            self.overflows += 1
            self.pending.everything = self.pending.overflow = True
            return
        path = self.queue.paths.get(number)
        if mask & IN_IGNORED:
            self.queue.ignored(number)
            return
        if path is None:
            return
        if mask & (IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF):
            self._self_event(path, mask)
            return
        full = path + b"/" + name if path else name
        is_dir = bool(mask & IN_ISDIR)
        reason = self.churn_of(full, is_dir)
        if reason:
            self.churn[reason] = self.churn.get(reason, 0) + 1
            if is_dir and mask & (IN_CREATE | IN_MOVED_TO):
                self.pending.shallow.add(path)  # the scan meets it, and its churn is counted from then on
            return
        if is_dir and mask & IN_MOVED_FROM:
            self.queue.forget_below(full)
        if is_dir and mask & (IN_CREATE | IN_MOVED_TO):
            self.pending.deep.add(full)
        self.pending.shallow.add(path)
        if len(self.pending.shallow) + len(self.pending.deep) > HINTED:
            self.pending.everything = True
            self.pending.shallow.clear()
            self.pending.deep.clear()

    def _self_event(self, path: bytes, mask: int) -> None:
        if path:
            return  # its parent tells
        self.pending.gone = True
        if mask & IN_UNMOUNT:
            self.pending.everything = True

    def close(self) -> None:
        self.queue.close()


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
