"""The end of a job: final gates, landing, report. The target moves here, once, or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, Conflict
from ktxkit.base.rules.text import plural
from ktxkit.gates import gates
from ktxkit.store import resuming
from ktxkit.store.rules import names
from ktxkit.work import notify, report
from ktxkit.work.job.state import JobRun
from ktxkit.work.land import land
from ktxkit.work.rules.schedule import LANDED, job_outcome

SUBJECT_KEYS = 50  # unit keys in the landing commit's message


def final_gates(run: JobRun) -> None:
    """Every gate over the integrated tree, judged against the tree the target had before the job (so that what a
    projection broke is charged). Raises Conflict (`semantic_conflict`) where findings of level error are new.
    """
    git = run.git
    tree = git.text("rev-parse", "--verify", f"{run.head()}^{{tree}}")
    start = git.text("rev-parse", "--verify", f"{run.job['targetAtStart']}^{{tree}}")
    with run.tracer.timed("gates", "final_artifact_gates", {"tree": tree, "baseTree": start}) as facts:
        verdict = gates.check_tree(run.world, tree, base_tree=start, everything=True, options=run.plan.gates)
        run.world.writable_store.write("verdict", f"{names.job_dir(run.job_id)}/verdict.json", verdict)
        new = [f for f in verdict["findings"] if f["level"] == "error" and not f.get("inherited")]
        facts |= {"looked": verdict["looked"], "errors": len(new), "inherited": len(verdict["findings"]) - len(new)}
        if new:
            where = f" in {new[0]['path']}" if new[0]["path"] else ""
            first = f"{new[0]['rule']}{where}: {new[0]['message']}"
            raise Conflict(
                f"the final gates found {plural(len(new), 'new error')}: {first}",
                outcome="semantic_conflict",
                hint=f"the findings are in {run.world.store.path(names.job_dir(run.job_id))}/verdict.json",
            )


def message_of(run: JobRun, outcomes: Mapping[str, str]) -> str:
    """The landing commit's message: the job file's, or one that names the units that are in it."""
    if run.plan.message:
        return run.plan.message
    landed = [key for key, word in outcomes.items() if word == "accepted"]
    listed = "\n".join(f"- {key}" for key in landed[:SUBJECT_KEYS])
    more = f"\n- and {len(landed) - SUBJECT_KEYS} more" if len(landed) > SUBJECT_KEYS else ""
    return f"Job {run.job_id}: {plural(len(landed), 'unit')} of {len(outcomes)}\n\n{listed}{more}\n"


def land_job(run: JobRun, outcomes: Mapping[str, str], *, rebase: bool = False) -> str:
    """Squash what was accepted onto the target. Returns the job's outcome word."""
    changed = not run.git.ok("diff", "--quiet", run.job["targetAtStart"], run.head())
    accepted = [word for word in outcomes.values() if word in LANDED and word != "noop"]
    landed = bool(changed and (accepted or "projection" in run.job))
    if landed:
        land(run.world, run.job, message=message_of(run, outcomes), rebase=rebase)
        run.update()
    return job_outcome(outcomes.values(), changed=changed, landed=landed)


def unreported(run: JobRun, error: OSError, ended: str = "") -> CannotRun:
    """The end of a job could not be written. Says what ended it, and what has landed all the same."""
    landed = run.job.get("landed", {}).get("commit")
    resume = resuming.how(run.world, run.job_id)
    so_far = ended or (f"it has landed as {landed} on {run.job['target']}" if landed else "nothing was to land")
    return CannotRun(
        f"the end of job {run.job_id} could not be recorded ({error.strerror or error}): {so_far}",
        where=os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "",
        hint=f"put that right, then {resume}",
        data={"landed": {"commit": landed}} if landed else {},
    )


def close(run: JobRun, outcome: str, failure: Document | None = None) -> Document:
    """Write the job's end and its report, and say so in the trace. Returns the report."""
    state = "failed" if failure else "landed" if run.job["state"] == "landed" else "closed"
    if failure and failure["outcome"] == "interrupted":
        state = "aborted"
    run.update(outcome=outcome, state=state, finishedAt=timestamp(run.world.clock.now()), failure=failure)
    run.hooks.closing(run, outcome, failure)
    made = report.build(run.world, run.job)
    run.world.writable_store.write("report", names.report_doc(run.job_id), made)
    facts = {"outcome": outcome, "state": state, "report": str(run.world.store.path(names.report_doc(run.job_id)))}
    if failure:
        run.tracer.emit("run", "ingest_failed", {**facts, **failure}, level="error")
    else:
        run.tracer.emit("run", "ingest_finished", {**facts, "commitSha": run.job.get("landed", {}).get("commit")})
    for problem in notify.of_job(run.world, made):
        run.tracer.emit("run", "notify_failed", {"message": problem}, level="info")
    return made
