"""What a person should know of a change that lands: in the job's warnings and in its trace, never a reason to refuse.

An old blob that comes back: a unit that was made from a stale copy takes a fix back, and looks like any other change.
A submodule at a commit that no remote of it has, where the job allows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktxkit.base import kinds
from ktxkit.base.rules.text import printable
from ktxkit.git.git import Git
from ktxkit.git.rules.patch import Entry, entries_of
from ktxkit.store.active import Unit
from ktxkit.work.job.state import JobRun

RESTORES = "restores_old_content"
UNPUBLISHED = "unpublished_submodule"
PATHS_LOOKED_AT = 500  # of one job: the history of each is walked
KEPT = 10_000


def write(run: JobRun, outcomes: Mapping[str, str]) -> None:
    """Say it of every accepted unit. Raises GitFailed."""
    accepted = [unit for unit in run.job.units if outcomes.get(unit.key) == "accepted"]
    told = [*_unpublished(run, accepted), *_restored(run, accepted)]
    if told:
        run.update(warnings=list(dict.fromkeys([*run.job.document.get("warnings", ()), *told]))[:KEPT])


def _unpublished(run: JobRun, units: Sequence[Unit]) -> Iterator[str]:
    for unit in units:
        patch = run.job.read(kinds.PATCH, "patch", unit)
        for item in patch.get("unpublished", ()) if patch is not None else ():
            facts = {"unitKey": unit.key, "path": item["path"]}
            run.tracer.emit("integration", UNPUBLISHED, facts, level="info")
            yield f"{unit.key}: submodule {item['path']} is at a commit that no remote of it has ({UNPUBLISHED})"


def _restored(run: JobRun, units: Sequence[Unit]) -> Iterator[str]:
    changed: list[tuple[Unit, Entry]] = []
    for unit in units:
        patch = run.job.read(kinds.PATCH, "patch", unit)
        entries = entries_of(patch) if patch is not None else []
        changed += [(unit, e) for e in entries if e.new.kind in ("regular", "executable") and e.new.oid != e.old.oid]
    earlier = replaced(run.git, run.job.document["targetAtStart"], [e.path for _, e in changed[:PATHS_LOOKED_AT]])
    for unit, entry in changed:
        commit = earlier.get((entry.path, entry.new.oid))
        if commit is None:
            continue
        path = printable(entry.path)
        facts = {"unitKey": unit.key, "path": path, "blob": entry.new.oid, "replacedBy": commit}
        run.tracer.emit("integration", RESTORES, facts, level="info")
        yield f"{unit.key}: {path} is again as it was before commit {commit[:12]} changed it ({RESTORES})"


def replaced(git: Git, commit: str, paths: Sequence[bytes]) -> dict[tuple[bytes, str], str]:
    """For each path and blob that a branch once had there and has no more: the newest commit that replaced it.

    By first parents: what came in by a merge is the merge's. Raises GitFailed.
    """
    found: dict[tuple[bytes, str], str] = {}
    if not paths:
        return found
    how = ("--first-parent", "-m", "--raw", "-z", "--no-renames", "--no-abbrev", "--format=commit %H")
    at, fields = "", iter(git.run("log", *how, commit, "--", *sorted(set(paths))).nul)
    for field in fields:
        line = field.lstrip(b"\n")
        if line.startswith(b"commit "):
            at = line[7:].decode("ascii")
        elif line.startswith(b":"):
            old = line.split(b" ")[2].decode("ascii")
            found.setdefault((next(fields), old), at)
    return found
