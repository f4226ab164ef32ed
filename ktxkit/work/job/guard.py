"""The files that all worktrees of a repository share and that say what git does: its configuration, attributes, hooks.

Read and written as bytes. The configuration is written under git's own lock, only where it is what was seen.

What all worktrees share stays as it was while units run: configuration, attributes and hooks are put back.

A unit cannot be kept from writing there, but what it wrote must act neither in other units nor in the user's checkout
(packages that install hooks do this, and agents that set an identity). The files are looked at several times a second;
what is taken away is kept in the store.

What units touched that is not theirs: fingerprints taken when a unit starts and ends, compared with the one before.

Several units run at a time, so a change has an interval, not an author: it is named with the units that ran in it.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.work.fingerprint import Fingerprinter
from ktxkit.work.rules import shared_state
from ktxkit.work.rules.shared_state import SharedChange, differences

if TYPE_CHECKING:
    from ktxkit.base.documents import UnitResultTouched


CONFIGS = ("config", "config.worktree")
ATTRIBUTES = "info/attributes"
HOOKS = "hooks"
SIZE_LIMIT = 16 * 1024 * 1024  # bytes


NO_FILE = b"\0neither a file nor absent\0"  # stands for the bytes of a link, a directory, a device


class FileState(NamedTuple):
    """A file as it was: its bytes, and its permissions."""

    data: bytes
    mode: int


def watched(common_dir: Path) -> Iterator[str]:
    """Names below the common directory, those that may be absent included."""
    yield from (*CONFIGS, ATTRIBUTES)
    try:
        hooks = sorted(os.listdir(common_dir / HOOKS))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return  # gate-ok: no hooks at all: none to watch
    yield from (f"{HOOKS}/{name}" for name in hooks if not name.endswith(".sample"))


def signs(common_dir: Path) -> dict[str, str]:
    """The signature of each file that is there."""
    found = {name: _sign(common_dir / name) for name in watched(common_dir)}
    return {name: sign for name, sign in found.items() if sign}


def see(path: Path) -> FileState | None:
    """A file now; None where there is none."""
    data = current(path)
    if data is None:
        return None
    try:
        return FileState(data, stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode))  # noqa: PTH116
    except FileNotFoundError:
        return None


def _sign(path: Path) -> str:
    try:
        info = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{info.st_ino}:{info.st_mode:o}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def replace_config(path: Path, seen: bytes | None, wanted: FileState | None) -> bool:
    """Put `wanted` where `seen` is. False where git's lock is held, or the file is another one meanwhile."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        with open(descriptor, "wb", buffering=0) as stream:
            if current(path) != seen:
                return False
            if wanted is None:
                return files.remove(path)
            os.fchmod(stream.fileno(), wanted.mode)
            files.write_all(stream.fileno(), wanted.data)
            os.fsync(stream.fileno())
        os.replace(lock, path)  # noqa: PTH105
        return True
    finally:
        files.remove(lock)


