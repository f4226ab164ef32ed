"""Files: written aside, fsynced, renamed; a directory is fsynced after a rename in it (design, section 4).

Everything goes through `os` calls on descriptors, so that the fault tests can stop a process before and after each one.

A SQLite file of what can be found out again: it may be deleted at any moment, and no command fails for it.

A file that is no database, or of another version, is made again. What cannot be opened, read or written is done
without, in this process; `lost` says why.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, AnyStr, BinaryIO

from ktxkit.base import owners
from ktxkit.base.clock import LIMITS
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.removal import StorePath, entry
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    import sqlite3

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DOCUMENT_LIMIT = 256 * 1024 * 1024  # bytes; a document above this is not one of ours


def make_dirs(path: Path, mode: int = PRIVATE_DIR) -> None:
    """Make a directory and its missing parents with `mode`; their names are on the disk when this returns.

    What is flushed into a new directory later would be lost with its name. Raises CannotRun where a file is in the way.
    """
    missing = []
    probe = path
    while not probe.is_dir():
        missing.append(probe)
        if probe.parent == probe:
            break
        probe = probe.parent
    for directory in reversed(missing):
        try:
            with entry(directory) as (name, fd):
                os.mkdir(name, mode, dir_fd=fd)
        except FileExistsError:
            if not directory.is_dir():
                raise CannotRun(
                    f"{directory} is in the way: a directory is needed there", hint="move it away"
                ) from None
        else:
            _sync_parent(directory)


def _sync_parent(directory: Path) -> None:
    try:
        sync_dir(directory.parent)
    except PermissionError:
        return  # gate-ok: it may be written and entered, not read; then no one can flush it


def sync_dir(path: Path) -> None:
    """Flush a directory's entries to the disk."""
    with entry(path / "x") as (_, at):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. A short write is continued; an error is raised as it comes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_record(fd: int, data: bytes) -> None:
    """Append to a journal; where that fails (disk full) the file is cut back: no part of a record stays."""
    size = os.fstat(fd).st_size
    try:
        write_all(fd, data)
    except OSError:
        os.ftruncate(fd, size)
        raise


def write_new(path: Path, data: bytes) -> None:
    """A file in a private directory of a live process: nobody else reads it, and nothing of it must last.

    Raises FileExistsError where it is there, OSError as the system gives it.
    """
    make_dirs(path.parent)
    with entry(path) as (name, at):
        fd = os.open(name, NEW, PRIVATE_FILE, dir_fd=at)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, durable: bool = True) -> None:
    """Replace `path` by `data` as a whole or not at all; with `durable` it is on the disk when this returns.

    Raises OSError as the system gives it; nothing is left beside the target then.
    """
    with written_aside(path, mode=mode, durable=durable) as fd:
        write_all(fd, data)


def write_named(cwd: Path, name: str, data: bytes) -> Path:
    """Write a file that a user named; returns its path. No directory is made for it.

    What a symbolic link names is replaced, not the link; a FIFO or device is opened and written to. Raises CannotRun
    where no file can be there, OSError as the system gives it.
    """
    if not name:
        raise CannotRun("the name of the file to write is empty", hint="name a file")
    path = cwd / name
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    if stat.S_ISDIR(mode):
        raise CannotRun("a directory stands where the file would be written", location=str(path), hint="name a file")
    if mode and not stat.S_ISREG(mode):
        fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        return path
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise CannotRun(
            f"there is no directory {real.parent}", location=name, hint="make it first, or name another file"
        )
    write_atomic(real, data, mode=stat.S_IMODE(mode) or 0o644)
    return path


