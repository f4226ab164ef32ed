"""Who is alive. An owner is (machine, boot, pid namespace, pid, start time) and holds an flock on a file of its own.

A pid alone is reused, and means nothing in another pid namespace or on another machine. The kernel lets the flock go
when the process dies, and every namespace of that kernel sees it. What cannot be proven dead is unknown, and unknown is
not dead. Sources: proc(5), field 22 of /proc/PID/stat; pid_namespaces(7); flock(2).

Whose processes those are that a command of ours started, wherever they went.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.removal import entry
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktxkit.base.documents import OwnerProcess


FOLDER = "locks/owners"  # of a store: the file of each process that it names
MARK = r"(?P<machine>[0-9a-f]{6})(?P<boot>[0-9a-f]{6})(?P<namespace>[0-9a-f]{6})-(?P<pid>[0-9]+)-(?P<start>[0-9]+)"
_MARKED = re.compile(rf"{MARK}-[0-9a-f]+(?:\.tmp)?\Z")
HELD_AT_ONCE = 64  # stores that one process names itself in; beyond, the oldest is let go


class OwnerState(Enum):
    """What is known of an owner."""

    ALIVE = "it is alive"
    DEAD = "it is proven dead"
    UNKNOWN = "unknown whether it lives"


class Owner(NamedTuple):
    """A process that can be told from a later one with the same pid. `machine` and `namespace` are empty in documents
    of before they were recorded: those were of this machine and namespace."""

    boot_id: str
    pid: int
    start_time: int  # clock ticks since boot
    machine: str = ""
    namespace: str = ""  # of pids

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Owner:
        return cls(
            document["bootId"],
            document["pid"],
            document["startTime"],
            document.get("machine", ""),
            document.get("pidNamespace", ""),
        )

    def document(self) -> OwnerProcess:
        made: OwnerProcess = {"bootId": self.boot_id, "pid": self.pid, "startTime": self.start_time}
        made |= {"machine": self.machine} if self.machine else {}
        made |= {"pidNamespace": self.namespace} if self.namespace else {}
        return made

    @property
    def mark(self) -> str:
        """The owner in a file name."""
        return f"{self.domain}-{self.pid}-{self.start_time}"

    @property
    def domain(self) -> str:
        """Machine, boot and pid namespace, each as six digits."""
        return "".join(digest(part.encode())[3:9] for part in (self.machine, self.boot_id, self.namespace))

    def elsewhere(self) -> bool:
        """Whether its pid says nothing here: it is of another machine, boot or pid namespace."""
        me = this_owner()
        return self.boot_id != me.boot_id or self.machine not in ("", me.machine) or _other(self.namespace)


def _other(namespace: str) -> bool:
    return namespace not in ("", this_owner().namespace) or not _sees_itself()


NO_PROC = "this needs Linux, with /proc: elsewhere gate-check, ledger-query, test-select and job-report work"


def has_proc() -> bool:
    """Whether the kernel tells of processes, by which owners, locks and children are known."""
    return os.path.exists("/proc/self/stat")  # noqa: PTH110 - no path of ours


def not_started() -> str:
    """What to do about a program that cannot be started."""
    return "check its name and PATH" if has_proc() else NO_PROC


@cache
def boot_id() -> str:
    """The kernel's id of this boot: the same for as long as a process lives."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


@cache
def machine_id() -> str:
    """Names this machine, so that a pid of another one is never taken for one of ours: a digest, nothing personal."""
    try:
        named = Path("/etc/machine-id").read_text("ascii").strip()
    except (FileNotFoundError, PermissionError, UnicodeDecodeError):
        named = ""
    return digest(f"{named}\n{os.uname().nodename}".encode())[3:35]


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is no such process (a zombie is none)."""
    return _start_time(str(pid))


def _start_time(name: str) -> int | None:
    try:
        stat = Path(f"/proc/{name}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


@cache
def this_owner() -> Owner:
    """This process; a child that is forked asks anew."""
    ticks = _start_time("self")
    if ticks is None and not has_proc():
        raise CannotRun("there is no /proc, which says who holds what", hint=NO_PROC)
    assert ticks is not None, "this process is alive"
    namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:").strip("[]")  # noqa: PTH115
    return Owner(boot_id(), os.getpid(), ticks, machine_id(), namespace)


@cache
def _sees_itself() -> bool:
    """Whether /proc shows the pid namespace that we are in; `unshare --pid` alone leaves that of the parent."""
    return os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115


class _Lives:
    """The files that this process holds, by store: descriptor and path."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: dict[Path, tuple[int, Path]] = {}
        self.named: set[Path] = set()


