"""What a scan is of, how much it reads, and what it found.

The entries of a walk: which count, what they are, and what is put into the manifest for them.

The observer's own walk of a worktree: relative to descriptors, in path order, in step with the stored manifest.

`git status` cannot be the truth (the owner of a worktree can blind it), and a walk by path names can be led outside by
a directory that becomes a link. What could not be seen or read keeps its stored entry, and is named.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from operator import itemgetter

from blake3 import blake3

from ktxkit.base.reading import ABSENT, OPEN_DIRECTORY, SPECIAL, UNREADABLE, UNSTABLE, EntryReader, PackedEntry
from ktxkit.base.rules import manifest
from ktxkit.base.rules.manifest import GITLINK, KEY, PATH_LIMIT, ManifestChange, ManifestEntry, entries
from ktxkit.git.child import gitlink_id
from ktxkit.observer.manifest_file import CLASS_AT, INODE, ROW, WINDOW, Cursor, Edit, Stored
from ktxkit.observer.rules.projection import Tracked
from ktxkit.store.rules.paths_policy import CandidatePathPolicy, Classified, PathClass

LISTED = 1_000  # holds and unstable paths that are named; all are counted
OnDirectory = Callable[[bytes, int], None]  # path without a slash, open descriptor
OnPruned = Callable[[bytes, int, str], None]  # path, descriptor of the directory it lies in, reason


class Level(Enum):
    """How much a scan reads: what events named; what no key vouches for; everything."""

    HINT = "hint"
    STAT = "stat"
    CONTENT = "content"


@dataclass(frozen=True, order=True)
class Hold:
    """A path about which nothing is claimed, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True)
class ScanSubject:
    """What is scanned: an open root, and the snapshot that says what counts in it."""

    root: int
    policy: CandidatePathPolicy
    tracked: Tracked
    gitlinks: Mapping[bytes, str] = field(default_factory=dict)  # submodules and their commits at the baseline
    mounts: frozenset[bytes] = frozenset()  # mount points below the root
    admin: bytes = b""  # git's common directory: only below it is a submodule's HEAD read
    limit: int = 1 << 30  # bytes of a file that is still read
    window: int = WINDOW  # bytes of the stored entries that are read at a time


@dataclass(frozen=True)
class Hints:
    """Directories that events named, without slashes (`b""` is the root): looked into, or walked as a whole."""

    shallow: frozenset[bytes] = frozenset()
    deep: frozenset[bytes] = frozenset()

    def wants(self, directory: bytes) -> bool:
        """Whether the directory's own entries are to be looked at."""
        return directory in self.shallow or any(
            not deep or directory == deep or directory.startswith(deep + b"/") for deep in self.deep
        )

    def below(self, prefix: bytes) -> list[bytes]:
        """Names in a directory (given with its slash) on the way to what is wanted, in path order."""
        named = {d[len(prefix) :].partition(b"/")[0] for d in self.shallow | self.deep if d.startswith(prefix)}
        return sorted(named - {b""}, key=lambda name: name + b"/")


@dataclass
class Scan:
    """What a scan found. `stored` is the manifest as it is now; `changed_keys` says that it is worth saving."""

    level: Level
    stored: Stored
    changed_keys: bool = False
    holds: list[Hold] = field(default_factory=list)
    held: int = 0
    unstable: list[bytes] = field(default_factory=list)
    unstable_count: int = 0
    excluded: Counter[str] = field(default_factory=Counter)  # entries, or whole trees, by reason
    directories: int = 0
    files_read: int = 0
    bytes_read: int = 0
    compute: Callable[[], list[ManifestChange]] = list

    @cached_property
    def changes(self) -> list[ManifestChange]:
        """Made when asked for: a baseline is against nothing, and everything in it would be a change."""
        return self.compute()

    @property
    def partial(self) -> bool:
        """Something was not seen as it is."""
        return self.unstable_count > 0

    def hold(self, path: bytes, reason: str) -> None:
        self.held += 1
        if len(self.holds) < LISTED:
            self.holds.append(Hold(path, reason))

    def unsteady(self, path: bytes) -> None:
        """It changed while it was looked at."""
        self.unstable_count += 1
        if len(self.unstable) < LISTED:
            self.unstable.append(path)


