"""What a unit closes to everybody (modes without read permission) is its own end, and nothing of it goes unseen.

Root looks everywhere: as root the commands run without the capabilities that let it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import Ran, script
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

WITHOUT = "-dac_override,-dac_read_search"
AS_OWNER = ["setpriv", f"--bounding-set={WITHOUT}", f"--inh-caps={WITHOUT}"] if os.getuid() == 0 else []
pytestmark = pytest.mark.skipif(AS_OWNER != [] and shutil.which("setpriv") is None, reason="root, without setpriv")


def as_owner(repo: Repo, name: str, *args: str | Path) -> Ran:
    done = subprocess.run(
        [*AS_OWNER, script(name), *map(str, args)], cwd=repo.path, capture_output=True, text=True, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


KINDS = {  # how the unit ends, and what must still be there after a clean-up
    "a new directory": ("mkdir d; echo x > d/x; chmod 000 d", "failed", "d/x"),
    "a new directory that cannot be listed": ("mkdir d; echo x > d/x; chmod 311 d; echo e > e", "failed", "d/x"),
    "a tracked directory": ("echo y > t/t; chmod 000 t", "failed", "t/t"),
    "a file": ("echo x > x; chmod 000 x", "failed", "x"),
    "a directory that cannot be written": ("mkdir d; echo x > d/x; chmod 500 d", "accepted", ""),
    "its worktree": ("echo x > x; chmod 000 .", "accepted", ""),
    "the place of its documents": ('echo x > x; chmod 000 "$(dirname "$KTX_LEASE")"', "broken_contract", ""),
    "its lease": ('echo x > x; chmod 000 "$KTX_LEASE"', "broken_contract", ""),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_unit_closes(repo: Repo, kind: str) -> None:
    command, outcome, left = KINDS[kind]
    repo.write("t/t", "t\n")
    repo.commit("a directory")
    path = job_file(repo, {"units": [unit("evil", command), unit("good", "echo g > g")]})
    ran = as_owner(repo, "job-run", path, "--job", "j1")
    assert "Traceback" not in ran.err and outcomes(repo) == {"evil": outcome, "good": "accepted"}, ran
    assert repo.show("main", "g") == b"g\n"
    cleaned = as_owner(repo, "git-ktx", "clean", "--yes")
    assert "Traceback" not in cleaned.err, cleaned
    worktree = repo.path / ".ktx/worktrees/j1/0001-evil"
    if left:
        assert (worktree / left).exists(), cleaned
    elif outcome != "accepted":
        attic = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic")
        assert worktree.exists() or repo.git("show", f"{attic.splitlines()[0]}:x") == "x"


def test_by_hand_it_is_said_and_nothing_is_collected(repo: Repo) -> None:
    place = Path(as_owner(repo, "worktree-open", "--job", "j", "--unit", "u", "--target", "main").out.strip())
    (place / "d").mkdir()
    (place / "d/x").write_text("x")
    (place / "d").chmod(0)
    for command in (["patch-collect"], ["worktree-close", "--outcome", "empty"], ["worktree-close", "--discard"]):
        ran = as_owner(repo, *command, "--job", "j", "--unit", "u")
        assert ran.status in (1, 2) and "Traceback" not in ran.err, ran
        assert "d" in ran.err and place.exists(), ran
    (place / "d").chmod(0o700)
    assert (place / "d/x").read_text() == "x"
