"""inotify as a wake-up. What is there now is the scan's to say; events only name directories to look into.

Source: inotify(7). Names are bytes; links are not followed; opening and reading are no events; an overflow is told, and
so is every other way to miss something. Watches are put on open descriptors, so that no path can lead them elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ktxkit.observer.scanned import Hints

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
