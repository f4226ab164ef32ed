"""Jobs on real repositories for the tests of collecting, applying and landing."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.clock import LIMITS, FixedClock, Limits
from ktxkit.base.contracts import Document
from ktxkit.git.neutral import open_neutral
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work import bare_patches, closing, collect, integrate, land

if TYPE_CHECKING:
    from ktxkit.base import documents
    from ktxkit.base.documents import LandingReceipt, LeasePolicy, Patch, Receipt
from tests.support.repos import Repo

Edit = Callable[[Repo], object]


def world_at(path: Path, limits: Limits = LIMITS) -> World:
    """The world of a checkout, with a fixed clock."""
    clock = FixedClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), step=0.001)
    return World(path, os.environ, clock=clock, limits=limits)


@dataclass
class Job:
    """A job under test."""

    repo: Repo
    active: ActiveJob
    units: dict[str, Unit] = field(default_factory=dict)

    @classmethod
    def begin(cls, repo: Repo, job_id: str = "j1", target: str = "refs/heads/main", limits: Limits = LIMITS) -> Job:
        world = world_at(repo.path, limits)
        base = repo.git("rev-parse", target)
        return cls(repo, jobs.create(world, job_id, target=target, base=base))

    @property
    def world(self) -> World:
        return self.active.world

    @property
    def document(self) -> documents.Job:
        return self.active.document

    def open(self, key: str, base: str = "", policy: LeasePolicy | None = None) -> Repo:
        """Open a unit; returns its worktree."""
        unit = self.active.add_unit(key)
        self.units[key] = unit
        lease = closing.open_unit(self.active, unit, base=base or self.document["base"], policy=policy)
        return self.repo.at(Path(lease["path"]))

    def collect(self, key: str, *, include_uncommitted: bool = True) -> Patch:
        unit = self.units[key]
        return collect.collect_unit(self.active, unit, include_uncommitted=include_uncommitted)

    def apply(self, key: str, **options: Any) -> Receipt:
        unit = self.units[key]
        return integrate.apply_unit(self.active, unit, options=integrate.ApplyOptions(**options))

    def unit(self, key: str, edit: Edit, base: str = "", policy: LeasePolicy | None = None, **options: Any) -> Receipt:
        """Open, edit, collect, apply: the receipt."""
        edit(self.open(key, base, policy))
        self.collect(key)
        return self.apply(key, **options)

    def land(self, **how: Any) -> LandingReceipt:
        return land.land(self.active, **how)

    def doc(self, key: str, name: str) -> Document | None:
        unit = self.units[key]
        place = names.unit_doc(self.active.id, unit.position, unit.key, name)
        return self.world.store.read_optional(name, place)

    @property
    def head(self) -> str:
        return self.repo.git("rev-parse", self.document["integrationRef"])


def script(path: Path, body: str) -> str:
    """A shell script to run as a verify command."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def give(job: Job, key: str, files: Mapping[str, str], base: str = "") -> None:
    """A collected patch without a worktree: files added or replaced on the base, by plumbing."""
    repo, start = job.repo, base or job.document["base"]
    unit = job.active.add_unit(key)
    job.units[key] = unit
    place = (job.document["jobId"], unit.position, key)
    path = job.world.writable_store.path(names.patch_file(*place))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": f"{scratch}/index"}
        plumb(repo, "read-tree", start, env=index)
        for name, content in files.items():
            oid = plumb(repo, "hash-object", "-w", "--stdin", stdin=content.encode()).strip()
            plumb(repo, "update-index", "--add", "--cacheinfo", f"100644,{oid},{name}", env=index)
        tree = plumb(repo, "write-tree", env=index).strip()
    path.write_bytes(repo.git_bytes("diff-tree", "-r", "-p", "--binary", "--full-index", start, tree))
    with open_neutral(job.world) as neutral:
        document = bare_patches.bare_document(job.world, neutral, path, start)
    identity = {"jobId": place[0], "unitKey": key, "position": unit.position}
    job.world.store.write("patch", names.unit_doc(*place, "patch"), document | identity, durable=False)


def plumb(repo: Repo, *args: str, stdin: bytes = b"", env: Mapping[str, str] = {}) -> str:
    """A git call with more environment."""
    done = subprocess.run(
        ["git", *args], cwd=repo.path, input=stdin, capture_output=True, check=True, env={**os.environ, **env}
    )
    return done.stdout.decode()
