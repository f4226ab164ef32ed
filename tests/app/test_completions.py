"""Completions and man pages say what the parsers say, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ktxkit.app import commands, git_ktx
from ktxkit.app.commands import all_commands, all_parsers
from ktxkit.app.commands import scripts as modules
from ktxkit.app.rules import help_text
from ktxkit.app.rules.help_text import CommandHelp
from tests.support.browser import need
from tests.support.commands import call
from tests.support.repos import Repo
from tests.support.terminal import terminal

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = all_commands()
SCRIPTS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
each = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def test_every_command_is_there() -> None:
    assert [c.name for c in COMMANDS] == [*SCRIPTS, *(f"git ktx {name}" for name in git_ktx.names())]


def rendered(shell: str) -> str:
    return commands.render(shell, all_parsers(modules().values()))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("completions")
    for shell in commands.SHELLS:
        (place / shell).write_text(rendered(shell))
    return place


@pytest.fixture
def job(repo: Repo) -> Repo:
    """A repository with one job, for what is completed from the store."""
    assert call("worktree-open", "--job", "night-1", "--unit", "a", cwd=repo.path).status == 0
    repo.write("READ me", "x")
    return repo


def path() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def ran(argv: list[str], cwd: Path) -> list[str]:
    done = subprocess.run(argv, cwd=cwd, env=path(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done
    return [line for line in done.stdout.splitlines() if line]


def in_bash(scripts: Path, cwd: Path, *words: str) -> list[str]:
    """What bash offers for the last word; `git` is completed by git's own completion, which calls `_git_ktx`."""
    quoted = " ".join(f"'{word}'" for word in words)
    function = "_git_ktx" if words[0] == "git" else f"$(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
    body = f". {scripts}/bash; compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; {function}"
    return ran(["bash", "-c", f'{body}; printf "%s\\n" "${{COMPREPLY[@]}}"'], cwd)


