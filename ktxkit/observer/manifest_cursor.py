"""Walking over a stored manifest in step with a directory walk: one window of it at a time, however large it is."""

from __future__ import annotations

from ktxkit.base.rules.manifest import PACKED, PATH_LIMIT
from ktxkit.observer.manifest_file import CLASS_AT, ROW, Edit, Stored

WINDOW = 1 << 20  # bytes of packed entries
INODE = 16  # bytes of a key that are device and inode
MARGIN = PACKED.size + PATH_LIMIT  # the longest entry: one that begins in the window lies whole in what was read


class Cursor:
    """Stands at a stored entry: `path` (None behind the last one), `index` its number, `begin` its place.

    `_at` and `_next` are places in the window, `_row` is the entry's row in the window of rows.
    """

    __slots__ = ("_at", "_base", "_next", "_row", "_rows", "_run", "_stored", "_turn", "_window", "edits", "index",
                 "path")  # fmt: skip

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self.index = 0
        self.edits: list[Edit] = []
        self._run: Edit | None = None  # the last insertion
        self.path: bytes | None = None
        self._load(0)

    def _load(self, base: int) -> None:
        """Read the window that begins at a place, which is the current entry's."""
        self._base = base
        self._window = window = self._stored.packed.read(base, WINDOW + MARGIN)
        rows = (len(window) // PACKED.size + 1) * ROW.size
        self._rows = self._stored.rows.read(self.index * ROW.size, rows)
        more = base + len(window) < len(self._stored.packed)
        self._turn = WINDOW if more else len(window)  # from here on the next window is needed, or nothing follows
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
