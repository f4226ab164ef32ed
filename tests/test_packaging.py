"""The project as it is installed: wheel, fresh environment, editable install, types from outside."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from ktxkit.app import commands
from ktxkit.app.commands import all_parsers, man_pages, scripts
from ktxkit.base import contracts
from tests.support.browser import need
from tests.support.install import ROOT, checked, export, once, pip, venv
from tests.support.repos import Repo

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS = sorted(PYPROJECT["project"]["scripts"])
CONSUMER = """
from ktxkit.base import contracts
from ktxkit.base.errors import KtxError
from ktxkit.work.report import build
reveal_type(contracts.names())
reveal_type(KtxError.status)
contracts.validate(1, {})
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tracked files alone."""

    def make(place: Path) -> None:
        source = export(place / "source")
        checked(
            sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps",
            "-w", place / "dist", source,
        )  # fmt: skip

    (found,) = (once(tmp_path_factory, "wheel", make) / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The bin directory of a fresh environment that has the wheel and nothing else."""
    return once(tmp_path_factory, "installed", lambda place: venv(place / "venv", wheel)) / "venv" / "bin"


def test_the_wheel_holds_what_it_needs_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    data = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    assert data == {f"share/man/man1/{name}.1" for name in man_pages(all_parsers(scripts().values()))}
    top = {name.split("/")[0] for name in names if ".dist-info" not in name and ".data/" not in name}
    assert top == {"ktxkit", *(f"{module}.py" for module in PYPROJECT["tool"]["setuptools"]["py-modules"])}
    assert {f"ktxkit/schemas/{name}.schema.json" for name in contracts.names()} <= set(names)
    hooks = {f"ktxkit/hooks/{path.name}" for path in (ROOT / "hooks").iterdir() if path.is_file()}
    assert hooks <= set(names) and "ktxkit/py.typed" in names
    library = [p for p in (ROOT / "ktxkit").rglob("*") if p.is_file() and p.parent.name != "__pycache__"]
    assert {f"ktxkit/{path.relative_to(ROOT / 'ktxkit')}" for path in library} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs", "examples", "bench"))]


@pytest.mark.parametrize("name", SCRIPTS)
def test_installed_scripts_answer(installed: Path, name: str, tmp_path: Path) -> None:
    version = PYPROJECT["project"]["version"]
    assert checked(installed / name, "--version", cwd=tmp_path) == f"{name} {version}\n"


def test_git_finds_the_man_pages_beside_the_commands(installed: Path, repo: Repo) -> None:
    need(shutil.which("man"), "man")
    env = {**os.environ, "PATH": f"{installed}:{os.environ['PATH']}", "MANPAGER": "cat", "MANWIDTH": "80"}
    env.pop("MANPATH", None)
    assert checked("git", "ktx", "--help", cwd=repo.path, env=env).startswith("GIT-KTX(1)")
    for name in SCRIPTS:
        assert checked("man", name, cwd=repo.path, env=env).startswith(f"{name.upper()}(1)")
    assert checked("man", "git-ktx-status", cwd=repo.path, env=env).startswith("GIT-KTX-STATUS(1)")
    assert checked("git", "ktx", "help", "job-run", cwd=repo.path, env=env).startswith("usage: job-run ")


def test_the_documentation_came_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    for folder in ("", "guides", "recipes", "formats", "commands"):
        page = sorted((ROOT / "docs" / folder).glob("*.md"))[0]
        listed = checked(installed / "git-ktx", "help", "pages", cwd=tmp_path)
        assert f"\n{page.stem} " in f"\n{listed}", page
    page = ROOT / "docs/guides/job-failed.md"
    assert checked(installed / "git-ktx", "help", "job-failed", cwd=tmp_path) == page.read_text("utf-8")


