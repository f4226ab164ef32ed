"""Bodies kept by their content: `ledger/artifacts/<aa>/<digest>`. Equal bodies are one file.

The event file of one test run: framed records, one O_APPEND descriptor, one write for each record.

A `kill -9` can tear even a 200-byte write, and the torn head would swallow the next record; so each record is newline,
JSON, newline, and readers pass over blank lines (150 kills of four writers: 22 acknowledged records lost without the
frame, none with it). The writer lives in foreign processes (test suites that fork, patch `os`, close descriptors they
do not own, fill disks): it holds its own references to the system calls, looks at whom its descriptor belongs to before
each write, and when it cannot write it counts and goes quiet. It never raises.

Whose a descriptor is, is told by a mark: F_SETOWN names this process as the owner of our open file, which nothing else
opened under its number has (it only says who is sent SIGIO, and none is sent without O_ASYNC). fstat told the same at
three times the price, for between two writes it makes the file system write the file's times each time (multigrain
timestamps, Linux 6.13: 2.95 against 1.4 microseconds for check and write). Whether the file still has its name is
looked at every LOOK records and before the last word.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from fcntl import F_GETOWN, F_SETOWN, fcntl
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.digests import digest
from ktxkit.ledger.rules.fold import Fold, TestAttempt

if TYPE_CHECKING:
    from ktxkit.base.documents import RunEvent

VOLUME = 256 * 1024 * 1024  # bytes that one run may add; what is beyond is counted, not kept


class Artifacts:
    """Reads and adds bodies under one directory. Nothing is ever changed or removed."""

    def __init__(self, root: Path, volume: int = VOLUME) -> None:
        self.root = root
        self.left = volume
        self.refused = 0
        self._known: set[str] = set()

    def path(self, name: str) -> Path:
        plain = name.removeprefix("b3:")
        return self.root / plain[:2] / plain

    def keep(self, data: bytes) -> str:
        """Keep a body; returns its digest. A body beyond the volume has a digest but no file, and is counted."""
        name = digest(data)
        if name in self._known:
            return name
        self._known.add(name)
        path = self.path(name)
        if not os.path.lexists(path):
            if len(data) > self.left:
                self.refused += 1
                return name
            self.left -= len(data)
            files.write_atomic(path, data, durable=False)
        return name

    def has(self, name: str) -> bool:
        """Whether the body of a digest is kept, and is what its name says."""
        try:
            self.load(name)
        except (BrokenContract, OSError):
            return False
        return True

    def load(self, name: str) -> bytes:
        """The body of a digest. Raises BrokenContract where it is missing or is not what its name says."""
        path = self.path(name)
        try:
            data = files.read(path)
        except FileNotFoundError as error:
            raise BrokenContract(
                "an artifact that a record names is missing",
                location=str(path),
                hint="it was removed: what the record says of it cannot be shown any more",
            ) from error
        if digest(data) != name:
            raise BrokenContract(
                "an artifact is not what its name says",
                location=str(path),
                hint="it was changed after it was kept: the run cannot be judged by it any more",
            )
        return data


# Taken before a suite replaces them.
encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_decode = json.JSONDecoder().decode

LOOK = 64  # records between two looks at the file itself
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class EventWriter:
    """Appends records to a file. Any thread may write; one at a time does, the others hand over."""

    def __init__(self, path: Path, *, join: bool = False) -> None:
        """A new file, or with `join` one that others write too. Raises OSError where it exists, or does not."""
        # Suites replace functions of `os` and scan modules for references to them: ours hang on the instance.
        self._write, self._fstat, self._getpid, self._open = os.write, os.fstat, os.getpid, os.open
        self._truncate, self._close, self._sync, self._fcntl = os.ftruncate, os.close, os.fdatasync, fcntl
        self.path = path
        self._alone = not join
        self.fd = self._open(path, FLAGS if join else FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        info = self._fstat(self.fd)
        self._file = (info.st_dev, info.st_ino)
        self.owner_pid = self._getpid()
        self._unlooked = 0  # records since the file was last looked at
        self._mark()
        self._lock = threading.Lock()
        self._handed: deque[bytes] = deque()
        self.size = 0
        self.dropped = 0
        self.forks = 0
        self.fault = ""
        self._quiet = False
        _writers.add(self)

    def put(self, record: str) -> None:
        """Append one record: a JSON text in ASCII without a newline."""
        data = f"\n{record}\n".encode("ascii")
        lock = self._lock
        if self._handed or not lock.acquire(False):
            self._handed.append(data)  # another thread is at it, or has left something
        else:
            try:
                self._one(data)
            finally:
                lock.release()
        if self._handed:
            self._drain()

    def _drain(self) -> None:
        while self._handed and self._lock.acquire(False):
            try:
                while self._handed:
                    self._one(self._handed.popleft())
            finally:
                self._lock.release()

    def _mark(self) -> None:
        """Our mark on the descriptor. Where the system has none for files, the file is looked at each time."""
        try:
            self._fcntl(self.fd, F_SETOWN, self.owner_pid)
            marked = self._fcntl(self.fd, F_GETOWN) == self.owner_pid
        except OSError:
            marked = False
        self._often = LOOK if marked else 0

    def _one(self, data: bytes) -> None:
        if self._quiet or (pid := self._getpid()) != self.owner_pid:
            self.dropped += 1
            return
        try:
            if self._unlooked >= self._often or self._fcntl(self.fd, F_GETOWN) != pid:
                self._check_owner()
            count = self._write(self.fd, data)
        except OSError as error:
            self._failed(data, error)
            return
        if count != len(data):
            self._cut_back(OSError(28, "No space left on device"))
        else:
            self.size += count
            self._unlooked += 1

    def _failed(self, data: bytes, error: OSError) -> None:
        """The descriptor may have been closed under us: once more, on the file itself."""
        if error.errno != errno.EBADF:
            self._cut_back(error)
            return
        try:
            self._check_owner()
            count = self._write(self.fd, data)
        except OSError as second:
            self._cut_back(second)
            return
        if count != len(data):
            self._cut_back(OSError(28, "No space left on device"))
        else:
            self.size += count
            self._unlooked += 1

    def _check_owner(self) -> None:
        """A suite that closed our descriptor may have another file under its number by now."""
        try:
            info = self._fstat(self.fd)
        except OSError:
            info = None
        if info is None or (info.st_dev, info.st_ino) != self._file:
            self.fd = self._open(self.path, FLAGS)
            info = self._fstat(self.fd)
            if (info.st_dev, info.st_ino) != self._file:
                self._close(self.fd)
                raise OSError(2, "the event file was replaced")
            self._mark()
        if info.st_nlink == 0:
            self.dropped, self._unlooked = self.dropped + self._unlooked, 0  # written since, and gone with it
            raise OSError(2, "the event file was removed")
        self._unlooked = 0

    def _cut_back(self, error: OSError) -> None:
        """Nothing of a record stays (beside other writers its frame holds it apart); the next are only counted."""
        self.dropped += 1
        self.fault = self.fault or (error.strerror or str(error))
        self._quiet = True
        try:
            if self._alone and self._fstat(self.fd).st_ino == self._file[1]:
                self._truncate(self.fd, self.size)
        except OSError as second:
            self.fault += f"; {second.strerror}"

    def last_word(self, record: str) -> None:
        """Append a record even after a fault: space may be free again, and the reader must learn what is missing."""
        self._quiet = self._quiet and self._getpid() != self.owner_pid
        self._often = 0  # what is told last is told of a file that is there
        self.put(record)

    def seal(self, make: Callable[[bytes], str]) -> str:
        """Append, as `last_word` does, the record that `make` gives for all bytes before it; returns it.

        Raises OSError where they cannot be read: the file is gone.
        """
        with self._lock:
            record = make(self.path.read_bytes() + b"\n" if self._getpid() == self.owner_pid else b"")
            self._quiet = self._quiet and self._getpid() != self.owner_pid
            self._often = 0
            self._one(f"\n{record}\n".encode("ascii"))
        self._drain()
        return record

    def flush(self) -> None:
        """What was written is on the disk."""
        try:
            if not self._quiet and self._getpid() == self.owner_pid:
                self._sync(self.fd)
        except OSError as error:
            self.fault = self.fault or f"flush: {error.strerror}"

    def close(self) -> None:
        if self.fd >= 0 and self._getpid() == self.owner_pid:
            try:
                if self._fstat(self.fd).st_ino == self._file[1]:
                    self._close(self.fd)
            except OSError as error:
                self.fault = self.fault or f"close: {error.strerror}"
        self.fd = -1
        self._quiet = True

    def forget(self) -> None:
        """In a forked child: the file is the parent's. The lock may have been held by a thread that is not here."""
        self._lock = threading.Lock()
        self._handed.clear()
        self._quiet = True
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._close(fd)


