"""What all worktrees share stays as it was while units run: what says what git does is put back, the stash is named.

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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files, process
from ktxkit.base.errors import BrokenContract, KtxError
from ktxkit.base.identity import Identity, identify
from ktxkit.base.removal import move
from ktxkit.base.rules.text import printable
from ktxkit.git import stale
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.shared_files import (
    CONFIGS,
    HOOKS,
    NO_FILE,
    REGISTRATION,
    REPLACED,
    FileState,
    RefSigns,
    lock_files,
    registered_names,
    replace_config,
    see,
    shared_refs,
    sign_of,
    signs,
    whole_registrations,
)
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import worktrees
from ktxkit.store.rules import names
from ktxkit.work.fingerprint import Fingerprinter
from ktxkit.work.rules import shared_state
from ktxkit.work.rules.shared_state import SharedChange, differences

if TYPE_CHECKING:
    from ktxkit.base.documents import UnitResultTouched


STORE_DIRECTORIES = ("jobs", "ingest-patches", "ingest-traces", "worktrees", "quarantine", "locks", "tmp", "ledger")
OF_JOBS = ("jobs", "ingest-patches", "ingest-traces", "worktrees", "quarantine")
UNREADABLE = "(cannot be read)"
Values = dict[str, list[bytes]]


class Guard:
    """One for a job. Thread-safe."""

    def __init__(self, job: ActiveJob) -> None:
        self.job = job
        self._lock = threading.Lock()
        self._kept = 0
        self.took_documents = False  # whether those of the whole job were taken away
        self._moved: list[UnitResultTouched] = []  # out of the store
        self._began = time.time()
        self._git = worktrees(job.world).git
        self._ref_signs = RefSigns.of(self._top)
        self._refs = self._read_refs()
        self._signs = signs(self._top)
        self._seen = {name: see(self._top / name) for name in self._signs}
        self._whole = whole_registrations(self._top)
        self._locks = {path: sign_of(path) for path in lock_files(self._top)}

    @property
    def _top(self) -> Path:
        return self.job.world.repository.common_dir

    def stirred(self) -> bool:
        """Whether any of the files was written since the last check. Some calls of stat."""
        if self._moved or signs(self._top) != self._signs or self._whole.keys() != registered_names(self._top):
            return True
        return RefSigns.of(self._top) != self._ref_signs

    def check(self) -> list[UnitResultTouched]:
        """Put back what must be; each change with what became of it, as in a unit's `touched`."""
        self.keep_shape()
        with self._lock:
            moved, self._moved = self._moved, []
            now = signs(self._top)
            changed = sorted(name for name in now.keys() | self._signs.keys() if now.get(name) != self._signs.get(name))
            found = [change for name in changed for change in self._checked(name)]
            # As it was before each was read: what is written from now on is seen by the next check.
            self._signs = now
            self._whole = self._registrations()
            return [*moved, *found, *self._checked_refs()]

    def keep_shape(self) -> None:
        """What stands in place of a directory of the store is put aside: a link there would lead writes out of it."""
        for name in (*STORE_DIRECTORIES, *(f"{name}/{self.job.id}" for name in OF_JOBS), names.TRASH):
            self.job.world.store.directory(name)
        for name in ("units", "verified", "verifications"):
            self.job.world.store.directory(f"{names.job_dir(self.job.id)}/{name}")
        self.job.world.store.regular(names.trace_file(self.job.id))
        self.job.world.store.regular(f"{names.trace_file(self.job.id)}.lock")

    def put_aside(self, relative: str) -> None:
        """Move what stands in the way in the store; it is named with the units that run. What a link leads to stays."""
        path = self.job.world.store.root / relative
        aside = self.job.world.store.root / f".put-aside-{os.urandom(6).hex()}"
        told = printable(f"store {relative}")[:900]
        try:
            what = stat.S_IFMT(os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116
            move(path, aside)
        except (FileNotFoundError, NotADirectoryError, BrokenContract):
            return  # gate-ok: another thread has moved it
        self.took_documents |= relative.split("/")[0] == "jobs"
        word = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe"}.get(what, "something else")
        message = f"{told} was replaced by {word}, which now lies at .ktx/{aside.name}"
        self._moved.append({"what": told, "message": message, "putBack": True})

    def _checked(self, name: str) -> list[UnitResultTouched]:
        try:
            if name.startswith("worktrees/"):
                return self._of_worktree(name)
            return self._config(name, {}) if name in CONFIGS else self._file(name)
        except OSError as error:
            why = f"config {name} changed, and could not be put back: {error.strerror}"
            return [{"what": f"config {name}"[:1000], "message": why[:4000]}]

    def _config(self, name: str, usual: Values) -> list[UnitResultTouched]:
        """Key by key, so that what git writes while people work is left; the very bytes where all of it goes.

        `usual`: what a new file may have.
        """
        path, old, new = self._top / name, self._seen.get(name), see(self._top / name)
        if (old and old.data) == (new and new.data) or (old is not None and old.data == NO_FILE):
            self._seen[name] = new
            return []
        with open_neutral(self.job.world) as neutral:
            before, after = _values(neutral, old), _values(neutral, new)
            before = before or {key: usual[key] for key in usual.keys() & (after or {}).keys()}
            keys = [UNREADABLE] if after is None else shared_state.to_put_back(before, after)
            if not keys:
                self._seen[name] = new
                return []
            whole = after is None or len(keys) == sum(1 for _ in _changed(before, after))
            wanted = old if whole or new is None else _edited(neutral, new, keys, before)
        if not replace_config(path, new.data if new else None, wanted):
            return []  # somebody writes it right now: the next look finds it again
        self._keep(name, new)
        self._seen[name] = wanted
        there = after or {}
        return [
            _change("config", f"{name}: {key}", shared_state.change_word(key in before, key in there)) for key in keys
        ]

    def _file(self, name: str) -> list[UnitResultTouched]:
        path, old, new = self._top / name, self._seen.get(name), see(self._top / name)
        if old == new or (old is not None and old.data == NO_FILE):
            return []
        self._keep(name, new)
        if new is not None and (old is None or new.data == NO_FILE):
            self._take_away(path)
        if old is not None:
            files.make_dirs(path.parent, 0o755)
            files.write_atomic(path, old.data, mode=old.mode)
            path.chmod(old.mode)
        kind, _, plain = name.partition("/") if name.startswith(HOOKS) else ("config", "", name)
        return [_change(kind, plain, shared_state.change_word(old is not None, new is not None))]

    def _of_worktree(self, name: str) -> list[UnitResultTouched]:
        """What says which worktree is whose: put back while the worktree stands where it stood."""
        admin, leaf = (self._top / name).parent, name.rpartition("/")[2]
        old, new = self._seen.get(name), see(self._top / name)
        known = admin.name in self._whole and (not admin.is_dir() or self._whole[admin.name] == identify(admin))
        stands = known and self._stands(admin.name)
        if leaf == "config.worktree":
            if admin.is_dir():
                with open_neutral(self.job.world) as neutral:
                    usual = _values(neutral, self._seen.get("config.worktree")) or {}
                return self._config(name, usual)
            stands = False
        begun = old is None or not old.data  # git writes these files after it has made them
        if begun or not stands or old == new or (leaf == "HEAD" and new is not None and new.data != NO_FILE):
            self._seen[name] = new  # made, moved or removed by git
            return []
        self._register(admin, leaf)
        return [_change("worktree", f"{admin.name}: {leaf}", shared_state.change_word(True, new is not None))]

    def _registrations(self) -> dict[str, Identity]:
        """Those that are whole, and those that were while their worktree stands."""
        found = whole_registrations(self._top)
        return {name: there for name, there in self._whole.items() if self._stands(name)} | found

    def _stands(self, name: str) -> bool:
        gitdir = self._seen.get(f"worktrees/{name}/gitdir")
        return gitdir is not None and os.path.lexists(Path(os.fsdecode(gitdir.data.rstrip(b"\n"))))

    def _register(self, admin: Path, leaf: str) -> None:
        """Write a registration whole: one that is half there would be taken for one that git is making."""
        files.make_dirs(admin, 0o755)
        for name in REGISTRATION:
            old, path = self._seen.get(f"worktrees/{admin.name}/{name}"), admin / name
            if old is not None and (name == leaf or see(path) is None):
                if os.path.lexists(path):
                    self._take_away(path)
                files.write_atomic(path, old.data, mode=old.mode)
        self._fill_index(admin)
        there = identify(admin)
        if there is not None:
            self._whole[admin.name] = there

    def _fill_index(self, admin: Path) -> None:
        """The index of HEAD for a worktree whose registration was removed whole: without one all its files are new."""
        if all(os.path.lexists(admin / name) for name in REGISTRATION) and not os.path.lexists(admin / "index"):
            place = Path(os.fsdecode(files.read(admin / "gitdir").rstrip(b"\n"))).parent
            worktrees(self.job.world).at(place).run("read-tree", "HEAD", ok=None)

    def _take_away(self, path: Path) -> None:
        """What stands where a file belongs: a directory is moved aside, everything else is removed."""
        if path.is_dir() and not path.is_symlink():
            self._aside(path)
        else:
            files.remove(path)

    def _keep(self, name: str, seen: FileState | None) -> None:
        """What is taken away may be a person's: it is kept."""
        if seen is not None and seen.data != NO_FILE:
            files.write_atomic(self._place(Path(name).name), seen.data)

    def _aside(self, path: Path) -> None:
        place = self._place(path.name)
        files.make_dirs(place.parent)
        move(path, place)

    def _place(self, name: str) -> Path:
        """A new place in the quarantine."""
        self._kept += 1
        relative = f"{names.quarantine_dir(self.job.id, f'shared-{self._kept}')}/{names.slug(name)}"
        return self.job.world.writable_store.path(relative)

    def _read_refs(self) -> dict[str, str]:
        """The replacements and the stash with their values; git is asked where refs are no files."""
        if not (self._top / "reftable").is_dir():
            return shared_refs(self._top)
        answer = self._git.run("for-each-ref", "--format=%(objectname) %(refname)", REPLACED, "refs/stash")
        return dict(line.split(" ", 1)[::-1] for line in answer.lines)

    def _checked_refs(self) -> list[UnitResultTouched]:
        """Replacements are put back: they hold for everybody. The stash is named; what is on it is somebody's work."""
        now = RefSigns.of(self._top)
        if now == self._ref_signs:
            return []
        refs = self._read_refs()
        changed = sorted(name for name in refs.keys() | self._refs.keys() if refs.get(name) != self._refs.get(name))
        found = [self._replaced(name, refs) for name in changed if name.startswith(f"{REPLACED}/")]
        if "refs/stash" in changed or self._ref_signs.stash_came_and_went(now):
            told = "stash refs/stash was used: all worktrees share it, one takes the work of another from it"
            found.append({"what": "stash refs/stash", "message": told})
        stash = {name: oid for name, oid in refs.items() if name == "refs/stash"}
        self._refs = {name: oid for name, oid in self._refs.items() if name.startswith(REPLACED)} | stash
        self._ref_signs = RefSigns.of(self._top) if found else now
        return found

    def _replaced(self, name: str, refs: dict[str, str]) -> UnitResultTouched:
        old, new = self._refs.get(name), refs.get(name)
        if new is not None:
            files.write_atomic(self._place(name.replace("/", "-")), f"{new} {name}\n".encode())
        words = ("-d", name, new or "") if old is None else (name, old)
        answer = self._git.run("update-ref", "--no-deref", *words, ok=None)
        change = _change("refs", name, shared_state.change_word(old is not None, new is not None))
        if answer.status != 0:
            return {"what": change["what"], "message": f"{change['message']}, and could not be put back"}
        return change

    def locks_left(self, *, wait: bool = False) -> list[UnitResultTouched]:
        """Take away git's locks that were made since the job began and that nobody holds; each is named.

        Proven by age, that no process has it open, and that no git as old lives. `wait`: until it is old enough.
        """
        with self._lock:
            found = [path for path in lock_files(self._top) if self._locks.get(path) != sign_of(path)]
            return [change for path in found for change in self._lock_left(path, wait=wait)]

    def _lock_left(self, path: Path, *, wait: bool) -> list[UnitResultTouched]:
        age = self.job.world.limits.lock_age
        if process.has_open(path) or (wait and stale.writers(self._top)):
            return []
        if not (wait or stale.is_stale(path, self._top, age=age)):
            return []
        name = printable(str(path.relative_to(self._top)))
        try:
            if not stale.clear_left_behind(path, self._top, self._began, age, self._aside):
                return []
        except FileNotFoundError:
            return []  # its holder removed it
        return [{"what": f"lock {name}"[:1000], "message": f"lock {name} was left behind"[:4000], "putBack": True}]


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
GLANCES_APART = 20  # times what a look took: in a repository of many worktrees a look is longer
LOCKS_EVERY = 0.5  # seconds between looks at locks that were left
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
        self._held: set[str] = set()  # units on whose documents the job works now
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
        store = self.guard.job.world.writable_store
        store.put_aside = self.guard.put_aside
        watcher.start()
        try:
            yield
        finally:
            store.put_aside = None
            done.set()
            watcher.join()

    def _guard_until(self, done: threading.Event) -> None:
        pause, locks = GLANCE, LOCKS_EVERY
        while not done.wait(pause):
            began = time.monotonic()
            try:
                self.guard.keep_shape()
                if self.guard.stirred():
                    self._put_back()
                locks -= pause
                if locks <= 0:
                    locks = LOCKS_EVERY
                    self._note(self.guard.locks_left())
            except (KtxError, OSError):
                pass  # gate-ok: a git or a look that failed: what it was to find is found by the next one
            pause = max(GLANCE, GLANCES_APART * (time.monotonic() - began))

    def _put_back(self) -> None:
        self._note(self.guard.check())

    def _note(self, changes: list[UnitResultTouched]) -> None:
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

    @contextmanager
    def holding(self, unit: Unit) -> Iterator[None]:
        """While the block runs, and until somebody has looked after it, the unit's documents may change: they are the
        job's to write, however many look meanwhile."""
        name = names.unit_name(unit.position, unit.key)
        with self._state:
            self._held.add(name)
        try:
            yield
        finally:
            with self._state:
                self._held.discard(name)
                self._handled.add(name)

    def _look(self, *, whole: bool = False) -> None:
        with self._state:
            self._asked += 1
            mine = self._asked
        with self._lock:
            if self._looked >= mine:
                return
            with self._state:
                serves = self._asked
                busy = self._handled | self._held | set(self._running)
                working, running = set(self._running) - set(self._evidence), sorted(self._running.values())
                self._handled = set(self._running)
                quiet = dict(self._evidence)
            self._put_back()  # first: a configuration that is broken makes every git call fail
            self._note(self.guard.locks_left(wait=True))
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
