"""What a process does beside calls: files, listings, processes (an audit hook), variables (`os.environ` itself).

The beginning of a traced process: loaded by the `sitecustomize` that `shim_text` makes, in any interpreter.

It is no import of ktxkit: the interpreter may have none, or the project may be another version of it.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from typing import Any
from weakref import WeakSet

from ktxkit.affected.traced.tracer import ARGUMENT, ARGUMENTS, CONTEXT, OWN, CallTracer, plain

IMPORT_SYSTEM = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
BY_DESCRIPTOR = ("_rmtree_safe_fd", "fwalk", "_fwalk")  # names there are relative to a descriptor, not to the directory


class Listener(CallTracer):
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
        frame = sys._getframe(2).f_back  # None where the interpreter itself opens, as a script that it begins
        code = None if frame is None else frame.f_code
        if code is not None and (code.co_filename in IMPORT_SYSTEM or code.co_name in BY_DESCRIPTOR):
            return
        name = "." if name is None else name
        path = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""
        if self.places.get(path) == []:
            return
        for one in self.inside(path):
            if (what, one) not in self.record.facts:
                caller, _ = self.caller(frame)
                self.fact_by(what, one, caller)
                self.at_import(frame, "import-" + what, one)

    def fact_by(self, what: str, name: Any, caller: Any) -> None:
        self.record.facts.add((what, name))
        by = -1 if caller is None else self.identify(str(self.path_of(caller.f_code.co_filename)), caller.f_code)
        self.put(what, self.record.token, name, by)

    def started(self, argv: Any) -> None:
        """A process begins: it counts against those that say who they are."""
        words = [argv] if isinstance(argv, str | bytes | os.PathLike) else list(argv or ())
        kept = [plain(os.fsdecode(word))[:ARGUMENT] for word in words[:ARGUMENTS] if _is_word(word)]
        caller, _ = self.caller(sys._getframe(2).f_back)
        by = -1 if caller is None else self.identify(str(self.path_of(caller.f_code.co_filename)), caller.f_code)
        self.put("spawn", self.record.token, kept, by)
        self.flush()

    def variable(self, name: str) -> None:
        if name.startswith("KTX_TRACE_"):
            return
        facts = self.record.facts
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


DIRECTORY, TOP = "KTX_TRACE_DIR", "KTX_TRACE_TOP"
MODULE = "_ktxkit_tracer"  # where the process's own copy of this module is found

SHIM = """import importlib.machinery, importlib.util, os, sys, types
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [one for one in sys.path if one != here]
if os.environ.get("KTX_TRACE_DIR") and "_ktxkit_tracer" not in sys.modules:
    for name, place in {packages!r}:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [place]
    try:
        from ktxkit.affected.traced import begin
        begin.begin()
        sys.modules["_ktxkit_tracer"] = begin
    except (ImportError, OSError, SyntaxError, AttributeError, KeyError, TypeError):
        pass  # not traced: whoever started it misses its first line
    for name in [one for one in sys.modules if one.partition(".")[0] == "ktxkit"]:
        del sys.modules[name]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if spec is not None and spec.loader is not None:  # the one that this one stands before
    sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
else:
    del __file__  # none of the project's files, so that nothing of the run comes from one that no commit has
"""


def shim_text() -> str:
    """The `sitecustomize.py` that loads this package, and then the one that it stands before."""
    affected = os.path.dirname(os.path.abspath(OWN))  # noqa: PTH100, PTH120 - a string for a generated file
    library = os.path.dirname(affected)  # noqa: PTH120
    names = ("ktxkit", "ktxkit.affected", "ktxkit.affected.traced")
    return SHIM.format(packages=tuple(zip(names, (library, affected, OWN), strict=True)))


_tracer: Listener | None = None


class Environ(os._Environ):  # type: ignore[type-arg]
    """`os.environ` that tells what is read; a copy of it all reads `*`."""

    def __getitem__(self, key: Any) -> Any:
        if _tracer is not None and isinstance(key, str):
            _tracer.variable(key)
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        if _tracer is not None:
            _tracer.variable("*")
        return super().__iter__()


def _raw_thread(function: Any, args: Any, kwargs: Any = None) -> int:
    """`_thread.start_new_thread` for those who go past `threading`: their thread is told of, too."""

    def traced(*inner: Any, **more: Any) -> None:
        if _tracer is not None:
            sys.setprofile(_tracer.profile)
        function(*inner, **more)

    return _start(traced if callable(function) else function, args, kwargs or {})


_start = _thread.start_new_thread


def _watch(tracer: Listener) -> None:
    """What multiprocessing and threading do without an audit event."""

    def spawned(frame: Any) -> None:
        if frame.f_code.co_name == "spawnv_passfds":
            tracer.started(frame.f_locals.get("args"))

    def served(frame: Any) -> None:
        if frame.f_code.co_name == "connect_to_new_process":
            tracer.incomplete("a fork server: another test may have begun it")

    library = os.path.dirname(os.__file__)  # noqa: PTH120 - as code objects have it
    tracer.watch(f"{library}/multiprocessing/util.py", spawned)
    tracer.watch(f"{library}/multiprocessing/forkserver.py", served)
    tracer.watch(f"{library}/threading.py", tracer.thread)


def begin() -> None:
    """Trace this process from here on. Raises OSError where its file cannot be made."""
    global _tracer
    tracer = Listener(os.environ[DIRECTORY], os.environ[TOP], os.environ.get(CONTEXT, ""))
    tracer.hello("start")
    if tracer.faults:
        raise OSError("the trace cannot be written")
    _tracer = tracer
    _watch(tracer)
    os.register_at_fork(after_in_child=tracer.in_child)
    sys.addaudithook(tracer.audit)
    os.environ.__class__ = Environ
    _thread.start_new_thread = _thread.start_new = _raw_thread
    tracer.install()