_writers: weakref.WeakSet[EventWriter] = weakref.WeakSet()


def _in_child() -> None:
    for writer in list(_writers):
        writer.forget()


def _in_parent() -> None:
    for writer in list(_writers):
        writer.forks += 1


os.register_at_fork(after_in_child=_in_child, after_in_parent=_in_parent)


def read(path: Path, limit: int | None = None) -> Iterator[tuple[int, Any]]:
    """Each record with its line number; a line that is no JSON object is given as None (torn), blank lines are not.

    Only whole lines of the first `limit` bytes are read: a prefix of a growing file is always well-formed.
    """
    with files.reading(path) as stream:
        used = 0
        for number, line in enumerate(stream, start=1):
            used += len(line)
            if limit is not None and used > limit:
                return
            if len(line) > 1:
                yield number, record(line)


def record(line: bytes) -> RunEvent | None:
    """The record of a line, to be judged; or None where it is torn."""
    try:
        found = _decode(line.decode("utf-8"))
    except ValueError:
        return None
    return cast("RunEvent", found) if isinstance(found, dict) else None


# -- event files in bulk: the lines of a test that passed are read by their bytes, every other line as JSON
#
# Nine records in ten are those two lines, in exactly the form in which `ktxkit.ledger.recording.attempts` writes them;
# whatever differs from it in a byte is parsed and judged as before. So the fold is the same (a test holds both against
# each other) at a quarter of the time.

