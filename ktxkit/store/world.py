"""All that a command may touch, in one value: root, clock, store, git, environment. Lazy: `--help` pays nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ktxkit.base.clock import LIMITS, Limits
from ktxkit.base.errors import CannotRun

if TYPE_CHECKING:
    from ktxkit.base.clock import Clock
    from ktxkit.git.git import Git
    from ktxkit.git.neutral import Pool
    from ktxkit.git.objects import RunReader
    from ktxkit.git.repository import Repository
    from ktxkit.store.store import Store


class Closeable(Protocol):
    def close(self) -> None: ...


Shared = TypeVar("Shared", bound=Closeable)


class World:
    """What the command stands in. `cwd` is absolute; `env` is a copy of the environment."""

    def __init__(
        self,
        cwd: Path,
        env: Mapping[str, str],
        *,
        ktx_dir: str | None = None,
        clock: Clock | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.cwd = cwd
        self.env = dict(env)
        self._ktx_dir = ktx_dir if ktx_dir is not None else self.env.get("KTX_DIR") or None
        self._clock = clock
        self.limits = limits
        self._shared: dict[type, Closeable] = {}
        self.pool: Pool | None = None  # a long run's neutral directories (git/neutral.py)
        self.reader: RunReader | None = None  # a long run's reader of refs and objects (git/neutral.py)

    def shared(self, kind: type[Shared]) -> Shared:
        """What a command or job keeps as one object, wherever it stands: made at the first question, closed with it."""
        if kind not in self._shared:
            self._shared[kind] = kind()
        found = self._shared[kind]
        assert isinstance(found, kind)
        return found

    def close(self) -> None:
        """Close what is shared; a later question makes it anew."""
        while self._shared:
            self._shared.popitem()[1].close()

    @classmethod
    def here(cls, directory: str | None, ktx_dir: str | None, environ: Mapping[str, str]) -> World:
        """The world of a command line. Raises CannotRun where the directory does not exist."""
        start = Path(os.getcwd())  # noqa: PTH109 - Path.cwd() has no place for a message of ours
        cwd = start / directory if directory else start
        if not cwd.is_dir():
            raise CannotRun(f"no such directory: {directory}", hint="-C names an existing directory")
        place = str(start / ktx_dir) if ktx_dir else None
        return cls(Path(os.path.realpath(cwd)), environ, ktx_dir=place)

    def at(self, directory: Path) -> World:
        """The same world, standing elsewhere. An explicit store stays; a found one is found again."""
        there = World(directory, self.env, ktx_dir=self._ktx_dir, clock=self._clock, limits=self.limits)
        there._shared = self._shared
        there.pool, there.reader = self.pool, self.reader
        return there

    @cached_property
    def clock(self) -> Clock:
        from ktxkit.base.clock import SystemClock

        return self._clock or SystemClock()

    @property
    def git(self) -> Git:
        """The scrubbed runner, at `cwd`."""
        return self._git if self.reader is None else self._git.asking(self.reader)

    @cached_property
    def _git(self) -> Git:
        from ktxkit.git.git import Git

        return Git.scrub(self.cwd, self.env)

    @cached_property
    def inherited(self) -> Git:
        """The inheriting runner, only to read what is being committed."""
        from ktxkit.git.git import Git

        return Git.inherit(self.cwd, self.env)

    @cached_property
    def repository(self) -> Repository:
        """Raises CannotRun outside a repository, or where git is missing or too old."""
        from ktxkit.git.git import require_version
        from ktxkit.git.repository import discover, question

        with question(self.git) as asked:
            require_version(self.env)
            return discover(asked)

    @cached_property
    def store(self) -> Store:
        """The store as it is; it may not exist yet. `writable_store` makes it."""
        from ktxkit.store.store import Store

        if self._ktx_dir:
            return Store(Path(os.path.realpath(self._ktx_dir)))
        return Store(self.repository.default_store)

    @cached_property
    def writable_store(self) -> Store:
        """The store, made and ignored by git before anything is in it."""
        from ktxkit.store.store import prepare

        return prepare(self.store, self.repository, self.git)
