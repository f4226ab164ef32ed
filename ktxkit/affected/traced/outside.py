"""What a process does beside calls: files, listings, processes (an audit hook), variables (`os.environ` itself)."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any
from weakref import WeakSet

from ktxkit.affected.traced.tracer import ARGUMENT, ARGUMENTS, OWN, Tracer
from ktxkit.affected.traced.writing import plain

IMPORT_SYSTEM = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
BY_DESCRIPTOR = ("_rmtree_safe_fd", "fwalk", "_fwalk")  # names there are relative to a descriptor, not to the directory


class Listener(Tracer):
    """The tracer with its ears. `runners`: threads that nothing of the repository asked for, as a plugin's."""

    def __init__(self, directory: str, top: str, token: str) -> None:
        super().__init__(directory, top, token)
        self.runners: WeakSet[threading.Thread] = WeakSet()

    def thread(self, frame: Any) -> None:
        """A call into `threading`: where a thread begins, whose it is depends on who is on the stack."""
        one = frame.f_locals.get("self") if frame.f_code.co_name == "start" else None
        if isinstance(one, threading.Thread) and self.caller(frame)[0] is None:
            self.runners.add(one)

    def touched(self, what: str, name: Any) -> None:
        """A file was opened, or a directory listed."""
        if isinstance(name, int):
            return
        frame = sys._getframe(3)
        if frame.f_code.co_filename in IMPORT_SYSTEM:
            return
        if frame.f_code.co_name in BY_DESCRIPTOR:
            return
        name = "." if name is None else name
        path = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""
        if self.places.get(path) == []:
            return
        for one in self.inside(path):
            if (what, one) not in self.seen.facts:
                caller, _ = self.caller(frame)
                self.fact_by(what, one, caller)
                self.at_import(frame, "import-" + what, one)

    def fact_by(self, what: str, one: Any, caller: Any) -> None:
        self.seen.facts.add((what, one))
        by = -1 if caller is None else self.identify(str(self.path_of(caller.f_code.co_filename)), caller.f_code)
        self.put(what, self.seen.token, one, by)

    def started(self, argv: Any) -> None:
        """A process begins: it counts against those that say who they are."""
        words = [argv] if isinstance(argv, str | bytes | os.PathLike) else list(argv or ())
        kept = [plain(os.fsdecode(word))[:ARGUMENT] for word in words[:ARGUMENTS] if _is_word(word)]
        caller, _ = self.caller(sys._getframe(3))
        by = -1 if caller is None else self.identify(str(self.path_of(caller.f_code.co_filename)), caller.f_code)
        self.put("spawn", self.seen.token, kept, by)
        self.flush()

    def variable(self, name: str) -> None:
        if name.startswith("KTX_TRACE_"):
            return
        facts = self.seen.facts
        if ("environ", name) not in facts and ("environ", "*") not in facts:
            frame = sys._getframe(1)
            caller, _ = self.caller(frame)
            if caller is not None:
                self.fact_by("environ", name, caller)
                self.at_import(frame, "import-environ", name)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        reader = EVENTS.get(event)
        if reader is not None and self.pid == self.getpid():
            try:
                reader(self, args)
            except Exception as error:  # noqa: BLE001 - raised here it would stop what the suite does
                self.fail(error)


def _opened(tracer: Listener, args: tuple[Any, ...]) -> None:
    if args[2] is None or args[2] & os.O_ACCMODE != os.O_WRONLY:
        tracer.touched("open", args[0])


def _extension(tracer: Listener, args: tuple[Any, ...]) -> None:
    if args[1]:
        for one in tracer.inside(args[1]):
            tracer.fact("open", one, -1)
            tracer.incomplete("compiled code")


def _profiled(tracer: Listener, args: tuple[Any, ...]) -> None:
    """Somebody else's profiler: from here on calls are not seen. A thread that begins sets ours."""
    name = sys._getframe(2).f_code.co_filename
    if name != threading.__file__ and not name.startswith(OWN):
        tracer.incomplete("a profiler took our place")


def _is_word(word: Any) -> bool:
    return isinstance(word, str | bytes | os.PathLike)


EVENTS = {
    "open": _opened,
    "os.listdir": lambda tracer, args: tracer.touched("list", args[0]),
    "os.scandir": lambda tracer, args: tracer.touched("list", args[0]),
    "sqlite3.connect": lambda tracer, args: tracer.touched("open", args[0]),
    "import": _extension,
    "subprocess.Popen": lambda tracer, args: tracer.started(args[1]),
    "os.posix_spawn": lambda tracer, args: tracer.started(args[1]),
    "os.exec": lambda tracer, args: tracer.started(args[1]),
    "os.system": lambda tracer, args: tracer.started(args[0]),
    "sys.setprofile": _profiled,
}
