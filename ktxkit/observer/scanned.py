"""What a scan is of, how much it reads, and what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from ktxkit.base.rules.manifest import ManifestChange
from ktxkit.observer.manifest_file import WINDOW, Stored
from ktxkit.observer.rules.projection import Tracked
from ktxkit.store.rules.paths_policy import CandidatePathPolicy

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
