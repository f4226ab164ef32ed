"""Files that lie among the documents of jobs and are none: found before anything lands, named, and left where they are.

Nothing reads them; but whoever put them there could have meant to be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ktxkit.base.rules.text import plural, printable
from ktxkit.store import jobs
from ktxkit.store.rules import names
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules import strays
from ktxkit.work.rules.fingerprint import DOCUMENT

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
            yield from (f"{place}/{one}" for one in strays.unknown(_children(store.path(place)), strays.JOB))
    units = {names.unit_name(unit.position, unit.key) for unit in jobs.units(run.job)}
    yield from (f"{mine}/units/{one}" for one in strays.unknown(_children(store.path(f"{mine}/units")), units))
    for unit in sorted(units):
        place = f"{mine}/units/{unit}"
        yield from (f"{place}/{one}" for one in strays.unknown(_children(store.path(place)), strays.UNIT))
    patches = f"ingest-patches/{run.job_id}"
    yield from (
        f"{patches}/{one}" for one in strays.unknown(_children(store.path(patches)), {f"{u}.patch" for u in units})
    )
    trees = f"worktrees/{run.job_id}"
    kept = [one for one in _children(store.path(trees)) if not strays.is_earlier_attempt(one, units)]
    yield from (f"{trees}/{one}" for one in strays.unknown(kept, {*units, "integration"}))


def _children(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
