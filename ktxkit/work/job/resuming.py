"""Going on with a job: what is on record stays, some units have another attempt, an edited job file is taken."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ktxkit.base import files, kinds
from ktxkit.base.errors import BrokenContract, CannotRun, Refused
from ktxkit.base.rules.digests import digest, digest_of
from ktxkit.base.rules.text import path_bytes, printable
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.integrate import DONE
from ktxkit.work.job.prepare import SIZE_LIMIT, source_of
from ktxkit.work.job.run import JobEnd, RunOptions, execute
from ktxkit.work.job.state import UnitSelection
from ktxkit.work.rules.job_file import PROJECT, JobCommand, JobPlan, plan_of

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from ktxkit.base.documents import JobFile, JobUnit, Receipt

FIXED: Final = ("target", "connectionId", "sourceKey", "job", "syncId", "project")  # since the job began


def go_on(
    world: World, job_id: str, options: RunOptions, edited: JobFile | None, name: str
) -> tuple[JobEnd, list[str]]:
    """Resume a job, by an edited job file where one is given; returns what a person should know of the file, too."""
    if edited is None:
        notes = changed_file(world, job_id)
        return resume(world, job_id, options), notes
    ignored, again = take_edited(world, job_id, edited, name)
    return resume(world, job_id, options.with_edited(again)), [f"{name}: {line}" for line in ignored]


def resume(world: World, job_id: str, options: RunOptions) -> JobEnd:
    """Continue a job: what is on record stays, patches with unchanged inputs are reused.

    A job that has landed in part goes on with the units that have no outcome of integration yet, and with those that
    are to have another attempt. Raises Refused where nothing of it is left to do, CannotRun for an unknown unit.
    """
    job = ActiveJob.load(world, job_id)
    plan = _plan(job)
    chosen = _checked(job, _with_failed(job, options.selection))
    options = options.with_selection(chosen)
    if job.state == "landed" and "finishedAt" in job.document and world.store.exists(names.report_doc(job_id)):
        waiting = [unit.key for unit in job.units if _receipt(job, unit.key) is None]
        if not (chosen.rerun or any(not chosen.keys or key in chosen.keys for key in waiting)):
            hint = f"job-report --job {job_id}; --retry KEY gives a unit that is not in another attempt"
            raise Refused(f"job {job_id} has landed already", location=job.target, hint=hint)
    return execute(_with_command(plan, chosen), job, options, resumed=True)


def _plan(job: ActiveJob) -> JobPlan:
    if job.world.store.exists(names.job_part(job.id, "ingest")):
        raise Refused(f"job {job.id} is an ingestion", hint=f"ingest-run --resume {job.id} continues it")
    document = job.file()
    if document is None:
        hint = f"its units are opened, collected and applied one by one: job-report --job {job.id} shows them"
        raise CannotRun(f"job {job.id} was made without a job file: there is nothing to resume", hint=hint)
    return plan_of(document)


def _receipt(job: ActiveJob, key: str) -> Receipt | None:
    return job.read(kinds.RECEIPT, "receipt", job.unit(key))


def _with_failed(job: ActiveJob, chosen: UnitSelection) -> UnitSelection:
    """With `failed`, every unit that is not in is one to retry. Raises Refused where all are in."""
    if not chosen.failed:
        return chosen
    receipts = {unit.key: _receipt(job, unit.key) for unit in job.units if unit.key != PROJECT}
    left = {key for key, receipt in receipts.items() if receipt is None or receipt["outcome"] not in DONE}
    if not left:
        raise Refused(f"every unit of job {job.id} is in: there is nothing to retry", hint=f"job-report {job.id}")
    return chosen._replace(retry=chosen.retry | left)


def _checked(job: ActiveJob, chosen: UnitSelection) -> UnitSelection:
    """The selection itself. Raises CannotRun for an unknown unit, Refused for another attempt of one that is in."""
    for key in sorted(chosen.keys):
        job.unit(key)
    for key in sorted(chosen.retry):
        receipt = _receipt(job, key)
        if receipt is not None and receipt["outcome"] in DONE:
            hint = "give the next change a job of its own"
            raise Refused(f"unit {key} is {receipt['outcome']}: there is nothing to retry", hint=hint)
    return chosen


def _with_command(plan: JobPlan, chosen: UnitSelection) -> JobPlan:
    """The plan in which the units that are retried run the command that was given for it."""
    if not chosen.command:
        return plan
    run = list(chosen.command)
    units = [
        unit._replace(step=JobCommand(chosen.command, unit.step.time_limit), document={**unit.document, "run": run})
        if unit.key in chosen.retry
        else unit
        for unit in plan.units
    ]
    return plan._replace(units=tuple(units))


def changed_file(world: World, job_id: str) -> list[str]:
    """What to say where the file that a job began with is another one by now: the recorded one is followed."""
    job = ActiveJob.load(world, job_id)
    source = job.document.get("jobFileSource")
    if source is None:
        return []
    path = Path(os.fsdecode(path_bytes(source)))
    try:
        same = digest(files.read(path, SIZE_LIMIT)) == source["digest"]
    except (OSError, BrokenContract):
        return []  # it is gone, or no job file any more: the recorded one is what counts
    shown = printable(str(path))
    again = f"job-run --resume {job_id} {shlex.quote(shown)} takes it"
    return [] if same else [f"{shown} was edited since the job began, and is not looked at: {again}"]


def take_edited(world: World, job_id: str, edited: JobFile, name: str) -> tuple[list[str], frozenset[str]]:
    """Record an edited job file as the job's own, the earlier one beside it. Returns what of it is ignored, and why,
    and the units that were not accepted and have another order now.

    Raises Refused and CannotRun as `resume` does.
    """
    job = ActiveJob.load(world, job_id)
    _plan(job)
    old = job.file()
    assert old is not None, "there is a plan"
    whole, ignored, again = _merged(job, old, edited)
    plan_of(whole)  # names and circles are refused before anything is written
    if whole != old:
        for unit in whole["units"]:
            job.add_unit(unit["key"], unit.get("after", ()))
        _put_by(job, old)
        world.writable_store.write(kinds.JOB_FILE, job.part("job-file"), whole)
        source = source_of(world, name)
        job.change(lambda document: document.update({"jobFileDigest": digest_of(whole)}))
        if source is not None:
            job.change(lambda document: document.update({"jobFileSource": source}))
    return ignored, again


def _put_by(job: ActiveJob, old: JobFile) -> None:
    """Keep the job file that was followed so far, under a number of its own."""
    number = 1
    while job.world.store.exists(place := job.part(f"job-file-{number}")):
        if job.world.store.read_optional(kinds.JOB_FILE, place) == old:
            return
        number += 1
    job.world.writable_store.write(kinds.JOB_FILE, place, old)


def _merged(job: ActiveJob, old: JobFile, edited: JobFile) -> tuple[JobFile, list[str], frozenset[str]]:
    """The edited file with what cannot change any more as it was, what is ignored, and units with another order."""
    whole, ignored = edited.copy(), list[str]()
    keys = cast("MutableMapping[str, object]", whole)
    for key in FIXED:
        if edited.get(key) != old.get(key) and not (key == "job" and key not in edited):
            ignored.append(f"`{key}` is as it was when the job began")
        if key in old:
            keys[key] = old[key]
        else:
            keys.pop(key, None)
    if "plan" in edited:
        whole.pop("plan")
        ignored.append("`plan` does not run again: the units that it printed stay")
    before = {unit["key"]: unit for unit in old.get("units", ())}
    units, again = list["JobUnit"](), set[str]()
    for unit in edited.get("units", ()):
        known = before.pop(unit["key"], None)
        receipt = _receipt(job, unit["key"]) if known is not None else None
        if known is not None and known != unit and receipt is not None and receipt["outcome"] in DONE:
            ignored.append(f"unit {unit['key']} is {receipt['outcome']} already: it stays as it was")
            units.append(known)
            continue
        again |= {unit["key"]} if receipt is not None and known != unit else set()
        units.append(unit)
    planned = "plan" in edited
    ignored += [f"unit {key} is not in it any more: it stays in the job" for key in before if not planned]
    whole["units"] = [*units, *before.values()]
    return whole, ignored, frozenset(again)
