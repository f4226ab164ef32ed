"""What a small start does not import: start-up is most of what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs import job_file
from tests.support.repos import Repo

BODY = """
import sys
from {module} import main
status = main(sys.argv[1:])
print(status, *(name for name in sys.modules if name.partition(".")[0] in {{"ktxkit", *{others!r}}}), file=sys.stderr)
"""
OTHERS = (
    "argparse",
    "concurrent",
    "dataclasses",
    "html",
    "inspect",
    "jsonschema_rs",
    "logging",
    "ruamel",
    "secrets",
    "sqlite3",
    "subprocess",
    "tempfile",
)
JUDGING = {"judging", "configuration", "plugin", "hooks", "pruning", "rules.artifacts", "rules.scope"}


def imported(command: str, *args: object, cwd: Path) -> set[str]:
    """The modules of ours, and of OTHERS, that a process has loaded when the command has succeeded."""
    body = BODY.format(module="ktx_" + command.replace("-", "_"), others=OTHERS)
    argv = [sys.executable, "-c", body, *map(str, args)]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status == "0", done.stdout + done.stderr
    return set(modules)


def of_wing(wing: str, modules: set[str]) -> set[str]:
    return {name for name in modules if f"{name}.".startswith(f"ktxkit.{wing}.")}


@pytest.fixture
def wiki(repo: Repo) -> Repo:
    """With as many artifacts as it takes for facts and verdicts to be kept."""
    for number in range(210):
        repo.write(f"wiki/global/p{number}.md", "---\nsummary: a\n---\ntext\n")
    repo.commit("a wiki")
    return repo


@pytest.mark.parametrize("args", [("--all",), ("--index",)])
def test_a_kept_verdict_is_answered_without_what_judges(wiki: Repo, args: tuple[str, ...]) -> None:
    machinery = {f"ktxkit.gates.{name}" for name in JUDGING}
    assert imported("gate-check", *args, cwd=wiki.path) >= {"ktxkit.gates.judging", "ktxkit.gates.rules.artifacts"}
    assert imported("gate-check", *args, cwd=wiki.path) & (machinery | {"ruamel", "jsonschema_rs"}) == set()


def test_an_event(tmp_path: Path) -> None:
    modules = imported("trace-append", "--trace", "t", "--phase", "x", "--event", "y", cwd=tmp_path)
    assert "ktxkit.work.appending" in modules
    assert modules & {"dataclasses", "subprocess", "jsonschema_rs", "ruamel", "sqlite3"} == set()
    for wing in ("git", "gates", "observer", "ledger", "affected", "ingest"):
        assert of_wing(wing, modules) == set()


@pytest.mark.parametrize("command", ["gate-check", "job-run", "ledger-query", "patch-apply", "worktree-open"])
def test_help(command: str, tmp_path: Path) -> None:
    modules = imported(command, "--help", cwd=tmp_path)
    assert "argparse" in modules
    for wing in ("git", "work", "observer", "affected", "ingest"):
        assert of_wing(wing, modules) == set()
    assert modules & {"dataclasses", "inspect", "subprocess", "ruamel", "jsonschema_rs", "sqlite3"} == set()
    questions = {"ktxkit.ledger.asking"} if command == "ledger-query" else set()  # its help lists them
    assert of_wing("ledger", modules) - {"ktxkit.ledger"} == questions


def test_a_run_that_selects_nothing_reads_no_sources(repo: Repo) -> None:
    repo.write("test_a.py", "def test_a():\n    pass\n")
    repo.commit("a test")
    modules = imported("test-run", "--scope", "full", "--", "-q", cwd=repo.path)
    assert "ktxkit.affected.test_run" in modules
    assert modules & {f"ktxkit.affected.{name}" for name in ("running", "select", "proof", "trees")} == set()


def test_pytest_without_a_store(repo: Repo) -> None:
    repo.write("test_a.py", "def test_a():\n    pass\n")
    loaded = "[name for name in sys.modules if name.startswith('ktxkit')]"
    repo.write("conftest.py", f"import sys\n\n\ndef pytest_unconfigure():\n    print(*{loaded})\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(done.stdout.splitlines()[-1].split())
    assert found == {"ktxkit", "ktxkit.ledger", "ktxkit.ledger.pytest_plugin"}
    inits = [Path("ktxkit/__init__.py"), Path("ktxkit/ledger/__init__.py")]
    root = Path(__file__).resolve().parents[2]
    assert all((root / path).read_text().count("\n") < 10 for path in inits)


def test_a_job_that_nobody_observes(repo: Repo) -> None:
    def ran(**more: Any) -> set[str]:
        units = [{"key": "a", "run": ["sh", "-c", "echo x > wiki/a.md"]}]
        repo.write("wiki/b.md", "b\n")
        repo.commit("another")
        return of_wing("observer", imported("job-run", job_file(repo, {"units": units, **more}), cwd=repo.path))

    assert ran() == set()
    assert "ktxkit.observer.observe" in ran(observe={})


def test_a_job_imports_nothing_that_its_units_would_wait_for(repo: Repo) -> None:
    """A dataclass costs six times a named tuple to make, and brings `inspect`; a thread pool brings `logging`."""
    units = [{"key": "a", "run": ["sh", "-c", "echo x > a"]}]
    modules = imported("job-run", job_file(repo, {"units": units}), cwd=repo.path)
    assert "ktxkit.work.integrate" in modules
    assert (
        modules & {"dataclasses", "inspect", "concurrent", "logging", "html", "sqlite3", "tempfile", "secrets"} == set()
    )


def test_a_patch(repo: Repo) -> None:
    repo.write("text", "a\n")
    base = repo.commit("before")
    repo.write("text", "b\n")
    patch = repo.path.parent / "p.patch"
    patch.write_text(repo.git("diff") + "\n")
    repo.git("checkout", "-q", "text")
    modules = imported("patch-apply", patch, "--base", base, cwd=repo.path)
    assert (repo.path / "text").read_text() == "b\n"
    for wing in ("ledger", "observer", "affected", "ingest"):
        assert of_wing(wing, modules) == set()
