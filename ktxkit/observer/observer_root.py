"""The root of a leased worktree: opened once, proven before and after every look, and what is scanned in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base import mounts
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.identity import Identity, admin_names, identify
from ktxkit.base.reading import OPEN_DIRECTORY, small_file
from ktxkit.base.rules.text import path_bytes
from ktxkit.observer.observer_attempt import Attempt
from ktxkit.observer.rules.settings import Settings
from ktxkit.observer.rules.tracked import Tracked
from ktxkit.observer.scanned import Subject
from ktxkit.store.leases import path_of

MISSING, LINK, REPLACED, CONTROL = "root_missing", "root_is_a_link", "root_replaced", "control_mismatch"


@dataclass(frozen=True)
class Root:
    """An open root. `untrusted`: its control files do not fit the lease; what is seen there defers nothing."""

    fd: int
    untrusted: str = ""


@contextmanager
def opened(lease: Document) -> Iterator[Root | str]:
    """The root of a lease, or the reason why it is not that root."""
    problem = wrong(lease)
    if problem:
        yield problem
        return
    try:
        fd = os.open(path_of(lease), OPEN_DIRECTORY)
    except OSError:
        yield wrong(lease) or REPLACED
        return
    try:
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino) != (lease["device"], lease["inode"]):
            yield REPLACED
        else:
            yield Root(fd, "" if _control_fits(fd, lease) else CONTROL)
    finally:
        os.close(fd)


def wrong(lease: Document) -> str:
    """Why what stands at the lease's path is not its root; `""` where it is. Inodes are reused: birth times tell."""
    path = path_of(lease)
    if not os.path.lexists(path):
        return MISSING
    if os.path.realpath(path) != os.fspath(path):
        return LINK
    found = identify(path)
    return "" if found is not None and found.matches(lease) else REPLACED


def _control_fits(fd: int, lease: Document) -> bool:
    """Whether `.git` in the root and the lease's git directory name each other. The lease's is the one that is used."""
    admin = Path(os.fsdecode(path_bytes(lease, "adminDir")))
    own = identify(path_of(lease) / ".git")
    if own is not None:  # a main checkout: the directory itself
        other = identify(admin)
        return other is not None and (own.device, own.inode) == (other.device, other.inode)
    pointer = small_file(fd, b".git")
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return False
    named = os.path.realpath(os.path.join(os.fsencode(path_of(lease)), pointer[8:].rstrip(b"\n")))  # noqa: PTH118
    return named == os.path.realpath(os.fsencode(admin)) and _back_link(admin, lease)


def _back_link(admin: Path, lease: Document) -> bool:
    back = admin_names(admin)
    return back is not None and os.path.realpath(back) == os.path.realpath(path_of(lease) / ".git")


@dataclass(frozen=True)
class Snapshot:
    """What an attempt's scans go by, all of it from its baseline. `reliable`: events and stat keys mean something."""

    tracked: Tracked
    gitlinks: dict[bytes, str]
    settings: Settings
    reliable: bool
    because: str = ""


def snapshot_of(attempt: Attempt, baseline: Document) -> Snapshot:
    """From the baseline's documents. Raises BrokenContract where they do not fit each other."""
    gitlinks = {path_bytes(item): item["commit"] for item in baseline["gitlinks"]}
    remote = _remote(attempt)
    return Snapshot(attempt.tracked(baseline), gitlinks, Settings.of(baseline["settings"]), not remote, remote)


def _remote(attempt: Attempt) -> str:
    mount = mounts.of(path_of(attempt.lease), mounts.mounts())
    return f"the worktree lies on {mount.kind}, which tells nobody of changes" if mount and mount.remote else ""


def subject(attempt: Attempt, root: Root, taken: Snapshot) -> Subject:
    """What is scanned."""
    return Subject(
        root=root.fd,
        policy=attempt.policy,
        tracked=taken.tracked,
        gitlinks=taken.gitlinks,
        mounts=mounts.below(path_of(attempt.lease), mounts.mounts()),
        admin=os.fsencode(attempt.world.repository.common_dir),
        limit=taken.settings.max_file_bytes,
    )


def index_of(attempt: Attempt) -> tuple[Tracked, dict[bytes, str]]:
    """Tracked paths (of the index and of the base) and submodules, asked of git by the lease's git directory.

    Only at the baseline, before the unit's command may start: later the index is the unit's to write.
    """
    lease = attempt.lease
    admin = os.fsdecode(path_bytes(lease, "adminDir"))
    git = attempt.world.git.at(attempt.world.repository.place)
    scoped = git.having(GIT_DIR=admin, GIT_WORK_TREE=os.fspath(path_of(lease)), GIT_INDEX_FILE=f"{admin}/index")
    paths: set[bytes] = set()
    links = {}
    for line in scoped.run("ls-files", "-s", "-z").nul:
        facts, _, path = line.partition(b"\t")
        paths.add(path)
        if facts.startswith(b"160000 "):
            links[path] = facts.split()[1].decode("ascii")
    for line in git.run("ls-tree", "-r", "-z", "--full-tree", lease["base"]).nul:
        facts, _, path = line.partition(b"\t")
        paths.add(path)
        if facts.startswith(b"160000 "):
            links.setdefault(path, facts.split()[2].decode("ascii"))
    return Tracked.of(paths), links


def admin_identity(lease: Document) -> Identity:
    """Of the lease's git directory. Raises CannotRun where it is gone."""
    found = identify(Path(os.fsdecode(path_bytes(lease, "adminDir"))))
    if found is None:
        raise CannotRun("the worktree's git directory is gone", hint="open the unit again")
    return found
