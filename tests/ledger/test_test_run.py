"""`test-run`: the run is recorded with its end, and relied upon only where everything for that is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, spawn
from tests.support.suites import OFF, Suite

QUICK = ["-q", *(word for name in OFF for word in ("-p", f"no:{name}"))]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"})


def go(suite: Suite, *args: str, pytest_args: tuple[str, ...] = (), **env: str) -> Ran:
    full = {"PYTHONDONTWRITEBYTECODE": "1", **env}
    return spawn("test-run", *args, "--", *QUICK, *pytest_args, cwd=suite.repo.path, env=full)


def config(suite: Suite, text: str) -> None:
    suite.repo.write(".ktx-config.yaml", text)
    suite.repo.commit()


def test_a_full_run_is_authoritative_for_its_tree(suite: Suite) -> None:
    ran = go(suite, "--scope", "full", "--trigger", "gate:land", "--env-profile", "laptop")
    assert ran.status == 0, ran.err
    record = suite.record
    assert record["authoritative"] is True and "against" not in record
    assert record["trigger"] == "gate:land" and record["environment"]["profile"] == "laptop"
    assert record["declared"] == "full" and record["scope"] == {"kind": "full"} and record["managed"]
    assert record["tree"]["tree"] == suite.repo.tree and record["exitStatus"] == 0 and record["peakRssBytes"] > 10**6
    assert "scope full; authoritative" in ran.err and "may be said" not in ran.err, "-q"
    ran = spawn("test-run", "--scope", "full", "--", *QUICK[1:], cwd=suite.repo.path)
    assert ran.status == 0 and "Quote error text verbatim" in ran.err
    ran = spawn("test-run", "--scope", "affected", "--base", "nowhere", cwd=suite.repo.path)
    assert ran.status == 2 and ran.err.startswith("test-run: no such revision: nowhere"), "an error comes first"


def test_the_arguments_may_be_pytests_own_choice(suite: Suite) -> None:
    """`pytest .` at the top, and what `testpaths` has, leave out nothing."""
    suite.repo.write("sub/test_n.py", "def test_n(): pass\n")
    suite.repo.write("pytest.ini", "[pytest]\ntestpaths = test_m.py sub\n")
    suite.repo.commit()
    for words, kind in (((".",), "full"), (("sub", "test_m.py"), "full"), (("sub",), "modules")):
        go(suite, pytest_args=words)
        assert suite.records[-1]["scope"]["kind"] == kind, words


def test_pytest_itself_does_not_find_modules_in_the_working_directory(suite: Suite) -> None:
    """What is written is run: `pytest` has its own directory in front, `python -m pytest` the working directory."""
    suite.repo.git("rm", "-q", "test_m.py")
    suite.repo.write("helper.py", "x = 1\n")
    suite.repo.write("tests/test_h.py", "import helper\ndef test_h(): pass\n")
    suite.repo.commit()
    bare = [sys.executable, str(Path(sys.executable).with_name("pytest"))]
    alone = subprocess.run([*bare, *QUICK], cwd=suite.repo.path, env={**os.environ, "KTX_LEDGER": "off"}, check=False)
    for words, status in ((("pytest",), alone.returncode), (("python", "-m", "pytest"), 0), ((), 0)):
        assert spawn("test-run", "--", *words, *QUICK, cwd=suite.repo.path).status == status, words
    assert alone.returncode == 2 and [one["verdict"] for one in suite.records] == ["failed", "passed", "passed"]


def test_runs_of_another_project_are_named_where_there_is_none_of_this_one(suite: Suite) -> None:
    """As where the repository got another address: an empty answer alone would say that nothing ever ran."""
    go(suite)
    before = suite.record["project"]
    suite.repo.git("config", "ktx.project", "another")
    told = f"1 run stands here under another project: --project {before}"
    for words in (("last",), ("last-full",), ("runs",), ("run", "last"), ("slowest",)):
        said = spawn("ledger-query", *words, cwd=suite.repo.path)
        assert told in " ".join((said.out + said.err).split()), words
    message = suite.repo.write("message", "All tests pass")
    judged = spawn("gate-check", "--message", message, cwd=suite.repo.path)
    assert judged.status == 1 and f"git config ktx.project {before}" in " ".join(judged.out.split())
    suite.repo.git("config", "ktx.project", before)
    assert "another project" not in spawn("ledger-query", "last-scoped", cwd=suite.repo.path).out


def test_declaring_a_scope_does_not_make_it(suite: Suite) -> None:
    ran = go(suite, "--scope", "full", pytest_args=("-k", "test_a"))
    record = suite.record
    assert ran.status == 0 and record["declared"] == "full"
    assert record["scope"]["kind"] == "partial" and not record["authoritative"]


def test_an_untracked_file_is_part_of_the_tree(suite: Suite) -> None:
    suite.repo.write("test_new.py", "def test_n(): pass\n")
    go(suite, "--scope", "full")
    record = suite.record
    assert record["authoritative"] and record["tree"]["dirty"] and record["tree"]["changed"] == ["test_new.py"]
    suite.repo.commit()
    assert record["tree"]["tree"] == suite.repo.tree, "the tree that ran is the one that was committed afterwards"


def test_a_tree_that_changes_meanwhile_is_not_relied_upon(suite: Suite) -> None:
    suite.repo.write("test_w.py", "def test_w(): open('written.txt', 'w').close()\n")
    ran = go(suite, "--scope", "full")
    assert suite.record["against"] == ["the tree changed while it ran: written.txt"]
    assert "not authoritative: the tree changed while it ran: written.txt" in ran.err
    message = suite.repo.write("message", "All tests pass")
    judged = spawn("gate-check", "--message", message, cwd=suite.repo.path)
    assert judged.status == 1 and "not known: the tree changed while it ran: written.txt" in judged.out
    for said in (ran.err, judged.out):
        assert "what tests write themselves belongs in .gitignore" in said


CHANGES = {
    "a file that was edited before": ("open('note.txt', 'a').write('more')", "note.txt (edited before it began, too)"),
    "another commit": ("import os; os.system('git checkout -q HEAD~1')", "HEAD moved from {now} to {was}"),
}


@pytest.mark.parametrize(("act", "names"), CHANGES.values(), ids=CHANGES)
def test_what_changed_is_named_where_no_path_is_newly_changed(suite: Suite, act: str, names: str) -> None:
    suite.repo.write("test_w.py", f"def test_w():\n    {act}\n")
    suite.repo.write("note.txt", "committed\n")
    was = suite.repo.commit()
    suite.repo.write("other.txt", "committed\n")
    now = suite.repo.commit()
    if "HEAD" not in names:
        suite.repo.write("note.txt", "edited before\n")
    ran = go(suite, "--scope", "full")
    said = names.format(now=now[:12], was=was[:12])
    assert f"not authoritative: the tree changed while it ran: {said}" in ran.err, ran.err


def test_paths_are_a_scope(suite: Suite) -> None:
    suite.repo.write("test_n.py", "def test_n(): pass\n")
    go(suite, "--scope", "test_m.py")
    assert suite.record["scope"]["kind"] == "module" and suite.record["counts"]["passed"] == 2


PRECONDITIONS = """
ledger:
  preconditions:
    - name: a file is there
      run: test -e {}
    - name: quick
      run: [sleep, "{}"]
      timeLimit: 0.5
