"""Which lease a closing means, and what a person is told of it."""

from __future__ import annotations

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import plural, printable
from ktxkit.store import jobs
from ktxkit.store.leases import LEASE, Place, every_place, lease_here
from ktxkit.store.world import World


def place(world: World, name: str, job: str | None, unit: str | None) -> Place:
    """The place that is named, of a unit or without a job; else that of the worktree the world stands in."""
    if name:
        return _named(world, name)
    if job is None and unit is None:
        here = lease_here(world)
        if here is not None:
            return here[0]
    document, found = jobs.need_unit(world, job, unit)
    made = Place.of_unit(world, document, found)
    if made.read(LEASE) is None:
        raise CannotRun(f"unit {found.key!r} of {document['jobId']} has no worktree", hint="open it with worktree-open")
    return made


def _named(world: World, name: str) -> Place:
    """A worktree without a job: by the name of its documents, or by its branch."""
    for found in every_place(world):
        lease = found.read(LEASE)
        if lease is None or "jobId" in lease:
            continue
        if found.directory == Place.adhoc(world, name).directory or lease.get("branch") == f"refs/heads/{name}":
            return found
    raise CannotRun(f"no worktree named {name!r}", hint="`worktree-open --list` shows those there are")


def notes(lease: Document) -> list[str]:
    """What was kept, and where."""
    said = [f"kept at {lease['atticRef']}"] if "atticRef" in lease else []
    if "leftOut" in lease:
        left = lease["leftOut"]
        names = ", ".join(printable(item["path"]) for item in left["sample"][:5])
        more = ", ..." if left["count"] > 5 else ""
        said.append(f"the worktree stays: {plural(left['count'], 'untracked file')} not collected ({names}{more})")
    branch = lease.get("branch", "").removeprefix("refs/heads/")
    return said + ([f"branch {branch} stays: it has commits that nothing else has"] if lease.get("branchKept") else [])
