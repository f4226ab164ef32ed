"""`test-select` on real repositories: what is compared, what has no bounds, what is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktxkit.affected.running import covers
from tests.support.commands import call
from tests.support.repos import Repo
from tests.support.suites import OFF

FILES = {
    "pytest.ini": "[pytest]\n",
    "pkg/__init__.py": "",
    "pkg/a.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n",
    "pkg/b.py": "LIMIT = 1\n",
    "pkg/ext.c": "int main;\n",
    "pkg/data.csv": "1\n",
    "README": "read me\n",
    "tests/test_a.py": "from pkg.a import f, g\n\n\ndef test_f():\n    f()\n\n\ndef test_g():\n    g()\n",
    "tests/test_b.py": "from pkg import b\n\n\ndef test_b():\n    assert b.LIMIT\n\n\nclass TestB:\n"
    "    def test_one(self):\n        assert b.LIMIT\n\n    def test_two(self):\n        pass\n",
    "tests/test_data.py": "from pathlib import Path\n\n\ndef test_data():\n    assert Path('pkg/data.csv').exists()\n",
}
EVERY = ["tests/test_a.py", "tests/test_b.py", "tests/test_data.py"]


@pytest.fixture
def made(tmp_path: Path) -> Repo:
    repo = Repo.init(tmp_path / "repo")
    for path, text in FILES.items():
        repo.write(path, text)
    repo.commit()
    return repo


def ask(repo: Repo, *args: str) -> Any:
    ran = call("test-select", "--json", *args, cwd=repo.path)
    assert ran.status == 0, ran.out
    return ran.document


def picked(repo: Repo, *args: str) -> list[str]:
    return [one["id"] for one in ask(repo, *args)["tests"]]


def test_the_checkout_the_index_and_a_revision(made: Repo) -> None:
    assert picked(made) == []
    made.write("pkg/a.py", FILES["pkg/a.py"].replace("1", "2", 1))
    made.git("add", "-A")
    made.write("pkg/b.py", "LIMIT = 2\n")
    made.write("tests/test_new.py", "def test_new():\n    pass\n")
    both = ["tests/test_a.py::test_f", "tests/test_b.py::TestB::test_one", "tests/test_b.py::test_b"]
    assert picked(made) == [*both, "tests/test_new.py"]
    assert picked(made, "--index") == ["tests/test_a.py::test_f"]
    made.git("commit", "-qm", "second")
    assert picked(made, "--base", "HEAD~1", "--tree", "HEAD") == ["tests/test_a.py::test_f"]
    assert picked(made, "--tree", "HEAD") == []


def test_layout_and_remarks_reach_nothing(made: Repo) -> None:
    made.write("pkg/a.py", "# a remark\n" + FILES["pkg/a.py"].replace("return 1", "return (  1 )  # one"))
    document = ask(made)
    assert document["tests"] == [] and document["counts"]["paths"] == 1 and document["counts"]["changes"] == 0


def test_why_of_a_test_that_there_is_none_of_is_an_error(made: Repo) -> None:
    """It was "not selected", as if that were known of it."""
    ran = call("test-select", "--why", "tests/test_bb.py::test_b", cwd=made.path)
    assert ran.status == 2 and "no such file in the tree: tests/test_bb.py" in ran.err
    assert "did you mean tests/test_b.py?" in ran.err
    ran = call("test-select", "--why", "tests/test_b.py::TestB::test_on", cwd=made.path)
    assert ran.status == 2 and "no such test in tests/test_b.py: TestB::test_on" in ran.err
    assert "did you mean tests/test_b.py::TestB::test_one?" in ran.err
    ran = call("test-select", "--why", "pkg/a.py::f", cwd=made.path)
    assert ran.status == 2 and "no file of tests: pkg/a.py" in ran.err


def test_what_belongs_to_a_proof_is_not_passed_over(made: Repo) -> None:
    for words in (("--sample", "3"), ("--seed", "2"), ("--", "-q")):
        ran = call("test-select", *words, cwd=made.path)
        assert ran.status == 2 and "is not obeyed without --prove" in ran.err
    ran = call("test-select", "--audit", cwd=made.path)
    assert ran.status == 2 and "no run was traced" in ran.err, "1 is a hole"


def test_counts_and_reasons(made: Repo) -> None:
    made.write("pkg/b.py", "LIMIT = 2\n")
    document = ask(made)
    assert document["counts"] == {"selected": 2, "total": 6, "unknown": 0, "paths": 1, "changes": 1}
    (one, two) = document["tests"]
    assert one["chain"] == [
        {"path": "pkg/b.py", "unit": "LIMIT", "how": "constant changed"},
        {"path": "tests/test_b.py", "unit": "TestB.test_one", "how": "uses it"},
    ]
    ran = call("test-select", "--why", "tests/test_b.py::test_b[x]", cwd=made.path)
    assert ran.out.splitlines() == [
        "tests/test_b.py::test_b selected",
        "  pkg/b.py LIMIT: constant changed",
        "  tests/test_b.py test_b: uses it",
    ]
    assert "2 of 6 tests selected; 1 path changed, 1 unit in them" in ran.err
    said = call("test-select", "--why", "tests/test_b.py::TestB::test_two", cwd=made.path).out
    assert said.startswith("not selected: no chain of uses")
    assert call("test-select", "-z", cwd=made.path).out == f"{one['id']}\0{two['id']}\0"


def test_ids_are_as_pytest_takes_them_where_we_stand(made: Repo) -> None:
    """They were from the top, so that `test-select | xargs pytest` failed in a subdirectory."""
    made.write("pkg/b.py", "LIMIT = 2\n")
    made.write("tests/b\u00e9 c/test_d.py", "def test_d():\n    pass\n")
    (top, *_) = picked(made)
    assert top.startswith("tests/")
    for folder, start in (("pkg", "../tests/"), ("tests", "")):
        here = made.path / folder
        shown = call("test-select", cwd=here).out.splitlines()
        assert f"{start}test_b.py::test_b" in shown and f"{start}b\u00e9 c/test_d.py" in shown, shown
        argv = call("test-select", "-z", cwd=here).out.rstrip("\0").split("\0")
        off = [word for name in (*OFF, "ktxkit", "cacheprovider") for word in ("-p", f"no:{name}")]
        words = [sys.executable, "-B", "-m", "pytest", "-q", "--rootdir", str(made.path), *off, *argv]
        env = {**os.environ, "PYTHONPATH": str(made.path)}
        ran = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0 and "3 passed" in ran.stdout, ran.stdout
        why = call("test-select", "--why", shown[-1], cwd=here)
        assert why.status == 0 and "uses it" in why.out and "no such file" not in why.err
        assert call("test-select", "--json", cwd=here).document["tests"][0]["id"] == top


def test_where_there_are_no_tests_the_answer_is_unknown(tmp_path: Path) -> None:
    """`--strict` ended with 0: as if nothing could notice."""
    repo = Repo.init(tmp_path / "none")
    repo.write("m.py", "x = 1\n")
    repo.commit()
    repo.write("m.py", "x = 2\n")
    ran = call("test-select", "--strict", cwd=repo.path)
    assert ran.status == 1 and ran.out == "" and "unknown: no test was found in the tree" in ran.err
    assert call("test-select", cwd=repo.path).status == 0
    gate = call("gate-check", "--gate", "affected", "--tree", "HEAD", cwd=repo.path)
    assert "no test was found in this tree: whether it passes is unknown" in gate.err


LINKED = "a symbolic link: what is found through it is not followed"
UNBOUNDED: dict[str, tuple[dict[Any, str | bytes], str]] = {
    "configuration": ({"pytest.ini": "[pytest]\naddopts = -q\n"}, "configuration"),
    "requirements": ({"requirements-dev.txt": "x==1\n"}, "configuration"),
    "a lock": ({"uv.lock": "x\n"}, "configuration"),
    "source of an extension": ({"pkg/ext.c": "int other;\n"}, "compiled code"),
    "an extension": ({"pkg/fast.so": b"\x7fELF"}, "compiled code"),
    "a file that nobody names": ({"notes.dat": "changed\n"}, "no string in any program names it"),
    "no UTF-8": ({"pkg/a.py": b"# \xff\xfe\ndef f(): return 1\n"}, "it cannot be read as Python"),
    "no Python": ({"pkg/a.py": "def f(:\n"}, "it cannot be read as Python"),
    "read at start": ({"sitecustomize.py": "print()\n"}, "read when Python starts"),
    "attributes": ({".gitattributes": "* text\n"}, "what git checks out"),
    "a name that is no UTF-8": ({b"pkg/\xff.txt": "x"}, "its name is not UTF-8"),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_has_no_bounds_means_everything(made: Repo, name: str) -> None:
    changes, why = UNBOUNDED[name]
    for path, text in changes.items():
        made.write(path, text)
    document = ask(made)
    assert document["verdict"] == "unknown" and [one["id"] for one in document["tests"]] == EVERY
    assert why in document["unbounded"][0]["why"] and document["counts"]["selected"] == 6
    strict = call("test-select", "--strict", cwd=made.path)
    assert strict.status == 1 and "unknown: " in strict.err and strict.out.splitlines() == EVERY


def test_a_symbolic_link(made: Repo) -> None:
    """A link that changes, and a file that is found through one."""
    (made.path / "pkg/linked.py").symlink_to("a.py")
    assert ask(made)["unbounded"] == [{"path": "pkg/linked.py", "why": LINKED}]
    made.commit()
    made.write("pkg/b.py", "LIMIT = 2\n")
    assert ask(made)["verdict"] == "selected"
    made.write("pkg/a.py", FILES["pkg/a.py"].replace("1", "2"))
    document = ask(made)
    assert document["verdict"] == "unknown" and "it is also pkg/linked.py" in document["unbounded"][0]["why"]


def test_a_submodule(made: Repo, tmp_path: Path) -> None:
    inner = Repo.init(made.path / "inner")
    inner.write("x", "x")
    inner.commit()
    document = ask(made)
    assert document["unbounded"][0]["why"] == "a submodule: what is in it is not read"


def test_what_is_declared_inert_reaches_nothing(made: Repo) -> None:
    made.write(".ktx-config.yaml", "affected: {inert: [README, 'docs/*']}\n")
    made.commit()
    made.write("README", "changed\n")
    made.write("docs/deep/page.md", "new\n")
    document = ask(made)
    assert document["verdict"] == "selected" and document["tests"] == []


FURNITURE = {
    ".github/workflows/ci.yml": "on: push\n",
    ".pre-commit-config.yaml": "repos: []\n",
    "CHANGES.md": "# 1\n",
    "LICENSE": "free\n",
    "README": "changed\n",
    "docs/deep/page.rst": "Page\n",
    "docs/picture.png": "PNG\n",
    "newsfragments/12.bugfix.md": "mended\n",
}


def test_furniture_reaches_no_test_and_is_named(made: Repo) -> None:
    for path, text in FURNITURE.items():
        made.write(path, text)
    document = ask(made)
    assert document["verdict"] == "selected" and document["tests"] == []
    (note,) = document["notes"]
    assert all(path in note for path in FURNITURE), note


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("docs/requirements.txt", "configuration"),
        ("docs/conf.py", ""),
        ("NEWS.py", ""),
        ("docs/data.json", "no string in any program names it"),
    ],
)
def test_what_only_looks_like_furniture_is_followed(made: Repo, path: str, why: str) -> None:
    made.write(path, "x = 1\n")
    document = ask(made)
    assert document["notes"] == []
    assert [one["why"].startswith(why) for one in document["unbounded"]] == ([True] if why else [])


def test_where_text_files_are_tests_no_text_is_furniture(made: Repo) -> None:
    made.write("pytest.ini", "[pytest]\naddopts = --doctest-glob=*.md\n")
    made.commit()
    made.write("README.md", ">>> 1\n2\n")
    document = ask(made)
    assert document["verdict"] == "unknown" and document["tests"] != [] and document["notes"] == []


def test_a_data_file_that_is_named(made: Repo) -> None:
    made.write("pkg/data.csv", "2\n")
    assert picked(made) == ["tests/test_data.py::test_data"]


OPAQUE = {
    "a module of a computed name": "import importlib\ndef load(name):\n    return importlib.import_module(name)\n",
    "computed source": "def load(text):\n    exec(text)\n",
    "subclasses": "def load(base):\n    return base.__subclasses__()\n",
    "a module started by a computed name": "import subprocess, sys\ndef load(name):\n"
    "    subprocess.run([sys.executable, '-m', name], check=False)\n",
}


@pytest.mark.parametrize("name", OPAQUE)
def test_a_test_without_bounds_is_in_every_answer(made: Repo, name: str) -> None:
    made.write("pkg/opaque.py", OPAQUE[name])
    made.write(
        "tests/test_o.py", "from pkg.opaque import load\ndef test_o():\n    load('x')\ndef test_p():\n    pass\n"
    )
    made.commit()
    assert picked(made) == [], "nothing changed"
    made.write("pkg/b.py", "LIMIT = 2\n")
    document = ask(made)
    unknown = [one["id"] for one in document["tests"] if one["verdict"] == "unknown"]
    assert document["verdict"] == "unknown" and unknown == ["tests/test_o.py::test_o"]
    assert document["counts"]["unknown"] == 1 and document["counts"]["selected"] == 3


def test_one_changed_file_is_the_only_one_that_is_read(made: Repo) -> None:
    assert ask(made)["read"]["files"] == 7
    made.write("pkg/b.py", "LIMIT = 2\n")
    assert ask(made)["read"] == {"files": 1, "known": 7}
    assert ask(made)["read"] == {"files": 0, "known": 8}
    made.commit()
    assert ask(made)["read"] == {"files": 0, "known": 7}, "under the id that git gave it"


def test_a_damaged_cache_is_made_again(made: Repo) -> None:
    assert picked(made) == []
    place = made.path / ".ktx/cache/affected.sqlite"
    place.write_bytes(b"no database at all" * 100)
    made.write("pkg/b.py", "LIMIT = 2\n")
    document = ask(made)
    assert len(document["tests"]) == 2 and document["read"]["files"] == 8 and document["notes"] == []


def test_a_base_that_is_none(made: Repo) -> None:
    ran = call("test-select", "--base", "nowhere", cwd=made.path)
    assert ran.status == 2 and "no such revision: nowhere" in ran.err


def test_an_edit_that_git_was_told_not_to_see(made: Repo) -> None:
    made.git("update-index", "--assume-unchanged", "pkg/b.py")
    made.write("pkg/b.py", "LIMIT = 2\n")
    assert any(covers(one, "tests/test_b.py::test_b") for one in picked(made))


ELSEWHERE = {
    "examples in modules": (
        {
            "pytest.ini": "[pytest]\naddopts = --doctest-modules\n",
            "tests/test_a.py": "from pkg import d\n" + FILES["tests/test_a.py"],
            "pkg/d.py": 'def d():\n    """\n    >>> d()\n    1\n    """\n    return 1\n',
        },
        ["pkg/d.py"],
    ),
    "examples in texts": ({"pytest.ini": "[pytest]\naddopts = --doctest-glob=*.rst\n"}, ["."]),
    "tests of another kind": ({"conftest.py": "def pytest_collect_file(file_path, parent):\n    return None\n"}, ["."]),
    "items of another kind": ({"conftest.py": "def pytest_pycollect_makeitem(name):\n    return None\n"}, ["."]),
    "in declared places": (
        {
            "pytest.ini": "[pytest]\ntestpaths = tests\n",
            "conftest.py": "def pytest_collect_file(file_path, parent):\n    return None\n",
        },
        ["tests"],
    ),
    "names by a conftest": (
        {"conftest.py": "def pytest_configure(config):\n    config.addinivalue_line('python_files', 'x_*.py')\n"},
        ["."],
    ),
    "configuration from elsewhere": ({"pytest.ini": "[pytest]\naddopts = -c other.ini\n"}, ["."]),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_tests_that_are_no_functions_of_a_file(made: Repo, name: str) -> None:
    files, meant = ELSEWHERE[name]
    for path, text in files.items():
        made.write(path, text)
    made.commit()
    made.write("pkg/b.py", "LIMIT = 2\n")
    document = ask(made)
    assert document["verdict"] == "unknown" and set(meant) <= {one["id"] for one in document["tests"]}
    if meant == ["pkg/d.py"]:
        assert "tests/test_a.py" not in {one["id"] for one in document["tests"]}, "importing it runs no example"
    else:
        assert [one["id"] for one in document["tests"]] == meant, "no list of files is the whole"
        assert document["counts"]["selected"] == document["counts"]["total"]
        assert call("test-select", cwd=made.path / "pkg").out == f"../{meant[0]}\n".replace("../.\n", "..\n")


NAMED = {
    "an option in addopts": {"pytest.ini": "[pytest]\naddopts = -o python_files=check_*.py\n"},
    "one that is joined": {"pytest.ini": "[pytest]\naddopts = --override-ini=python_files=check_*.py\n"},
    "a file that addopts names": {"pytest.ini": "[pytest]\naddopts = svc/check_x.py tests\n"},
    "a project below": {"svc/pytest.ini": "[pytest]\npython_files = check_*.py\n"},
    "a project below of other places": {
        "pytest.ini": "[pytest]\ntestpaths = tests\n",
        "svc/pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['check_*.py']\n",
    },
}


@pytest.mark.parametrize("name", NAMED)
def test_how_tests_are_named_is_said_in_several_places(made: Repo, name: str) -> None:
    for path, text in NAMED[name].items():
        made.write(path, text)
    made.write("svc/check_x.py", "from pkg.b import LIMIT\n\n\ndef test_x():\n    assert LIMIT\n")
    made.commit()
    made.write("pkg/b.py", "LIMIT = 2\n")
    assert "svc/check_x.py::test_x" in picked(made)


def test_a_directory_with_a_dot_that_is_named(made: Repo) -> None:
    made.write("pytest.ini", "[pytest]\ntestpaths = .ci/tests\n")
    made.write(".ci/tests/test_x.py", "from pkg.b import LIMIT\n\n\ndef test_x():\n    assert LIMIT\n")
    made.commit()
    made.write("pkg/b.py", "LIMIT = 2\n")
    assert picked(made) == [".ci/tests/test_x.py::test_x"]
    ran = call("test-select", "--environment", "A=B", cwd=made.path)
    assert ran.status == 2 and "no name of a variable: A=B" in ran.err


def test_a_module_in_the_place_of_an_installed_one(made: Repo) -> None:
    """What an installed package imports by that name, no file of ours says."""
    made.write("pluggy.py", "x = 1\n")
    document = ask(made)
    assert document["verdict"] == "unknown" and "installed pluggy" in document["unbounded"][0]["why"]
    made.commit()
    made.write("pluggy.py", "x = 2\n")
    assert ask(made)["verdict"] == "selected", "it stood there before"
    made.write("pkg/pluggy.py", "x = 1\n")
    assert ask(made)["verdict"] == "selected", "it lies in a package"
    (made.path / "pluggy.py").unlink()
    assert ask(made)["verdict"] == "unknown"


SCRIPTS = {
    "pyproject": {"pyproject.toml": "[project.scripts]\nshow-it = 'pkg.cli:main'\n"},
    "poetry": {"pyproject.toml": "[tool.poetry.scripts]\nshow-it = 'pkg.cli:main'\n"},
    "setup.cfg": {"setup.cfg": "[options.entry_points]\nconsole_scripts =\n    show-it = pkg.cli:main\n"},
    "setup.py": {"setup.py": "setup(entry_points={'console_scripts': ['show-it=pkg.cli:main']})\n"},
    "setup.py, as text": {"setup.py": "setup(entry_points='[console_scripts]\\nshow-it = pkg.cli:main')\n"},
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_console_script_runs_reaches_who_starts_it(made: Repo, name: str) -> None:
    for path, text in SCRIPTS[name].items():
        made.write(path, text)
    made.write("pkg/cli.py", "from pkg.impl import show\n\n\ndef main():\n    show()\n")
    made.write("pkg/impl.py", "def show():\n    print(1)\n")
    made.write(
        "tests/test_s.py", "import subprocess\n\n\ndef test_s():\n    subprocess.run(['show-it'], check=False)\n"
    )
    made.commit()
    made.write("pkg/impl.py", "def show():\n    print(2)\n")
    assert picked(made) == ["tests/test_s.py::test_s"]


def test_a_category_of_warnings_that_pytest_loads(made: Repo) -> None:
    made.write("pytest.ini", "[pytest]\nfilterwarnings =\n    error::pkg.w.Own\n")
    made.write("pkg/w.py", "class Own(UserWarning):\n    pass\n")
    made.commit()
    made.write("pkg/w.py", "class Other(UserWarning):\n    pass\n")
    assert picked(made) == EVERY


def test_entry_points_that_a_build_wrote_down(made: Repo) -> None:
    made.write("x.egg-info/entry_points.txt", "[console_scripts]\nshow-it = pkg.cli:main\n\n[a.group]\none = pkg.one\n")
    made.write("pkg/cli.py", "def main():\n    print(1)\n")
    made.write("pkg/one.py", "ONE = 1\n")
    made.write(
        "tests/test_s.py", "import subprocess\n\n\ndef test_s():\n    subprocess.run(['show-it'], check=False)\n"
    )
    made.write("tests/test_e.py", "from importlib.metadata import entry_points\n\n\ndef test_e():\n"
               "    assert [one.load() for one in entry_points(group='a.group')]\n")  # fmt: skip
    made.commit()
    made.write("pkg/cli.py", "def main():\n    print(2)\n")
    assert picked(made) == ["tests/test_s.py::test_s"]
    made.git("checkout", "-q", "--", ".")
    made.write("pkg/one.py", "ONE = 2\n")
    assert picked(made) == ["tests/test_e.py::test_e"]


def test_a_module_in_the_place_of_a_standard_one(made: Repo) -> None:
    made.write("tests/queue.py", "x = 1\n")
    document = ask(made)
    assert document["verdict"] == "unknown" and "standard library's queue" in document["unbounded"][0]["why"]