"""


@pytest.mark.parametrize(
    ("present", "sleep", "holds"), [("test_m.py", "0", True), ("absent", "0", False), ("test_m.py", "5", False)]
)
def test_preconditions(suite: Suite, present: str, sleep: str, holds: bool) -> None:
    config(suite, PRECONDITIONS.format(present, sleep))
    ran = go(suite, "--scope", "full")
    record = suite.record
    assert ran.status == 0 and record["authoritative"] is holds
    assert [one["verified"] for one in record["preconditions"]] == [present == "test_m.py", sleep == "0"]
    assert ("does not hold" in ran.err) is not holds


def test_a_precondition_that_cannot_be_started_does_not_hold(suite: Suite) -> None:
    config(suite, "ledger: {preconditions: [{name: x, run: [no-such-command-here]}]}\n")
    go(suite, "--scope", "full")
    assert suite.record["preconditions"][0]["verified"] is False


@pytest.mark.parametrize(
    ("body", "status", "signal"),
    [
        ("os._exit(0)", 1, None),
        ("os.kill(os.getpid(), 9)", 137, "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", 139, "SIGSEGV"),
    ],
)
def test_the_end_is_seen(suite: Suite, body: str, status: int, signal: str | None) -> None:
    suite.repo.write("test_m.py", f"import os\ndef test_a(): pass\ndef test_b(): {body}\ndef test_c(): pass\n")
    ran = go(suite, "--scope", "full")
    record = suite.record
    assert ran.status == status and record["state"] == "killed" and record["verdict"] == "incomplete"
    assert record.get("signal") == signal
    assert [one["test"] for one in record["inFlight"]] == ["test_m.py::test_b"]
    assert record["notRun"] == ["test_m.py::test_c"]


def test_a_timeout_by_thread_is_told_by_its_end(suite: Suite) -> None:
    suite.repo.write("test_m.py", "import time\ndef test_a(): time.sleep(30)\n")
    quick = [word for name in OFF if name != "timeout" for word in ("-p", f"no:{name}")]
    done = spawn("test-run", "--", *quick, "--timeout", "0.5", "--timeout-method", "thread", cwd=suite.repo.path)
    assert done.status == 1
    assert suite.record["inFlight"][0]["cause"] == "timeout"


def test_the_plugin_loads_where_plugins_do_not(suite: Suite) -> None:
    go(suite, "--scope", "full", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert suite.record["scope"]["kind"] == "full"


def test_a_run_that_was_not_recorded_is_said_to_be(suite: Suite) -> None:
    ran = go(suite, "--scope", "full", pytest_args=("--no-such-option",))
    assert ran.status == 4 and suite.lines == [] and "NOT recorded" in ran.err


def test_a_pytest_named_by_its_path_is_run_by_the_interpreter_beside_it(suite: Suite, tmp_path: Path) -> None:
    venv.create(tmp_path / "its env", symlinks=True)
    (site,) = (tmp_path / "its env").glob("lib/python*/site-packages")
    (site / "pytest.py").write_text("import sys; print(sys.prefix); raise SystemExit(4)\n")
    ran = spawn("test-run", "--", str(tmp_path / "its env/bin/pytest"), "-q", cwd=suite.repo.path)
    assert ran.status == 4 and ran.out == f"{tmp_path / 'its env'}\n", ran.err


def test_an_interpreter_without_pytest_or_ktxkit_is_said_to_be_one(suite: Suite, tmp_path: Path) -> None:
    """ktxkit alone, as pipx has it; and a project's environment without ktxkit: two dead ends of a first run."""
    venv.create(tmp_path / "its env", symlinks=True)
    bare = tmp_path / "its env/bin/python"
    ran = spawn("test-run", "--python", str(bare), "--", "-q", cwd=suite.repo.path)
    name = f"'{bare}'"
    assert ran.status == 1 and f"test-run: {name} has no pytest: activate the project's environment" in ran.err
    assert re.search(rf"test-run: {name} has no ktxkit, whose plugin records: {name} -m pip install \S+\n", ran.err)
    (site,) = (tmp_path / "its env").glob("lib/python*/site-packages")
    (site / "pytest.py").write_text("raise SystemExit(4)\n")
    ran = spawn("test-run", "--python", str(bare), "--", "-q", cwd=suite.repo.path)
    assert ran.status == 4 and "has no pytest" not in ran.err and "has no ktxkit" in ran.err


