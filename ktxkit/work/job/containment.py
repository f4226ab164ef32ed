"""Units that can write nowhere but where their work is: their worktree, their place among the documents, git's objects.

A write of one unit into the worktree of another that runs cannot be told from that one's own: no file says which
process wrote it. So it is prevented where a job asks for it and the kernel can (Landlock), before it is anybody's work.

Files that lie among the documents of jobs and are none: found before anything lands, named, and left where they are.

Nothing reads them; but whoever put them there could have meant to be read.
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
from ktxkit.base.rules.text import plural, printable
from ktxkit.git.neutral import scratch_dir
from ktxkit.store import jobs
from ktxkit.store.leases import path_of
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules import shared_state
from ktxkit.work.rules.shared_state import DOCUMENT

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


KEPT = 200  # paths that are named


def note(run: JobRun) -> None:
    """Name what is there in the trace and in the job's warnings."""
    changes = run.watch.finish() if run.watch else []
    late = [change for change in changes if change["what"].startswith(f"{DOCUMENT} ")]
    if late:
        run.tracer.emit("work_unit", "changes_found_late", {"changes": late}, level="error")
    found = [printable(path) for path in _found(run)]
    if not found and not late:
        return
    if found:
        facts = {"paths": found[:KEPT], "count": len(found)}
        run.tracer.emit("work_unit", "stray_files_found", facts, level="error")
    told = [f".ktx/{path} is no document of a job: something put it there, nothing reads it" for path in found[:KEPT]]
    told += [f"{one['message']} while units ran, without being theirs" for one in late]
    more = [f"{plural(len(found) - KEPT, 'stray file')} more"] if len(found) > KEPT else []
    run.update(warnings=list(dict.fromkeys([*run.job.get("warnings", ()), *told, *more]))[:10_000])


def _found(run: JobRun) -> Iterator[str]:
    store, mine = run.world.store, names.job_dir(run.job_id)
    for name in _children(store.path("jobs")):
        place = f"jobs/{name}"
        if not store.path(place).is_dir() or os.path.islink(store.path(place)):  # noqa: PTH114
            yield place
        else:
            yield from (
                f"{place}/{one}" for one in shared_state.unknown(_children(store.path(place)), shared_state.JOB_ENTRIES)
            )
    units = {names.unit_name(unit.position, unit.key) for unit in jobs.units(run.job)}
    yield from (f"{mine}/units/{one}" for one in shared_state.unknown(_children(store.path(f"{mine}/units")), units))
    for unit in sorted(units):
        place = f"{mine}/units/{unit}"
        yield from (f"{place}/{one}" for one in shared_state.unknown(_children(store.path(place)), shared_state.UNIT))
    patches = f"ingest-patches/{run.job_id}"
    yield from (
        f"{patches}/{one}"
        for one in shared_state.unknown(_children(store.path(patches)), {f"{u}.patch" for u in units})
    )
    trees = f"worktrees/{run.job_id}"
    kept = [one for one in _children(store.path(trees)) if not shared_state.is_earlier_attempt(one, units)]
    yield from (f"{trees}/{one}" for one in shared_state.unknown(kept, {*units, "integration"}))


def _children(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
