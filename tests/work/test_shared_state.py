"""What all worktrees share and one unit changed: put back while the units run, named with them, and acting nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ktxkit.base.identity import identify
from ktxkit.store.active import ActiveJob
from ktxkit.store.world import World
from ktxkit.work.job.guard import Guard
from tests.support.commands import call, spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

BACK = """
for i in $(seq 200); do %s && break; sleep 0.05; done
touch "$KTX_DIR/../../back"
"""
# What the unit does in the common directory, how the shell sees that it is as before, what the unit's result names.
CHANGES = {
    "exclude": ("echo '*' >> info/exclude", "! grep -qxF '*' info/exclude", "config info/exclude"),
    "exclude without our rule": (": > info/exclude", "grep -q ktx info/exclude", "config info/exclude"),
    "exclude as a directory": ("rm info/exclude; mkdir info/exclude", "test -f info/exclude", "config info/exclude"),
    "attributes": ("echo '* binary' > info/attributes", "! test -e info/attributes", "config info/attributes"),
    "alternates": ("echo /gone > objects/info/alternates", "! test -e objects/info/alternates", "config objects/info"),
    "grafts": ("git rev-parse HEAD > info/grafts", "! test -e info/grafts", "config info/grafts"),
    "shallow": ("git rev-parse main > shallow", "! test -e shallow", "config shallow"),
    "another repository": ("echo /gone > commondir", "! test -e commondir", "config commondir"),
    "a replacement": (
        "git replace main $(git commit-tree -m x main^{tree})",
        '! git for-each-ref refs/replace | grep -q .',
        "refs refs/replace/",
    ),
    "a packed replacement": (
        "git replace main $(git commit-tree -m x main^{tree}); git pack-refs --all",
        '! git for-each-ref refs/replace | grep -q .',
        "refs refs/replace/",
    ),
    "a sibling's programs": (
        "git config extensions.worktreeConfig true; git config -f worktrees/0002-good/config.worktree core.fsmonitor x",
        "! grep -q fsmonitor worktrees/0002-good/config.worktree",
        "config worktrees/0002-good/config.worktree",
    ),
    "a sibling's registration": (
        "rm -r worktrees/0002-good", "test -e worktrees/0002-good/index", "worktree 0002-good: ",
    ),
    "a sibling's place": (
        "echo /gone > worktrees/0002-good/gitdir",
        "! grep -q gone worktrees/0002-good/gitdir",
        "worktree 0002-good: gitdir",
    ),
    "a lock of the index": (": > index.lock", "! test -e index.lock", "lock index.lock"),
    "a lock of the target": (": > refs/heads/main.lock", "! test -e refs/heads/main.lock", "lock refs/heads/main.lock"),
    "a lock of a sibling": (
        ": > worktrees/0002-good/index.lock",
        "! test -e worktrees/0002-good/index.lock",
        "lock worktrees/0002-good/index.lock",
    ),
}  # fmt: skip
GOOD = """
touch "$KTX_DIR/../../good"
while ! test -e "$KTX_DIR/../../back"; do sleep 0.05; done
echo g > g; git add -A; git commit -qm g
"""


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_put_back_while_the_units_run(repo: Repo, change: str) -> None:
    act, back, what = CHANGES[change]
    lead = 'echo e > e; while ! test -e "$KTX_DIR/../../good"; do sleep 0.05; done; cd "$KTX_DIR/../.git"'
    evil = f"{lead}; {act}\n{BACK % back}"
    path = job_file(repo, {"maxParallel": 2, "units": [unit("evil", evil), unit("good", GOOD)]})
    config = (repo.path / ".git/config").read_bytes()
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err + ran.out
    assert outcomes(repo) == {"evil": "accepted", "good": "accepted"}
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "e", "g"]
    told = touched(repo, "0001-evil")
    assert any(one.startswith(what) and {"evil", "good"} == set(running) for one, running in told.items()), told
    assert (repo.path / ".git/config").read_bytes().startswith(config), "but for the extension that git turned on"
    assert repo.git("status", "--porcelain") == ""


def touched(repo: Repo, name: str) -> dict[str, list[str]]:
    """What a unit's result names, each with the units that ran."""
    result = json.loads((repo.path / f".ktx/jobs/j1/units/{name}/result.json").read_text())
    return {one["what"]: one["running"] for one in result.get("touched", ()) if one.get("putBack")}


