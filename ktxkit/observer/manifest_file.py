"""A span of bytes that is read piece by piece: in memory, or in a file that is only ever replaced as a whole.

Walking over a stored manifest in step with a directory walk: one window of it at a time, however large it is.

A manifest on the disk, with the stat keys that save reading. Disposable: where it is damaged, a scan reads all.

    magic, policy digest, manifest digest, counts | packed entries | keys | BLAKE3 of all that

Packed entries and keys lie in two spans, so that what did not change is copied and hashed in whole pieces; a stored
manifest stays on the disk and is read piece by piece.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from ktxkit.base import files
from ktxkit.base.rules.manifest import KEY, PACKED, PATH_LIMIT, ManifestEntry, digest, entries, unpack

PIECE = 1 << 20  # bytes


class _Open:
    """A descriptor that lives as long as somebody reads by it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class ByteSpan:
    """Bytes. Of a file it keeps the descriptor: what is renamed into its place later is another file."""

    def __init__(self, data: bytes = b"", file: _Open | None = None, begin: int = 0, end: int = 0) -> None:
        self._data, self._file, self._begin = data, file, begin
        self._size = end - begin if file is not None else len(data)

    @classmethod
    def of_file(cls, path: Path) -> ByteSpan:
        """The whole of a regular file, never through a link. Raises OSError."""
        file = _Open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
        return cls(file=file, end=os.fstat(file.fd).st_size)

    def __len__(self) -> int:
        return self._size

    def read(self, begin: int, count: int) -> bytes:
        """At most `count` bytes from a place; less only at the end. Raises OSError where the file was cut meanwhile."""
        count = min(count, self._size - begin)
        if self._file is None:
            return self._data[begin : begin + count]
        found = b""
        while len(found) < count:
            more = os.pread(self._file.fd, count - len(found), self._begin + begin + len(found))
            if not more:
                raise OSError(errno.EIO, "a file of the observer was cut while it was read")
            found += more
        return found

    def pieces(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes between two places, in order."""
        end = self._size if end is None else end
        while begin < end:
            piece = self.read(begin, min(PIECE, end - begin))
            yield piece
            begin += len(piece)

    def part(self, begin: int, end: int) -> ByteSpan:
        """A span of this one."""
        if self._file is None:
            return ByteSpan(self._data[begin:end])
        return ByteSpan(file=self._file, begin=self._begin + begin, end=self._begin + end)


WINDOW = 1 << 20  # bytes of packed entries
INODE = 16  # bytes of a key that are device and inode
MARGIN = PACKED.size + PATH_LIMIT  # the longest entry: one that begins in the window lies whole in what was read


class Cursor:
    """Stands at a stored entry: `path` (None behind the last one), `index` its number, `begin` its place.

    `_at` and `_next` are places in the window, `_row` is the entry's row in the window of rows. `size`: bytes of packed
    entries in a window.
    """

    __slots__ = ("_at", "_base", "_next", "_row", "_rows", "_run", "_size", "_stored", "_turn", "_window", "edits",
                 "index", "path")  # fmt: skip

    def __init__(self, stored: Stored, size: int = WINDOW) -> None:
        self._stored = stored
        self._size = size
        self.index = 0
        self.edits: list[Edit] = []
        self._run: Edit | None = None  # the last insertion
        self.path: bytes | None = None
        self._load(0)

    def _load(self, base: int) -> None:
        """Read the window that begins at a place, which is the current entry's."""
        self._base = base
        self._window = window = self._stored.packed.read(base, self._size + MARGIN)
        rows = (len(window) // PACKED.size + 1) * ROW.size
        self._rows = self._stored.rows.read(self.index * ROW.size, rows)
        more = base + len(window) < len(self._stored.packed)
        self._turn = self._size if more else len(window)  # from here on the next window is needed, or nothing follows
        self._row = 0
        self._stand(0)

    def _stand(self, at: int) -> None:
        self._at = at
        window = self._window
        if at >= len(window):
            self.path, self._next = None, at
            return
        start = at + PACKED.size
        self._next = start + (window[at] | window[at + 1] << 8)
        self.path = window[start : self._next]

    @property
    def begin(self) -> int:
        return self._base + self._at

    @property
    def row(self) -> bytes:
        """Key, flags and class of the entry."""
        return self._rows[self._row : self._row + ROW.size]

    @property
    def packed(self) -> bytes:
        """The entry, packed."""
        return self._window[self._at : self._next]

    def vouches(self, path: bytes, key: bytes) -> bool:
        """Whether the entry at the cursor is this path, unchanged by its key; then the cursor is behind it.

        `key` is a stat key with its flags (none): a stored flag never equals it. This runs once for each entry of a
        tree: it is one call, and does what `step` does.
        """
        if self.path != path:
            return False
        row = self._row
        if self._rows[row : row + CLASS_AT] != key:
            return False
        at = self._next
        if at >= self._turn:
            self.step()
            return True
        self.index += 1
        self._row, self._at = row + ROW.size, at
        window = self._window
        start = at + PACKED.size
        self._next = end = start + (window[at] | window[at + 1] << 8)
        self.path = window[start:end]
        return True

    def step(self) -> None:
        """To the next entry."""
        at = self._next
        self.index += 1
        self._row += ROW.size
        if at >= self._turn and self._base + at < len(self._stored.packed):
            self._load(self._base + at)
        else:
            self._stand(at)

    def _edit(self, packed: bytes, row: bytes, *, replaced: bool = False) -> None:
        end = self._base + self._next
        self.edits.append(Edit(self.index, self.begin, end, packed, row, replaced))
        self.step()

    def delete_before(self, path: bytes) -> None:
        """What was stored before this path and was not met is gone."""
        while self.path is not None and self.path < path:
            self._edit(b"", b"")

    def delete_below(self, prefix: bytes) -> None:
        """What was stored under a directory (with its slash; `b""` is everything) and was not met is gone."""
        while self.path is not None and self.path.startswith(prefix):
            self._edit(b"", b"")

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

    def put(self, path: bytes, packed: bytes, row: bytes) -> None:
        """What stands at the cursor's path, or before it where the path is new: an entry, packed, with its row."""
        if self.path == path:
            if self.packed == packed and self.row == row:
                self.step()
            else:
                self._edit(packed, row, replaced=self.row[:INODE] != row[:INODE])
            return
        run = self._run
        if run is None or run.row_number != self.index:  # it grows as long as nothing that is stored lies between
            run = self._run = Edit(self.index, self.begin, self.begin, bytearray(), bytearray())
            self.edits.append(run)
        run.packed += packed
        run.rows += row


MAGIC = b"KTXMAN1\n"
HEADER = struct.Struct("<8s67s67sQQ")  # magic, policy digest, manifest digest, bytes of entries, bytes of keys
ROW = struct.Struct(f"{KEY.format}BB")  # key, flags, number of the class
FLAGS_AT, CLASS_AT = KEY.size, KEY.size + 1
TRAILER = 32


@dataclass(slots=True)
class Edit:
    """A stored entry's place, and what stands there now, packed (nothing: it is gone).

    An insertion has `end == begin`, and any number of entries with their rows: what is new lies together.
    """

    row_number: int
    begin: int
    end: int
    packed: bytes | bytearray
    rows: bytes | bytearray
    replaced: bool = False

    @property
    def inserts(self) -> bool:
        return self.end == self.begin


@dataclass(frozen=True)
class Stored:
    """Entries and keys in path order, with the digest of the manifest they are."""

    policy_digest: str
    digest: str
    packed: ByteSpan = field(default_factory=ByteSpan)
    rows: ByteSpan = field(default_factory=ByteSpan)

    @classmethod
    def empty(cls, policy_digest: str) -> Stored:
        return cls(policy_digest, digest((), policy_digest))

    def __len__(self) -> int:
        return len(self.rows) // ROW.size

    def entries(self) -> Iterator[ManifestEntry]:
        """Every entry; the whole is read into memory for it."""
        return entries(self.packed.read(0, len(self.packed)))

    def paths(self) -> Iterator[bytes]:
        """Every path, in order; read piece by piece."""
        data, at = b"", 0
        for piece in self.packed.pieces():
            data, at = data[at:] + piece, 0
            while at + PACKED.size <= len(data):
                begin = at + PACKED.size
                end = begin + (data[at] | data[at + 1] << 8)
                if end > len(data):
                    break
                yield data[begin:end]
                at = end

    def entry_at(self, begin: int) -> ManifestEntry:
        return unpack(self.packed.read(begin, PACKED.size + PATH_LIMIT))[0]

    def row_at(self, number: int) -> bytes:
        """Key, flags and class of an entry."""
        return self.rows.read(number * ROW.size, ROW.size)

    def edited(self, edits: Sequence[Edit]) -> Stored:
        """The manifest with its edits, which are in path order; keys alone change no digest."""
        if not edits:
            return self
        packed = ByteSpan(b"".join(self._packed_pieces(edits)))
        rows = ByteSpan(b"".join(self._row_pieces(edits)))
        return Stored(self.policy_digest, digest(packed.pieces(), self.policy_digest), packed, rows)

    def _packed_pieces(self, edits: Sequence[Edit]) -> Iterator[bytes | bytearray]:
        at = 0
        for edit in edits:
            yield from self.packed.pieces(at, edit.begin)
            yield edit.packed
            at = edit.end
        yield from self.packed.pieces(at)

    def _row_pieces(self, edits: Sequence[Edit]) -> Iterator[bytes | bytearray]:
        at = 0
        for edit in edits:
            yield from self.rows.pieces(at * ROW.size, edit.row_number * ROW.size)
            yield edit.rows
            at = edit.row_number + (not edit.inserts)
        yield from self.rows.pieces(at * ROW.size)

    def save(self, path: Path) -> None:
        """Replace the file as a whole. Not flushed: it is disposable and checks itself."""
        digests = self.policy_digest.encode("ascii"), self.digest.encode("ascii")
        head = HEADER.pack(MAGIC, *digests, len(self.packed), len(self.rows))
        hasher = blake3()
        with files.written_aside(path, durable=False) as fd:
            for part in ([head], self.packed.pieces(), self.rows.pieces()):
                for piece in part:
                    hasher.update(piece)
                    files.write_all(fd, piece)
            files.write_all(fd, hasher.digest())


def load(path: Path, policy_digest: str) -> Stored | None:
    """The stored manifest, or None where there is none to be trusted: absent, damaged, or of another policy."""
    try:
        whole = ByteSpan.of_file(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    head = whole.read(0, HEADER.size)
    if len(head) < HEADER.size:
        return None
    magic, policy, digest_, packed, rows = HEADER.unpack(head)
    body = HEADER.size + packed + rows
    if magic != MAGIC or policy.decode("ascii", "replace") != policy_digest or len(whole) != body + TRAILER:
        return None
    hasher = blake3()
    for piece in whole.pieces(0, body):
        hasher.update(piece)
    if hasher.digest() != whole.read(body, TRAILER):
        return None
    split = HEADER.size + packed
    return Stored(policy_digest, digest_.decode("ascii"), whole.part(HEADER.size, split), whole.part(split, body))