_ID = rb'"test":"([^"\\\x00-\x1f\x7f-\xff]{0,60000})",'
_T = rb"([0-9]{1,9}\.[0-9]{6})"
_STARTED = rb'\{"event":"test_started",%b"t":%b\}'
_PASSED = rb'\{"event":"test_result",%b"t":%b,"outcome":"passed","setup":%b,"call":%b,"teardown":%b'
LINE = re.compile(
    rb"\n*(?:"
    + (_STARTED % (_ID, _T) + rb"\n\n" + _PASSED % (rb'"test":"\1",', _T, _T, _T, _T) + rb"\}(?:\n|\Z)")  # groups 1-6
    + (rb"|" + _STARTED % (_ID, _T) + rb"(?:\n|\Z)")  # 7-8
    + (rb"|" + _PASSED % (_ID, _T, _T, _T, _T) + rb'(?:,"worker":"([a-z0-9]{1,50})")?\}()(?:\n|\Z)')  # 9-15
    + rb"|([^\n]+)(?:\n|\Z))"  # 16
)
PAIR, STARTED, PASSED = 6, 8, 15

Other = Callable[[bytes, int], "RunEvent | None"]


def feed(fold: Fold, data: bytes, other: Other, *, aside: bool = False) -> Fold:
    """Feed all lines of `data`. `other(line, place)` gives a line's event, or None for a torn one.

    With `aside`, a first attempt that passed, its two lines one after the other, goes to `fold.plain`.
    """
    plain, latest, pairs = fold.plain, 0.0, 0
    named = {test.encode("utf-8", "surrogatepass") for test, _ in fold.last}  # tests that are not put aside
    for found in LINE.finditer(data):
        kind = found.lastindex
        if kind == PAIR:
            text, began, ended, setup, call, teardown = found.group(1, 2, 3, 4, 5, 6)
            if not aside or text in named:
                _started(fold, text.decode("ascii"), float(began))
                _passed(fold, text.decode("ascii"), ended, setup, call, teardown)
                continue
            plain[text] = setup, call, teardown
            pairs += 2
            t, before = float(ended), float(began)
            if t > latest:
                latest = t
            if before > latest:
                latest = before
        elif kind == STARTED:
            named.add(found[7])
            _started(fold, found[7].decode("ascii"), float(found[8]))
        elif kind == PASSED:
            named.add(found[9])
            one = _passed(fold, found[9].decode("ascii"), *found.group(10, 11, 12, 13))
            one.worker = (found[14] or b"").decode("ascii")
        elif kind is not None:
            event = other(found[16], found.start(16))
            fold.add(event)
            said: Mapping[str, Any] = event or {}
            if "test" in said:
                named.add(said["test"].encode("utf-8", "surrogatepass"))
    fold.events += pairs
    fold.t = max(fold.t, latest)
    return fold


def _started(fold: Fold, test: str, t: float) -> None:
    key = (test, 1, 1)
    fold.attempts[key] = fold.running[key] = fold.last[(test, 1)] = TestAttempt(test, 1, 1, t)
    fold.events += 1
    fold.t = max(fold.t, t)


def _passed(fold: Fold, test: str, t: bytes, setup: bytes, call: bytes, teardown: bytes) -> TestAttempt:
    key = (test, 1, 1)
    one = fold.running.pop(key, None)
    if one is None:
        one = fold.attempts[key] = fold.last[(test, 1)] = TestAttempt(test, 1, 1)
    one.t, one.outcome = float(t), "passed"
    one.setup, one.call, one.teardown = float(setup), float(call), float(teardown)
    fold.events += 1
    fold.t = max(fold.t, one.t)
    return one
