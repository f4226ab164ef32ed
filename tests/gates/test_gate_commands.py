"""Gates that run a command: what it prints, leaves running and is told, on real repositories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ktxkit.gates import command
from ktxkit.gates.command import batches
from tests.support.commands import BIN, Ran, call, spawn
from tests.support.repos import Repo


def configured(repo: Repo, run: str, **more: Any) -> Repo:
    """A repository with one gate that runs a command."""
    gate = {"gate": "command", "name": "own", "run": run, **more}
    repo.write("ktx-gates.yaml", json.dumps({"gates": [gate]}))
    repo.write("a.txt", "one\n")
    repo.commit("gates")
    return repo


def found(ran: Ran) -> list[dict[str, Any]]:
    assert ran.status in (0, 1), ran.err
    findings: list[dict[str, Any]] = ran.document["findings"]
    return findings


def test_paths_are_told_from_the_top_of_the_tree(repo: Repo) -> None:
    lines = [{"path": "./a.txt", "message": "1"}, {"path": "x/../a.txt", "message": "2"}]
    script = "".join(f"echo '{json.dumps(line)}'; " for line in lines)
    script += 'printf \'{"path": "%s/a.txt", "message": "3"}\\n\' "$PWD"; exit 1'
    ran = call("gate-check", "--all", "--json", cwd=configured(repo, script, output="findings").path)
    assert [(one["path"], one["message"]) for one in found(ran)] == [("a.txt", "1"), ("a.txt", "2"), ("a.txt", "3")]


def test_where_the_checkout_lay_and_how_long_it_took_is_no_difference(repo: Repo) -> None:
    script = 'echo "$PWD/a.txt is bad, found in $(date +%N)ms"; pwd; exit 1'
    configured(repo, script)
    repo.write("b.txt", "two\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--json", cwd=repo.path)
    (one,) = found(ran)
    assert ran.status == 0 and one["inherited"] is True
    assert one["message"].startswith("own ended with status 1: a.txt is bad, found in ") and one["message"].endswith(
        "/ ."
    )


NO_ANSWERS: dict[str, dict[str, Any]] = {
    "not installed": {"run": "no-such-linter conf/"},
    "not executable": {"run": "./a.txt"},
    "killed": {"run": "kill -9 $$"},
    "what it ran was killed": {"run": "sh -c 'kill -9 $$'; exit $?"},
    "out of time": {"run": "sleep 30", "timeLimit": 0.3},
    "no findings, and failed": {"run": "echo no module >&2; exit 1", "output": "findings"},
    "failed otherwise": {"run": "exit 3", "output": "findings"},
    "unreadable findings": {"run": "echo talk; exit 1", "output": "findings"},
}


@pytest.mark.parametrize("more", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_gate_that_cannot_do_its_work_on_the_base_either_is_no_pass(repo: Repo, more: dict[str, Any]) -> None:
    """It was inherited: from the day on which a tool was missing, its gate was green."""
    configured(repo, **more)
    repo.write("b.txt", "two\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--json", cwd=repo.path)
    assert ran.status == 1 and {one["rule"] for one in found(ran)} <= {"command-failed", "gate-output"}
    assert not any(one.get("inherited") for one in found(ran))


def test_findings_of_a_gate_that_could_do_its_work_are_inherited(repo: Repo) -> None:
    said = json.dumps({"path": "a.txt", "message": "bad"})
    configured(repo, f"echo '{said}'; exit 1", output="findings")
    repo.write("b.txt", "two\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--json", cwd=repo.path)
    assert ran.status == 0 and [one["inherited"] for one in found(ran)] == [True]


def test_a_gate_that_fails_as_on_the_base_is_told(repo: Repo) -> None:
    """Its status alone cannot say what is new: so it is not silent either."""
    configured(repo, "echo no; exit 1")
    repo.write("b.txt", "two\n")
    repo.git("add", "-A")
    ran = call("gate-check", cwd=repo.path)
    assert ran.status == 0 and "1 inherited; own failed as on the base" in ran.out + ran.err


def test_hooks_that_could_not_run_hand_nothing_down(repo: Repo) -> None:
    repo.write(".pre-commit-config.yaml", "repos: []\n")
    for status, expected in ((1, 0), (3, 1), (127, 1)):
        gates = {"gates": [{"gate": "pre-commit", "run": ["sh", "-c", f"echo broken; exit {status}"]}]}
        repo.write("ktx-gates.yaml", json.dumps(gates))
        repo.commit("gates")
        repo.write("README", f"{status}\n")
        repo.git("add", "-A")
        assert call("gate-check", cwd=repo.path).status == expected, status
        repo.commit("read")


def test_a_deletion_concerns_a_gate_too(repo: Repo) -> None:
    configured(repo, "test -e docs/a.md", files=["docs/"])
    repo.write("docs/a.md", "a\n")
    repo.commit("a page")
    repo.write("a.txt", "other\n")
    repo.git("add", "-A")
    assert call("gate-check", cwd=repo.path).status == 0
    repo.git("rm", "-q", "docs/a.md")
    told = found(call("gate-check", "--json", cwd=repo.path))
    assert [one["rule"] for one in told] == ["command-failed", "gate-idle"], "and nothing is left that it looks at"


SHELLS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "missing in a pipe": ("no-such-tool | cat", [("command-failed", "warning")]),
    "missing before another": ("no-such-tool; true", [("command-failed", "warning")]),
    "missing, and the last": ("no-such-tool", [("command-failed", "error")]),
    "another's words": ("echo 'cat: x: not found' >&2", []),
}


@pytest.mark.parametrize(("run", "wanted"), SHELLS.values(), ids=SHELLS)
def test_a_tool_that_the_shell_lacks_is_told(repo: Repo, run: str, wanted: list[tuple[str, str]]) -> None:
    configured(repo, run)
    repo.commit("gates")
    repo.write("a.txt", "a\n")
    repo.git("add", "-A")
    told = [(one["rule"], one["level"]) for one in found(call("gate-check", "--json", cwd=repo.path))]
    assert told == wanted, "and no base hands it down"


def test_a_status_that_no_error_explains_is_one(repo: Repo) -> None:
    line = json.dumps({"path": "a.txt", "message": "m", "level": "advice"})
    configured(repo, f"echo '{line}'; exit 1", output="findings")
    ran = call("gate-check", "--all", "--json", cwd=repo.path)
    assert (ran.status, [one["rule"] for one in found(ran)]) == (1, ["command-failed", "own"])


def test_what_it_leaves_running_neither_keeps_us_nor_stays(repo: Repo, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    configured(repo, f"setsid sh -c 'echo $$ >{pid}; exec sleep 600' & while ! test -s {pid}; do sleep 0.05; done")
    assert call("gate-check", "--all", cwd=repo.path).status == 0
    state = Path(f"/proc/{pid.read_text().strip()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_flood_of_output_is_cut_and_told(repo: Repo) -> None:
    line = json.dumps({"path": "a.txt", "message": "m" * 20_000, "line": 1})
    configured(repo, f"yes '{line}' | head -c {2 * command.OUTPUT_LIMIT}", output="findings")
    rules = {one["rule"] for one in found(call("gate-check", "--all", "--json", cwd=repo.path))}
    assert rules == {"own", "gate-output"}


def test_a_command_that_cannot_be_started_is_status_2(repo: Repo) -> None:
    configured(repo, "")
    repo.write("ktx-gates.yaml", json.dumps({"gates": [{"gate": "command", "run": ["no-such-program-here"]}]}))
    repo.commit("wrong")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 2 and "cannot start no-such-program-here" in ran.err


def test_nothing_is_left_of_the_checkouts(repo: Repo) -> None:
    configured(repo, "exit 1")
    call("gate-check", "--all", cwd=repo.path)
    assert list((repo.path / ".ktx/tmp").iterdir()) == []
    assert repo.git("status", "--porcelain") == ""


def test_hooks_get_files_in_batches_and_none_is_an_option(repo: Repo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hook = {"id": "l", "name": "l", "language": "system", "entry": f'sh -c \'printf "%s\\\\n" "$@" >>{log}\' x'}
    repo.write(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": [hook]}]}))
    gates = {"gates": [{"gate": "pre-commit", "run": [str(BIN / "pre-commit")], "files": ["many/", "--version"]}]}
    repo.write("ktx-gates.yaml", json.dumps(gates))
    names = {f"many/{'x' * 200}-{n}" for n in range(600)} | {"--version"}
    for name in names:
        repo.write(name, "text\n")
    repo.commit("many")
    ran = spawn("gate-check", "--all", cwd=repo.path, env={"PRE_COMMIT_HOME": str(tmp_path / "cache")})
    assert ran.status == 0, ran.out + ran.err
    assert set(log.read_text().split()) == names


def test_batches() -> None:
    assert list(batches([b"a", b"bb", b"c"], b"/t", limit=10)) == [[b"/t/a", b"/t/bb"], [b"/t/c"]]
    assert list(batches([b"x" * 50], b"/t", limit=10)) == [[b"/t/" + b"x" * 50]]
    assert os.fsdecode(next(batches([b"-o"], b"/t"))[0]) == "/t/-o"


def test_asking_about_a_tree_does_not_run_what_it_says(repo: Repo, tmp_path: Path) -> None:
    ran_it = tmp_path / "ran"
    repo.git("checkout", "-q", "-b", "foreign")
    configured(repo, f"touch {ran_it}")
    foreign = repo.head
    repo.git("checkout", "-q", "main")
    assert call("gate-check", "--tree", foreign, cwd=repo.path).status == 0
    lines = f"refs/heads/foreign {foreign} refs/heads/foreign {repo.head}\n"
    assert spawn("gate-check", "--pushed", "origin", cwd=repo.path, stdin=lines.encode()).status == 0
    assert not ran_it.exists()
    repo.git("checkout", "-q", "foreign")
    assert call("gate-check", "--tree", "HEAD", cwd=repo.path).status == 0
    assert ran_it.exists()


def test_a_configuration_that_is_not_in_the_tree_must_be_named(repo: Repo, tmp_path: Path) -> None:
    ran_it = tmp_path / "ran"
    repo.write("ktx-gates.yaml", json.dumps({"gates": [{"gate": "command", "run": f"touch {ran_it}"}]}))
    assert call("gate-check", "--all", cwd=repo.path).status == 0
    assert not ran_it.exists()
    assert call("gate-check", "--all", "--config", "ktx-gates.yaml", cwd=repo.path).status == 0
    assert ran_it.exists()


def test_suppressions_in_files_that_other_gates_look_at(repo: Repo) -> None:
    schema = json.dumps({"type": "object", "properties": {"port": {"type": "integer"}, "on": {"type": "boolean"}}})
    gates = [
        {"gate": "schema", "schema": "s.json", "files": ["conf/"]},
        {"gate": "command", "name": "no-todo", "run": "cat out", "output": "findings"},
        {"gate": "swallow"},
        {"gate": "artifacts"},
    ]
    files = {
        "ktx-gates.yaml": json.dumps({"gates": gates}),
        "s.json": schema,
        "conf/a.yaml": "port: x # ktx-gate: ignore=schema-type\n# ktx-gate: ignore=schema-type\non: 1\n",
        "conf/b.yaml": "port: 1 # ktx-gate: ignore=schema-type\n",
        "src/a.c": "int a; // ktx-gate: ignore=no-todo\nint b;\n",
        "out": "".join(json.dumps({"path": "src/a.c", "line": n, "message": f"todo {n}"}) + "\n" for n in (1, 2)),
        "a.py": "try:\n    x\nexcept A:  # ktx-gate: ignore=swallowed-exception\n    pass\n",
    }
    for name, text in files.items():
        repo.write(name, text)
    repo.commit("all")
    ran = call("gate-check", "--all", "--json", cwd=repo.path)
    assert sorted((one["path"], one["rule"], one["line"]) for one in found(ran)) == [
        ("a.py", "suppression-unused", 3),
        ("a.py", "swallowed-exception", 3),
        ("conf/b.yaml", "suppression-unused", 1),
        ("src/a.c", "no-todo", 2),
    ]
    assert ran.document["counts"]["suppressed"] == 3
