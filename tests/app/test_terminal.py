"""What every command does at a terminal: help, version, common options, streams, colours, errors."""

from __future__ import annotations

import importlib
import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ktxkit import __version__
from ktxkit.app import cli
from ktxkit.base import contracts
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Conflict, KtxError, Refused
from tests.support.commands import call, script, spawn
from tests.support.repos import Repo

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
HEAVY = (
    "jsonschema",
    "jsonschema_rs",
    "fastjsonschema",
    "dulwich",
    "ruamel",
    "markdown_it",
    "sqlglot",
    "rich",
    "blake3",
)
each = pytest.mark.parametrize("name", NAMES)


@each
def test_help_fits_and_shows_an_example_first(name: str, tmp_path: Path) -> None:
    done = spawn(name, "--help", cwd=tmp_path, env={"COLUMNS": "80"})
    assert (done.status, done.err) == (0, "")
    assert done.out.isascii() and "\x1b" not in done.out
    text, _, options = done.out.partition("\noptions:")
    assert options or "common options:" in text
    for word in ("reads", "writes", "exits"):
        assert f"\n{word:<9}" in text, word
    assert text.index("\nexamples:\n") < text.index("\nreads ")
    in_examples = False
    for line in done.out.splitlines():
        in_examples = line == "examples:" or (in_examples and line.startswith("    "))
        assert in_examples or len(line) <= 80, line
    for option in ("-h, --help", "--version", "-C DIR", "--ktx-dir DIR", "--json", "-q, --quiet"):
        assert option in done.out, option


