"""What a job may have around it: an ingestion plans it, tells its units more, and writes down what came of them.

Each method is a place where a plain job does nothing. A method that raises ends the job in the phase that `run.phase`
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base.contracts import Document
from ktxkit.work.rules.job_file import UnitPlan

if TYPE_CHECKING:
    from ktxkit.work.job.state import JobRun


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

    def replay(self, run: JobRun, plan: UnitPlan, place: Path) -> str:
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

    def closing(self, run: JobRun, outcome: str, failure: Document | None) -> None:
        """The job's document has its end; the report is made next."""
