"""What is going on in a repository's store, and the next safe step for each thing that waits for a person.

Every worktree as a person asks of it: how far from its target, what is in it, who works there, what next.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.app import cleaning
from ktxkit.app.cli import Result
from ktxkit.base import kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract
from ktxkit.base.identity import processes_inside
from ktxkit.base.owners import Owner, OwnerState
from ktxkit.base.process import words_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, plural, printable
from ktxkit.git import child, snapshot
from ktxkit.git.git import Git
from ktxkit.store import active, config, jobs, leases
from ktxkit.store.active import ActiveJob
from ktxkit.store.rules.worktrees import GONE, is_evidence
from ktxkit.store.world import World
from ktxkit.work import next_step as steps
from ktxkit.work import report
from ktxkit.work.attic import landing_in, own_work
from ktxkit.work.rules.report import LANDED, milliseconds

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        BranchLock,
        DamagedDocument,
        Lease,
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


CONTRACT = "overview"
OF_ROW: Final = ("pathB64", "jobId", "unitKey", "state", "outcome")
JOBS_COUNTED = 200  # jobs whose units are counted, newest first
LOCK_DOCS = ".json"
DAMAGED = "look at its damaged documents, named below: what they said is not guessed"


def overview(world: World) -> Overview:
    """Everything at once. Damaged documents are rows of `damaged`, never an end. Writes nothing."""
    active.require_ours(world)
    damaged: list[DamagedDocument] = []
    found = list(_jobs(world, damaged))
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


def _jobs(world: World, damaged: list[DamagedDocument]) -> Iterator[tuple[OverviewJob, list[OverviewSuspect]]]:
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
    again = "" if next_step or running else steps.retry(job, made)
    row |= {"retry": again} if again else {}
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
            damaged.append({"where": error.location, "message": error.message})
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
    rows = [row for row, _ in _jobs(world, damaged)]
    lines = [f"{row['createdAt'][:19]}Z  {_line(row)}" for row in rows] or ["no job has run here yet"]
    lines += [f"Damaged: {printable(one['where'])}: {printable(one['message'])}" for one in damaged]
    return Result("broken_contract" if damaged else "done", lines=lines, data={"jobs": rows})


def _line(row: OverviewJob) -> str:
    """Its id, how it stands, how many of its units are in, and what is next."""
    word = "running" if row["running"] else row.get("outcome", row["state"])
    step = row.get("next") or row.get("retry")
    next_step = f"; next: {printable(step)}" if step else ""
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


SHORT = re.compile(rb"(\d+) (insertion|deletion)")
UNREADABLE = "git cannot read it"
COLLECTED = ("collected", "noop")  # outcomes of a patch that can be applied
AT_WORK_SHOWN = 3  # processes of one worktree
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))  # seconds


class HeldLease(NamedTuple):
    """Where the documents of a worktree are, and its lease."""

    location: leases.LeaseLocation
    lease: Lease


class ListedWorktree(NamedTuple):
    """One worktree. `merges`: whether what it is ahead by has a merge; `changed`: paths
    that are not committed; `added`, `removed`: lines of tracked ones among them.

    `way`: what must be done before it can land. `age`: seconds since it was opened, None where no lease
    says; `workers`: who is at work in it.
    """

    name: str
    path: str
    what: str
    branch: str = ""
    target: str = ""
    ahead: int = 0
    behind: int = 0
    merges: bool = False
    way: str = ""
    changed: int = 0
    added: int = 0
    removed: int = 0
    age: float | None = None
    workers: tuple[str, ...] = ()
    state: str = ""
    next: str = ""

    @property
    def line(self) -> tuple[str, ...]:
        """Its columns: name, what it is, how far from the target, what is in it, age, who works there."""
        far = [f"{self.ahead} ahead" if self.ahead else "", f"{self.behind} behind" if self.behind else ""]
        lines = f" +{self.added} -{self.removed}" if self.added or self.removed else ""
        dirty = f"{plural(self.changed, 'path')} not committed{lines}" if self.changed else "clean"
        where = ", ".join(filter(None, far)) or ("even" if self.target else "")
        return (
            printable(self.name),
            self.what,
            f"{where} {'with' if where == 'even' else 'of'} {self.target}" if where else "",
            self.state or dirty,
            age_text(self.age),
            printable(", ".join(self.workers)),
        )


def age_text(seconds: float | None) -> str:
    """`3 d`, `2 h`, `5 min`, `now`; empty where it is not known."""
    if seconds is None:
        return ""
    return next((f"{seconds // size:.0f} {word}" for size, word in UNITS if seconds >= size), "now")


def listed(world: World) -> tuple[list[ListedWorktree], list[DamagedDocument]]:
    """Every worktree of the repository, the main one first; documents that cannot be read. Writes nothing."""
    known = cleaning.listing(world)
    held: dict[str, HeldLease] = {}
    for place in leases.all_locations(world):
        lease = _lease(place)
        if lease is not None:
            held[lease["path"]] = HeldLease(place, lease)
    main = (world.repository.branch(world.git) or "").removeprefix("refs/heads/") if world.repository.top else ""
    first = next((row.get("branch", "") for row in known["worktrees"] if row["kind"] == "main"), "")
    default = config.load(world).get("job", {}).get("target", "") or first.removeprefix("refs/heads/") or main
    return [_one(world, row, held.get(row["path"]), default) for row in known["worktrees"]], list(
        known.get("damaged", ())
    )


def _lease(place: leases.LeaseLocation) -> Lease | None:
    try:
        return place.lease()
    except BrokenContract:
        return None  # it is among the damaged ones


def _one(world: World, row: WorktreeRow, held: HeldLease | None, default: str) -> ListedWorktree:
    path = Path(os.fsdecode(path_bytes(row)))
    branch = row.get("branch", "").removeprefix("refs/heads/")
    lease = held.lease if held else None
    target = (lease.get("target", "") if lease else "").removeprefix("refs/heads/") or default
    made = ListedWorktree(_name(row, branch, path), str(path), _what(row, branch), branch)
    if lease is not None:
        now = world.clock.now().timestamp() * 1000
        made = made._replace(age=max(0.0, (now - milliseconds(lease["openedAt"])) / 1000))
    if "dead" in row or not row["present"]:
        gone = "" if row["present"] or row.get("dead") == GONE else f", {GONE}"
        if is_evidence(row):
            return made._replace(state=f"kept as evidence: {row['dead']}", next=_next_of_evidence(world, row))
        return made._replace(state=f"left over: {row.get('dead', 'closed')}{gone}", next="git ktx clean")
    made = _measured(world.git.at(path), made, target if row["kind"] != "main" else "", held)
    if row["kind"] == "main":
        return made  # who stands in the others stands in it, too
    made = made._replace(workers=tuple(_workers(path, lease, world.store.root)))
    return _with_next(world, row, made, held)


def _name(row: WorktreeRow, branch: str, path: Path) -> str:
    if "unitKey" in row:
        return f"{row['jobId']}/{row['unitKey']}"
    return branch or (f"{path.parent.name}/{path.name}" if _is_checkout_of_a_job(path) else path.name)


def _is_checkout_of_a_job(path: Path) -> bool:
    """Whether candidates of a job were verified in it."""
    return path.name == "integration" and path.parent.parent.name == "worktrees"


def _what(row: WorktreeRow, branch: str) -> str:
    if row["kind"] == "main":
        return "main checkout, detached" if "head" in row and not branch else "main checkout"
    if "unitKey" in row:
        kept = f", kept as {row['outcome']}" if row.get("state") == "closed" and "outcome" in row else ""
        return f"unit{kept}"
    if not branch and _is_checkout_of_a_job(Path(row["path"])):
        return "verified in"
    return "branch" if branch else "detached"


def _measured(git: Git, made: ListedWorktree, target: str, held: HeldLease | None) -> ListedWorktree:
    """What git says of it; as it is where git cannot read it."""
    status = git.run("status", "--porcelain=v1", "-z", "--no-renames", ok=(0, 128), twice=(128,))
    if status.status != 0:
        return made._replace(state=UNREADABLE)
    stat = git.run("diff", "--shortstat", "--no-ext-diff", "HEAD", "--", ok=(0, 128), twice=(128,)).out
    lines = {word: int(count) for count, word in SHORT.findall(stat)}
    unfinished = child.operations(git)
    made = made._replace(state=f"a {unfinished[0]} in progress" if unfinished else "")
    made = made._replace(changed=len(status.nul), added=lines.get(b"insertion", 0), removed=lines.get(b"deletion", 0))
    if not target or target == made.branch or git.resolve(f"refs/heads/{target}") is None:
        return made
    counts = git.run("rev-list", "--left-right", "--count", f"refs/heads/{target}...HEAD").text.split()
    made = made._replace(target=target, behind=int(counts[0]), ahead=int(counts[1]))
    return _of_its_own(git, made, held) if made.ahead else made


def _of_its_own(git: Git, made: ListedWorktree, held: HeldLease | None) -> ListedWorktree:
    """What it is ahead by without what `git ktx land` leaves out; what must be done first where that would refuse."""
    full, head = f"refs/heads/{made.target}", git.resolve("HEAD")
    since = ["HEAD", f"^{full}"]
    if held is not None and head is not None:
        own = own_work(held.location, held.lease, git, full, head)
        if own.known:
            since += [f"^{own.known}"]
            made = made._replace(ahead=int(git.text("rev-list", "--count", *since, "--")))
        made = made._replace(way=own.way if own.refused else "")
    merges = bool(made.ahead and git.run("rev-list", "--merges", "--max-count=1", *since, "--").text)
    return made._replace(merges=merges)


def _workers(path: Path, lease: Lease | None, root: Path) -> Iterator[str]:
    """The processes that stand in it, and the job that has it."""
    inside = [pid for pid in processes_inside(path) if pid != os.getpid()]
    for pid in inside[:AT_WORK_SHOWN]:
        words = words_of(pid)
        yield f"{os.path.basename(words[0]) if words else 'a process'} {pid}"  # noqa: PTH119 - no path of ours
    if len(inside) > AT_WORK_SHOWN:
        yield f"and {len(inside) - AT_WORK_SHOWN} more"
    owner = lease.get("owner") if lease is not None and lease["state"] == "open" else None
    if owner is not None and owner["pid"] not in inside and owners.state_of(Owner.of(owner), root) is OwnerState.ALIVE:
        yield f"job of process {owner['pid']}"


def _with_next(world: World, row: WorktreeRow, made: ListedWorktree, held: HeldLease | None) -> ListedWorktree:
    """What to do with it: a command that works as it stands; none for what is at work, or somebody else's."""
    if made.workers or held is None or row.get("state") != "open":
        return made
    if made.state:
        unfinished = "git ktx doctor" if made.state == UNREADABLE else shlex.join(["git", "-C", made.path, "status"])
        return made._replace(next=unfinished)
    if "unitKey" in row:
        return made._replace(next=_next_of_unit(world, row))
    name = held.location.name if held.lease.get("branch") != f"refs/heads/{made.branch}" else made.name
    if _has_landed(world.at(Path(made.path)), made, held):
        return made._replace(state="landed", next=shlex.join(["worktree-close", name]))
    if made.way:
        return made._replace(next=made.way)
    if not made.ahead and not made.changed:
        return made._replace(next=shlex.join(["worktree-close", name]))
    squash = ["--squash"] if made.changed or made.merges else []
    return made._replace(next=shlex.join(["git", "ktx", "land", name, *squash]) if made.target else "")


