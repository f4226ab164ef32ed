"""List every worktree: branch or unit, how far from its target, what is not committed, age, who works there, what next.

reads    the worktrees of the repository, .ktx/ (leases), /proc for who works where
writes   nothing
exits    0 listed, 2 not a repository, 5 a damaged lease (it is named, the others are listed)
example  git ktx list
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.app import cleaning, cli
from ktxkit.base import owners
from ktxkit.base.errors import BrokenContract
from ktxkit.base.identity import processes_inside
from ktxkit.base.owners import Owner, OwnerState
from ktxkit.base.process import words_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, plural, printable
from ktxkit.git.git import Git
from ktxkit.store import leases
from ktxkit.store.rules.worktrees import is_evidence
from ktxkit.work.rules.report import milliseconds

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, Lease, WorktreeRow
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    return cli.Parser("git ktx list", __doc__)


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views

    rows, damaged = listed(world)
    document = {"damaged": damaged} if damaged else {}
    lines = [*table(rows), *views.damaged_lines(document)]
    data = {"worktrees": [{key: value for key, value in row._asdict().items() if value} for row in rows], **document}
    return cli.Result(views.outcome(document), lines=lines, data=data)


SHORT = re.compile(rb"(\d+) (insertion|deletion)")
AT_WORK_SHOWN = 3  # processes of one worktree
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))  # seconds


class ListedWorktree(NamedTuple):
    """One worktree. `changed`: paths that are not committed; `added`, `removed`: lines of tracked ones among them.

    `age`: seconds since it was opened, None where no lease says; `workers`: who is at work in it.
    """

    name: str
    path: str
    what: str
    branch: str = ""
    target: str = ""
    ahead: int = 0
    behind: int = 0
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
    held: dict[str, Lease] = {}
    for place in leases.all_locations(world):
        lease = _lease(place)
        if lease is not None:
            held[lease["path"]] = lease
    main = (world.repository.branch(world.git) or "").removeprefix("refs/heads/") if world.repository.top else ""
    first = next((row.get("branch", "") for row in known["worktrees"] if row["kind"] == "main"), "")
    default = first.removeprefix("refs/heads/") or main
    return [_one(world, row, held.get(row["path"]), default) for row in known["worktrees"]], list(
        known.get("damaged", ())
    )


def _lease(place: leases.LeaseLocation) -> Lease | None:
    try:
        return place.lease()
    except BrokenContract:
        return None  # it is among the damaged ones


def _one(world: World, row: WorktreeRow, lease: Lease | None, default: str) -> ListedWorktree:
    path = Path(os.fsdecode(path_bytes(row)))
    branch = row.get("branch", "").removeprefix("refs/heads/")
    target = (lease.get("target", "") if lease else "").removeprefix("refs/heads/") or default
    made = ListedWorktree(_name(row, branch, path), str(path), _what(row, branch), branch)
    if lease is not None:
        now = world.clock.now().timestamp() * 1000
        made = made._replace(age=max(0.0, (now - milliseconds(lease["openedAt"])) / 1000))
    if "dead" in row or not row["present"]:
        gone = "" if row["present"] else ", its directory is gone"
        if is_evidence(row):
            return made._replace(state=f"kept as evidence: {row['dead']}")
        return made._replace(state=f"left over: {row.get('dead', 'closed')}{gone}", next="git ktx clean")
    made = _measured(world.git.at(path), made, target if row["kind"] != "main" else "")
    if row["kind"] == "main":
        return made  # who stands in the others stands in it, too
    made = made._replace(workers=tuple(_workers(path, lease, world.store.root)))
    return made._replace(next=_next(row, made))


def _name(row: WorktreeRow, branch: str, path: Path) -> str:
    if "unitKey" in row:
        return f"{row['jobId']}/{row['unitKey']}"
    return branch or (f"{path.parent.name}/{path.name}" if _is_checkout_of_a_job(path) else path.name)


def _is_checkout_of_a_job(path: Path) -> bool:
    """Whether candidates of a job were verified in it."""
    return path.name == "integration" and path.parent.parent.name == "worktrees"


def _what(row: WorktreeRow, branch: str) -> str:
    if row["kind"] == "main":
        return "main checkout"
    if "unitKey" in row:
        kept = f", kept as {row['outcome']}" if row.get("state") == "closed" and "outcome" in row else ""
        return f"unit{kept}"
    if not branch and _is_checkout_of_a_job(Path(row["path"])):
        return "verified in"
    return "branch" if branch else "detached"


def _measured(git: Git, made: ListedWorktree, target: str) -> ListedWorktree:
    """What git says of it; as it is where git cannot read it."""
    status = git.run("status", "--porcelain=v1", "-z", "--no-renames", ok=(0, 128), twice=(128,))
    if status.status != 0:
        return made._replace(state="git cannot read it: git ktx doctor")
    stat = git.run("diff", "--shortstat", "--no-ext-diff", "HEAD", "--", ok=(0, 128), twice=(128,)).out
    lines = {word: int(count) for count, word in SHORT.findall(stat)}
    made = made._replace(changed=len(status.nul), added=lines.get(b"insertion", 0), removed=lines.get(b"deletion", 0))
    if not target or target == made.branch or git.resolve(f"refs/heads/{target}") is None:
        return made
    counts = git.run("rev-list", "--left-right", "--count", f"refs/heads/{target}...HEAD").text.split()
    return made._replace(target=target, behind=int(counts[0]), ahead=int(counts[1]))


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


def _next(row: WorktreeRow, made: ListedWorktree) -> str:
    if row["kind"] == "main" or made.workers or row.get("state") == "closed":
        return ""
    if "unitKey" in row:
        return f"patch-collect --job {row['jobId']} --unit {row['unitKey']}"
    if not row.get("state"):
        return ""  # a worktree of git's own: somebody else's affair
    if made.changed and not made.ahead:
        return f"git ktx land {made.name} --squash"
    if made.ahead:
        return f"git ktx land {made.name}"
    return f"worktree-close {made.name}"


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
