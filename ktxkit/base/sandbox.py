"""What a command may touch and take beside time: where it writes, memory, processes, open files, disk.

Run as a program (`starter`), it confines itself and becomes a command: `isolate PLACE ... -- COMMAND ...`, or
`limit memory=N ... -- COMMAND ...`.

`isolate` is Landlock: a process gives up writing outside of the places, for itself and all that it starts, and needs no
privilege for that. Below a place that begins with `=` files can be written, and no entry can be made or removed. Where
the kernel can (6.12), the process signals none but those that it starts. Reading and running stay free, and so do
modes, owners and times of files, which the kernel does not restrain. Source: landlock(7).

`limit` takes on limits of the kernel, which hold for each process (getrlimit(2)); what all of a command's processes
take together is looked at while it runs (`Usage`). The kernel counts processes by user, and none of root's.

Each isolated unit starts an interpreter for it, so little is imported: half of its time would go for `signal`,
`collections.abc` and `typing`, and compiling this file.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Places = Sequence[str | bytes | os.PathLike[str]]

LEAST = 2  # of the kernel's versions: from it on files can be renamed from directory to directory
CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on every processor that has them
VERSION = 1  # asks `CREATE` for the version
BENEATH = 1  # a rule about what lies below a place
NO_NEW_PRIVILEGES = 38  # prctl
OF_FILES = 1 << 1  # write
OF_DIRECTORIES = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
SIGNALS = (6, 1 << 1)  # since which version, and the scope: LANDLOCK_SCOPE_SIGNAL
RENAME, TRUNCATE = (2, 1 << 13), (3, 1 << 14)  # since which version, and the right
OF_ONE_PROCESS = {"memory": "RLIMIT_DATA", "files": "RLIMIT_NOFILE", "disk": "RLIMIT_FSIZE"}  # of `resource`
IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ: by Python, and so by what it becomes, if they were left so
CANNOT = 126  # the status of a command that was not started, as the shell has it
PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import sandbox; sys.exit(sandbox.main(sys.argv[1:]))"


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 where it has none, or has it switched off."""
    try:
        return max(0, _call(CREATE, None, 0, VERSION))
    except (OSError, AttributeError):
        return 0


def restrict(paths: Places) -> None:
    """From now on this process writes below these places only; they must exist. Raises OSError."""
    known = landlock_version()
    file_rights = OF_FILES | (TRUNCATE[1] if known >= TRUNCATE[0] else 0)
    rights = file_rights | OF_DIRECTORIES | (RENAME[1] if known >= RENAME[0] else 0)
    # handled file rights, handled network rights, scopes: a kernel that knows less of it wants a shorter structure
    known_fields = (rights, 0, SIGNALS[1]) if known >= SIGNALS[0] else (rights,)
    handled = (ctypes.c_uint64 * len(known_fields))(*known_fields)
    rules = _call(CREATE, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    for place in paths:
        name = os.fsdecode(place)
        only_files = name.startswith("=")
        fd = os.open(name.removeprefix("="), os.O_PATH | os.O_CLOEXEC)
        try:
            here = rights if not only_files and stat.S_ISDIR(os.fstat(fd).st_mode) else file_rights
            _call(ADD, rules, BENEATH, ctypes.byref(_Rule(here, fd)), 0)
        finally:
            os.close(fd)
    if ctypes.CDLL(None, use_errno=True).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _call(RESTRICT, rules, 0)
    os.close(rules)


def _call(number: int, *arguments: object) -> int:
    answer = int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer


class Usage:
    """What a command's processes take together. `limits`: by name, in bytes and numbers; `places`: where it writes."""

    def __init__(self, limits: Mapping[str, int], paths: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.limits = limits
        self._places = paths
        self._before = disk_usage(paths) if "disk" in limits else 0

    def excess(self, pids: Sequence[int]) -> str:
        """What is more than it may be, for people; empty where nothing is. `pids`: the processes."""
        if len(pids) > self.limits.get("processes", len(pids)):
            return f"it had more than {self.limits['processes']} processes"
        if "memory" in self.limits and sum(map(memory_of, pids)) > self.limits["memory"]:
            return f"it took more than {self.limits['memory']} bytes of memory"
        if "disk" in self.limits and disk_usage(self._places) - self._before > self.limits["disk"]:
            return f"it wrote more than {self.limits['disk']} bytes"
        return ""


def memory_of(pid: int) -> int:
    """Bytes of memory that are a process's own, or shared without a file. Source: proc(5), /proc/PID/status."""
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            lines = [line.split() for line in stream if line.startswith((b"RssAnon:", b"RssShmem:"))]
    except OSError:
        return 0  # it has ended
    return sum(int(line[1]) * 1024 for line in lines)


def disk_usage(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Bytes on the disk below those places; no link is followed, and what goes away meanwhile is nothing."""
    total, pending = 0, [os.fspath(place) for place in paths]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue  # gate-ok: it is gone, or may not be read: it is not counted
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gate-ok: it is gone
            total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                pending.append(entry.path)
    return total


def starter(*words: str) -> tuple[str, ...]:
    """What a command is started by: `words` are those of `main` before `--`."""
    return (sys.executable, "-I", "-S", "-c", PROGRAM, os.path.dirname(__file__), *words, "--")  # noqa: PTH120


def take_on(limits: Mapping[str, int]) -> None:
    """Take the limits upon this process and all that it starts. Raises OSError, ValueError."""
    import resource

    for name, number in limits.items():
        kind = getattr(resource, OF_ONE_PROCESS.get(name, "RLIMIT_NPROC"))
        wanted = number if name in OF_ONE_PROCESS else number + _tasks(os.getuid())
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard),) * 2)


def _tasks(uid: int) -> int:
    """How many tasks a user has now: the limit is of all of them."""
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                found += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue  # gate-ok: it has ended
    return found


def main(argv: Sequence[str]) -> int:
    """Confine this process, then become the command."""
    border = argv.index("--")
    limiting, words, command = argv[0] == "limit", argv[1:border], argv[border + 1 :]
    try:
        for number in IGNORED:
            ctypes.CDLL(None).signal(number, None)
        if limiting:
            take_on({name: int(value) for name, _, value in (word.partition("=") for word in words)})
        else:
            restrict(words)
        os.execvp(command[0], [*command])
    except (OSError, ValueError) as error:
        reason = f"within its limits: {error}" if limiting else f"isolated: {getattr(error, 'strerror', '') or error}"
        sys.stderr.write(f"cannot start {command[0]} {reason}\n")
    return CANNOT
