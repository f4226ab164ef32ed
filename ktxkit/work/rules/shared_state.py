"""What of the configuration that all worktrees share is put back after a unit changed it, and what is left.

A unit is one of many: what it writes there (hooks of a package manager, an identity, filters) would act in every other
worktree and in the user's own checkout. Left alone is what git itself writes while people work: branches that are
tracked, remotes and submodules that are new, worktree configuration.

What changed around a unit that it must not touch: two fingerprints compared, each change named.

What belongs among the documents of jobs: every name that ktxkit gives there. Anything else was put there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ktxkit.base.rules.named import NamedTuple

Values = Mapping[str, Sequence[bytes]]  # key, as git prints it, to its values in order
PROGRAMS = ("uploadpack", "receivepack", "vcs", "proxy")  # what a remote may name that git runs or goes through
WORKTREE_CONFIG = "extensions.worktreeconfig"
MOVED = ("core.bare", "core.worktree", "core.repositoryformatversion")  # by git, when worktree configuration begins


def to_put_back(old: Values, new: Values) -> list[str]:
    """Keys whose old values are wanted again, sorted."""
    begins = WORKTREE_CONFIG in new and WORKTREE_CONFIG not in old
    changed = sorted(key for key in old.keys() | new.keys() if list(old.get(key, ())) != list(new.get(key, ())))
    return [key for key in changed if not _is_git_at_work(key, key in old, begins)]


def _is_git_at_work(key: str, known: bool, begins: bool) -> bool:
    section, last = key.partition(".")[0], key.rpartition(".")[2]
    if section == "branch":
        return True
    if section in ("remote", "submodule"):
        return not known and last not in (*PROGRAMS, "update")
    return key.startswith(("core.sparsecheckout", "maintenance.")) or (
        begins and (key == WORKTREE_CONFIG or key in MOVED)
    )


def change_word(known: bool, there: bool) -> str:
    """The word for a change, as the fingerprint has it."""
    return "added" if not known else "changed" if there else "removed"


Facts = Mapping[tuple[str, str], str]  # (kind, name) -> a value that is equal while the thing is unchanged

CHECKOUT = "checkout"  # HEAD, branch, operations in progress and every path that git status has a line for
REFS = "refs"  # branches and tags
STASH = "stash"
CONFIG = "config"  # keys of the shared configuration, never their values; attributes, exclude rules, alternates
HOOKS = "hooks"
SIBLING = "sibling"  # worktrees of units that nobody should be working in
DOCUMENT = "document"  # documents of the job that are written once, and what never changes of a lease
JOURNAL = "journal"  # files that may only grow; the value is `inode:size`
JOB = "job"  # other jobs
STORE = "store"  # files at the store's top, where none of ours are but one


class SharedChange(NamedTuple):
    """One thing that is not as it was. `change` is `added`, `removed` or `changed`."""

    kind: str
    name: str
    change: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.change}"


def differences(
    before: Facts, after: Facts, busy: Collection[str] = (), working: Collection[str] = ()
) -> list[SharedChange]:
    """Every change between two fingerprints, sorted.

    `busy` names the units (`0001-key`) that were at work or were handled in between: their own documents may change;
    `working` those at work: their worktrees may. New documents and new jobs are no change; a journal that grew is none.
    """
    units = [{name for kind, name in facts if kind == SIBLING and "/" not in name} for facts in (before, after)]
    watched = (units[0] & units[1]) - set(working)
    found = []
    for key in before.keys() | after.keys():
        kind, name = key
        if before.get(key) == after.get(key) or _is_expected(kind, name, before.get(key), after.get(key), busy):
            continue
        if kind == SIBLING and name.partition("/")[0] not in watched:
            continue
        how = "added" if key not in before else "removed" if key not in after else "changed"
        found.append(SharedChange(kind, name, how))
    return sorted(found, key=lambda change: (change.kind, change.name))


def _is_expected(kind: str, name: str, old: str | None, new: str | None, busy: Collection[str]) -> bool:
    if kind in (DOCUMENT, JOB, JOURNAL) and old is None:
        return True
    if kind == DOCUMENT:
        return any(unit in busy for unit in name.replace(".patch", "").split("/"))
    if kind == JOURNAL and old is not None and new is not None:
        (was_inode, was_size), (inode, size) = old.split(":"), new.split(":")
        return was_inode == inode and int(size) >= int(was_size)
    return False


def summary(changes: Collection[SharedChange], limit: int = 20) -> list[str]:
    """The changes as lines for a trace or a report; what is beyond `limit` is counted."""
    lines = [str(change) for change in list(changes)[:limit]]
    return lines if len(changes) <= limit else [*lines, f"... {len(changes) - limit} more"]


JOB_ENTRIES = frozenset(
    {"job.json", "report.json", "verdict.json", "job-file.json", "ingest.json", "ingest-outcome.json"}
    | {"raw-snapshot.json", "knowledge-index.json", "projected.json", "units", "raw", "verified", "verifications"}
    | {f"{name}{end}.json" for name in ("landing", "verification") for end in ("", "-intent")}
)
UNIT = frozenset(
    {f"{name}.json" for name in ("opening", "lease", "patch", "verdict", "intent", "receipt", "sentinel", "result")}
    | {"work-unit.json", "actions.json", "stdout.log", "stderr.log"}
)
_PUT_BY = re.compile(r"(landing|job-file)-[1-9][0-9]*\.json")  # an earlier one, before another follows it
_MADE = re.compile(r"\.lock|(stdout|stderr)-[1-9][0-9]*\.log|verify-[0-9a-f]+-[0-9a-f]+\.log|\..*\.tmp")


def unknown(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Names that are no document of ours, sorted; what is written aside or locks one is ours."""
    return sorted(name for name in names if name not in known and not _MADE.fullmatch(name))


def unknown_of_job(names: Iterable[str]) -> list[str]:
    """Names in the directory of a job that are none of ours there, sorted."""
    return [name for name in unknown(names, JOB_ENTRIES) if not _PUT_BY.fullmatch(name)]


def is_earlier_attempt(name: str, units: Collection[str]) -> bool:
    """Whether it is where another attempt of a unit has, or had, its worktree."""
    unit, mark, number = name.rpartition(".attempt-")
    return bool(mark) and number.isdecimal() and unit in units