def test_completions_came_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    """shtab is not there: they were written when it was built, from the same parsers."""
    absent = subprocess.run([installed / "python", "-c", "import shtab"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in absent.stderr
    for shell in commands.SHELLS:
        assert checked(installed / "git-ktx", "completions", shell, cwd=tmp_path) == checked(
            Path(sys.executable).parent / "git-ktx", "completions", shell, cwd=tmp_path
        )


HELPED = [*SCRIPTS, "git-ktx status", "git-ktx install-hooks"]
HELP = (
    "import subprocess, sys, os\n"
    "for words in sys.argv[2:]:\n"
    "    done = subprocess.run([f'{sys.argv[1]}/{words.split()[0]}', *words.split()[1:], '-h'], capture_output=True)\n"
    "    assert not done.stderr, done\n"
    "    sys.stdout.write(f'{words} {done.returncode}\\n{done.stdout.decode()}')\n"
)


@pytest.mark.parametrize("width", ["", "60", "80", "81", "100", "140", "0", "wide"])
def test_help_is_what_the_parsers_print(installed: Path, tmp_path: Path, width: str) -> None:
    """The wheel has it as text for two widths; in the editable environment of the tests there is none."""
    env = {**os.environ, "COLUMNS": width}
    assert (installed.parent / "bin").is_dir() and not commands.WRITTEN.joinpath("help.80").exists()
    words = HELPED if width in ("80", "100") else HELPED[-4:]
    texts, parsed = (
        checked(sys.executable, "-c", HELP, place, *words, cwd=tmp_path, env=env)
        for place in (installed, Path(sys.executable).parent)
    )
    assert texts == parsed and texts.count("usage: ") >= len(words)


def test_help_loads_no_parser(installed: Path, tmp_path: Path) -> None:
    """What takes time beside Python's own start; pip's script itself imports re."""
    heavy = {"argparse", "typing", "pathlib", "dataclasses", "subprocess", "ktxkit"}
    for name, words in {"job-run": ["--help"], "git-ktx": ["status", "-h"], "gate-check": ["-h"]}.items():
        for options, loads in ((words, False), ([*words, "--quiet"], True)):
            done = subprocess.run(
                [installed / "python", "-X", "importtime", installed / name, *options],
                cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"},
            )  # fmt: skip
            loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
            assert "site" in loaded and done.stdout.startswith("usage: "), done
            assert (heavy & loaded == set()) is not loads, (name, heavy & loaded)


def test_help_that_cannot_be_written_is_told(installed: Path, tmp_path: Path) -> None:
    """The text goes out by another way than a parser's; the answers to a closed or full stream are the same."""
    for shell, status, message in (
        ("exec >/dev/full", 2, "full"),
        ("exec >&-", 0, ""),
        ("PYTHONIOENCODING=utf-16; export PYTHONIOENCODING", 0, ""),
    ):
        both = [
            subprocess.run(
                ["sh", "-c", f'{shell}; exec "$0" --help', place / "job-run"],
                cwd=tmp_path,
                capture_output=True,
                check=False,
            )
            for place in (installed, Path(sys.executable).parent)
        ]
        assert both[0].stdout == both[1].stdout and both[0].stderr == both[1].stderr, both
        assert both[0].returncode == both[1].returncode == status and message in both[0].stderr.decode(), both


def test_without_jsonschema_rs_every_command_answers(installed: Path, tmp_path: Path) -> None:
    """The environment has what is required and no more: jsonschema-rs, which some systems cannot have, is not."""
    absent = subprocess.run(
        [installed / "python", "-c", "import jsonschema_rs"], capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in absent.stderr
    env = {**os.environ, "COLUMNS": "79"}  # a width of which no text was written: the parsers are loaded
    for name in SCRIPTS:
        assert "\nexamples:\n" in checked(installed / name, "--help", cwd=tmp_path, env=env)
    words = ["--trace", "t.jsonl", "--phase", "x", "--event", "No Event"]
    done = subprocess.run(
        [installed / "trace-append", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5 and "event: 'No Event' does not match" in done.stderr, done
    body = (
        "import sys; from pathlib import Path; from ktxkit.base import contracts, errors\n"
        "verdicts = set()\n"
        "for path in sorted(Path(sys.argv[1]).glob('*/*valid/*.json')):\n"
        "    try: contracts.loads(path.parts[-3], path.read_bytes())\n"
        "    except errors.BrokenContract: verdicts.add((path.parts[-2], 'broken'))\n"
        "    else: verdicts.add((path.parts[-2], 'sound'))\n"
        "print(sorted(verdicts))\n"
    )
    verdicts = checked(installed / "python", "-c", body, ROOT / "tests" / "schemas", cwd=tmp_path)
    assert verdicts == "[('invalid', 'broken'), ('valid', 'sound')]\n"


def test_the_installed_commands_work_without_the_sources(installed: Path, repo: Repo) -> None:
    env = {**os.environ, "PATH": f"{installed}:{os.environ['PATH']}"}
    words = ["--trace", "t.jsonl", "--phase", "x", "--event", "y"]
    checked("trace-append", *words, cwd=repo.path, env=env)
    assert contracts.loads("trace-event", (repo.path / "t.jsonl").read_bytes())["event"] == "y"
    listed = checked("git", "ktx", cwd=repo.path, env=env)
    assert set(SCRIPTS) - {"git-ktx"} <= {word for line in listed.splitlines() for word in line.split()[:1]}
    assert "(not installed)" not in listed


@pytest.mark.skipif(os.environ.get("KTX_TEST_FULL") != "1", reason="the long form; `make test-full`")
def test_a_gate_of_an_installed_package_is_found(wheel: Path, repo: Repo, tmp_path: Path) -> None:
    """Built, installed by pip beside ktxkit and found by its entry point; gone when it is uninstalled."""
    package = tmp_path / "shout"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'shout'\nversion = '1.0'\n[project.entry-points.'ktxkit.gates']\nshout = 'shout:check'\n"
        "[tool.setuptools]\npy-modules = ['shout']\n"
    )
    (package / "shout.py").write_text(
        "from ktxkit.gates import Answer, Finding\n\n\ndef check(subject, settings):\n"
        "    paths = subject.chosen(['**/*.txt'])\n"
        "    loud = [path for path, data in subject.each(paths) if data.isupper()]\n"
        "    return Answer([Finding('shout', path, 'not so loud', 1, 1, gate='shout') for path in loud], len(paths))\n"
    )
    bin = venv(tmp_path / "venv", wheel)
    pip(bin, "install", "--no-deps", package)
    repo.write("ktx-gates.yaml", "gates:\n  - gate: shout\n")
    repo.write("a.txt", "LOUD")
    repo.write("b.txt", "soft")
    repo.commit("words")
    done = subprocess.run([bin / "gate-check", "--all"], cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "a.txt:1:1: error shout not so loud" in done.stdout + done.stderr, done
    pip(bin, "uninstall", "-y", "shout")
    gone = subprocess.run([bin / "gate-check", "--all"], cwd=repo.path, capture_output=True, text=True, check=False)
    assert gone.returncode == 2 and "no gate named 'shout'" in gone.stderr, gone


def test_pytest_says_at_once_that_an_install_is_not_editable(installed: Path) -> None:
    """Hundreds of tests failed without a word of why. The environment has ktxkit from its wheel, pytest from here."""
    done = subprocess.run(
        [installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_packaging.py"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(Path(pytest.__file__).parent.parent)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and done.stdout.strip() == "", done
    assert done.stderr.startswith(f"ERROR: the tests need ktxkit installed in editable mode from {ROOT}, but "), done
    assert "finds ktxkit.schemas nowhere" in done.stderr and "make test" in done.stderr
    assert f"{installed / 'python'} -m pip install -e '.[dev]'" in done.stderr


def test_no_undeclared_dependency(installed: Path, tmp_path: Path) -> None:
    """Every module and command can be imported with the declared dependencies alone; the plugin is pytest's guest."""
    body = (
        "import importlib, pkgutil, ktxkit\n"
        "from importlib.metadata import distribution\n"
        "names = [m.name for m in pkgutil.walk_packages(ktxkit.__path__, 'ktxkit.')]\n"
        "entries = distribution('ktxkit').entry_points.select(group='console_scripts')\n"
        "names += sorted('ktx_' + e.attr for e in entries)\n"
        "assert len(names) > 20, names\n"
        "guests = ('ktxkit.ledger.pytest', 'ktxkit.ledger.recording')\n"
        "[importlib.import_module(n) for n in names if not n.startswith(guests)]\n"
    )
    checked(installed / "python", "-c", body, cwd=tmp_path)


def test_mypy_sees_the_types_from_outside(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python", "consumer.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.search(r'Revealed type is "(builtins\.)?tuple\[(builtins\.)?str, \.\.\.\]"', done.stdout), done.stdout
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1 and errors[0].startswith("consumer.py:7: "), done.stdout


def test_pyright_sees_the_types_from_outside(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER)
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--level", "error", "--pythonpath", installed / "python", "consumer.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line.strip() for line in done.stdout.splitlines() if " - error: " in line]
    assert errors and all(":7:" in line for line in errors), done.stdout + done.stderr


def test_an_editable_install(tmp_path: Path) -> None:
    source = export(tmp_path / "source")
    there = venv(tmp_path / "venv", "--no-deps", "-e", source)
    assert checked(there / "trace-append", "--version", cwd=tmp_path).startswith("trace-append ")
    init = source / "ktxkit" / "__init__.py"
    init.write_text(init.read_text().replace(PYPROJECT["project"]["version"], "9.9.9"))
    assert checked(there / "trace-append", "--version", cwd=tmp_path) == "trace-append 9.9.9\n"
    assert (there.parent / "share/man/man1/git-ktx.1").is_file()
    assert not list(source.rglob("completions.bash")), "they would be those of yesterday's parsers"
    found = checked(
        there / "python", "-c", "from ktxkit.base import contracts; print(*contracts.names())", cwd=tmp_path
    )
    assert found.split() == list(contracts.names())
