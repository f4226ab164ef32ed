"""The situations in which other recorders lose or overclaim, each with the record that is right.

The names are those of the hard cases that this part was built against.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.suites import Suite

FIVE = "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\ndef test_d(): {}\ndef test_e(): pass\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "suite"


def five(place: Path, d: str, head: str = "import os, signal, sys, time, pytest\n") -> Suite:
    """Five tests; the fourth does what is asked."""
    return Suite.make(place, {"test_m.py": head + FIVE.format(d)})


def ids(*letters: str) -> list[str]:
    return [f"test_m.py::test_{letter}" for letter in letters]


def flying(record: dict[str, Any]) -> list[str]:
    return [one["test"] for one in record.get("inFlight", ())]


KILLS = {
    "T01-os-exit-0": ("os._exit(0)", 0),
    "T02-sigkill": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "T03-sigterm": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -signal.SIGTERM),
    "T04-segfault": ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
}


@pytest.mark.parametrize("name", KILLS)
def test_a_killed_run_is_a_partial_record(place: Path, name: str) -> None:
    body, status = KILLS[name]
    suite = five(place, body)
    assert suite.run().status == status
    record = suite.record
    assert (record["state"], record["verdict"]) == ("killed", "incomplete")
    assert flying(record) == ids("d") and record["notRun"] == ids("e")
    assert record["counts"]["passed"] == 3 and record["counts"]["interrupted"] == 1 and record["counts"]["notRun"] == 1
    assert record["scope"]["kind"] == "partial" and not record["authoritative"]
    assert "exitStatus" not in record, "nobody saw how it ended"


def test_t05_keyboard_interrupt(place: Path) -> None:
    suite = five(place, "raise KeyboardInterrupt")
    assert suite.run().status == 2
    record = suite.record
    assert (record["state"], record["verdict"], record["exitStatus"]) == ("interrupted", "incomplete", 2)
    assert flying(record) == ids("d") and record["notRun"] == ids("e")
    assert record["counts"]["interrupted"] == 1 and record["scope"]["kind"] == "partial"


def test_t06_pytest_exit_0_is_no_pass(place: Path) -> None:
    suite = five(place, "pytest.exit('enough', returncode=0)")
    assert suite.run().status == 0
    record = suite.record
    assert (record["state"], record["verdict"]) == ("exited", "incomplete")
    assert flying(record) == ids("d") and record["notRun"] == ids("e") and "enough" in record["stop"]


def test_t07_sys_exit_in_a_test_is_a_failure(place: Path) -> None:
    suite = five(place, "sys.exit(0)")
    assert suite.run().status == 1
    assert suite.record["counts"]["failed"] == 1 and suite.record["scope"]["kind"] == "full"


def test_t08_collection_error(place: Path) -> None:
    suite = Suite.make(place, {"test_m.py": FIVE.format("pass"), "test_bad.py": "import nothing_of_that_name\n"})
    assert suite.run().status == 2
    record = suite.record
    assert (record["state"], record["verdict"]) == ("collection_error", "failed")
    assert record["counts"]["collectionErrors"] == 1 and record["counts"]["notRun"] == 5
    assert record["notRun"] == ids(*"abcde")
    assert record["collectErrors"][0]["node"] == "test_bad.py" and "passed" not in record["counts"]
    assert record["scope"]["kind"] == "partial"


@pytest.mark.parametrize("how", [["--continue-on-collection-errors"], ["-n", "2"]], ids=["continue", "xdist"])
def test_t09_a_collection_error_that_does_not_stop(place: Path, how: list[str]) -> None:
    suite = Suite.make(place, {"test_m.py": FIVE.format("pass"), "test_bad.py": "import nothing_of_that_name\n"})
    ended = suite.run(*how, plugins=("xdist",) if "-n" in how else ())
    assert ended.status == 1
    record = suite.record
    assert record["counts"]["collectionErrors"] == 1 and record["counts"]["passed"] == 5
    assert record["verdict"] == "failed" and record["reported"] == {"passed": 5, "errors": 1} == ended.summary
    assert record["scope"] == {"kind": "partial", "why": ["1 not collected: errors"]}


def test_t10_timeout_by_thread_ends_the_process(place: Path) -> None:
    suite = five(place, "time.sleep(30)")
    assert suite.run("--timeout", "0.3", "--timeout-method", "thread", plugins=("timeout",)).status == 1
    record = suite.record
    assert record["state"] == "killed" and flying(record) == ids("d") and record["notRun"] == ids("e")
    assert suite.events("timer")[0]["method"] == "thread", "what a runner needs to tell the cause is recorded"


def test_t11_timeout_by_signal_is_a_failure_with_its_cause(place: Path) -> None:
    suite = five(place, "time.sleep(30)")
    assert suite.run("--timeout", "0.3", "--timeout-method", "signal", plugins=("timeout",)).status == 1
    record = suite.record
    assert record["counts"]["failed"] == 1 and record["counts"]["passed"] == 4
    assert record["failures"][0]["cause"] == "timeout"


def test_t12_worker_crash(place: Path) -> None:
    suite = five(place, "os._exit(7)")
    suite.run("-n", "2", plugins=("xdist",))
    record = suite.record
    assert record["counts"]["crashed"] == 1 and record["counts"]["passed"] == 4
    (failure,) = record["failures"]
    assert failure["test"] == "test_m.py::test_d" and failure["outcome"] == "crashed" and failure["worker"]
    assert record["crashedWorkers"] and record["state"] == "finished" and record["verdict"] == "failed"
    replaced = {event["worker"] for event in suite.events("worker") if event["what"] == "ready"}
    assert len(replaced) == 3, "the worker that replaced it is recorded"


def test_t14_more_crashes_than_are_allowed(place: Path) -> None:
    suite = Suite.make(
        place, {"test_m.py": "import os, pytest\n@pytest.mark.parametrize('i', range(6))\ndef test_x(i): os._exit(3)\n"}
    )
    ended = suite.run("-n", "1", "--max-worker-restart", "1", plugins=("xdist",))
    assert ended.status != 0
    record = suite.record
    assert record["counts"]["crashed"] == 2 and record["counts"]["notRun"] == 4
    assert record["verdict"] == "failed" and record["scope"]["kind"] == "partial"


def test_t14_internal_error_keeps_the_rows(place: Path) -> None:
    hook = "def pytest_runtest_logfinish(nodeid):\n    if nodeid.endswith('test_c'): raise RuntimeError('plugin bug')\n"
    suite = five(place, "pass")
    suite.repo.write("conftest.py", hook)
    assert suite.run().status == 3
    record = suite.record
    assert record["state"] == "internal_error" and record["counts"]["passed"] == 3
    assert record["verdict"] == "incomplete" and record["notRun"] == ids("d", "e")


RETRY = "import pathlib\ndef test_x():\n    p = pathlib.Path('ran')\n    n = len(p.read_text()) if p.exists() else 0\n"


def test_t15_each_attempt_is_a_row(place: Path) -> None:
    suite = Suite.make(place, {"test_m.py": RETRY + "    p.write_text('x' * (n + 1))\n    assert n == 2\n"})
    ended = suite.run("--reruns", "3", plugins=("rerunfailures",))
    assert ended.status == 0
    results = suite.events("test_result")
    assert [(one.get("attempt", 1), one["outcome"], one.get("retried")) for one in results] == [
        (1, "failed", True),
        (2, "failed", True),
        (3, "passed", None),
    ]
    record = suite.record
    assert record["counts"]["passed"] == 1 and record["counts"]["passedOnRetry"] == 1
    assert record["reported"] == {"passed": 1, "rerun": 2} == ended.summary
    assert not record["authoritative"] and "the caller lets more pass: --reruns 3" in record["against"]


def test_t16_crash_and_reruns_under_xdist(place: Path) -> None:
    suite = Suite.make(place, {"test_m.py": "import os\n" + RETRY + "    p.write_text('x')\n    n or os._exit(9)\n"})
    suite.run("-n", "1", "--reruns", "2", plugins=("xdist", "rerunfailures"))
    record = suite.record
    outcomes = [(one.get("attempt", 1), one["outcome"]) for one in suite.events("test_result")]
    assert outcomes[0] == (1, "crashed") and len(outcomes) >= 1
    assert record["counts"].get("passed", 0) + record["counts"].get("crashed", 0) == 1


def test_t17_subtests(place: Path) -> None:
    body = "def test_x(subtests):\n    for i in range(4):\n        with subtests.test('part', i=i): assert i != 2\n"
    suite = Suite.make(place, {"test_m.py": body + "def test_y(): pass\n"})
    ended = suite.run()
    record = suite.record
    assert record["counts"]["failed"] == 1 and record["counts"]["passed"] == 1 and record["counts"]["selected"] == 2
    assert record["counts"]["subtests"] == 4 and record["counts"]["subtestsFailed"] == 1
    assert record["reported"] == {"failed": 2, "passed": 1} == ended.summary
    rows = suite.events("subtest_result")
    assert [row["label"] for row in rows] == [f"part(i={i})" for i in range(4)]
    assert {row["test"] for row in rows} == {"test_m.py::test_x"}


HOSTILE = [
    "new\nline", "tab\t", "nul\0", "lone\ud800", "esc\x1b[31m", "sep\u2028", "quote\"'\\", "a::b", "x[y]z", "",
    "l" * 300, "ünï", " ", "\udcff", "..", "/abs", "$(x)", "😀",
]  # fmt: skip


def test_t18_hostile_ids_are_kept_as_given(place: Path) -> None:
    mark = f"@pytest.mark.parametrize('i', range({len(HOSTILE)}), ids={HOSTILE!a})"
    text = f"import pytest\n{mark}\ndef test_x(i): pass\n"
    suite = Suite.make(place, {"test_m.py": text})
    suite.repo.write(
        "pytest.ini", "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n"
    )
    suite.repo.commit()
    suite.run("-p", "no:cacheprovider")
    record = suite.record
    assert record["counts"]["passed"] == len(HOSTILE) - 1 and record["counts"]["selected"] == len(HOSTILE)
    assert record["counts"]["errors"] == 1, "pytest cannot put the lone high surrogate into its environment variable"
    assert record["scope"]["kind"] == "full" and "notRun" not in record["counts"]
    from ktxkit.ledger.rules.payload import restore_escaped

    seen = [restore_escaped(e["test"]) if e.get("escaped") else e["test"] for e in suite.events("test_result")]
    assert f"test_m.py::test_x[{HOSTILE[0]}]" in seen and f"test_m.py::test_x[{HOSTILE[3]}]" in seen
    assert len(set(seen)) == len(HOSTILE)


def test_t19_hostile_file_names(place: Path) -> None:
    names = ["test_a b.py", "test_ü.py", "test_q'uote\".py", "test_new\nline.py", "test_[x].py", "test_\udce9.py"]
    suite = Suite.make(place, {"pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n"})
    for name in names:
        (suite.repo.path / name).write_text("def test_x(): pass\n")
    assert suite.run("-p", "no:cacheprovider").status == 0, "pytest's own cache fails on these"
    assert suite.record["counts"]["passed"] == len(names)
    assert suite.record["scope"]["kind"] == "full"


def test_t20_hostile_texts_and_numbers(place: Path) -> None:
    body = r"""
