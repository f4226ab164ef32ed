"""What is next for a job as it stands: the one command that a person runs, and what a landing would do."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ktxkit.base import kinds
from ktxkit.base.errors import Refused
from ktxkit.base.lock import flocked
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import truncated
from ktxkit.git import child, merging
from ktxkit.git.neutral import open_neutral
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import report, target
from ktxkit.work.land import landed_before, target_moved
from ktxkit.work.recover import landed_up_to
from ktxkit.work.rules.report import LANDED, WAITING

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, Report

UNBLAMED = "nobody is blamed: the verification fails"  # how `integrate.control` begins
MISSING = re.compile(r"([^\s:]+): (?:command )?not found")  # what a shell says of a command that is not there
JUDGED = ("projection", "gates")  # phases in which the gates judge the whole
FAILURE_SHOWN = 400  # characters of a failure in the next step
PLAINLY = {"reconciles": True, "onFailure": "continue", "onConflict": "set-aside", "allowEmpty": False, "cache": True}
SAID = {"schemaVersion", "kind", "jobId", "overrideOf", "everything", "connector", "connectionId", "sourceKey"}
SAID |= {"place", "url", "worker"}  # of an ingestion: with these its command line says all that it was
RUNNING = "it is running: wait, or watch its trace"


def with_next(job: ActiveJob, document: Report, *, running: bool) -> Report:
    """The report of a job with its `next` where there is one."""
    step = "" if document.get("problems") else of_job(job, document, running=running) or retry(job, document)
    if not step and "commitSha" in document:
        step = f"git show --stat {document['commitSha'][:12]}"
    return {**document, "next": step} if step else document


def of_job(job: ActiveJob, document: Report, *, running: bool) -> str:
    """The next command; empty where nothing is left to do. Raises BrokenContract for a damaged document."""
    gone = report.no_longer_in(job)
    if gone:
        return f"{gone}: job-land --job {job.id} lands it again"
    if running:
        return RUNNING
    if job.state == "landed" and _waits_to_land(job):
        return f"job-land --job {job.id}"
    if job.state not in ("open", "failed", "aborted") or "supersededBy" in document:
        return ""
    waiting = [unit for unit in document["workUnits"] if unit["outcome"] in WAITING]
    ready = bool(document["workUnits"]) and not waiting
    return _unfinished(job, document, ready) or _by_hand(job, document, ready)


def _unfinished(job: ActiveJob, document: Report, ready: bool) -> str:
    """Of a job that did not come to its end."""
    failure = job.document.get("failure")
    if failure is not None and failure.get("outcome") == "semantic_conflict" and failure["phase"] in JUDGED:
        return f"mend what dangles and commit it, then start anew: {truncated(failure['message'], FAILURE_SHOWN)}"
    stopped = failure is not None and failure["phase"] == "units"  # what has not run comes before what lands
    moved = ready and not stopped and job.world.git.resolve(job.target) not in (None, job.document["targetAtStart"])
    resume = job.next_command()
    if failure is not None and (failure["phase"], failure.get("outcome")) == ("units", "failed") and _is_ingestion(job):
        return _ingest_again(job)
    if moved and resume.startswith("ingest"):  # it lands by its own command, which accounts for what it landed
        return f"{resume} --rebase, or start anew"
    if ready and failure is not None and failure.get("outcome") == "dirty_target":
        found = truncated(failure["message"].partition("in the way: ")[2], FAILURE_SHOWN)
        before = f"commit or move {found}" if found else "finish what is in progress in the checkout"
        return f"{before} first, then: job-land --rebase --job {job.id}"
    if moved:
        return f"job-land --rebase --job {job.id}"
    if resume and job.state != "open" and not document["workUnits"]:
        return f"{resume}, or start anew; git ktx clean --yes clears it: no unit of it ran"
    return resume


def _by_hand(job: ActiveJob, document: Report, ready: bool) -> str:
    """Of a job that was document unit by unit."""
    if job.state != "open":
        return f"job-report {job.id}"
    if ready:
        return f"job-land --job {job.id}"
    waiting = [unit for unit in document["workUnits"] if unit["outcome"] in WAITING]
    if not waiting:
        return ""
    command = {"collected": "patch-apply", "pending": "worktree-open"}.get(waiting[0]["outcome"], "patch-collect")
    return f"{command} --job {job.id} --unit {shlex.quote(waiting[0]['key'])}"


def retry(job: ActiveJob, document: Report) -> str:
    """Another attempt for what did not land, of a job that has a job file."""
    left = [unit for unit in document["workUnits"] if unit["outcome"] not in LANDED]
    whole = job.world.store.exists(names.job_part(job.id, "job-file"))
    if left and _is_ingestion(job):
        return _ingest_again(job)
    before, unblamed = "", [unit["reason"] for unit in left if unit["reason"].startswith(UNBLAMED)]
    if unblamed:
        before = f"once its verification passes on {job.target.removeprefix('refs/heads/')}: "
        missing = MISSING.search(unblamed[0])
        if missing:
            return f"start anew with another verification (command not found: {missing[1]})"
    return f"{before}job-run --resume {job.id} --failed" if left and whole else ""


def _is_ingestion(job: ActiveJob) -> bool:
    return job.world.store.exists(names.job_part(job.id, "ingest"))


def _ingest_again(job: ActiveJob) -> str:
    """The ingestion that takes up what this one left: it starts from the target as it is, and runs that alone."""
    said = job.world.store.read("ingest", names.job_part(job.id, "ingest"))
    if set(said) - SAID - set(PLAINLY) or any(said.get(key, usual) != usual for key, usual in PLAINLY.items()):
        return "the same ingest-run again: what did not land is taken up"
    source = [said["place"]] if "place" in said else ["--url", said["url"]]
    words = ["ingest-run", said["connector"], *source, "--connection", said["connectionId"]]
    words += ["--source", said["sourceKey"]] if said["sourceKey"] != said["connector"] else []
    return shlex.join([*words, *(["--", *said["worker"]] if said.get("worker") else [])])


def _waits_to_land(job: ActiveJob) -> bool:
    """Whether more was accepted since the job landed."""
    head = job.git.resolve(job.integration_ref)
    return head is not None and landed_up_to(job).commit != head


def is_running(job: ActiveJob) -> bool:
    """Whether a process runs the job now."""
    return is_held(job.world, f"locks/run-{job.id}.lock")


def is_held(world: World, lock: str) -> bool:
    """Whether somebody holds this lock now. Looking makes no lock file."""
    path = world.store.path(lock)
    if not path.exists():
        return False
    try:
        with flocked(path, clock=world.clock, wait=0, shared=True):
            return False
    except Refused:
        return True


class EndedJob(NamedTuple):
    """Why a job can be cleared, and the commit that its target was at when that was found; `gone`: what landed is on
    its branch no longer."""

    why: str
    target: str
    gone: bool = False


def ended_as(job: ActiveJob, damaged: list[DamagedDocument]) -> EndedJob | None:
    """Why a job can be cleared: every unit of it is in, or it ended before it had any. None where that is not so."""
    if job.state == "open":
        return None
    at = job.git.resolve(job.target) or ""
    made = report.build(job)
    damaged += [{"where": p["where"], "message": p["message"]} for p in made.get("problems", ())]
    if "problems" in made:
        return None
    if gone := report.no_longer_in(job):
        return EndedJob(gone, at, True)
    if made.get("outcome") == "done" and ("commitSha" in made or not _alone_has_it(job)):
        return EndedJob("every unit of the job is in", at)
    if job.state != "landed" and "failure" in job.document and not made["workUnits"]:
        return EndedJob(f"it ended in {job.document['failure']['phase']}: no unit of it ran", at)
    return None


def _alone_has_it(job: ActiveJob) -> bool:
    """Whether what a job that never landed accepted is on its own branch alone (applied after its end)."""
    git, start = job.git, job.document["targetAtStart"]
    head = git.resolve(job.integration_ref)
    if head is None or git.resolve(head, "tree") == git.resolve(start, "tree"):
        return False
    return not report.is_in(git, job.target, head, start)


class LandPreview(NamedTuple):
    """What a landing would be: keys of the units that it adds, paths, the target's commit now, and whether the accepted
    patches would be replayed on it."""

    units: list[str]
    paths: int
    before: str
    replays: bool


def preview(job: ActiveJob, *, rebase: bool) -> LandPreview:
    """What `land` would do; nothing is moved, merged or verified. Raises Refused where it would before that."""
    git, done = job.git, landed_up_to(job)
    head, before = git.resolve(job.integration_ref), git.resolve(job.target)
    if head is None or before is None:
        raise Refused(f"job {job.id} has nothing to land", location=job.target, hint=f"job-report {job.id}")
    if before != done.target and not rebase:
        raise target_moved(job, done, before)
    with open_neutral(job.world) as neutral:
        tree = neutral.need_tree(head)
        entries = merging.changes(neutral, neutral.need_tree(done.commit), tree)
    top = target.checked_out_at(job.world, job.target)
    if top and entries:
        target.require_free(job.world, child.honest_to_owner(git, top).at(top), entries, tree)
    receipts = {unit.key: job.read(kinds.RECEIPT, "receipt", unit) for unit in job.units}
    accepted = [key for key, receipt in receipts.items() if receipt is not None and receipt["outcome"] == "accepted"]
    earlier = landed_before(job)
    return LandPreview([key for key in accepted if key not in earlier], len(entries), before, before != done.target)
