"""In an xdist worker: what only it sees (collected, deselected, fixture costs) goes to the controller when it ends.

The recorder of a run, in the process that controls it. A fault of it is counted and never reaches the tests.

Which test the traced process is at: pytest's hooks tell the tracer (`tracer.py`), which then knows whose a call is.

What runs once for many (a fixture of a wider scope, the collection of a module) is a context of its own that each of
its users names, whichever of them ran first.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ktxkit.base.clock import timestamp
from ktxkit.base.rules.digests import digest_of
from ktxkit.ledger.event_log import encode
from ktxkit.ledger.recording.attempts import Attempts, FixtureCosts
from ktxkit.ledger.recording.opening import Opening, deselected_by, open_run
from ktxkit.ledger.recording.selection import loaded
from ktxkit.ledger.rules import payload
from ktxkit.ledger.rules.fold import INTERNAL, INTERRUPTED
from ktxkit.ledger.rules.payload import clean
from ktxkit.store.world import World


class WorkerRecorder:
    """Writes nothing; the controller does."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.fixtures = FixtureCosts()
        self.configured: list[str] = config.workerinput["ktxkit"]["configured"]
        self.deselected: list[str] = []
        self.as_configured = 0
        self.before: list[str] = []
        config.pluginmanager.register(self.fixtures, "ktxkit-fixtures")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += [item.nodeid for item in items]
        self.as_configured += len(items) if deselected_by(self.configured) else 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        self.before = [item.nodeid for item in items]
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        selected = [item.nodeid for item in getattr(session, "items", ())]
        self.config.workeroutput["ktxkit"] = {
            "selected": len(selected),
            "collected": len(self.before),
            "deselected": len(self.deselected),
            "removed": removed(self.before, selected, self.deselected),
            **({"deselectedByConfiguration": self.as_configured} if self.as_configured else {}),
        }
        self.config.workeroutput["ktxkit-fixtures"] = self.fixtures.rows()
        plugins = self.config.pluginmanager.get_plugins()
        self.config.workeroutput["ktxkit-loaded"] = loaded(plugins, files_of(session))


def files_of(session: pytest.Session) -> set[str]:
    """The files that the selected tests stand in."""
    return {str(item.path) for item in getattr(session, "items", ())}


def removed(before: list[str], selected: list[str], deselected: list[str]) -> int:
    """How many collected tests are neither selected nor deselected, by their ids: no double makes up for one."""
    if not deselected and before == selected:
        return 0  # as in most runs
    return (Counter(before) - Counter(selected) - Counter(deselected)).total()


Hook = TypeVar("Hook", bound=Callable[..., Any])
WARNINGS_KEPT = 1000  # different warnings whose text is recorded; all are counted
RUN_VARIABLE = "KTX_TEST_RUN"  # tells child processes of the tests in which run they are


def guarded(hook: Hook) -> Hook:
    """A hook of ours whose fault is counted."""

    @functools.wraps(hook)
    def inner(self: Recorder, *args: Any) -> Any:
        try:
            return hook(self, *args)
        except Exception as error:  # noqa: BLE001 - recording faults never change what pytest says; `fault` counts them
            self.fault(error)

    return inner  # type: ignore[return-value]


