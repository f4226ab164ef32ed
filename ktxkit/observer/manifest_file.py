"""A manifest on the disk, with the stat keys that save reading. Disposable: where it is damaged, a scan reads all.

    magic, policy digest, manifest digest, counts | packed entries | keys | BLAKE3 of all that

Packed entries and keys lie in two spans, so that what did not change is copied and hashed in whole pieces; a stored
manifest stays on the disk and is read piece by piece.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from ktxkit.base import files
from ktxkit.base.rules.manifest import PACKED, PATH_LIMIT, Entry, digest, entries, unpack
from ktxkit.base.rules.stat_key import KEY
from ktxkit.base.spans import Span

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
    packed: Span = field(default_factory=Span)
    rows: Span = field(default_factory=Span)

    @classmethod
    def empty(cls, policy_digest: str) -> Stored:
        return cls(policy_digest, digest((), policy_digest))

    def __len__(self) -> int:
        return len(self.rows) // ROW.size

    def entries(self) -> Iterator[Entry]:
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

    def entry_at(self, begin: int) -> Entry:
        return unpack(self.packed.read(begin, PACKED.size + PATH_LIMIT))[0]

    def row_at(self, number: int) -> bytes:
        """Key, flags and class of an entry."""
        return self.rows.read(number * ROW.size, ROW.size)

    def edited(self, edits: Sequence[Edit]) -> Stored:
        """The manifest with its edits, which are in path order; keys alone change no digest."""
        if not edits:
            return self
        packed = Span(b"".join(self._packed_pieces(edits)))
        rows = Span(b"".join(self._row_pieces(edits)))
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
        whole = Span.of_file(path)
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
