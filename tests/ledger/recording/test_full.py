"""Full is what the project's own configuration says; what the caller leaves out is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledger.test_test_run import go
from tests.support.commands import call
from tests.support.suites import Suite

MARKED = """
import pytest
def test_a(): pass
@pytest.mark.slow
def test_b(): pass
@pytest.mark.net
def test_c(): pass
"""
MARKERS = "markers =\n  slow: s\n  net: n\n"


def made(path: Path, addopts: str, more: dict[str, str] | None = None) -> Suite:
    ini = f"[pytest]\n{MARKERS}" + (f"addopts = {addopts}\n" if addopts else "")
    files = {"pytest.ini": ini, "test_m.py": MARKED, "slow/test_s.py": "def test_s(): pass\n", **(more or {})}
    return Suite.make(path / "s", files)


def claimed(suite: Suite) -> int:
    message = suite.repo.path.parent / "message"
    message.write_text("Change\n\nAll tests pass.\n")
    return call("gate-check", "--message", message, cwd=suite.repo.path).status


OWN = {
    "-m 'not slow'": "as addopts has it: not slow",
    '-m "not slow and not net"': "as addopts has it: not slow and not net",
    "-k 'not test_b'": "as addopts has it: not test_b",
    "--ignore=slow": "as addopts has it: --ignore ['slow']",
    "--ignore-glob=slow/*": "as addopts has it: --ignore-glob ['slow/*']",
    "--deselect=test_m.py::test_b": "as addopts has it: --deselect ['test_m.py::test_b']",
    "-p no:doctest": "as addopts has it: -p no:doctest",
    "-m 'not slow' --strict-markers --strict-config": "as addopts has it: not slow",
    "-o python_files=test_m.py": "as addopts has it: -o ['python_files=test_m.py']",
    "-m 'not slow' --ignore=slow": "as addopts has it: not slow, --ignore ['slow']",
}


@pytest.mark.parametrize("addopts", OWN)
def test_what_the_configuration_leaves_out_is_no_part_of_the_whole(tmp_path: Path, addopts: str) -> None:
    suite = made(tmp_path, addopts)
    ran = go(suite, "--scope", "full")
    record = suite.record
    assert record["scope"] == {"kind": "full", "why": [OWN[addopts]]} and record["authoritative"], record["scope"]
    assert (record["selection"]["narrowing"] == [] and OWN[addopts] in ran.err.replace("\n", " ")) or ran.status == 0
    assert claimed(suite) == 0
    said = call("ledger-query", "explain", f"full({record['run']})", "--json", cwd=suite.repo.path)
    assert said.document["verdict"] == "true"
    suite.repo.write("test_m.py", MARKED + "\n")
    assert claimed(suite) == 1


def test_paths_of_the_configuration_are_the_projects_own(tmp_path: Path) -> None:
    suite = made(tmp_path, "slow")
    go(suite, "--scope", "full")
    record = suite.record
    assert (record["selection"]["argsSource"], record["scope"]["kind"]) == ("addopts", "full")
    assert record["counts"]["passed"] == 1


CALLERS: dict[str, dict[str, Any]] = {
    "another marker": {"pytest_args": ("-m", "not net")},
    "none of it": {"pytest_args": ("-m", "")},
    "a keyword": {"pytest_args": ("-k", "test_a")},
    "a directory less": {"pytest_args": ("--ignore=slow",)},
    "a test less": {"pytest_args": ("--deselect=test_m.py::test_a",)},
    "a variable": {"PYTEST_ADDOPTS": "-k test_a"},
    "an option in its place": {"pytest_args": ("-o", "addopts=-m net")},
    "other files": {"pytest_args": ("-o", "python_files=test_m.py")},
    "other directories": {"pytest_args": ("-o", "testpaths=slow", "--strict-markers")},
    "a path": {"pytest_args": ("test_m.py",)},
    "another file": {"pytest_args": ("-c", "other.ini")},
}


@pytest.mark.parametrize("name", CALLERS)
def test_what_the_caller_leaves_out_is_not_full(tmp_path: Path, name: str) -> None:
    other = {"other.ini": "[pytest]\n" + MARKERS + "addopts = -m net\n"}
    suite = made(tmp_path, "-m 'not slow'", other)
    go(suite, "--scope", "full", **CALLERS[name])
    record = suite.record
    if name == "none of it":  # all tests: more than the project's own
        assert record["counts"]["passed"] == 4
        return
    assert record["scope"]["kind"] != "full" and not record["authoritative"]
    assert claimed(suite) == 1


@pytest.mark.parametrize(
    ("addopts", "words"),
    [
        ("--strict-markers --strict-config --strict", ()),
        ("--strict-config", ("--strict-markers", "-o", "log_cli=true", "-o", "xfail_strict=true")),
    ],
)
def test_options_that_select_nothing_leave_a_run_full(tmp_path: Path, addopts: str, words: tuple[str, ...]) -> None:
    """pytest 9 reads --strict-markers as `-o strict_markers=true`."""
    suite = made(tmp_path, addopts)
    go(suite, "--scope", "full", pytest_args=words)
    assert suite.record["scope"] == {"kind": "full"} and suite.record["authoritative"]


def test_options_that_add_up_are_told_apart(tmp_path: Path) -> None:
    suite = made(tmp_path, "--ignore=slow", {"more/test_x.py": "def test_x(): pass\n"})
    go(suite, "--scope", "full", pytest_args=("--ignore=more",))
    assert suite.record["selection"]["narrowing"] == [{"option": "--ignore", "value": "['more']"}]
    assert suite.record["selection"]["configured"] == [{"option": "--ignore", "value": "['slow']"}]
    assert suite.record["scope"]["kind"] == "partial"


def test_a_configuration_that_git_ignores_is_nobodys_word(tmp_path: Path) -> None:
    suite = made(tmp_path, "-m 'not slow'", {".gitignore": "pytest.ini\n__pycache__\n.pytest_cache\n"})
    assert suite.repo.git("ls-files", "pytest.ini") == ""
    go(suite, "--scope", "full")
    assert suite.record["scope"]["kind"] == "partial"


def test_what_depends_on_no_tree_is_never_full(tmp_path: Path) -> None:
    suite = made(tmp_path, "--lf -p cacheprovider")
    go(suite, "--scope", "full")
    assert suite.record["scope"] == {"kind": "partial", "why": ["--lf True"]}


def test_a_hook_that_deselects_more_than_the_configuration_says_is_not_full(tmp_path: Path) -> None:
    hook = """
