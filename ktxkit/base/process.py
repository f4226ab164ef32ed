"""Children that wait to open a pipe which nobody else opens are ended: they would wait for ever, and we for them.

Whoever can write where a child reads (a unit, the repository's configuration) can put a FIFO there. Source: fifo(7);
proc(5), /proc/PID/wchan and /proc/PID/syscall.

Ctrl-C and SIGTERM as a flag: long work stops where it can keep its evidence.

Child processes: own process group, stdin closed, a deadline that kills the group.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

from ktxkit.base import owners
from ktxkit.base.errors import CannotRun, of_machinery
from ktxkit.base.removal import StorePath, entry
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable

LOOK = 0.5  # seconds between looks
PATIENCE = 2.0  # seconds that the other end has to be opened
WAITING = "wait_for_partner"  # the kernel's function in which open(2) of a FIFO sleeps
NAMES = {2: 1, 257: 2, 56: 2}  # open(2), openat(2) of x86-64, openat of arm64: which field of `syscall` is the name
NAME_LIMIT = 4096  # bytes


class Watchable(Protocol):
    """A process that was started as the leader of its own process group; `returncode` is None while it runs."""

    pid: int
    returncode: int | None


class PipeWatch:
    """Looks at the children that it was told of, in a thread of its own. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._children: dict[int, Watchable] = {}
        self._since: dict[int, float] = {}  # when a process was first seen waiting
        self._ended: dict[int, str] = {}  # child and the pipe that it, or a child of its own, waited for
        self._thread: threading.Thread | None = None

    def watch(self, child: Watchable) -> None:
        """Look at a child until it has ended."""
        with self._lock:
            self._children[child.pid] = child
            if self._thread is None:
                self._thread = threading.Thread(target=self._looking, name="pipe-watch", daemon=True)
                self._thread.start()
        self._some.set()

    def pipe_of(self, pid: int) -> str:
        """The pipe for which a child was ended, asked once after its end; empty where it was not."""
        with self._lock:
            self._children.pop(pid, None)
            return self._ended.pop(pid, "") if self._ended else ""

    def _looking(self) -> None:
        while True:
            self._some.wait()
            time.sleep(LOOK)
            with self._lock:
                alive = {pid: child for pid, child in self._children.items() if child.returncode is None}
                self._children = dict(alive)  # `pipe_of` takes out of it while this thread looks
                if not alive:
                    self._some.clear()
                    self._since.clear()
            waiting = {pid: (root, place) for root in alive for pid, place in waits(root)}
            now = time.monotonic()
            self._since = {pid: self._since.get(pid, now) for pid in waiting}
            for pid, (root, place) in waiting.items():
                if now - self._since[pid] >= PATIENCE:
                    self._end(alive[root], place)

    def _end(self, child: Watchable, place: str) -> None:
        with self._lock:
            self._ended[child.pid] = place
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # gate-ok: it ended by itself meanwhile


def waits(root: int) -> list[tuple[int, str]]:
    """The process or descendants of it that wait to open a pipe, with its name as they gave it (`?`: not known)."""
    found, pending = [], [root]
    while pending:
        pid = pending.pop()
        place = Path(f"/proc/{pid}")
        try:
            if (place / "wchan").read_text("ascii") == WAITING:
                found.append((pid, _name(place)))
            pending += map(int, (place / f"task/{pid}/children").read_text("ascii").split())
        except (OSError, ValueError):
            continue  # gate-ok: it has ended, or the kernel does not say
    return found


def _name(place: Path) -> str:
    try:
        fields = (place / "syscall").read_text("ascii").split()
        with open(place / "mem", "rb", buffering=0) as memory:
            memory.seek(int(fields[NAMES[int(fields[0])]], 16))
            return os.fsdecode(memory.read(NAME_LIMIT).partition(b"\0")[0])
    except (OSError, ValueError, LookupError):
        return "?"  # it is only not named


_watch = PipeWatch()


def watch(child: Watchable) -> None:
    """End a child that waits to open a pipe for longer than `PATIENCE`."""
    _watch.watch(child)


def pipe_of(pid: int) -> str:
    """As `PipeWatch.pipe_of`, of this process's one watch."""
    return _watch.pipe_of(pid)


def _anew() -> None:
    global _watch
    _watch = PipeWatch()


os.register_at_fork(after_in_child=_anew)


