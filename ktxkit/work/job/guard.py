"""What all worktrees share stays as it was while units run: configuration, attributes and hooks are put back.

A unit cannot be kept from writing there, but what it wrote must act neither in other units nor in the user's checkout
(packages that install hooks do this, and agents that set an identity). The files are looked at several times a second;
what is taken away is kept in the store.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.git import shared_files
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.shared_files import NO_FILE, Seen
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.rules import shared_config as core

UNREADABLE = "(cannot be read)"
Values = dict[str, list[bytes]]


@dataclass
class Guard:
    """One for a job. Thread-safe."""

    world: World
    job_id: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _signs: dict[str, str] = field(init=False)
    _seen: dict[str, Seen | None] = field(init=False)
    _kept: int = 0

    def __post_init__(self) -> None:
        self._signs = shared_files.signs(self._top)
        self._seen = {name: shared_files.see(self._top / name) for name in self._signs}

    @property
    def _top(self) -> Path:
        return self.world.repository.common_dir

    def stirred(self) -> bool:
        """Whether any of the files was written since the last check. Some calls of stat."""
        return shared_files.signs(self._top) != self._signs

    def check(self) -> list[Document]:
        """Put back what must be; each change with what became of it, as in a unit's `touched`."""
        with self._lock:
            now = shared_files.signs(self._top)
            changed = sorted(name for name in now.keys() | self._signs.keys() if now.get(name) != self._signs.get(name))
            found = [change for name in changed for change in self._checked(name)]
            # As it was before each was read: what is written from now on is seen by the next check.
            self._signs = now
            return found

    def _checked(self, name: str) -> list[Document]:
        try:
            return self._config(name) if name in shared_files.CONFIGS else self._file(name)
        except OSError as error:
            why = f"config {name} changed, and could not be put back: {error.strerror}"
            return [{"what": f"config {name}"[:1000], "message": why[:4000]}]

    def _config(self, name: str) -> list[Document]:
        """Key by key, so that what git writes while people work is left; the very bytes where all of it goes."""
        path, old, new = self._top / name, self._seen.get(name), shared_files.see(self._top / name)
        if (old and old.data) == (new and new.data) or (old is not None and old.data == NO_FILE):
            self._seen[name] = new
            return []
        with open_neutral(self.world) as neutral:
            before, after = _values(neutral, old), _values(neutral, new)
            keys = [UNREADABLE] if after is None else core.to_put_back(before or {}, after)
            if not keys:
                self._seen[name] = new
                return []
            whole = after is None or len(keys) == sum(1 for _ in _changed(before or {}, after))
            wanted = old if whole or new is None else _edited(neutral, new, keys, before or {})
        if not shared_files.replace_config(path, new.data if new else None, wanted):
            return []  # somebody writes it right now: the next look finds it again
        self._keep(name, new)
        self._seen[name] = wanted
        known, there = before or {}, after or {}
        return [_change("config", f"{name}: {key}", core.how(key in known, key in there)) for key in keys]

    def _file(self, name: str) -> list[Document]:
        path, old, new = self._top / name, self._seen.get(name), shared_files.see(self._top / name)
        if old == new or (old is not None and old.data == NO_FILE):
            return []
        self._keep(name, new)
        if new is not None and (old is None or new.data == NO_FILE):
            files.remove(path)
        if old is not None:
            files.write_atomic(path, old.data, mode=old.mode)
            path.chmod(old.mode)
        kind, _, plain = name.partition("/") if name.startswith(shared_files.HOOKS) else ("config", "", name)
        return [_change(kind, plain, core.how(old is not None, new is not None))]

    def _keep(self, name: str, seen: Seen | None) -> None:
        """What is taken away may be a person's: it is kept."""
        if seen is not None and seen.data != NO_FILE:
            self._kept += 1
            place = f"{names.quarantine_dir(self.job_id, f'shared-{self._kept}')}/{names.slug(Path(name).name)}"
            files.write_atomic(self.world.writable_store.path(place), seen.data)


def _change(kind: str, name: str, how: str) -> Document:
    return {"what": f"{kind} {name}"[:1000], "message": f"{kind} {name} {how}"[:4000], "putBack": True}


def _changed(old: Values, new: Values) -> list[str]:
    return [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]


def _values(neutral: Neutral, seen: Seen | None) -> Values | None:
    """Keys and values of a configuration file; None where git cannot read it."""
    found: Values = {}
    if seen is None:
        return found
    if seen.data == NO_FILE:
        return None
    answer = neutral.git.run("config", "--file", _aside(neutral, seen), "--no-includes", "--list", "-z", ok=None)
    if answer.status != 0:
        return None
    for entry in answer.nul:
        key, _, value = entry.partition(b"\n")
        found.setdefault(key.decode("utf-8", "surrogateescape"), []).append(value)
    return found


def _edited(neutral: Neutral, new: Seen, keys: list[str], old: Values) -> Seen:
    """The new file with the old values of some keys."""
    path = _aside(neutral, new)
    for key in keys:
        neutral.git.run("config", "--file", path, "--unset-all", key, ok=(0, 5))
        for value in old.get(key, ()):
            neutral.git.run("config", "--file", path, "--add", key, value)
    return Seen(files.read(path), new.mode)


def _aside(neutral: Neutral, seen: Seen) -> Path:
    path = neutral.directory / "shared-config"
    files.write_atomic(path, seen.data, durable=False)
    return path
