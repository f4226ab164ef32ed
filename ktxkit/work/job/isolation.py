"""Units that can write nowhere but where their work is: their worktree, their place among the documents, git's objects.

A write of one unit into the worktree of another that runs cannot be told from that one's own: no file says which
process wrote it. So it is prevented where a job asks for it and the kernel can (Landlock), before it is anybody's work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit.base import files, landlock
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.git.neutral import scratch_dir
from ktxkit.store import jobs
from ktxkit.store.leases import path_of
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.job.state import JobRun

EVERYONE = ("/dev", "/proc")  # devices, and what a process says of itself
OF_GIT = ("objects", "refs", "logs", "lfs", "reftable")  # a unit may commit, and make branches
OF_STORE = ("ledger", "locks")  # test runs are recorded wherever tests run


@dataclass(frozen=True)
class Walls:
    """What a command is started behind; nothing of the kind for units that are not isolated."""

    before: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def check(world: World, also: Sequence[str] | None) -> None:
    """Before a job that isolates its units begins. Raises CannotRun where it cannot be, or a place would undo it."""
    if also is None:
        return
    if landlock.version() < landlock.LEAST:
        raise CannotRun(
            "this kernel cannot isolate units",
            hint="it needs Landlock (Linux 5.19 or newer, `landlock` in its `lsm=`); leave `isolate` out",
        )
    _also(world, also)


@contextmanager
def behind(run: JobRun, unit: jobs.Unit, lease: Document) -> Iterator[Walls]:
    """For the block, what a unit's command is started behind."""
    if run.plan.isolate is None:
        yield Walls()
        return
    with scratch_dir(run.world) as place:
        temporary = place / "tmp"
        files.make_dirs(temporary)
        places = [temporary, *_own(run, unit, lease), *_also(run.world, run.plan.isolate)]
        before = (sys.executable, "-I", "-S", landlock.__file__, *map(os.fspath, places), "--")
        yield Walls(before, dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary)))


def _own(run: JobRun, unit: jobs.Unit, lease: Document) -> list[Path]:
    """Where every isolated unit may write, of what is there."""
    store, common = run.world.store, run.world.repository.common_dir
    top = path_of(lease)
    admin = Path(run.world.git.at(top).text("rev-parse", "--absolute-git-dir"))
    documents = (names.unit_dir(run.job_id, unit.position, unit.key), f"ingest-traces/{run.job_id}", *OF_STORE)
    found = [top, admin, *(common / name for name in OF_GIT), *(store.path(name) for name in documents)]
    return [place for place in (*map(Path, EVERYONE), *found) if place.exists()]


def _also(world: World, also: Sequence[str]) -> list[Path]:
    """The places that the job file adds, from the repository's top. Raises CannotRun for one that cannot be."""
    return [_place(world, name) for name in also]


def _place(world: World, name: str) -> Path:
    home = world.env.get("HOME", "")
    place = world.repository.place / (name.replace("~", home, 1) if home and name.split("/")[0] == "~" else name)
    real = Path(os.path.realpath(place))
    if not real.exists():
        raise CannotRun("isolated units cannot write where nothing is", where=str(place), hint="make it first")
    worktrees = Path(os.path.realpath(world.store.path("worktrees")))
    if real in (worktrees, *worktrees.parents) or worktrees in real.parents:
        raise CannotRun(
            "units that may write there are not isolated: the worktrees of others are in it",
            where=str(place),
            hint="name directories beside the repository's, or leave `isolate` out",
        )
    return real