class Recorder:
    """Writes the events of one run as they happen."""

    def __init__(self, config: pytest.Config, world: World) -> None:
        self._now = time.perf_counter
        self.config, self.world = config, world
        self.opening: Opening = open_run(config, world)
        self.attempts = Attempts(self.opening.sink, encode, self.opening.artifacts.keep)
        self.fixtures = FixtureCosts()
        self.faults = 0
        self.first_fault = ""
        self.warnings: Counter[str] = Counter()
        self.deselected: list[str] = []
        self.as_configured = 0
        self.collected_before: list[str] | None = None
        self.session: pytest.Session | None = None
        self.started = self.finished = False
        self.early_status = INTERNAL  # of an end before there is a session that has one
        self.attempts.begin(self._now())
        self.said_ids = False
        self.loaded: set[str] = set()
        self._outer_run = os.environ.get(RUN_VARIABLE)
        config.pluginmanager.register(self.fixtures, "ktxkit-fixtures")

    def emit(self, event: str, **more: Any) -> None:
        """Write a record; keys with the value None are left out."""
        record = {"event": event, "t": round(max(0.0, self.attempts.elapsed), 6)}
        self.opening.put(encode(record | {key: value for key, value in more.items() if value is not None}))

    def fault(self, error: BaseException) -> None:
        self.faults += 1
        self.first_fault = self.first_fault or f"{type(error).__name__}: {error}"[:500]

    # -- the run and its phases

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session
        self._begin()

    def _begin(self) -> None:
        """The first event, before the session where pytest does not come so far."""
        if self.started:
            return
        self.started = True
        self.attempts.begin(self._now())
        self.attempts.each = getattr(self.config.option, "dist", "no") == "each"
        os.environ[RUN_VARIABLE] = self.opening.run
        self.opening.put(encode(self.opening.run_started(self._outer_run)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        return (yield from self._phase("collection"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        return (yield from self._phase("tests"))

    def _phase(self, name: str) -> Generator[None, Any, Any]:
        self._edge(name, "start")
        try:
            return (yield)
        finally:
            self._edge(name, "end")

    @guarded
    def _edge(self, phase: str, edge: str) -> None:
        self.emit("phase", phase=phase, edge=edge)
        if edge == "end":
            self.opening.flush()

    # -- collection

    @guarded
    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += [item.nodeid for item in items]
        self.as_configured += len(items) if deselected_by(self.opening.configured) else 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        self.collected_before = [item.nodeid for item in items]
        return (yield)

    @guarded
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self.config.pluginmanager.hasplugin("dsession"):
            self._collected([item.nodeid for item in session.items])
            self.loaded |= {*files_of(session), *loaded()}  # a test may take a module away again
            from ktxkit.ledger.recording.attempts import shadowed

            for found in shadowed(session.items, self.config.rootpath):
                self.emit("duplicate", **found)

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self.emit("worker", worker=node.gateway.id, what="collected", selected=len(ids))
        if not self.said_ids:
            self._collected(list(ids))

    def _collected(self, ids: list[str]) -> None:
        self.said_ids = True
        plain = ids if "".join(ids).isascii() else [payload.clean(nodeid)[0] for nodeid in ids]
        body = "".join([quoted(nodeid) + "\n" for nodeid in sorted(plain)]).encode("ascii")
        before = self.collected_before
        self.emit(
            "collected",
            collected=None if before is None else len(before),
            selected=len(ids),
            deselected=None if before is None else len(self.deselected),
            removed=None if before is None else removed(before, ids, self.deselected),
            deselectedByConfiguration=self.as_configured or None,
            ids=self.opening.artifacts.keep(body),
            orderDigest=digest_of(plain),
        )

    @guarded
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "passed":
            return
        plain, escaped = payload.clean(report.nodeid)
        made: dict[str, Any] = {"node": plain, "outcome": "error" if report.failed else "skipped"}
        if escaped:
            made["escaped"] = True
        if report.failed:
            made["error"] = self.attempts.error(report)
        elif isinstance(report.longrepr, tuple):  # path, line and why
            made["reason"] = payload.head(payload.clean(str(report.longrepr[2]))[0], 500)
        self.emit("collect_report", **made)

    # -- tests

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        try:
            if not self.attempts.each:
                self.attempts.started(nodeid)
        except Exception as error:  # noqa: BLE001 - as in `guarded`, without its call: this path runs for every test
            self.fault(error)

    # Last, after the terminal: there pytest turns a test with failed subtests into a failed one.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        try:
            self.attempts.report(report)
        except Exception as error:  # noqa: BLE001 - as above
            self.fault(error)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if nodeid in self.attempts.running:
            try:
                self.attempts.finished(nodeid)
            except Exception as error:  # noqa: BLE001 - as above
                self.fault(error)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    @guarded
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        timer = (float(settings.timeout or 0), str(settings.method))
        if timer != self.opening.timer and timer[0] > 0:
            self.opening.timer = timer
            self.emit("timer", seconds=timer[0], method=timer[1])

    @guarded
    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        text = payload.head(payload.clean(str(warning_message.message))[0], 1000)
        category = getattr(warning_message.category, "__name__", "Warning")[:200]
        key = f"{category}\0{text}\0{warning_message.filename}\0{warning_message.lineno}"
        if not self.warnings[key] and len(self.warnings) < WARNINGS_KEPT:
            place = payload.clean(str(warning_message.filename))[0][-1000:]
            line = max(0, int(warning_message.lineno or 0))
            self.emit("warning", category=category, message=text, when=when, path=place, line=line)
        self.warnings[key] += 1

    # -- workers

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_testnodeready(self, node: Any) -> None:
        self.emit("worker", worker=node.gateway.id, what="ready", pid=node.workerinfo.get("pid"))

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        self.fixtures.add(output.get("ktxkit-fixtures", ()))
        self.loaded |= set(output.get("ktxkit-loaded", ()))
        what = "crashed" if error else "down"
        self.emit("worker", worker=node.gateway.id, what=what, **output.get("ktxkit", {}))

    # -- ends

    @guarded
    def pytest_internalerror(self, excrepr: Any) -> None:
        self._begin()
        self.emit("internal_error", text=payload.describe(str(excrepr), self.opening.artifacts.keep))

    @guarded
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._begin()
        self.early_status = INTERRUPTED if (code := getattr(excinfo.value, "returncode", None)) is None else int(code)
        message = payload.head(payload.clean(str(excinfo.value))[0], 500)
        self.emit("interrupted", by=excinfo.type.__name__[:100], message=message or None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            self._finish(int(session.exitstatus), str(session.shouldfail or session.shouldstop or ""))

    @guarded
    def _finish(self, status: int, stop: str) -> None:
        self.finished = True
        rows = self.fixtures.rows()
        if rows:
            self.emit("fixtures", rows=rows)
        self.opening.put_last(
            {
                "event": "run_finished",
                "t": round(self.attempts.elapsed, 6),
                "at": timestamp(self.world.clock.now()),
                "exitStatus": status,
                **({"stop": payload.head(payload.clean(stop)[0], 500)} if stop else {}),
                **({"warnings": sum(self.warnings.values())} if self.warnings else {}),
                **self.opening.health(self.faults, self.first_fault),
                **self.opening.tree_after(),
                **self.opening.unversioned(loaded(self.config.pluginmanager.get_plugins(), self.loaded)),
            }
        )

    def pytest_unconfigure(self) -> None:
        if not self.finished:
            self._finish_early()
        if os.environ.get(RUN_VARIABLE) == self.opening.run:
            if self._outer_run is None:
                del os.environ[RUN_VARIABLE]
            else:
                os.environ[RUN_VARIABLE] = self._outer_run
        try:
            said = self.opening.end(self.faults, self.first_fault)
        except Exception as error:  # noqa: BLE001 - the tests are done and have their status
            said = f"ktxkit: run {self.opening.run}: the ledger could not be written: {error}"
        if said:
            sys.stdout.flush()  # both may be one pipe: the line is not to stand in the middle of pytest's summary
            sys.stderr.write(said + "\n")

    @guarded
    def _finish_early(self) -> None:
        """An end before the session's: `pytest_configure` or `pytest_sessionstart` raised, pytest.exit among them."""
        self._begin()
        self._finish(self.early_status if self.session is None else int(self.session.exitstatus), "")

    def pytest_report_header(self) -> str:
        return f"ktxkit: run {self.opening.run}"


TRACKER = "multiprocessing.resource_tracker"


def tracer() -> Any:
    """The tracer of this process where it is ours to drive, else None (a pytest inside a test drives nothing)."""
    module = sys.modules.get("_ktxkit_tracer")
    found = getattr(module, "_tracer", None)
    return None if found is None or found.driven or found.token else found


class Contexts:
    """Drives one process's tracer."""

    def __init__(self, found: Any) -> None:
        self.tracer = found
        found.driven = True
        self.collected: dict[str, list[str]] = {}
        self.fixtures: dict[int, list[str]] = {}
        self._kept: list[Any] = []  # definitions stay, so that no later one has their id
        self.threads = set(threading.enumerate())  # the test runner's own
        self.children = _children()

    def _inside(self, kind: str, name: str) -> tuple[str, str]:
        token = self.tracer.context(kind, clean(name)[0])
        return token, self.tracer.switch(token)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        token, before = self._inside("collection", collector.nodeid)
        self.collected.setdefault(collector.nodeid, []).append(token)
        try:
            return (yield)
        finally:
            self.tracer.switch(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if str(getattr(fixturedef, "scope", "function")) == "function":
            return (yield)
        token, before = self._inside("fixture", f"{fixturedef.baseid}::{fixturedef.argname}")
        self._kept.append(fixturedef)
        self.fixtures.setdefault(id(fixturedef), []).append(token)
        try:
            return (yield)
        finally:
            self.tracer.switch(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        _, before = self._inside("test", item.nodeid)
        try:
            return (yield)
        finally:
            self._end(item, before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """While it still is known which fixtures were used, also those that it asked for by name as it ran."""
        request = getattr(item, "_request", None)
        known = getattr(request, "_fixture_defs", None)
        if isinstance(known, dict):
            uses = [token for found in known.values() for token in self.fixtures.get(id(found), ())]
            if uses:
                self.tracer.put("uses", self.tracer.record.token, list(dict.fromkeys(uses)))
        elif request is not None:
            self.tracer.incomplete("which fixtures it used is not known")

    def _end(self, item: pytest.Item, before: str) -> None:
        uses = [token for node in item.listchain() for token in self.collected.get(node.nodeid, ())]
        if uses:
            self.tracer.put("uses", self.tracer.record.token, uses)
        if set(threading.enumerate()) - self.threads - set(self.tracer.runners):
            self.tracer.incomplete("a thread of the suite lived when it ended")
        if _children() - self.children:
            self.tracer.incomplete("a process of the suite lived when it ended")
        self.tracer.switch(before)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.tracer.switch("")
        self.tracer.put("faults", self.tracer.faults, self.tracer.fault)
        self.tracer.flush()


def _children() -> set[str]:
    """Processes that this one started and that live, but for the one that multiprocessing keeps (proc(5))."""
    found: set[str] = set()
    try:
        for task in Path("/proc/self/task").iterdir():
            found |= set((task / "children").read_text("ascii").split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return found  # a kernel that does not tell, or a thread that ended meanwhile
    tracker = getattr(sys.modules.get(TRACKER), "_resource_tracker", None)
    return found - {str(getattr(tracker, "_pid", None))}
