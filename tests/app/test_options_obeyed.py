"""An option that is parsed is obeyed or refused, in every mode of every command."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

from ktxkit.app import cli, git_ktx
from tests.support.commands import call, spawn
from tests.support.repos import Repo
from tests.test_tidy import SCRIPTS

UNIT = {"job", "unit"}
NAMED = {"name", *UNIT}
ALL = {"*"}  # every option; which exclude each other is the parser's to say
RESUMED = {"resume", "max_parallel", "rebase", "jobfile", "keys", "retry", "failed"}  # of job-run
PLANNED = {"jobfile", "job", "target", "max_parallel", "on_failure", "on_conflict", "dry_run"}
IMPLIED = {"include_uncommitted"}  # it says what is done where the option that excludes it is not given
# The modes of a command that has several: the words that choose one, and the options that it obeys. The rest it must
# refuse. Every other command obeys all of its options.
SEVERAL: dict[str, list[tuple[list[str], set[str]]]] = {
    "gate-check": [
        ([], ALL),
        (["--explain", "list"], {"explain"}),
        (["--message", "m"], {"message", "messages", "gate", "format", "require_input", "require"}),
        (["--messages", "A..B"], {"message", "messages", "gate", "format", "require_input", "require"}),
        (["--pushed", "origin"], {"pushed", "root", "config", "gate", "advise", "strict_connections"}
         | {"baseline", "write_baseline", "update_baseline", "require_input", "require", "format"}
         | {"message", "messages", "explain"}),
    ],
    "ingest-run": [
        (["dbt", "p"], ALL),
        (["--resume", "j"], {"resume", "max_parallel", "rebase", "wait", "connector", "place"}),
    ],
    "job-land": [([], ALL), (["--dry-run"], {"job", "rebase", "dry_run"})],
    "job-report": [([], ALL), (["--list"], {"list"})],
    "job-run": [
        (["f"], {*PLANNED, "resume", "rebase"}),
        (["f", "--dry-run"], PLANNED),
        (["--resume", "j"], RESUMED),
        (["--resume", "j", "--retry", "k"], {*RESUMED, "with_work"}),
        (["--resume", "j", "--retry", "k", "f"], ALL),
    ],
    "ledger-append": [(["--from", "junit", "f"], ALL), (["--repair"], {"repair"})],
    "ledger-query": [
        (["trace", "j"], {"question", "subject", "event", "unit", "level", "format", "html"}),
        (["live"], {"question", "subject", "project", "format", "html", "follow"}),
        (["live", "--follow"], {"question", "subject", "project", "follow", "redis"}),
        (["rules"], {"question", "subject", "prolog", "format", "html"}),
        (["runs"], {"question", "subject", "project", "limit", "format", "html"}),
        (["last"], {"question", "subject", "project", "format", "html"}),
    ],
    "patch-apply": [
        (["p", "--verify"], ALL),
        (["--job", "j", "--unit", "u"],
         {*UNIT, "expect_head", "message", "follow_renames", "no_gates", "verify", "patch"}),
        (["p"], {"patch", "base", "expect_head", "message", "allow", "allow_control", "deny", "inside_links"}
         | {"follow_renames", "no_gates", "verify", "text_root"}),
    ],
    "patch-collect": [
        (["--job", "j", "--unit", "u"], {*UNIT, "include_uncommitted", "require_clean", "output", "base"}),
        (["--base", "HEAD", "-o", "f"], {"include_uncommitted", "require_clean", "output", "base"}
         | {"expect_branch", "integration", "allow", "allow_control", "deny", "inside_links", "text_root"}
         | {"sl_disallowed", "max_file_bytes", "max_patch_bytes"}),
    ],
    "test-run": [(["--scope", "affected"], ALL), (["--scope", "full"], {
        "scope", "cprofile", "trace", "env_profile", "trigger", "python", "project", "status", "guard"}),
        (["--guard"], {"guard"})],
    "test-select": [
        ([], {"base", "index", "tree", "environment", "strict", "why", "nul", "audit", "prove"}),
        (["--why", "t"], {"base", "index", "tree", "environment", "strict", "why", "audit", "prove"}),
        (["--audit"], {"audit", "prove"}),
        (["--prove"], {"prove", "base", "sample", "seed", "python"}),
    ],
    "trace-append": [
        (["--phase", "p", "--event", "e"], ALL),
        (["--stdin"], {*UNIT, "trace", "stdin", "otlp", "connection", "source"}
         | {"phase", "event", "data", "error", "proof"}),
    ],
    "worktree-close": [
        (["--outcome", "success"], {*NAMED, "outcome", "discard", "force", "keep_ignored"}),
        (["--outcome", "crash"], {*NAMED, "outcome", "reason"}),
    ],
    "worktree-open": [
        (["--job", "j", "--unit", "u"], ALL),
        (["--list"], {"ref", "pr", "detach", "list", "prune"}),
        (["--prune"], {"ref", "pr", "detach", "list", "prune", "force", "keep_ignored"}),
        (["new"], {"name", "ref", "pr", "detach", "list", "prune"}
         | {"base", "path", "no_fetch", "copy", "sparse", "unit", "setup"}),
    ],
    "worktree-watch": [
        ([], {*NAMED, "once", "preserve", "poll", "seconds", "INTERVALS"}),
        (["--once"], {*NAMED, "once", "level", "preserve", "INTERVALS"}),
        (["--preserve"], {*NAMED, "once", "preserve"}),
    ],
    "git-ktx attic": [(["restore", "e"], ALL)],
    "git-ktx completions": [(["bash"], ALL)],
    "git-ktx land": [(["--squash"], ALL), ([], {"name", "target", "squash", "allow_control"})],
    "git-ktx run": [
        (["true"], ALL),
        (["--save", "f", "true"],
         {"units", "verify", "setup", "target", "max_parallel", "time_limit", "message", "save"}),
    ],
    "git-ktx shell-init": [(["bash"], ALL)],
}  # fmt: skip
COMMANDS = (*SCRIPTS, *(f"git-ktx {name}" for name in git_ktx.names()))
MODES = {name: SEVERAL.get(name, [([], ALL)]) for name in COMMANDS}


def module_of(command: str) -> object:
    name, _, sub = command.partition(" ")
    return git_ktx.module(sub) if sub else importlib.import_module("ktx_" + name.replace("-", "_"))


@cache
def parser_of(command: str) -> cli.Parser:
    made = module_of(command).parser()  # type: ignore[attr-defined]
    assert isinstance(made, cli.Parser)
    return made


def options(command: str) -> list[argparse.Action]:
    return [action for action in parser_of(command)._actions if action.dest not in cli.COMMON]


def refused_in(command: str, obeyed: set[str]) -> list[argparse.Action]:
    """The options that a mode must refuse."""
    if "*" in obeyed:
        return []
    if "INTERVALS" in obeyed:
        obeyed = obeyed | {action.dest for action in options(command) if action.metavar == "S"}
    return [one for one in options(command) if one.option_strings and one.dest not in obeyed]


def value_of(action: argparse.Action) -> list[str]:
    """A value that is not the option's default."""
    if action.nargs == 0:
        return []
    return [next(one for one in action.choices if one != action.default) if action.choices else "7"]


