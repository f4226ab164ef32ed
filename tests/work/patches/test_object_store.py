"""The user's object store after many jobs: whole, and never packed, pruned or collected by us.

The long form (KTX_TEST_FULL=1) runs a hundred jobs.
"""

from __future__ import annotations

import os

from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo
from tests.support.trees import Store

JOBS = 100 if os.environ.get("KTX_TEST_FULL") == "1" else 2


def eager(repo: Repo) -> None:
    """From here on every `gc --auto` packs: git counts the files of objects/17 (builtin/gc.c)."""
    store, number = Store(repo.path / ".git/objects"), 0
    while len(list((repo.path / ".git/objects/17").glob("*"))) < 3:
        number += 1
        name = store.name("blob", b"%d" % number)
        if name.startswith("17"):
            store.put("blob", b"%d" % number)
    for setting in ("gc.auto=1", "gc.autoDetach=false", "gc.pruneExpire=now", "maintenance.auto=true"):
        repo.git("config", *setting.split("="))


def packed(repo: Repo) -> list[str]:
    git = repo.path / ".git"
    names = [path.name for path in (git / "objects/pack").glob("*")]
    return sorted(names + [name for name in ("gc.pid", "gc.log", "packed-refs") if (git / name).exists()])


def test_many_jobs_leave_it_whole(repo: Repo) -> None:
    eager(repo)
    before = packed(repo)
    for number in range(JOBS):
        name = f"j{number}"
        units = [
            unit("adds", f"echo {number} > page-{number}.txt"),
            unit("edits", f"echo {number} >> README && rm -f page-{number - 1}.txt"),
            unit("clashes", f"echo other {number} >> README"),
            unit("fails", "echo lost > lost.txt; exit 1"),
        ]
        path = job_file(repo, {"units": units})
        ran = call("job-run", path, "--job", name, cwd=repo.path)
        assert ran.status == 3, ran
        assert list(outcomes(repo, name).values()) == ["accepted", "accepted", "textual_conflict", "failed"]
    assert packed(repo) == before, "no gc, repack, prune or pack-refs of ours"
    assert repo.git("fsck", "--strict", "--no-dangling", "--full") == ""
    collected = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/units").split()
    assert len(collected) >= 3 * JOBS and all(repo.git("cat-file", "-t", name) == "commit" for name in collected)
    repo.write("by-hand", "x\n")
    repo.commit()
    assert packed(repo) != before, "the user's own commit does run it: it was due all the time"
    assert repo.git("fsck", "--strict", "--no-dangling", "--full") == ""
