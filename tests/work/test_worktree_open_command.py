"""worktree-open ... -- CMD: the command runs in the worktree, its status is the answer, and no path is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.commands import spawn
from tests.support.repos import Repo


def test_the_command_runs_there(repo: Repo) -> None:
    done = spawn("worktree-open", "topic", "--", "sh", "-c", "pwd; git branch --show-current; exit 7", cwd=repo.path)
    where = repo.path / ".ktx/worktrees/adhoc/topic"
    assert done.status == 7 and done.out.splitlines() == [str(where), "topic"], done
    again = spawn("worktree-open", "topic", "--", "pwd", cwd=repo.path)
    assert again.status == 0 and again.out == f"{where}\n", "the second day"


def test_where_it_cannot_be_opened_nothing_runs(repo: Repo) -> None:
    done = spawn("worktree-open", "--ref", "main", "--", "touch", "ran", cwd=repo.path)
    assert done.status == 1 and done.out == "" and not (repo.path / "ran").exists()


def test_a_unit_finds_its_job(repo: Repo) -> None:
    collect = Path(sys.executable).with_name("patch-collect")
    told = f"echo $KTX_JOB $KTX_UNIT; cd /; echo new > $OLDPWD/new; {collect} -C $OLDPWD"
    done = spawn("worktree-open", "--job", "j1", "--unit", "u", "--", "sh", "-c", told, cwd=repo.path)
    assert done.status == 0 and done.out.splitlines()[0] == "j1 u" and "collected: 1 path" in done.out, done


def test_a_git_directory_of_the_caller_leads_nobody_astray(repo: Repo) -> None:
    words = ("worktree-open", "topic", "--", "git", "rev-parse", "--show-toplevel")
    done = spawn(*words, cwd=repo.path, env={"GIT_DIR": str(repo.path / ".git"), "GIT_WORK_TREE": str(repo.path)})
    assert done.out.strip() == str(repo.path / ".ktx/worktrees/adhoc/topic"), done


def test_json_keeps_the_output_apart(repo: Repo) -> None:
    done = spawn("worktree-open", "topic", "--json", "--", "sh", "-c", "echo said; exit 3", cwd=repo.path)
    body = json.loads(done.out)
    assert (done.status, body["status"], body["outcome"]) == (3, 3, "failed") and "said" in done.err
    assert body["document"]["branch"] == "refs/heads/topic"


def test_a_signal_is_told_as_the_shell_does(repo: Repo) -> None:
    assert spawn("worktree-open", "topic", "--", "sh", "-c", "kill -9 $$", cwd=repo.path).status == 137


def test_lists_take_no_command(repo: Repo) -> None:
    done = spawn("worktree-open", "--list", "--", "true", cwd=repo.path)
    assert done.status == 2 and "not obeyed" in done.err
