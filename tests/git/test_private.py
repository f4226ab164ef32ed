"""A unit's repository of its own: what it made is taken over by what it is, and nothing that it forged."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from ktxkit.base import sandbox
from ktxkit.git.shared_files import refs_below
from tests.support.commands import script, spawn
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo
from tests.support.wrapped_git import WrappedGit

pytestmark = pytest.mark.skipif(sandbox.landlock_version() < sandbox.LEAST, reason="this kernel has no Landlock")


def run(repo: Repo, *units: dict[str, object]) -> dict[str, str]:
    document = {"isolate": True, "maxParallel": 1, "units": list(units)}
    ran = spawn("job-run", job_file(repo, document), "--job", "j1", cwd=repo.path)
    assert "Traceback" not in ran.err, ran.err
    return outcomes(repo)


def files_of(repo: Repo) -> list[str]:
    return repo.git("ls-tree", "-r", "--name-only", "main").split()


WORK = {
    "uncommitted": "echo a > a",
    "committed": "echo a > a; git add a; git commit -qm a",
    "committed, then more": "echo b > b; git add b; git commit -qm b; git rm -qf b; git commit -qm c; echo a > a",
    "an ignored file": "echo a > .gitignore; echo a > a; git add -f a; rm .gitignore; git commit -qm a",
    "on a branch": "git checkout -qb mine; echo a > a; git add a; git commit -qm a; git checkout -q --detach",
    "packed": "echo a > a; git add a; git commit -qm a; git repack -qadf; git prune-packed",
    "with an index in two files": "echo a > a; git add a; git update-index --split-index",
    "staged": "echo a > a; git add a",
    "with a merge": "git checkout -qb m; echo a > a; git add a; git commit -qm a; git checkout -q --detach main; "
    "git merge -q --no-ff -m m m",
}


@pytest.mark.parametrize("how", WORK)
def test_work_of_every_kind_is_taken_over(repo: Repo, how: str) -> None:
    assert run(repo, unit("u", f"set -e; {WORK[how]}"), unit("v", "echo v > v")) == dict.fromkeys("uv", "accepted")
    assert files_of(repo) == ["README", "a", "v"] and repo.show("main", "a") == b"a\n"
    assert not list((repo.path / ".git/worktrees").glob("0*")), "what it made lies nowhere else"
    repo.git("fsck", "--full", "--strict")


@pytest.mark.parametrize("tries", [1, 2])
def test_a_pack_that_our_git_was_killed_over_is_not_forged(repo: Repo, tmp_path: Path, tries: int) -> None:
    git = WrappedGit(tmp_path / "git")
    git.prepare(range(tries), "killed at its start", "index-pack")
    file = job_file(repo, {"isolate": True, "units": [unit("u", f"set -e; {WORK['packed']}")]})
    ran = spawn("job-run", file, "--job", "j1", cwd=repo.path, env=git.env)
    assert len(git.started()) == 2, "it was asked again"
    if tries == 2:
        assert ran.status == 2 and "was ended by signal SIGKILL: git index-pack" in ran.err, ran
        assert spawn("job-run", "--resume", "j1", cwd=repo.path).status == 0
    assert (outcomes(repo), files_of(repo)) == ({"u": "accepted"}, ["README", "a"])


def test_what_it_keeps_on_branches_and_in_its_stash_goes_to_the_attic(repo: Repo) -> None:
    work = "echo s > README; git stash -q; git checkout -qb side; echo b > b; git add b; git commit -qm b; "
    assert run(repo, unit("u", f"{work} git checkout -q --detach main; echo a > a")) == {"u": "accepted"}
    assert files_of(repo) == ["README", "a"]
    kept = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic/j1").split()
    assert sorted(repo.git("show", "-s", "--format=%s", ref).split(":")[0] for ref in kept) == [
        "WIP on (no branch)",
        "b",
    ]
    assert repo.git("for-each-ref", "refs/heads", "refs/stash", "--format=%(refname)") == "refs/heads/main"


def forged(name: str, data: bytes) -> str:
    """Commands that put an object under another's name."""
    packed = zlib.compress(data).hex()
    place = f"$(git rev-parse --git-dir)/objects/{name[:2]}"
    return f"mkdir -p {place}; printf '{packed}' | xxd -r -p > {place}/{name[2:]}"


BAD = {
    "of other content": b"blob 4\0evil",
    "no header": b"evil",
    "a wrong size": b"blob 9\0good",
}


@pytest.mark.parametrize("how", BAD)
def test_an_object_that_is_not_what_its_name_says_is_not_taken(repo: Repo, how: str) -> None:
    """Else it would stand for the true one as soon as somebody makes that."""
    name = hashlib.sha1(b"blob 4\0good").hexdigest()
    done = run(repo, unit("evil", f"echo e > e; {forged(name, BAD[how])}"), unit("other", "printf good > good"))
    assert done == {"evil": "broken_contract", "other": "accepted"}
    assert repo.show("main", "good") == b"good"
    assert "is not what its name says" in report(repo)["failedWorkUnits"][0]["reason"]


