"""`test-run --trace`: what each test ran, opened and started, whatever the way; and what was not seen is said.

One traced run of a small suite, one case for each mechanism; the same under xdist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ktxkit.affected.rules.runtime_trace import Trace
from ktxkit.affected.runtime import environment, latest
from tests.support.commands import Ran, spawn
from tests.support.suites import OFF, Suite

LIB = """
import functools, json, os, pathlib
HERE = pathlib.Path(__file__).parent
TABLE = json.loads((HERE / "at_import.json").read_text())

def registered(function):
    return function

@registered
def leaf(): return 1
def middle(): return [leaf() for _ in range(1)]
def read(): return (HERE / "data.txt").read_text()
def absent(): return open(HERE / "not_there.txt").read()
def listed(): return sorted(os.listdir(HERE / "plugins")) + sorted(p.name for p in HERE.glob("*.cfg"))
def variable(): return os.environ.get("SOME_NAME", "x"), os.getenv("OTHER_NAME")
def whole(): return dict(os.environ)
def by_callback(): return sorted([2, 1], key=key)
def key(one): return one
def by_json(): return json.dumps({1}, default=lambda one: helper(one))
def helper(one): return list(one)
class Thing:
    kind = "thing"
    @property
    def size(self): return leaf()
    def __add__(self, other): return self.size
    def __getattr__(self, name): return leaf
async def later(): return leaf()
def generated():
    yield leaf()
"""
TESTS = """
import asyncio, importlib, multiprocessing, os, subprocess, sys, threading
import _thread, time
import pytest
import lib
HERE = os.path.dirname(os.path.abspath(__file__))

def sh(*argv, **more):
    assert subprocess.run(argv, cwd=HERE, **more).returncode == 0

@pytest.fixture(scope="module")
def wide(): return lib.by_callback()
@pytest.fixture
def asked(request): return request.getfixturevalue("wide")

def test_plain(): lib.middle()
def test_thread():
    one = threading.Thread(target=lib.middle); one.start(); one.join()
def test_script(): sh(sys.executable, "script.py")
def test_module(): sh(sys.executable, "-m", "script")
def test_shell(): sh("true; " + sys.executable + " script.py", shell=True)
def test_isolated(): sh(sys.executable, "-I", "-c", "import os")
def test_bare_environment(): sh(sys.executable, "script.py", env={})
def test_fork():
    pid = os.fork()
    if not pid:
        lib.middle(); os._exit(0)
    os.waitpid(pid, 0)
def test_fork_killed():
    pid = os.fork()
    if not pid:
        lib.middle(); os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
def test_multiprocessing():
    one = multiprocessing.get_context("fork").Process(target=lib.middle); one.start(); one.join()
def test_data(): lib.read()
def test_absent():
    with pytest.raises(OSError): lib.absent()
def test_listing(): lib.listed()
def test_variable(): lib.variable()
def test_whole(): lib.whole()
def test_dynamic(): getattr(importlib.import_module("dyn" + "amic"), "g" + "o")()
def test_callback(): lib.by_callback()
def test_json(): lib.by_json()
def test_protocols(): lib.Thing() + 1
def test_getattr(): lib.Thing().unknown()
def test_async(): asyncio.run(lib.later())
def test_generator(): list(lib.generated())
def test_fixture_first(wide): pass
def test_fixture_again(wide): pass
def test_fixture_asked(asked): pass
def test_raw_thread():
    lock = _thread.allocate_lock(); lock.acquire()
    _thread.start_new_thread(lambda: (lib.middle(), lock.release()), ())
    lock.acquire()
def test_profiler():
    import cProfile
    with cProfile.Profile(): lib.middle()
def test_closes_descriptors():
    os.closerange(20, 200); lib.middle()
def test_takes_the_profiler_away(): sys.setprofile(None)
def test_after_it(): lib.middle()
def test_child_reads():
    sh(sys.executable, "-c", "import os; open('data.txt').read(); os.environ['X_NAME'] = os.environ['HOME']")
