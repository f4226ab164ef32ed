"""The attempt's tracked set: sorted paths, as they were when the observer attached. `git add` does not change it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ktxkit.base.rules.digests import digest


class Tracked:
    """Paths, each ended by NUL, in byte order. They are never unpacked: there may be hundreds of thousands."""

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed
        self._behind = 0  # the path that was found last: a walk in order asks for the next one

    @classmethod
    def of(cls, paths: Iterable[bytes]) -> Tracked:
        return cls(b"".join(path + b"\0" for path in sorted(set(paths))))

    @cached_property
    def digest(self) -> str:
        return digest(self.packed)

    def __contains__(self, path: bytes) -> bool:
        whole = path + b"\0"
        if self.packed.startswith(whole, self._behind):  # a path begins there: behind a NUL, or at 0
            self._behind += len(whole)
            return True
        at = self._place(path)
        if not self.packed.startswith(whole, at):
            return False
        self._behind = at + len(whole)
        return True

    def any_below(self, directory: bytes) -> bool:
        """Whether a tracked path lies below a directory (named without its slash)."""
        prefix = directory + b"/"
        return self._from(prefix).startswith(prefix)

    def _from(self, path: bytes) -> bytes:
        at = self._place(path)
        return self.packed[at : at + len(path) + 1]

    def _place(self, path: bytes) -> int:
        """The begin of the first path that is not before `path`: a binary search in the packed text itself."""
        packed = self.packed
        low, high = 0, len(packed)  # begins of paths; the answer is at `low` or behind it, before or at `high`
        while low < high:
            middle = packed.rfind(b"\0", low, (low + high) // 2) + 1 or low
            end = packed.index(b"\0", middle)
            if packed[middle:end] < path:
                low = end + 1
            else:
                high = middle
        return low

    def __len__(self) -> int:
        return self.packed.count(b"\0")