@contextmanager
def written_aside(path: Path, *, mode: int = PRIVATE_FILE, durable: bool = True) -> Iterator[int]:
    """A descriptor to write `path`'s new content to; renamed into place when the block ends well, removed when not.

    What a dead process had written aside for the same name is removed first.
    """
    make_dirs(path.parent)
    with entry(path) as (name, at):
        _sweep(name, at)
        aside = f".{name[:80]}.{owners.this_owner().mark}-{os.urandom(6).hex()}.tmp"
        fd = os.open(aside, NEW, mode, dir_fd=at)
        try:
            try:
                yield fd
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(aside, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            _unlinked(aside, at)
            raise
    if durable:
        sync_dir(path.parent)


def _sweep(name: str, at: int) -> None:
    lead, fd = f".{name[:80]}.", os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        for other in os.listdir(fd):  # noqa: PTH208
            if other.startswith(lead) and other.endswith(".tmp") and owners.is_abandoned(other):
                _unlinked(other, at)
    finally:
        os.close(fd)


def _unlinked(name: str, at: int) -> bool:
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return False
    return True


def walk(top: AnyStr) -> Iterator[tuple[AnyStr, list[AnyStr]]]:
    """Each directory below `top`, itself first, with the names of what in it is no directory (links are none).

    However deep they are: os.walk and Path.rglob recurse before Python 3.12 and 3.13. What cannot be read is passed
    over.
    """
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue  # gate-ok: it is gone, or may not be read
        yield folder, [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
        pending += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def sweep_asides(top: Path, root: Path | None = None) -> int:
    """Remove, below `top`, the half-written files of processes that are proven dead; returns how many.

    `root`: the store that these processes worked on.
    """
    count = 0
    for folder, names in walk(os.fspath(top)):
        for name in names:
            if name.startswith(".") and name.endswith(".tmp") and owners.is_abandoned(name, root):
                count += remove(Path(folder) / name)
    return count


def remove(path: Path) -> bool:
    """Remove a file. False where it was not there."""
    try:
        with entry(path) as (name, at):
            return _unlinked(name, at)
    except FileNotFoundError:
        return False


def make_room(path: Path) -> None:
    """Take away what stands where a file of ours is to be written, unless that is a file: a unit's earlier try may
    have left a pipe, a link or a directory there. Raises OSError, for a directory that is not empty too."""
    if not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode):
        return
    if path.is_dir() and not path.is_symlink():
        with entry(path) as (name, at):
            os.rmdir(name, dir_fd=at)
    else:
        remove(path)


def read(path: Path, limit: int = DOCUMENT_LIMIT) -> bytes:
    """Read a regular file whole, never through a link at its end. Raises FileNotFoundError, BrokenContract, OSError."""
    with open(open_regular(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > limit:
            raise BrokenContract(
                f"{size} bytes are more than a document may have",
                location=str(path),
                hint="the file may be foreign: no document of ours grows so far",
            )
        return stream.read()


def reading(path: Path) -> BinaryIO:
    """A regular file, open to be read; a link is followed. Raises as `open_regular` does."""
    return open(open_regular(path, follow=True), "rb")


def open_regular(path: Path | bytes, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor of a regular file: whoever opens a pipe waits for its other end, and a device may have no end.

    `flags`: how (with O_CREAT, private); `follow`: through a link at its end too. Raises BrokenContract for anything
    that is no regular file, OSError as the system gives it.
    """
    more = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    where = os.fsdecode(path)
    try:
        if isinstance(path, StorePath) and not follow:
            with entry(path) as (name, at):
                fd = os.open(name, flags | more, PRIVATE_FILE, dir_fd=at)
        else:
            fd = os.open(path, flags | more, PRIVATE_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BrokenContract(
                "a symbolic link stands where a file is expected",
                location=where,
                hint="put the file itself there: a link could lead anywhere",
            ) from error
        if error.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise BrokenContract("it is not a regular file", location=where, hint="move it away") from error
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), where)
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise BrokenContract("it is not a regular file", location=where, hint="move it away, or name a file")
    return fd


def copy_with_times(source: Path, target: Path) -> None:
    """A regular file's bytes and times in a new private file. Raises as `reading` and `write_new` do."""
    with reading(source) as stream:
        times = os.fstat(stream.fileno())
        write_new(target, stream.read())
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


class Part(NamedTuple):
    """A part of a file. `total` is the whole file's size, bytes."""

    content: bytes
    total: int


def read_part(path: Path, limit: int, *, from_end: bool = False) -> Part:
    """At most `limit` bytes of a regular file, from its beginning or its end. Raises BrokenContract, OSError."""
    with open(open_regular(path), "rb") as stream:
        total = os.fstat(stream.fileno()).st_size
        if from_end:
            stream.seek(max(0, total - limit))
        return Part(stream.read(limit), total)


def temp_dir(parent: Path, prefix: str) -> Path:
    """A new private directory under `parent`."""
    make_dirs(parent)
    path = parent / f"{prefix}{os.urandom(6).hex()}"
    with entry(path) as (name, at):
        os.mkdir(name, PRIVATE_DIR, dir_fd=at)
    return path


class CacheFile:
    """The file, open. `tables` makes its tables, `probes` ask for every column; `version` is that of both.

    `wait`: seconds for another process that writes.
    """

    def __init__(self, path: Path, version: int, tables: str, *probes: str, wait: float = LIMITS.cache_wait) -> None:
        import sqlite3  # late: most who write files have no database

        self.path, self._wait = path, wait
        self.lost = ""
        self._db: sqlite3.Connection | None = None
        try:
            self._db = self._opened(version, tables, probes)
        except (sqlite3.Error, OSError, CannotRun) as error:
            self.lost = f"facts are not kept: {error}"

    def _opened(self, version: int, tables: str, probes: tuple[str, ...]) -> sqlite3.Connection:
        import sqlite3

        make_dirs(self.path.parent)
        try:
            return self._checked(version, tables, probes)
        except sqlite3.Error as error:
            if not is_damaged(error):
                raise
            remove(self.path)
            return self._checked(version, tables, probes)

    def _checked(self, version: int, tables: str, probes: tuple[str, ...]) -> sqlite3.Connection:
        import sqlite3

        made = sqlite3.connect(self.path, timeout=self._wait, isolation_level=None)
        try:
            made.execute("PRAGMA synchronous = OFF")
            if made.execute("PRAGMA user_version").fetchone()[0] != version:
                made.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = {version}; COMMIT")
            for probe in probes:
                made.execute(probe).fetchone()
        except sqlite3.Error:
            made.close()
            raise
        return made

    def _lose(self, error: sqlite3.Error) -> None:
        """No more of this file in this process; one that is damaged goes, so that the next one makes it again."""
        self.lost = f"facts are not kept: {error}"
        self.close()
        if is_damaged(error):
            remove(self.path)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether a file is to blame, and not a lock, a full disk or a directory that cannot be written."""
    import sqlite3

    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)