def test_a_stash_that_came_and_went_is_named(repo: Repo) -> None:
    """Two that stash at a time take each other's work; nothing of it is to be seen before and after."""
    evil = 'echo s > README; git stash -q; git stash pop -q; sleep 0.3; touch "$KTX_DIR/../../back"'
    path = job_file(repo, {"maxParallel": 2, "units": [unit("evil", evil), unit("good", GOOD)]})
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-evil/result.json").read_text())
    named = [one for one in result["touched"] if one["what"] == "stash refs/stash"]
    assert named and all(set(one["running"]) == {"evil", "good"} for one in named)
    assert any("takes the work of another" in one["message"] for one in named)
    assert repo.git("stash", "list") == ""


def test_a_lock_that_somebody_holds_stays(repo: Repo) -> None:
    """One that was there before the job, and one that a process has open."""
    before = repo.path / ".git/refs/heads/other.lock"
    before.write_text("")
    evil = 'exec 9> "$KTX_DIR/../.git/refs/heads/held.lock"; sleep 3; echo e > e'
    path = job_file(repo, {"units": [unit("evil", evil)]})
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert before.exists()
    assert list(touched(repo, "0001-evil")) == ["lock refs/heads/held.lock"], "when its process had ended, not before"
    assert repo.show("main", "e") == b"e\n"


def test_a_job_of_the_same_name_begins_anew_where_the_store_was_removed(repo: Repo) -> None:
    path = job_file(repo, {"units": [unit("a", "echo a > a")]})
    assert spawn("job-run", path, "--job", "j1", cwd=repo.path).status == 0
    left = repo.git("rev-parse", "refs/ktx/jobs/j1/integration")
    repo.git("clean", "-qffdx")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write("b", "b")
    repo.commit("another way")
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "a", "b"]
    assert left in repo.git("for-each-ref", "--format=%(objectname)", "refs/ktx/attic/j1").split()


def test_worktrees_that_people_make_meanwhile_are_theirs(repo: Repo, tmp_path: Path) -> None:
    """Added, configured, locked, moved and removed: nothing of it is put back or named."""
    place = tmp_path / "own"
    work = f"""cd "$KTX_DIR/.."; git worktree add -q --detach {place}; sleep 0.2
    git worktree move {place} {place}2; sleep 0.2; git -C {place}2 checkout -q --detach main; sleep 0.2
    git worktree remove {place}2; sleep 0.2"""
    path = job_file(repo, {"units": [unit("a", work)]})
    ran = spawn("job-run", path, "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert touched(repo, "0001-a") == {} and not (repo.path / ".git/worktrees/own").exists()


def seen_half_written(repo: Repo, name: str) -> tuple[Guard, Path, bytes]:
    """A guard that saw a file of a registration empty, as git makes it; the file as it is now, whole."""
    assert call("worktree-open", "--job", "j", "--unit", "a", cwd=repo.path).status == 0
    path = repo.path / ".git/worktrees/0001-a" / name
    whole = path.read_bytes()
    path.write_bytes(b"")
    guard = Guard(ActiveJob.load(World(repo.path, os.environ), "j"))
    path.write_bytes(whole)
    return guard, path, whole


@pytest.mark.parametrize("name", ["gitdir", "commondir", "HEAD"])
def test_a_registration_that_was_seen_half_written_is_not_put_back_so(repo: Repo, name: str) -> None:
    """git writes its files one after the other, none atomically: units are opened while others run."""
    guard, path, whole = seen_half_written(repo, name)
    assert guard.check() == [] and path.read_bytes() == whole


@pytest.mark.parametrize("name", ["gitdir", "commondir", "HEAD"])
def test_a_registration_that_became_whole_during_a_look_is_left(repo: Repo, name: str) -> None:
    """A look may read a file that git has just made, and find the registration whole at its end."""
    guard, path, whole = seen_half_written(repo, name)
    there = identify(path.parent)
    assert there is not None
    guard._whole["0001-a"] = there
    assert guard.check() == [] and path.read_bytes() == whole
    path.write_bytes(b"elsewhere\n")
    assert (name == "HEAD") == (guard.check() == []) and (name == "HEAD" or path.read_bytes() == whole)