SHAPES = {
    "an object that is a pipe": "d=$(git rev-parse --git-dir)/objects/aa; mkdir -p $d; mkfifo $d/" + "b" * 38,
    "an object that is a link": f"d=$(git rev-parse --git-dir)/objects/aa; mkdir -p $d; ln -s /etc $d/{'b' * 38}",
    "an index that is a pipe": "d=$(git rev-parse --git-dir); rm $d/index; mkfifo $d/index",
    "HEAD of nothing": "git checkout -q --orphan x",
    "HEAD is a pipe": "d=$(git rev-parse --git-dir); rm $d/HEAD; mkfifo $d/HEAD",
    "all of it is gone": "rm -rf $(git rev-parse --git-dir)/*",
    "a pack that is none": "echo x > $(git rev-parse --git-dir)/objects/pack/pack-x.pack",
    "a .git of another": "git init -q --bare $TMPDIR/n; echo gitdir: $TMPDIR/n > .git; git config core.fsmonitor x",
}


@pytest.mark.parametrize("how", SHAPES)
def test_what_is_no_repository_is_that_units_end(repo: Repo, how: str) -> None:
    done = run(repo, unit("evil", f"echo e > e; {SHAPES[how]}"), unit("good", "echo g > g"))
    assert done["good"] == "accepted" and done["evil"] in ("broken_contract", "failed", "accepted"), done
    assert "g" in files_of(repo)
    assert repo.git("status", "--porcelain") == ""


def test_a_program_that_it_configures_is_run_by_no_git_of_ours(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "prog").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "prog").chmod(0o755)
    work = f"for k in core.fsmonitor filter.x.clean diff.external; do git config $k {tmp_path}/prog; done; "
    work += "echo '* filter=x' > $(git rev-parse --git-dir)/info/attributes; echo a > a"
    assert run(repo, unit("u", work)) == {"u": "accepted"}
    assert not (tmp_path / "ran").exists()


def test_what_a_killed_job_left_of_a_unit_is_taken_over(repo: Repo, tmp_path: Path) -> None:
    """job-run is killed while the unit works in a repository of its own: what it committed there is not lost."""
    mark = tmp_path / "mark"
    mark.mkdir()
    work = f"echo a > a; git add a; git commit -qm mine; echo $$ > {mark}/pid; mv {mark}/pid {mark}/began; sleep 60"
    document = {"isolate": {"write": [str(mark)]}, "units": [unit("u", work)]}
    path = job_file(repo, document)
    started = subprocess.Popen([script("job-run"), path, "--job", "j1", "-q"], cwd=repo.path, process_group=0)
    wait_for(mark / "began")
    worktree = repo.path / ".ktx/worktrees/j1/0001-u"
    assert (worktree / ".git").read_text().endswith("/0001-u/private\n")
    live = spawn("job-preview", "--job", "j1", cwd=repo.path)
    assert "it is isolated" in live.out + live.err, "no git of ours runs where the unit may have configured it"
    started.send_signal(signal.SIGKILL)
    started.wait()
    os.killpg(int((mark / "began").read_text()), signal.SIGKILL)
    ran = spawn("worktree-close", "--job", "j1", "--unit", "u", "--outcome", "success", "--discard", cwd=repo.path)
    assert ran.status == 0, ran
    assert "mine" in repo.git("log", "--format=%s", "--glob=refs/ktx").splitlines(), ran


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


def test_the_refs_that_it_sees_are_those_that_git_lists(repo: Repo) -> None:
    """Loose, packed, both, deeper ones, symbolic ones, a broken one; locks and other refs are none of them."""
    for name in ("a", "b/c/d", "packed", "both", "\u00e4"):
        repo.git("branch", name)
    repo.git("tag", "-a", "-m", "t", "t1")
    repo.git("pack-refs", "--all")
    repo.write("f", "f")
    repo.commit()
    repo.git("branch", "-f", "both", "main")
    repo.git("branch", "loose/one")
    repo.git("update-ref", "refs/remotes/origin/main", "main")
    repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    repo.git("symbolic-ref", "refs/heads/nowhere", "refs/heads/none")
    repo.git("update-ref", "refs/ktx/jobs/j/x", "main")
    repo.git("update-ref", "refs/other/x", "main")
    (repo.path / ".git/refs/heads/main.lock").touch()
    prefixes = ("refs/heads", "refs/tags", "refs/remotes", "refs/ktx/jobs/j")
    listed = repo.git("for-each-ref", "--format=%(refname) %(objectname)", *prefixes).splitlines()
    (repo.path / ".git/refs/heads/main.lock").unlink()
    assert refs_below(repo.path / ".git", prefixes) == dict(line.split(" ") for line in listed)


@pytest.mark.parametrize("count", [3, 60])
def test_the_quarantine_costs_one_git_at_most(repo: Repo, tmp_path: Path, count: int) -> None:
    started: list[list[str]] = []
    for number, isolate in enumerate((False, False, True)):  # the first one makes the store
        git = WrappedGit(tmp_path / f"git-{number}")
        git.prepare((), "failed")
        make = f"for i in $(seq {count}); do echo $i {number} > f$i; done; git add -A; git commit -qm all"
        work = f"{make}; echo {number} > left"
        document = {"job": f"j{number}", "isolate": isolate, "units": [unit("u", work)]}
        ran = spawn("job-run", job_file(repo, document), cwd=repo.path, env=git.env)
        assert ran.status == 0, ran
        started.append(git.started())
    assert len(started[2]) <= len(started[1]) + 1, (started[1], started[2])