CLASSES = tuple(PathClass)  # a key's row holds a class by its number
_NO_KEY = bytes(manifest.KEY.size)
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
    """Looks at one entry at a time, in path order. `started` is the scan's begin, wall time in nanoseconds."""

    def __init__(self, subject: ScanSubject, stored: Stored, scan: Scan, started: int) -> None:
        self.subject, self.scanned = subject, scan
        self.cursor = Cursor(stored, subject.window)
        self.reader = EntryReader(subject.limit, started)
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
                self.scanned.hold(path, "escaping_symlink")

    def take_file(self, directory: int, name: bytes, path: bytes) -> None:
        """The same for what the directory says is a regular file."""
        number = self._number(path)
        if number is None:
            return
        read = self.reader.file(directory, name, path)
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
                self.scanned.excluded[verdict.reason] += 1
            return None
        if len(path) > PATH_LIMIT:
            self.scanned.hold(path, "path_too_long")
            return None
        return CLASSES.index(verdict.path_class)

    def _unread(self, path: bytes, why: str) -> None:
        if why == ABSENT:
            return  # the cursor deletes what was not met
        if why == SPECIAL:
            self.scanned.hold(path, why)
            return  # and what was stored there is gone
        if why == UNSTABLE:
            self.scanned.unsteady(path)
        else:
            self.scanned.hold(path, why)
        if self.cursor.path == path:
            self.cursor.step()

    def _put(self, path: bytes, found: PackedEntry, number: int) -> None:
        packed, key, links = found
        if links > 1:
            self.aliases.note(path, links, key[:INODE])
        self.cursor.put(path, packed, key + CLASS_BYTES[number])

    def _gitlink(self, directory: int, name: bytes, path: bytes, number: int) -> None:
        cursor = self.cursor
        commit = gitlink_id(directory, name, self.subject.admin)
        if commit is None:
            self.scanned.hold(path, "submodule_unreadable")
            if cursor.path == path:
                cursor.step()
            return
        text = (commit or self.subject.gitlinks[path]).encode("ascii")
        entry = ManifestEntry(path, GITLINK, blake3(text).digest(), 0)
        if cursor.path == path and cursor.packed == entry.packed():
            cursor.step()
        else:
            cursor.put(path, entry.packed(), _NO_KEY + bytes((manifest.RACY, number)))


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


DEEPEST = 200  # directories inside each other; deeper is held
ENCODING, ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
NO_FLAGS = 0
FLAGGED_KEY = struct.Struct(f"{KEY.format}B")
_OUT_OF_DESCRIPTORS = (12, 23, 24)  # ENOMEM, ENFILE, EMFILE
Listed = Sequence[tuple[bytes, "os.DirEntry[str]"]]


def scan(
    subject: ScanSubject,
    stored: Stored,
    level: Level,
    *,
    hints: Hints | None = None,
    on_directory: OnDirectory | None = None,
    on_pruned: OnPruned | None = None,
    started_ns: int | None = None,
) -> Scan:
    """Compare the tree with a stored manifest. `hints` are needed at their level; `started_ns` is for tests.

    Raises OSError where descriptors or memory run out.
    """
    assert (level is Level.HINT) == (hints is not None)
    found = Scan(level, stored)
    started = time.time_ns() if started_ns is None else started_ns
    seen = Entries(subject, stored, found, started)
    walk = _Walk(subject, seen, found, hints, on_directory, on_pruned)
    if hints is None or hints.wants(b""):
        walk.directory(subject.root, b"", 0)
    else:
        walk.through(subject.root, b"", 0)
    return _finished(found, stored, seen)


def _finished(scan: Scan, stored: Stored, seen: Entries) -> Scan:
    edits = seen.cursor.edits
    scan.stored = stored.edited(edits)
    scan.changed_keys = bool(edits)
    scan.files_read, scan.bytes_read = seen.reader.files, seen.reader.bytes
    aliases = seen.aliases  # nothing that knows `found`: a cycle would keep the stored manifest's descriptor open
    scan.compute = lambda: [change for edit in edits for change in _changes(stored, edit, aliases)]
    return scan


def _changes(stored: Stored, edit: Edit, aliases: Aliases) -> Iterator[ManifestChange]:
    """What an edit changes; a new key alone is nothing."""
    before = None if edit.inserts else stored.entry_at(edit.begin)
    rows = edit.rows or stored.row_at(edit.row_number)
    for number, after in enumerate(entries(bytes(edit.packed)) if edit.packed else (None,)):
        kept = after or before
        if before == after or kept is None:
            continue
        word = CLASSES[rows[number * ROW.size + CLASS_AT]].value
        yield ManifestChange(kept.path, before, after, edit.replaced, aliases.flags(kept.path), word)


