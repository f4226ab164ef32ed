"""A manifest on the disk, with the stat keys that save reading. Disposable: where it is damaged, a scan reads all.

    magic, policy digest, manifest digest, counts | packed entries | keys | BLAKE3 of all that

Packed entries and keys lie in two runs, so that what did not change is copied and hashed in whole spans.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from ktxkit.core.observer.manifest import PACKED, Entry, digest, entries, unpack
from ktxkit.core.observer.stat_key import KEY
from ktxkit.effects import files

MAGIC = b"KTXMAN1\n"
HEADER = struct.Struct("<8s67s67sQQ")  # magic, policy digest, manifest digest, bytes of entries, bytes of keys
ROW = struct.Struct(f"{KEY.format}BB")  # key, flags, number of the class
FLAGS_AT, CLASS_AT = KEY.size, KEY.size + 1
TRAILER = 32


class Edit(NamedTuple):
    """A stored entry's place, and what stands there now (None: nothing). An insertion has `end == begin`."""

    row_number: int
    begin: int
    end: int
    entry: Entry | None
    row: bytes
    replaced: bool = False

    @property
    def inserts(self) -> bool:
        return self.end == self.begin


@dataclass(frozen=True)
class Stored:
    """Entries and keys in path order, with the digest of the manifest they are."""

    policy_digest: str
    digest: str
    packed: bytes = b""
    rows: bytes = b""

    @classmethod
    def empty(cls, policy_digest: str) -> Stored:
        return cls(policy_digest, digest((), policy_digest))

    def __len__(self) -> int:
        return len(self.rows) // ROW.size

    def entries(self) -> Iterator[Entry]:
        return entries(self.packed)

    def entry_at(self, begin: int) -> Entry:
        return unpack(self.packed, begin)[0]

    def row_at(self, number: int) -> bytes:
        """Key, flags and class of an entry."""
        return self.rows[number * ROW.size : (number + 1) * ROW.size]

    def edited(self, edits: Sequence[Edit]) -> Stored:
        """The manifest with its edits, which are in path order; keys alone change no digest."""
        if not edits:
            return self
        packed = list(self._spans(edits))
        rows, at = [], 0
        for edit in edits:
            rows += [self.rows[at * ROW.size : edit.row_number * ROW.size], edit.row if edit.entry else b""]
            at = edit.row_number + (not edit.inserts)
        rows.append(self.rows[at * ROW.size :])
        new = b"".join(packed)
        changed = new != self.packed
        return Stored(
            self.policy_digest,
            digest((new,), self.policy_digest) if changed else self.digest,
            new,
            b"".join(rows),
        )

    def _spans(self, edits: Sequence[Edit]) -> Iterator[bytes]:
        at = 0
        for edit in edits:
            yield self.packed[at : edit.begin]
            if edit.entry is not None:
                yield edit.entry.packed()
            at = edit.end
        yield self.packed[at:]

    def save(self, path: Path) -> None:
        """Replace the file as a whole. Not flushed: it is disposable and checks itself."""
        head = HEADER.pack(
            MAGIC, self.policy_digest.encode("ascii"), self.digest.encode("ascii"), len(self.packed), len(self.rows)
        )
        hasher = blake3(head)
        hasher.update(self.packed)
        hasher.update(self.rows)
        with files.written_aside(path, durable=False) as fd:
            for part in (head, self.packed, self.rows, hasher.digest()):
                files.write_all(fd, part)


def load(path: Path, policy_digest: str) -> Stored | None:
    """The stored manifest, or None where there is none to be trusted: absent, damaged, or of another policy."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    with open(fd, "rb", buffering=0) as stream:
        return _load(stream, os.fstat(fd).st_size, policy_digest)


def _load(stream: io.FileIO, size: int, policy_digest: str) -> Stored | None:
    """Each part is read by itself: the whole and its parts never lie in memory together."""
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    magic, policy, digest_, packed_size, rows_size = HEADER.unpack(head)
    if magic != MAGIC or policy.decode("ascii", "replace") != policy_digest:
        return None
    if HEADER.size + packed_size + rows_size + TRAILER != size:
        return None
    packed, rows, trailer = (_exactly(stream, count) for count in (packed_size, rows_size, TRAILER))
    hasher = blake3(head)
    hasher.update(packed)
    hasher.update(rows)
    return Stored(policy_digest, digest_.decode("ascii"), packed, rows) if hasher.digest() == trailer else None


def _exactly(stream: io.FileIO, count: int) -> bytes:
    """One read gives at most 2 GiB; less than `count` only where the file was cut meanwhile."""
    first = stream.read(count)
    if len(first) == count:
        return first
    parts = [first]
    while (missing := count - sum(map(len, parts))) and (more := stream.read(missing)):
        parts.append(more)
    return b"".join(parts)


class Cursor:
    """Walks over stored entries in step with a directory walk. `path` is None behind the last one."""

    __slots__ = ("_packed", "begin", "edits", "end", "index", "path", "rows")

    def __init__(self, stored: Stored) -> None:
        self._packed, self.rows = stored.packed, stored.rows
        self.index, self.begin, self.end = -1, 0, 0
        self.path: bytes | None = None
        self.edits: list[Edit] = []
        self.step()

    def step(self) -> None:
        """To the next entry."""
        self.index += 1
        self.begin = begin = self.end
        if begin >= len(self._packed):
            self.path = None
            return
        length = self._packed[begin] | self._packed[begin + 1] << 8
        start = begin + PACKED.size
        self.end = start + length
        self.path = self._packed[start : self.end]

    def delete_before(self, path: bytes) -> None:
        """What was stored before this path and was not met is gone."""
        while self.path is not None and self.path < path:
            self.edits.append(Edit(self.index, self.begin, self.end, None, b""))
            self.step()

    def delete_below(self, prefix: bytes) -> None:
        """What was stored under a directory (with its slash; `b""` is everything) and was not met is gone."""
        while self.path is not None and self.path.startswith(prefix):
            self.edits.append(Edit(self.index, self.begin, self.end, None, b""))
            self.step()

    def keep(self, path: bytes) -> None:
        """What was stored at this path stays; what was before it is gone."""
        self.delete_before(path)
        if self.path == path:
            self.step()

    def keep_before(self, path: bytes) -> None:
        """What was stored before this path stays: nobody looked."""
        while self.path is not None and self.path < path:
            self.step()

    def keep_below(self, prefix: bytes) -> None:
        """What was stored under a directory (with its slash) stays."""
        while self.path is not None and self.path.startswith(prefix):
            self.step()

    def put(self, entry: Entry, row: bytes, *, replaced: bool = False) -> None:
        """What stands at the cursor's path, or before it where the path is new."""
        if self.path == entry.path:
            self.edits.append(Edit(self.index, self.begin, self.end, entry, row, replaced))
            self.step()
        else:
            self.edits.append(Edit(self.index, self.begin, self.begin, entry, row))
