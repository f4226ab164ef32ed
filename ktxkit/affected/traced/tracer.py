"""The file that one traced process writes: JSON lines, appended; each process and each fork has its own.

A process whose contexts pytest drives writes when a context ends; every other at once, so that `os._exit`, `exec` and a
kill lose nothing.

Which definitions a process runs and who calls them, told by the interpreter (`sys.setprofile`).
"""

from __future__ import annotations

import errno
import json
import opcode
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Writer:
    """Appends lines. It never raises: what could not be written is counted."""

    def __init__(self, directory: str) -> None:
        self._write, self._open, self._fstat, self._close = os.write, os.open, os.fstat, os.close
        self.getpid = os.getpid
        self.directory = directory
        self.driven = False
        self.begin_file()

    def begin_file(self) -> None:
        """A process that has written nothing yet."""
        self.pid = self.getpid()
        self.fd, self.file = -1, (0, 0)
        self.faults, self.fault = 0, ""
        self.lines: list[str] = []

    def forget_file(self) -> None:
        """In a forked child: the descriptor is the parent's."""
        fd = self.fd
        self.begin_file()
        if fd >= 0:
            self._close(fd)

    def fail(self, error: Exception) -> None:
        """Something is not recorded; the first reason is kept. Where nobody asks at the end, it is written now."""
        self.faults += 1
        self.fault = self.fault or f"{type(error).__name__}: {error}"[:300]
        if self.faults == 1 and not self.driven:
            self.put("faults", 1, plain(self.fault))

    def put(self, *parts: Any) -> None:
        self.lines.append(json.dumps(parts, separators=(",", ":")))
        if not self.driven:
            self.flush()

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        if not lines:
            return
        data = ("\n" + "\n".join(lines) + "\n").encode("ascii")
        try:
            self._ready()
            while data:
                data = data[self._write(self.fd, data) :]
        except OSError as error:
            self.fail(error)

    def _ready(self) -> None:
        """A descriptor that is ours: a suite may have closed it and have another file under its number by now."""
        try:
            info = self._fstat(self.fd) if self.fd >= 0 else None
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            info = None
        if info is None or (info.st_dev, info.st_ino) != self.file:
            self.fd = self._open(f"{self.directory}/{self.pid}-{start_time()}.ndjson", FLAGS, 0o600)
            info = self._fstat(self.fd)
            self.file = (info.st_dev, info.st_ino)


