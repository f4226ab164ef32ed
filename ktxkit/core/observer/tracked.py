"""The attempt's tracked set: sorted paths, as they were when the observer attached. `git add` does not change it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

from ktxkit.core.digests import digest


class Tracked:
    """Paths, each ended by NUL, in byte order. Nothing is unpacked before somebody asks."""

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed

    @classmethod
    def of(cls, paths: Iterable[bytes]) -> Tracked:
        return cls(b"".join(path + b"\0" for path in sorted(set(paths))))

    @cached_property
    def _paths(self) -> list[bytes]:
        return self.packed.split(b"\0")[:-1]

    @cached_property
    def digest(self) -> str:
        return digest(self.packed)

    def __contains__(self, path: bytes) -> bool:
        at = bisect_left(self._paths, path)
        return at < len(self._paths) and self._paths[at] == path

    def any_below(self, directory: bytes) -> bool:
        """Whether a tracked path lies below a directory (named without its slash)."""
        prefix = directory + b"/"
        at = bisect_left(self._paths, prefix)
        return at < len(self._paths) and self._paths[at].startswith(prefix)

    def __len__(self) -> int:
        return self.packed.count(b"\0")