@contextmanager
def stopping(flag: threading.Event) -> Iterator[None]:
    """While the block runs, SIGINT, SIGTERM and SIGHUP set `flag`; a second one of them raises KeyboardInterrupt.

    In a thread that is not the main one nothing is installed: the flag is then the caller's to set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(_number: int, _frame: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


Child = subprocess.Popen[bytes]
KILL_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
POLL = 0.5  # seconds; a child's end wakes us at once, this is for a signal that another thread took
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
NO_INPUT = NO_OUTPUT = subprocess.DEVNULL
PIPE = subprocess.PIPE
DeadlinePassed = subprocess.TimeoutExpired  # what a child's `wait` raises at its limit
NOT_STARTED = 127  # the status of a command that could not be started, as the shell has it


class Completed(NamedTuple):
    """How a child ended. `status` is negative for a signal, as subprocess has it."""

    argv: tuple[str, ...]
    status: int
    out: bytes = b""
    err: bytes = b""
    timed_out: bool = False
    pipe: str = ""  # that it waited for, and was ended


def signal_name(number: int) -> str:
    """`SIGKILL`; the number of one that has no name (real-time signals, signal(7))."""
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)


def ending(status: int) -> str:
    """How a child ended, for people: `ended with status 3`, `was ended by signal SIGKILL`."""
    return f"was ended by signal {signal_name(-status)}" if status < 0 else f"ended with status {status}"


class Command(NamedTuple):
    """A command to start: its words, directory, whole environment, and `limit` in seconds (None: it may take long).

    `pass_fds` stay open in it: a lock's descriptor keeps the lock until the child has ended too. `no_pipes`: it is
    ended where it waits to open a pipe that nobody else opens (`ktxkit.base.process`).
    """

    argv: Sequence[str | bytes | os.PathLike[str]]
    cwd: Path
    env: Mapping[str, str]
    limit: float | None = None
    pass_fds: Collection[int] = ()
    no_pipes: bool = False


def start(
    command: Command,
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    pipesize: int = -1,
) -> subprocess.Popen[bytes]:
    """Start a child as the leader of its own process group. Raises CannotRun where it cannot be started.

    `pipesize`: bytes that it may say before it has to wait until somebody reads (-1: what the system gives). Whoever
    waits for it keeps its limit.
    """
    try:
        with owners.branded(command.env.get(owners.NONCE, "")), _standing(command.cwd) as cwd:
            child = subprocess.Popen(
                command.argv,
                cwd=cwd,
                env=command.env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                process_group=0,
                close_fds=True,
                pass_fds=command.pass_fds,
                pipesize=pipesize,
            )
    except (OSError, ValueError) as error:
        name = os.fsdecode(command.argv[0])
        reason = error.strerror if isinstance(error, OSError) else str(error)
        ours = of_machinery(error)
        hint = "the machine is out of it: end something, then run it again" if ours else owners.not_started()
        raise CannotRun(
            f"cannot start {name}: {reason}", location=str(command.cwd), hint=hint, machinery=ours
        ) from error
    if command.no_pipes:
        watch(child)
    if owners.NONCE in command.env:
        owners.brand(child.pid, command.env[owners.NONCE])
    return child


@contextmanager
def _standing(cwd: Path) -> Iterator[str]:
    """A name of a directory to start in: one of a store is reached without following links."""
    if not isinstance(cwd, StorePath):
        yield os.fspath(cwd)
        return
    with entry(cwd) as (name, at):
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield f"/proc/self/fd/{fd}"  # of the child, which has it until its command begins
    finally:
        os.close(fd)


def words_of(pid: int) -> list[str]:
    """The command line of a process; empty where it cannot be known. Source: proc(5), /proc/PID/cmdline."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []  # it has ended, or /proc is not there or hidden: nothing is known of it
    return [os.fsdecode(word) for word in data.removesuffix(b"\0").split(b"\0")] if data else []


def end_reader(child: Child) -> None:
    """Close the pipes of a child that answers over them, and wait for its end; it may have ended by itself before."""
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    child.wait()


def run(
    command: Command,
    *,
    stdin: bytes | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Completed:
    """Run a child to its end; at its limit its group is ended. Raises CannotRun where it cannot be started."""
    child = start(
        command,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
    )
    late = False
    try:
        out, err = child.communicate(stdin, timeout=command.limit)
    except subprocess.TimeoutExpired:
        late = True
        end_group(child)
        out, err = child.communicate()
    except BaseException:
        end_group(child)
        raise
    argv = tuple(os.fsdecode(word) for word in command.argv)
    pipe = pipe_of(child.pid) if command.no_pipes else ""
    return Completed(argv, child.returncode, out or b"", err or b"", late, pipe)


def attached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdout: int | None) -> int:
    """Run a child in our place: our streams, our process group; signals sent to us alone are passed on to it.

    `stdout`: where the child's goes, None for ours: a command that prints a document of its own has to keep it apart.
    Returns its status, negative for a signal as subprocess has it. Raises CannotRun where it cannot be started. What a
    terminal sends goes to the whole group already, so only what a process sent (`si_code` <= 0) is passed on.
    """
    caught = {signal.SIGCHLD, *FORWARDED}
    previous = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, a child's status is lost
    old = signal.pthread_sigmask(signal.SIG_BLOCK, caught)
    try:
        child = _start_attached(argv, cwd, env, stdout, old)
        while child.poll() is None:
            said = signal.sigtimedwait(caught, POLL)
            if said is not None and said.si_signo != signal.SIGCHLD and said.si_code <= 0:
                child.send_signal(said.si_signo)
        return child.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
        if previous is not None:
            signal.signal(signal.SIGCHLD, previous)