def pytest_collection_modifyitems(config, items):
    gone = [item for item in items if item.name == "test_a"]
    items[:] = [item for item in items if item.name != "test_a"]
    config.hook.pytest_deselected(items=gone)
"""
    suite = made(tmp_path, "-m 'not slow'", {"conftest.py": hook})
    go(suite, "--scope", "full")
    assert suite.record["scope"] == {"kind": "partial", "why": ["as addopts has it: not slow", "1 deselected"]}


@pytest.mark.parametrize("dist", ["load", "each"])
def test_with_workers_it_is_the_same(tmp_path: Path, dist: str) -> None:
    suite = made(tmp_path, "-m 'not slow'")
    words = ["-q", "-p", "no:asyncio", "-n", "2", "--dist", dist]
    call("test-run", "--scope", "full", "--", *words, cwd=suite.repo.path)
    record = suite.record
    assert record["counts"]["deselected"] == record["counts"]["deselectedByConfiguration"] == 1
    assert record["scope"] == {"kind": "full", "why": ["as addopts has it: not slow"]} and record["authoritative"]


def test_an_edit_of_the_configuration_is_another_content(tmp_path: Path) -> None:
    suite = made(tmp_path, "-m 'not slow'")
    go(suite, "--scope", "full")
    suite.repo.write("pytest.ini", f"[pytest]\n{MARKERS}")
    suite.repo.commit()
    assert claimed(suite) == 1