def _has_landed(there: World, made: ListedWorktree, held: HeldLease) -> bool:
    """Whether all that is in it has landed: as `git ktx land` took it, or as a commit of the target with its tree."""
    if not (made.ahead or made.changed):
        return False  # it is even, or a merge of the target
    landing = landing_in(held.location, held.lease)
    if landing is not None and snapshot.take(there.git, there.repository).tree == landing["tree"]:
        return True
    head = there.git.resolve("HEAD")
    return (
        not made.changed
        and head is not None
        and report.is_in(there.git, f"refs/heads/{made.target}", head, held.lease["base"])
    )


def _next_of_evidence(world: World, row: WorktreeRow) -> str:
    """The report says why it is kept; where a later attempt of the unit is in, nobody needs it any more."""
    if "jobId" not in row:
        return ""
    job = ActiveJob.find(world, row["jobId"])
    try:
        receipts = [job.read(kinds.RECEIPT, "receipt", u) for u in job.units if u.key == row["unitKey"]] if job else []
    except BrokenContract:
        receipts = []  # the report names what is damaged
    done = any(receipt is not None and receipt["outcome"] in LANDED for receipt in receipts)
    return "git ktx clean" if done else shlex.join(["job-report", row["jobId"]])


def _next_of_unit(world: World, row: WorktreeRow) -> str:
    """Of a unit's worktree: its job goes on by itself, or it is collected, applied and closed by hand."""
    job = ActiveJob.find(world, row["jobId"])
    unit = next((unit for unit in job.units if unit.key == row["unitKey"]), None) if job is not None else None
    if job is None or unit is None:
        return ""
    try:
        if resume := job.next_command():
            return resume
        receipt, patch = job.read(kinds.RECEIPT, "receipt", unit), job.read(kinds.PATCH, "patch", unit)
    except BrokenContract:
        return shlex.join(["job-report", job.id])  # it names what is damaged
    command = "patch-apply" if patch is not None and patch["outcome"] in COLLECTED else "patch-collect"
    if receipt is not None:
        command = "worktree-close" if receipt["outcome"] in LANDED else "patch-collect"
    return shlex.join([command, "--job", job.id, "--unit", unit.key])


def table(rows: Sequence[ListedWorktree]) -> list[str]:
    """A line for each, its columns aligned; below it where it is and what to do next."""
    columns = [row.line for row in rows]
    wide = [max(len(line[at]) for line in columns) for at in range(len(columns[0]))] if columns else []
    said = []
    for row, line in zip(rows, columns, strict=True):
        said.append("  ".join(f"{text:<{size}}" for text, size in zip(line, wide, strict=True)).rstrip())
        said.append(f"    {printable(row.path)}")
        said += [f"    next: {printable(row.next)}"] if row.next else []
    return said
