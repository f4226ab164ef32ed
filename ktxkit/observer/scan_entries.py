"""The entries of a walk: which count, what they are, and what is put into the manifest for them."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable

from blake3 import blake3

from ktxkit.base.reading import ABSENT, SPECIAL, UNSTABLE, Found, Reader
from ktxkit.base.rules import stat_key
from ktxkit.base.rules.manifest import GITLINK, PATH_LIMIT, Entry
from ktxkit.git.gitlinks import gitlink_id
from ktxkit.observer.manifest_cursor import INODE, Cursor
from ktxkit.observer.manifest_file import CLASS_AT, Stored
from ktxkit.observer.rules.paths_policy import PathClass
from ktxkit.observer.scanned import Scan, Subject

Beside = Callable[[bytes], Found | None]
CLASSES = tuple(PathClass)  # a key's row holds a class by its number
_NO_KEY = bytes(stat_key.KEY.size)
CLASS_BYTES = tuple(bytes((number,)) for number in range(len(CLASSES)))


class Aliases:
    """Files with several names."""

    def __init__(self) -> None:
        self._several: dict[bytes, tuple[int, bytes]] = {}  # path: number of names, inode
        self._met: Counter[bytes] = Counter()

    def note(self, path: bytes, links: int, inode: bytes) -> None:
        self._several[path] = (links, inode)
        self._met[inode] += 1

    def flags(self, path: bytes) -> tuple[str, ...]:
        """What is said beside a change of such a file: some of its names may lie outside."""
        if path not in self._several:
            return ()
        links, inode = self._several[path]
        return ("hard_linked", "external_alias_possible") if self._met[inode] < links else ("hard_linked",)


class Entries:
    """Looks at one entry at a time, in path order. `started` is the scan's begin, wall time in nanoseconds.

    `beside` gives what was read of a file by somebody else already.
    """

    def __init__(self, subject: Subject, stored: Stored, found: Scan, started: int, beside: Beside) -> None:
        self.subject, self.found = subject, found
        self.cursor = Cursor(stored)
        self._beside = beside
        self.reader = Reader(subject.limit, started)
        self.aliases = Aliases()

    def take(self, directory: int, name: bytes, path: bytes, info: os.stat_result) -> None:
        """One entry that no key vouches for. The cursor stands at its path, or where it would be."""
        if stat.S_ISREG(info.st_mode):
            self.take_file(directory, name, path)
            return
        number = self._number(path)
        if number is None:
            return
        if stat.S_ISDIR(info.st_mode) and path in self.subject.gitlinks:
            self._gitlink(directory, name, path, number)
        elif not stat.S_ISLNK(info.st_mode):
            self._unread(path, UNSTABLE if stat.S_ISDIR(info.st_mode) else SPECIAL)
        elif isinstance(read := self.reader.link(directory, name, path, info), str):
            self._unread(path, read)
        else:
            self._put(path, read[0], number)
            if escapes(path, read[1]):
                self.found.hold(path, "escaping_symlink")

    def take_file(self, directory: int, name: bytes, path: bytes) -> None:
        """The same for what the directory says is a regular file."""
        number = self._number(path)
        if number is None:
            return
        read = self._beside(path) or self.reader.file(directory, name, path)
        if isinstance(read, str):
            self._unread(path, read)
        else:
            self._put(path, read, number)

    def _number(self, path: bytes) -> int | None:
        """Of its class; None where it is no candidate."""
        return self.cursor.row[CLASS_AT] if self.cursor.path == path else self._class_number(path)

    def _class_number(self, path: bytes) -> int | None:
        """Of a path that is not stored; None where it is no candidate."""
        verdict = self.subject.policy.classify(path, tracked=path in self.subject.tracked)
        if not verdict.candidate:
            if verdict.path_class is not PathClass.CONTROL:
                self.found.excluded[verdict.reason] += 1
            return None
        if len(path) > PATH_LIMIT:
            self.found.hold(path, "path_too_long")
            return None
        return CLASSES.index(verdict.path_class)

    def _unread(self, path: bytes, why: str) -> None:
        if why == ABSENT:
            return  # the cursor deletes what was not met
        if why == SPECIAL:
            self.found.hold(path, why)
            return  # and what was stored there is gone
        if why == UNSTABLE:
            self.found.unsteady(path)
        else:
            self.found.hold(path, why)
        if self.cursor.path == path:
            self.cursor.step()

    def _put(self, path: bytes, found: Found, number: int) -> None:
        packed, key, links = found
        if links > 1:
            self.aliases.note(path, links, key[:INODE])
        self.cursor.put(path, packed, key + CLASS_BYTES[number])

    def _gitlink(self, directory: int, name: bytes, path: bytes, number: int) -> None:
        cursor = self.cursor
        commit = gitlink_id(directory, name, self.subject.admin)
        if commit is None:
            self.found.hold(path, "submodule_unreadable")
            if cursor.path == path:
                cursor.step()
            return
        text = (commit or self.subject.gitlinks[path]).encode("ascii")
        entry = Entry(path, GITLINK, blake3(text).digest(), 0)
        if cursor.path == path and cursor.packed == entry.packed():
            cursor.step()
        else:
            cursor.put(path, entry.packed(), _NO_KEY + bytes((stat_key.RACY, number)))


def escapes(path: bytes, target: bytes) -> bool:
    """Whether a link's text leaves the worktree, read from where the link lies. Nothing is followed."""
    if target.startswith(b"/"):
        return True
    depth = path.count(b"/")
    for part in target.split(b"/"):
        if part == b"..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in (b"", b"."):
            depth += 1
    return False
