"""Landlock: a process gives up writing outside of some places, for itself and all that it starts. Linux, no privilege.

Run as a program, it does so and becomes a command: `python landlock.py PLACE ... -- COMMAND ...`. Below a place that
begins with `=` files can be written, and no entry can be made or removed. Where the kernel can (6.12), the process
signals none but those that it starts. Reading and running stay free, and so do modes, owners and times of files, which
the kernel does not restrain. Source: landlock(7).
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys
from collections.abc import Sequence

LEAST = 2  # of the kernel's versions: from it on files can be renamed from directory to directory
CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on every processor that has them
VERSION = 1  # asks `CREATE` for the version
BENEATH = 1  # a rule about what lies below a place
NO_NEW_PRIVILEGES = 38  # prctl
OF_FILES = 1 << 1  # write
OF_DIRECTORIES = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
SIGNALS = (6, 1 << 1)  # since which version, and the scope: LANDLOCK_SCOPE_SIGNAL
RENAME, TRUNCATE = (2, 1 << 13), (3, 1 << 14)  # since which version, and the right
CANNOT = 126  # the status of a command that was not started, as the shell has it
Places = Sequence[str | bytes | os.PathLike[str]]


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's version of Landlock; 0 where it has none, or has it switched off."""
    try:
        return max(0, _call(CREATE, None, 0, VERSION))
    except (OSError, AttributeError):
        return 0


def restrict(places: Places) -> None:
    """From now on this process writes below these places only; they must exist. Raises OSError."""
    known = version()
    file_rights = OF_FILES | (TRUNCATE[1] if known >= TRUNCATE[0] else 0)
    rights = file_rights | OF_DIRECTORIES | (RENAME[1] if known >= RENAME[0] else 0)
    # handled file rights, handled network rights, scopes: a kernel that knows less of it wants a shorter structure
    known_fields = (rights, 0, SIGNALS[1]) if known >= SIGNALS[0] else (rights,)
    handled = (ctypes.c_uint64 * len(known_fields))(*known_fields)
    rules = _call(CREATE, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    for place in places:
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


def main(argv: Sequence[str]) -> int:
    """Restrict, then become the command."""
    border = argv.index("--")
    places, command = argv[:border], argv[border + 1 :]
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would the command
            signal.signal(number, signal.SIG_DFL)
        restrict(places)
        os.execvp(command[0], [*command])
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]} isolated: {error.strerror or error}\n")
    return CANNOT


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