def test_the_runner_asks_for_the_plugin_that_the_project_turned_off(suite: Suite) -> None:
    suite.repo.write("pytest.ini", "[pytest]\naddopts = -p no:ktxkit\n")
    go(suite, "--scope", "full")
    assert suite.record["scope"]["kind"] == "full"


def test_cprofile(suite: Suite) -> None:
    ran = go(suite, "--cprofile")
    assert ran.status == 0, ran.err
    (profile,) = (suite.repo.path / ".ktx/ledger/profiles").glob("*.prof")
    import pstats

    assert pstats.Stats(str(profile)).total_calls > 100  # type: ignore[attr-defined]


def test_json_has_the_run(suite: Suite) -> None:
    """One document and nothing else: what pytest prints goes to stderr, as a command's under `trace-append --json`."""
    ran = go(suite, "--json", "-q")
    assert ran.status == 0 and ran.json["data"]["recorded"] is True and ran.json["data"]["verdict"] == "passed"
    assert "2 passed" in ran.err
    assert "2 passed" in go(suite, "-q").out


@pytest.mark.parametrize(("args", "status"), [(["--scope", "full", "x"], 2), (["--nope"], 2)])
def test_usage(suite: Suite, args: list[str], status: int) -> None:
    assert go(suite, *args).status == status


@pytest.mark.parametrize("words", [["tests/test_a.py"], ["-k", "x"]])
def test_what_is_pytests_is_said_to_go_behind_two_dashes(suite: Suite, words: list[str]) -> None:
    ran = spawn("test-run", *words, cwd=suite.repo.path)
    assert ran.status == 2 and "goes behind `--`: test-run -- ..." in ran.err and suite.lines == []


def test_declared_variables_are_part_of_the_environment_by_digest(suite: Suite) -> None:
    config(suite, "ledger: {environment: [DB_URL]}\n")
    go(suite, DB_URL="postgres://secret")
    go(suite, DB_URL="postgres://other")
    first, second = suite.records
    assert first["environment"]["digest"] != second["environment"]["digest"]
    assert "secret" not in json.dumps(first)