def plain(text: str) -> str:
    """Text that JSON in ASCII carries to any reader: a lone surrogate is written as its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def start_time() -> int:
    """Clock ticks since boot at which this process began (proc(5), field 22): a pid alone is reused."""
    try:
        with open("/proc/self/stat", "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


CONTEXT = "KTX_TRACE_CONTEXT"
PASSED_OVER = ("/.git/", "/.ktx/", "/__pycache__/", "/.pytest_cache/", "/.hypothesis/", "/site-packages/")
ARGUMENTS, ARGUMENT = 64, 1000  # words of a command that are kept, characters of each
OWN = os.path.dirname(__file__)  # noqa: PTH120 - as code objects have it


class ContextRecord:
    """What one context saw, until it is written."""

    __slots__ = ("edges", "facts", "ran", "token")

    def __init__(self, token: str) -> None:
        self.token = token
        self.edges: set[tuple[str, str, str, str]] = set()
        self.ran: set[int] = set()
        self.facts: set[Any] = set()


class CallTracer(Writer):
    """Follows the calls of one process. `token`: the context in which it began."""

    def __init__(self, directory: str, top: str, token: str) -> None:
        super().__init__(directory)
        self._getcwd, self._realpath = os.getcwd, os.path.realpath
        self.top, self.token = top.rstrip("/") + "/", token
        # A code's file: its path in the repository, None for a foreign one, "" for a foreign one that is watched.
        self.paths: dict[str, str | None] = {}
        self.watched: dict[str, Callable[[Any], None]] = {}
        self.places: dict[str, list[str]] = {}
        self.count = 0
        self.begin_record()

    def begin_record(self) -> None:
        """Nothing is told yet: definitions have no numbers in this process's file."""
        self.ids: dict[tuple[str, str], int] = {}
        self.reported: set[Any] = set()
        self.record = ContextRecord(self.token)

    def watch(self, name: str, listener: Callable[[Any], None]) -> None:
        """Be told of the calls into a foreign file."""
        self.paths[name] = ""
        self.watched[name] = listener

    def hello(self, kind: str) -> None:
        argv = [plain(word) for word in sys.orig_argv[:ARGUMENTS]]
        about = {"pid": self.pid, "ppid": os.getppid(), "start": start_time(), "kind": kind, "argv": argv}
        self.put("hello", self.record.token, about)
        self.flush()

    def in_child(self) -> None:
        """A fork: its own file, and nothing of the parent's that is not written yet."""
        self.token = self.record.token
        self.driven = False
        self.forget_file()
        self.begin_record()
        self.hello("fork")

    # -- contexts

    def context(self, kind: str, name: str) -> str:
        """A new context; the one that runs is left as it is."""
        self.count += 1
        token = f"{self.pid}.{self.count}"
        self.put("context", token, kind, name)
        return token

    def switch(self, token: str) -> str:
        """Make a context the running one; returns the one before."""
        if threading.getprofile() != self.profile:
            self.incomplete("threads were given another profiler")
        self.install()
        before = self.record.token
        self._write_seen()
        self.record = ContextRecord(token)
        os.environ[CONTEXT] = token
        return before

    def _write_seen(self) -> None:
        if self.record.ran and self.driven:
            self.lines.append(json.dumps(["ran", self.record.token, sorted(self.record.ran)], separators=(",", ":")))
        self.flush()

    def incomplete(self, why: str) -> None:
        self.fact("not", why)

    def fact(self, *parts: Any) -> None:
        """Something that the running context did, told once."""
        if parts not in self.record.facts:
            self.record.facts.add(parts)
            self.put(parts[0], self.record.token, *parts[1:])

    # -- calls

    def profile(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            name = code.co_filename
            path = self.paths.get(name, name)
            if path is not None:
                back = frame.f_back
                above = back.f_code if back is not None else code
                key = (above.co_filename, above.co_qualname, name, code.co_qualname)
                if key not in self.record.edges:
                    self.record.edges.add(key)
                    try:
                        self._call(frame, name)
                    except Exception as error:  # noqa: BLE001 - raised here it would be the suite's
                        self.fail(error)

    def _call(self, frame: Any, name: str) -> None:
        """A call that the running context has not made before."""
        path = self.path_of(name)
        if path is None:
            if name in self.watched:
                self.watched[name](frame)
            return
        own = self.identify(path, frame.f_code)
        if own not in self.record.ran:
            self.record.ran.add(own)
            if not self.driven:
                self.put("ran", self.record.token, [own])
        caller, via = self.caller(frame.f_back)
        if caller is not None:
            code = caller.f_code
            above = self.identify(str(self.path_of(code.co_filename)), code)
            edge = (above, own)
            if edge not in self.reported:
                self.reported.add(edge)
                self.put("edge", above, own, _operation(code, caller.f_lasti), caller.f_lineno or 0, via)
        if frame.f_code.co_name != "<module>":
            self.at_import(frame.f_back, "import-ran", own)

    def at_import(self, frame: Any, *what: Any) -> None:
        """Say of which module's body this is a part, where it is one: it happens once in a process."""
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>":
                path = self.path_of(code.co_filename)
                if path is not None:
                    key = (path, *what)
                    if key not in self.reported:
                        self.reported.add(key)
                        self.put(what[0], path, *what[1:])
                    return
            frame = frame.f_back

    def caller(self, frame: Any) -> tuple[Any, str]:
        """The nearest frame of the repository, and the first foreign function between."""
        via = ""
        while frame is not None:
            code = frame.f_code
            if self.path_of(code.co_filename) is not None:
                return frame, via
            via = via or f"{code.co_filename.rpartition('/')[2]}:{code.co_qualname}"[:200]
            frame = frame.f_back
        return None, via

    def identify(self, path: str, code: Any) -> int:
        key = (path, code.co_qualname)
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.ids)
            self.put("def", found, path, plain(code.co_qualname), code.co_firstlineno)
        return found

    def path_of(self, name: str) -> str | None:
        """The path in the repository of a code's file, or None."""
        try:
            return self.paths[name] or None
        except KeyError:
            found = [] if name.startswith(("<", OWN)) else self.inside(name)
            made = self.paths[name] = found[0] if found else None
            return made

    def install(self) -> None:
        """Be told of calls, in this thread and in those that will begin; also after somebody else was."""
        if sys.getprofile() != self.profile:
            sys.setprofile(self.profile)
        if threading.getprofile() != self.profile:
            threading.setprofile(self.profile)

    def inside(self, name: str) -> list[str]:
        """Paths in the repository of a file: where it leads, and the link that it was named by."""
        found = self.places.get(name)
        if found is None or not name.startswith("/"):
            try:
                place = os.path.normpath(os.path.join(self._getcwd(), name))  # noqa: PTH118
                real = self._realpath(place)
            except (OSError, ValueError):
                return []
            found = [self.relative(one) for one in dict.fromkeys((real, place))]
            found = [one for one in found if one]
            self.places[name] = found
        return [plain(one) for one in found]

    def relative(self, path: str) -> str:
        """A place in the repository by its path there, `.` for the top; empty for what is no content of it."""
        whole = path + "/"
        if not whole.startswith(self.top) or whole.startswith(self.directory + "/"):
            return ""
        return "" if any(part in whole for part in PASSED_OVER) else whole[len(self.top) : -1] or "."


def _operation(code: Any, offset: int) -> str:
    """The instruction at which a caller stands: CALL, or the protocol that it is, and `C:` where C is between.

    CPython 3.11 and later step over the inline caches of a call from Python to Python before it begins.
    """
    names, direct = code.co_code, False
    while 0 < offset < len(names) and opcode.opname[names[offset]] == "CACHE":
        offset, direct = offset - 2, True
    if not 0 <= offset < len(names):
        return ""
    name: str = opcode.opname[names[offset]]
    return name if direct or not name.startswith("CALL") else "C:" + name