def in_fish(scripts: Path, cwd: Path, *words: str) -> list[str]:
    fish = need(shutil.which("fish"), "fish")
    line = " ".join(words)
    done = subprocess.run(
        [fish, "--no-config", "-c", f"source {scripts}/fish; complete -C '{line}'"],
        cwd=cwd, env=path(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done
    return [line.split("\t")[0].replace("\\ ", " ") for line in done.stdout.splitlines()]


@each
@pytest.mark.parametrize("shell", [in_bash, in_fish], ids=["bash", "fish"])
def test_every_long_option_is_offered(shell: object, scripts: Path, tmp_path: Path, command: CommandHelp) -> None:
    words = command.name.split(" ")
    words = words if words[0] != "git" else ["git-ktx", *words[2:]]
    if words == ["git-ktx"]:
        return  # its own options come before a name: nothing to complete them from
    assert callable(shell)
    offered = shell(scripts, tmp_path, *words, "--")
    assert {flag for option in command.switches for flag in option.flags if flag.startswith("--")} <= set(offered)


VALUES: list[tuple[list[str], set[str]]] = [
    (["job-report", "--job", ""], {"night-1"}),
    (["job-report", "n"], {"night-1"}),
    (["trace-append", "--level", "de"], {"debug"}),
    (["git-ktx", "stat"], {"status"}),
    (["git-ktx", "patch-ap"], {"patch-apply"}),
    (["git-ktx", "completions", ""], {"bash", "zsh", "fish"}),
    (["git-ktx", "job-report", "--job", ""], {"night-1"}),
    (["job-run", "READ"], {"README"}),
    (["job-run", "-C", ".kt"], {".ktx"}),
    (["job-run", "REA"], {"READ me", "README"}),
    (["patch-collect", "--job", "night-1", "--unit", ""], {"a"}),
    (["git-ktx", "patch-collect", "--unit", ""], {"a"}),
]


@pytest.mark.parametrize(("words", "wanted"), VALUES, ids=[" ".join(words) for words, _ in VALUES])
@pytest.mark.parametrize("shell", [in_bash, in_fish], ids=["bash", "fish"])
def test_values(shell: object, scripts: Path, job: Repo, words: list[str], wanted: set[str]) -> None:
    assert callable(shell)
    offered = {word.rstrip("/") for word in shell(scripts, job.path, *words)}
    assert wanted <= offered, offered
    if words[-1]:
        assert all(word.startswith(words[-1]) for word in offered)


def test_bash_completes_what_git_runs(scripts: Path, job: Repo) -> None:
    """Of `git ktx`, git's own completion asks the function of that name."""
    assert in_bash(scripts, job.path, "git", "ktx", "stat") == ["status"]
    assert in_bash(scripts, job.path, "git", "-C", ".", "ktx", "job-report", "--job", "") == ["night-1"]


def test_nothing_is_offered_after_two_dashes(scripts: Path, tmp_path: Path) -> None:
    assert in_bash(scripts, tmp_path, "trace-append", "--", "make", "--") == []


LOADED = {  # in zsh: sourced, or a function that is loaded when it is first needed
    "sourced": "autoload -Uz compinit; compinit -u -d {top}/.zc; . {script}",
    "in fpath": "cp {script} {top}/_ktx; fpath=({top} $fpath); autoload -Uz compinit; compinit -u -d {top}/.zc",
}
TYPED = {
    "trace-append --dura": "trace-append --duration-ms",
    "job-report --job ni": "job-report --job night-1",
    "git-ktx stat": "git-ktx status",
    "trace-append --level de": "trace-append --level debug",
    "git ktx patch-coll": "git ktx patch-collect",
    "job-run READM": "job-run README",
}


@pytest.mark.parametrize("how", LOADED)
def test_zsh_in_a_terminal(scripts: Path, job: Repo, how: str) -> None:
    zsh = need(shutil.which("zsh"), "zsh")
    subprocess.run([zsh, "-n", scripts / "zsh"], check=True)
    start = LOADED[how].format(top=job.path.parent, script=scripts / "zsh")
    with terminal(job.path, zsh, "-f", columns=100) as screen:
        screen.type(f"clear; PATH={Path(sys.executable).parent}:$PATH; PS1='> '; {start}; echo rea''dy", "Enter")
        screen.wait_for("ready")
        for typed, completed in TYPED.items():
            screen.type(typed, "Tab")
            screen.wait_for(completed)
            screen.type("", "C-u")


@each
def test_a_man_page(command: CommandHelp, tmp_path: Path) -> None:
    mandoc = need(shutil.which("mandoc"), "mandoc")
    page = tmp_path / "page.1"
    page.write_text(help_text.render_page(command, COMMANDS, "1.0"))
    linted = subprocess.run([mandoc, "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False)
    wrong = [line for line in linted.stdout.splitlines() if "missing date" not in line]
    assert wrong == []
    shown = subprocess.run([mandoc, "-T", "utf8", page], capture_output=True, text=True, check=True).stdout
    text = " ".join(
        subprocess.run(["col", "-b"], input=shown, capture_output=True, text=True, check=True).stdout.split()
    )
    for option in command.options:
        for flag in option.flags:
            assert f" {flag}" in text, flag
    for title in ("NAME", "SYNOPSIS", "READS", "WRITES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert f" {title} " in f" {text} ", title


def test_a_checkout_without_shtab_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = call("git-ktx", "completions", "bash", cwd=tmp_path)
    assert done.status == 2 and "pip install shtab" in done.err


def test_they_are_printed_and_written(tmp_path: Path) -> None:
    for shell in commands.SHELLS:
        done = call("git-ktx", "completions", shell, cwd=tmp_path)
        assert done.status == 0 and done.out == rendered(shell)
    assert call("git-ktx", "completions", "tcsh", cwd=tmp_path).status == 2
    assert call("git-ktx", "man", "git-ktx-status", cwd=tmp_path).out.startswith('.TH "GIT\\-KTX\\-STATUS"')
    assert call("git-ktx", "man", cwd=tmp_path).status == 0
    done = call("git-ktx", "man", "patch-aply", cwd=tmp_path)
    assert done.status == 2 and "did you mean patch-apply?" in done.err
    assert call("git-ktx", "man", "--to", "man1", cwd=tmp_path).status == 0
    names = sorted(path.name for path in (tmp_path / "man1").iterdir())
    assert names == sorted(f"{help_text.page_name(command)}.1" for command in COMMANDS)