def _start_attached(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: int | None, mask: set[signal.Signals | int]
) -> subprocess.Popen[bytes]:
    def unblocked() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        return subprocess.Popen(argv, cwd=cwd, env=env, stdout=stdout, preexec_fn=unblocked)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotRun(
            f"cannot start {argv[0]}: {reason}", location=str(cwd), hint="check its name and PATH"
        ) from error


def wait_or_end(child: Child, limit: float | None, started: Callable[[int], None] | None = None) -> bool:
    """Wait for a child, `limit` seconds at most; False where it was late. Its whole group is ended then, in any case.

    `started` is told the process group first. Whatever is raised meanwhile ends the group and goes on.
    """
    in_time = True
    try:
        if started is not None:
            started(child.pid)
        child.wait(limit)
    except DeadlinePassed:
        in_time = False
        end_group(child)
    except BaseException:
        end_group(child)
        raise
    signal_group(child.pid, signal.SIGKILL)
    return in_time


def end_group(child: subprocess.Popen[bytes], grace: float = KILL_GRACE) -> None:
    """End a child and everything in its group: SIGTERM, then SIGKILL after `grace` seconds."""
    signal_group(child.pid, signal.SIGTERM)
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        pass  # gate-ok: the kill below is the answer to it
    signal_group(child.pid, signal.SIGKILL)
    child.wait()


def signal_group(pgid: int, number: int) -> bool:
    """Signal a process group. False where it is gone."""
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return False
    return True


def peak_rss_of_children() -> int:
    """Bytes of memory that the largest child which was waited for had at its peak (getrusage counts kilobytes)."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def ancestors(pid: int) -> list[int]:
    """The process itself and those it descends from, as far as they can be asked. Source: proc(5), /proc/PID/stat."""
    found: list[int] = []
    while pid > 0 and pid not in found:
        found.append(pid)
        try:
            told = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            break  # gate-ok: it ended meanwhile, or may not be asked
        pid = int(told[told.rindex(b")") + 1 :].split()[1])
    return found


def cpu_count() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def has_open(path: Path) -> bool:
    """Whether some process that we may look at has the file open."""
    return bool(opened_by(path))


def opened_by(path: Path) -> list[int]:
    """The processes that we may look at which have a file open."""
    wanted = os.path.realpath(path)
    pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return [int(pid) for pid in pids if wanted in _open_files(pid)]


def holders(fd: int) -> list[str]:
    """Who holds flock on an open file, for people: `process 12 (sh job.sh), which runs since ...`.

    Source: proc(5), /proc/locks. A file system that has a device number of its own (btrfs) is known by the inode alone;
    where who took the lock has ended, whoever inherited it has the file open.
    """
    info = os.fstat(fd)
    device = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}"
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    except OSError:
        return []  # nothing is known
    held = [(words[4], words[5]) for words in lines if len(words) > 5 and words[1] == "FLOCK"]
    found = [int(pid) for pid, place in held if place == f"{device}:{info.st_ino}"]
    found = found or [int(pid) for pid, place in held if place.endswith(f":{info.st_ino}")]
    path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    alive = [pid for pid in found if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110
    heirs = [pid for pid in opened_by(Path(path)) if pid != os.getpid()] if found and not alive else []
    return [described(pid) for pid in dict.fromkeys(alive or heirs)]


def described(pid: int) -> str:
    """A process for people: its number, its command line, since when it runs, and whether it was stopped."""
    words = printable(os.fsencode(" ".join(words_of(pid))))[:200]
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return f"process {pid}, which has ended meanwhile"
    ago = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - ago))
    stopped = f", and is stopped (kill -CONT {pid} lets it go on)" if fields[0] in (b"T", b"t") else ""
    return f"process {pid} ({words}), which runs since {since}{stopped}"


def _open_files(pid: str) -> list[str]:
    try:
        return [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH115, PTH208
    except OSError:
        return []  # it ended meanwhile, or belongs to somebody else