@each
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(name: str, option: str, tmp_path: Path) -> None:
    module = "ktx_" + name.replace("-", "_")
    body = f"""
import sys
from {module} import main
status = main([{option!r}])
loaded = sorted({{m.partition('.')[0] for m in sys.modules}} & set({HEAVY!r}))
assert status == 0 and not loaded, (status, loaded)
"""
    done = subprocess.run([sys.executable, "-c", body], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if option == "--version":
        assert done.stdout == f"{name} {__version__}\n"


@each
def test_wrong_usage_is_one_sentence_and_one_document(name: str, tmp_path: Path) -> None:
    done = spawn(name, "--no-such-option", cwd=tmp_path)
    assert done.status == 2 and done.out == ""
    assert done.err.startswith(f"{name}: ") and f"see {name} --help\n" in done.err
    done = spawn(name, "--no-such-option", "--json", cwd=tmp_path)
    contracts.validate("result", done.json)
    assert (done.status, done.err, done.json["status"], done.json["command"]) == (2, "", 2, name)


@each
def test_a_directory_that_is_none(name: str, tmp_path: Path) -> None:
    done = spawn(name, "-C", "nowhere", cwd=tmp_path)
    assert done.status == 2 and "Traceback" not in done.err
    assert "no such directory: nowhere" in done.err or f"see {name} --help\n" in done.err


@each
def test_no_arguments_outside_a_repository_is_no_traceback(name: str, tmp_path: Path) -> None:
    done = spawn(name, cwd=tmp_path)
    assert done.status in (0, 1, 2), done
    assert "Traceback" not in done.err and list(tmp_path.iterdir()) == []


@each
def test_options_are_never_abbreviated(name: str, tmp_path: Path) -> None:
    assert spawn(name, "--vers", cwd=tmp_path).status == 2


@each
def test_a_reader_that_went_away(name: str, tmp_path: Path) -> None:
    there, ours = os.pipe()
    os.close(there)
    done = subprocess.run([script(name), "--help"], stdout=ours, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(ours)
    assert (done.returncode, done.stderr) == (141, b"")


@each
def test_a_full_disk_is_said(name: str, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([script(name), "--help"], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"the disk is full" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    words = "--trace t --phase x --event y --json"
    done = subprocess.run(
        ["sh", "-c", f"exec {script('trace-append')} {words} {closed}"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len((tmp_path / "t").read_bytes().splitlines()) == 1, "nothing else was written into it"


def test_ascii_only_where_the_stream_is(tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    done = spawn("job-report", "-C", "caf\u00e9", cwd=tmp_path, env=env)
    assert done.status == 2 and done.err.isascii() and "caf\\xe9" in done.err


ERRORS: list[tuple[KtxError, int, str]] = [
    (Refused("no"), 1, "ktx: no\n"),
    (CannotRun("cannot", location="f:1", hint="do this"), 2, "ktx: f:1: cannot\n  hint: do this\n"),
    (Conflict("both", outcome="semantic_conflict"), 3, "ktx: both\n"),
    (Blocked("look", hint="at it"), 4, "ktx: look\n  hint: at it\n"),
    (BrokenContract("bad", location="f.json"), 5, "ktx: f.json: bad\n"),
    (CannotRun("two\nlines"), 2, "ktx: two\nlines\n"),
    (CannotRun("evil \x1b[31m\u202e\r", location="na\x07me"), 2, "ktx: na\\u0007me: evil \\u001b[31m\\u202e\\r\n"),
    (CannotRun("ktx: named once"), 2, "ktx: named once\n"),
]


@pytest.mark.parametrize(("error", "status", "text"), ERRORS)
def test_an_error_is_rendered(error: KtxError, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object) -> cli.Result:
        raise error

    assert cli.execute(cli.Parser("ktx", "doc"), run, []) == status
    assert capsys.readouterr() == ("", text)
    assert cli.execute(cli.Parser("ktx", "doc"), run, ["--json"]) == status
    document = json.loads(capsys.readouterr().out)
    contracts.validate("result", document)
    assert (document["status"], document["error"]["kind"]) == (status, type(error).__name__)


def test_quiet_keeps_data_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object) -> cli.Result:
        return cli.Result(lines=["data"], notes=["talk"])

    assert cli.execute(cli.Parser("ktx", "doc"), run, []) == 0
    assert capsys.readouterr() == ("data\n", "talk\n")
    assert cli.execute(cli.Parser("ktx", "doc"), run, ["-q"]) == 0
    assert capsys.readouterr() == ("data\n", "")


def test_no_traceback_for_a_key_press(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object) -> cli.Result:
        raise KeyboardInterrupt

    assert cli.execute(cli.Parser("ktx", "doc"), run, []) == 130
    assert capsys.readouterr() == ("", "ktx: interrupted\n")


def test_git_ktx_lists_every_command_and_runs_one(tmp_path: Path) -> None:
    done = call("git-ktx", cwd=tmp_path)
    assert done.status == 0
    listed = [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")]
    assert set(NAMES) - {"git-ktx"} <= set(listed)
    git = subprocess.run(
        ["git", "ktx", "trace-append", "--version"],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (git.returncode, git.stdout) == (0, f"trace-append {__version__}\n")


@pytest.mark.parametrize("words", [["patch-aply"], ["git-ktx"], ["-x"], ["nothing-like-it"]])
def test_git_ktx_refuses_what_it_does_not_know(words: list[str], tmp_path: Path) -> None:
    done = spawn("git-ktx", *words, cwd=tmp_path)
    assert done.status == 2 and "hint" in done.err and "Traceback" not in done.err


def test_every_module_has_the_shape() -> None:
    for name in NAMES:
        module = importlib.import_module("ktx_" + name.replace("-", "_"))
        assert module.parser().prog == name
        assert callable(module.run) and callable(module.main)


def test_without_proc_it_is_said_what_works(repo: Repo) -> None:
    """As on another system: /proc is taken away in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace of its own needs root")
    repo.write("page", "text\n")
    repo.commit()
    hidden = 'mount --make-rprivate / && umount -l /proc && exec "$@"'

    def without(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "-m", "sh", "-c", hidden, "sh", script(words[0]), *words[1:]]
        return subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, check=False)

    works = ("gate-check", "ledger-query", "test-select", "job-report")
    said = f"{', '.join(works[:3])} and {works[3]} work"

    def refused(*words: str) -> None:
        done = without(*words)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done
        assert f"hint: this needs Linux, with /proc: elsewhere {said}" in done.stderr

    refused("git-ktx", "run", "true")
    refused("worktree-open", "a")
    assert without("git-ktx", "list").returncode == 0, "there is no store to look into"
    assert call("git-ktx", "run", "echo 1 > one", cwd=repo.path).status == 0
    refused("git-ktx", "list")
    asked = (("gate-check", "--all"), ("ledger-query", "runs"), ("test-select",), ("job-report",))
    assert [words[0] for words in asked] == list(works)
    for line in asked:
        done = without(*line)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done


def test_colour_is_for_terminals_that_have_not_said_no(repo: Repo) -> None:
    repo.write("page", "text\n")
    repo.commit()

    def shown(**variables: str) -> str:
        """What a terminal gets."""
        ours, theirs = pty.openpty()
        env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        env |= {"TERM": "xterm-256color", **variables}
        words = [script("git-ktx"), "run", "exit 2"]
        with subprocess.Popen(words, cwd=repo.path, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as child:
            os.close(theirs)
            got = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # gate-ok: EIO is the end of a terminal whose other side is closed
                    break
                got += part
            assert child.wait() == 3
        os.close(ours)
        return got.decode()

    coloured = re.compile("\x1b\\[(?:[0-9]+;)*3[0-9]m")
    assert "] failed" in shown(NO_COLOR="1") and not coloured.search(shown(NO_COLOR="1"))
    assert coloured.search(shown()), "a unit's outcome has its colour"
    assert "\x1b" not in shown(TERM="dumb")
    plain = spawn("git-ktx", "run", "exit 2", cwd=repo.path, env={"TERM": "xterm-256color", "NO_COLOR": ""})
    assert plain.status == 3 and "\x1b" not in plain.out + plain.err