def current(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none, NO_FILE where something else stands there."""
    try:
        return files.read(path, SIZE_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (BrokenContract, PermissionError):
        return NO_FILE


UNREADABLE = "(cannot be read)"
Values = dict[str, list[bytes]]


class Guard:
    """One for a job. Thread-safe."""

    def __init__(self, job: ActiveJob) -> None:
        self.job = job
        self._lock = threading.Lock()
        self._kept = 0
        self._signs = signs(self._top)
        self._seen = {name: see(self._top / name) for name in self._signs}

    @property
    def _top(self) -> Path:
        return self.job.world.repository.common_dir

    def stirred(self) -> bool:
        """Whether any of the files was written since the last check. Some calls of stat."""
        return signs(self._top) != self._signs

    def check(self) -> list[UnitResultTouched]:
        """Put back what must be; each change with what became of it, as in a unit's `touched`."""
        with self._lock:
            now = signs(self._top)
            changed = sorted(name for name in now.keys() | self._signs.keys() if now.get(name) != self._signs.get(name))
            found = [change for name in changed for change in self._checked(name)]
            # As it was before each was read: what is written from now on is seen by the next check.
            self._signs = now
            return found

    def _checked(self, name: str) -> list[UnitResultTouched]:
        try:
            return self._config(name) if name in CONFIGS else self._file(name)
        except OSError as error:
            why = f"config {name} changed, and could not be put back: {error.strerror}"
            return [{"what": f"config {name}"[:1000], "message": why[:4000]}]

    def _config(self, name: str) -> list[UnitResultTouched]:
        """Key by key, so that what git writes while people work is left; the very bytes where all of it goes."""
        path, old, new = self._top / name, self._seen.get(name), see(self._top / name)
        if (old and old.data) == (new and new.data) or (old is not None and old.data == NO_FILE):
            self._seen[name] = new
            return []
        with open_neutral(self.job.world) as neutral:
            before, after = _values(neutral, old), _values(neutral, new)
            keys = [UNREADABLE] if after is None else shared_state.to_put_back(before or {}, after)
            if not keys:
                self._seen[name] = new
                return []
            whole = after is None or len(keys) == sum(1 for _ in _changed(before or {}, after))
            wanted = old if whole or new is None else _edited(neutral, new, keys, before or {})
        if not replace_config(path, new.data if new else None, wanted):
            return []  # somebody writes it right now: the next look finds it again
        self._keep(name, new)
        self._seen[name] = wanted
        known, there = before or {}, after or {}
        return [
            _change("config", f"{name}: {key}", shared_state.change_word(key in known, key in there)) for key in keys
        ]

    def _file(self, name: str) -> list[UnitResultTouched]:
        path, old, new = self._top / name, self._seen.get(name), see(self._top / name)
        if old == new or (old is not None and old.data == NO_FILE):
            return []
        self._keep(name, new)
        if new is not None and (old is None or new.data == NO_FILE):
            files.remove(path)
        if old is not None:
            files.write_atomic(path, old.data, mode=old.mode)
            path.chmod(old.mode)
        kind, _, plain = name.partition("/") if name.startswith(HOOKS) else ("config", "", name)
        return [_change(kind, plain, shared_state.change_word(old is not None, new is not None))]

    def _keep(self, name: str, seen: FileState | None) -> None:
        """What is taken away may be a person's: it is kept."""
        if seen is not None and seen.data != NO_FILE:
            self._kept += 1
            place = f"{names.quarantine_dir(self.job.id, f'shared-{self._kept}')}/{names.slug(Path(name).name)}"
            files.write_atomic(self.job.world.writable_store.path(place), seen.data)


def _change(kind: str, name: str, how: str) -> UnitResultTouched:
    return {"what": f"{kind} {name}"[:1000], "message": f"{kind} {name} {how}"[:4000], "putBack": True}


def _changed(old: Values, new: Values) -> list[str]:
    return [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]


def _values(neutral: Neutral, seen: FileState | None) -> Values | None:
    """Keys and values of a configuration file; None where git cannot read it."""
    found: Values = {}
    if seen is None:
        return found
    if seen.data == NO_FILE:
        return None
    words = ("config", "--file", _aside(neutral, seen), "--no-includes", "--list", "-z")
    answer = neutral.git.run(*words, ok=(0, 128), twice=(128,))
    if answer.status != 0:
        return None
    for entry in answer.nul:
        key, _, value = entry.partition(b"\n")
        found.setdefault(key.decode("utf-8", "surrogateescape"), []).append(value)
    return found


def _edited(neutral: Neutral, new: FileState, keys: list[str], old: Values) -> FileState:
    """The new file with the old values of some keys."""
    path = _aside(neutral, new)
    for key in keys:
        neutral.git.run("config", "--file", path, "--unset-all", key, ok=(0, 5))
        for value in old.get(key, ()):
            neutral.git.run("config", "--file", path, "--add", key, value)
    return FileState(files.read(path), new.mode)


def _aside(neutral: Neutral, seen: FileState) -> Path:
    path = neutral.directory / "shared-config"
    files.write_atomic(path, seen.data, durable=False)
    return path


EVIDENCE_WATCHED = 20  # worktrees of failed units that are looked at; each look walks them
GLANCE = 0.03  # seconds between looks at what all worktrees share; a look is a few calls of stat
CHANGES_KEPT = 200  # changes named in one unit's result


class Watch:
    """One for a job. Thread-safe; a look that began after a caller's event serves that caller too."""

    def __init__(self, printer: Fingerprinter, guard: Guard) -> None:
        self.printer = printer
        self.guard = guard
        self._lock = threading.Lock()
        self._state = threading.Lock()
        self._last: dict[tuple[str, str], str] | None = None
        self._running: dict[str, str] = {}  # NNNN-key -> key
        self._handled: set[str] = set()
        self._evidence: dict[str, Path] = {}
        self._asked = 0
        self._looked = 0  # highest request that a look has served
        self._changes: list[tuple[int, UnitResultTouched]] = []

    def started(self, unit: Unit) -> int:
        """Note a start; returns the number from which on changes concern this unit."""
        with self._state:
            self._running[names.unit_name(unit.position, unit.key)] = unit.key
        self.handling(unit)
        self._look()
        with self._state:
            return len(self._changes)

    def ended(self, unit: Unit, since: int, evidence: Path | None = None) -> list[UnitResultTouched]:
        """Note an end; returns what changed while the unit ran. `evidence`: its worktree is kept and watched."""
        self.handling(unit)
        name = names.unit_name(unit.position, unit.key)
        with self._state:
            if evidence is not None and len(self._evidence) < EVIDENCE_WATCHED:
                self._evidence[name] = evidence  # before the look: what is written there from now on differs from it
        self._look()
        with self._state:
            self._running.pop(name, None)
            return _once([document for _, document in self._changes[since:]])[:CHANGES_KEPT]

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """For the block, what all worktrees share is put back within moments, whatever else goes on."""
        done = threading.Event()
        watcher = threading.Thread(target=self._guard_until, args=(done,), name="guard", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _guard_until(self, done: threading.Event) -> None:
        while not done.wait(GLANCE):
            if self.guard.stirred():
                self._put_back()

    def _put_back(self) -> None:
        changes = self.guard.check()
        with self._state:
            running = sorted(self._running.values())
            self._changes += [(self._asked, {**change, "running": running}) for change in changes]

    def finish(self) -> list[UnitResultTouched]:
        """A last look at everything; what changed since each unit's end, and no unit's result tells of."""
        with self._state:
            since = len(self._changes)
        self._look(whole=True)
        with self._state:
            return _once([document for _, document in self._changes[since:]])[:CHANGES_KEPT]

    def handling(self, unit: Unit) -> None:
        """The job itself works on the unit's documents now: those may change."""
        with self._state:
            self._handled.add(names.unit_name(unit.position, unit.key))

    def _look(self, *, whole: bool = False) -> None:
        with self._state:
            self._asked += 1
            mine = self._asked
        with self._lock:
            if self._looked >= mine:
                return
            with self._state:
                serves = self._asked
                busy = self._handled | set(self._running)
                working, running = set(self._running) - set(self._evidence), sorted(self._running.values())
                self._handled = set(self._running)
                quiet = dict(self._evidence)
            self._put_back()  # first: a configuration that is broken makes every git call fail
            facts = self.printer.take(quiet, None if whole or self._last is None else busy)
            found = differences(self._last, facts, busy, working) if self._last is not None else []
            with self._state:
                entries: list[UnitResultTouched] = [{**_told(change), "running": running} for change in found]
                self._changes += [(serves, entry) for entry in entries]
            self._last, self._looked = facts, serves


def _told(change: SharedChange) -> UnitResultTouched:
    return {"what": f"{change.kind} {change.name}"[:1000], "message": str(change)[:4000]}


def _once(changes: list[UnitResultTouched]) -> list[UnitResultTouched]:
    """A look may have seen what was put back a moment later: it is told once."""
    undone = {change["what"] for change in changes if change.get("putBack")}
    return [change for change in changes if change.get("putBack") or change["what"] not in undone]
