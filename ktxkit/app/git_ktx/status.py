"""Show what is going on: open jobs, worktrees, blocked branches, suspects, each with the next safe step.

reads    .ktx/ (jobs, leases, locks, receipts, traces)
writes   nothing
exits    0 nothing waits for a person, 1 something does, 2 not a repository
example  git ktx status
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ktxkit.app import cleaning, cli
from ktxkit.app.cli import Result
from ktxkit.base import kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.text import plural, printable
from ktxkit.store import active, jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules.worktrees import is_evidence
from ktxkit.store.world import World
from ktxkit.work import next_step as steps
from ktxkit.work import report
from ktxkit.work.rules.report import LANDED

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        BranchLock,
        DamagedDocument,
        Overview,
        OverviewBranch,
        OverviewJob,
        OverviewSuspect,
        OverviewWorktrees,
        OverviewWorktreesRow,
        ReportFailedWorkUnit,
        WorktreeRow,
    )
    from ktxkit.store.world import World


JOBS_SHOWN = 20
KEPT_SHOWN = 5  # worktrees


def parser() -> cli.Parser:
    return cli.Parser("git ktx status", __doc__)


def run(args: argparse.Namespace, world: World) -> cli.Result:

    made = overview(world)
    outcome = "findings" if needs_a_person(made) else "done"
    return cli.Result(outcome, made, CONTRACT, lines=_lines(made))


def _jobs(jobs: Sequence[OverviewJob]) -> Iterator[str]:

    for job in jobs[:JOBS_SHOWN]:
        state = "running" if job["running"] else job["state"]
        where = f" in {job['endedIn']}" if "endedIn" in job else ""
        yield f"  {job['jobId']}  {state}{where}, {went_in(job)} of {plural(job['units'], 'unit')} in"
        if "next" in job:
            yield f"    next: {printable(job['next'])}"


def _lines(overview: Overview) -> list[str]:

    if not overview["present"]:
        return ["Nothing has run here yet. `git ktx run CMD ...` starts a job; `git ktx init` writes a configuration."]
    going = [job for job in overview["jobs"] if job["state"] == "open" or job["running"]]
    ended = [job for job in overview["jobs"] if job not in going and "next" in job]
    lines = [plural(len(going), "job") + " not finished:", *_jobs(going)] if going else ["No job is open."]
    if ended:
        lines += [f"{plural(len(ended), 'job')} ended without landing:", *_jobs(ended)]
    trees = overview["worktrees"]
    counts = ((trees["open"], "open"), (trees["kept"], "kept as evidence"), (trees["dead"], "left over"))
    lines += [f"Worktrees: {', '.join(f'{number} {word}' for number, word in counts if number) or 'none'}."]
    kept = [row for row in trees["rows"] if row.get("why", "").startswith("closed as ")]
    lines += [f"  kept: {printable(row['path'])} ({printable(row['why'])})" for row in kept[:KEPT_SHOWN]]
    lines += [f"  kept: {len(kept) - KEPT_SHOWN} more: git ktx list"] if len(kept) > KEPT_SHOWN else []
    lines += [f"  next: {trees['next']}"] if "next" in trees else []
    for row in overview["branches"]:
        why = f": {printable(row['why'])}" if "why" in row else ""
        lines += [f"Branch {printable(row['ref'])} is {row['standing']} ({row['phase']}){why}"]
        lines += [f"  next: {row['next']}", f"  see:  {printable(row['where'])}"]
    for unit in overview["suspects"]:
        lines += [f"Suspect: {unit['jobId']} {printable(unit['key'])}, {unit['outcome']}: {unit['reason']}"]
        lines += [f"  next: {printable(unit['next'])}"]
    lines += [f"Damaged: {printable(row['where'])}: {printable(row['message'])}" for row in overview.get("damaged", ())]
    last = last_ended(overview)
    if last:
        word = last.get("outcome", last["state"])
        lines.append(f"Last: {last['jobId']}, {word}, {went_in(last)} of {plural(last['units'], 'unit')} in.")
    return lines


CONTRACT = "overview"
OF_ROW: Final = ("pathB64", "jobId", "unitKey", "state", "outcome")
JOBS_COUNTED = 200  # jobs whose units are counted, newest first
LOCK_DOCS = ".json"
DAMAGED = "look at its damaged documents, named below: what they said is not guessed"


def overview(world: World) -> Overview:
    """Everything at once. Damaged documents are rows of `damaged`, never an end. Writes nothing."""
    active.require_ours(world)
    damaged: list[DamagedDocument] = []
    found = list(_overview_jobs(world, damaged))
    made: Overview = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "overview",
        "at": timestamp(world.clock.now()),
        "store": str(world.store.root),
        "present": world.store.root.is_dir(),
        "jobs": [job for job, _ in found],
        "worktrees": _worktrees(world, damaged),
        "branches": list(_branches(world, damaged)),
        "suspects": [suspect for _, suspects in found for suspect in suspects],
    }
    once = [one for number, one in enumerate(damaged) if one not in damaged[:number]]
    made |= {"damaged": once} if once else {}
    return made


def _overview_jobs(world: World, damaged: list[DamagedDocument]) -> Iterator[tuple[OverviewJob, list[OverviewSuspect]]]:
    """Every job, newest first."""
    read = sorted(jobs.readable(world, damaged), key=lambda job: (job.document["createdAt"], job.id), reverse=True)
    for job in read[:JOBS_COUNTED]:
        yield _job(job, damaged)


def _job(job: ActiveJob, damaged: list[DamagedDocument]) -> tuple[OverviewJob, list[OverviewSuspect]]:
    made = report.build(job)
    told: list[DamagedDocument] = [{"where": p["where"], "message": p["message"]} for p in made.get("problems", ())]
    told += job.damaged_documents()
    damaged += told
    running = steps.is_running(job)
    words = made["isolatedDiff"]["outcomes"]
    suspect = [unit for unit in made["failedWorkUnits"] if unit["outcome"] in ("suspect_revert", "blocked")]
    next_step = DAMAGED if told and not running else steps.of_job(job, made, running=running)
    row: OverviewJob = {
        "jobId": job.id,
        "state": job.state,
        "running": running,
        "createdAt": job.document["createdAt"],
        "target": job.target,
        "units": len(made["workUnits"]),
        "outcomes": words,
    }
    row |= {"outcome": made["outcome"]} if "outcome" in made else {}
    row |= {"endedIn": job.document["failure"]["phase"]} if "failure" in job.document else {}
    row |= {"next": next_step} if next_step else {}
    return row, [{"jobId": job.id, **unit, "next": _next_of_suspect(job, unit)} for unit in suspect]


def _next_of_suspect(job: ActiveJob, unit: ReportFailedWorkUnit) -> str:
    if unit["outcome"] == "blocked":
        return f"job-report {job.id}: look at what it names, then run the step again"
    return f"look whether {unit['key']} was synced from an old tree; run it again from {job.target}"


def _worktrees(world: World, damaged: list[DamagedDocument]) -> OverviewWorktrees:
    listed = cleaning.listing(world) if world.store.root.is_dir() else None
    damaged += listed.get("damaged", ()) if listed is not None else ()
    rows = listed["worktrees"] if listed is not None else []
    ours = [row for row in rows if row["kind"] not in ("main", "linked")]
    evidence = [row for row in ours if is_evidence(row)]  # clearing it is somebody's decision, not a repair
    dead = [row for row in ours if "dead" in row and row not in evidence]
    opened = [row for row in ours if row.get("state") in ("open", "opening") and "dead" not in row]
    rest = [row for row in ours if row.get("state") == "closed" and row["present"] and "dead" not in row]
    kept = [*evidence, *(row for row in rest if row not in evidence)]
    made: OverviewWorktrees = {
        "open": len(opened),
        "kept": len(kept),
        "dead": len(dead),
        "rows": [_worktree(row) for row in [*dead, *opened, *kept][:1000]],
    }
    made |= {"next": "git ktx prune"} if dead else {}
    return made


def _worktree(row: WorktreeRow) -> OverviewWorktreesRow:
    shown: OverviewWorktreesRow = {"path": row["path"], "busy": bool(row.get("busy"))}
    for key in OF_ROW:
        if key in row:
            shown[key] = row[key]
    left = f", with {row['leftOut']} not collected" if "leftOut" in row else ""
    why = [f"closed as {row.get('outcome', 'crash')}{left}"] if is_evidence(row) else []
    why += [row["dead"]] if "dead" in row else []
    shown |= {"why": "; ".join(why)} if why else {}
    return shown


def _branches(world: World, damaged: list[DamagedDocument]) -> Iterator[OverviewBranch]:
    """Branches that somebody holds, that a dead process left in the middle of a step, or that a person must look at."""
    for name in world.store.children("locks"):
        if not name.startswith("branch-") or not name.endswith(LOCK_DOCS) or name.count("-") > 1:
            continue
        try:
            document = world.store.read_optional(kinds.LOCK, f"locks/{name}")
        except BrokenContract as error:
            damaged.append({"where": error.where, "message": error.message})
            continue
        if document is not None:
            row = _branch(world, name, document)
            if row is not None:
                yield row


def _branch(world: World, name: str, document: BranchLock) -> OverviewBranch | None:
    row: OverviewBranch = {
        "ref": document["ref"],
        "phase": document["phase"],
        "since": document["since"],
        "where": str(world.store.path(f"locks/{name}")),
        "standing": "held",
        "next": "wait for it to end",
    }
    if steps.is_held(world, f"locks/{name.removesuffix(LOCK_DOCS)}.lock"):
        row["pid"] = document["owner"]["pid"]
    elif document["phase"] == "blocked":
        row["standing"] = "blocked"
        row["why"] = document.get("blocked", "the state could not be proven")
        row["next"] = "look at what is named; when it is as it should be, remove that document and run the step again"
    elif "pending" in document or document["phase"] != "idle":
        owner = owners.Owner.of(document["owner"])
        row["standing"] = "interrupted"
        row["why"] = "a process died in it" if owners.is_dead(owner, world.store.root) else "it was cut off"
        row["next"] = "the next patch-apply, job-land or job-run --resume on it finishes or forgets it, exactly once"
    else:
        return None
    return row


def job_list(world: World) -> Result:
    """The answer of `job-report --list`: a line for each job, newest first."""
    damaged: list[DamagedDocument] = []
    rows = [row for row, _ in _overview_jobs(world, damaged)]
    lines = [f"{row['createdAt'][:19]}Z  {_line(row)}" for row in rows] or ["no job has run here yet"]
    lines += [f"Damaged: {printable(one['where'])}: {printable(one['message'])}" for one in damaged]
    return Result("broken_contract" if damaged else "done", lines=lines, data={"jobs": rows})


def _line(row: OverviewJob) -> str:
    """Its id, how it stands, how many of its units are in, and what is next."""
    word = "running" if row["running"] else row.get("outcome", row["state"])
    next_step = f"; next: {printable(row['next'])}" if "next" in row else ""
    return f"{row['jobId']}  {word}, {went_in(row)} of {plural(row['units'], 'unit')} in{next_step}"


def needs_a_person(overview: Overview) -> bool:
    """Whether anything waits for a decision."""
    stuck = any(row["standing"] == "blocked" for row in overview["branches"])
    return bool(stuck or overview["suspects"] or overview.get("damaged"))


def last_ended(overview: Overview) -> OverviewJob | None:
    """The newest job that has ended."""
    return next((job for job in overview["jobs"] if job["state"] != "open"), None)


def went_in(job: OverviewJob) -> int:
    """How many of its units are in."""
    return sum(count for word, count in job["outcomes"].items() if word in LANDED)
