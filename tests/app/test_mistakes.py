"""Typical mistakes: each answer names the thing, the place, and the next step, and nothing has happened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.repos import Repo

LIST = "`git ktx help job-file` lists the keys"
# A job file; what is said, and where (line and column); what next.
FILES: list[tuple[str, str, str, str]] = [
    ("unit: [{key: a, run: x}]\n", ":1:1: unit means nothing here", "did you mean units?", LIST),
    ("tasks: [{key: a, run: x}]\n", ":1:1: tasks means nothing here", "did you mean units?", LIST),
    ("steps: []\n", ":1:1: steps means nothing here", "did you mean units?", LIST),
    ("units:\n  - key: a\n    cmd: x\n", ":3:5: units.0.cmd means nothing here", "did you mean run?", LIST),
    ("units:\n  - key: a\n    command: x\n", ":3:5: units.0.command means", "did you mean run?", LIST),
    ("units:\n  - key: a\n    script: x\n", ":3:5: units.0.script means", "did you mean run?", LIST),
    ("units:\n  - name: a\n    run: x\n", ":2:5: units.0.name means nothing here", "did you mean key?", LIST),
    ("units:\n  - id: a\n    run: x\n", ":2:5: units.0.id means nothing here", "did you mean key?", LIST),
    ("units: [{key: a, run: x, needs: [b]}]\n", ":1:26: units.0.needs means", "did you mean after?", LIST),
    ("units: [{key: a, run: x, depends_on: [b]}]\n", "units.0.depends_on means", "did you mean after?", LIST),
    ("units: [{key: a, run: x, timeout: 3}]\n", "units.0.timeout means", "did you mean timeLimit?", LIST),
    ("units: [{key: a, run: x, time_limit: 3}]\n", "units.0.time_limit means", "did you mean timeLimit?", LIST),
    ("units: [{key: a, run: x, alow: [b]}]\n", "units.0.alow means nothing", "did you mean allow?", LIST),
    ("units: [{key: a, run: x, verify: y}]\n", "units.0.verify means nothing here", "a key of the whole", LIST),
    ("maxParalel: 3\n", ":1:1: maxParalel means nothing here", "did you mean maxParallel?", LIST),
    ("parallel: 3\n", ":1:1: parallel means nothing here", "did you mean maxParallel?", LIST),
    ("workers: 3\n", ":1:1: workers means nothing here", "did you mean maxParallel?", LIST),
    ("branch: main\n", ":1:1: branch means nothing here", "did you mean target?", LIST),
    ("traget: main\n", ":1:1: traget means nothing here", "did you mean target?", LIST),
    ("test: make\n", ":1:1: test means nothing here", "did you mean verify?", LIST),
    ("on_failure: abort\n", ":1:1: on_failure means nothing here", "did you mean onFailure?", LIST),
    ("verify:\n  cmd: make\n", ":2:3: verify.cmd means nothing here", "did you mean run?", LIST),
    ("onFailure: stop\n", ":1:1: onFailure: ", "abort", LIST),
    ("maxParallel: many\n", ":1:1: maxParallel: ", "integer", LIST),
    ("maxParallel: 0\n", ":1:1: maxParallel: ", "minimum", LIST),
    ("units: {a: x}\n", ":1:1: units: ", "array", LIST),
    ("units: [{run: x}]\n", ':1:9: units[0]: "key" is a required property', "key", LIST),
    (
        "units:\n  - {key: a, run: x}\n  - {key: a, run: y}\n",
        ":3:11: the unit key 'a' stands twice",
        "a key of its own",
        "",
    ),
    ("units:\n  - key: a\n", ":2:10: unit 'a' has no command", "give it `run`", ""),
    (
        "units: [{key: orders, run: x}, {key: b, run: x, after: [order]}]\n",
        "unknown unit in `after`: 'order'",
        "mean 'orders'?",
        "",
    ),
    ("units: [{key: a, run: x, after: [a]}]\n", "goes round in a circle among 'a'", "remove one `after`", ""),
    ("target: mian\nunits: [{key: a, run: x}]\n", ":1:1: no branch 'mian' to land on", "did you mean main?", ""),
    (
        "target: other\nunits: []\n",
        ":1:1: no branch 'other' to land on",
        "the branches are main; git branch other makes it",
        "",
    ),
    ("schemaVersion: 2\n", ":1:1: schemaVersion 2 is unknown to this version", "", LIST),
    ("- a\n", "a job file is a mapping", "units: [{key: a, run: make}]", LIST),
    ("units: [\n", ":2:1: ", "", LIST),
    ("units: []\nunits: []\n", ":2:1: ", "twice", ""),
]
# A command line; what is said, what may have been meant or is to be done.
LINES: list[tuple[str, str, str]] = [
    ("job-run --max-paralel 3 job.yaml", "there is no option --max-paralel", "did you mean --max-parallel?"),
    ("job-run --paralel 3 job.yaml", "there is no option --paralel", "see job-run --help"),
    ("job-run --taget main job.yaml", "there is no option --taget", "did you mean --target?"),
    ("job-run --on-failure stop job.yaml", "invalid choice: 'stop' (choose from", "hint: see job-run --help"),
    ("job-run --on-failure abrot job.yaml", "--on-failure: invalid choice: 'abrot'", "did you mean abort?"),
    ("job-run nothing.yaml", "nothing.yaml: no such job file", "`git ktx help job-file` shows what is in one"),
    ("job-run .", "a directory is no job file", "name the file in it"),
    ("job-run", "job-run takes a JOBFILE", "see job-run --help"),
    ("job-run job.yaml --target mian", "no branch 'mian' to land on", "did you mean main?"),
    ("job-run --resume nothing", "no job 'nothing' here", "`job-report --list`"),
    ("job-report nothing", "no job 'nothing' here", "`job-report --list`"),
    ("gate-check --chnaged-since main", "there is no option --chnaged-since", "did you mean --changed-since?"),
    ("gate-check --changed-since mian", "no commit or tree named 'mian'", "did you mean main?"),
    ("gate-check --changed-since origin/main", "named 'origin/main'", "git fetch origin main:refs/remotes/origin/main"),
    ("ledger-query lastt", "invalid choice: 'lastt'", "did you mean last?"),
    ("ledger-query flakey", "invalid choice: 'flakey'", "did you mean flaky?"),
    ("git-ktx statsu", "no command named 'statsu'", "did you mean status?"),
    ("git-ktx job-rnu", "no command named 'job-rnu'", "did you mean job-run or job-land?"),
    ("git-ktx help job-fiel", "no command named 'job-fiel'", "did you mean job-file?"),
    ("git-ktx run", "what is to run?", "git ktx run -n 4 -- ./agent.sh"),
    ("git-ktx run ./agnet.sh", "no script or command named './agnet.sh'", "did you mean agent.sh?"),
    ("git-ktx run agnet.sh", "no script or command named 'agnet.sh'", "did you mean agent.sh?"),
    ("git-ktx run -n 2 a b", "-n takes one command, not 2", "git ktx run -n 4"),
    ("git-ktx run -n 0 -- true", "-n must be 1 or more", "git ktx run -n 4"),
    ("git-ktx run -n x -- true", "no whole number from 1 to", "see git ktx run --help"),
    ("git-ktx land", "which worktree?", "git ktx land NAME; `git ktx list` shows those there are"),
    ("git-ktx run -n 2 -- nosuchthing", "no script or command named 'nosuchthing'", "hint: "),
    ("git-ktx run true -- true", "exclude each other", "each WORD is a unit"),
    ("git-ktx run tools", "tools is a directory, and no command", "git ktx run tools/*"),
    ("git-ktx run tools/plain.txt", "plain.txt: it is not executable", "chmod +x tools/plain.txt"),
    ("git-ktx run true --target mian", "no branch 'mian' to land on", "did you mean main?"),
    ("git-ktx run true --verfy x", "there is no option --verfy", "did you mean --verify?"),
    ("worktree-close --outcome sucess a", "invalid choice: 'sucess'", "did you mean success?"),
    ("worktree-open a --bse main", "there is no option --bse", "did you mean --base?"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.init(tmp_path_factory.mktemp("mistakes") / "repo")
    repo.write("agent.sh", "#!/bin/sh\n").chmod(0o755)
    repo.write("tools/plain.txt", "no script\n")
    repo.write("job.yaml", "units: []\n")
    repo.commit("first")
    repo.git("remote", "add", "origin", "..")
    return repo


def test_there_are_sixty() -> None:
    assert len(FILES) + len(LINES) >= 60


@pytest.mark.parametrize(("text", "says", "meant", "next_step"), FILES, ids=[repr(case[0]) for case in FILES])
def test_a_mistake_in_a_job_file(place: Repo, text: str, says: str, meant: str, next_step: str) -> None:
    file = place.path.parent / "wrong.yaml"
    file.write_text(text)
    done = call("job-run", file, cwd=place.path)
    assert done.status == 2 and done.out == "" and "Traceback" not in done.err, done
    assert done.err.startswith(f"job-run: {file}") and "\n  hint: " in done.err, done.err
    assert says in done.err and meant in done.err and next_step in done.err, done.err
    assert not (place.path / ".ktx/jobs").exists()


@pytest.mark.parametrize(("line", "says", "next_step"), LINES, ids=[case[0] for case in LINES])
def test_a_mistake_on_a_command_line(place: Repo, line: str, says: str, next_step: str) -> None:
    name, *words = line.split()
    done = call(name, *words, cwd=place.path)
    assert done.status in (1, 2) and done.out == "" and "Traceback" not in done.err, done
    assert says in done.err and next_step in done.err and "\n  hint: " in done.err, done.err
    assert not (place.path / ".ktx/jobs").exists()


def test_without_a_commit_or_a_repository(tmp_path: Path) -> None:
    empty = Repo.init(tmp_path / "empty")
    for words in (("git-ktx", "run", "true"), ("worktree-open", "--job", "j", "--unit", "u")):
        done = call(*words, cwd=empty.path)
        assert done.status == 2 and "branch main has no commit yet" in done.err and "git commit -m start" in done.err
    done = call("git-ktx", "run", "true", cwd=tmp_path)
    assert done.status == 2 and "not a git repository" in done.err and "`git init` makes one" in done.err


def test_outside_of_a_repository_that_alone_is_said(tmp_path: Path) -> None:
    for words in (("git-ktx", "install-hooks"), ("git-ktx", "uninstall-hooks"), ("test-run", "--", "x")):
        done = call(*words, cwd=tmp_path)
        assert done.status == 2 and len(done.err.splitlines()) == 2, done
        assert f"{tmp_path}: not a git repository\n  hint: run this inside a git repository" in done.err


def test_a_worktree_whose_directory_is_gone(repo: Repo) -> None:
    path = Path(call("worktree-open", "my-w", cwd=repo.path).out.strip())
    shutil.rmtree(path)
    for words in (("git-ktx", "land", "my-w", "--squash"), ("worktree-status", "my-w")):
        done = call(*words, cwd=repo.path)
        assert done.status == 2 and f"{path}: its directory is gone" in done.err and "git ktx clean --yes" in done.err
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0


def test_a_closed_worktree_is_opened_again_by_what_is_advised(repo: Repo) -> None:
    path = Path(call("worktree-open", "w1", cwd=repo.path).out.strip())
    Repo(path).write("f", "1")
    Repo(path).commit()
    assert call("worktree-close", "w1", "--outcome", "success", cwd=repo.path).status == 0
    done = call("worktree-close", "w1", "--outcome", "conflict", cwd=repo.path)
    assert done.status == 1 and "hint: worktree-open --ref w1 opens it again" in done.err
    assert call("worktree-open", "--ref", "w1", cwd=repo.path).status == 0


def test_a_merge_in_progress_is_to_be_ended_before_it_lands(repo: Repo) -> None:
    made = Repo(Path(call("worktree-open", "w1", cwd=repo.path).out.strip()))
    made.write("f", "theirs")
    made.commit()
    repo.write("f", "ours")
    repo.commit()
    made.git("merge", repo.head, check=False)
    done = call("git-ktx", "land", "w1", "--squash", cwd=repo.path)
    assert done.status == 1 and "a merge is in progress" in done.err and "git merge --abort" in done.err
    assert "or --squash" not in done.err


def test_a_bare_repository_is_said_to_be_bare(repo: Repo, tmp_path: Path) -> None:
    empty = Repo.init(tmp_path / "empty.git", "--bare")
    done = call("git-ktx", "run", "true", cwd=empty.path)
    assert done.status == 2 and "push a first one into it" in done.err and "git add" not in done.err
    bare = Repo(tmp_path / "full.git")
    repo.git("clone", "-q", "--bare", repo.path, bare.path)
    where = call("worktree-open", "y", cwd=bare.path)
    done = call("git-ktx", "land", "y", cwd=bare.path)
    assert where.status == 0 and done.status == 2 and "this repository is bare: which is the target?" in done.err


def test_a_store_that_is_not_there_and_a_detached_checkout(repo: Repo) -> None:
    for words, env in ((("--ktx-dir", "/nope/x"), {}), ((), {"KTX_DIR": "/nope/x"})):
        done = call("git-ktx", "list", *words, cwd=repo.path, env=env)
        assert done.status == 0 and "note: there is no store at /nope/x" in done.err
    assert call("git-ktx", "list", cwd=repo.path).err == ""
    repo.git("checkout", "-q", "--detach")
    assert "main checkout, detached" in call("git-ktx", "list", cwd=repo.path).out


def test_what_is_next_can_be_pasted(repo: Repo) -> None:
    saved = call("git-ktx", "run", "false", "--save", "p q.yaml", cwd=repo.path)
    assert "next: job-run 'p q.yaml'\n" in saved.out
    repo.write("my mods/one", "echo 1\n")
    assert "hint: git ktx run 'my mods'/*" in call("git-ktx", "run", "-n", "2", "--", "my mods", cwd=repo.path).err
    assert "hint: chmod +x 'my mods/one'" in call("git-ktx", "run", "my mods/one", cwd=repo.path).err
    repo.write("my mod.sh", "echo 1\n").chmod(0o755)
    repo.commit()
    for words, says in (
        (
            ("echo x > x", "--verify", "nosuchtool"),
            "next: start anew with another verification (command not found: nosuch",
        ),
        (("true", "--setup", "nosetup"), "its setup: command not found: nosetup"),
        (("./my mod.sh",), "its first line is no #! line"),
    ):
        done = call("git-ktx", "run", *words, cwd=repo.path)
        assert says in " ".join(done.out.split()), done