GUARD: dict[str, bool] = {
    "pytest": True,
    "pytest -q tests": True,
    "python -m pytest": True,
    "python3.11 -X dev -m pytest -x": True,
    ".venv/bin/pytest": True,
    "cd x && pytest": True,
    "PYTHONPATH=. pytest -q": True,
    "env A=1 time pytest": True,
    "uv run pytest": True,
    "poetry run python -m pytest": True,
    "timeout 60 pytest": True,
    "make lint; (pytest)": True,
    "echo hi\npytest": True,
    "if true; then pytest; fi": True,
    'bash -c "pytest"': True,
    "sh -lc 'cd x; python -m pytest -q'": True,
    "/bin/bash -e -o pipefail -c 'pytest -q'": True,
    "sudo bash -c pytest": True,
    "eval 'pytest -q'": True,
    "bash -c \"sh -c 'pytest'\"": True,
    "out=$(pytest -q)": True,
    'echo "$(pytest -q)"': True,
    "echo `pytest -q`": True,
    "ls tests | xargs pytest": True,
    "find . -name 'test_*.py' -exec pytest {} +": True,
    "bash -c 'echo pytest'": False,
    "bash pytest.sh": False,
    "bash -c": False,
    "sh script.sh -c pytest": False,
    "echo '$(pytest)'": False,
    "echo '`pytest`'": False,
    "find . -name pytest.ini": False,
    "ls | xargs grep pytest": False,
    "test-run -- -q": False,
    "echo pytest": False,
    "git commit -m 'run pytest'": False,
    'git commit -m "fix; pytest passes"': False,
    "pip install pytest": False,
    "cat pytest.ini": False,
    "grep -rn pytest .": False,
    "ls; which pytest": False,
    "python -m pip install pytest": False,
    "python script.py -m pytest": False,
    "pytest-benchmark compare": False,
}


@pytest.mark.parametrize("command", GUARD)
def test_the_guard_refuses_bare_pytest_and_nothing_else(tmp_path: Path, command: str) -> None:
    document: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": command}}
    from ktxkit.affected.test_run import guard

    said = guard(json.dumps(document).encode())
    assert bool(said) is GUARD[command], said


def test_the_guard_as_a_hook(tmp_path: Path) -> None:
    hook = Path(__file__).resolve().parents[2] / "hooks" / "deny-bare-pytest"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command, status in (("pytest", 2), ("ls", 0)):
        data = json.dumps({"tool_input": {"command": command}}).encode()
        done = subprocess.run(["sh", hook], input=data, env=env, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == status and (b"test-run" in done.stderr) is (status == 2)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"tool_input": {}}', b'{"tool_input": {"command": 1}}'])
def test_the_guard_lets_foreign_documents_pass(data: bytes) -> None:
    from ktxkit.affected.test_run import guard

    assert guard(data) == ""


QUIET_ENDS = {
    "leaves in a test": ("", "import os\ndef test_a(): os._exit(0)\n", "killed"),
    "exits in a test": ("", "import pytest\ndef test_a(): pytest.exit('x', 0)\n", "exited"),
    "exits before collection": ("import pytest\ndef pytest_sessionstart(): pytest.exit('x', 0)\n", "", "exited"),
    "exits when its conftest is loaded": ("import sys\nsys.exit(0)\n", "", "exited"),
    "runs nothing": (
        "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(): return True\n",
        "",
        "incomplete",
    ),
    "says that it ran": ("def pytest_cmdline_main(): return 0\n", "", ""),
}


@pytest.mark.parametrize("name", QUIET_ENDS)
def test_a_suite_that_ends_with_0_and_did_not_pass_has_another_status(suite: Suite, name: str) -> None:
    conftest, body, state = QUIET_ENDS[name]
    suite.repo.write("conftest.py", conftest)
    suite.repo.write("test_m.py", body or "def test_a(): pass\n")
    suite.repo.commit()
    ran = go(suite, "--scope", "full")
    assert ran.status == 1, ran.err
    assert [(record["state"], record["verdict"]) for record in suite.records] == (
        [(state, "incomplete")] if state else []
    )
    if name == "leaves in a test":
        assert go(suite, "--scope", "full", "--status", "child").status == 0


@pytest.mark.parametrize("option", ["--help", "--cache-show"])
def test_what_pytest_only_tells_is_no_run(suite: Suite, option: str) -> None:
    words = (option,) if option != "--cache-show" else (option, "-p", "cacheprovider")
    ran = go(suite, pytest_args=words)
    assert ran.status == 0 and suite.lines == [], ran.err
    assert "NOT recorded" not in ran.err