def test_x(record_property):
    record_property("nan", float("nan")); record_property("inf", float("-inf")); record_property("big", 10**30)
    record_property("odd", object()); record_property("lone", "\udfff"); record_property("bytes", b"\xff\x00")
    print("out \ud800 \x00 \x1b[2J")
    assert "\udcff\x00" == "x"
"""
    suite = Suite.make(place, {"test_m.py": body})
    assert suite.run("-s").status == 1 or suite.run().status == 1
    suite = Suite.make(place.with_name("again"), {"test_m.py": body})
    suite.run()
    record = suite.record
    assert record["counts"]["failed"] == 1 and "lost" not in record
    (row,) = suite.events("test_result")
    values = {one["name"]: one["value"] for one in row["properties"]}
    assert values["nan"] == {"type": "float", "text": "nan"} and values["inf"] == {"type": "float", "text": "-inf"}
    assert values["big"]["type"] == "int" and values["odd"]["type"] == "object" and values["bytes"]["type"] == "bytes"


def test_t22_a_definition_that_hides_another(place: Path) -> None:
    body = (
        "def test_x(): assert False\ndef test_y(): pass\ndef test_x(): pass\nclass TestC:\n    def test_x(self): pass\n"
    )
    suite = Suite.make(place, {"test_m.py": body})
    assert suite.run().status == 0
    assert suite.record["duplicates"] == [{"path": "test_m.py", "name": "test_x", "line": 1}]


def test_t23_an_id_that_runs_twice(place: Path) -> None:
    suite = five(place, "pass")
    suite.run("--keep-duplicates", "test_m.py", "test_m.py")
    record = suite.record
    assert record["counts"]["selected"] == record["counts"]["passed"] == 10 and "retries" not in record["counts"]
    assert max(event.get("occurrence", 1) for event in suite.events("test_result")) == 2


NARROW = {
    "T24-lf": (["--lf"], "--lf"),
    "T24-sw": (["--sw"], "--sw"),
    "T25-k": (["-k", "test_a or test_d"], "-k test_a or test_d"),
    "T25-m": (["-m", "not slow"], "-m not slow"),
    "T25-deselect": (["--deselect", "test_m.py::test_a"], "--deselect"),
    "T26-ignore": (["--ignore", "test_other.py"], "--ignore"),
    "T26-ignore-glob": (["--ignore-glob", "*other*"], "--ignore-glob"),
    "T26-override": (["-o", "python_files=test_m.py"], "-o"),
    "T26-collector": (["-p", "no:doctest"], "-p no:doctest"),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_narrowed_run_is_never_full(place: Path, name: str) -> None:
    options, why = NARROW[name]
    suite = five(place, "assert os.environ.get('GOOD')")
    suite.repo.write("test_other.py", "def test_z(): pass\n")
    suite.repo.write("pytest.ini", "[pytest]\nmarkers = slow\n")
    suite.repo.commit()
    suite.run()
    suite.run(*options, GOOD="1")
    full, narrowed = suite.records
    assert full["scope"] == {"kind": "full"}
    assert narrowed["scope"]["kind"] == "partial" and any(text.startswith(why) for text in narrowed["scope"]["why"])


ARGUMENTS = {
    "one module": (["test_m.py"], "module"),
    "two modules": (["test_m.py", "test_other.py"], "modules"),
    "a directory": (["sub"], "modules"),
    "a node id": (["test_m.py::test_a"], "partial"),
    "the root by name": (["."], "full"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_t26_path_arguments(place: Path, name: str) -> None:
    arguments, kind = ARGUMENTS[name]
    suite = five(place, "pass")
    suite.repo.write("test_other.py", "def test_z(): pass\n")
    suite.repo.write("sub/test_s.py", "def test_s(): pass\n")
    suite.repo.commit()
    suite.run(*arguments)
    assert suite.record["scope"]["kind"] == kind


def test_t26_started_below_the_root_is_not_full(place: Path) -> None:
    suite = five(place, "pass")
    suite.repo.write("sub/test_s.py", "def test_s(): pass\n")
    below = Suite(suite.repo.at(suite.repo.path / "sub"))
    below.run()
    assert suite.record["scope"]["why"] == ["directory sub"]


def test_a_run_that_lacks_tests_of_the_same_tree_is_no_full_run(place: Path) -> None:
    suite = five(place, "pass")
    quick = "import os\ncollect_ignore = ['test_slow.py'] if os.environ.get('QUICK') else []\n"
    suite.repo.write("conftest.py", quick)
    suite.repo.write("test_slow.py", "def test_s(): pass\n")
    for set_to in ("", "1", "1", ""):
        suite.run(QUICK=set_to)
    suite.repo.write("test_slow.py", "def test_other(): pass\n")
    suite.run()
    lacks = {"kind": "partial", "why": ["lacks 1 tests of the last full run of this tree"]}
    assert [one["scope"] for one in suite.records] == [
        {"kind": "full"},
        lacks,
        lacks,
        {"kind": "full"},
        {"kind": "full"},
    ]


@pytest.mark.parametrize("ini", [False, True])
def test_a_root_directory_below_the_top_is_no_full_run(tmp_path: Path, ini: bool) -> None:
    files = {f"tests/{name}.py": "def test(): pass\n" for name in ("test_a", "sub/test_b")}
    suite = Suite.make(tmp_path / "s", files | ({"tests/sub/pytest.ini": "[pytest]\n"} if ini else {}))
    suite.repo.git("rm", "-q", "pytest.ini")
    subprocess.run(suite.argv("-q"), cwd=suite.repo.path / "tests/sub", check=True, env={**os.environ, "PWD": ""})
    suite.run()
    below, top = suite.records
    assert below["scope"] == {"kind": "partial", "why": ["root directory tests/sub"]}
    assert below["counts"]["selected"] == 1
    assert (top["scope"], top["counts"]["selected"]) == ({"kind": "full"}, 2)


def test_t26_testpaths_are_the_whole(place: Path) -> None:
    suite = five(place, "pass")
    suite.repo.write("pytest.ini", "[pytest]\ntestpaths = sub\n")
    suite.repo.write("sub/test_s.py", "def test_s(): pass\n")
    suite.run()
    assert suite.record["scope"] == {"kind": "full"}


def test_t26_what_a_conftest_removes_is_missed(place: Path) -> None:
    suite = five(place, "pass")
    suite.repo.write("conftest.py", "def pytest_collection_modifyitems(items): del items[0]\n")
    suite.run()
    assert suite.record["scope"]["why"] == ["1 removed from the collection without a word"]


@pytest.mark.parametrize("how", [["-x"], ["--maxfail", "1"]], ids=["x", "maxfail"])
def test_t27_stopped_early(place: Path, how: list[str]) -> None:
    suite = five(place, "assert False")
    suite.run(*how)
    record = suite.record
    assert record["state"] == "stopped_early" and record["notRun"] == ids("e") and record["verdict"] == "failed"
    assert "stopping after 1 failures" in record["stop"]


def test_t27_stopped_early_under_xdist(place: Path) -> None:
    mark = "@pytest.mark.parametrize('i', range(40))"
    body = f"import pytest, time\n{mark}\ndef test_x(i):\n    time.sleep(0.05)\n    assert i\n"
    suite = Suite.make(place, {"test_m.py": body})
    suite.run("-x", "-n", "2", plugins=("xdist",))
    record = suite.record
    assert record["state"] == "stopped_early" and record["counts"]["notRun"] > 0 and record["verdict"] == "failed"


@pytest.mark.parametrize("how", ["--collect-only", "--setup-plan", "--fixtures"])
def test_t29_plan_only(place: Path, how: str) -> None:
    suite = five(place, "pass")
    suite.run(how)
    record = suite.record
    assert (record["state"], record["verdict"], record["scope"]["kind"]) == ("planned", "planned", "none")
    assert "passed" not in record["counts"], "what was not executed has not passed"


def test_t29_no_tests_is_no_pass(place: Path) -> None:
    suite = Suite.make(place, {"readme": ""})
    assert suite.run().status == 5
    assert (suite.record["state"], suite.record["verdict"]) == ("no_tests", "no_tests")


def test_t30_teardown_error_after_a_pass(place: Path) -> None:
    body = "import pytest\n@pytest.fixture\ndef f():\n    yield\n    raise ValueError\ndef test_x(f): pass\n"
    suite = Suite.make(place, {"test_m.py": body})
    ended = suite.run()
    (row,) = suite.events("test_result")
    assert row["outcome"] == "passed" and row["teardownFailed"] and {"setup", "call", "teardown"} <= set(row)
    assert suite.record["counts"]["errors"] == 1 and "passed" not in suite.record["counts"]
    assert suite.record["reported"] == {"passed": 1, "errors": 1} == ended.summary


def test_t31_xfail_and_xpass_keep_their_words(place: Path) -> None:
    body = (
        "import pytest\n@pytest.mark.xfail(reason='later')\ndef test_x(): assert False\n"
        "@pytest.mark.xfail\ndef test_y(): pass\n@pytest.mark.xfail(strict=True)\ndef test_z(): pass\n"
    )
    suite = Suite.make(place, {"test_m.py": body})
    suite.run()
    counts = suite.record["counts"]
    assert (counts["xfailed"], counts["xpassed"], counts["failed"]) == (1, 1, 1)
    assert suite.events("test_result")[0]["reason"] == "later"


def test_t32_a_child_that_comes_back_writes_nothing(place: Path) -> None:
    suite = five(place, "os.fork()")
    suite.run()
    time.sleep(0.5)
    record = suite.record
    assert len(suite.events("test_result")) == 5 and len(suite.events("run_finished")) == 1
    assert record["counts"]["passed"] == 5 and record["lost"]["forks"] == 1
    assert record["scope"]["kind"] == "full", "a fork loses nothing of the parent's record"


def test_t33_clock_steps(place: Path) -> None:
    step = "time.time = lambda: REAL() - 10**6"
    body = f"import time\nREAL = time.time\ndef test_x():\n    {step}\ndef test_y(): pass\n"
    suite = Suite.make(place, {"test_m.py": body})
    suite.run()
    record = suite.record
    assert 0 <= record["wallSeconds"] < 60 and all(0 <= event["t"] < 60 for event in suite.events())
    assert record["counts"]["passed"] == 2


@contextmanager
def mounted(target: Path, *options: str) -> Iterator[Path]:
    """A small file system of its own."""
    if os.getuid() != 0:
        pytest.skip("mounting a file system takes root")
    target.mkdir(parents=True, exist_ok=True)
    argv = ["mount", "-t", "tmpfs", *options, "tmpfs", str(target)]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def test_t34_a_store_that_cannot_be_written(place: Path, tmp_path: Path) -> None:
    suite = five(place, "assert False")
    state = tmp_path / "state"
    with mounted(suite.repo.path / ".ktx", "-o", "ro"):
        ended = suite.run(XDG_STATE_HOME=str(state))
    assert ended.status == 1 and "1 failed, 4 passed" in ended.out
    (said,) = [line for line in ended.out.splitlines() if line.startswith("ktxkit: run") and "in part" in line]
    assert "Read-only file system" in said and str(state) in said
    (found,) = state.glob("ktxkit/*/ledger/events/*.ndjson")
    assert b"run_finished" in found.read_bytes()


def test_t34_neither_place_can_be_written(place: Path) -> None:
    suite = five(place, "assert False")
    (suite.repo.path / ".ktx/ledger").write_text("a file is in the way")
    ended = suite.run(XDG_STATE_HOME="/proc/nowhere")
    assert ended.status == 1 and "is not recorded" in ended.out


def test_t35_a_full_disk(place: Path, tmp_path: Path) -> None:
    body = "import pytest\n@pytest.mark.parametrize('i', range(1500))\ndef test_x(i): pass\n"
    suite = Suite.make(place, {"test_m.py": body}, store=False)
    with mounted(tmp_path / "disk", "-o", "size=128k") as disk:
        ended = suite.run("-q", KTX_DIR=str(disk))
        assert ended.status == 0 and "1500 passed" in ended.out and "recorded in part" in ended.out
        (path,) = disk.glob("ledger/events/*.ndjson")
        assert path.read_bytes().endswith(b"}\n"), "nothing of a record that did not fit stays"


def test_t36_disabled_means_nothing_is_known(place: Path) -> None:
    suite = five(place, "pass")
    suite.run("-p", "no:ktxkit")
    suite.run(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    suite.run(KTX_LEDGER="off")
    assert suite.lines == []


def test_t37_without_a_store_it_is_inert(place: Path) -> None:
    suite = Suite.make(place, {"test_m.py": FIVE.format("pass")}, store=False)
    ended = suite.run()
    assert ended.status == 0 and "ktxkit: run" not in ended.out
    assert not (suite.repo.path / ".ktx").exists()


def test_t38_two_runs_at_once(place: Path) -> None:
    suite = five(place, "time.sleep(0.5)")
    children = [suite.start() for _ in range(4)]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    for child in children:
        assert child.stdout is not None
        child.stdout.close()
    records = suite.records
    assert [record["counts"]["passed"] for record in records] == [5, 5, 5, 5]
    assert len({record["run"] for record in records}) == 4
    assert [line["seq"] for line in suite.lines] == list(range(1, 9)), "the lines stay linked"


def test_t38_a_run_inside_a_run(place: Path) -> None:
    inner = "subprocess.run([sys.executable, '-m', 'pytest', '-q', '-p', 'no:xdist', 'inner/check.py'], check=True)"
    suite = five(place, inner, head="import subprocess, sys\n")
    suite.repo.write("inner/check.py", "def test_i(): pass\n")
    assert suite.run().status == 0
    first, second = suite.records
    assert first["parent"] == second["run"] and "parent" not in second
    assert second["counts"]["passed"] == 5


def test_t39_a_selecting_plugin_makes_it_partial(place: Path) -> None:
    hook = (
        "def pytest_addoption(parser): parser.addoption('--testmon', action='store_true', dest='testmon')\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    config.hook.pytest_deselected(items=items[2:]); del items[2:]\n"
    )
    suite = five(place, "pass")
    suite.repo.write("conftest.py", hook)
    suite.run("--testmon")
    assert suite.record["scope"] == {"kind": "partial", "why": ["--testmon True", "3 deselected"]}
