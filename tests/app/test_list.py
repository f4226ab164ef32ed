"""`git ktx list`, `prune` and `shell-init`: where one's worktrees are, what is in them, and how to get there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktxkit.app.overview import age_text
from tests.support.commands import BIN, call
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo


def rows(repo: Repo) -> dict[str, dict[str, Any]]:
    listed: list[dict[str, Any]] = call("git-ktx", "list", "--json", cwd=repo.path).json["data"]["worktrees"]
    return {row["name"]: row for row in listed}


def opened(repo: Repo, name: str) -> Repo:
    return Repo(Path(call("worktree-open", name, cwd=repo.path).out.strip()))


def test_what_is_in_each_and_what_next(repo: Repo) -> None:
    repo.write("f", "0\n")
    repo.commit()
    ahead, dirty, fresh = opened(repo, "ahead"), opened(repo, "dirty"), opened(repo, "fresh")
    ahead.write("g", "1\n")
    ahead.commit()
    repo.write("h", "1\n")
    repo.commit()
    dirty.write("f", "0\n1\n2\n")
    dirty.write("new", "1\n")
    found = rows(repo)
    assert (found["ahead"]["ahead"], found["ahead"]["behind"], found["ahead"]["next"]) == (1, 1, "git ktx land ahead")
    assert (found["dirty"]["changed"], found["dirty"]["added"]) == (2, 2) and "ahead" not in found["dirty"]
    assert found["dirty"]["next"] == "git ktx land dirty --squash"
    assert found["fresh"]["next"] == "worktree-close fresh" and found["main"]["what"] == "main checkout"
    with subprocess.Popen(["sleep", "60"], cwd=fresh.path) as child:
        text = call("git-ktx", "list", cwd=repo.path).out
        child.kill()
    assert f"sleep {child.pid}" in text and f"\n    {fresh.path}\n" in text
    assert call("worktree-close", "fresh", cwd=repo.path).status == 0 and "fresh" not in rows(repo)


def test_units_and_what_is_left_over(repo: Repo) -> None:
    file = job_file(repo, {"units": [unit("a", "echo 1 > a"), unit("b", "echo 2 > b; exit 1")]})
    assert call("job-run", file, "--job", "j1", "-q", cwd=repo.path).status == 3
    found = rows(repo)["j1/b"]
    assert found["what"] == "unit, kept as crash" and found["state"] == "kept as evidence: its job is landed"
    assert call("worktree-open", "--job", "j2", "--unit", "u", cwd=repo.path).status == 0
    assert rows(repo)["j2/u"]["next"] == "patch-collect --job j2 --unit u"
    done = call("git-ktx", "prune", cwd=repo.path)
    assert done.status == 0 and "1 cleared" in done.out and "j1/b" not in rows(repo)


def land(repo: Repo, name: str, *words: str) -> None:
    assert call("git-ktx", "land", name, *words, cwd=repo.path).status == 0


def by_hand(repo: Repo, key: str, *commands: str) -> None:
    place = call("worktree-open", "--job", "hand", "--unit", key, cwd=repo.path).out.strip()
    Path(place, f"unit-{key}").write_text("1\n")
    for command in commands:
        assert call(command, "--job", "hand", "--unit", key, cwd=repo.path).status == 0


@pytest.fixture
def every_state(repo: Repo) -> Repo:
    """A worktree in each state; a job by hand, and one that landed in part."""
    repo.write("f", "0\n")
    repo.commit()
    repo.git("worktree", "add", "-q", "-b", "of-git", "../of-git")
    names = (
        "fresh",
        "dirty",
        "ahead",
        "ahead-dirty",
        "landed",
        "squashed",
        "landed-more",
        "by-git",
        "switched",
        "apart",
    )
    made = {name: opened(repo, name) for name in names}
    made["merged/x"] = opened(repo, "merged/x")
    for name in ("ahead", "ahead-dirty", "landed", "squashed", "landed-more", "by-git", "merged/x", "apart"):
        made[name].write(f"new-{name.replace('/', '-')}", "1\n")
        made[name].commit()
    for name in ("dirty", "ahead-dirty", "squashed", "switched"):
        made[name].write(f"more-{name}", "1\n")
    repo.write("g", "1\n")
    repo.commit()
    made["switched"].git("checkout", "-q", "-b", "other")
    made["apart"].git("checkout", "-q", "--detach")
    repo.git("merge", "-q", "--squash", "by-git")
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "merged/x")
    for name, words in (("landed", ()), ("squashed", ("--squash",)), ("landed-more", ())):
        land(repo, name, *words)
    made["landed-more"].write("later", "1\n")
    by_hand(repo, "opened")
    by_hand(repo, "collected", "patch-collect")
    by_hand(repo, "applied", "patch-collect", "patch-apply")
    assert call("git-ktx", "run", "echo 1 > r1", "exit 3", cwd=repo.path).status == 3
    return repo


def test_what_is_next_in_each_state_works(every_state: Repo) -> None:
    steps = {name: row.get("next", "") for name, row in rows(every_state).items()}
    job = next(name for name in steps if name.startswith("run-")).partition("/")[0]
    assert steps == {
        "main": "",
        "of-git": "",
        "fresh": "worktree-close fresh",
        "dirty": "git ktx land dirty --squash",
        "ahead": "git ktx land ahead",
        "ahead-dirty": "git ktx land ahead-dirty --squash",
        "landed": "worktree-close landed",
        "squashed": "worktree-close squashed",
        "landed-more": "git ktx land landed-more --squash",
        "by-git": "git ktx land by-git",
        "merged/x": "worktree-close merged/x",
        "other": "git ktx land switched --squash",
        "apart": "git ktx land apart",
        "hand/opened": "patch-collect --job hand --unit opened",
        "hand/collected": "patch-apply --job hand --unit collected",
        "hand/applied": "worktree-close --job hand --unit applied",
        f"{job}/exit": f"job-report {job}",
    }
    for step in filter(None, steps.values()):
        words = step.removeprefix("git ").replace("ktx land", "git-ktx land").split()
        done = call(*words, cwd=every_state.path)
        assert done.status == 0, (step, done)
    after = {name: row.get("next", "") for name, row in rows(every_state).items()}
    closing = {step for name, step in after.items() if not name.startswith(("hand/", "run-", "main", "of-git"))}
    assert all(step.startswith("worktree-close ") for step in closing), after
    assert after["hand/opened"] == "patch-apply --job hand --unit opened"
    assert after["hand/collected"] == "worktree-close --job hand --unit collected" and "hand/applied" not in after


def test_what_is_next_is_no_command_that_would_be_refused(repo: Repo) -> None:
    repo.write("f", "0\n")
    repo.commit()
    made = opened(repo, "merging")
    made.write("f", "1\n")
    made.commit()
    repo.write("f", "2\n")
    repo.commit()
    made.git("merge", "main", check=False)
    opened(repo, "broken").path.joinpath(".git").write_text("gitdir: /nowhere\n")
    found = rows(repo)
    assert (
        found["merging"]["next"] == f"git -C {made.path} status" and found["merging"]["state"] == "a merge in progress"
    )
    assert found["broken"]["next"] == "git ktx doctor"


def test_the_branch_that_a_worktree_has_now_is_its_name_too(repo: Repo) -> None:
    repo.write("f", "0\n")
    repo.commit()
    opened(repo, "first").git("checkout", "-q", "-b", "second")
    done = call("worktree-close", "second", cwd=repo.path)
    assert done.status == 0 and "first" in done.out, done


def test_looking_makes_no_store(repo: Repo) -> None:
    repo.write("f", "0\n")
    repo.commit()
    repo.git("worktree", "add", "-q", "-b", "of-git", "../of-git")
    looks = (
        ("list",),
        ("status",),
        ("attic",),
        ("clean",),
        ("doctor",),
        ("land", "nothing"),
        ("run", "true", "--dry-run"),
    )
    for words in looks:
        call("git-ktx", *words, cwd=repo.path)
        assert not (repo.path / ".ktx").exists(), words
    for name in ("worktree-status", "worktree-close", "job-report", "ledger-query"):
        call(name, *{"worktree-close": ["of-git"], "ledger-query": ["jobs"]}.get(name, []), cwd=repo.path)
        assert not (repo.path / ".ktx").exists(), name


def test_an_attempt_that_a_later_one_made_good_can_be_cleared(repo: Repo) -> None:
    file = job_file(repo, {"units": [unit("a", "test -e mended && echo 1 > a")]})
    assert call("job-run", file, "--job", "j1", "-q", cwd=repo.path).status == 3
    assert rows(repo)["j1/a"]["next"] == "job-report j1"
    repo.write("mended", "1\n")
    repo.commit()
    assert call("job-run", "--resume", "j1", "--failed", "-q", cwd=repo.path).status == 0
    left = [row["next"] for name, row in rows(repo).items() if name.startswith("j1/a")]
    assert left == ["git ktx clean"]
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0 and "j1/a" not in rows(repo)


def test_a_directory_that_is_gone_is_said_once(repo: Repo) -> None:
    shutil.rmtree(opened(repo, "away").path)
    assert rows(repo)["away"]["state"] == "left over: its directory is gone"


def test_old_spellings_work_and_say_the_new_one(repo: Repo) -> None:
    done = call("worktree-open", "--list", cwd=repo.path)
    assert done.status == 0 and "note: `git ktx list` is the command for this" in done.err
    done = call("worktree-open", "--prune", cwd=repo.path)
    assert done.status == 0 and "note: `git ktx prune` is the command for this" in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_function_goes_there_or_stays(repo: Repo, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; `make system` as root installs it")
    file = tmp_path / "init"
    file.write_text(call("git-ktx", "shell-init", shell, cwd=repo.path).out)
    status = "$status" if shell == "fish" else "$?"
    line = f"source {file}; ktx topic; pwd; ktx; pwd; ktx 'no name'; echo {status}; pwd"
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", line], cwd=repo.path, env=env, capture_output=True, text=True, check=False)
    there, home, failed, stayed = done.stdout.splitlines()
    assert there.endswith("/topic") and home == stayed == str(repo.path) and failed == "2", done


def test_ages() -> None:
    ages = [None, 3, 65, 7300, 200_000]
    assert [age_text(age) for age in ages] == ["", "now", "1 min", "2 h", "2 d"]


def test_the_setup_runs_once_in_a_new_worktree(repo: Repo) -> None:
    repo.write(".gitignore", "deps\n")
    repo.commit()
    done = call("worktree-open", "one", "--setup", "echo installing; pwd > deps", cwd=repo.path)
    place = Path(done.out.strip())
    assert done.status == 0 and (place / "deps").read_text() == f"{place}\n"
    assert (repo.path / ".ktx/leases/one/setup.log").read_text() == "installing\n"
    (place / "deps").unlink()
    assert call("worktree-open", "one", cwd=repo.path).status == 0 and not (place / "deps").exists()
    failed = call("worktree-open", "two", "--setup", "echo no network >&2; exit 7", "--", "touch", "ran", cwd=repo.path)
    assert failed.status == 3 and "its setup ended with status 7: no network" in failed.err
    assert "two" in rows(repo) and not (repo.path / ".ktx/worktrees/adhoc/two/ran").exists()


def test_the_configured_setup_is_that_of_units_too(repo: Repo) -> None:
    repo.write(".ktx-config.yaml", "setup: 'echo dep > deps'\n")
    repo.write(".gitignore", "deps\n")
    repo.commit()
    done = call("git-ktx", "run", "cat deps > a", "cp deps b", cwd=repo.path)
    assert done.status == 0 and repo.show("main", "a") == repo.show("main", "b") == b"dep\n", done
    planned = call("git-ktx", "run", "cat deps > a", "--dry-run", cwd=repo.path)
    assert "set up, each worktree: echo dep > deps" in planned.out and "    1  cat  cat deps > a" in planned.out
    failed = call("git-ktx", "run", "true", "--setup", "echo no network; exit 7", cwd=repo.path)
    assert failed.status == 3 and "status 7: no network | setup ended with status 7" in " ".join(failed.out.split())


def test_jobs_and_what_would_land(repo: Repo) -> None:
    assert call("job-report", "--list", cwd=repo.path).out == "no job has run here yet\n"
    opened = call("worktree-open", "--job", "j1", "--unit", "u", cwd=repo.path)
    (Path(opened.out.strip()) / "new").write_text("1\n")
    for command in ("patch-collect", "patch-apply"):
        assert call(command, "--job", "j1", "--unit", "u", cwd=repo.path).status == 0
    assert call("job-report", "--list", cwd=repo.path).out.endswith(
        "j1  open, 1 of 1 unit in; next: job-land --job j1\n"
    )
    before = repo.git("for-each-ref")
    shown = call("job-land", "--job", "j1", "--dry-run", cwd=repo.path)
    assert shown.out.splitlines() == [
        f"would land on main (now at {repo.head[:12]}): 1 unit, 1 path", "  u", "Nothing was moved.",
    ]  # fmt: skip
    repo.write("new", "in the way\n")
    assert "in the way: new" in call("job-land", "--job", "j1", "--dry-run", cwd=repo.path).err
    (repo.path / "new").unlink()
    assert repo.git("for-each-ref") == before
    repo.write("other", "1\n")
    repo.commit()
    assert call("job-land", "--job", "j1", "--dry-run", cwd=repo.path).status == 1
    assert "would be replayed" in call("job-land", "--job", "j1", "--dry-run", "--rebase", cwd=repo.path).out
    assert call("job-land", "--job", "j1", "--rebase", cwd=repo.path).status == 0
    assert "nothing to land" in call("job-land", "--job", "j1", "--dry-run", "--rebase", cwd=repo.path).out