CASES = [
    (command, line, action.option_strings[-1], value_of(action))
    for command, modes in MODES.items()
    for line, obeyed in modes
    for action in refused_in(command, obeyed)
]
IDS = [" ".join((command, *line, option)) for command, line, option, _ in CASES]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.init(tmp_path_factory.mktemp("options") / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    return repo


@pytest.mark.parametrize(("command", "line", "option", "value"), CASES, ids=IDS)
def test_an_option_that_is_not_obeyed_is_refused(
    place: Repo, command: str, line: list[str], option: str, value: list[str]
) -> None:
    name, *sub = command.split()
    before = place.git("for-each-ref"), sorted(path.name for path in place.path.iterdir())
    ran = call(name, *sub, *line, option, *value, cwd=place.path)
    assert ran.status == 2 and "is not obeyed" in ran.err and option in ran.err, ran
    assert before == (place.git("for-each-ref"), sorted(path.name for path in place.path.iterdir()))


def test_no_mode_is_of_a_command_that_is_gone() -> None:
    assert set(SEVERAL) <= set(COMMANDS)


@pytest.mark.parametrize("command", MODES)
def test_every_option_is_obeyed_in_some_mode(command: str) -> None:
    refused = [{one.dest for one in refused_in(command, obeyed)} for _, obeyed in MODES[command]]
    assert not set.intersection(*refused), "an option that no mode obeys"


@pytest.mark.parametrize("command", MODES)
def test_every_option_is_read(command: str) -> None:
    """Its name in `args` stands in the command's own source, or in that of what takes `args` from it."""
    source = inspect.getsource(module_of(command))  # type: ignore[arg-type]
    below = "".join(Path(cli.__file__).with_name(name).read_text() for name in ("requests.py", "views.py"))
    read: set[object] = {node.attr for node in ast.walk(ast.parse(source + below)) if isinstance(node, ast.Attribute)}
    read |= {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    unread = [action.dest for action in options(command) if action.dest not in read | IMPLIED]
    assert not unread


TOGETHER = [
    ["gate-check", "--tree", "HEAD", "--index"],
    ["gate-check", "--json", "--format", "sarif"],
    ["gate-check", "--write-baseline", "b", "--baseline", "c"],
    ["gate-check", "--all", "--update-baseline", "b", "--baseline", "c"],
    ["trace-append", "--phase", "p", "--event", "e", "--level", "info", "--", "true"],
    ["ingest-run", "--resume", "j", "--", "true"],
    ["job-run", "--resume", "j", "--target", "main"],
    ["test-select", "--", "-q"],
    ["worktree-close", "new", "--job", "j", "--outcome", "success"],
    ["worktree-watch", "new", "--unit", "u", "--once"],
    ["worktree-status", "new", "--job", "j"],
    ["git-ktx", "man", "status", "--to", "d"],
    ["git-ktx", "attic", "list", "e", "path"],
]


@pytest.mark.parametrize("words", TOGETHER, ids=" ".join)
def test_options_that_do_not_go_together(place: Repo, words: list[str]) -> None:
    ran = call(words[0], *words[1:], cwd=place.path)
    assert ran.status == 2, ran


def test_the_job_of_the_environment_is_opened(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    opened = spawn("worktree-open", "--unit", "u", "--target", "main", cwd=repo.path, env={"KTX_JOB": "j"})
    assert opened.status == 0 and (repo.path / ".ktx/jobs/j/units/0001-u/lease.json").exists(), opened.err
