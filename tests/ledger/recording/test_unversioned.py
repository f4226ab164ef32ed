"""What takes part in a run and is in no commit: it is named, and the run is not full."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ledger.test_test_run import QUICK
from tests.support.commands import Ran, call, spawn
from tests.support.suites import Suite

GREEN = "def test_a(): pass\n"
RED = "def test_b(): assert 0\n"
NARROWS = "def pytest_ignore_collect(collection_path):\n    return True if 'sub' in str(collection_path) else None\n"
REWRITES = """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome = "passed" if report.when == "call" else report.outcome
    return report
"""
DESELECTS = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "sub" not in item.nodeid]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """One test that passes at the top, one that fails below."""
    return Suite.make(tmp_path / "s", {"test_m.py": GREEN, "sub/test_n.py": RED})


def ignore(suite: Suite, *patterns: str) -> None:
    suite.repo.write(".git/info/exclude", "/.ktx/\n" + "".join(f"{pattern}\n" for pattern in patterns))


def run(suite: Suite, *words: str, **env: str) -> Ran:
    return spawn("test-run", "--", *QUICK, *words, cwd=suite.repo.path, env=env)


class Case(NamedTuple):
    """What is brought, and by which words of the record it is told."""

    bring: Callable[[Suite], dict[str, str]]
    told: str
    words: tuple[str, ...] = ()


def ignored(name: str, text: str, *more: str) -> Callable[[Suite], dict[str, str]]:
    def bring(suite: Suite) -> dict[str, str]:
        ignore(suite, f"/{name}", *more)
        suite.repo.write(name, text)
        return {}

    return bring


def imported(suite: Suite) -> dict[str, str]:
    suite.repo.write("test_m.py", "import local\ndef test_a(): pass\n")
    suite.repo.write("sub/test_n.py", "import local\ndef test_b(): assert local.FINE\n")
    suite.repo.commit()
    return ignored("local.py", "FINE = True\n")(suite)


def taken_away(suite: Suite) -> dict[str, str]:
    imported(suite)
    suite.repo.write("test_m.py", "import sys\nimport local\ndef test_a(): del sys.modules['local']\n")
    suite.repo.commit()
    return {}


def site(suite: Suite) -> dict[str, str]:
    ignored("sitecustomize.py", "import builtins\n")(suite)
    return {"PYTHONPATH": str(suite.repo.path)}


def ini(suite: Suite) -> dict[str, str]:
    suite.repo.git("rm", "-q", "pytest.ini")
    suite.repo.commit()
    return ignored("pytest.ini", "[pytest]\nnorecursedirs = sub\n")(suite)


def nested(suite: Suite) -> dict[str, str]:
    """A repository inside: its files are in no tree of ours."""
    suite.repo.write("sub/test_n.py", "import sys; sys.path.insert(0, 'lib')\nimport inner\ndef test_b(): pass\n")
    suite.repo.commit()
    suite.repo.write("lib/inner.py", "x = 1\n")
    suite.repo.git("init", "-q", "lib")
    return {}


def beside(name: str, text: str, **env: str) -> Callable[[Suite], dict[str, str]]:
    """A module beside the repository, on PYTHONPATH."""

    def bring(suite: Suite) -> dict[str, str]:
        place = suite.repo.path.parent / "outside"
        place.mkdir()
        (place / name).write_text(text)
        return {"PYTHONPATH": str(place), **env}

    return bring


def by_the_tests(suite: Suite) -> dict[str, str]:
    suite.repo.write("sub/test_n.py", "import brought\ndef test_b(): assert brought.FINE\n")
    suite.repo.commit()
    return beside("brought.py", "FINE = True\n")(suite)


def below_git(suite: Suite) -> dict[str, str]:
    """A committed option names a plugin that lies where git keeps its own files."""
    suite.repo.write("pytest.ini", "[pytest]\naddopts = -p hidden\npythonpath = .git\n")
    suite.repo.commit()
    suite.repo.write(".git/hidden.py", REWRITES)
    return {}


def committed_but_called(suite: Suite) -> dict[str, str]:
    suite.repo.write("narrow.py", NARROWS)
    suite.repo.commit()
    return {}


CASES = {
    "a conftest": Case(ignored("conftest.py", NARROWS), "conftest.py"),
    "a conftest further below": Case(ignored("sub/conftest.py", REWRITES), "sub/conftest.py"),
    "a module that the tests import": Case(imported, "local.py"),
    "a module that one test takes away again": Case(taken_away, "local.py"),
    "a test": Case(ignored("test_more.py", GREEN), "test_more.py"),
    "a file that makes a directory an environment": Case(ignored("sub/pyvenv.cfg", ""), "sub/pyvenv.cfg"),
    "a directory that makes one an environment of conda": Case(
        ignored("sub/conda-meta/history", "", "conda-meta/"), "sub/conda-meta/"
    ),
    "a sitecustomize": Case(site, "sitecustomize.py"),
    "the configuration of pytest": Case(ini, "pytest.ini"),
    "a repository inside": Case(nested, "lib/inner.py"),
    "a sitecustomize from outside": Case(beside("sitecustomize.py", "x = 1\n"), "outside/sitecustomize.py"),
    "a module from outside": Case(by_the_tests, "outside/brought.py"),
    "a plugin in the git directory": Case(below_git, ".git/hidden.py"),
    "a plugin by PYTEST_PLUGINS": Case(beside("plg.py", NARROWS, PYTEST_PLUGINS="plg"), "PYTEST_PLUGINS plg"),
    "a plugin by -p": Case(beside("plg.py", REWRITES), "-p plg", ("-p", "plg")),
    "a plugin by PYTEST_ADDOPTS": Case(beside("plg.py", DESELECTS, PYTEST_ADDOPTS="-p plg"), "-p plg"),
    "a plugin of the repository that only the caller names": Case(committed_but_called, "-p narrow", ("-p", "narrow")),
}


def said_of(record: dict[str, Any]) -> str:
    return "\n".join(record["scope"].get("why", ()))


@pytest.mark.parametrize("name", CASES)
def test_what_no_commit_has_is_named_and_the_run_is_not_full(suite: Suite, name: str) -> None:
    env = CASES[name].bring(suite)
    ran = run(suite, *CASES[name].words, **env)
    (record,) = suite.records
    assert CASES[name].told in said_of(record), (record["scope"], record.get("unversioned"), ran.err)
    assert record["scope"]["kind"] == "partial" and not record["authoritative"]
    message = suite.repo.path.parent / "message"
    message.write_text("Change\n\nAll tests pass.\n")
    assert call("gate-check", "--message", message, cwd=suite.repo.path).status == 1
    for word in ("full", "authoritative"):
        said = call("ledger-query", "explain", f"{word}({record['run']})", "--json", cwd=suite.repo.path)
        assert said.document["verdict"] == "false"


@pytest.mark.parametrize("name", ["a conftest", "a module that the tests import", "a test"])
def test_it_is_the_same_with_workers(suite: Suite, name: str) -> None:
    CASES[name].bring(suite)
    spawn("test-run", "--", "-q", "-n", "2", cwd=suite.repo.path)
    (record,) = suite.records
    assert CASES[name].told in said_of(record)


def is_whole(suite: Suite, **env: str) -> dict[str, Any]:
    suite.repo.write("sub/test_n.py", "try: import made\nexcept ImportError: pass\ndef test_b(): pass\n")
    suite.repo.commit()
    run(suite, **env)
    record = suite.records[-1]
    assert record["scope"] == {"kind": "full"} and record["authoritative"], (record["scope"], record.get("against"))
    return record


def test_what_the_run_made_itself_is_its_own(suite: Suite) -> None:
    ignore(suite, "made.py")
    suite.repo.write("conftest.py", "import pathlib\npathlib.Path('made.py').write_text('x = 1')\n")
    suite.repo.write("test_m.py", "import made\ndef test_a(): pass\n")
    is_whole(suite)


@pytest.mark.parametrize("table", ["setuptools_scm]\nversion_file", "hatch.build.hooks.vcs]\nversion-file"])
def test_the_version_file_of_the_project_is_declared_by_its_configuration(suite: Suite, table: str) -> None:
    ignore(suite, "made.py")
    suite.repo.write("made.py", "version = '1'\n")
    suite.repo.write("pyproject.toml", f'[tool.{table} = "made.py"\n')
    is_whole(suite)


@pytest.mark.parametrize("pattern", ["made.py", "m*.py", "/made.py"])
def test_a_file_that_the_build_makes_can_be_declared(suite: Suite, pattern: str) -> None:
    ignore(suite, "made.py")
    suite.repo.write("made.py", "x = 1\n")
    suite.repo.write(".ktx-config.yaml", f"ledger:\n  generated: [{pattern!r}]\n")
    is_whole(suite)


def test_a_configuration_that_git_ignores_declares_nothing(suite: Suite) -> None:
    ignore(suite, "conftest.py", ".ktx-config.yaml")
    suite.repo.write("conftest.py", NARROWS)
    suite.repo.write(".ktx-config.yaml", "ledger:\n  generated: ['*.py']\n")
    run(suite)
    assert "conftest.py" in said_of(suite.record)


def test_an_environment_inside_of_the_checkout_is_installed(suite: Suite) -> None:
    ignore(suite, ".venv/")
    import venv

    venv.create(suite.repo.path / ".venv", symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = suite.repo.path / f".venv/lib/{version}/site-packages"
    own = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (place / "ours.pth").write_text(f"import site; site.addsitedir({str(own)!r})\n")
    (place / "made.py").write_text("x = 1\n")
    suite.repo.write("sub/test_n.py", "import made\ndef test_b(): pass\n")
    suite.repo.commit()
    python = str(suite.repo.path / ".venv/bin/python")
    spawn("test-run", "--python", python, "--", *QUICK, cwd=suite.repo.path)
    record = suite.records[-1]
    assert record["scope"] == {"kind": "full"} and "unversioned" not in record, record["scope"]


def test_untracked_files_are_content_of_the_tree(suite: Suite) -> None:
    """A commit of the same content has the same tree: who writes a test, runs it and commits it has run the commit."""
    suite.repo.write("helper.py", "x = 1\n")
    suite.repo.write("test_m.py", "import helper\ndef test_a(): pass\n")
    suite.repo.write("sub/test_n.py", "def test_b(): pass\n")
    run(suite)
    assert suite.record["scope"] == {"kind": "full"} and suite.record["authoritative"]


@pytest.mark.parametrize("words", [("-p", "pytester"), ("-p", "xdist"), ("-p", "no:doctest2")])
def test_plugins_that_are_installed_are_environment(suite: Suite, words: tuple[str, ...]) -> None:
    suite.repo.write("sub/test_n.py", "def test_b(): pass\n")
    suite.repo.commit()
    spawn("test-run", "--", "-q", *words, cwd=suite.repo.path)
    assert suite.record["scope"] == {"kind": "full"}, suite.record["scope"]


def test_a_plugin_that_the_committed_configuration_names_is_the_projects_own(suite: Suite) -> None:
    suite.repo.write("narrow.py", "def pytest_configure(config): pass\n")
    suite.repo.write("pytest.ini", "[pytest]\naddopts = -p narrow\npythonpath = .\n")
    is_whole(suite)


REACHES = """
import ast, collections, json, pathlib, runpy, sys
from importlib import util
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "outside"))
import abroad, linked, package.below
def load(path):
    spec = util.spec_from_file_location("loaded", path)
    spec.loader.exec_module(util.module_from_spec(spec))