class _Walk:
    """One scan's way through the directories."""

    def __init__(
        self,
        subject: ScanSubject,
        entries: Entries,
        scan: Scan,
        hints: Hints | None,
        on_directory: OnDirectory | None,
        on_pruned: OnPruned | None,
    ) -> None:
        self.subject, self.entries, self.scanned, self.hints = subject, entries, scan, hints
        self.cursor = entries.cursor
        self.trusting = scan.level is not Level.CONTENT
        self.device = os.fstat(subject.root).st_dev
        self.on_directory, self.on_pruned = on_directory, on_pruned

    def directory(self, fd: int, prefix: bytes, depth: int) -> None:
        """Everything in an open directory. `prefix` is its path with a slash, `b""` for the root."""
        self.cursor.keep_before(prefix) if self.hints else self.cursor.delete_before(prefix)
        self.scanned.directories += 1
        if self.on_directory is not None:
            self.on_directory(prefix[:-1], fd)
        listed = self._listed(fd, prefix)
        if listed is None:
            return
        cursor, trusting, pack = self.cursor, self.trusting, FLAGGED_KEY.pack
        vouches, take_file = cursor.vouches, self.entries.take_file
        for name, entry in listed:
            if name.endswith(b"/"):
                self._subdirectory(fd, prefix, name[:-1], depth)
                continue
            path = prefix + name
            if not trusting and entry.is_file(follow_symlinks=False):
                if cursor.path != path:
                    cursor.delete_before(path)
                take_file(fd, name, path)
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError as error:
                self._not_seen(path, error)
                continue
            key = pack(
                info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode, NO_FLAGS
            )
            if not (trusting and vouches(path, key)):
                cursor.delete_before(path)
                if not (trusting and vouches(path, key)):
                    self.entries.take(fd, name, path, info)
        cursor.delete_below(prefix)

    def _not_seen(self, path: bytes, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # gone since it was listed: it is not met, so the cursor deletes it
        self.scanned.hold(path, UNREADABLE)
        self.cursor.keep(path)

    def through(self, fd: int, prefix: bytes, depth: int) -> None:
        """A directory whose own entries nobody asked for, on the way to some that are wanted."""
        assert self.hints is not None
        for name in self.hints.below(prefix):
            below = prefix + name + b"/"
            self.cursor.keep_before(below)
            if self._pruned(fd, below) is None:
                self._descend(fd, name, below, depth)

    def _listed(self, fd: int, prefix: bytes) -> Listed | None:
        """Names in path order, directories with a slash; None where nothing is to be said about what is inside."""
        try:
            with os.scandir(fd) as listing:
                found = list(listing)
        except OSError as error:
            self._unseen(prefix, UNREADABLE if isinstance(error, PermissionError) else UNSTABLE)
            return None
        names = [entry.name for entry in found]
        if prefix and ".git" in names and not self.subject.tracked.any_below(prefix[:-1]):
            self._unseen(prefix, "nested_repository")
            return None
        if _collide(names):
            self._collisions(prefix, names)
        links = self.subject.gitlinks
        keyed = []
        for entry in found:
            name = entry.name.encode(ENCODING, ERRORS)
            inside = entry.is_dir(follow_symlinks=False) and not (links and prefix + name in links)
            keyed.append((name + b"/" if inside else name, entry))
        keyed.sort(key=itemgetter(0))
        return keyed

    def _subdirectory(self, parent: int, prefix: bytes, name: bytes, depth: int) -> None:
        below = prefix + name + b"/"
        if name.lower() == b".git" or (not prefix and name == b".ktx"):
            return
        self.cursor.delete_before(below)
        if self.hints is not None and not self.hints.wants(below[:-1]):
            if self.hints.below(below):
                self._descend(parent, name, below, depth)
                return
            if self._stored_below(below):
                self.cursor.keep_below(below)
                return
        why = self._pruned(parent, below)
        if why is None:
            self._descend(parent, name, below, depth)

    def _stored_below(self, below: bytes) -> bool:
        return self.cursor.path is not None and self.cursor.path.startswith(below)

    def _pruned(self, parent: int, below: bytes) -> Classified | None:
        """Why a directory is not gone into; None where it is. What is tracked below it counts all the same."""
        path = below[:-1]
        why = self.subject.policy.prunes(path)
        if why is None:
            return None
        if why.path_class is not PathClass.CONTROL and (
            self._stored_below(below) or self.subject.tracked.any_below(path)
        ):
            return None
        self.scanned.excluded[why.reason] += 1
        if self.on_pruned is not None:
            self.on_pruned(path, parent, why.reason)
        return why

    def _descend(self, parent: int, name: bytes, below: bytes, depth: int) -> None:
        if below[:-1] in self.subject.mounts or depth >= DEEPEST:
            self._unseen(below, "too_deep" if depth >= DEEPEST else "foreign_device")
            return
        try:
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                raise
            # Gone, or a link or a file by now: that will be seen at the next scan.
            self._unseen(below, UNREADABLE if isinstance(error, PermissionError) else UNSTABLE)
            return
        try:
            if os.fstat(fd).st_dev != self.device:
                self._unseen(below, "foreign_device")
            elif self.hints is None or self.hints.wants(below[:-1]) or not self.hints.below(below):
                self.directory(fd, below, depth + 1)
            else:
                self.through(fd, below, depth + 1)
        finally:
            os.close(fd)

    def _unseen(self, below: bytes, reason: str) -> None:
        """Nothing is claimed about a directory: what is stored under it stays."""
        if reason == UNSTABLE:
            self.scanned.unsteady(below[:-1])
        else:
            self.scanned.hold(below[:-1], reason)
        self.cursor.keep_below(below)

    def _collisions(self, prefix: bytes, names: Sequence[str]) -> None:
        counted = Counter(_folded(name) for name in names)
        for name in sorted(names):
            if counted[_folded(name)] > 1:
                self.scanned.hold(prefix + os.fsencode(name), "case_collision")


def _collide(names: Sequence[str]) -> bool:
    """Whether two names are one for some file systems. Most directories are plain ASCII: that is one pass in C."""
    folded = map(str.lower, names) if "".join(names).isascii() else map(_folded, names)
    return len(set(folded)) != len(names)


def _folded(name: str) -> str:
    """One form for the spellings that some file systems take for one name."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