_lives = _Lives()


def hold(root: Path, *, named: bool = False) -> Owner:
    """This process, which from now on holds its own file in the store at `root`: before the store names it anywhere.

    `named`: a document says so that outlives the process; then the file does too. Raises OSError.
    """
    me = this_owner()
    with _lives.lock:
        if named:
            _lives.named.add(root)
        known = _lives.held.get(root)
        if known is None or not known[1].exists():
            if known is not None:
                os.close(known[0])
            _lives.held[root] = _held(root / FOLDER, me)
            while len(_lives.held) > HELD_AT_ONCE:
                oldest = next(iter(_lives.held))
                _let_go(oldest, *_lives.held.pop(oldest))
    return me


def _held(folder: Path, me: Owner) -> tuple[int, Path]:
    """Locked before it has its name: who finds it free is right that its owner is dead."""
    _make(folder)
    path, aside = folder / me.mark, f".{me.mark}"
    with entry(path) as (name, at):
        fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=at)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.replace(aside, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            os.close(fd)
            raise
    return fd, path


def _make(folder: Path) -> None:
    """A directory of a store, and those above it."""
    if folder.is_dir():
        return
    _make(folder.parent)
    with suppress(FileExistsError), entry(folder) as (name, at):
        os.mkdir(name, 0o700, dir_fd=at)


def _let_go(root: Path, fd: int, path: Path) -> None:
    if root not in _lives.named:
        _unlinked(path)
    os.close(fd)


def _unlinked(path: Path) -> bool:
    try:
        with entry(path) as (name, at):
            os.unlink(name, dir_fd=at)
    except (OSError, BrokenContract):
        return False  # gone with its store, or not ours to remove any more: nothing depends on it
    return True


def _forked() -> None:
    this_owner.cache_clear()
    _sees_itself.cache_clear()
    _lives.lock = threading.Lock()
    for fd, _ in _lives.held.values():
        os.close(fd)  # the parent holds on to its own
    _lives.held.clear()
    _lives.named.clear()


@atexit.register
def _ending() -> None:
    while _lives.held:
        root, (fd, path) = _lives.held.popitem()
        _let_go(root, fd, path)


os.register_at_fork(after_in_child=_forked)


def _is_held(path: Path) -> bool | None:
    """Whether some process holds the file; None where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def state_of(owner: Owner, root: Path) -> OwnerState:
    """Whether an owner lives that the store at `root` names. Raises OSError where its file may not be looked at."""
    me = this_owner()
    if owner == me:
        return OwnerState.ALIVE
    held = _is_held(root / FOLDER / owner.mark)
    if held:
        return OwnerState.ALIVE
    here = owner.machine in ("", me.machine)
    if held is False and (here or owner.boot_id == me.boot_id):  # one kernel, or the machine was started anew since
        return OwnerState.DEAD
    if not owner.elsewhere():
        return OwnerState.ALIVE if start_time(owner.pid) == owner.start_time else OwnerState.DEAD
    if here and owner.boot_id != me.boot_id:
        return OwnerState.DEAD
    return OwnerState.UNKNOWN


def is_dead(owner: Owner, root: Path) -> bool:
    """True only where it is proven."""
    return state_of(owner, root) is OwnerState.DEAD


def is_abandoned(name: str, root: Path | None = None) -> bool:
    """Whether a name carries the mark of a process that is proven dead. `root`: the store whose process it was.

    By the pid alone where the mark is of here; else the process's own file tells.
    """
    found = _MARKED.search(name)
    if found is None:
        return False
    here, place, pid = this_owner().domain, "".join(found.group("machine", "boot", "namespace")), int(found["pid"])
    if place == here and _sees_itself():
        return start_time(pid) != int(found["start"])
    if root is None:
        return False
    held = _is_held(root / FOLDER / f"{place}-{pid}-{found['start']}")
    another_boot = place[:6] == here[:6] and place[6:12] != here[6:12]
    return not held and (another_boot or (held is False and place[6:12] == here[6:12]))


def may_be_in_use(name: str, root: Path) -> bool:
    """Whether a name carries the mark of a process that is not proven dead."""
    return _MARKED.search(name) is not None and not is_abandoned(name, root)


def others(root: Path) -> list[str]:
    """The marks of processes elsewhere that are not proven dead: what they do, no list of processes here shows."""
    own = this_owner().domain
    return [name for name in _marks(root) if name.partition("-")[0] != own and _may_live(root, name)]


def _may_live(root: Path, mark: str) -> bool:
    """Held; or free, and of another machine, whose locks may not be seen here."""
    here = this_owner().domain
    return bool(_is_held(root / FOLDER / mark)) or (mark[:6] != here[:6] and mark[6:12] != here[6:12])


def sweep(root: Path, wanted: frozenset[str] = frozenset()) -> int:
    """Remove the files that nobody holds, but for those that are `wanted` (marks); returns how many."""
    gone = 0
    for name in _marks(root):
        if name not in wanted and _is_held(root / FOLDER / name) is False:
            gone += _unlinked(root / FOLDER / name)
    return gone


def _marks(root: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(root / FOLDER) if re.fullmatch(MARK, name))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


NONCE = "KTX_LEASE_NONCE"  # in the environment of a command whose processes are to be found again
RTTIME: int = getattr(resource, "RLIMIT_RTTIME", -1)  # Linux's; without it the environment alone tells
BRAND = 1 << 44  # microseconds: the least limit that is a brand; nobody waits so long
_starting = threading.Lock()  # what is started while a brand is on is branded


def _unlocked() -> None:
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_unlocked)


def _brand_of(nonce: str) -> int:
    """A limit of real-time processor time that nobody reaches: a number that names the nonce."""
    return BRAND | int(digest(os.fsencode(nonce))[3:13], 16)


@contextmanager
def branded(nonce: str) -> Iterator[None]:
    """For the block, in which a command with this nonce starts: what starts has the brand from its beginning on. For
    any other command ("") a block in which nobody else's brand is on.
    """
    with _starting:
        limits = resource.getrlimit(RTTIME) if nonce and RTTIME >= 0 else None
        try:
            if limits is not None:
                with suppress(OSError, ValueError):  # as in `brand`
                    resource.setrlimit(RTTIME, (_brand_of(nonce), limits[1]))
            yield
        finally:
            if limits is not None:
                resource.setrlimit(RTTIME, limits)


def brand(pid: int, nonce: str) -> None:
    """Give a command the nonce where it cannot put it off: limits go on to all that it starts, whatever their session,
    environment, directory and parent are, and without privileges they can only be lowered. Source: getrlimit(2).

    It has the soft limit from its start on (`branded`), and now the hard one.
    """
    if RTTIME >= 0:
        with suppress(OSError, ValueError):  # it has ended; or what we run in has a lower limit: the environment tells
            resource.prlimit(pid, RTTIME, (_brand_of(nonce),) * 2)


def marked(nonce: str) -> list[int]:
    """Every process that was started by a command with this nonce in its environment, this one left out."""
    found, number, word = [], _brand_of(nonce), f"{NONCE}={nonce}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and int(name) != os.getpid() and (_has_brand(int(name), number) or _has_word(name, word)):
            found.append(int(name))
    return found


def _has_brand(pid: int, number: int) -> bool:
    try:
        return RTTIME >= 0 and number in resource.prlimit(pid, RTTIME)
    except (OSError, ValueError):
        return False  # it has ended, or is another user's


def _has_word(pid: str, word: bytes) -> bool:
    try:
        return word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or is another user's
