"""`git ktx run`: a job without a file, in the repositories that people try it in."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ktxkit.app.running import job_text, key_of, keys_of, words_of
from ktxkit.base.rules.strict_yaml import read
from tests.support.commands import Ran, call, script
from tests.support.repos import Repo
from tests.support.terminal import terminal


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """In a directory with spaces, with two scripts that are committed."""
    made = Repo.init(tmp_path / "a place" / "my repo")
    made.write("f", "0\n")
    made.write("codemods/one.sh", "echo one >> one\n")
    made.write("codemods/two.sh", "#!/bin/sh\necho two >> f\n").chmod(0o755)
    made.commit("start")
    return made


def run(repo: Repo, *words: str, below: str = "") -> Ran:
    return call("git-ktx", "run", *words, cwd=repo.path / below)


def test_units_of_one_command(repo: Repo) -> None:
    """The script is not committed: it runs all the same, and is named."""
    repo.write("agent.sh", '#!/bin/sh\necho "$KTX_UNIT" > "out $KTX_UNIT"\n').chmod(0o755)
    done = run(repo, "-n", "3", "--", "./agent.sh")
    assert done.status == 0, done
    assert [repo.show("main", f"out {n}") for n in (1, 2, 3)] == [b"1\n", b"2\n", b"3\n"]
    assert "note: not committed, so run from your checkout: ./agent.sh" in done.err
    first, second = done.out.splitlines()[0], " ".join(done.out.split())
    assert first.startswith("Job run-") and f"done: all 3 units landed on main as {repo.head[:12]}, in" in second
    assert f"\nnext: git show --stat {repo.head[:12]}\n" in done.out
    assert [line.split()[1] for line in done.err.splitlines() if line.startswith("[")] == ["accepted"] * 3


def test_what_did_not_land_says_why_and_what_next(repo: Repo) -> None:
    words = ("codemods/two.sh", "echo three >> f", "echo oops >&2; exit 3", "sh -c 'nosuch --x'")
    done = run(repo, *words, "-j", "1")
    assert done.status == 3 and repo.show("main", "f") == b"0\ntwo\n"
    text = " ".join(done.out.split())
    job = text.split()[1].rstrip(":")
    assert f"next: job-run --resume {job} --failed" in text
    assert "2 echo textual conflict f: two changed the same lines and was accepted first" in text
    assert "3 echo-2 failed it ended with status 3: oops" in text
    assert "4 nosuch failed command not found: nosuch" in text, text
    assert text.index("textual conflict") < text.index("accepted"), "what failed comes first"
    assert "Isolated diff: 1 textual conflict, 2 failed, 1 accepted" in text
    again = call("job-run", "--resume", job, "--failed", cwd=repo.path)
    assert repo.show("main", "f") == b"0\ntwo\nthree\n", again
    assert again.status == 3 and "\n    3  echo-2 " in again.out and "Noticed" not in again.out
    assert "accepted           two" in done.err and "accepted           two" not in again.err, "told already"


def test_a_verification_that_fails_without_any_unit_says_what_it_said(repo: Repo) -> None:
    """The commonest of first runs: the tests fail before anybody did anything."""
    done = run(repo, "codemods/one.sh", "--verify", "echo 2 tests fail; test -e mended")
    text = " ".join(done.out.split())
    job = text.split()[1].rstrip(":")
    assert "(the verification ended with status 1: 2 tests fail; its output is in" in text
    assert "one (" in done.err and "nobody is blamed: the verification fails" in done.err, "told at once, too"
    step = f"next: once its verification passes on main: job-run --resume {job} --failed"
    assert step in text and step in call("git-ktx", "status", cwd=repo.path).out
    assert step in call("job-report", "--list", cwd=repo.path).out
    (unit,) = call("ledger-query", "job", job, "--json", cwd=repo.path).document["rows"]
    assert unit["outcome"] == "refused" and "2 tests fail" in unit["reason"]
    assert call("ledger-query", "jobs", "--json", cwd=repo.path).document["rows"][0]["outcomes"] == {"refused": 1}
    repo.write("mended", "1\n")
    repo.commit()
    again = call("job-run", "--resume", job, "--failed", cwd=repo.path)
    assert again.status == 0 and repo.show("main", "one") == b"one\n", again


def test_a_verification_ends_with_its_last_lines(repo: Repo) -> None:
    done = run(repo, "codemods/one.sh", "echo bad > bad", "--verify", "if test -e bad; then echo no bad; exit 4; fi")
    text = " ".join(done.out.split())
    assert done.status == 3 and repo.show("main", "one") == b"one\n"
    assert "the verification ended with status 4: no bad; its output is in" in text
    (log,) = (repo.path / ".ktx/jobs").glob("*/units/0002-*/verify-*.log")
    assert str(log) in done.out, "a path with spaces is in one line"


def test_words_mean_what_they_mean_where_one_stands(repo: Repo) -> None:
    done = run(repo, "./two.sh", "echo here > here", below="codemods")
    assert done.status == 0, done
    assert repo.show("main", "codemods/f") == b"two\n" and repo.show("main", "codemods/here") == b"here\n"


def test_setup_and_verification_run_where_one_stands_too(repo: Repo) -> None:
    around = ("--setup", "echo set > up", "--verify", "test -e one.sh && ls > /dev/null")
    shown = run(repo, "cp up kept", *around, "--dry-run", below="codemods")
    assert "set up, each worktree: cd codemods || exit; echo set > up" in shown.out
    assert "verified, each and all: cd codemods || exit; test -e one.sh" in shown.out
    done = run(repo, "cp up kept", *around, below="codemods")
    assert done.status == 0 and repo.show("main", "codemods/kept") == b"set\n", done


def test_a_dry_run_and_a_saved_file_do_nothing(repo: Repo) -> None:
    before = repo.git("for-each-ref")
    shown = run(repo, "codemods/one.sh", "codemods/two.sh", "--verify", "make test", "--dry-run")
    assert shown.out.splitlines() == [
        f"2 units, {os.cpu_count()} at a time, to land on main (now at {repo.head[:12]}):",
        "    1  one  sh ./codemods/one.sh",
        "    2  two  ./codemods/two.sh",
        "verified, each and all: make test",
        "Nothing was run.",
    ]
    saved = run(repo, "codemods/one.sh", "echo 'a: b' > c", "--verify", "test -e one", "--save", "../job.yaml")
    assert saved.status == 0 and saved.out.splitlines()[1] == "next: job-run ../job.yaml"
    assert run(repo, "codemods/one.sh", "--save", "../job.yaml").status == 1, "it is there already"
    assert not (repo.path / ".ktx").exists() and repo.git("for-each-ref") == before
    planned = call("job-run", "../job.yaml", "--dry-run", cwd=repo.path)
    assert planned.status == 0 and not (repo.path / ".ktx").exists() and "echo 'a: b' > c" in planned.out
    done = call("job-run", "../job.yaml", cwd=repo.path)
    assert done.status == 0 and repo.show("main", "one") == b"one\n", done


def test_job_run_says_that_an_edited_script_runs_as_committed(repo: Repo) -> None:
    said = "units run codemods/one.sh as committed, without your changes: commit it first if they are meant"
    repo.write("codemods/one.sh", "echo edited >> one; exit 3\n")
    file = repo.path.parent / "job.yaml"
    file.write_text("units: [{key: a, run: sh ./codemods/one.sh}, {key: b, run: [sh, -c, exit 3]}]\n")
    planned = call("job-run", file, "--dry-run", cwd=repo.path)
    assert said in " ".join(planned.err.split()) and planned.status == 0
    done = call("job-run", file, "--job", "j", cwd=repo.path)
    assert "(codemods/one.sh): units do not see them" in done.err and said in " ".join(done.err.split())
    assert repo.show("main", "one") == b"one\n"
    for words in (("--failed",), ("--retry", "b"), (file, "--failed")):
        again = call("job-run", "--resume", "j", *words, cwd=repo.path)
        assert "(codemods/one.sh): units do not see them" in again.err, again
    repo.git("checkout", "codemods/one.sh")
    assert "units do not see" not in call("job-run", "--resume", "j", "--failed", cwd=repo.path).err


def test_changes_in_the_checkout_are_told_before_anything_runs(repo: Repo) -> None:
    repo.write("f", "edited\n")
    done = run(repo, "echo 1 > g")
    assert done.status == 0 and "(f): units do not see them" in done.err
    done = run(repo, "echo 1 > f")
    text = " ".join(done.out.split())
    job = text.split()[1].rstrip(":")
    step = f"next: commit or move f (uncommitted work) first, then: job-land --rebase --job {job}"
    assert done.status == 1 and step in text
    assert (repo.path / "f").read_text() == "edited\n"
    repo.git("checkout", "-q", "f")
    assert call("job-land", "--rebase", "--job", job, cwd=repo.path).status == 0 and repo.show("main", "f") == b"1\n"


def test_a_script_that_no_commit_has_as_it_is(repo: Repo) -> None:
    """It was edited since: the checkout's text is what the person sees, and what runs."""
    repo.write("codemods/two.sh", "#!/bin/sh\necho edited >> g\n")
    done = run(repo, "codemods/two.sh")
    assert done.status == 0 and "run from your checkout: codemods/two.sh" in done.err
    assert repo.show("main", "g") == b"edited\n"


