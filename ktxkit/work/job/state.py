"""What a job may have around it: an ingestion plans it, tells its units more, and writes down what came of them.

Each method is a place where a plain job does nothing. A method that raises ends the job in the phase that `run.phase`
names.

What a running job knows: handed through its phases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base.errors import Blocked, BrokenContract
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git.git import Git
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World
from ktxkit.work.job.guard import Watch
from ktxkit.work.rules.job_file import JobPlan, UnitPlan

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFailure, Lease, Receipt


class Hooks:
    """A plain job's: nothing anywhere."""

    def prepare(self, run: JobRun) -> bool:
        """Before anything else; may set `run.plan`. False where there is nothing to do: the job ends as `noop`."""
        return True

    def base(self, run: JobRun, start: str) -> str | None:
        """The commit that the integration starts from, in place of the target's; None to leave that to the job."""
        return None

    def unit_base(self, run: JobRun) -> str | None:
        """The commit that units start from where they name no others; None for the job's base."""
        return None

    def environment(self, run: JobRun, plan: UnitPlan) -> Mapping[str, str]:
        """More variables for a unit's command. Called in the unit's thread, when its worktree is open."""
        return {}

    def replay(self, run: JobRun, plan: UnitPlan, worktree: Path) -> str:
        """Write an earlier result of the same work into the worktree; says where it is from, or nothing."""
        return ""

    def forget(self, run: JobRun, plan: UnitPlan) -> None:
        """What was replayed could not be integrated: it is not to be replayed again."""

    def judge(self, run: JobRun, plan: UnitPlan) -> str:
        """Why a unit whose command ended well has failed all the same; empty where it has not."""
        return ""

    def settled(self, run: JobRun, plan: UnitPlan, outcome: str, *, replayed: bool) -> None:
        """A unit has its outcome."""

    def units_done(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        """Every unit has its outcome; the gates come next."""

    def before_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        """The gates passed; nothing landed yet."""

    def after_landing(self, run: JobRun, outcomes: Mapping[str, str]) -> None:
        """The target has moved, or there was nothing to move it for."""

    def closing(self, run: JobRun, outcome: str, failure: JobFailure | None) -> None:
        """The job's document has its end; the report is made next."""


if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import Job, JobFailure, JobProjectionResult, JobState, UnitEntry

    class JobChanges(TypedDict, total=False):
        """What a run changes of its job's document; None removes a key."""

        base: str
        projection: str
        units: list[UnitEntry]
        unitBase: str
        jobFileDigest: str
        state: JobState
        startedAt: str
        finishedAt: str | None
        outcome: str
        failure: JobFailure | None
        warnings: list[str]
        projectionResult: JobProjectionResult
        pruned: Sequence[Mapping[str, Any]]


class UnitSelection(NamedTuple):
    """Which units a resumed job goes on with. Empty: all that are not in.

    `only`: no others are started. `retry`: they have another attempt, from the head of today, whatever became of the
    last one; `command`: what they run then, in place of the job file's; `with_work`: in a worktree that begins with
    what the last attempt's had. `edited`: units that have another attempt because their order is another one now.
    `failed`: every unit that is not in has another attempt.
    """

    only: frozenset[str] = frozenset()
    retry: frozenset[str] = frozenset()
    command: tuple[str, ...] = ()
    with_work: bool = False
    edited: frozenset[str] = frozenset()
    failed: bool = False

    @property
    def rerun(self) -> frozenset[str]:
        """The units that have another attempt."""
        return self.retry | self.edited

    @property
    def keys(self) -> frozenset[str]:
        """The units that may be started; empty for all."""
        return self.only | self.retry


EVERYTHING: Final = UnitSelection()
Notify = Callable[[str, dict[str, Any]], None]


def silent(_event: str, _facts: dict[str, Any]) -> None:
    """A listener that says nothing."""


class JobRun:
    """One execution of a job. Threads only read the job's document."""

    def __init__(
        self,
        job: ActiveJob,
        plan: JobPlan,
        limit: int,
        notify: Notify = silent,
        watch: Watch | None = None,
        hooks: Hooks | None = None,
        selection: UnitSelection | None = None,
    ) -> None:
        self.job = job
        self.plan = plan
        self.limit = limit
        self.notify = notify
        self.watch = watch
        self.stop = threading.Event()
        self.aborting = ""  # why no more units start: "", "failure", "conflict", "interrupted"
        self.stopped_by = ""  # the outcome that stopped the job
        self.phase = "recovery"  # what a failure is reported with
        self.hooks = Hooks() if hooks is None else hooks
        self.selection = selection or EVERYTHING
        self.work: dict[str, tuple[str, str]] = {}  # unit to base and tree that a retry begins with
        self.leases: dict[str, Lease] = {}  # of open units, as this process wrote them
        self.receipts: dict[str, Receipt] = {}  # what this process knows to be decided

    @property
    def world(self) -> World:
        return self.job.world

    @property
    def tracer(self) -> Tracer:
        return self.job.tracer

    @property
    def git(self) -> Git:
        """git beside the target: at the repository, never in a unit's worktree."""
        return self.job.git

    def unit(self, plan: UnitPlan) -> Unit:
        return self.job.unit(plan.key)

    def update(self, **facts: Unpack[JobChanges]) -> None:
        """Write facts into the job's document; the value None removes one."""

        def edit(job: Job) -> None:
            document = cast("dict[str, Any]", job)  # its keys are those of JobChanges
            for key, value in facts.items():
                if value is None:
                    document.pop(key, None)
                else:
                    document[key] = value

        self.job.change(edit)

    def tree_of(self, commit: str) -> str:
        """The tree of a commit of the job. Raises BrokenContract (`missing_base`) where it is not there any more."""
        found = self.git.resolve(commit, "tree")
        if found is None:
            hint = "a damaged repository (git fsck), or a history that was pruned"
            raise BrokenContract(f"commit {commit} is not in this repository", outcome="missing_base", hint=hint)
        return found

    def head(self) -> str:
        """The integration head. Raises Blocked where it is gone."""
        found = self.git.resolve(self.job.integration_ref)
        if found is None:
            hint = "it was deleted, or what it names is gone: git fsck tells, the reflog has where it was"
            raise Blocked(f"{self.job.integration_ref} names no commit any more", hint=hint)
        return found