def test_runpy(): runpy.run_path(str(HERE / "by_runpy.py"))
def test_spec(): load(HERE / "by_spec.py")
def test_exec(): exec((HERE / "by_exec.txt").read_text())
def test_compile(): exec(compile(open(HERE / "by_compile.py").read(), "another name", "exec"))
def test_bytes(): exec((HERE.parent / "outside/by_bytes.py").read_bytes())
def test_what_is_read_alone():
    ast.parse((HERE / "parsed.py").read_text())
    assert json.loads((HERE / "data.json").read_text()) == {}
    exec("x = 1"), collections.namedtuple("Two", "a b")
def test_what_it_makes(tmp_path):
    for place in (tmp_path / "made.py", HERE / "made_here.py"):
        place.write_text("x = 1")
        load(place)
        exec(place.read_text())
        place.unlink()
def test_committed(): load(HERE / "tracked.py")
"""
REACHED = ["by_compile.py", "by_exec.txt", "by_runpy.py", "by_spec.py"]
ABROAD = ["abroad.py", "by_bytes.py", "linked.py", "package/below.py"]


def reaching(suite: Suite) -> Path:
    """A suite that executes what is ignored, and what lies outside, in each way that there is."""
    outside = suite.repo.path.parent / "outside"
    (outside / "package").mkdir(parents=True)
    for name in ABROAD:
        (outside / name).write_text(f"{Path(name).stem} = 1\n")
    suite.repo.git("rm", "-q", "-r", "sub")
    suite.repo.write("tracked.py", "x = 2\n")
    (suite.repo.path / "linked.py").symlink_to(outside / "linked.py")
    (suite.repo.path / "package").symlink_to(outside / "package")
    suite.repo.write("test_m.py", REACHES)
    suite.repo.commit()
    ignore(suite, *(f"/{name}" for name in [*REACHED, "parsed.py", "data.json", "made_here.py"]))
    for name in [*REACHED, "parsed.py"]:
        suite.repo.write(name, f"{Path(name).stem} = 1\n")
    suite.repo.write("data.json", "{}")
    return outside


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["plain", "workers"])
def test_code_is_seen_however_it_is_reached(suite: Suite, words: tuple[str, ...]) -> None:
    """By a committed link, a path of modules, runpy, exec; what is only read, and what the run made, is none."""
    outside = reaching(suite)
    ran = spawn("test-run", "--", *(("-q", *words) if words else QUICK), cwd=suite.repo.path)
    record = suite.record
    expected = sorted([*REACHED, *(str(outside / name) for name in ABROAD)])
    assert sorted(record["unversioned"]) == expected, (record["scope"], ran.out)
    assert record["scope"]["kind"] == "partial"


def test_the_way_out_is_named_wherever_the_run_is_refused(suite: Suite) -> None:
    """In the line that closes test-run, by the gate and by `explain`; and it is one, for what lies outside as well."""
    outside = reaching(suite)
    ran = run(suite)
    assert "ledger.generated" in ran.err
    message = suite.repo.path.parent / "message"
    message.write_text("Change\n\nAll tests pass.\n")
    judged = call("gate-check", "--message", message, cwd=suite.repo.path)
    assert judged.status == 1 and "ledger.generated" in judged.out
    said = call("ledger-query", "explain", f"full({suite.record['run']})", cwd=suite.repo.path)
    assert "ledger.generated" in said.out
    declared = ["by_*", f"{outside}/*.py", f"{outside}/package/*"]
    suite.repo.write(".ktx-config.yaml", f"ledger:\n  generated: {declared!r}\n")
    suite.repo.commit()
    run(suite)
    assert suite.records[-1]["scope"] == {"kind": "full"} and suite.records[-1]["authoritative"]


CHANGING = {
    "warnings are let through": (("-W", "ignore"), "-W ignore"),
    "warnings are nobody's": (("-p", "no:warnings"), "-p no:warnings"),
    "expected failures count as passes": (("--runxfail",), "--runxfail"),
    "unexpected passes are let through": (("-o", "xfail_strict=false"), "-o xfail_strict=false"),
}


@pytest.mark.parametrize("name", CHANGING)
def test_options_that_let_more_pass_take_away_authority(suite: Suite, name: str) -> None:
    words, told = CHANGING[name]
    suite.repo.write("sub/test_n.py", "def test_b(): pass\n")
    suite.repo.commit()
    run(suite, *words)
    record = suite.record
    assert not record["authoritative"] and f"the caller lets more pass: {told}" in record["against"]
    said = call("ledger-query", "explain", f"authoritative({record['run']})", "--json", cwd=suite.repo.path)
    assert said.document["verdict"] == "false"
    run(suite, "-W", "error")
    assert suite.records[-1]["authoritative"]


def test_python_without_assertions_is_no_authority(suite: Suite) -> None:
    run(suite, PYTHONOPTIMIZE="1")
    assert any("-O" in why for why in suite.record["against"])