def test_ctrl_c_says_what_is_kept(repo: Repo, tmp_path: Path) -> None:
    began = tmp_path / "began"
    argv = [script("git-ktx"), "run", "-j", "2", "echo 1 > one", f"touch '{began}'; sleep 60", "echo 3 > three"]
    with subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        while not (began.exists() and (repo.path / ".ktx/jobs").exists()):
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert re.search(
        r"^stopping: ((1 unit|2 units) at work (is|are) ended; )?what has finished is kept$", err, re.MULTILINE
    )
    job = out.split()[1].rstrip(":")
    assert f"\nnext: job-run --resume {job}\n" in out and "while units ran: the job was interrupted" in out


def test_what_was_stopped_goes_on_before_it_lands_on_a_branch_that_moved(repo: Repo, tmp_path: Path) -> None:
    """Its other units have not run: landing what there is would leave them out."""
    go = tmp_path / "go"
    argv = [script("git-ktx"), "run", "-j", "2", "echo 1 > one", f"test -e '{go}' || sleep 60; echo 2 > two"]
    with subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None and "accepted" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    job = out.split()[1].rstrip(":")
    repo.write("other", "1\n")
    repo.commit()
    step = f"next: job-run --resume {job}\n"
    assert step in out and step in call("git-ktx", "status", cwd=repo.path).out
    go.touch()
    resumed = call("job-run", "--resume", job, cwd=repo.path)
    assert resumed.status == 1 and f"next: job-land --rebase --job {job}\n" in resumed.out, resumed
    assert call("job-land", "--rebase", "--job", job, cwd=repo.path).status == 0
    assert repo.show("main", "one") == b"1\n" and repo.show("main", "two") == b"2\n"