def test_nothing(): pass
def test_zz_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
PLUGIN = """
import threading

def pytest_configure():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
FILES = {
    "lib.py": LIB,
    "test_all.py": TESTS,
    "at_import.json": "{}",
    "data.txt": "x",
    "a.cfg": "",
    "plugins/one.txt": "",
    "script.py": "import lib\nlib.middle()\n",
    "dynamic.py": "import lib\ndef go(): return lib.leaf()\n",
    "sitecustomize.py": "import os\nos.environ['OWN_SITE'] = '1'\n",
}
WORDS = [word for name in OFF if name != "xdist" for word in ("-p", f"no:{name}")]


def traced(suite: Suite, *words: str) -> Ran:
    """A traced run; a plugin from elsewhere has a thread that lives as long as pytest."""
    aside = suite.repo.path.parent / "aside"
    aside.mkdir(exist_ok=True)
    (aside / "has_a_thread.py").write_text(PLUGIN)
    env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{suite.repo.path}{os.pathsep}{aside}"}
    argv = ("--trace", "--scope", "full", "--", "-q", "-p", "has_a_thread", *WORDS, *words)
    ran = spawn("test-run", *argv, cwd=suite.repo.path, env=env)
    assert ran.status == 0, ran.out + ran.err
    return ran


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite.make(tmp_path_factory.mktemp("trace") / "s", FILES)


@pytest.fixture(scope="module")
def ran(suite: Suite) -> Ran:
    return traced(suite, "-p", "no:xdist")


@pytest.fixture(scope="module")
def trace(suite: Suite, ran: Ran) -> Trace:
    found = latest(suite.world)
    assert found is not None, ran.err
    return found


RUNS = {
    "thread": ("lib.py", "leaf"), "script": ("lib.py", "leaf"), "module": ("lib.py", "leaf"),
    "shell": ("lib.py", "leaf"), "fork": ("lib.py", "leaf"), "fork_killed": ("lib.py", "leaf"),
    "multiprocessing": ("lib.py", "leaf"), "dynamic": ("dynamic.py", "go"), "callback": ("lib.py", "key"),
    "json": ("lib.py", "helper"), "protocols": ("lib.py", "Thing.size"), "getattr": ("lib.py", "Thing.__getattr__"),
    "async": ("lib.py", "leaf"), "generator": ("lib.py", "leaf"), "fixture_first": ("lib.py", "key"),
    "fixture_again": ("lib.py", "key"), "fixture_asked": ("lib.py", "key"), "closes_descriptors": ("lib.py", "leaf"),
    "after_it": ("lib.py", "leaf"), "raw_thread": ("lib.py", "leaf"),
}  # fmt: skip
UNSEEN = {
    "shell": "not traced", "isolated": "not traced", "bare_environment": "not traced",
    "profiler": "profiler", "takes_the_profiler_away": "profiler", "zz_leaves_a_thread": "a thread of the suite lived",
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_what_a_test_ran_is_known(trace: Trace, name: str) -> None:
    assert f"test_all.py::test_{name}" in trace.tests_of(*RUNS[name])


def test_nobody_is_said_to_have_run_what_he_did_not(trace: Trace) -> None:
    assert trace.tests_of("lib.py", "leaf") & {"test_all.py::test_nothing", "test_all.py::test_data"} == set()
    assert trace.tests_of("lib.py", "read") == {"test_all.py::test_data"}


def test_what_may_have_been_missed_is_said(trace: Trace) -> None:
    found = {name.removeprefix("test_all.py::test_"): " ".join(why) for name, why in trace.incomplete.items()}
    assert set(found) == set(UNSEEN), found
    assert all(text in found[name] for name, text in UNSEEN.items()), found


def test_files_and_listings(trace: Trace) -> None:
    assert trace.tests_opening("data.txt") == {"test_all.py::test_data", "test_all.py::test_child_reads"}
    assert "test_all.py::test_script" in trace.tests_opening("script.py"), "opened by the interpreter itself"
    assert trace.tests_opening("not_there.txt") == {"test_all.py::test_absent"}
    assert trace.tests_listing("plugins") == {"test_all.py::test_listing"} == trace.tests_listing(".")
    assert trace.readers("data.txt") >= {("lib.py", "read")} and trace.readers("plugins") == {("lib.py", "listed")}
    assert trace.modules_reading("at_import.json") == {"lib.py"}
    assert trace.modules_running("lib.py", "registered") == {"lib.py"}
    assert trace.modules_running("lib.py", "leaf") == {"script.py"}


def test_variables_and_processes(trace: Trace) -> None:
    read = trace.variables()
    assert read["SOME_NAME"] == {("lib.py", "variable")} == read["OTHER_NAME"]
    assert read["*"] >= {("lib.py", "whole")} and "KTX_TRACE_DIR" not in read
    by_name = {one["name"]: one for one in trace.contexts}
    assert by_name["test_all.py::test_variable"]["environment"] == ["OTHER_NAME", "SOME_NAME"]
    assert by_name["test_all.py::test_whole"]["environment"] == ["*"]
    assert [argv[1:] for argv in by_name["test_all.py::test_module"]["processes"]] == [["-m", "script"]]


CALLS = {
    (("lib.py", "middle"), ("lib.py", "leaf")): "CALL",
    (("lib.py", "by_callback"), ("lib.py", "key")): "C:CALL",
    (("lib.py", "by_json"), ("lib.py", "helper")): "CALL",
    (("lib.py", "Thing.__add__"), ("lib.py", "Thing.size")): "LOAD_ATTR",
    (("test_all.py", "test_protocols"), ("lib.py", "Thing.__add__")): "BINARY_OP",
    (("test_all.py", "test_generator"), ("lib.py", "generated")): "C:CALL",
    (("test_all.py", "<module>"), ("lib.py", "<module>")): "IMPORT_NAME",
    (("script.py", "<module>"), ("lib.py", "middle")): "CALL",
}


def test_calls_and_how_they_came_about(trace: Trace) -> None:
    found = {(call["caller"], call["callee"]): call["how"] for call in trace.calls()}
    assert {pair: found.get(pair) for pair in CALLS} == CALLS


def test_the_map_says_what_it_was_made_of(suite: Suite, ran: Ran, trace: Trace) -> None:
    assert trace.header["tree"] == suite.repo.tree and trace.header["tests"] == TESTS.count("def test_")
    assert trace.blob("lib.py") == suite.repo.git("rev-parse", "HEAD:lib.py")
    assert trace.blob("not_there.txt") is None
    assert f"traced {trace.header['tests']} tests, {len(UNSEEN)} of them not completely" in ran.err
    assert "a thread of the suite lived when it ended (1)" in ran.err
    record = suite.records[0]
    assert record["environment"]["variables"]["PYTHONPATH"].startswith(str(suite.repo.path))
    assert not list((suite.repo.path / ".ktx/affected/raw").iterdir()), "what the processes wrote is gone"


def test_a_suite_of_its_own_site_has_it(trace: Trace) -> None:
    assert set(trace.definitions("sitecustomize.py")) == {"<module>"}


def test_the_tracer_is_no_file_of_the_run(suite: Suite) -> None:
    """What starts it is written into the store just before: it would be code that no commit has."""
    looks = "from ktxkit.ledger.recording import selection; import sys; sys.modules['sitecustomize']; "
    looks += "print(*selection.loaded())"
    (suite.repo.path / "sitecustomize.py").rename(suite.repo.path / "own.py")
    env = {**suite.world.env, **environment(suite.world, "some-run")}
    ran = subprocess.run([sys.executable, "-c", looks], env=env, check=True, capture_output=True, text=True)
    assert "/traced/begin.py" in ran.stdout and ".ktx/" not in ran.stdout, ran.stdout
    (suite.repo.path / "own.py").rename(suite.repo.path / "sitecustomize.py")


def test_under_xdist_a_test_is_told_by_its_worker(suite: Suite, trace: Trace) -> None:
    words = "test_thread or test_fork or fixture_again or test_script or test_nothing"
    ran = traced(suite, "-n", "2", "-k", words)
    found = latest(suite.world)
    assert found is not None and found.header["run"] != trace.header["run"], ran.err
    for name in ("thread", "fork", "fork_killed", "fixture_again", "script"):
        assert f"test_all.py::test_{name}" in found.tests_of(*RUNS[name]), name
    assert "test_all.py::test_nothing" not in found.tests_of("lib.py", "leaf")
    assert found.incomplete == {}


def test_a_changed_tree_leaves_no_map(suite: Suite, trace: Trace) -> None:
    suite.repo.write("test_w.py", "def test_w(): open('written.txt', 'w').close()\n")
    ran = traced(suite, "test_w.py", "-p", "no:xdist")
    assert "no trace is kept: the tree that it ran on is not known, or changed" in ran.err
    (suite.repo.path / "test_w.py").unlink()
    (suite.repo.path / "written.txt").unlink()


def test_two_profilers_are_refused(suite: Suite) -> None:
    ran = spawn("test-run", "--trace", "--cprofile", "--", "-q", cwd=suite.repo.path)
    assert ran.status == 2 and "--trace and --cprofile" in ran.err


def test_a_torn_map_is_a_broken_contract(suite: Suite, trace: Trace, tmp_path: Path) -> None:
    from ktxkit.affected.runtime import load
    from ktxkit.base.errors import BrokenContract

    place = suite.repo.path / f".ktx/affected/traces/{trace.header['run']}.ndjson"
    data = place.read_bytes()
    for cut in (data[: len(data) // 2], data[:-30], b"", data.replace(b'"record":"end"', b'"record":"enb"')):
        torn = tmp_path / "t.ndjson"
        torn.write_bytes(cut)
        with pytest.raises(BrokenContract):
            load(torn)
    assert json.loads(data.splitlines()[0])["kind"] == "affected-trace"
    assert subprocess.run(["git", "status", "--porcelain"], cwd=suite.repo.path, capture_output=True).stdout == b""
