"""The beginning of a traced process: loaded by the `sitecustomize` that `shim_text` makes, in any interpreter.

It is no import of ktxkit: the interpreter may have none, or the project may be another version of it.
"""

from __future__ import annotations

import _thread
import os
import sys
from typing import Any

from ktxkit.affected.traced.outside import Listener
from ktxkit.affected.traced.tracer import CONTEXT, OWN

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
