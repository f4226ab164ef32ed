"""A leased worktree under observation, on a clock that the test turns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import kinds
from ktxkit.observer import observe
from ktxkit.observer.attach import Attached, attach
from ktxkit.observer.attempt import ObserverAttempt
from ktxkit.observer.reconcile import Reconciler, Reconciliation
from ktxkit.observer.rules.clocks import Settings
from ktxkit.observer.scan import Level
from ktxkit.store.active import ActiveJob
from ktxkit.store.leases import LeaseLocation, path_of
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.bare_patches import UnitRequest, open_by_hand
from tests.support.clocks import TurnedClock
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease, ObserverStatus


@dataclass
class Observed:
    """One unit's worktree. `look` reconciles by an observer that stays attached, as a watcher does."""

    repo: Repo
    clock: TurnedClock
    world: World
    unit: str = "u1"
    settings: Settings | None = None
    reconciler: Reconciler | None = field(default=None, init=False)

    @classmethod
    def open(
        cls, repo: Repo, unit: str = "u1", settings: Settings | None = None, *, real_time: bool = False
    ) -> Observed:
        """`real_time`: where threads wait for each other, a clock that only they turn would run away."""
        clock = TurnedClock()
        world = World(repo.path, os.environ, clock=None if real_time else clock)
        open_by_hand(world, UnitRequest("j1", unit))
        return cls(repo, clock, world, unit, settings)

    @property
    def job(self) -> ActiveJob:
        return ActiveJob.load(self.world, "j1")

    @property
    def place(self) -> LeaseLocation:
        return LeaseLocation.of_unit(self.job, self.job.unit(self.unit))

    @property
    def lease(self) -> Lease:
        found = self.place.lease()
        assert found is not None
        return found

    def change_lease(self, **facts: Any) -> None:
        self.place.write(kinds.LEASE, cast("Lease", {**self.lease, **facts}))

    @property
    def tree(self) -> Repo:
        return Repo(path_of(self.lease))

    @property
    def directory(self) -> Path:
        return self.attempt.path("x").parent

    @property
    def attempt(self) -> ObserverAttempt:
        """Read anew from the disk."""
        return ObserverAttempt.of(self.place, self.lease)

    @property
    def records(self) -> list[ActivityRecord]:
        return self.attempt.chain.records

    def events(self) -> list[str]:
        return [record["event"] for record in self.records]

    def attach(self, *, bump: bool = True) -> Attached:
        attached = attach(self.place, self.lease, self.settings, bump=bump)
        self.reconciler = Reconciler(attached)
        return attached

    def look(self, level: Level = Level.STAT, source: str = "periodic") -> Reconciliation:
        """Reconcile by the attached observer; attach first where there is none."""
        if self.reconciler is None:
            self.attach()
        assert self.reconciler is not None
        return self.reconciler.reconcile(source, level)

    def restart(self) -> None:
        """The observer is gone; the next look is by a new one."""
        self.reconciler = None

    def status(self) -> ObserverStatus:
        return observe.status(self.place, self.lease)

    def proof(self, receipt: str = "r1", **more: Any) -> ActivityRecord | None:
        world = World(self.tree.path, os.environ, ktx_dir=str(self.world.store.root), clock=self.clock)
        return observe.record_proof(
            ActiveJob(world, self.job.document), self.job.unit(self.unit), receipt=receipt, **more
        )

    def suspect_in(self) -> float | None:
        """Seconds until the deadline."""
        found = self.status()["deadlines"]
        return found["suspectInMs"] / 1000 if "suspectInMs" in found else None

    def write_over(self, name: str, content: str) -> None:
        """Write a file; its times are well before the next look, so that a stat key may vouch for it."""
        path = self.tree.write(name, content)
        past = path.stat().st_mtime - 100
        os.utime(path, (past, past))

    def chain_file(self, segment: int = 1) -> Path:
        name = "activity.jsonl" if segment == 1 else f"activity-{segment}.jsonl"
        return self.world.store.path(names.observer_file(self.attempt.name, name))
