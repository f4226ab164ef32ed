"""Show what is going on: open jobs, worktrees, blocked branches, suspects, each with the next safe step.

reads    .ktx/ (jobs, leases, locks, receipts, traces)
writes   nothing
exits    0 nothing waits for a person, 1 something does, 2 not a repository
example  git ktx status
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.rules.text import plural, printable

if TYPE_CHECKING:
    from ktxkit.base.documents import Overview, OverviewJob
    from ktxkit.store.world import World

JOBS_SHOWN = 20
KEPT_SHOWN = 5  # worktrees


def parser() -> cli.Parser:
    return cli.Parser("git ktx status", __doc__)


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import overview

    made = overview.overview(world)
    outcome = "findings" if overview.needs_a_person(made) else "done"
    return cli.Result(outcome, made, overview.CONTRACT, lines=_lines(made))


def _jobs(jobs: Sequence[OverviewJob]) -> Iterator[str]:
    from ktxkit.app.overview import went_in

    for job in jobs[:JOBS_SHOWN]:
        state = "running" if job["running"] else job["state"]
        where = f" in {job['endedIn']}" if "endedIn" in job else ""
        yield f"  {job['jobId']}  {state}{where}, {went_in(job)} of {plural(job['units'], 'unit')} in"
        if "next" in job:
            yield f"    next: {printable(job['next'])}"


def _lines(overview: Overview) -> list[str]:
    from ktxkit.app.overview import last_ended, went_in

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
        lines += [f"  next: {printable(last['retry'])}"] if "retry" in last else []
    return lines
