"""What a running job knows: handed through its phases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.git.git import Git
from ktxkit.store import jobs
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World
from ktxkit.work.job.hooks import Hooks
from ktxkit.work.job.watch import Watch
from ktxkit.work.rules.job_file import JobPlan, UnitPlan

Notify = Callable[[str, dict[str, Any]], None]


def silent(_event: str, _facts: dict[str, Any]) -> None:
    """A listener that says nothing."""


@dataclass
class JobRun:
    """One execution of a job. `job` is its document as last written; threads only read it."""

    world: World
    plan: JobPlan
    job: Document
    tracer: Tracer
    limit: int
    notify: Notify = silent
    watch: Watch | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    aborting: str = ""  # why no more units start: "", "failure", "conflict", "interrupted"
    stopped_by: str = ""  # the outcome that stopped the job
    phase: str = "recovery"  # what a failure is reported with
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def job_id(self) -> str:
        return str(self.job["jobId"])

    @property
    def git(self) -> Git:
        """git beside the target: at the repository, never in a unit's worktree."""
        return self.world.git.at(self.world.repository.place)

    def unit(self, plan: UnitPlan) -> jobs.Unit:
        return jobs.unit_of(self.job, plan.key)

    def update(self, **facts: Any) -> None:
        """Write facts into the job's document; the value None removes one."""

        def edit(document: Document) -> None:
            for key, value in facts.items():
                if value is None:
                    document.pop(key, None)
                else:
                    document[key] = value

        self.job = jobs.change(self.world, self.job_id, edit)

    def head(self) -> str:
        """The integration head."""
        found = self.git.resolve(self.job["integrationRef"])
        assert found is not None, "the integration ref was made before units ran"
        return found