def test_on_a_terminal_lines_have_colour_and_what_runs_is_shown(repo: Repo, tmp_path: Path) -> None:
    command = (
        f"cd '{repo.path}' && {script('git-ktx')} run 'echo 1 > one' 'sleep 3; exit 2'; echo ended with $?; sleep 60"
    )
    with terminal(tmp_path, command) as screen:
        shown = screen.wait_for("1 of 2 units")
        assert "[1/2] accepted" in shown and "working: sleep" in shown
        ended = screen.wait_for("ended with 3")
        assert "working:" not in ended and "[2/2] failed" in ended and "next: job-run --resume" in ended


KEYS = [
    ("codemods/rename.sh", "rename"),
    ("python codemods/imports.py --all", "imports"),
    ("uv run tools/fix.py", "fix"),
    ("FOO=1 BAR=2 ./agent", "agent"),
    ("sed -i s/a/b/ x", "sed"),
    ("codemod-b", "codemod-b"),
    ("bash -c 'nosuch --x'", "nosuch"),
    ("echo 'unclosed", "echo"),
    ("reconcile", "reconcile-1"),
    ("...", "unit"),
    ("x" * 200, "x" * 40),
]


@pytest.mark.parametrize(("command", "key"), KEYS, ids=[case[1] for case in KEYS])
def test_keys_come_from_the_words(command: str, key: str) -> None:
    assert key_of(words_of(command)) == key


def test_keys_differ() -> None:
    assert keys_of([["a/run.sh"], ["b/run.sh"]]) == ["a-run", "b-run"]
    assert keys_of([["sed", "x"], ["sed", "y"], ["awk"]]) == ["sed", "sed-2", "awk"]
    assert keys_of([["sed-2"], ["sed"], ["sed"]]) == ["sed-2-1", "sed-2", "sed-3"]
    assert keys_of([["./run.sh"], ["./run.sh"]]) == ["run", "run-2"]


AWKWARD = [
    "true",
    "a: b",
    "# no",
    "it's",
    'say "x"',
    "- x",
    "*.md",
    "caf\u00e9",
    "1",
    "null",
    " a",
    "a\\nb",
    "@x",
    "%y",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_a_saved_file_says_the_same(text: str) -> None:
    from typing import Any, cast

    document: Any = {"verify": text, "units": [{"key": text, "run": text}, {"key": "b", "run": [text, "x"]}]}
    parsed = read(job_text(cast("Any", document), "git ktx run").encode())
    assert parsed.root is not None and not parsed.problems
    assert json.loads(json.dumps(parsed.root.data())) == document


def test_a_directory_that_no_unit_has_is_said_before_anything_runs(repo: Repo) -> None:
    (repo.path / "my new").mkdir()
    done = run(repo, "echo > z", below="my new")
    assert done.status == 2 and "no unit has my new/: it is not committed" in done.err
    assert not (repo.path / ".ktx/jobs").exists()


@pytest.mark.parametrize("value", ["true", "3"])
def test_a_command_that_yaml_reads_as_something_else(repo: Repo, value: str) -> None:
    (repo.path / "job.yaml").write_text(f"units:\n  - key: a\n    run: {value}\n")
    done = call("job-run", "job.yaml", cwd=repo.path)
    assert done.status == 2
    assert f'job.yaml:3:5: units[0].run: {value} is no text here: put it in quotes, "{value}"' in done.err


def test_a_target_that_is_gone_says_where_it_was(repo: Repo) -> None:
    repo.git("branch", "side")
    was = repo.head
    done = run(repo, "git update-ref -d refs/heads/side; echo > z", "--target", "side")
    assert done.status == 1 and f"it was at {was[:12]} when the job began" in done.err
