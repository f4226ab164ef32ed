"""Files that a checkout lacks but work needs (`.env`, caches) come along: cloned where the file system can.

Making a worktree and its lease, in an order that makes every kill recoverable.

A note first, then the registration, the branch, the files, the lease; then the note goes. All of it under the place's
own lock, which the kernel lets go when we die: whoever gets it next finds a note without its lease, and undoes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.identity import identify
from ktxkit.base.lock import nonce
from ktxkit.base.removal import delete
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_b64, path_fields, path_text, printable
from ktxkit.git.git import Git
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, must_be_ours, opening_facts, path_of, placed, worktrees
from ktxkit.store.rules import names
from ktxkit.store.store import ensure_ignored
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, LeasePolicy, WorktreeMode, WorktreeOpening
    from ktxkit.store.leases import LeaseHolder


FICLONE = 0x40049409  # ioctl_ficlonerange(2)
# "This file system, or this pair of files, cannot": copy the bytes then.
CANNOT_CLONE = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.EPERM, errno.ENOSYS}
BLOCK = 1 << 20


class Copied(NamedTuple):
    """What came along: paths, how many of them were cloned, and patterns that matched nothing."""

    paths: tuple[bytes, ...]
    cloned: int
    unmatched: tuple[str, ...]


def matching(git: Git, patterns: Sequence[str]) -> tuple[list[bytes], list[str]]:
    """Ignored files of the checkout at `git` that the patterns (as in .gitignore) name; patterns that name none."""
    ignored = set(git.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard").nul)
    found: set[bytes] = set()
    unmatched = []
    for pattern in patterns:
        named = set(git.run("ls-files", "-z", "--others", "--ignored", f"--exclude={pattern}").nul) & ignored
        here = {path for path in named if not path.startswith(b".ktx/") and not path.endswith(b"/")}
        found |= here
        unmatched += [] if here else [pattern]
    return sorted(found), unmatched


def copy_into(git: Git, target: Path, patterns: Sequence[str]) -> Copied:
    """Copy from the checkout at the top of which `git` stands. What is there already stays.

    Raises CannotRun for a file that git would not ignore in the target: it would become part of the unit's change.
    """
    found, unmatched = matching(git, patterns)
    there = git.at(target)
    paths = [path for path in found if _has_room(target, path)]
    if paths:
        listed = b"".join(path + b"\0" for path in paths)
        free = {"GIT_LITERAL_PATHSPECS": "0"}
        ignored = set(there.run("check-ignore", "-z", "--stdin", "--no-index", stdin=listed, ok=(0, 1), env=free).nul)
        bare = [path for path in paths if path not in ignored]
        if bare:
            raise CannotRun(
                f"{printable(bare[0])} is not ignored at the base: a copy would become part of the change",
                hint="add a rule to .gitignore or info/exclude, or leave it out of --copy",
            )
    cloned = sum(copy_file(_at(git.cwd, path), _at(target, path)) for path in paths)
    return Copied(tuple(paths), cloned, tuple(unmatched))


def copy_out(git: Git, target: Path, patterns: Sequence[str]) -> list[bytes]:
    """Copy the ignored files that the patterns name from the checkout at the top of which `git` stands into `target`,
    which is new; returns their paths. Nothing is made where the patterns name none. Raises Refused where one cannot be
    copied."""
    found, _ = matching(git, patterns)
    for path in found:
        try:
            copy_file(_at(git.cwd, path), _at(target, path))
        except OSError as error:
            why = f"{printable(path)} cannot be copied: {error.strerror or error}"
            raise Refused(
                why, location=str(git.cwd), hint="nothing was removed; leave it out of --keep-ignored"
            ) from error
    return [path for path in found if os.path.lexists(_at(target, path))]


def _at(top: Path, path: bytes) -> Path:
    return Path(os.fsdecode(bytes(top) + b"/" + path))


def _has_room(target: Path, path: bytes) -> bool:
    """Nothing is there yet, and no file or link on the way (a link could lead out of the worktree)."""
    goal = _at(target, path)
    parents = [parent for parent in goal.parents if target in parent.parents]
    blocked = any(os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()) for parent in parents)
    return not blocked and not os.path.lexists(goal)


def copy_file(source: Path, goal: Path) -> bool:
    """Copy a file with its mode and times, or a link as a link. True where the bytes were cloned, not copied."""
    files.make_dirs(goal.parent, 0o755)
    info = os.stat(source, follow_symlinks=False)  # noqa: PTH116
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(source), goal)  # noqa: PTH115, PTH211
        return False
    if not stat.S_ISREG(info.st_mode):
        return False
    with open(files.open_regular(source), "rb") as reader:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(goal, flags, stat.S_IMODE(info.st_mode) | 0o200)
        try:
            cloned = _clone(reader.fileno(), fd)
            while not cloned and (block := reader.read(BLOCK)):
                files.write_all(fd, block)
            os.fchmod(fd, stat.S_IMODE(info.st_mode))
            os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(fd)
    return cloned


def _clone(source: int, goal: int) -> bool:
    try:
        fcntl.ioctl(goal, FICLONE, source)
    except OSError as error:
        if error.errno in CANNOT_CLONE:
            return False
        raise
    return True


FACTS: Final = ("jobId", "unitKey", "position", "target", "policy", "policyDigest", "owner")
PASSED_ON = ("GIT_LFS_SKIP_SMUDGE",)  # what git's filters may see of the caller's git environment


class Wanted(NamedTuple):
    """The worktree that is to be made."""

    path: Path
    mode: WorktreeMode
    base: str  # commit
    facts: LeaseHolder  # what else its lease says
    branch: str = ""  # full ref that HEAD shall be; detached where empty
    creates: bool = False  # the branch is new
    copy: Sequence[str] = ()
    sparse: Sequence[str] = ()


def make(location: LeaseLocation, wanted: Wanted, old: Lease | None) -> Lease:
    """Make the worktree; returns its lease, which is on the disk. A failure leaves nothing behind. The lock is held.

    Raises CannotRun, GitFailed, Refused. `old`: the lease before, whose attempt and fence this one follows.
    """
    world, mark = location.world, nonce()
    ensure_ignored(world.writable_store, world.repository, world.git)
    now = timestamp(world.clock.now())
    location.write(kinds.OPENING, _note(wanted, mark, now), durable=False)
    try:
        admin = _checkout(world, wanted, mark)
        copied = copy_into(_source(world), wanted.path, wanted.copy) if wanted.copy else None
        lease = _lease(wanted, admin, old, mark, now)
        if copied is not None:
            lease["copied"] = [path_fields(path)["path"] for path in copied.paths]
            lease["copyUnmatched"] = list(copied.unmatched)
        lease = {**lease, **opening_facts(world, lease, old)}
        location.write(kinds.LEASE, lease)
    except BaseException:
        recover_opening(location)
        raise
    location.remove(kinds.OPENING)
    return lease


def _note(wanted: Wanted, mark: str, now: str) -> WorktreeOpening:
    note: WorktreeOpening = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "opening",
        "nonce": mark,
        "mode": wanted.mode,
        "base": wanted.base,
        "path": path_text(bytes(wanted.path)),
        "at": now,
    }
    exact = path_b64(bytes(wanted.path))
    note |= {"pathB64": exact} if exact else {}
    note |= {"branch": wanted.branch, "createsBranch": wanted.creates} if wanted.branch else {}
    return note


def _checkout(world: World, wanted: Wanted, mark: str) -> Path:
    """Register, put HEAD on its branch, write the files; returns the git dir."""
    made = worktrees(world)
    existing = wanted.branch.removeprefix("refs/heads/") if wanted.branch and not wanted.creates else ""
    admin = made.add(wanted.path, wanted.base, branch=existing, sparse=wanted.sparse)
    if wanted.creates:
        made.branch_create(wanted.branch, wanted.base, world.repository.zero, _made_by(mark))
        made.at(wanted.path).run("symbolic-ref", "-m", _made_by(mark), "HEAD", wanted.branch)
    passed = {key: world.env[key] for key in PASSED_ON if key in world.env}
    made.populate(wanted.path, passed, plain=wanted.mode == "unit")
    return admin


def _made_by(mark: str) -> str:
    """The reflog message that proves which opening made a branch."""
    return f"ktxkit: opened {mark}"


def _source(world: World) -> Git:
    """The checkout that files are copied from: the one the command stands in."""
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout to copy from: this is a bare repository", hint="leave --copy out")
    return world.git.at(top)


def _lease(wanted: Wanted, admin: Path, old: Lease | None, mark: str, now: str) -> Lease:
    identity = identify(wanted.path)
    assert identity is not None, "git made the worktree"
    number = 1 if old is None else old["attempt"] + 1
    lease: Lease = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "lease",
        "leaseId": mark,
        "generation": 1,
        "attempt": number,
        "fence": number,
        "leaseEpoch": number,
        "mode": wanted.mode,
        "base": wanted.base,
        "path": path_text(bytes(wanted.path)),
        "adminDir": path_text(bytes(admin)),
        "worktreeId": admin.name,
        "device": identity.device,
        "inode": identity.inode,
        "nonce": mark,
        "openedAt": now,
        "state": "open",
    }
    lease |= {"branch": wanted.branch, "createdBranch": wanted.creates} if wanted.branch else {"detached": True}
    for key in FACTS:
        if key in wanted.facts:
            lease[key] = wanted.facts[key]
    return placed(lease, wanted.path, admin, identity)


def recover_opening(location: LeaseLocation) -> bool:
    """Finish or undo what a killed opening left; True where something was undone. The lock is held.

    The lease is the receipt: without it nobody has worked there yet, and worktree and branch go.
    """
    note = location.read(kinds.OPENING)
    if note is None:
        return False
    lease = location.lease()
    undo = lease is None or lease["nonce"] != note["nonce"]
    if undo:
        must_be_ours(location.world, note)
        made = worktrees(location.world)
        made.settle(path_of(note))
        delete(made.let_go(path_of(note)))
        if note.get("createsBranch") and made.newest_reflog(note["branch"]) == _made_by(note["nonce"]):
            made.delete_ref(note["branch"], note["base"])
        _drop_attempt(location, note, lease)
    location.remove(kinds.OPENING)
    return undo


def _drop_attempt(location: LeaseLocation, note: WorktreeOpening, old: Lease | None) -> None:
    """What an undone opening had said of its attempt; that of a unit is written over by the next one."""
    if note["mode"] != "unit":
        number = 1 if old is None else old["attempt"] + 1
        attempt = names.attempt_name({"leaseId": note["nonce"], "generation": 1, "attempt": number})
        folder = names.attempt_dir(attempt)
        delete(location.world.store.path(folder) if location.world.store.exists(folder) else None)


def lease_existing(location: LeaseLocation, wanted: Wanted, admin: Path, old: Lease | None) -> Lease:
    """Lease a worktree that someone else made and that is never removed here; returns the lease."""
    now = timestamp(location.world.clock.now())
    lease = _lease(wanted, admin, old, nonce(), now)
    lease.pop("createdBranch", None)
    lease = {**lease, **opening_facts(location.world, lease, old)}
    location.write(kinds.LEASE, lease)
    return lease


def unit_facts(job: ActiveJob, unit: Unit, policy: LeasePolicy | None) -> LeaseHolder:
    """Whose a unit's lease is, and what it may touch."""
    facts: LeaseHolder = {
        "jobId": job.id,
        "unitKey": unit.key,
        "position": unit.position,
        "target": job.target,
    }
    facts |= {"policy": policy, "policyDigest": digest_of(policy)} if policy else {}
    return facts
