"""What all worktrees of a repository share beside objects and branches: files that say what git does, registrations of
worktrees, replacements, the stash, locks.

Read and written as bytes. The configuration is written under git's own lock, only where it is what was seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract
from ktxkit.base.identity import Identity, admin_names, identify
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git.git import FULL_ID
from ktxkit.git.repository import registrations

CONFIGS = ("config", "config.worktree")
# What git reads in the common directory. `commondir` and `gitdir` are files of linked worktrees: here they would lead
# every command elsewhere.
RULES = (
    *(f"info/{name}" for name in ("attributes", "exclude", "grafts", "sparse-checkout")),
    *("shallow", "objects/info/alternates", "objects/info/http-alternates", "commondir", "gitdir"),
)
HOOKS = "hooks"
REGISTRATION = ("gitdir", "commondir", "HEAD")  # files without which a worktree is none; HEAD moves as people work
STASH = ("refs/stash", "logs/refs/stash")
REF_FILES = ("packed-refs", "reftable/tables.list", *STASH)
REPLACED = "refs/replace"
SIZE_LIMIT = 16 * 1024 * 1024  # bytes
SYMBOLIC = 5  # refs that name another one, at most: git's own limit


NO_FILE = b"\0neither a file nor absent\0"  # stands for the bytes of a link, a directory, a device


class FileState(NamedTuple):
    """A file as it was: its bytes, and its permissions."""

    data: bytes
    mode: int


def watched(common_dir: Path) -> Iterator[str]:
    """Names below the common directory, those that may be absent included."""
    yield from (*CONFIGS, *RULES)
    yield from (f"{HOOKS}/{name}" for name in _names(common_dir / HOOKS) if not name.endswith(".sample"))
    for admin in registrations(common_dir):
        yield from (f"worktrees/{admin.name}/{name}" for name in (*REGISTRATION, "config.worktree"))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def signs(common_dir: Path) -> dict[str, str]:
    """The signature of each file that is there."""
    found = {name: sign_of(common_dir / name) for name in watched(common_dir)}
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


def sign_of(path: Path) -> str:
    try:
        info = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{info.st_ino}:{info.st_mode:o}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def replace_config(path: Path, expected: bytes | None, wanted: FileState | None) -> bool:
    """Put `wanted` where `expected` is. False where git's lock is held, or the file is another one meanwhile."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        with open(descriptor, "wb", buffering=0) as stream:
            if current(path) != expected:
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
    except (BrokenContract, IsADirectoryError, PermissionError):
        return NO_FILE


class RefSigns(NamedTuple):
    """What changes in the file system when replacements or the stash do, as they are looked at many times a second."""

    files: tuple[str, ...]  # signatures of the files that hold them
    replaced: tuple[str, ...]  # names of loose replacements, each with its signature
    names: tuple[tuple[str, ...], ...]  # what else lies directly below refs and logs/refs
    times: tuple[int, ...]  # when an entry of these was made or went, in nanoseconds since the epoch

    @classmethod
    def of(cls, common_dir: Path) -> RefSigns:
        folders = [common_dir / "refs", common_dir / "logs/refs"]
        loose = common_dir / REPLACED
        return cls(
            tuple(sign_of(common_dir / name) for name in REF_FILES),
            tuple(f"{name} {sign_of(loose / name)}" for name in _names(loose)),
            tuple(tuple(name for name in _names(folder) if not name.startswith("stash")) for folder in folders),
            tuple(_changed_at(folder) for folder in folders),
        )

    def stash_came_and_went(self, later: RefSigns) -> bool:
        """Whether entries of both directories were made or went, and none but those of the stash can have been."""
        return self.names == later.names and all(old != new for old, new in zip(self.times, later.times, strict=True))


def _changed_at(folder: Path) -> int:
    try:
        return os.stat(folder, follow_symlinks=False).st_mtime_ns  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return 0


def shared_refs(common_dir: Path) -> dict[str, str]:
    """Replacements and the stash, read from their files (gitrepository-layout(5)); a loose one is newer."""
    packed = current(common_dir / "packed-refs") or b""
    found = {}
    for line in packed.splitlines() if b" refs/replace/" in packed or b" refs/stash" in packed else ():
        oid, _, name = line.decode("ascii", "replace").partition(" ")
        if name == "refs/stash" or name.startswith(f"{REPLACED}/"):
            found[name] = oid
    for name in (*(f"{REPLACED}/{name}" for name in _names(common_dir / REPLACED)), "refs/stash"):
        value = (current(common_dir / name) or b"").strip()
        if value and not _is_lock(name):
            found[name] = value.decode("ascii", "replace")
    return found


def refs_below(common_dir: Path, prefixes: Sequence[str]) -> dict[str, str]:
    """Full ids of the refs below some prefixes, by name, read from their files as git does (loose ones first: one that
    is being packed is in either). Source: gitrepository-layout(5)."""
    values: dict[str, str] = {}
    for prefix in prefixes:
        for folder, names in files.walk(os.fspath(common_dir / prefix)):
            for name in names:
                path = Path(folder) / name
                values[os.path.relpath(path, common_dir)] = (current(path) or b"").strip().decode("ascii", "replace")
    for line in (current(common_dir / "packed-refs") or b"").splitlines():
        oid, _, named = line.partition(b" ")
        values.setdefault(os.fsdecode(named), oid.decode("ascii", "replace"))
    found = {name: _resolved(values, name) for name in values if name.startswith(tuple(f"{one}/" for one in prefixes))}
    return {name: oid for name, oid in sorted(found.items()) if FULL_ID.fullmatch(oid)}


def _resolved(values: Mapping[str, str], name: str) -> str:
    """What a ref comes to through symbolic ones; empty where that is nothing."""
    for _ in range(SYMBOLIC):
        value = values.get(name, "")
        if not value.startswith("ref: "):
            return value
        name = value.removeprefix("ref: ").strip()
    return ""


def registered_names(common_dir: Path) -> set[str]:
    """The names of registered worktrees."""
    return {admin.name for admin in registrations(common_dir)}


def whole_registrations(common_dir: Path) -> dict[str, Identity]:
    """The registrations that are whole, with the identity of each directory: git makes one file by file, and says in
    `locked` that it is at it."""
    found = {}
    for admin in registrations(common_dir):
        there, named = identify(admin), admin_names(admin)
        begun = current(admin / "locked") == b"initializing" or not all(map(_has_content, _files_of(admin)))
        if there is not None and named is not None and not begun and os.path.lexists(named):
            found[admin.name] = there
    return found


def _files_of(admin: Path) -> list[Path]:
    return [admin / name for name in REGISTRATION]


def _has_content(path: Path) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_size > 0  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


def lock_files(common_dir: Path) -> list[Path]:
    """Every lock of git's that is there: of index, configuration, refs, of the worktrees too."""
    tops = [common_dir, common_dir / "objects", common_dir / "objects/info", common_dir / "reftable"]
    found = [top / name for top in (*tops, *registrations(common_dir)) for name in _names(top) if _is_lock(name)]
    for folder, names in files.walk(os.fspath(common_dir / "refs")):
        found += [Path(folder) / name for name in names if _is_lock(name)]
    return found


def _is_lock(name: str) -> bool:
    return name.endswith(".lock")
